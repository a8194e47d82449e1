"""The reports for people: text, one line a finding, and what they share."""

import io
import re
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runci import register_cpu_ci
from runci.checks.formats import REPORTERS, ReportContext, render
from runci.checks.formats.text import snippet
from runci.core.errors import Exit, RunciError
from runci.core.finding import Finding, Level, RuleInfo, Summary
from runci.core.source import Span, at
from runci.text.terminal import crop, display_width, printable, use_color, wrap

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

SOURCE = {
    "test/a.py": [
        "from runci import register_cpu_ci",
        "",
        'register_cpu_ci(est_time=BASE * 2, stage="base-a", runner_config="cpu")',
        "",
        "with open(",
        "    NAME,",
        ") as f:",
    ],
}
RULES = {
    "RT104": RuleInfo("RT104", "constant-arguments", "One line.", "Why.", "bad()", "good()", True),
    "RT107": RuleInfo("RT107", "one-suite", "One line.", "Why.", "bad()", "good()"),
}
SUMMARY = Summary(files=1547, seconds=0.8412, noun="test files", registrations=2030)
CONTEXT = ReportContext(read_lines=SOURCE.get, rules=RULES)

NOT_CONSTANT = Finding(
    "test/a.py",
    Span(3, 26, 3, 34),
    "RT104",
    "est_time is not a constant: BASE * 2",
    "write the number itself; the registration is read without running the file",
    key="BASE * 2",
    fixable=True,
)
UNREADABLE = Finding("test/b.py", at(1), "RT403", "cannot be read: permission denied")
NOTE = Finding(".github/workflows/x.yml", at(7, 9), "RT206", "unknown matrix", level=Level.NOTE)


def text(*findings: Finding, summary: Summary = SUMMARY, **changes: object) -> str:
    return render("text", findings, summary, replace(CONTEXT, **changes))


def underlined(line: str, span: Span, width: int = 80) -> str:
    """The columns that the caret line marks, as the reader sees them above it."""
    shown = snippet([line], span, width)
    assert shown is not None
    assert display_width(shown.text) <= width
    return shown.text[shown.start : shown.start + shown.length]


def test_one_finding_with_source_and_remedy():
    assert text(NOT_CONSTANT) == (
        "test/a.py\n"
        "  3:26  RT104  est_time is not a constant: BASE * 2 [fixable]\n"
        '    3 | register_cpu_ci(est_time=BASE * 2, stage="base-a", runner_config="cpu")\n'
        "      |                          ^^^^^^^^\n"
        "      = help: write the number itself; the registration is read without running\n"
        "              the file\n"
        "\n"
        "1 finding (1 fixable with --fix) in 1 file; 1,547 test files,\n"
        "2,030 registrations, 0.84 s\n"
        "for the reason and an example: runci rule RT104\n"
        "or https://OWNER.github.io/runci/rules/RT104/\n"
    )


def test_files_are_grouped_and_notes_stand_apart():
    assert text(NOTE, UNREADABLE, replace(NOT_CONSTANT, remedy="", fixable=False), width=200) == (
        "test/a.py\n"
        "  3:26  RT104  est_time is not a constant: BASE * 2\n"
        '    3 | register_cpu_ci(est_time=BASE * 2, stage="base-a", runner_config="cpu")\n'
        "      |                          ^^^^^^^^\n"
        "\n"
        "test/b.py\n"
        "  1:1  RT403  cannot be read: permission denied\n"
        "\n"
        "notes, which do not fail the run:\n"
        "\n"
        ".github/workflows/x.yml\n"
        "  7:9  RT206  unknown matrix\n"
        "\n"
        "2 findings and 1 note in 3 files; 1,547 test files, 2,030 registrations, 0.84 s\n"
        "for the reason and an example: runci rule RT104\n"
        "or https://OWNER.github.io/runci/rules/RT104/\n"
    )


def test_places_of_one_file_are_aligned_and_long_messages_wrapped():
    first = Finding("n.py", at(9, 1), "RT1", "short")
    second = Finding("n.py", at(12, 104), "RT2", "word " * 16 + "end", "do this\nor that")
    assert text(first, second).startswith(
        "n.py\n"
        "  9:1     RT1  short\n"
        "\n"
        "  12:104  RT2  word word word word word word word word word word word word word\n"
        "               word word word end\n"
        "      = help: do this\n"
        "              or that\n"
        "\n"
        "2 findings in 1 file; "
    )


def test_span_of_several_lines_shows_the_first():
    finding = Finding("test/a.py", Span(5, 6, 7, 2), "RT107", "say which")
    assert ("    5 | with open(\n      |      ^^^^^\n      | ... to line 7\n") in text(finding)


def test_nothing_found():
    assert text() == "no findings in 1,547 test files, 2,030 registrations, 0.84 s\n"


def test_nothing_found_with_things_set_aside():
    summary = replace(SUMMARY, suppressed=3, baselined=1204, fixed=1, registrations=None)
    expected = (
        "no findings in 1,547 test files, 0.84 s (1 fixed, 3 suppressed, 1,204 in the baseline)"
    )
    assert text(summary=summary, width=200) == expected + "\n"


def test_nothing_checked_is_not_called_clean():
    assert text(summary=Summary(0, 0.001)) == "nothing was checked: 0 files, 0.00 s\n"


def test_only_notes():
    assert "no findings and 1 note in 1 file; 1,547 test files" in text(NOTE)


def test_one_is_singular():
    assert text(summary=Summary(1, 1.0, "test files", 1)) == (
        "no findings in 1 test file, 1 registration, 1.00 s\n"
    )


def test_many_findings_are_counted_by_rule():
    many = [replace(NOT_CONSTANT, path=f"t/{number}.py") for number in range(19)]
    report = text(*many, replace(UNREADABLE, rule="RT403"), UNREADABLE)
    assert "\n  19  RT104  constant-arguments\n   2  RT403\n\n21 findings" in report
    assert "constant-arguments" not in text(*many[:18], UNREADABLE)


def test_more_rules_are_counted_in_the_hint():
    report = text(NOT_CONSTANT, replace(NOT_CONSTANT, rule="RT107"), command="python -m runci lint")
    assert report.endswith(
        "for the reason and an example: python -m runci rule RT104 (and 1 other)\n"
        "or https://OWNER.github.io/runci/rules/RT104/\n"
    )


def test_color_changes_nothing_but_codes():
    colored = text(NOT_CONSTANT, UNREADABLE, NOTE, color=True)
    assert "\x1b[1;31m^^^^^^^^\x1b[0m" in colored
    assert "\x1b[1mtest/a.py\x1b[0m" in colored
    assert re.sub("\x1b\\[[0-9;]+m", "", colored) == text(NOT_CONSTANT, UNREADABLE, NOTE)


def test_plain_output_is_ascii():
    assert text(NOT_CONSTANT, UNREADABLE, NOTE).isascii()


def test_text_from_files_cannot_drive_the_terminal():
    evil = "\x1b]0;title\x07\x9b31m\u202egnp.exe\r\n::x \udc80"
    finding = Finding(f"a{evil}.py", at(1), "RT403", evil, evil)
    for report in (
        text(finding, read_lines=lambda path: [evil]),
        render("concise", [finding], SUMMARY, CONTEXT),
    ):
        assert all(char == "\n" or char.isprintable() for char in report)
        assert "\\x1b]0;title\\x07\\x9b31m\\u202egnp.exe" in report


def test_concise_is_one_line_a_finding():
    broken = Finding("a b.py", at(2, 3), "RT401", "two\nlines", "never shown")
    assert render("concise", [NOTE, broken, NOT_CONSTANT], SUMMARY, CONTEXT) == (
        ".github/workflows/x.yml:7:9: RT206 note: unknown matrix\n"
        "a b.py:2:3: RT401 two\\nlines\n"
        "test/a.py:3:26: RT104 est_time is not a constant: BASE * 2\n"
        "2 findings (1 fixable with --fix) and 1 note in 3 files; "
        "1,547 test files, 2,030 registrations, 0.84 s\n"
    )


@pytest.mark.parametrize("name", REPORTERS)
def test_every_format_is_deterministic_and_ends_its_last_line(name):
    findings = [NOT_CONSTANT, UNREADABLE, NOTE]
    report = render(name, findings, SUMMARY, CONTEXT)
    assert report == render(name, findings[::-1], SUMMARY, CONTEXT)
    assert report.endswith("\n") and not report.endswith("\n\n")
    assert render(name, [], SUMMARY, CONTEXT).endswith("\n")


def test_unknown_format_names_the_others():
    with pytest.raises(RunciError, match="'xml': choose one of text, concise"):
        render("xml", [], SUMMARY, CONTEXT)
    assert RunciError("x").code is Exit.USAGE


def test_snippet_of_ascii():
    assert underlined("x = call(BASE)", Span(1, 10, 1, 14)) == "BASE"


def test_snippet_after_tabs():
    shown = snippet(["\tif x:\ty = 1"], Span(1, 8, 1, 9), 80)
    assert shown is not None
    assert (shown.text, shown.start, shown.length) == ("    if x:   y = 1", 12, 1)


def test_snippet_after_wide_characters():
    shown = snippet(["名 = 三 + e\u0301x"], Span(1, 5, 1, 6), 80)
    assert shown is not None
    # 名 and 三 take two columns each; the accent takes none.
    assert (shown.text, shown.start, shown.length) == ("名 = 三 + e\u0301x", 5, 2)
    assert snippet([shown.text], Span(1, 11, 1, 12), 80).start == 11


def test_snippet_of_controls():
    assert underlined("a\x1b[31m\u202eb", Span(1, 7, 1, 8)) == "\\u202e"


def test_snippet_beyond_the_end_of_the_line():
    shown = snippet(["abc\r\n"], Span(1, 50, 1, 60), 80)
    assert shown is not None
    assert (shown.text, shown.start, shown.length) == ("abc", 3, 1)
    assert underlined("abc", Span(1, 2, 1, 60)) == "bc"


@pytest.mark.parametrize("lines", [None, [], ["one"], ["one", ""], ["one", " \t"]])
def test_no_snippet_where_there_is_nothing_to_see(lines):
    assert snippet(lines, at(2), 80) is None


def test_blank_line_with_a_span_is_shown():
    shown = snippet(["  "], Span(1, 1, 1, 3), 80)
    assert shown is not None
    assert (shown.start, shown.length) == (0, 2)


@pytest.mark.parametrize("before", [0, 1, 10, 59, 60, 74, 75, 200, 100_000])
@pytest.mark.parametrize("after", [0, 1, 10, 74, 200, 100_000])
@pytest.mark.parametrize("filler", ["x", "\x00"])
def test_long_line_is_cropped_around_the_span(before, after, filler):
    line = filler * before + "HERE" + filler * after
    assert underlined(line, Span(1, before + 1, 1, before + 5)) == "HERE"


def test_long_line_keeps_what_fits():
    shown = snippet(["a" * 20 + "HERE" + "b" * 100], Span(1, 21, 1, 25), 40)
    assert shown is not None
    assert shown.text == "a" * 20 + "HERE" + "b" * 10 + "..."
    shown = snippet(["a" * 100 + "HERE" + "b" * 100], Span(1, 101, 1, 105), 40)
    assert shown is not None
    assert shown.text == "..." + "a" * 11 + "HERE" + "b" * 19 + "..."


def test_span_longer_than_the_terminal_is_underlined_to_its_edge():
    shown = snippet(["f(" + "x" * 500], Span(1, 3, 1, 503), 40)
    assert shown is not None
    assert shown.text.endswith("x...")
    assert shown.start + shown.length == len(shown.text) - 3


@settings(deadline=None)
@given(
    line=st.text(st.characters(exclude_categories=[]) | st.sampled_from("\t三\x1b\u0301"))
    | st.text("ab\t三\x00", min_size=100),
    column=st.integers(1, 250),
    length=st.integers(0, 250),
    width=st.integers(32, 90),
)
def test_any_snippet_is_printable_and_fits(line, column, length, width):
    shown = snippet([line], Span(1, column, 1, column + length), width)
    if shown is not None:
        assert shown.text.isprintable()
        assert display_width(shown.text) <= width
        assert shown.length >= 1
        assert 0 <= shown.start < shown.start + shown.length <= display_width(shown.text) + 1


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize(
    ("terminal", "environ", "platform", "expected"),
    [
        (True, {}, "linux", True),
        (False, {}, "linux", False),
        (True, {"NO_COLOR": "1"}, "linux", False),
        (True, {"NO_COLOR": ""}, "linux", True),
        (False, {"FORCE_COLOR": "1"}, "linux", True),
        (False, {"FORCE_COLOR": "0"}, "linux", False),
        (True, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, "linux", False),
        (True, {"TERM": "dumb"}, "linux", False),
        (True, {}, "win32", False),
        (True, {"WT_SESSION": "x"}, "win32", True),
    ],
)
def test_use_color(terminal, environ, platform, expected):
    assert use_color(Stream(terminal), environ, platform) is expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("plain text", "plain text"),
        ("héé 三", "héé 三"),
        ("a\tb\r\n", "a\\tb\\r\\n"),
        ("\x00\x7f\x85\xa0", "\\x00\\x7f\\x85\\xa0"),
        ("\u200b\u2028\ufeff\udcff", "\\u200b\\u2028\\ufeff\\udcff"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_printable(given, expected):
    assert printable(given) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", [""]),
        ("one two three", ["one two", "three"]),
        ("averyverylongword x", ["averyverylongword", "x"]),
        ("x  averyverylongword", ["x", "averyverylongword"]),
        ("三三三 三三", ["三三三", "三三"]),
        ("aaaa bbb ::error::x c", ["aaaa bbb ::error::x", "c"]),
        ("aaaa bbb  ##[error]x", ["aaaa bbb  ##[error]x"]),
        ("in 0.3 s", ["in 0.3 s"]),
        ("aaa, 0.3 s", ["aaa,", "0.3 s"]),
        ("aa (12 ms)", ["aa", "(12 ms)"]),
        ("aaaaa 1 ms b", ["aaaaa", "1 ms b"]),
        ("aaaaa 1, bb", ["aaaaa 1,", "bb"]),  # the end of a clause
        ("aaaaa 1 millimetre", ["aaaaa 1", "millimetre"]),  # no line has both
        ("aaaaa 12", ["aaaaa 12"]),
        ("aaaaa 1 2 s", ["aaaaa", "1 2 s"]),
        ("aaaaa 1  s", ["aaaaa 1", "s"]),
    ],
)
def test_wrap(given, expected):
    assert wrap(given, 8) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [("abcdefgh", "abcdefgh"), ("abcdefghi", "abcde..."), ("三三三三三", "三三...")],
)
def test_crop(given, expected):
    assert crop(given, 8) == expected


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
