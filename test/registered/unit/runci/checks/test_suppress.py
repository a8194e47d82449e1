"""Suppression comments: which are read, what they cover, and what is wrong with them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from trees import CLEAN, IMPORT, TEST, TESTS, make_tree, options, run

from runci import register_cpu_ci
from runci.checks.engine import check
from runci.checks.registry import rules
from runci.checks.suppress import suppress
from runci.core.finding import Finding
from runci.core.source import Span, at
from runci.read.comments import find_suppressions
from runci.read.parse import parse
from runci.read.testfile import Suppression

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

ALL = rules(("RT",))

FILE = f"{TESTS}/test_x.py"


def comments(text: str) -> list[tuple[tuple[str, ...], str, int, int]]:
    found = parse("x", text.encode()).suppressions
    return [(item.rules, item.reason, item.target, item.last) for item in found]


READ = [
    ("x = 1  # runci: ignore[RT109] why", [(("RT109",), "why", 1, 1)]),
    ("x = 1  #runci:ignore[RT109]why", [(("RT109",), "why", 1, 1)]),
    ("x = 1  # runci: ignore[RT109, RT501] why", [(("RT109", "RT501"), "why", 1, 1)]),
    ("x = 1  # runci: ignore[RT109 RT501]: why", [(("RT109", "RT501"), "why", 1, 1)]),
    ("x = 1  # runci: ignore[RT109] \u2014 why", [(("RT109",), "why", 1, 1)]),
    ("x = 1  # runci: ignore[RT109] #1234", [(("RT109",), "#1234", 1, 1)]),
    ("x = 1  # runci: ignore[RT109] see a#b, c # noqa", [(("RT109",), "see a#b, c", 1, 1)]),
    ("x = 1  # noqa: E501  # runci: ignore[RT109] why", [(("RT109",), "why", 1, 1)]),
    ("x = 1  # runci: ignore[RT109]", [(("RT109",), "", 1, 1)]),
    ("x = 1  # runci: ignore[]", [((), "", 1, 1)]),
    ("x = 1  # runci: ignore why", [((), "why", 1, 1)]),
    ("# runci: ignore[RT109] why\nx = 1", [(("RT109",), "why", 1, 2)]),
    ("# runci: ignore[RT109] why\n# more\nf(\n1,\n)", [(("RT109",), "why", 1, 5)]),
    ("x\n# runci: ignore[RT109] why\n# more\nf(\n1,\n)", [(("RT109",), "why", 4, 6)]),
    ("# runci: ignore[RT109] why\n\nx = 1", [(("RT109",), "why", 1, 2)]),
    ("#!/x\n# a\n# runci: ignore[RT101] why\n'''\n'''", [(("RT101",), "why", 1, 5)]),
    ("\n# runci: ignore[RT101] why\n\nx = 1", [(("RT101",), "why", 1, 3)]),
    ("'''a\n'''\n\n# runci: ignore[RT101] why\nx = 1", [(("RT101",), "why", 1, 5)]),
    ("'a'\n'b'\n# runci: ignore[RT101] why\nx = 1", [(("RT101",), "why", 4, 4)]),
    # What Python cannot read has comments all the same.
    ("f(:\n# runci: ignore[RT401] why", [(("RT401",), "why", 2, 2)]),
    ("x = (\n# runci: ignore[RT401] why\ndef f(): pass", [(("RT401",), "why", 3, 3)]),
    ("if x:\n  1\n 2\n# runci: ignore[RT401] why\n3", [(("RT401",), "why", 5, 5)]),
    ("x = '''\n# runci: ignore[RT401] why\n", [(("RT401",), "why", 2, 2)]),
    ("x\n# runci: ignore[RT109] why\n\nx = 1", [(("RT109",), "why", 3, 3)]),
    ("f(\n    # runci: ignore[RT109] why\n    1,\n    2,\n)", [(("RT109",), "why", 1, 5)]),
    ("f(  # runci: ignore[RT109] why\n    1,\n)", [(("RT109",), "why", 1, 3)]),
    ("# runci: ignore[RT109] why\nclass A:\n    x = 1", [(("RT109",), "why", 1, 2)]),
    ("if a:\n    # runci: ignore[RT109] why\n    x = 1", [(("RT109",), "why", 3, 3)]),
    ("\x0c\nx = 1  # runci: ignore[RT109] why", [(("RT109",), "why", 2, 2)]),
    ("x = 1\ry = 2  # runci: ignore[RT109] why\r", [(("RT109",), "why", 2, 2)]),
    ("x = '\u2028'  # runci: ignore[RT109] why", [(("RT109",), "why", 1, 1)]),
    ("x = '# runci: ignore[RT109] why'", []),
    ("'''\n# runci: ignore[RT109] why\n'''", []),
    ("x = 1  # runci ignore[RT109] why", []),
    ("x = 1  # runci: ignored[RT109] why", []),
]


@pytest.mark.parametrize(("text", "wanted"), READ, ids=lambda value: repr(value)[:50])
def test_reads_comments(text: str, wanted: list[tuple[object, ...]]) -> None:
    assert comments(text) == wanted


def finding(rule: str, line: int, end: int | None = None) -> Finding:
    return Finding("x", Span(line, 1, end or line, 2), rule, "m")


def apply(items: list[Suppression], *found: Finding, active: frozenset[str] = frozenset(ALL)):
    return suppress(found, {"x": items}, active)


def item(
    line: int, *rules: str, reason: str = "why", target: int = 0, last: int = 0
) -> Suppression:
    target = target or line
    return Suppression(rules, reason, target, last or target, at(line, 10))


@pytest.mark.parametrize(
    ("comment", "found", "gone"),
    [
        (item(3, "RT109"), finding("RT109", 3), True),
        (item(3, "RT109"), finding("RT109", 2, 4), True),
        (item(3, "RT109"), finding("RT109", 4), False),
        (item(3, "RT109"), finding("RT501", 3), False),
        (item(3, "RT501", "RT109"), finding("RT109", 3), True),
        (item(3, "RT10"), finding("RT109", 3), False),
        (item(3, "RT109", reason=""), finding("RT109", 3), False),
        (item(3, "RT109", target=4, last=6), finding("RT109", 5), True),
        (item(3, "RT109", target=4, last=6), finding("RT109", 7), False),
        (item(3, "RT109", target=4, last=6), finding("RT109", 2), False),
        (item(3, "RT109", target=4, last=6), finding("RT109", 4), True),
        (item(3, "RT109", target=4, last=6), finding("RT109", 6), True),
        (item(3, "RT109", target=4, last=6), finding("RT109", 6, 9), True),
        (item(3, "RT109", target=4, last=6), finding("RT109", 1, 4), True),
        (item(5, "RT109", target=9), finding("RT109", 4, 6), True),  # it stands in the finding
        (item(5, "RT109", target=9), finding("RT109", 5), True),
        (item(5, "RT109", target=9), finding("RT109", 6, 8), False),
        (item(5, "RT109", target=9), finding("RT109", 3, 4), False),
    ],
)
def test_covers(comment: Suppression, found: Finding, gone: bool) -> None:
    done = apply([comment], found)
    assert (found not in done.findings) == gone
    assert len(done.accepted) == gone


def test_one_comment_covers_all_and_two_cover_one() -> None:
    both = apply([item(3, "RT109")], finding("RT109", 3), finding("RT109", 3))
    assert both.findings == ()
    assert len(both.accepted) == 2
    twice = apply([item(3, "RT109"), item(3, "RT109")], finding("RT109", 3))
    assert twice.findings == ()
    assert len(twice.accepted) == 1


def rules(done) -> list[str]:
    return [f.rule for f in done.findings]


def test_faults_of_comments() -> None:
    assert rules(apply([item(3)])) == ["RT901"]
    assert rules(apply([item(3, "RT1234")])) == ["RT901"]
    assert rules(apply([item(3, "RT109", reason="")])) == ["RT901"]
    assert rules(apply([item(3, "RT109")])) == ["RT902"]
    half = apply([item(3, "RT109", "RT501")], finding("RT109", 3))
    assert [(f.rule, f.key) for f in half.findings] == [("RT902", "RT501")]
    both = apply([item(3, "RT109", "RT501")], finding("RT109", 3), finding("RT501", 3))
    assert rules(both) == []


def test_only_a_rule_that_ran_makes_a_comment_unused() -> None:
    assert rules(apply([item(3, "RT109")], active=frozenset(["RT902"]))) == []
    assert rules(apply([item(3, "RT109")], active=frozenset(["RT109", "RT902"]))) == ["RT902"]
    assert rules(apply([item(3, "RT109")], active=frozenset(["RT109"]))) == []
    assert rules(apply([item(3)], active=frozenset(["RT109"]))) == []


LONG = """register_cpu_ci(
    est_time=5,
    # runci: ignore[RT101] inside
    disabled="flaky",
)  # runci: ignore[RT109] at the end
x = 1  # runci: ignore[RT105] of one line
"""


def test_a_comment_speaks_for_its_whole_statement() -> None:
    found = find_suppressions(LONG)
    assert [(s.rules[0], s.target, s.last) for s in found] == [
        ("RT101", 1, 5),
        ("RT109", 1, 5),
        ("RT105", 6, 6),
    ]


def test_suggests_the_nearest_rule() -> None:
    (found,) = apply([item(3, "RT1O9")]).findings
    assert "did you mean 'RT109'?" in found.message


def test_the_whole_lint_suppresses(tmp_path) -> None:
    call = 'register_cpu_ci(est_time=5, suite="by-hand", disabled="x")'
    text = f"{IMPORT}{call}  # runci: ignore[RT109] why\n{call}  # kept\n{TEST}"
    root = make_tree(tmp_path, {FILE: text, f"{TESTS}/test_y.py": CLEAN})
    result = run(root)
    assert [(f.rule, f.line) for f in result.findings] == [("RT108", 4), ("RT109", 4)]
    assert result.suppressed == 1


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("RT401", b"# runci: ignore[RT401] why\nimport a\n\n\ndef test_b(:\n    pass\n"),
        ("RT401", b"import a\n\n\n# runci: ignore[RT401] why\ndef test_b(:\n    pass\n"),
        ("RT401", b"import a\n\n\ndef test_b(:  # runci: ignore[RT401] why\n    pass\n"),
        ("RT401", b'"""A."""\n# runci: ignore[RT401] why\n\nx = (\n\n\ndef f():\n    pass\n'),
        ("RT401", b"# runci: ignore[RT401] why\nx = '''\n"),
        ("RT402", b"# runci: ignore[RT402] why\nx = 1\ny = '\xe9'\n"),
        ("RT402", b"x = 1\ny = '\xe9'  # runci: ignore[RT402] why\n"),
        ("RT101", b"# runci: ignore[RT101] why\n\n\ndef test_a():\n    assert 1\n"),
        ("RT101", b'"""A."""\n\n# runci: ignore[RT101] why\n\n\ndef test_a():\n    assert 1\n'),
    ],
)
@pytest.mark.parametrize("families", [("RT",), ("RT", "WS")], ids="-".join)
def test_a_comment_accepts_a_fault_of_the_whole_file(
    tmp_path: Path, rule: str, text: bytes, families: tuple[str, ...]
) -> None:
    root = make_tree(tmp_path, {FILE: text, f"{TESTS}/test_y.py": CLEAN})
    active = (rule, "RT901", "RT902")
    result = check(options(root, active=active), families)
    assert (result.findings, result.suppressed) == ((), 1)
    (root / FILE).write_bytes(text.replace(b"runci: ignore", b"not one"))
    result = check(options(root, active=active), families)
    assert [f.rule for f in result.findings] == [rule]


def test_workflows_take_comments_too(tmp_path) -> None:
    lines = [
        "      - run: runci run --suite a # runci: ignore[RT206] tests follow",
        "      # runci: ignore[RT206] tests follow",
        "      - run: runci run --suite b",
        "      - run: runci run --suite c # runci: ignore[RT206]",
    ]
    workflow = "on: push\njobs:\n  x:\n    steps:\n" + "\n".join(lines) + "\n"
    files = {".github/workflows/a.yml": workflow, FILE: CLEAN.replace("base-a", "base-b")}
    result = run(make_tree(tmp_path, files), ("RT206", "RT901", "RT902"))
    assert [(f.rule, f.line) for f in result.findings] == [("RT206", 8), ("RT901", 8)]
    assert result.suppressed == 2


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
