"""GitHub's expressions, with known and unknown values, and the commands of shell scripts."""

from __future__ import annotations

import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runci import register_cpu_ci
from runci.workflows.evaluate import can_hold, evaluate_text, render
from runci.workflows.expressions import ExpressionError, parse, split
from runci.workflows.shell import commands
from runci.workflows.values import OneOf, Partial, Unknown, text_of

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

CONTEXTS = {
    "inputs": {"name": "a", "no": False, "none": None, "n": 3, "Mixed-Case_1": "m"},
    "env": Partial({"KNOWN": "k"}),
    "matrix": {"list": ("x", {"y": "z"}), "s": OneOf(("p", "q"))},
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None),
        ("true", True),
        ("-1.5e1", -15),
        ("0xff", 255),
        ("0o17", 15),
        ("'it''s'", "it's"),
        ("inputs.name", "a"),
        ("INPUTS.NAME", "a"),
        ("inputs['name']", "a"),
        ("inputs.mixed-case_1", "m"),
        ("inputs.gone", None),
        ("inputs.gone.deeper", None),
        ("matrix.list[1].y", "z"),
        ("matrix.list[9]", None),
        ("matrix.list.*.y", ("z",)),
        ("!inputs.no", True),
        ("!''", True),
        ("!'false'", False),
        ("1 == true", True),
        ("'' == 0", True),
        ("null == 0", True),
        ("'A' == 'a'", True),
        ("'a' != 'b'", True),
        ("'a' < 'B'", True),
        ("3 >= inputs.n", True),
        ("'x' > 1", False),
        ("NaN == NaN", False),
        ("inputs.no && 'x'", False),
        ("inputs.no || 'x'", "x"),
        ("'a' || 'b' && 'c'", "a"),
        ("('a' || 'b') && 'c'", "c"),
        ("true && 1 == 1", True),
        ("contains('Hello', 'ELL')", True),
        ("contains(matrix.list, 'X')", True),
        ("contains(fromJSON('[\"a\", \"b\"]'), 'b')", True),
        ("startsWith('abc', 'AB')", True),
        ("endsWith('abc', 'bc')", True),
        ("format('{0}{{1}}{1}', 'a', 2)", "a{1}2"),
        ("join(fromJSON('[1, 2]'), '-')", "1-2"),
        ("fromJSON('{\"a\": [true]}').a[0]", True),
        ("fromJSON(toJSON(inputs)).n", 3),
        ("always()", True),
    ],
)
def test_known_values(text, value):
    assert evaluate_text(text, CONTEXTS) == (value,)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("github.x", {"*"}),
        ("env.GONE", {"*"}),
        ("env.KNOWN", {"k"}),
        ("github.x && 'a' || 'b'", {"a", "b"}),
        ("github.x || 'b'", {"*", "b"}),
        ("github.x == 'y'", {"true", "false"}),
        ("success()", {"true", "false"}),
        ("matrix.s", {"p", "q"}),
        ("format('{0}-{1}', matrix.s, github.x)", {"p-*", "q-*"}),
        ("unheard_of('a')", {"*"}),
        ("fromJSON(vars.x).y", {"*"}),
        ("fromJSON('{')", {"*"}),
        ("(", {"*"}),
    ],
)
def test_unknown_values(text, values):
    assert set(map(text_of, evaluate_text(text, CONTEXTS))) == values


@pytest.mark.parametrize(
    "text",
    ["", "a b", "a.", "a[", "f(", "f(a,)", "(a", "a ||", "'a", '"a"', "a = b", "a..b", "&", "[1]"],
)
def test_what_github_refuses(text):
    with pytest.raises(ExpressionError):
        parse(text)


def test_nesting_is_bounded():
    with pytest.raises(ExpressionError):
        parse("(" * 100_000)
    assert evaluate_text("a" + " || a" * 50_000, {}) == (Unknown(),)


def test_templates():
    assert render("a-${{ inputs.name }}-${{ inputs.n }}", CONTEXTS) == ("a-a-3",)
    assert render("${{ inputs.n }}", CONTEXTS) == (3,)
    assert render("x${{ vars.a }}${{ vars.b }}y", CONTEXTS) == (Unknown("x*y"),)
    assert [piece.text for piece in split("a${{ '}}' }}b${{ c")] == ["a", "'}}'", "b${{ c"]


def test_too_many_values_are_unknown():
    many = OneOf(tuple(f"v{i}" for i in range(257)))
    assert render("${{ a.b }}-x", {"a": {"b": many}}) == (Unknown("*-x"),)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("inputs.no", False),
        ("${{ inputs.no }}", False),
        ("${{ inputs.no }} ", True),  # GitHub sees a text, which is never false
        ("github.x && inputs.no", False),
        ("github.x || inputs.no", True),
        ("!(github.x || !inputs.no)", False),
        ("!cancelled() && inputs.name == 'a'", True),
        ("", True),
    ],
)
def test_conditions(text, holds):
    assert can_hold(text, CONTEXTS) is holds


def shown(script: str) -> list[list[str]]:
    return [[word.text for word in command.words] for command in commands(script)]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("a b;c&&d||e|f&g", [["a", "b"], ["c"], ["d"], ["e"], ["f"], ["g"]]),
        ("a 'b c' \"d 'e'\" f\\ g", [["a", "b c", "d 'e'", "f g"]]),
        ("a '' \"\"", [["a", "", ""]]),
        ("a \\\n  b # c\n#d\ne#f", [["a", "b"], ["e#f"]]),
        ("a ${X:-y z} $(b c) `d`", [["b", "c"], ["d"], ["a", "${X:-y z}", "$(b c)", "`d`"]]),
        ('a "$(b "c d")"', [["b", "c d"], ["a", '$(b "c d")']]),
        ("a ${{ b && 'c;d' }} '${{ e || 'f' }}'", [["a", "${{ b && 'c;d' }}", "${{ e || 'f' }}"]]),
        ("a <<EOF >f\nb\nEOF\nc", [["a", "f"], ["c"]]),
        ("bash <<-'E'\n\tb c\n\tE\nd", [["bash"], ["b", "c"], ["d"]]),
        ("sh <<EOF\nb\nEOF\nc", [["sh"], ["b"], ["c"]]),
        ("/bin/dash -e <<EOF\nb\nEOF", [["/bin/dash", "-e"], ["b"]]),
        ("sudo zsh -s x <<EOF\nb\nEOF", [["sudo", "zsh", "-s", "x"], ["b"]]),
        ("cat <<EOF\nb\nEOF", [["cat"]]),
        ("a <<< b", [["a", "b"]]),
        ("a &> b; c 2>&1", [["a", "b"], ["c", "2"]]),
        ("case x in a) b;; esac", [["case", "x", "in", "a"], ["b"], ["esac"]]),
        ("a $((1 + 2))", [["a", "$((1 + 2))"]]),
        ("a 'unclosed", [["a", "unclosed"]]),
    ],
)
def test_commands(script, expected):
    assert shown(script) == expected


def test_assignments():
    (command,) = commands("if A=1 B='2 3' run")
    assert command.assigned == (("A", "1"), ("B", "2 3"))
    assert commands("A+=x")[0].assigned == (("A", "${A}x"),)
    assert commands("read -r A B")[0].assigned == (("A", "$()"), ("B", "$()"))


def test_lines():
    found = commands("a\n\nb \\\n c 'd\ne'\nf <<X\n1\nX\ng $(h\ni)")
    assert [(word.text, word.line) for command in found for word in command.words] == [
        ("a", 0),
        ("b", 2),
        ("c", 3),
        ("d\ne", 3),
        ("f", 5),
        ("h", 8),
        ("i", 9),
        ("g", 8),
        ("$(h\ni)", 8),
    ]


FRAGMENTS = st.lists(
    st.sampled_from([*"abX0 \n\t'\"\\$`;&|()<>{}#=!*.,[]-", "${{", "}}", "$(", "<<E", "E\n", "&&"]),
    max_size=40,
).map("".join)


@given(FRAGMENTS)
def test_any_script_is_read(script):
    for command in commands(script):
        assert all(0 <= word.line <= script.count("\n") for word in command.words)


@given(FRAGMENTS)
def test_any_template_is_evaluated(text):
    assert render(text, CONTEXTS)
    assert can_hold(text, CONTEXTS) in (True, False)


@given(st.floats() | st.text() | st.booleans() | st.none())
def test_literals_read_back(value):
    if isinstance(value, str):
        text = "'" + value.replace("'", "''") + "'"
    else:
        text = {True: "true", False: "false", None: "null"}.get(value) or text_of(value)
    if isinstance(value, float) and not isinstance(value, bool):
        text = repr(value).replace("inf", "Infinity").replace("nan", "NaN")
    (found,) = evaluate_text(text, {})
    assert found == value or (math.isnan(found) and math.isnan(value))


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
