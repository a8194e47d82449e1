"""Each check of the whitespace lint, what is mended, and which lines count: bytes in and out."""

from __future__ import annotations

import ast
import io
import sys
import time
import tokenize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runci import register_cpu_ci
from runci.checks.ws.mend import mend
from runci.checks.ws.policy import (
    Attributes,
    Conversion,
    Policy,
    is_binary,
    is_text,
    parse_whitespace,
    policy_for,
)
from runci.checks.ws.rules import LIMIT, RULES, check_bytes
from runci.checks.ws.text import Scope
from runci.core.errors import RunciError
from runci.core.finding import Level, RuleInfo

register_cpu_ci(est_time=11, stage="base-a", runner_config="cpu")

PYTHON = Policy(python=True)


def places(
    data: bytes, policy: Policy = PYTHON, scope: Scope | None = None
) -> list[tuple[str, int, int]]:
    """Rule, line and column of each finding."""
    found = check_bytes("f", data, policy, scope or Scope())
    return [(f.rule, f.line, f.column) for f in found]


def policy_of_rule(rule: RuleInfo) -> Policy:
    if rule.id == "WS108":
        return Policy(indent_with_non_tab=True)
    return PYTHON if rule.fixable else Policy()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_examples_of_rules(rule: RuleInfo) -> None:
    bad, good = ast.literal_eval(rule.bad), ast.literal_eval(rule.good)
    policy = policy_of_rule(rule)
    assert {f.rule for f in check_bytes("f", bad, policy)} == {rule.id}
    assert check_bytes("f", good, policy) == []
    assert mend(bad, policy) == (good if rule.fixable else bad)
    assert all(f.fixable == rule.fixable for f in check_bytes("f", bad, policy))
    assert rule.reason.endswith(".")
    assert rule.summary.endswith(".")


def test_rules_are_numbered_in_order() -> None:
    assert [rule.id for rule in RULES] == [f"WS{100 + n}" for n in range(14)]
    assert len({rule.name for rule in RULES}) == len(RULES)


CLEAN = [
    b"",
    b"x\n",
    b"x\n\ny\n",
    b"def f():\n    return 1\n\x0c\nclass A: ...\n",
    b"s = 'a \t b'\n",
    "s = 'déjà — “quoted” 👩\u200d💻 नि\u200cन'\n".encode(),
    b"Example\n=======\n\nText\n",
    b"<<<<<< six\n<<<<<<<< eight\n<<<<<<<none\n  <<<<<<< inside\n",
]


@pytest.mark.parametrize("data", CLEAN)
def test_clean(data: bytes) -> None:
    assert places(data) == []
    assert mend(data, PYTHON) == data


FAULTS: list[tuple[bytes, list[tuple[str, int, int]], bytes | None]] = [
    (b"a \nb\t\n  \nc\n", [("WS101", 1, 2), ("WS101", 2, 2), ("WS101", 3, 1)], b"a\nb\n\nc\n"),
    (b"a \r\nb\r\n", [("WS101", 1, 2), ("WS104", 1, 3)], b"a\nb\n"),
    (b"a\r\r\nb\n", [("WS101", 1, 2), ("WS105", 1, 3)], None),
    ("é é \n".encode(), [("WS101", 1, 4)], "é é\n".encode()),
    (b"a\nb", [("WS102", 2, 2)], b"a\nb\n"),
    (b"a\n\n \n", [("WS101", 3, 1), ("WS103", 2, 1)], b"a\n"),
    (b"a\n  ", [("WS101", 2, 1), ("WS103", 2, 1)], b"a\n"),
    (b"\n\n", [("WS103", 1, 1)], b""),
    (b"a\rb\r", [("WS104", 1, 2)], None),
    (b"a\nb\rc\n", [("WS104", 2, 2)], b"a\nb\rc\n"),
    (b"a\nb\r\nc\n", [("WS105", 2, 2)], b"a\nb\nc\n"),
    (b"if x:\n  \ty\n", [("WS106", 2, 1)], b"if x:\n  \ty\n"),
    (b"if x:\n\ty\n\tz\n", [("WS107", 2, 1), ("WS107", 3, 1)], b"if x:\n    y\n    z\n"),
    (b"if x:\n\ty\nif z:\n    w\n", [("WS107", 2, 1)], b"if x:\n\ty\nif z:\n    w\n"),
    (b"s = '''\n\ta'''\n", [("WS107", 2, 1)], b"s = '''\n\ta'''\n"),
    (b"\xef\xbb\xbfa\n", [("WS109", 1, 1)], b"a\n"),
    ("#\u00a0\u202fb\u2007c\n".encode(), [("WS110", 1, 2)], b"#  b c\n"),
    ("# a \u200b\n# b\u00a0\n".encode(), [("WS110", 2, 4), ("WS111", 1, 5)], b"# a\n# b\n"),
    ("#\u200b\u200db\n#\u2060\ufeffc\n".encode(), [("WS111", 1, 2), ("WS111", 2, 2)], b"#b\n#c\n"),
    ("a\u202eb\n\u2066c\u2069\n".encode(), [("WS112", 1, 2), ("WS112", 2, 1)], None),
    (b"a\n<<<<<<< h\n=======\n>>>>>>> t\n", [("WS113", n, 1) for n in (2, 3, 4)], None),
    (b"a\n>>>>>>>", [("WS102", 2, 8), ("WS113", 2, 1)], b"a\n>>>>>>>\n"),
    (b"||||||| base\n", [("WS113", 1, 1)], None),
]


@pytest.mark.parametrize(("data", "expected", "mended"), FAULTS)
def test_faults(data: bytes, expected: list[tuple[str, int, int]], mended: bytes | None) -> None:
    assert sorted(places(data)) == expected
    assert mend(data, PYTHON) == (data if mended is None else mended)


@pytest.mark.parametrize(("data", "fixable"), [(b"if x:\n\ty\n", True), (b"if (\n\ty\n", False)])
def test_tabs_are_mended_only_where_the_program_stays(data: bytes, fixable: bool) -> None:
    assert [f.fixable for f in check_bytes("f", data, PYTHON)] == [fixable]
    assert (mend(data, PYTHON) != data) is fixable


@pytest.mark.parametrize(
    ("text", "fixable"),
    [
        ("x = 1  # a\u00a0b\n", True),
        ("x =\u00a01\n", False),  # no Python
        ("x = 'é'  # a\u00a0b\n", False),  # cannot be told from one in the string
        ("x = '\u00a0'\n", False),
        ("x = 'na\u200bme'\n", False),
        ("\ufeff# na\u200bme\n", True),
    ],
)
def test_characters_are_mended_only_where_the_program_stays(text: str, fixable: bool) -> None:
    data = text.encode()
    found = [f.fixable for f in check_bytes("f", data, PYTHON) if f.rule in ("WS110", "WS111")]
    assert found == [fixable]
    rest = data.removeprefix(b"\xef\xbb\xbf")
    assert (mend(data, PYTHON) not in (data, rest)) is fixable
    assert not any(f.fixable for f in check_bytes("f.sh", data, Policy()))


IN_STRINGS: list[tuple[bytes, list[tuple[str, int, bool]], bytes]] = [
    (
        b"s = '''a \n\tb\t\n'''  \nx = 1 \n",
        [
            *(("WS101", line, line > 2) for line in (1, 2, 3, 4)),
            ("WS107", 2, False),
        ],
        b"s = '''a \n\tb\t\n'''\nx = 1\n",
    ),
    (b'f"""{x} \n{1 +  \n2}\n"""\n', [("WS101", 1, False), ("WS101", 2, False)], b""),
    (b"s = 'a\\\n  \\\nb '\n", [], b""),
    (b"s = '''a\r\nb'''\r\n", [("WS104", 1, True)], b"s = '''a\r\nb'''\n"),
    (b"s = '''a\r\nb'''\n", [("WS105", 1, False)], b""),
    ("s = '''a\n\u200b\n'''  # \u00a0\n".encode(), [("WS110", 3, False), ("WS111", 2, False)], b""),
    (b"s = '''\n\n'''\n\n", [("WS103", 4, True)], b"s = '''\n\n'''\n"),
    (b"x = 1 + \\\n2 \\\n\n", [("WS103", 3, False)], b""),
]


@pytest.mark.parametrize(("data", "expected", "mended"), IN_STRINGS)
def test_nothing_in_a_string_is_mended(
    data: bytes, expected: list[tuple[str, int, bool]], mended: bytes
) -> None:
    found = [(f.rule, f.line, f.fixable) for f in check_bytes("f", data, PYTHON)]
    assert sorted(found) == sorted(expected)
    assert mend(data, PYTHON) == (mended or data)


IN_YAML: list[tuple[bytes, list[tuple[str, int, bool]], bytes]] = [
    (
        b"a: b \n\n# c\t\nd: 1",
        [("WS101", 1, True), ("WS101", 3, True), ("WS102", 4, True)],
        b"a: b\n\n# c\nd: 1\n",
    ),
    (
        b"a: | \n  x \n   \nb: c \n",
        [("WS101", n, n > 3) for n in (1, 2, 3, 4)],
        b"a: | \n  x \n   \nb: c\n",
    ),
    (b"- >-\n  x \n\n\n", [("WS101", 2, False), ("WS103", 3, False)], b""),
    (b"- |\n  x", [("WS102", 2, False)], b""),
    (b"- |+\n  x\n# c \n", [("WS101", 3, False)], b""),  # after a block nothing is told apart
    (b'a: "x\\ \n  y" \n', [("WS101", 1, False), ("WS101", 2, True)], b'a: "x\\ \n  y"\n'),
    (b"a: x \n  y \n", [("WS101", 1, False), ("WS101", 2, True)], b"a: x \n  y\n"),
    (b"a: 'x'\r\nb: |\r\n  y\r\n", [("WS104", 1, True)], b"a: 'x'\nb: |\n  y\n"),
    (b"a: |\n  x\r\n  y\n", [("WS105", 2, True)], b"a: |\n  x\n  y\n"),
    ("a: b  # c\u00a0d\n".encode(), [("WS110", 1, True)], b"a: b  # c d\n"),
    ("a: '\u00a0'\nb: \u200b\n".encode(), [("WS110", 1, False), ("WS111", 2, False)], b""),
    (b"a: {{ b }} \n- c\n", [("WS101", 1, False)], b""),  # no YAML
    (b"a: b\rc: d \n", [("WS101", 1, False), ("WS104", 1, False)], b""),
    ("a: b \n# \u2028c \n".encode(), [("WS101", 1, False), ("WS101", 2, False)], b""),
    (b"\xff: \n", [("WS100", 1, False), ("WS101", 1, False)], b""),
]


@pytest.mark.parametrize(("data", "expected", "mended"), IN_YAML)
def test_in_yaml_no_scalar_is_mended(
    data: bytes, expected: list[tuple[str, int, bool]], mended: bytes
) -> None:
    policy = policy_for("a.YAML", {})
    found = [(f.rule, f.line, f.fixable) for f in check_bytes("f", data, policy)]
    assert sorted(found) == sorted(expected)
    assert mend(data, policy) == (mended or data)


@pytest.mark.parametrize(
    "data",
    [
        b"x = (1 \n",
        b"x = 'a \n",
        b"x = '''a \n",
        b"x = $ \n",
        b"if x:\n    y \n  z\n",
        b"# coding: latin-1\nx = '\xe9' \n",
        b"# coding: no-such \n",
        b"# a\rx = 1 \ny = 2 \n",  # for Python the comment ends at the CR
        b"x = 1 \\ \n",
    ],
)
def test_what_does_not_tokenize_is_not_mended(data: bytes) -> None:
    assert places(data)
    assert not any(f.fixable for f in check_bytes("f", data, PYTHON))
    assert mend(data, PYTHON) == data


def test_text_that_is_not_utf8_is_checked_and_kept() -> None:
    data = b"caf\xe9\xa0\xc2\xa0 \n<<<<<<< a\n"
    findings = check_bytes("f", data, PYTHON)
    assert [(f.rule, f.line, f.level) for f in findings] == [
        ("WS100", 1, Level.NOTE),
        ("WS101", 1, Level.ERROR),
        ("WS113", 2, Level.ERROR),
    ]
    assert mend(data, PYTHON) == data
    assert not any(f.fixable for f in findings)


def test_one_bad_byte_does_not_hide_bidirectional_controls() -> None:
    assert ("WS112", 1, 3) in places(b"\xff \xe2\x80\xae\n")


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"break  \n", []),
        (b"break  \r\n", ["WS104"]),
        (b"one \n", ["WS101"]),
        (b"three   \n", ["WS101"]),
        (b"tab\t\n", ["WS101"]),
        (b"a\n  \nb\n", ["WS101"]),
    ],
)
def test_markdown_breaks(data: bytes, found: list[str]) -> None:
    policy = policy_for("docs/a.MD", {})
    assert [(f.rule, f.fixable) for f in check_bytes("f", data, policy)] == [
        (rule, False) for rule in found
    ]
    assert mend(data, policy) == data


def test_markdown_breaks_can_be_forbidden_and_are_for_markdown_alone() -> None:
    forbidden = policy_for("a.md", {}, markdown_breaks=False)
    assert places(b"break  \n", forbidden) == [("WS101", 1, 6)]
    assert places(b"break  \n", policy_for("a.rst", {})) == [("WS101", 1, 6)]


def test_prose_may_have_invisible_characters_but_no_controls() -> None:
    prose = policy_for("a.rst", {})
    for path in ("a.rst", "a.ipynb"):  # what a notebook's cells printed is none of its source
        assert places("déjà\u00a0vu\u200b\n".encode(), policy_for(path, {})) == []
    assert places(b"d\xe9j\xe0\n", prose) == []
    assert places("\u202e\n".encode(), prose) == [("WS112", 1, 1)]


TAGS = "".join(chr(0xE0000 + ord(letter)) for letter in "gbsct")
SELECTORS = "\U000e0110\U000e0120"


@pytest.mark.parametrize(
    ("text", "source", "prose"),
    [
        # What no font shows.
        ("a\u00adb", "WS111", ""),
        ("a\u115fb", "WS111", ""),
        ("é\u3164", "WS111", ""),
        ("\uffa0", "WS111", ""),
        ("a\u2062b", "WS111", ""),
        ("\u206a", "WS111", ""),
        ("é\u200bé", "WS111", ""),
        ("\U0001d173", "WS111", ""),
        # What belongs to a script, a sign or an emoji, and beside nothing of it.
        ("a\u034fb", "WS111", ""),
        ("\u180ba", "WS111", ""),
        ("\u1820\u180b", "", ""),
        ("a\u200db", "WS111", ""),
        ("\U0001f468\u200d\U0001f469", "", ""),
        ("\u2764\ufe0f 1\ufe0f\u20e3", "", ""),
        ("\u845b\U000e0100", "", ""),
        ("a\U000e0100", "WS111", ""),
        # A text that nobody sees.
        ("a\U000e0041", "WS111", "WS111"),
        (f"\U0001f600{TAGS}", "WS111", "WS111"),
        (f"\U0001f3f4{TAGS}\U000e007f", "", ""),
        (f"\U0001f3f4{TAGS}", "WS111", "WS111"),
        (f"\U0001f3f4{TAGS}{TAGS}\U000e007f", "WS111", "WS111"),
        (f"\U0001f3f4{TAGS}\U000e007f\U000e0041", "WS111", "WS111"),
        ("\U0001f3f4\U000e0041\U000e0042\U000e0043\U000e007f", "WS111", "WS111"),
        (f"\u845b{SELECTORS}", "WS111", "WS111"),
        # Direction: marks are needed beside letters that run from right to left.
        ("a\u200fb", "WS112", ""),
        ("a\u200eb", "WS112", ""),
        ("a\u061cb", "WS112", ""),
        ("\u05d0\u200f!", "", ""),
        ("\u0627\u061c1", "", ""),
        ("\u05d0\u202e!", "WS112", "WS112"),
        ("\u05d0\u2067\u2069", "WS112", "WS112"),
        ("\u05d0\na\u200fb", "WS112", ""),
        ("a\u200fb\n\u05d0", "WS112", ""),
    ],
    ids=ascii,
)
def test_invisible_characters(text: str, source: str, prose: str) -> None:
    data = f"# {text}\n".encode()
    for policy, rule in ((PYTHON, source), (policy_for("a.md", {}), prose)):
        assert {found for found, _, _ in places(data, policy)} == ({rule} if rule else set())
    mended = mend(data, PYTHON)
    left = source if source == "WS112" else ""  # never mended
    assert {found for found, _, _ in places(mended)} == ({left} if left else set())
    assert places(data, policy_for("a.py", {"whitespace": "unset"})) == (
        places(data) if any(c in text for c in "\u202e\u2067") else []
    )


def test_a_filler_in_a_name_is_not_mended() -> None:
    data = "a = 1 \n\u3164 = 2\n".encode()
    found = [(f.rule, f.fixable) for f in check_bytes("f", data, PYTHON)]
    assert found == [("WS101", True), ("WS111", False)]
    assert mend(data, PYTHON) == "a = 1\n\u3164 = 2\n".encode()


@pytest.mark.parametrize(
    ("text", "prose", "source"),
    [
        ("> a\n>>> b\n>>>>>>> c\n", [], [3]),
        ("Title\n=======\n\n>>>>>>> c\n", [], [2, 4]),
        ("<<<<<<< a\nb\n", [], [1]),
        ("||||||| a\nTitle\n=======\n", [], [1, 3]),
        ("<<<<<<< a\n1\n=======\n2\n>>>>>>> b\n", [1, 3, 5], [1, 3, 5]),
        ("<<<<<<< a\n||||||| c\n=======\n>>>>>>> b\n", [1, 2, 3, 4], [1, 2, 3, 4]),
        ("Title\n=======\n<<<<<<< a\n=======\n>>>>>>> b\n>>>>>>> c\n", [3, 4, 5], [2, 3, 4, 5, 6]),
        (">>>>>>> b\n=======\n<<<<<<< a\n", [], [1, 2, 3]),
        ("<<<<<<< a\n>>>>>>> b\n", [], [1, 2]),
        ("<<<<<<< a\n<<<<<<< a\n=======\n>>>>>>> b\n=======\n", [2, 3, 4], [1, 2, 3, 4, 5]),
    ],
)
def test_in_prose_only_whole_conflicts_count(
    text: str, prose: list[int], source: list[int]
) -> None:
    for path, lines in (("a.md", prose), ("a.rst", prose), ("a.py", source), ("a.c", source)):
        found = check_bytes(path, text.encode(), policy_for(path, {}))
        assert [f.line for f in found if f.rule == "WS113"] == lines


QUOTED = "<<<<<<< a\n1\n=======\n2\n>>>>>>> b\n"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (f"```\n{QUOTED}```\n", []),
        (f"~~~~ diff\n```\n{QUOTED}~~~~~\n", []),
        (f"  ```\n{QUOTED}  ```\r\n", []),
        (f"```\n{QUOTED}", [2, 4, 6]),  # never closed
        (f"```\n{QUOTED}~~~\n", [2, 4, 6]),
        (f"````\n{QUOTED}```\n", [2, 4, 6]),
        (f"```\n{QUOTED}``` x\n", [2, 4, 6]),
        (f"```\n```\n{QUOTED}```\n```\n", [3, 5, 7]),  # between two
        (f"``` a ```\n{QUOTED}```\n", [2, 4, 6]),  # code in a line
        ("<<<<<<< a\n```\n=======\n```\n>>>>>>> b\n", [1, 3, 5]),
        ("```\n<<<<<<< a\n```\n=======\n>>>>>>> b\n", [2, 4, 5]),
    ],
)
def test_a_conflict_that_markdown_quotes_is_none(text: str, lines: list[int]) -> None:
    for path, expected in (("a.md", lines), ("a.rst", None), ("a.c", None)):
        found = check_bytes(path, text.encode(), policy_for(path, {}))
        marked = [f.line for f in found if f.rule == "WS113"]
        assert marked == expected if expected is not None else marked


@pytest.mark.parametrize(
    ("path", "data", "attributes", "expected"),
    [
        ("a.patch", b"@@ -1,2 +1,2 @@\n \n-a \n+b\n", {}, []),
        ("a.DIFF", b" \n \ta\n \n", {}, []),
        ("a.diff", b" a\n+b \n", {}, [("WS101", 2, 3)]),
        ("a.diff", b"index 1..2 \n", {}, [("WS101", 1, 11)]),
        ("a.patch", b"-- \n2.43.0\n\n", {}, []),  # as git format-patch ends it
        ("a.patch", b" a\r\n+b\r\n c\n", {}, []),
        ("a.patch", b" \na\n", {"whitespace": "trailing-space"}, [("WS101", 1, 1)]),
        ("a.c", b" \na\n", {}, [("WS101", 1, 1)]),
        *((f"a{end}", b"a\r\n", {}, []) for end in (".bat", ".cmd", ".eml", ".vcf", ".ics")),
        ("a.BAT", b"a\r\n", {}, []),
        ("a.bat", b"a\n", {}, []),
        ("a.bat", b"a \r\n", {}, [("WS101", 1, 2)]),
        ("a.bat", b"a\r\nb\n", {}, [("WS105", 1, 2)]),
        ("a.sh", b"a\r\n", {}, [("WS104", 1, 2)]),
    ],
)
def test_blanks_and_line_ends_that_a_kind_of_file_needs(
    path: str, data: bytes, attributes: dict[str, str], expected: list[tuple[str, int, int]]
) -> None:
    assert places(data, policy_for(path, attributes)) == expected


def test_added_lines_alone_count() -> None:
    data = b"a \nb \nc "
    assert places(data, scope=Scope(frozenset({2}))) == [("WS101", 2, 2)]
    assert mend(data, PYTHON, Scope(frozenset({2}))) == b"a \nb\nc "
    assert places(b"a\nb", scope=Scope(frozenset({1}))) == []
    assert places(b"a\nb", scope=Scope(frozenset({2}))) == [("WS102", 2, 2)]
    assert places(b"a\r\nb\r\n", scope=Scope(frozenset({2}))) == [("WS104", 2, 2)]
    assert places(b"a\r\nb\n", scope=Scope(frozenset({2}))) == []


@pytest.mark.parametrize(("old", "found"), [(0, True), (1, True), (2, False), (3, False)])
def test_blank_lines_at_the_end_count_where_they_grew(old: int, found: bool) -> None:
    scope = Scope(frozenset(), old)
    assert places(b"a\n\n\n", scope=scope) == ([("WS103", 2, 1)] if found else [])


WHITESPACE: list[tuple[str, Policy]] = [
    ("", Policy()),
    ("cr-at-eol", Policy(cr_at_eol=True)),
    ("-trailing-space,tab-in-indent", Policy(False, False, tab_in_indent=True)),
    ("-blank-at-eof, indent", Policy(blank_at_eof=False, indent_with_non_tab=True)),
    ("-space,tabwidth=4,,", Policy(space_before_tab=False, tab_width=4)),
    ("tabwidth=64,unknown,-incomplete-line", Policy(incomplete_line=False)),
]


@pytest.mark.parametrize(("value", "policy"), WHITESPACE)
def test_values_of_the_attribute_whitespace(value: str, policy: Policy) -> None:
    assert parse_whitespace(value) == policy
    assert policy_for("a.c", {}, value) == policy
    if value:
        assert policy_for("a.c", {"whitespace": value}, "cr-at-eol") == policy


def test_rules_that_exclude_another_are_refused() -> None:
    with pytest.raises(RunciError, match="tab-in-indent and indent-with-non-tab"):
        parse_whitespace("tab-in-indent,indent-with-non-tab")


def test_no_whitespace_leaves_what_is_no_whitespace() -> None:
    policy = policy_for("a.py", {"whitespace": "unset"})
    data = "\ufeff\u00a0\u202e \r\n<<<<<<< a\n \t\n\n".encode()
    assert {f.rule for f in check_bytes("f", data, policy)} == {"WS112", "WS113"}
    assert mend(data, policy) == data


@pytest.mark.parametrize(
    ("attributes", "autocrlf", "conversion"),
    [
        ({}, False, Conversion.NONE),
        ({}, True, Conversion.AUTO),
        ({"text": "unset"}, True, Conversion.FORBIDDEN),
        ({"text": "set"}, False, Conversion.ALWAYS),
        ({"eol": "crlf"}, False, Conversion.ALWAYS),
        ({"text": "auto", "eol": "crlf"}, False, Conversion.AUTO),
    ],
)
def test_conversion(attributes: dict[str, str], autocrlf: bool, conversion: Conversion) -> None:
    policy = policy_for("a.c", attributes, "", autocrlf)
    assert policy.conversion is conversion
    assert bool(places(b"a\r\nb\r\n", policy)) == (conversion is Conversion.NONE)
    assert bool(places(b"a\rb\n", policy)) == (conversion is not Conversion.FORBIDDEN)


def test_binary_as_git_decides_it() -> None:
    assert is_binary(b"a" * 7999 + b"\0", {})
    assert not is_binary(b"a" * 8000 + b"\0", {})
    assert not is_binary(b"\0", {"diff": "set"})


@pytest.mark.parametrize(
    ("path", "data", "attributes", "text"),
    [
        ("a.c", b"\x01 \n", {}, True),  # by its name
        ("Makefile", b"\x01 \n", {}, True),
        ("a.pdf", b"text \n", {}, False),
        ("a.pdf", b"text \n", {"diff": "set"}, True),
        ("a.pdf", b"text \n", {"text": "set"}, True),
        ("a.sig", b"\x01 \n", {}, False),  # by its first bytes
        ("a.sig", b"\xa1\x0c \n", {}, True),
        ("a.sig", b"", {}, True),
    ],
)
def test_text_as_pre_commit_decides_it(
    path: str, data: bytes, attributes: dict[str, str], text: bool
) -> None:
    assert is_text(path, data, attributes) is text
    policy = Attributes({path: attributes}).policy(path, data, markdown_breaks=True)
    assert (("WS101" in {rule for rule, _, _ in places(data, policy)}) is text) or not data
    # What git shows in a diff must not deceive, whatever it is.
    shown = places(data + "\u202e\n<<<<<<< a\n".encode(), policy)
    assert {"WS112", "WS113"} <= {rule for rule, _, _ in shown}


def test_findings_are_limited_and_counted() -> None:
    findings = check_bytes("f", b"a \n" * (LIMIT + 5), PYTHON)
    assert len(findings) == LIMIT + 1
    assert findings[-1].message == "5 more in this file, the last one here"
    assert findings[-1].line == LIMIT + 5


@pytest.mark.parametrize(
    "data",
    [b"a" * 50_000_000, b" " * 50_000_000, b"\r" * 5_000_000, b"\t \r" * 3_000_000 + b"x"],
    ids=["letters", "spaces", "returns", "mixed"],
)
def test_large_files_take_bounded_time(data: bytes) -> None:
    start = time.process_time()
    check_bytes("f", data, PYTHON)
    assert time.process_time() - start < 20  # quadratic time would be hours


PIECES = st.sampled_from(
    [b" ", b"\t", b"\r", b"\n", b"\r\n", b"a", b"if x:\n", b"\xff", b"<<<<<<< a", b"\xe2\x80"]
    + [b"#", b"\\", b"'", b'"', b"'''", b'"""', b"f'", b"{a}", b"s = '''\n\ta \r\n'''"]
    + [text.encode() for text in "\u00a0\u200b\u200c\u200d\u202e\ufeffé"]
)
POLICIES = st.builds(
    Policy,
    blank_at_eol=st.booleans(),
    blank_at_eof=st.booleans(),
    cr_at_eol=st.booleans(),
    conversion=st.sampled_from(Conversion),
    python=st.booleans(),
    breaks=st.booleans(),
)


@settings(max_examples=600, deadline=None)
@given(st.lists(PIECES, max_size=14).map(b"".join), POLICIES)
def test_mending_leaves_nothing_to_mend(data: bytes, policy: Policy) -> None:
    once = mend(data, policy)
    assert mend(once, policy) == once
    assert [f for f in check_bytes("f", once, policy) if f.fixable] == []
    if not any(f.fixable for f in check_bytes("f", data, policy)):
        assert once == data


def constants(data: bytes) -> list[object]:
    tree = ast.parse(data)
    return [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]


def strings(data: bytes) -> list[str]:
    """String tokens as they stand in the file; CRLF too."""
    tokens = tokenize.tokenize(io.BytesIO(data).readline)
    return [t.string for t in tokens if t.type == tokenize.STRING]


PROGRAMS = st.lists(
    st.sampled_from(
        [b"s = '''", b"'''", b'"""', b"f'''{\n", b"}", b"x = 1", b"if x:\n\ty = 2", b"# ", b"\\"]
        + [b" ", b"  \n", b"\t\n", b"\r\n", b"\n", b"\n"]
        + [text.encode() for text in "\u00a0\u200b\ufeffé"]
    ),
    max_size=16,
).map(b"".join)


@pytest.mark.filterwarnings("ignore")  # of Python, about what it parses
@settings(max_examples=1500, deadline=None)
@given(PROGRAMS)
def test_values_of_a_program_stay(data: bytes) -> None:
    try:
        values = constants(data)
    except (SyntaxError, ValueError):
        return
    mended = mend(data, PYTHON)
    assert constants(mended) == values
    if mended != data:
        assert strings(mended) == strings(data)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
