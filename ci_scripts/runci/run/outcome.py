"""Decisions, as pure functions: how a file ended, whether to try it again, whether it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import takewhile

from runci.config.taxonomy import Skip
from runci.core.patterns import pattern_matcher
from runci.core.result import FileResult, Outcome, not_made_good
from runci.core.selected import EVERYTHING, Selected
from runci.core.targets import beyond
from runci.run.model import Case, Ending, FileReport
from runci.text.wording import plural

_PYTEST_CODES = {
    2: "pytest was interrupted",
    3: "pytest met an internal error or a SystemExit: see the output",
    4: "pytest could not start: a conftest.py or an option is wrong: see the output",
}
_NEEDS_A_TEST = "it needs a test that runs, and a main block"
_OWN_WAY = "the main block runs tests in a way that runci cannot choose from; name the file alone"
_ENDED = "its process ended at a failure in another file (-x)"
_RETRIED = (Outcome.FAILED, Outcome.TIMEOUT, Outcome.CRASHED)


def allowed_skips(skips: Iterable[Skip], runner: str | None) -> Callable[[str], bool]:
    """Whether suites.yml lets a test be skipped on this runner.

    A test is `path::Class::test[parameters]`. An entry without parameters allows any, one that is
    a path all of the file.
    """
    return pattern_matcher(skip.test for skip in skips if runner in skip.runners)


def decide(
    report: FileReport,
    ending: Ending,
    allowed: Callable[[str], bool],
    *,
    benchmark: bool = False,
    explained: bool = False,
    only: Sequence[str] = (),
    selected: Selected = EVERYTHING,
    max_deselected: int | None = None,
) -> tuple[Outcome, str]:
    """The outcome of one attempt at a file, and why. The first that applies:

    ended by runci → by a signal → before its end → a failed test → tests that never ended → a test
    that is not there → a status that is not 0 → a skip that is not allowed → more deselected than
    allowed → nothing executed → passed. `explained`: the status 1 that files of one child share
    comes from a test of another file. `only` are the tests that were asked for, `selected` chose
    among them. With -x, a file whose tests were never begun failed no test: it executed none.
    """
    if ending.stopped is not None:
        return _stopped(report, ending)
    if ending.signal is not None or report.code is None:
        return Outcome.CRASHED, _crash(report, ending)
    if report.failures or report.cut_short is not None:
        ended = explained and selected.first and not report.begun
        return (Outcome.NO_TESTS, _ENDED) if ended else (Outcome.FAILED, _failed(report))
    if (wrong := _not_as_asked(report, only, selected)) is not None:
        return wrong
    fine = (0, 5, 1) if explained else (0, 5)
    if report.code not in fine or ending.status not in fine:
        return Outcome.FAILED, _status(report, ending)
    if benchmark and report.code == 0:
        return Outcome.PASSED, ""
    if (left_out := _left_out(report, allowed, max_deselected)) is not None:
        return Outcome.SKIPPED, left_out
    if report.tests == 0:
        return _idle(report, only)
    flaky = [case for case in report.cases if case.outcome == "flaky"]
    if flaky:
        return Outcome.FLAKY, f"{flaky[0].test}: {flaky[0].message}"
    return Outcome.PASSED, ""


def chose_nothing(report: FileReport, ending: Ending, *, explained: bool = False) -> bool:
    """Whether -k and -m chose no test of a file, and nothing else is the reason that none ran.

    `explained` as in `decide`.
    """
    fine = (0, 5, 1) if explained else (0, 5)
    others = (report.cases, report.errors, report.absent, report.foreign, report.deselected)
    return (
        bool(report.unselected)
        and ending.stopped is None
        and ending.signal is None
        and report.code in fine
        and ending.status in fine
        and report.cut_short is None
        and not any(others)
    )


def settle(history: Sequence[FileResult], result: FileResult) -> FileResult:
    """An attempt after earlier ones that failed: flaky where it made good each test of theirs.

    A test that was skipped, or was not there, after it had failed has not passed.
    """
    if not history:
        return result
    before = f"attempt {len(history)} {history[-1].end}"
    if result.outcome in (Outcome.EXCUSED, Outcome.SKIPPED, Outcome.NO_TESTS):
        said = f"{before}, then it was skipped: {result.message}"
        return replace(result, outcome=Outcome.FAILED, message=said)
    if not result.outcome.green:
        return result
    still = not_made_good([*history, result])
    if still:
        return replace(result, outcome=Outcome.FAILED, message=f"{before}, then {_unmended(still)}")
    said = f"passed on attempt {len(history) + 1}, after {history[-1].end}"
    return replace(result, outcome=Outcome.FLAKY, message=said)


def _unmended(tests: Sequence[str]) -> str:
    more = f" (and {len(tests) - 1} more)" if len(tests) > 1 else ""
    return f"{tests[0]}{more} failed and was not executed again: a retry must pass each of them"


def retry(attempts: Sequence[tuple[Outcome, bool]], retries: int, machines: int = 0) -> bool:
    """Whether to try a file again after these attempts: outcomes, and whether the machine failed.

    `machines` of those before any other failure count for nothing; all that follow are among the
    `retries` that somebody asked for.
    """
    unasked = len(list(takewhile(lambda attempt: attempt[1], attempts)))
    spent = len(attempts) - min(unasked, machines)
    return attempts[-1][0] in _RETRIED and spent <= retries


def green(outcome: Outcome, flaky_fails: bool) -> bool:
    """Whether a file does not fail the run."""
    return outcome.green and not (flaky_fails and outcome is Outcome.FLAKY)


def describe(report: FileReport, ending: Ending) -> str:
    """What else is worth knowing: tests that were left out, what was left behind."""
    parts = []
    if report.deselected and report.cases:
        parts.append(f"{plural(report.deselected, 'tests')} deselected")
    if report.unbegun and report.failures:
        parts.append(f"{plural(report.unbegun, 'tests')} never begun")
    if ending.left:
        parts.append(f"left running, and ended: {'; '.join(ending.left)}")
    if ending.stuck:
        parts.append(f"could not be ended: {'; '.join(ending.stuck)}")
    if ending.removed:
        parts.append(f"left behind, and removed: {', '.join(ending.removed)}")
    if ending.stays:
        parts.append(f"left behind, and could not be removed: {', '.join(ending.stays)}")
    if ending.shared:
        # Not removed: of files that ran at once, the other may still need it.
        parts.append(f"left in shared memory, by it or what ran beside: {', '.join(ending.shared)}")
    return ". ".join(parts)


def _not_as_asked(
    report: FileReport, only: Sequence[str], selected: Selected
) -> tuple[Outcome, str] | None:
    if only and report.absent:
        return Outcome.NO_TESTS, report.absent
    if selected.chooses and report.tests and report.unselected is None:
        return Outcome.FAILED, f"{selected.shown} was not asked: {_OWN_WAY}"
    if not only:
        return None
    others = beyond(only, (case.test.partition("::")[2] for case in report.cases))
    if not others:
        return None
    return Outcome.FAILED, (
        f"{others[0]} ran too, although only {', '.join(only)} was asked for: {_OWN_WAY}"
    )


def _idle(report: FileReport, only: Sequence[str]) -> tuple[Outcome, str]:
    if report.skipped:
        return Outcome.EXCUSED, f"{len(report.skipped)} skipped, as suites.yml allows"
    if report.foreign:
        return Outcome.NO_TESTS, (
            f"no test of it was executed: its main block ran {report.foreign}, which stands in "
            "another file"
        )
    if report.deselected:
        tests = f"its {report.deselected} tests were" if report.deselected > 1 else "its test was"
        return Outcome.NO_TESTS, f"{tests} deselected, by a conftest.py, a plugin or an option"
    of = f" of {', '.join(only)}" if only else ""
    return Outcome.NO_TESTS, f"no test was executed{of}: {_NEEDS_A_TEST}"


def _stopped(report: FileReport, ending: Ending) -> tuple[Outcome, str]:
    if ending.stopped == "lost":
        return Outcome.CRASHED, "the process that watches over it was killed" + within(report)
    if ending.stopped == "unstarted":
        why = ending.fault[0].message if ending.fault else "the process that starts it ended"
        return Outcome.CRASHED, f"it could not be started: {why}"
    whose = "of the suite" if ending.stopped == "suite-timeout" else "for a file"
    limit = f"{ending.limit:g} s" if ending.limit is not None else "the time"
    return Outcome.TIMEOUT, f"ended after {limit} {whose}" + within(report)


def within(report: FileReport) -> str:
    """«, in PATH::test», or what else is known of how far a file had come."""
    if report.running:
        return f", in {report.running}"
    if report.code is not None:
        return ", after its tests"
    if not report.begun:
        return ", before its tests"
    return f", after {report.tests} tests"


def _crash(report: FileReport, ending: Ending) -> str:
    if ending.signal is None:
        if report.raised:
            raised = report.raised[0]
            said = f"{raised.types[0]}: {raised.message}".splitlines()[0]
            return f"pytest could not go on, by a conftest.py or a plugin: {said}"
        why = f"ended with status {ending.status} before its tests had ended (os._exit?)"
        return why + within(report)
    memory = ""
    if ending.signal == "SIGKILL":
        peak = f", peak {ending.peak_memory_mb:,.0f} MiB" if ending.peak_memory_mb else ""
        said = "the kernel ended it for memory" if ending.out_of_memory else "not by runci"
        memory = f" ({said}{peak})"
    return f"killed by {ending.signal}{memory}" + within(report)


def _failed(report: FileReport) -> str:
    if not report.failures:
        return _cut_short(report, report.cut_short or report.path)
    first = report.failures[0]
    name = first.test.partition("::")[2]
    said = (first.message.strip().splitlines() or ["failed"])[0]
    failed = sum(case.outcome == "failed" for case in report.cases)
    if not failed and report.foreign:
        return f"{first.test}, a test of another file that its main block ran, failed: {said}"
    if not failed:
        return f"cannot be collected: {said}"
    swallowed = " (its script ends with status 0 all the same)" if report.code == 0 else ""
    return f"{failed} of {report.tests} tests failed{swallowed}: {name}: {said}"


def _cut_short(report: FileReport, test: str) -> str:
    return (
        f"its tests were cut short (pytest.exit, an interrupt?): status {report.code}, but "
        f"{test.partition('::')[2] or test} never ended"
    )


def _status(report: FileReport, ending: Ending) -> str:
    code = report.code if report.code not in (0, 5) else ending.status
    if not report.tests and code in _PYTEST_CODES:
        return _PYTEST_CODES[code]
    return f"no test failed, but it ended with status {code}"


def _left_out(
    report: FileReport, allowed: Callable[[str], bool], max_deselected: int | None
) -> str | None:
    """What was not executed and should have been."""
    skipped = (case for case in report.cases if case.outcome == "skipped")
    refused = [case for case in skipped if not allowed(case.whole)]
    if refused:
        return _refused(refused)
    if not report.cases or max_deselected is None or report.deselected <= max_deselected:
        return None
    return (
        "a conftest.py, a plugin or an option left out more tests than its suite allows in a "
        f"file, {max_deselected} (max_deselected in suites.yml): skip them, with the reason"
    )


def _refused(refused: Sequence[Case]) -> str:
    first = refused[0]
    more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    return (
        f"skipped on the hardware that its suite declares: {first.test}: {first.message}{more}; "
        "allow it under skips: in suites.yml (`--learn-skips` writes it), or register it elsewhere"
    )
