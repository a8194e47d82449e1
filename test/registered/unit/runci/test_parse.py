"""Bytes → TestFile: encodings, positions, calls, main blocks, tests; faults as data."""

from __future__ import annotations

import ast
import json
import sys
import warnings

import pytest
from trees import CALL, IMPORT, TEST

from runci import register_cpu_ci
from runci.parse import parse
from runci.parse.model import TestFile as ParsedFile  # pytest would collect it by its name
from runci.parse.model import from_row, to_row
from runci.source import Span, at

register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")

BOM = b"\xef\xbb\xbf"


def read(text: str | bytes) -> ParsedFile:
    data = text if isinstance(text, bytes) else text.encode()
    file = parse("test/x.py", data)
    row = json.loads(json.dumps(to_row(file)))
    assert from_row("test/x.py", row) == file
    return file


def errors(text: str | bytes) -> list[tuple[str, int, int]]:
    return [(error.kind, error.span.line, error.span.column) for error in read(text).errors]


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"", []),
        (b"\n\x0c\n", []),
        (BOM + b"x = 1\n", [("bom", 1, 1)]),
        (BOM, [("bom", 1, 1)]),
        (BOM + BOM + b"x = 1\n", [("bom", 1, 1), ("syntax", 1, 1)]),
        (BOM + b"# coding: latin-1\n", [("bom", 1, 1), ("encoding", 1, 1)]),
        (b"\xff\xfex\0", [("encoding", 1, 1)]),
        (b"\xfe\xff\0x", [("encoding", 1, 1)]),
        (b"x = 1\r\ny = '\0'\n", [("encoding", 2, 6)]),
        (b"x = 1\ry = '\0'\n", [("encoding", 2, 6)]),
        (b"x = 1\n# \xc3\xa9 \xe9\n", [("encoding", 2, 5)]),
        (b"# coding: latin-1\nx = '\xe9'\n", []),
        (b"#!/bin/x\n# -*- coding: cp1252 -*-\nx = '\x80'\n", []),
        (b"\n\n# coding: klingon\n", []),
        (b"# coding: klingon\n", [("encoding", 1, 1)]),
        (b"# coding: rot13\nk = 1\n", [("encoding", 1, 1)]),
        (b"# coding: zlib\nk = 1\n", [("encoding", 1, 1)]),
        (b"# coding: undefined\nk = 1\n", [("encoding", 1, 1)]),
        (b"# coding: idna\nk = '\xe9'\n", [("encoding", 2, 6)]),
        (b"# coding: utf-16\nk = 1\n", [("encoding", 2, 6)]),
        (b"x = (\n", [("syntax", 1, 5)]),
        (b"def f():\n\tx\n        y\n", [("syntax", 3, 10)]),
        (b"a\nb c\n", [("syntax", 2, 1)]),
        ("'é' = 1\n".encode(), [("syntax", 1, 1)]),
        (b"x = 08\n", [("syntax", 1, 5)]),
        (b"x = " + b"9" * 5000 + b"\n", [("syntax", 1, 5)]),
        (b"(" * 100_000, [("syntax", 1, 200)]),
        (b"x = " + b"(" * 150 + b"1" + b")" * 150 + b"\n", []),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_faults_are_data(data: bytes, wanted: list[tuple[str, int, int]]) -> None:
    found = errors(data)
    assert [kind for kind, _, _ in found] == [kind for kind, _, _ in wanted]
    if "syntax" not in {kind for kind, _, _ in wanted}:  # Python's own position differs by version
        assert found == wanted


def test_a_syntax_error_has_pythons_message_and_position() -> None:
    text = IMPORT + "def test(:\n    pass\n"
    (error,) = read(text).errors
    with pytest.raises(SyntaxError) as caught:
        ast.parse(text)
    assert error.message.startswith(caught.value.msg or "")
    assert f"Python {sys.version_info.major}.{sys.version_info.minor}" in error.message
    assert (error.span.line, error.span.column) == (caught.value.lineno, caught.value.offset)


def test_a_large_file_is_not_read() -> None:
    (error,) = parse("x", b"x" * 50_000_000).errors
    assert error.kind == "unreadable"
    assert "50 MB" in error.message


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "+".join(["1"] * 3000),
        "if a:\n    pass\n" + "elif a:\n    pass\n" * 900,
        "if torch.cuda.is_available():\n    pass\n"
        + "elif f():\n    pass\n" * 900
        + "test = type(1)",
        "x" + ".a" * 3000,
        "x" + "()" * 900,
        "x = " + "[" * 90 + "]" * 90,
        IMPORT + "register_cpu_ci(est_time=" + "-" * 900 + "1)",
        IMPORT + "register_cpu_ci(est_time=" + "+".join(["1"] * 900) + ")",
        "def test_x():\n    if not cuda_is_available" + "()" * 500 + ":\n        return",
        "if __name__ == '__main__':\n    " + "not " * 900 + "pytest.main()",
        "if " + "not " * 900 + "(__name__ == '__main__'):\n    pass",
    ],
    ids=lambda text: text[:20] + text[-10:],
)
def test_deep_nesting_never_raises(text: str) -> None:
    file = read(text)
    try:
        ast.parse(text)
    except (RecursionError, MemoryError):
        assert file.errors  # what Python cannot read is said
    else:
        assert file.errors == ()


def test_no_warning_escapes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read('x = "\\d"; y = 1is 1\n').errors == ()


# What stands before the call, and the line and column (in characters) of the call.
PLACES = [
    ("", 1, 1),
    ("\n\n", 3, 1),
    ("\r\n\r\n", 3, 1),
    ("\r\r", 3, 1),
    ("\n\r", 3, 1),
    ("\x0c\n", 2, 1),
    ("x = 1; ", 1, 8),
    ("x = 'éé'; ", 1, 11),
    ("x = '\U0001f40d'; ", 1, 10),
    ("# \u2028 \x85 \x1c\n", 2, 1),
    ("'''\n\u2028é\n''' ; ", 3, 7),
    ("x = 1 + \\\n    2\n", 3, 1),
]


@pytest.mark.parametrize(("before", "line", "column"), PLACES, ids=lambda value: repr(value)[:20])
def test_positions_count_characters(before: str, line: int, column: int) -> None:
    text = before + CALL.strip()
    (call,) = read(text).calls
    end = column + len(CALL.strip())
    assert call.span == Span(line, column, line, end)
    assert call.function_span == Span(line, column, line, column + len("register_cpu_ci"))
    est_time = call.arguments[0]
    start = column + len("register_cpu_ci(")
    assert est_time.span == Span(line, start, line, start + len("est_time=5"))
    assert est_time.value_span == Span(
        line, start + len("est_time="), line, start + len("est_time=5")
    )


def test_positions_of_arguments_over_lines() -> None:
    (call,) = read("register_cpu_ci(\n    20,\n    suite=(\n        'é'\n    ),\n)\n").calls
    assert [a.name for a in call.arguments] == ["est_time", "suite"]
    assert call.arguments[0].span == Span(2, 5, 2, 7)
    assert call.arguments[1].value_span == Span(4, 9, 4, 12)
    assert call.span == Span(1, 1, 6, 2)


CALLS = [
    ("from runci import register_cpu_ci\nregister_cpu_ci()", "name", "runci", None),
    ("from a.b import register_cpu_ci\nregister_cpu_ci()", "name", "a.b", None),
    ("from . import register_cpu_ci\nregister_cpu_ci()", "name", ".", None),
    ("from runci import *\nregister_cpu_ci()", "name", "runci", None),
    ("from a import *\nfrom b import *\nregister_cpu_ci()", "name", "a,b", None),
    ("register_cpu_ci()", "name", None, None),
    ("from runci import register_cpu_ci as r\nr()", "alias", "runci", None),
    ("import runci\nr = runci.register_cpu_ci\nr()", "alias", "runci", None),
    ("from runci import register_cpu_ci\na = b = register_cpu_ci\na()", "alias", "runci", None),
    ("import runci\nrunci.register_cpu_ci()", "attribute", "runci", None),
    ("import a.b\na.b.register_cpu_ci()", "attribute", "a.b", None),
    ("import a.b as c\nc.register_cpu_ci()", "attribute", "a.b", None),
    ("import runci\ngetattr(runci, 'register_cpu_ci')()", "attribute", "runci", None),
    ("if x:\n    register_cpu_ci()", "name", None, "if"),
    ("if x: pass\nelse: register_cpu_ci()", "name", None, "if"),
    ("try:\n    pass\nexcept E:\n    register_cpu_ci()", "name", None, "try"),
    ("with x:\n    register_cpu_ci()", "name", None, "with"),
    ("for _ in x:\n    register_cpu_ci()", "name", None, "for"),
    ("while x:\n    register_cpu_ci()", "name", None, "while"),
    ("match x:\n    case 1:\n        register_cpu_ci()", "name", None, "match"),
    ("def f():\n    if x:\n        register_cpu_ci()", "name", None, "function f"),
    ("async def f():\n    register_cpu_ci()", "name", None, "function f"),
    ("class A:\n    register_cpu_ci()", "name", None, "class A"),
    ("x = register_cpu_ci()", "name", None, "expression"),
    ("print(register_cpu_ci())", "name", None, "expression"),
    ("x and register_cpu_ci()", "name", None, "expression"),
    ("[register_cpu_ci() for _ in x]", "name", None, "expression"),
]


@pytest.mark.parametrize(
    ("text", "via", "module", "within"), CALLS, ids=lambda value: str(value)[-30:]
)
def test_calls(text: str, via: str, module: str | None, within: str | None) -> None:
    (call,) = read(text).calls
    assert (call.marker, call.via, call.module, call.within) == (
        "register_cpu_ci",
        via,
        module,
        within,
    )


@pytest.mark.parametrize(
    "text",
    [
        "'register_cpu_ci()'",
        "# register_cpu_ci()",
        "def register_cpu_ci(): pass",
        "x = register_cpu_ci",
        "from runci import register_cpu_ci",
        "unregister_cpu_ci()",
        "register_ci(); register_cpu(); register__ci",
        "register_cpu_cis()",
        "f'{x} register_cpu_ci()'",
        "register_cpu_ci.x()",
    ],
)
def test_no_calls(text: str) -> None:
    assert read(text).calls == ()


def test_calls_keep_their_order() -> None:
    text = "if x:\n    register_cpu_ci(1)\nregister_cpu_ci(register_cpu_ci(3))\nregister_amd_ci()\n"
    places = [(c.marker, c.span.line, c.span.column) for c in read(text).calls]
    assert places == [
        ("register_cpu_ci", 2, 5),
        ("register_cpu_ci", 3, 1),
        ("register_cpu_ci", 3, 17),
        ("register_amd_ci", 4, 1),
    ]


MAIN = 'if __name__ == "__main__":\n    '
# The block's body (after imports and functions), its runner, whether the exit code is kept.
MAINS = [
    ("unittest.main()", "unittest", True),
    ("unittest.main(exit=True)", "unittest", True),
    ("unittest.main(exit=False)", "unittest", False),
    ("sys.exit(not unittest.main(exit=False).result.wasSuccessful())", "unittest", True),
    ("pytest.main()", "pytest", False),
    ("sys.exit(pytest.main())", "pytest", True),
    ("exit(pytest.main())", "pytest", True),
    ("os._exit(pytest.main())", "pytest", True),
    ("raise SystemExit(pytest.main())", "pytest", True),
    ("raise SystemExit(int(pytest.main()))", "pytest", True),
    ("sys.exit(0 if pytest.main() == 0 else 1)", "pytest", True),
    ("assert pytest.main() == 0", "pytest", True),
    ("code = pytest.main(); sys.exit(code)", "pytest", True),
    ("code: int = pytest.main(); sys.exit(code)", "pytest", True),
    ("a = pytest.main(); b = a; sys.exit(b)", "pytest", True),
    ("code = pytest.main(); sys.exit(0)", "pytest", False),
    ("code = pytest.main(); print(code)", "pytest", False),
    ("pytest.main(); sys.exit(pytest.main())", "pytest", False),
    ("codes = []; codes.append(pytest.main()); sys.exit(max(codes))", "pytest", True),
    ("if pytest.main(): sys.exit(1)", "pytest", True),
    ("if pytest.main(): print('failed')", "pytest", False),
    ("if (code := pytest.main()): sys.exit(code)", "pytest", True),
    ("r = unittest.TextTestRunner(); sys.exit(not r.run(s).wasSuccessful())", "unittest", True),
    ("unittest.TextTestRunner().run(s)", "unittest", False),
    ("run()", "unittest", True),
    ("give()", "pytest", False),
    ("sys.exit(give())", "pytest", True),
    ("sys.exit(outer())", "pytest", True),
    ("outer()", "pytest", False),
    ("print(1)", "other", True),
    ("helper()", "other", True),
    ("subprocess.run(['pytest'])", "other", True),
    ("pass", "nothing", True),
    ("X = 1", "nothing", True),
]
FUNCTIONS = """\
import os, subprocess, sys, unittest, pytest
def run(): unittest.main()
def give(): return pytest.main()
def outer():
    code = give()
    return code
def helper(): return helper()
"""


@pytest.mark.parametrize(("body", "runner", "kept"), MAINS, ids=str)
def test_main_blocks(body: str, runner: str, kept: bool) -> None:
    (block,) = read(FUNCTIONS + MAIN + body + "\n").mains
    assert (block.runner, block.exit_kept) == (runner, kept)


@pytest.mark.parametrize(
    ("condition", "main"),
    [
        ("__name__ == '__main__'", True),
        ("'__main__' == __name__", True),
        ("(__name__ == '__main__') and x", True),
        ("__name__ == '__main__' or x", False),
        ("__name__ != '__main__'", False),
        ("__name__ == 'main'", False),
        ("not __name__ == '__main__'", False),
        ("name == '__main__'", False),
        ("'__main__' == '__main__'", False),
    ],
)
def test_conditions_of_main_blocks(condition: str, main: bool) -> None:
    assert len(read(f"if {condition}:\n    pass\n").mains) == main


@pytest.mark.parametrize(
    ("text", "tests"),
    [
        ("def test_x(): pass", 1),
        ("async def test_x(): pass", 1),
        ("if x:\n    def test_x(): pass\nelse:\n    def test_y(): pass", 2),
        ("class TestX: pass", 1),
        ("class AdditionTest(unittest.TestCase): pass", 1),
        ("class X(Y):\n    def test_x(self): pass", 1),
        ("class X(base.CustomTestCase): pass", 1),
        ("class X(Y):\n    def check(self): pass", 0),
        ("def load_tests(a, b, c): pass", 1),
        ("from m import TestX", 1),
        ("from m import test_x as y", 1),
        ("from unittest import TestCase, TestSuite", 0),
        ("from m import testing, tests, testable", 0),
        ("import test_x", 0),
        ("X = type('X', (TestCase,), {})", 1),
        ("X = type(y)", 0),
        ("TestX = make()", 1),
        ("TestX = 1", 0),
        ("TESTS = make()", 0),
        (MAIN + "def test_x(): pass", 0),
        ("def helper():\n    def test_x(): pass", 0),
        ("'def test_x(): pass'", 0),
    ],
)
def test_counts_tests(text: str, tests: int) -> None:
    assert read(text).tests == tests


def test_the_last_test_and_the_place_of_imports() -> None:
    file = read('#!/bin/x\n"""D\n"""\n\nimport a\n' + TEST + "class TestB:\n    pass\n")
    assert file.last_test == Span(10, 1, 11, 9)
    assert file.last_test_name == "TestB"
    assert file.import_line == 4
    assert read("# c\n\nx = 1\n").import_line == 3
    assert read('"""D."""\nfrom __future__ import annotations\nx = 1\n').import_line == 3
    assert read("").import_line == 1


def test_readable_apart_from_a_bom() -> None:
    assert read(BOM + CALL.encode()).readable
    assert len(read(BOM + CALL.encode()).calls) == 1
    assert not read("x = (").readable
    assert at(1) == Span(1, 1, 1, 1)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
