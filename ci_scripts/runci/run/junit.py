"""JUnit XML of a run: a suite a file, a case a test, so that CI systems list single tests."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from runci.report.junit import FORBIDDEN
from runci.report.terminal import escape_char
from runci.run.model import Case
from runci.run.summary import Finished, Summary


def render(summary: Summary) -> str:
    """The document. A file that failed as a whole has a case of its own that says why."""
    top = Element("testsuites", name=_clean(summary.selection.shard))
    for finished in summary.finished:
        _add_file(top, finished, failed=finished in summary.failed)
    for key in ("tests", "failures", "errors", "skipped"):
        top.set(key, str(sum(int(suite.get(key, "0")) for suite in top)))
    top.set("time", f"{summary.seconds:.3f}")
    indent(top)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(top, encoding="unicode")}\n'


def _add_file(top: Element, finished: Finished, *, failed: bool) -> None:
    result, report = finished.result, finished.report
    suite = SubElement(top, "testsuite", name=_clean(result.title))
    for case in report.cases:
        _add_case(suite, result.path, case)
    for error in report.errors:
        _add_case(suite, result.path, error)
    if failed and not report.failures:
        whole = Case(
            result.path, "failed", result.seconds, f"{result.outcome.value}: {result.message}"
        )
        _add_case(suite, result.path, whole)
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", "0")
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    suite.set("time", f"{result.seconds:.3f}")


def _add_case(suite: Element, path: str, case: Case) -> None:
    names: Sequence[str] = case.test.split("::")
    element = SubElement(
        suite,
        "testcase",
        classname=_clean("::".join(names[:-1]) or path),
        name=_clean(names[-1]),
        file=_clean(path),
        time=f"{case.seconds:.3f}",
    )
    if case.line is not None:
        element.set("line", str(case.line))
    if case.outcome in ("passed", "flaky"):
        return
    kind = "skipped" if case.outcome == "skipped" else "failure"
    first = case.message.strip().splitlines()[:1]
    detail = SubElement(element, kind, message=_clean(first[0] if first else kind))
    detail.text = _clean(case.message)


def _clean(text: str) -> str:
    """Write what XML cannot carry as Python source would."""
    return FORBIDDEN.sub(lambda match: escape_char(match[0]), text)
