"""What the lint says never executes, against what pytest and unittest really execute."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from real_runner import Run, real_runner

from runci import register_cpu_ci
from runci.read.parse import parse

register_cpu_ci(est_time=20, stage="base-a", runner_config="cpu")

RAN = "open('ran', 'a').write('x')"
HEAD = "import sys, unittest, pytest\nfrom dataclasses import dataclass\n"
CASE = f"class TestA(unittest.TestCase):\n    def test_1(self):\n        {RAN}\n"
FUNCTION = f"def test_1():\n    {RAN}\n"
PLAIN = CASE.replace("(unittest.TestCase)", "")
PLAIN_OF_B = CASE.replace("unittest.TestCase", "B")
OTHER = "def test_2(): ...\nclass TestC2(unittest.TestCase):\n    def test_2(self): ...\n"
ASYNC = PLAIN.replace("def test_1", "async def test_1")
LOAD = "def load_tests(loader, tests, _):\n"
UNITTEST = "if __name__ == '__main__':\n    unittest.main()\n"
PYTEST = "if __name__ == '__main__':\n    sys.exit(pytest.main([__file__, '-q']))\n"

SKIPPED = "@pytest.mark.skip\ndef test_2(): ...\n"
# A file, and whether its one test that writes `ran` executes.
FILES = {
    "function": (FUNCTION + PYTEST, True),
    "replaced": (FUNCTION + "def test_1():\n    pass\n" + PYTEST, False),
    "replaced in a block": (
        "try:\n    def test_1():\n        open('ran', 'a').write('x')\n"
        "    def test_1(): ...\nfinally: ...\n" + PYTEST,
        False,
    ),
    "replaced in an inner class": (
        f"class TestA:\n    class TestB:\n        def test_1(self):\n            {RAN}\n"
        "        def test_1(self): ...\n" + PYTEST,
        False,
    ),
    "replaced under a skip of the file's own": (
        "def skip_on(name):\n    return lambda test: test\n"
        "@skip_on('hip')\n" + FUNCTION + "@skip_on('hip')\ndef test_1(): ...\n" + PYTEST,
        False,
    ),
    "alternatives": (
        "if sys.argv:\n    def test_1():\n        open('ran', 'a').write('x')\n"
        "else:\n    def test_1(): ...\n" + PYTEST,
        True,
    ),
    "grown": (CASE + "class TestA(TestA):\n    pass\n" + PYTEST, True),
    **{
        f"replaced by a statement: {more}": (f"{test}{more}\n{PYTEST}", runs)
        for test, more, runs in (
            (FUNCTION, "test_1 = None", False),
            (FUNCTION, "test_1: object = None", False),
            (FUNCTION, "test_1, other = 1, 2", False),
            (FUNCTION, "from os.path import join as test_1", False),
            (FUNCTION, "import sys as test_1", False),
            (FUNCTION, "del test_1", False),
            (CASE, "TestA = object", False),
            (CASE, "Other = object\nTestA = Other", False),
            (CASE, "del TestA", False),
            (CASE, "    test_1 = None", False),
            (CASE, "    del test_1", False),
            (FUNCTION, "test_1 = staticmethod(test_1)", True),
            (FUNCTION, "test_2 = test_1\ntest_1 = None", True),
            (FUNCTION, "test_2 = test_1\ndel test_1", True),
            (FUNCTION, "test_1, test_2 = None, test_1", True),
            (FUNCTION, "if not sys.argv:\n    test_1 = None", True),
            (FUNCTION, "for test_1 in []: ...", True),
            (FUNCTION, "test_1: object", True),
            (FUNCTION, "from elsewhere import *\ntest_2 = None", True),
            (CASE, "class TestB(TestA): ...\ndel TestA", True),
            (CASE, "TestB = type('TestB', (TestA,), {})\nTestA = None", True),
            (CASE, "    test_2 = test_1\n    del test_1", True),
        )
    },
    "coroutine": (CASE.replace("def test_1", "async def test_1") + UNITTEST, False),
    "awaited": (
        CASE.replace("def test_1", "async def test_1").replace(
            "TestCase", "IsolatedAsyncioTestCase"
        )
        + UNITTEST,
        True,
    ),
    **{
        f"coroutine of a mixin: {more}": (f"{ASYNC}{more}\n{UNITTEST}", runs)
        for more, runs in (
            ("class TestB(TestA, unittest.TestCase): ...", False),
            ("class Half(TestA): ...\nclass TestB(Half, unittest.TestCase): ...", False),
            ("class TestB(TestA, unittest.IsolatedAsyncioTestCase): ...", True),
            (
                "class TestB(TestA, unittest.TestCase):\n    def _callTestMethod(self, method):\n"
                "        import asyncio; asyncio.run(method())",
                True,
            ),
            (
                "class TestB(TestA, unittest.TestCase):\n    def test_1(self):\n        "
                "import asyncio; asyncio.run(super().test_1())",
                True,
            ),
        )
    },
    **{
        f"skipped by a text: {mark}, {more}": (f"{more}\n@pytest.mark.{mark}\n{FUNCTION}", runs)
        for mark, more, runs in (
            ("skipif('True', reason='no')", "", False),
            ("skipif(condition='True', reason='no')", "", False),
            ("skipif(' 1 + 1 == 2', reason='no')", "", False),
            ("skipif('NO', reason='no')", "NO = True", False),
            ("skipif(NO, reason='no')", "NO = 'not False'", False),
            ("xfail('True', run=False)", "", False),
            ("skipif('False', reason='no')", "", True),
            ("skipif('0', reason='no')", "", True),
            ("skipif('NO', reason='no')", "NO = False", True),
            ("skipif('sys.argv == []', reason='no')", "", True),
            ("xfail('False', run=False)", "", True),
        )
    },
    "skipIf of a text under unittest": (
        "@unittest.skipIf('False', 'no')\n" + CASE + UNITTEST,
        False,
    ),
    "pytest.exit": ("pytest.exit('no', returncode=0)\n" + FUNCTION + PYTEST, False),
    "pytestmark of a text": (
        "pytestmark = pytest.mark.skipif('True', reason='no')\n" + FUNCTION + PYTEST,
        False,
    ),
    "__unittest_skip__": (CASE + "    __unittest_skip__ = True\n" + UNITTEST, False),
    "__unittest_skip__, by pytest": (CASE + "    __unittest_skip__ = True\n" + PYTEST, False),
    "__unittest_skip__ is false": (CASE + "    __unittest_skip__ = False\n" + UNITTEST, True),
    "__unittest_skip__ of a plain class": (PLAIN + "    __unittest_skip__ = True\n" + PYTEST, True),
    "load_tests, a lambda": (
        CASE + "load_tests = lambda *_: unittest.TestSuite()\n" + UNITTEST,
        False,
    ),
    "load_tests, a lambda that gives some": (
        CASE + "load_tests = lambda loader, tests, _: unittest.TestSuite([tests])\n" + UNITTEST,
        True,
    ),
    "generator": (CASE + "        yield 1\n" + UNITTEST, False),
    "constructor": (
        CASE.replace("(unittest.TestCase)", "") + "    def __init__(self): ...\n" + PYTEST,
        False,
    ),
    "empty": ("@pytest.mark.parametrize('a', [])\n" + FUNCTION.replace("()", "(a)", 1), False),
    **{
        f"values of {values}, {more!r}": (
            f"{more}\n@pytest.mark.parametrize('a', {values})\ndef test_1(a):\n    {RAN}\n{end}",
            runs,
        )
        for values, more, end, runs in (
            ("CASES", "CASES = []", "", False),
            ("argvalues=CASES", "CASES: list = list()", "", False),
            (
                "CASES",
                "CASES = ()",
                "@pytest.mark.parametrize('a', CASES)\ndef test_2(a): ...",
                False,
            ),
            ("[i for i in []]", "", "", False),
            ("[(i, j) for i in () for j in 'ab']", "", "", False),
            ("(i for i in range(0))", "", "", False),
            ("sorted([])", "", "", False),
            ("[*[]]", "", "", False),
            ("{}", "", "", False),
            ("[] + []", "", "", False),
            ("[i for i in 'ab']", "", "", True),
            ("[*'a']", "", "", True),
            ("[] + [1]", "", "", True),
            ("sorted([0])", "", "", True),
            ("CASES", "CASES = [1]", "", True),
            ("CASES", "CASES = []\nCASES.append(1)", "", True),
            ("CASES", "CASES = []\nCASES += [1]", "", True),
            ("CASES", "CASES = []\nif sys.argv: CASES = [1]", "", True),
            ("CASES", "CASES = []\ndef fill(x): x.append(1)\nfill(CASES)", "", True),
            ("CASES", "if not sys.argv: CASES = []\nelse: CASES = [1]", "", True),
            ("CASES", "CASES = []\nglobals()['CASES'] = [1]", "", True),
            ("CASES", "CASES = []\nfor i in 'ab': CASES.append(i)", "", True),
            ("CASES", "CASES = []\nfrom elsewhere import *", "", True),
            ("CASES", "CASES = []\nfrom elsewhere import CASES", "", True),
        )
    },
    **{
        f"a fixture with params {params}, {more!r}": (
            f"@pytest.fixture(params={params})\ndef size(request): return request.param\n"
            f"{more}\ndef test_1(size):\n    {RAN}\n",
            runs,
        )
        for params, more, runs in (
            ("[]", "", False),
            ("[i for i in ()]", "", False),
            ("[1]", "", True),
            ("[]", "@pytest.mark.parametrize('size', [1])", True),
            ("[]", "@pytest.mark.parametrize('size', [1], indirect=True)", True),
            (
                "[]",
                "def pytest_generate_tests(metafunc):\n"
                "    metafunc.parametrize(metafunc.fixturenames[0], [1])",
                True,
            ),
        )
    },
    **{
        f"not collected: {before}{case[12:40]}{inside}{below}{end[27:40]}": (
            f"{before}{case}{inside}\n{below}\n{OTHER}{end}",
            runs,
        )
        for before, case, inside, below, end, runs in (
            ("", PLAIN, "    __test__ = False", "", PYTEST, False),
            ("", CASE, "    __test__ = False", "", PYTEST, False),
            ("", CASE, "    __test__: bool = False", "", PYTEST, False),
            ("", PLAIN, "", "TestA.__test__ = False", PYTEST, False),
            ("", CASE, "", "TestA.__test__ = False", UNITTEST, True),
            ("", PLAIN, "    __test__ = True", "", PYTEST, True),
            ("", PLAIN, "    __test__ = False", "TestA.__test__ = True", PYTEST, True),
            ("", PLAIN, "    __test__ = False\n    __test__ = True", "", PYTEST, True),
            ("", PLAIN, "    __test__ = False\n    del __test__", "", PYTEST, True),
            (
                "",
                PLAIN,
                "    __test__ = False",
                "class TestC(TestA): __test__ = True",
                PYTEST,
                True,
            ),
            ("", FUNCTION, "", "test_1.__test__ = False", PYTEST, False),
            ("", FUNCTION, "", "test_1.__test__ = True", PYTEST, True),
            ("", FUNCTION, "", "if not sys.argv:\n    test_1.__test__ = False", PYTEST, True),
            ("@dataclass\n", PLAIN, "    size: int = 1", "", PYTEST, False),
            ("@dataclass(frozen=True)\n", PLAIN, "    size: int = 1", "", PYTEST, False),
            ("@dataclass\n", PLAIN, "", "", PYTEST, False),
            ("@dataclass(init=False)\n", PLAIN, "    size: int = 1", "", PYTEST, True),
            ("@dataclass\nclass B:\n    size: int = 1\n", PLAIN_OF_B, "", "", PYTEST, False),
        )
    },
    "a fixture with params that nobody asks for": (
        "@pytest.fixture(params=[])\ndef size(): ...\n" + FUNCTION,
        True,
    ),
    "a fixture with params that a method asks for": (
        "@pytest.fixture(params=[])\ndef size(): ...\n" + PLAIN.replace("(self)", "(self, size)"),
        False,
    ),
    "a fixture with params whose name a patch gives": (
        "from unittest import mock\n@pytest.fixture(params=[])\ndef size(): ...\n"
        "@mock.patch.object(sys, chr(97) + 'rgv')\ndef test_1(size):\n    "
        f"{RAN}\n",
        True,
    ),
    "a fixture with params that a class replaces": (
        "@pytest.fixture(params=[])\ndef size(): ...\nclass TestA:\n    @pytest.fixture\n"
        f"    def size(self): ...\n    def test_1(self, size):\n        {RAN}\n",
        True,
    ),
    "empty range": (
        "@pytest.mark.parametrize('a', range(0))\n" + FUNCTION.replace("()", "(a)", 1),
        False,
    ),
    "empty for a class": (
        "@pytest.mark.parametrize('a', list())\n"
        + CASE.replace("(unittest.TestCase)", "").replace("(self)", "(self, a)"),
        False,
    ),
    "a set of one": (
        "@pytest.mark.parametrize('a', list('1'))\n" + FUNCTION.replace("()", "(a)", 1),
        True,
    ),
    "exit at the top, always": ("if True:\n    sys.exit(0)\n" + FUNCTION + PYTEST, False),
    "exit": ("sys.exit(0)\n" + FUNCTION + PYTEST, False),
    "load_tests": (
        CASE + "def load_tests(*_):\n    return unittest.TestSuite()\n" + UNITTEST,
        False,
    ),
    "load_tests, by name": (
        CASE
        + "def load_tests(loader, *_):\n    suite = loader.suiteClass([])\n    return suite\n"
        + UNITTEST,
        False,
    ),
    "load_tests that adds": (
        CASE + "def load_tests(loader, tests, _):\n    suite = unittest.TestSuite()\n"
        "    suite.addTests(tests)\n    return suite\n" + UNITTEST,
        True,
    ),
    **{
        f"load_tests: {body}": (
            CASE + f"def load_tests(loader, tests, _):\n{body}\n" + UNITTEST,
            runs,
        )
        for body, runs in (
            ("    suite = unittest.TestSuite()\n    return suite", False),
            ("    return unittest.TestSuite([])", False),
            ("    return loader.suiteClass(())", False),
            ("    tests = loader.suiteClass()\n    return tests", False),
            ("    suite = unittest.TestSuite()\n    suite.addTests(tests)\n    return suite", True),
            ("    return loader.suiteClass([tests])", True),
            ("    return tests", True),
        )
    },
    "skip": ("pytestmark = pytest.mark.skip\n" + FUNCTION + PYTEST, False),
    "a fixture for all skips": (
        "@pytest.fixture(autouse=True)\ndef no():\n    pytest.skip('no')\n" + FUNCTION + PYTEST,
        False,
    ),
    "a fixture for all of a class skips": (
        CASE + "    @pytest.fixture(autouse=True)\n    def no(self): pytest.skip('no')\n" + PYTEST,
        False,
    ),
    "a fixture for all under unittest": (
        "@pytest.fixture(autouse=True)\ndef no():\n    raise unittest.SkipTest\n" + CASE + UNITTEST,
        True,
    ),
    "a fixture that is asked for skips": (
        "@pytest.fixture\ndef no():\n    pytest.skip('no')\n" + FUNCTION + PYTEST,
        True,
    ),
    "a fixture of another class skips": (
        "class TestB:\n    @pytest.fixture(autouse=True)\n    def no(self): pytest.skip('no')\n"
        "    def test_2(self): ...\n" + FUNCTION + PYTEST,
        True,
    ),
    **{
        f"one beside it is skipped: {more}": (f"{more}\n{SKIPPED}{PYTEST}", True)
        for more in (
            f"test_1 = lambda: {RAN}",
            f"globals()['test_1'] = lambda: {RAN}",
            f"TestB = type('TestB', (), {{'test_1': lambda self: {RAN}}})",
            "from elsewhere import *",
            "from elsewhere import test_1",
            f"class TestB:\n    class TestC:\n        def test_1(self): {RAN}",
            f"class TestB: test_1 = lambda self: {RAN}",
            f"class TestB: ...\nsetattr(TestB, 'test_1', lambda self: {RAN})",
            f"class TestB: ...\nTestB.test_1 = lambda self: {RAN}",
            f"def add(c):\n    c.test_1 = lambda self: {RAN}\n    return c\n@add\nclass TestB: ...",
        )
    },
    "load_tests beside a skip": (
        "@unittest.skip('no')\n"
        + CASE.replace(RAN, "...")
        + "def load_tests(*_):\n"
        + f"    return unittest.TestSuite([unittest.FunctionTestCase(lambda: {RAN})])\n"
        + UNITTEST,
        True,
    ),
    "setUp of a plain class skips": (
        CASE.replace("(unittest.TestCase)", "")
        + "    def setUp(self):\n        pytest.skip('no')\n"
        + PYTEST,
        True,
    ),
    "setup_method of a plain class skips": (
        CASE.replace("(unittest.TestCase)", "")
        + "    def setup_method(self):\n        pytest.skip('no')\n"
        + PYTEST,
        False,
    ),
    "setup_method under unittest": (
        CASE + "    def setup_method(self):\n        raise unittest.SkipTest\n" + UNITTEST,
        True,
    ),
    "setUpClass skips": (
        CASE
        + "    @classmethod\n    def setUpClass(cls):\n        raise unittest.SkipTest\n"
        + PYTEST,
        False,
    ),
    "a list beside it": (f"test_data = [1]\n@pytest.mark.skip\n{FUNCTION}{PYTEST}", False),
    "xfail": ("@pytest.mark.xfail(run=False)\n" + FUNCTION + PYTEST, False),
    "mark under unittest": ("pytestmark = pytest.mark.skip\n" + CASE + UNITTEST, True),
    "skip of a plain class": (
        "@unittest.skip('no')\n" + CASE.replace("(unittest.TestCase)", "") + PYTEST,
        True,
    ),
    "__test__ of a TestCase": (CASE + "    __test__ = False\n" + PYTEST, False),
    "__test__ under unittest": (CASE + "    __test__ = False\n" + UNITTEST, True),
    "__test__ of a base": (
        CASE + "    __test__ = False\nclass TestB(TestA):\n    __test__ = True\n" + PYTEST,
        True,
    ),
    "__test__": (
        CASE.replace("(unittest.TestCase)", "") + "    __test__ = False\n" + PYTEST,
        False,
    ),
}


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with real_runner() as found:
        yield found


@pytest.mark.parametrize("name", FILES)
def test_as_the_real_runner(name: str, tmp_path: Path, run: Run) -> None:
    text, runs = FILES[name]
    (tmp_path / "test_x.py").write_text(HEAD + text, encoding="utf-8")
    (tmp_path / "elsewhere.py").write_text(FUNCTION + "CASES = [1]\n", encoding="utf-8")
    run(tmp_path, *([] if "__main__" in text else ["-m", "pytest", "-q"]), "test_x.py")
    file = parse("test_x.py", (HEAD + text).encode())
    silent = not file.unrun and not any(gate.condition == "True" for gate in file.gates)
    assert ((tmp_path / "ran").exists(), silent) == (runs, runs)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
