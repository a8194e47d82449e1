"""What parsing finds in a file: calls of markers, main blocks, tests, and where imports go."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from trees import TEST

from runci import register_cpu_ci
from runci.core.source import Span
from runci.read.parse import parse
from runci.read.testfile import TestFile as ParsedFile  # pytest would collect it by its name

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


def read(text: str) -> ParsedFile:
    return parse("test/x.py", text.encode())


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
        "getattr(runci, 'other'); getattr(runci, 'register_cpu_ci')",
        "getattr(runci, 'other')(); x = 'register_cpu_ci'",
        "hasattr(runci, 'register_cpu_ci')()",
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
    ("pytest.main(); unittest.main()", "both", False),
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


COMMAND = "[sys.executable, '-m', 'pytest', __file__]"
STARTS = [
    (f"sys.exit(subprocess.call({COMMAND}))", "subprocess.call"),
    (f"subprocess.run({COMMAND}, check=True)", "subprocess.run"),
    (f"subprocess.check_call({COMMAND})", "subprocess.check_call"),
    (f"os.execv(sys.executable, {COMMAND})", "os.execv"),
    (f"from subprocess import call as c; sys.exit(c({COMMAND}))", "subprocess.call"),
    (f"command = {COMMAND}; sys.exit(subprocess.call(command))", "subprocess.call"),
    ("sys.exit(subprocess.call(['pytest', '-v', sys.argv[0]]))", "subprocess.call"),
    ("sys.exit(os.system(f'python -m unittest {__file__}'))", "os.system"),
    ("start()", "subprocess.call"),
    ("subprocess.run(['pytest'])", ""),
    ("subprocess.run(['pytest', 'test_other.py'])", ""),
    ("subprocess.run([sys.executable, __file__, '--worker'])", ""),
    ("print('pytest', __file__)", ""),
]


@pytest.mark.parametrize(("body", "starts"), STARTS)
def test_a_runner_in_another_process(body: str, starts: str) -> None:
    more = "def start():\n    sys.exit(subprocess.call(['pytest', __file__]))\n"
    (block,) = read(FUNCTIONS + more + MAIN + body + "\n").mains
    assert (block.runner, block.starts) == ("other", starts)


MAIN = "if __name__ == '__main__':\n    "
ENDABLE = [
    ("pytest.main([__file__])", True),
    ("print(1); pytest.main([__file__]);", True),
    ("if x:\n        print(1)\n    pytest.main([__file__])  # end\n# end", True),
    ("unittest.main(exit=False)", True),
    ("unittest.TextTestRunner().run(suite)", True),
    ("unittest.main()", False),  # ends the process by itself
    ("pytest.main([__file__])\nprint(1)", False),
    ("pytest.main([__file__])\nX = 1", False),
    (f"pytest.main([__file__])\n{MAIN}print(1)", False),
    ("pytest.main([__file__])\nelse:\n    print(1)", False),
    ("pytest.main([__file__]); print(1)", False),
    ("pytest.main(['a']); pytest.main(['b'])", False),
    ("print(pytest.main(['a'])); pytest.main(['b'])", False),
    ("(pytest.main([__file__]))", False),  # a statement would stand in the parentheses
    ("pytest.main([__file__]) or print(1)", False),
    ("code = pytest.main([__file__])", False),
    ("print(pytest.main([__file__]))", False),
    ("pytest.main([__file__, '--co'])", False),  # would exit 0 all the same
    ("for name in 'ab':\n        pytest.main([name])", False),
    ("while x:\n        pytest.main([__file__])", False),
    ("if x:\n        pytest.main([__file__])", False),
    ("with suppress(SystemExit):\n        pytest.main([__file__])", False),
    ("try:\n        pytest.main([__file__])\n    finally:\n        print(1)", False),
    ("def run(): pytest.main([__file__])\n    run()", False),
    ("def run(): pytest.main([__file__])\n    run(); run()", False),
]


@pytest.mark.parametrize(("body", "endable"), ENDABLE)
def test_a_call_that_can_end_the_process(body: str, endable: bool) -> None:
    assert read(f"import pytest, unittest\n{MAIN}{body}\n").mains[0].endable is endable


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


@pytest.mark.parametrize("number", ["0x" + "9" * 5000, "-0x" + "9" * 5000])
@pytest.mark.parametrize("form", ["{}", "[{}]", "f({})", "{} + 1"])
def test_numbers_of_any_length(number: str, form: str) -> None:
    (call,) = read(f"register_cpu_ci(est_time={form.format(number)}, suite='a')").calls
    assert [argument.name for argument in call.arguments] == ["est_time", "suite"]
    assert len(call.arguments[0].text) <= 80


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
