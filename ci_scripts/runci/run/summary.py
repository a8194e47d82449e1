"""What a whole run came to: for a terminal, as Markdown, as JUnit XML."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement

from runci.checks.formats.junit import clean, count_cases, document
from runci.core.result import FileResult, Outcome, by_class
from runci.core.targets import targets
from runci.run.model import Case, FileReport, RunFile, Selection
from runci.run.outcome import green
from runci.text.markdown import block, code, escaped
from runci.text.tables import render_markdown
from runci.text.wording import plural

SLOWEST = 5
SLOWEST_IN_SUMMARY = 20
SLOWEST_TESTS = 10
SLOW = 0.1  # seconds; a test below is shown only where that was asked for
STACKS_IN_SUMMARY = 40  # lines of each file


@dataclass(frozen=True, slots=True)
class Finished:
    """A file's last attempt: its result, what its child said, what was predicted, lines that say
    where its processes were, and which tests failed in an attempt before."""

    result: FileResult
    report: FileReport
    predicted: float
    stacks: tuple[str, ...] = ()
    failed_before: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Summary:
    """A run that ended. `missing` were chosen and never started; `why` says why.

    `idle` are the files of which -k and -m chose no test, each by how many it has. `durations`
    is how many tests were asked to be shown with their seconds, 0 for all.
    """

    selection: Selection
    finished: tuple[Finished, ...]
    seconds: float
    flaky_fails: bool = False
    missing: tuple[str, ...] = ()
    why: str = ""
    unwritten: int = 0
    idle: tuple[int, ...] = ()
    durations: int | None = None

    @property
    def failed(self) -> tuple[Finished, ...]:
        """The files that fail the run."""
        return tuple(f for f in self.finished if not green(f.result.outcome, self.flaky_fails))

    @property
    def flaky(self) -> tuple[Finished, ...]:
        """Files that passed on a later attempt."""
        return tuple(f for f in self.finished if f.result.outcome is Outcome.FLAKY)

    @property
    def excused(self) -> tuple[Finished, ...]:
        """Files all of whose tests were skipped as suites.yml allows."""
        return tuple(f for f in self.finished if f.result.outcome is Outcome.EXCUSED)


def last_line(summary: Summary) -> str:
    """Files: «11 passed, 1 failed, 0 skipped»."""
    failed, skipped = len(summary.failed), len(summary.excused)
    passed = len(summary.finished) - failed - skipped
    return f"{passed} passed, {failed} failed, {skipped} skipped"


def total_line(summary: Summary) -> str:
    """Tests, time, and all that the last line does not say."""
    tests = sum(f.result.tests for f in summary.finished)
    files = plural(len(summary.finished), "files")
    parts = [f"{plural(tests, 'tests')} executed in {files}, {duration(summary.seconds)}"]
    if kinds := by_class(f.result for f in summary.failed):
        parts.append(f"failed by class: {kinds}")
    if summary.flaky:
        parts.append(f"{len(summary.flaky)} flaky")
    skipped = sum(len(f.result.skipped) for f in summary.finished)
    if skipped:
        parts.append(f"{plural(skipped, 'tests')} skipped")
    deselected = sum(f.result.deselected for f in summary.finished)
    if deselected:
        parts.append(f"{plural(deselected, 'tests')} deselected")
    unselected = sum(f.report.unselected or 0 for f in summary.finished) + sum(summary.idle)
    if unselected:
        idle = f", all of {plural(len(summary.idle), 'files')}" if summary.idle else ""
        parts.append(f"{plural(unselected, 'tests')} not chosen{idle}")
    if summary.selection.disabled:
        parts.append(f"{plural(len(summary.selection.disabled), 'files')} disabled")
    if summary.missing:
        parts.append(f"{plural(len(summary.missing), 'files')} not run ({summary.why})")
    return "; ".join(parts)


def slowest(summary: Summary, count: int) -> list[Finished]:
    """The files that took longest, the longest first."""
    return sorted(summary.finished, key=lambda f: -f.result.seconds)[:count]


def slowest_tests(summary: Summary) -> list[tuple[str, float]]:
    """The tests that took longest, with seconds; of one that ran more than once the longest run."""
    found: dict[str, float] = {}
    for one in summary.finished:
        for test, seconds in one.report.seconds_of_tests.items():
            found[test] = max(found.get(test, 0.0), seconds)
    ordered = sorted(found.items(), key=lambda test: (-test[1], test[0]))
    if summary.durations is None:
        return [test for test in ordered[:SLOWEST_TESTS] if test[1] >= SLOW]
    return ordered[: summary.durations or None]


def duration(seconds: float) -> str:
    """«3.4 s», «2:05», «1:02:05»."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def repeat_command(
    selection: Selection, files: Iterable[RunFile | FileResult], extra: Sequence[str]
) -> str:
    """The command that runs these files again, as they ran; it needs no plan."""
    given = [*selection.given]
    if "--shard" in given:  # the files say it already
        at = given.index("--shard")
        del given[at : at + 2]
    if "--plan" in given:  # nor need it be on the machine of whoever repeats them
        at = given.index("--plan")
        given[at : at + 2] = ["--suite", selection.suite, "--hw", selection.backend.value]
    named = [target for file in files for target in targets(file.path, file.only)]
    chosen = selection.selected
    return shlex.join(["runci", "run", *given, *chosen.options, *extra, *named, *chosen.rest])


def step_summary(summary: Summary) -> str:
    """Markdown for the page of a job."""
    title = f"### {summary.selection.shard}: {last_line(summary)}\n\n{total_line(summary)}\n\n"
    parts = [title]
    if summary.failed:
        failed = [
            (
                code(f.result.title),
                f.result.outcome.value,
                f.result.failure.kind.value if f.result.failure else "",
                escaped(f.result.message),
                escaped(f.result.failure.evidence if f.result.failure else ""),
            )
            for f in summary.failed
        ]
        headers = ("failed", "outcome", "class", "why", "the class is told by")
        parts.append(render_markdown(headers, failed) + "\n")
        parts += [_stacks(f) for f in summary.failed if f.stacks]
    if summary.flaky:
        rows = [
            (code(f.result.title), str(f.result.attempt), escaped(f.result.message))
            for f in summary.flaky
        ]
        parts.append(render_markdown(("flaky", "attempts", "what happened"), rows, "<>") + "\n")
    if summary.finished:
        parts.append(_times(summary))
    if tests := slowest_tests(summary):
        times = [(code(test), f"{seconds:.2f}") for test, seconds in tests]
        parts.append("\n" + render_markdown(("slowest tests", "seconds"), times, "<>"))
    return "".join(parts)


def _stacks(finished: Finished) -> str:
    """Where the processes of a file were, folded."""
    title = escaped(finished.result.title)
    shown = block(finished.stacks[:STACKS_IN_SUMMARY])
    return f"<details><summary>where {title} was</summary>\n\n{shown}\n\n</details>\n\n"


def _times(summary: Summary) -> str:
    rows = [
        (
            code(f.result.title),
            f"{f.result.seconds:.1f}",
            f"{f.predicted:.1f}",
            f"{f.result.seconds / f.predicted:.2f}" if f.predicted else "",
            str(f.result.tests),
        )
        for f in slowest(summary, SLOWEST_IN_SUMMARY)
    ]
    actual = sum(f.result.seconds for f in summary.finished)
    predicted = sum(f.predicted for f in summary.finished)
    ratio = f"{actual / predicted:.2f}" if predicted else ""
    rows.append(("**all files**", f"{actual:.1f}", f"{predicted:.1f}", ratio, ""))
    headers = ("slowest files", "seconds", "predicted", "actual / predicted", "tests")
    return render_markdown(headers, rows, "<>>>>")


def as_junit(summary: Summary) -> str:
    """The document. A file that failed as a whole has a case of its own that says why."""
    top = Element("testsuites", name=clean(summary.selection.shard))
    for finished in summary.finished:
        _add_file(top, finished, failed=finished in summary.failed)
    for key in ("tests", "failures", "errors", "skipped"):
        top.set(key, str(sum(int(suite.get(key, "0")) for suite in top)))
    top.set("time", f"{summary.seconds:.3f}")
    return document(top)


def _add_file(top: Element, finished: Finished, *, failed: bool) -> None:
    result, report = finished.result, finished.report
    suite = SubElement(top, "testsuite", name=clean(result.title))
    kind = result.failure.kind.value if result.failure else ""
    for case in (*report.cases, *report.errors):
        _add_case(suite, result.path, case, kind)
    if failed and not report.failures:
        whole = Case(
            result.path, "failed", result.seconds, f"{result.outcome.value}: {result.message}"
        )
        _add_case(suite, result.path, whole, kind)
    count_cases(suite, result.seconds)


def _add_case(suite: Element, path: str, case: Case, of: str) -> None:
    names: Sequence[str] = case.test.split("::")
    element = SubElement(
        suite,
        "testcase",
        classname=clean("::".join(names[:-1]) or path),
        name=clean(names[-1]),
        file=clean(path),
        time=f"{case.seconds:.3f}",
    )
    if case.line is not None:
        element.set("line", str(case.line))
    if case.outcome in ("passed", "flaky"):
        return
    kind = "skipped" if case.outcome == "skipped" else "failure"
    first = case.message.strip().splitlines()[:1]
    detail = SubElement(element, kind, message=clean(first[0] if first else kind))
    if kind == "failure" and of:
        detail.set("type", of)  # the class of the file's failure
    detail.text = clean(case.message)
