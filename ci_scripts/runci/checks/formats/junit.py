"""JUnit XML, for CI systems that list failed tests.

A test case is one rule in one file: the class name is the path, the name the rule. Errors fail it;
a rule that only gave notes there is skipped, since it could not be checked. A run without findings
is one test case that passed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from runci.checks.formats import ReportContext, summary_line
from runci.checks.formats.concise import finding_line
from runci.core.finding import Finding, Level, Summary
from runci.text.terminal import escape_char
from runci.text.wording import plural

# Everything that XML 1.0 cannot carry, not even as a reference.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(findings: Sequence[Finding], summary: Summary, context: ReportContext) -> str:
    """Return a document with one test suite, named as the command."""
    suites = Element("testsuites")
    suite = SubElement(suites, "testsuite", name=context.command)
    ordered = sorted(findings, key=_case_of)
    for (path, rule, level), group in groupby(ordered, key=_case_of):
        _add_case(suite, path, rule, level, list(group), context)
    if not findings:
        SubElement(suite, "testcase", classname=context.command, name="no findings", time="0")
    count_cases(suite, summary.seconds)
    suites.attrib.update({key: value for key, value in suite.attrib.items() if key != "name"})
    SubElement(suite, "system-out").text = clean(summary_line(findings, summary))
    return document(suites)


def count_cases(suite: Element, seconds: float) -> None:
    """Say of a suite how many cases it has, and how they ended."""
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", "0")
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    suite.set("time", f"{seconds:.3f}")


def document(suites: Element) -> str:
    """The whole file."""
    indent(suites)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(suites, encoding="unicode")}\n'


def clean(text: str) -> str:
    """Write what XML cannot carry as Python source would."""
    return _FORBIDDEN.sub(lambda match: escape_char(match[0]), text)


def _case_of(finding: Finding) -> tuple[str, str, str]:
    return finding.path, finding.rule, finding.level.value


def _add_case(
    suite: Element,
    path: str,
    rule: str,
    level: str,
    findings: Sequence[Finding],
    context: ReportContext,
) -> None:
    info = context.rules.get(rule)
    case = SubElement(
        suite,
        "testcase",
        classname=clean(path),
        name=f"{rule} {info.name}" if info else clean(rule),
        file=clean(path),
        line=str(findings[0].line),
        time="0",
    )
    message = clean(findings[0].message)
    if len(findings) > 1:
        message += f" (and {plural(len(findings) - 1, 'more')})"
    kind = "failure" if level == Level.ERROR.value else "skipped"
    detail = SubElement(case, kind, message=message)
    if kind == "failure":
        detail.set("type", clean(rule))
    detail.text = "\n".join(_detail(finding) for finding in findings)


def _detail(finding: Finding) -> str:
    line = clean(finding_line(finding))
    return f"{line}\n  {clean(finding.remedy)}" if finding.remedy else line
