"""Which marks the tests of a file have, compared with what pytest itself gives them."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from runci import register_cpu_ci
from runci.read.parse import parse

register_cpu_ci(est_time=20, stage="base-a", runner_config="cpu")

FILES = {
    "none": "def test_a(): pass",
    "decorators": """
        @pytest.mark.gpu
        @pytest.mark.gpus(2)
        @pytest.mark.parametrize("x", [1])
        def test_a(x): pass
        def test_b(): pass
    """,
    "module": "pytestmark = pytest.mark.gpu\ndef test_a(): pass",
    "module, several": "pytestmark = [pytest.mark.gpu, pytest.mark.gpus(n=2)]\ndef test_a(): pass",
    "classes": """
        @pytest.mark.gpu
        class TestA:
            pytestmark = [pytest.mark.slow]
            @pytest.mark.gpus(4)
            def test_a(self): pass
            def test_b(self): pass
    """,
    "bases": """
        @pytest.mark.gpu
        class Base:
            @pytest.mark.slow
            def test_a(self): pass
        class TestA(Base):
            def test_b(self): pass
    """,
    "cases": """
        class TestA(unittest.TestCase):
            @pytest.mark.gpu
            def test_a(self): pass
            def test_b(self): pass
    """,
    "aliases": """
        from pytest import mark
        gpu = pytest.mark.gpu
        two = pytest.mark.gpus(2)
        N = 4
        @gpu
        def test_a(): pass
        @two
        def test_b(): pass
        @mark.gpus(N)
        def test_c(): pass
    """,
    "parameters": """
        @pytest.mark.parametrize("x", [1, pytest.param(2, marks=pytest.mark.gpu)])
        def test_a(x): pass
        @pytest.mark.parametrize("x", [pytest.param(2, marks=[pytest.mark.gpu, pytest.mark.slow])])
        def test_b(x): pass
    """,
    "under if": """
        if sys.platform:
            @pytest.mark.gpu
            def test_a(): pass
    """,
    "async": "@pytest.mark.gpu\nasync def test_a(): pass",
}
ASK = """
import json, sys, pytest
from runci.core.marks import mark_text
class Ask:
    def pytest_collection_modifyitems(self, items):
        known = ("parametrize", "skip", "skipif")
        marks = [[m for m in i.iter_markers() if m.name not in known] for i in items]
        texts = {tuple(sorted({mark_text(m.name, m.args, m.kwargs) for m in of})) for of in marks}
        open(sys.argv[2], "w").write(json.dumps(sorted(texts)))
pytest.main(["-q", "--collect-only", "-p", "no:cacheprovider", sys.argv[1]], plugins=[Ask()])
"""


@pytest.mark.parametrize("name", FILES)
def test_pytest_says_the_same(name: str, tmp_path: Path) -> None:
    text = "import sys\nimport unittest\nimport pytest\n" + textwrap.dedent(FILES[name])
    path = tmp_path / "test_it.py"
    path.write_text(text, encoding="utf-8")
    command = [sys.executable, "-c", ASK, str(path), str(tmp_path / "marks.json")]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    asked = [tuple(marks) for marks in json.loads((tmp_path / "marks.json").read_text())]
    found = parse("test_it.py", text.encode()).marks
    # A test that is parametrized may have the marks of any of its parameters, or none of them.
    assert set(asked) <= set(found)
    if name not in ("parameters",):
        assert list(found) == asked


@pytest.mark.parametrize(
    ("body", "marks"),
    [
        ("@pytest.mark.gpus(count())\ndef test_a(): pass", [("gpus(...)",)]),
        ("@pytest.mark.gpus(*[1])\ndef test_a(): pass", [("gpus(...)",)]),
        ("from elsewhere import Base\n@pytest.mark.gpu\nclass TestA(Base): pass", [("gpu",)]),
        ("from elsewhere import test_a\npytestmark = pytest.mark.gpu", [("gpu",)]),
        ("@pytest.mark.skipif(True, reason='x')\ndef test_a(): pass", [()]),
        ("@marked.gpu\ndef test_a(): pass", [()]),
        ("", [()]),
    ],
)
def test_what_no_collecting_tells(body: str, marks: list[tuple[str, ...]]) -> None:
    assert list(parse("test_a.py", f"import pytest\n{body}\n".encode()).marks) == marks


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
