"""Plan and results → whether every planned file ran exactly once and executed tests; pure."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from runci.core.machine import declaration, mismatch
from runci.core.registration import Backend
from runci.core.result import FileResult, Key, Outcome, by_class, not_made_good
from runci.core.unfit import Unfit
from runci.plan.model import Plan, PlannedSuite, faults
from runci.plan.show import not_planned
from runci.results.read import Found
from runci.text.wording import plural

NO_TESTS_STATUS = 5
Planned = tuple[str, tuple[str, ...]]  # the shard, and the tests of the file; none: all of them
Runs = tuple[str, str, str]  # backend, suite and the tool that its shards run under, or ""
# By file, then by attempt: the results and where each was read.
Attempts = dict[Key, dict[int, list[tuple[str, FileResult]]]]


def by_attempt(results: Iterable[tuple[str, FileResult]], plan: Plan) -> tuple[Attempts, list[str]]:
    """The results of this plan by file and attempt; of the others, what is wrong."""
    planned = {
        (suite.backend, suite.name, file.path, shard.under or ""): (shard.id, file.only)
        for suite in plan.suites
        for shard in suite.shards
        for file in shard.files
    }
    attempts: Attempts = {}
    foreign: list[str] = []
    for path, result in results:
        fault = _foreign(result, plan, planned)
        if fault is not None:
            foreign.append(f"{path}: {fault}")
        else:
            of_file = attempts.setdefault(result.key, {})
            of_file.setdefault(result.attempt, []).append((path, result))
    return attempts, foreign


def without_copies(
    results: Sequence[tuple[str, FileResult]],
) -> tuple[list[tuple[str, FileResult]], int]:
    """Each record once: the same run downloaded twice did not run twice."""
    seen: set[str] = set()
    kept = []
    for path, result in results:
        record = result.to_json()
        if record not in seen:
            kept.append((path, result))
        seen.add(record)
    return kept, len(results) - len(kept)


def _foreign(result: FileResult, plan: Plan, planned: Mapping[Key, Planned]) -> str | None:
    if result.plan is None:
        return f"{result.path} was run without a plan"
    if result.plan != plan.digest:
        return f"{result.path} was run for the plan {result.plan[:12]}, not {plan.digest[:12]}"
    if result.commit != plan.commit:
        commit = result.commit[:12] or "an unknown commit"
        return f"{result.path} was run at {commit}, but the plan is of {plan.commit[:12]}"
    found = planned.get(result.key)
    if found is None:
        tool = f" under {result.under}" if result.under else ""
        return f"{result.path} is not planned in {result.backend} {result.suite}{tool}" + (
            _other_tools(result, planned)
        )
    shard, only = found
    if shard != result.shard:
        return f"{result.path} was run in shard {result.shard}, but is planned in {shard}"
    if result.selected:
        return f"{result.path} was run with {result.selected.shown}: that is a part of it"
    if only != result.only:
        parts = [" ".join(part) or "the whole file" for part in (result.only, only)]
        return f"{result.path} was run for {parts[0]}, but what is planned is {parts[1]}"
    return None


def _other_tools(result: FileResult, planned: Mapping[Key, Planned]) -> str:
    """«, but under racecheck»: a run under one tool, or none, says nothing of another."""
    tools = sorted(key[3] for key in planned if key[:3] == result.key[:3])
    named = [f"under {tool}" if tool else "without a tool" for tool in tools]
    return f", but {' and '.join(named)}" if named else ""


class Kind(str, enum.Enum):
    """What is wrong, as a heading; in the order of the report."""

    PLAN = "The plan is at fault"
    UNREADABLE = "Results that cannot be read"
    FAILED = "Failed"
    NOT_RUN = "Executed no tests"
    JOB = "Planned, but without a job that succeeded"
    MACHINE = "The machine could not run them; no test is to blame"
    MISSING = "Planned, but without a result"
    DOUBLED = "Ran more than once in one attempt"
    FOREIGN = "Not of this plan"
    ELSEWHERE = "Ran on another machine than declared"
    FLAKY = "Passed only when repeated"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong; `files` is how many files it speaks of."""

    kind: Kind
    text: str
    files: int = 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """Green where there is no problem. `reruns` say which attempts a later one replaced, `classes`
    how many attempts, of all, failed in which way, as those who ran them say."""

    problems: tuple[Problem, ...]
    suites: int
    files: int
    tests: int
    skipped: int
    deselected: int = 0
    reruns: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    classes: str = ""

    @property
    def green(self) -> bool:
        """Whether the results are what was planned."""
        return not self.problems


def verify(
    plan: Plan,
    found: Found,
    *,
    plan_path: str = "plan.json",
    allow_empty: bool = False,
    flaky_fails: bool = False,
    more: Iterable[Problem] = (),
) -> Verdict:
    """Compare the results with the plan. `allow_empty` accepts a plan without suites.

    `plan_path` is the plan's file, for the commands that repeat what is missing; `more` is what
    others found wrong.
    """
    results, copies = without_copies(found.results)
    attempts, foreign = by_attempt(results, plan)
    problems = [Problem(Kind.FOREIGN, text) for text in foreign]
    problems += _plan_problems(plan, allow_empty)
    problems += [*more, *(Problem(Kind.UNREADABLE, text) for text in found.broken)]
    problems += [problem for of_file in attempts.values() for problem in _doubled(of_file)]
    last = {key: of_file[max(of_file)][-1][1] for key, of_file in attempts.items()}
    limits = {(suite.backend, suite.name): suite.max_deselected for suite in plan.suites}
    problems += [
        p
        for result in last.values()
        if (p := _unsuccessful(result, limits.get((result.backend, result.suite)))) is not None
    ]
    problems += [p for of_file in attempts.values() if (p := _not_mended(of_file)) is not None]
    problems += _missing(plan, plan_path, set(last), found.unfit)
    problems += _elsewhere(plan, last)
    problems += _idle_suites(plan, last)
    flaky = sorted(_flaky(last, attempts))
    if flaky_fails:
        problems += [Problem(Kind.FLAKY, text) for text in flaky]
    order = list(Kind)
    return Verdict(
        tuple(sorted(problems, key=lambda p: (order.index(p.kind), p.text))),
        suites=len(plan.suites),
        files=len(last),
        tests=sum(result.tests for result in last.values()),
        skipped=sum(len(result.skipped) for result in last.values()),
        deselected=sum(result.deselected for result in last.values()),
        reruns=tuple(sorted(_reruns(attempts))),
        flaky=tuple(flaky),
        classes=by_class(run for runs in attempts.values() for run in _newest(runs)),
        notes=(*not_planned(plan), *_notes(last, copies), *_not_compared(plan, last)),
    )


def _plan_problems(plan: Plan, allow_empty: bool) -> list[Problem]:
    problems = [Problem(Kind.PLAN, text) for text in faults(plan)]
    if not allow_empty and not any(shard.files for s in plan.suites for shard in s.shards):
        problems.append(Problem(Kind.PLAN, "it holds no test (--allow-empty accepts that)"))
    return problems


def _doubled(attempts: dict[int, list[tuple[str, FileResult]]]) -> Iterable[Problem]:
    for attempt, runs in sorted(attempts.items()):
        if len(runs) > 1:
            places = ", ".join(path for path, _ in runs)
            result = runs[0][1]
            yield Problem(Kind.DOUBLED, f"{_title(result)}, attempt {attempt}: {places}")


def _unsuccessful(result: FileResult, max_deselected: int | None) -> Problem | None:
    """What speaks against a result, its own outcome not believed but checked."""
    passed = result.outcome in (Outcome.PASSED, Outcome.FLAKY)
    if result.outcome is Outcome.NO_TESTS or (passed and result.tests < 1):
        return Problem(Kind.NOT_RUN, _with_message(_title(result), result))
    if not result.outcome.green:
        end = f"{_title(result)}: {result.end}{_how(result)}"
        return Problem(Kind.FAILED, _with_message(end, result))
    # pytest's status for no tests, as of a module that is skipped whole.
    idle = result.outcome is Outcome.EXCUSED and result.exit_status == NO_TESTS_STATUS
    status = None if idle else result.exit_status
    if any((result.failed, result.failed_tests, status, result.signal, result.errors)):
        end = f"{_title(result)}: says {result.outcome.value}, but has {_contradiction(result)}"
        return Problem(Kind.FAILED, end)
    if max_deselected is not None and result.deselected > max_deselected:
        end = f"{plural(result.deselected, 'tests')} deselected, but its suite allows"
        text = f"{_title(result)}: {end} {max_deselected} in a file (max_deselected)"
        return Problem(Kind.FAILED, text)
    return None


def _not_mended(attempts: dict[int, list[tuple[str, FileResult]]]) -> Problem | None:
    """A green end after a failure, of which nothing shows that what failed is whole again."""
    runs = _newest(attempts)
    still = not_made_good(runs)
    if still and runs[-1].outcome.green:
        more = f" (and {len(still) - 1} more)" if len(still) > 1 else ""
        said = f"{still[0]}{more} failed, and no later attempt passed it"
        return Problem(Kind.FAILED, f"{_title(runs[-1])}: {said}")
    ran = [run for run in runs if run.outcome is not Outcome.EXCUSED]
    if runs[-1].outcome is not Outcome.EXCUSED or not ran or ran[-1].outcome.green:
        return None
    end = f"attempt {ran[-1].attempt} {ran[-1].outcome.value}, then it was skipped"
    return Problem(Kind.FAILED, f"{_title(runs[-1])}: {end}")


def _contradiction(result: FileResult) -> str:
    if result.failed or result.failed_tests:
        return plural(result.failed or len(result.failed_tests), "failed tests")
    if result.errors:
        return f"{plural(len(result.errors), 'errors')} of {result.under}"
    return f"signal {result.signal}" if result.signal else f"exit status {result.exit_status}"


def _how(result: FileResult) -> str:
    if result.signal:
        return f" by {result.signal}"
    return f", {plural(result.failed, 'tests')} failed" if result.failed else ""


def _missing(
    plan: Plan, plan_path: str, there: set[Key], unfit: Sequence[Unfit]
) -> Iterable[Problem]:
    """Files without a result; a shard without any is told once, or why its machine ran none."""
    sick = {one.shard: one.unfit for one in unfit}
    for suite in plan.suites:
        for shard in suite.shards:
            paths = [file.path for file in shard.files]
            run = (suite.backend, suite.name)
            absent = [p for p in paths if (*run, p, shard.under or "") not in there]
            command = f"runci run --plan {plan_path} --shard {shard.id}"
            if absent and shard.id in sick:
                why = "; ".join(sick[shard.id])
                text = f"shard {shard.id}, {plural(len(absent), 'files')} of it: {why}"
                yield Problem(Kind.MACHINE, text, len(absent))
            elif absent and len(absent) == len(paths):
                text = f"shard {shard.id}: none of its {plural(len(paths), 'files')}: {command}"
                yield Problem(Kind.MISSING, text, len(absent))
            else:
                for one in absent:
                    yield Problem(Kind.MISSING, f"{one}: {command} {one}")


def _idle_suites(plan: Plan, last: dict[Key, FileResult]) -> Iterable[Problem]:
    runs: dict[Runs, list[FileResult]] = {
        (suite.backend, suite.name, shard.under or ""): []
        for suite in plan.suites
        for shard in suite.shards
    }
    for (backend, name, _, under), result in last.items():
        runs[backend, name, under].append(result)
    for (backend, name, under), ran in runs.items():
        if ran and not any(result.tests for result in ran) and not _ran_elsewhere(ran, last):
            tool = f" under {under}" if under else ""
            text = f"suite {backend} {name}: no test was executed{tool}"
            yield Problem(Kind.NOT_RUN, text, 0)


def _ran_elsewhere(idle: Sequence[FileResult], last: dict[Key, FileResult]) -> bool:
    """Whether all of a suite was one test that its runner may skip, and another suite ran it."""
    runs = [r for r in last.values() if r.only and r.tests and r.outcome.green]
    ran = {(r.path, r.only, r.under) for r in runs}
    return all(r.outcome is Outcome.EXCUSED and (r.path, r.only, r.under) in ran for r in idle)


def _elsewhere(plan: Plan, last: dict[Key, FileResult]) -> Iterable[Problem]:
    """Results that count for a suite with GPUs, and show no machine or not the declared one."""
    for suite, result in _on_gpus(plan, last):
        machine, cuda = result.machine, suite.backend == Backend.CUDA
        if machine is None:
            wrong = "the result names no machine" if result.outcome.green else ""
        elif machine.not_compared and not cuda:
            continue
        else:
            wrong = mismatch(suite, machine.gpus, cuda=cuda)
        if wrong:
            text = f"{_title(result)}: {suite.runner} is {declaration(suite)}, but {wrong}"
            yield Problem(Kind.ELSEWHERE, text)


def _not_compared(plan: Plan, last: dict[Key, FileResult]) -> Iterable[str]:
    """Suites whose machine nobody could ask, each once; CUDA's can be asked."""
    found = {
        f"suite {suite.backend} {suite.name}: the machine was not compared with "
        f"{declaration(suite)}: {result.machine.not_compared}"
        for suite, result in _on_gpus(plan, last)
        if suite.backend != Backend.CUDA and result.machine and result.machine.not_compared
    }
    yield from sorted(found)


def _on_gpus(plan: Plan, last: dict[Key, FileResult]) -> Iterable[tuple[PlannedSuite, FileResult]]:
    suites = {(suite.backend, suite.name): suite for suite in plan.suites if suite.gpus}
    for key, result in sorted(last.items()):
        if key[:2] in suites:
            yield suites[key[:2]], result


def _notes(last: dict[Key, FileResult], copies: int) -> Iterable[str]:
    if copies:
        yield f"records that lay there more than once and count once: {copies}"
    for _, result in sorted(last.items()):
        if result.outcome is Outcome.EXCUSED:
            yield f"{_title(result)}: executed no test, as suites.yml allows on its runner"
        if result.deselected:
            yield f"{_title(result)}: {plural(result.deselected, 'tests')} deselected"


def _flaky(last: dict[Key, FileResult], attempts: Attempts) -> Iterable[str]:
    for key, result in last.items():
        before = [r for n, runs in attempts[key].items() for _, r in runs if n < result.attempt]
        failed_before = any(not r.outcome.green for r in before)
        passed = result.outcome in (Outcome.PASSED, Outcome.FLAKY)
        if passed and (result.outcome is Outcome.FLAKY or failed_before):
            yield f"{_title(result)}: passed on attempt {result.attempt}"


def _reruns(attempts: Attempts) -> Iterable[str]:
    for of_file in attempts.values():
        if len(of_file) > 1:
            runs = _newest(of_file)
            said = ", then ".join(f"attempt {run.attempt} {run.end}" for run in runs)
            yield f"{_title(runs[0])}: {said}"


def _newest(of_file: Mapping[int, list[tuple[str, FileResult]]]) -> list[FileResult]:
    """One result an attempt, in their order."""
    return [of_file[number][-1][1] for number in sorted(of_file)]


def _title(result: FileResult) -> str:
    tool = f" under {result.under}" if result.under else ""
    return f"{result.title} ({result.backend} {result.suite}{tool})"


def _with_message(text: str, result: FileResult) -> str:
    first = next((line.strip() for line in result.message.splitlines() if line.strip()), "")
    return f"{text}: {first}" if first else text
