"""What holds for any input: nothing crashes, what was written is read, a fix is final."""

from __future__ import annotations

import ast
import json
import random
import sys
import sysconfig
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from trees import TAXONOMY, TESTS

from runci import register_cpu_ci
from runci.checks import fix
from runci.checks.registry import rules
from runci.checks.rt import check
from runci.checks.rule import Tree
from runci.checks.suppress import suppress
from runci.config.suites import load_taxonomy
from runci.core.registration import PARAMETERS, POSITIONAL, Backend
from runci.read.parse import parse
from runci.read.registrations import registrations
from runci.read.testfile import from_row, to_row

register_cpu_ci(est_time=3, stage="base-a", runner_config="cpu")

ALL = rules(("RT",))

# The same inputs in every run, so that a failure is a change of the code.
settings.register_profile(
    "runci", derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile("runci")

FILE = f"{TESTS}/test_x.py"
LIBRARY = Path(sysconfig.get_paths()["stdlib"])


TAXA = load_taxonomy(TAXONOMY.read_bytes(), "suites.yml")


def tree_of(data: bytes) -> Tree:
    file = parse(FILE, data)
    return Tree([file], TAXA, {FILE: registrations(file)})


def lint(data: bytes):
    """All findings of one file, and what a cache would give back."""
    tree = tree_of(data)
    file = tree.files[0]
    assert from_row(FILE, json.loads(json.dumps(to_row(file)))) == file
    found = check(tree, frozenset(ALL))
    lines = data.count(b"\n") + data.count(b"\r") + 1
    for item in found:
        assert 1 <= item.line <= lines + 1
        assert item.column >= 1
        assert item.span[:2] <= item.span[2:]
    return suppress(found, {FILE: file.suppressions}, frozenset(ALL)).findings


# Pieces of test files, whole and broken, in any order.
PIECES = [
    "from runci import register_cpu_ci\n",
    "from runci import register_cpu_ci as reg, register_cuda_ci\n",
    "import runci, unittest, pytest, sys\n",
    "from elsewhere import *\n",
    "register_cpu_ci(est_time=5, stage='base-a', runner_config='cpu')\n",
    "register_cuda_ci(est_time=5, suite='old-style')\n",
    "register_cuda_ci(5, 'base-b-test-1-gpu-large', False, 'é')  # why\n",
    "reg(est_time=5, suite='by-hand')\n",
    "runci.register_cpu_ci(est_time=0, suite='by-hand'); x = 'é'\n",
    "if x:\n    register_cpu_ci(est_time=T, **k)\n",
    "# runci: ignore[RT109] why\n",
    "# runci: ignore\n",
    "class TestX(unittest.TestCase):\n    def test_x(self):\n        pass\n",
    "def test_y():\n    if not torch.cuda.is_available():\n        return\n    assert 1\n",
    "if __name__ == '__main__':\n    unittest.main()\n",
    "if __name__ == '__main__':\n    pytest.main([__file__])\n    # end\n",
    "def run():\n    return pytest.main()\nif '__main__' == __name__: run()\n",
    '"""\nregister_cpu_ci(est_time=5)\n"""\n',
    "\x0c\n",
    "\n\n",
    "# é \u2028\n",
    "x = (\n",
    "  y\n",
    "\t\n",
]
sources = st.lists(st.sampled_from(PIECES), max_size=9).map("".join)
ends = st.sampled_from(["\n", "\r\n", "\r"])
heads = st.sampled_from(["", "\ufeff", "# coding: latin-1\n", "#!/bin/x\n", '"""D."""\n'])


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """The bytes of a test file, with any line ends and sometimes another encoding."""
    text = draw(heads) + draw(sources)
    if draw(st.booleans()):
        text = text.rstrip("\n")
    encoding = "latin-1" if "latin-1" in text and "\u2028" not in text else "utf-8"
    return text.replace("\n", draw(ends)).encode(encoding, "replace")


@settings(max_examples=300)
@given(st.binary(max_size=300))
@example(b"\xef\xbb\xbf\xef\xbb\xbf")
@example(b"# coding: rot13")
@example(b"\r\0")
def test_any_bytes(data: bytes) -> None:
    lint(data)


@settings(max_examples=300)
@given(
    st.text(alphabet="register_cpu_ci()[]{}:=,.#'\"\\\n\r\t \x0c@*if0é\u2028\ufeff", max_size=120)
)
def test_any_text(text: str) -> None:
    lint(text.encode("utf-8"))


@settings(max_examples=400)
@given(files())
def test_any_arrangement(data: bytes) -> None:
    lint(data)


def test_the_standard_library() -> None:
    """Files of every kind, among them those that Python's own tests call bad."""
    paths = sorted(LIBRARY.glob("*.py")) + sorted(LIBRARY.glob("test/**/*.py"))
    for path in random.Random(2).sample(paths, min(80, len(paths))):
        data = path.read_bytes()
        file = parse("x", data)
        try:
            compile(data, "x", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            continue
        assert file.readable, path


@settings(max_examples=60)
@given(st.data())
def test_mutated_trees(data: st.DataObject) -> None:
    """Any statement of one file in the place of any other: all that Python can compile."""
    text = (
        LIBRARY / data.draw(st.sampled_from(["bisect.py", "unittest/main.py", "this.py"]))
    ).read_text()
    tree = ast.parse(text + "\n" + "".join(PIECES[:20]))
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.stmt)]
    bodies = [n.body for n in ast.walk(tree) if isinstance(getattr(n, "body", None), list)]
    for _ in range(data.draw(st.integers(1, 5))):
        body = data.draw(st.sampled_from(bodies))
        body.insert(data.draw(st.integers(0, len(body))), data.draw(st.sampled_from(nodes)))
    try:
        source = ast.unparse(tree)
        compile(source, "x", "exec")
    except (SyntaxError, RecursionError, ValueError):
        return
    assert parse("x", source.encode("utf-8", "replace")).readable


values = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)
space = st.sampled_from(["", " ", "  ", "\n    ", ' # ) , = "\n  ', "\\\n", "\n\n\t"])

blank = st.sampled_from(["", " ", "\t", "\\\n  "])


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, Backend, dict[str, object]]:
    """A registration in any formatting, with what it says."""
    given_ = {
        "est_time": draw(st.integers(1, 10**6) | st.floats(0.001, 1e6)),
        "nightly": draw(st.booleans()),
        "disabled": draw(values | st.none()),
        "in_process_group": draw(values | st.none()),
    }
    names = ("suite",) if draw(st.booleans()) else ("stage", "runner_config")
    given_ |= {name: draw(values) for name in names}
    positional = draw(st.integers(0, 4))
    order = [name for name in POSITIONAL[:positional] if name in given_]
    order = order if tuple(order) == POSITIONAL[: len(order)] else []
    rest = draw(st.permutations([name for name in given_ if name not in order]))
    parts = [_written(draw, given_[name]) for name in order]
    parts += [f"{name}{draw(space)}={draw(space)}{_written(draw, given_[name])}" for name in rest]
    backend = draw(st.sampled_from(list(Backend)))
    inside = "".join(f"{draw(space)}{part}{draw(space)}," for part in parts)
    inside = inside if draw(st.booleans()) else inside.rstrip(",")
    return f"{backend.marker}{draw(blank)}({inside}{draw(space)})", backend, given_


def _written(draw: st.DrawFn, value: object) -> str:
    text = repr(value)
    if isinstance(value, str) and len(value) > 1 and draw(st.booleans()):
        middle = draw(st.integers(1, len(value) - 1))
        text = f"({value[:middle]!r}{draw(space)}{value[middle:]!r})"
    return f"({text})" if draw(st.booleans()) else text


@settings(max_examples=120)
@given(
    st.lists(calls(), min_size=1, max_size=3),
    st.sampled_from(["\n", "\r\n"]),
    heads.filter(lambda h: "coding" not in h),
)
def test_what_is_written_is_read(written, newline: str, head: str) -> None:
    source = head + "".join(f"{text}\n" for text, _, _ in written)
    ast.parse(source.removeprefix("\ufeff"))
    found = registrations(
        parse("x", source.replace("\n", newline).encode("utf-8", "surrogatepass"))
    )
    assert len(found) == len(written)
    for one, (_, backend, wanted) in zip(found, written, strict=True):
        assert one.backend is backend
        read = {name: getattr(one, name) for name in PARAMETERS}
        assert read == {name: wanted.get(name) for name in PARAMETERS}


FIXABLE = frozenset(rule.id for rule in ALL.values() if rule.fixable)


@settings(max_examples=150)
@given(files())
def test_a_fix_is_final(data: bytes) -> None:
    """Afterwards nothing is left that can be mended, no test is lost, and it parses as before."""
    before = parse(FILE, data)
    fixed = fix.fix_bytes(FILE, data, FIXABLE, tree_of(data))
    after = parse(FILE, fixed.after)
    left = [f for f in check(tree_of(fixed.after), FIXABLE) if f.fixable]
    comments = {FILE: after.suppressions}
    assert suppress(left, comments, frozenset()).findings == ()
    assert fix.fix_bytes(FILE, fixed.after, FIXABLE, tree_of(fixed.after)).after == fixed.after
    assert after.readable == before.readable
    assert after.tests >= before.tests
    assert (fixed.count > 0) == (fixed.after != data)
    kept = {(r.backend, r.effective_suite) for r in registrations(before)}
    assert kept <= {(r.backend, r.effective_suite) for r in registrations(after)}


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
