"""The nightly suites' plan and results → a point for each suite, and what the night says; pure.

`runci verify`'s own function judges each suite, as if it were planned alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from runci.core.result import FileResult
from runci.nightly.history.additions import Addition
from runci.nightly.history.lines import Point, SeriesHeader, SuiteNight
from runci.nightly.record import EXACT, Direction, SeriesId
from runci.plan.model import Plan, PlannedSuite
from runci.results.read import Found
from runci.results.verify import Kind, Verdict, verify

BENCHMARK = "suites"  # of these series, which no command of perf.yml measures
VERSION = "1"


@dataclass(frozen=True, slots=True)
class RunOf:
    """Which run of the nightly these results are of."""

    night: str
    at: str
    run_id: str
    run_url: str = ""


def suite_nights(
    plan: Plan, found: Found, run: RunOf
) -> tuple[tuple[SuiteNight, ...], tuple[Addition, ...]]:
    """Each planned suite's night, and its point.

    A suite none of whose files has a result did not run: its point says so and does not count, as
    for a night without figures. One that ran in part has failed.
    """
    often = Counter(suite.name for suite in plan.suites)
    nights, additions = [], []
    for suite in plan.suites:
        results = _results_of(suite, plan, found.results)
        verdict = _verdict(suite, plan, results, found.broken)
        name = suite.name if often[suite.name] == 1 else f"{suite.name} ({suite.backend})"
        nights.append(_night(name, verdict, [result for _, result in results]))
        additions.append(_addition(name, suite, verdict, plan, run))
    return tuple(nights), tuple(additions)


def series_of(name: str, runner: str | None) -> SeriesId:
    """The series of a suite. Its machine is the kind of runner, which is known even when none ran.

    Bits and tests do not depend on the driver's version, so that a new one starts no new series.
    """
    return SeriesId(f"suite {name}", BENCHMARK, VERSION, runner or "cpu", 0)


def _results_of(
    suite: PlannedSuite, plan: Plan, results: Iterable[tuple[str, FileResult]]
) -> list[tuple[str, FileResult]]:
    """This suite's results, and those of no suite of the plan: each suite has to explain them."""
    planned = {(one.backend, one.name) for one in plan.suites}
    own = (suite.backend, suite.name)
    return [
        (path, result)
        for path, result in results
        if (result.backend, result.suite) == own or (result.backend, result.suite) not in planned
    ]


def _verdict(
    suite: PlannedSuite,
    plan: Plan,
    results: Iterable[tuple[str, FileResult]],
    broken: tuple[str, ...],
) -> Verdict:
    alone = replace(plan, suites=(suite,))
    # A result names its plan by digest: those of this plan become results of the smaller one.
    moved = tuple(
        (path, replace(result, plan=alone.digest) if result.plan == plan.digest else result)
        for path, result in results
    )
    return verify(alone, Found(moved, broken))


def _night(name: str, verdict: Verdict, results: Sequence[FileResult]) -> SuiteNight:
    last: dict[str, FileResult] = {}
    for result in sorted(results, key=lambda result: result.attempt):
        last[result.path] = result
    # A file that failed otherwise, such as by a crash, counts as one.
    failed = sum(result.failed or int(not result.outcome.green) for result in last.values())
    return SuiteNight(
        name,
        executed=verdict.tests,
        failed=failed,
        skipped=verdict.skipped,
        failures=tuple(p.text for p in verdict.problems if p.kind is Kind.FAILED),
        problems=tuple(
            f"{p.kind.value}: {p.text}" for p in verdict.problems if p.kind is not Kind.FAILED
        ),
    )


def _addition(name: str, suite: PlannedSuite, verdict: Verdict, plan: Plan, run: RunOf) -> Addition:
    ran = verdict.files > 0
    problems = [problem.text for problem in verdict.problems]
    said = f"{verdict.tests} tests in {verdict.files} files"
    more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    point = Point(
        run.night,
        run.at,
        run.run_id,
        plan.commit,
        passed=verdict.green if ran else None,
        detail=f"{problems[0]}{more}" if problems else said,
        unusable=() if ran else ("none of the suite's files has a result",),
        run_url=run.run_url,
    )
    return Addition(SeriesHeader(series_of(name, suite.runner), EXACT, Direction.HIGHER), (point,))
