"""SARIF 2.1.0, which GitHub's code scanning and editors read.

The fields follow the OASIS standard, and what GitHub's code scanning asks for beyond it: texts of
each rule, a fingerprint of each result, and paths relative to the repository.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from urllib.parse import quote

from runci import __version__
from runci.checks.formats import ReportContext, from_working_folder, is_absolute
from runci.core.finding import Finding, RuleInfo, Summary
from runci.core.site import SITE, rule_page

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
# Changes with the method, so that old and new fingerprints are never compared.
FINGERPRINT = "runciFinding/v1"


def render(findings: Sequence[Finding], summary: Summary, context: ReportContext) -> str:
    """Return the log of one run, indented, in ASCII."""
    ids = sorted({*context.rules, *(finding.rule for finding in findings)})
    index = {rule: place for place, rule in enumerate(ids)}
    driver = {
        "name": "runci",
        "informationUri": SITE,
        "version": __version__,
        "rules": [_rule(rule, context.rules.get(rule)) for rule in ids],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True}],
        "columnKind": "unicodeCodePoints",
        "properties": {"files": summary.files, "seconds": round(summary.seconds, 3)},
        "results": _results(findings, index, context),
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def _rule(rule: str, info: RuleInfo | None) -> dict[str, object]:
    if info is None:
        return {"id": rule}
    language = "yaml" if rule.startswith("WF") else "python"
    text = f"{info.reason}\n\nFound:\n{info.bad}\n\nMended:\n{info.good}"
    markdown = (
        f"{info.reason}\n\nFound:\n\n{_fenced(info.bad, language)}\n\n"
        f"Mended:\n\n{_fenced(info.good, language)}\n"
    )
    return {
        "id": info.id,
        "name": info.name,
        "shortDescription": {"text": info.summary},
        "fullDescription": {"text": info.reason},
        "helpUri": rule_page(info.id),
        "help": {"text": text, "markdown": markdown},
        "defaultConfiguration": {"level": "error"},
    }


def _fenced(source: str, language: str) -> str:
    fence = "```"
    while fence in source:
        fence += "`"
    return f"{fence}{language}\n{source.rstrip()}\n{fence}"


def _results(
    findings: Sequence[Finding], index: dict[str, int], context: ReportContext
) -> list[dict[str, object]]:
    seen: Counter[str] = Counter()
    results = []
    for finding in findings:
        identity = "\0".join((finding.path, finding.rule, finding.key))
        seen[identity] += 1
        results.append(
            {
                "ruleId": finding.rule,
                "ruleIndex": index[finding.rule],
                "level": finding.level.value,
                "message": {"text": _message(finding)},
                "locations": [{"physicalLocation": _location(finding, context)}],
                "partialFingerprints": {FINGERPRINT: _fingerprint(identity, seen[identity])},
            }
        )
    return results


def _message(finding: Finding) -> str:
    text = f"{finding.message}\n{finding.remedy}" if finding.remedy else finding.message
    # A viewer makes a link of [text](target): quoted source must not become one.
    return text.replace("](", "\\](")


def _location(finding: Finding, context: ReportContext) -> dict[str, object]:
    span = finding.span
    root = "." if is_absolute(context.root) else context.root
    path = from_working_folder(root, finding.path)
    uri = quote(path.encode("utf-8", "surrogateescape"), safe="/")
    return {
        "artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"},
        "region": {
            "startLine": span.line,
            "startColumn": span.column,
            "endLine": span.end_line,
            "endColumn": span.end_column,
        },
    }


def _fingerprint(identity: str, occurrence: int) -> str:
    """Tell findings apart without positions, so that moved lines keep their fingerprint."""
    text = f"{identity}\0{occurrence}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
