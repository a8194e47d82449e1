"""What a test file can do to its runner: each ends with the right outcome and a readable reason.

All faulty files run at once, as a user would run them, in two real runs: one through pytest and
one as scripts. The faults that users of such systems reported are named beside their cases.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # for `python FILE`

from run_trees import FOLDER, MAIN, PASS, SUITE, UNITTEST, Ran, alive, make, pids, registered, run

from runci import register_cpu_ci
from runci.core.result import Outcome

register_cpu_ci(est_time=31, stage="base-a", runner_config="cpu")

TIMEOUT = 12

DAEMON = """
    def test_leaves_a_daemon():
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                    signal.signal(number, signal.SIG_IGN)
                with open(os.environ["NOTES"] + "/daemon.pid", "w") as note:
                    note.write(str(os.getpid()))
                with open(os.environ["NOTES"] + "/daemon.port", "w") as note:
                    note.write(str(listener.getsockname()[1]))
                while True:
                    time.sleep(60)
            os._exit(0)
        while not os.path.exists(os.environ["NOTES"] + "/daemon.port"):
            time.sleep(0.01)
"""

IGNORES = """
    def test_ignores_sigterm():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if os.fork() == 0:
            os.setsid()
            with open(os.environ["NOTES"] + "/child.pid", "w") as note:
                note.write(str(os.getpid()))
            while True:
                time.sleep(60)
        print("about to hang")
        while True:
            time.sleep(60)
"""

EXITS = """\
import pytest
def pytest_runtest_logstart(nodeid):
    if "test_two" in nodeid: pytest.exit("enough", returncode=0)
"""

# What happens after the tests: in every mode the process ends as `python FILE` would.
ENDS = {
    "test_aborts_at_exit.py": (
        "@ctypes.CFUNCTYPE(None, ctypes.c_void_p)\ndef end(_): os.abort()\n"
        "ctypes.CDLL(None).__cxa_atexit(end, None, None)\n",  # as a destructor of C++
        Outcome.CRASHED,
        "^killed by SIG(ABRT|SEGV), after its tests$",
    ),
    "test_thread_exits.py": (
        "import threading\ndef end():\n    time.sleep(0.5)\n    os._exit(3)\n"
        "threading.Thread(target=end).start()\n",
        Outcome.FAILED,
        "^no test failed, but it ended with status 3$",
    ),
    "test_dies_at_shutdown.py": (
        "class Handle:\n    def __del__(self, kill=os.kill, pid=os.getpid()): kill(pid, 11)\n"
        "sys.modules['handle'] = Handle()\n",
        Outcome.CRASHED,
        "^killed by SIGSEGV, after its tests$",
    ),
    "test_says_goodbye.py": (
        "import atexit, threading\natexit.register(print, 'goodbye')\n"
        "threading.Thread(target=time.sleep, args=(0.3,)).start()\n",
        Outcome.PASSED,
        "^$",
    ),
}
CASE = "class TestEnd(unittest.TestCase):\n    def test_passes(self): pass\n"

RESULTS = """
class Own(unittest.TestResult):
    def __init__(self, *_): super().__init__()
    def startTest(self, test): self.testsRun += 1
    def stopTest(self, test): pass
    def addSuccess(self, test): pass
    def addExpectedFailure(self, test, error): pass
    def printErrors(self): pass
    separator2 = ""

class HandsOn(unittest.TestResult):
    def __init__(self, other):
        super().__init__()
        self.other = other
        unittest.TestSuite().run(other)
    def addSuccess(self, test): self.other.addSuccess(test)
"""

DESELECTS = """\
def pytest_configure(config): config.addinivalue_line("markers", "gpu: needs a GPU")
def pytest_collection_modifyitems(config, items):
    drop = [item for item in items if item.get_closest_marker("gpu")]
    items[:] = [item for item in items if item not in drop]
    config.hook.pytest_deselected(items=drop)
"""

# A plugin that runs a failed test again, and tells of each attempt as of a test.
AGAIN = """\
from _pytest.runner import runtestprotocol
def pytest_runtest_protocol(item, nextitem):
    for turn in (1, 2, 3):
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        again = turn < 3 and any(report.failed for report in reports)
        for report in reports:
            if again and report.failed: report.outcome = "rerun"
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if not again: return True
        item._initrequest()
def pytest_report_teststatus(report):
    if report.outcome == "rerun": return "rerun", "R", "RERUN"
"""
COUNTS = "seen = []\ndef count(what):\n    seen.append(what)\n    return seen.count(what)\n"

# name: (body, outcome, what the message says, tests executed)
CASES: dict[str, tuple[str, Outcome, str, int]] = {
    "test_parametrized.py": (
        "@pytest.mark.parametrize('x', [1, 2, 3])\ndef test_x(x): assert x",
        Outcome.PASSED,
        "^$",
        3,
    ),
    "test_unittest.py": (
        "class TestIt(unittest.TestCase):\n    def test_one(self): self.assertTrue(1)",
        Outcome.PASSED,
        "^$",
        1,
    ),
    "test_grüße_文.py": ("def test_grüße(): print('ünï文')", Outcome.PASSED, "^$", 1),
    "test_expected.py": (
        "@pytest.mark.xfail\ndef test_fails(): assert 0\ndef test_passes(): pass",
        Outcome.PASSED,
        "^$",
        2,
    ),
    "test_closes_stdout.py": (
        "def test_closes():\n    os.close(1)\n    os.close(2)\n    sys.stdout.close()",
        Outcome.PASSED,
        "^$",
        1,
    ),
    "test_reconfigures.py": (
        "def test_reconfigures():\n    sys.stdout.reconfigure(newline='\\n')\n"
        "    assert not sys.stdout.seekable()",
        Outcome.PASSED,
        "^$",
        1,
    ),
    "test_prints_a_gigabyte.py": (
        "def test_prints():\n    block = b'x' * 1048575 + b'\\n'\n"
        "    for _ in range(1024): os.write(1, block)\n    os.write(1, b'the very last line\\n')",
        Outcome.PASSED,
        "^$",
        1,
    ),
    "test_invalid_utf8.py": (
        "def test_bytes():\n    os.write(1, b'\\xff\\xfe\\x80 odd \\x1b]0;title\\x07\\n')\n"
        "    assert 0",
        Outcome.FAILED,
        r"^1 of 1 tests failed: test_bytes: assert 0",
        1,
    ),
    "test_exits_pytest_green.py": (
        "def test_one(): pass\ndef test_two(): pytest.exit('enough', returncode=0)\n"
        "def test_three(): assert 0",
        Outcome.FAILED,
        r"^its tests were cut short .*: status 0, but test_two never ended$",
        1,
    ),
    # Beside a conftest.py that ends pytest, with status 0, before the second test begins.
    f"{FOLDER}/exits/test_exits_between.py": (
        PASS + "def test_two(): assert 0",
        Outcome.FAILED,
        r"^its tests were cut short .*: status 0, but test_two never ended$",
        1,
    ),
    # Beside a conftest.py that runs failed tests again, up to three times.
    f"{FOLDER}/again/test_always_fails.py": (
        "def test_fails(): assert 0\n" + PASS,
        Outcome.FAILED,
        "^1 of 2 tests failed: test_fails: assert 0",
        2,
    ),
    f"{FOLDER}/again/test_passes_at_last.py": (
        COUNTS + "def test_coin(): assert count(1) == 3",
        Outcome.FLAKY,
        "test_coin: failed, and passed",
        1,
    ),
    f"{FOLDER}/again/test_skips_at_last.py": (
        COUNTS + "def test_coin_may_skip():\n    if count(1) == 3: pytest.skip('no')\n    assert 0",
        Outcome.FAILED,
        "test_coin_may_skip: failed, and was skipped when",
        1,
    ),
    # Beside a conftest.py that deselects what is marked.
    f"{FOLDER}/left_out/test_some.py": (
        PASS + "@pytest.mark.gpu\ndef test_gpu(): assert 0",
        Outcome.PASSED,
        "^1 test deselected$",
        1,
    ),
    f"{FOLDER}/left_out/test_all.py": (
        "@pytest.mark.gpu\n@pytest.mark.parametrize('x', [1, 2])\ndef test_gpu(x): assert 0",
        Outcome.NO_TESTS,
        "^its 2 tests were deselected",
        0,
    ),
    "test_uses_the_cache.py": (
        "def test_cache(cache):\n    cache.set('a/b', 1)\n    assert cache.get('a/b', 0) == 1",
        Outcome.PASSED,
        "^$",
        1,
    ),
    # Its name is no UTF-8.
    "test_\udcff.py": (PASS, Outcome.PASSED, "^$", 1),
    "test_interrupted.py": (
        "def test_one(): pass\ndef test_two(): raise KeyboardInterrupt\ndef test_three(): assert 0",
        Outcome.FAILED,
        r"^its tests were cut short .*: status 2, but test_two never ended$",
        1,
    ),
    "test_forks.py": (
        # The child runs on through pytest as if it were the test: it may not count twice.
        "def test_forks():\n    if os.fork() == 0: return\n    os.wait()\ndef test_two(): pass",
        Outcome.PASSED,
        "^$",
        2,
    ),
    "test_handlers.py": (
        "def test_handlers():\n    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):\n"
        "        signal.signal(number, lambda *_: None)\n"
        "    os.killpg(0, signal.SIGTERM)",
        Outcome.PASSED,
        "^$",
        1,
    ),
    "test_daemon.py": (
        DAEMON,
        Outcome.PASSED,
        r"^left running, and ended: pid \d+ \(a fork of test_daemon.py\)$",
        1,
    ),
    "test_ignores_sigterm.py": (
        IGNORES,
        Outcome.TIMEOUT,
        # What runs beside may have shared memory at that moment, and is named with it.
        rf"^ended after {TIMEOUT} s for a file, in \S+::test_ignores_sigterm(\. left in .*)?$",
        0,
    ),
    "test_exits_first.py": (
        "os._exit(0)\n" + PASS,
        Outcome.CRASHED,
        r"^ended with status 0 before its tests had ended \(os._exit\?\), before its tests$",
        0,
    ),
    "test_exits_within.py": (
        PASS + "def test_exits(): os._exit(0)",
        Outcome.CRASHED,
        r"^ended with status 0 before its tests had ended .*, in \S+::test_exits$",
        1,
    ),
    "test_killed.py": (
        "def test_killed():\n    print('last words')\n    os.kill(os.getpid(), signal.SIGKILL)",
        Outcome.CRASHED,
        r"^killed by SIGKILL \((not by runci|the kernel ended it for memory), peak [\d,]+ MiB\)",
        0,
    ),
    "test_segfault.py": (
        "def test_segfault(): ctypes.string_at(0)",
        Outcome.CRASHED,
        r"^killed by SIGSEGV, in \S+::test_segfault$",
        0,
    ),
    "test_kills_its_parent.py": (
        "def test_kills():\n    os.kill(os.getppid(), signal.SIGKILL)\n    time.sleep(60)",
        Outcome.CRASHED,
        r"^the process that watches over it was killed, in \S+::test_kills$",
        0,
    ),
    "test_kills_the_server.py": (
        "def test_kills():\n"
        "    with open(f'/proc/{os.getppid()}/stat') as stat: text = stat.read()\n"
        "    os.kill(int(text.rpartition(')')[2].split()[1]), signal.SIGKILL)",
        Outcome.PASSED,
        "^$",
        1,
    ),
    "test_exit_at_import.py": (
        "sys.exit(0)\n" + PASS,
        Outcome.FAILED,
        "^pytest met an internal error or a SystemExit",
        0,
    ),
    "test_collection_error.py": (
        "import no_such_module\n" + PASS,
        Outcome.FAILED,
        "^cannot be collected: .*no_such_module",
        0,
    ),
    f"{FOLDER}/broken/test_conftest.py": (
        PASS,
        Outcome.FAILED,
        "^pytest could not start: a conftest.py",
        0,
    ),
    "test_nothing.py": ("x = 1", Outcome.NO_TESTS, "^no test was executed", 0),
    "test_only_skips.py": (
        "@pytest.mark.skip(reason='no GPU')\ndef test_gpu(): pass",
        Outcome.SKIPPED,
        r"^skipped on the hardware that its suite declares: \S+::test_gpu: no GPU; allow it",
        0,
    ),
    "test_skipped_whole.py": (
        "pytest.skip('no torch here', allow_module_level=True)",
        Outcome.SKIPPED,
        r"^skipped on the hardware .*no torch here",
        0,
    ),
    "test_one_skip.py": (
        PASS + "def test_gpu(): pytest.skip('no GPU')",
        Outcome.SKIPPED,
        r"^skipped on the hardware .*test_gpu: no GPU",
        1,
    ),
    "test_allowed.py": (
        PASS + "@pytest.mark.parametrize('x', ['a/b'])\n"
        "def test_may_skip(x): pytest.skip('one GPU')",
        Outcome.PASSED,
        "^$",
        1,
    ),
    "test_all_allowed.py": (
        "def test_may_skip(): pytest.skip('one GPU')",
        Outcome.EXCUSED,
        "^1 skipped, as suites.yml allows",
        0,
    ),
    "test_teardown.py": (
        "@pytest.fixture\ndef broken():\n    yield\n    raise OSError('torn')\n"
        "def test_it(broken): pass",
        Outcome.FAILED,
        "^1 of 1 tests failed: test_it: in teardown: OSError: torn",
        1,
    ),
    **{name: (body + PASS, *expected, 1) for name, (body, *expected) in ENDS.items()},
}

# The same for scripts: the main block, then as above.
SCRIPTS: dict[str, tuple[str, str, Outcome, str, int]] = {
    # sglang#23305
    "test_no_main.py": (PASS, "", Outcome.NO_TESTS, "^no test was executed", 0),
    # lattice#1632
    "test_main_above.py": (
        "if __name__ == '__main__':\n    unittest.main(exit=False)\n"
        "class TestIt(unittest.TestCase):\n    def test_one(self): pass",
        "",
        Outcome.NO_TESTS,
        "^no test was executed",
        0,
    ),
    # sglang#32735
    "test_only_prints.py": (PASS, "\nprint('fine')\n", Outcome.NO_TESTS, "^no test was", 0),
    # sglang#16681
    "test_swallows.py": (
        PASS + "def test_fails(): assert 0",
        "\nif __name__ == '__main__':\n    pytest.main([__file__])\n",
        Outcome.FAILED,
        r"^1 of 2 tests failed \(its script ends with status 0 all the same\): test_fails",
        2,
    ),
    "test_as_it_should_be.py": (PASS, MAIN, Outcome.PASSED, "^$", 1),
    "test_unittest_script.py": (
        "class TestIt(unittest.TestCase):\n    def test_one(self): pass\n"
        "    def test_two(self):\n        with self.subTest(x=1): self.fail('no')",
        "\nif __name__ == '__main__':\n    unittest.main()\n",
        Outcome.FAILED,
        "^1 of 2 tests failed: TestIt::test_two",
        2,
    ),
    "test_swallows_an_interrupt.py": (
        "class TestIt(unittest.TestCase):\n    def test_one(self): pass\n"
        "    def test_two(self): raise KeyboardInterrupt\n    def test_z(self): self.fail()",
        "\ntry: unittest.main()\nexcept KeyboardInterrupt: sys.exit(0)\n",
        Outcome.FAILED,
        "^its tests were cut short .*: status 0, but TestIt::test_two never ended$",
        1,
    ),
    "test_subtest_skipped.py": (
        "class TestIt(unittest.TestCase):\n    def test_one(self): pass\n"
        "    def test_may_skip(self):\n        with self.subTest(x=1): self.skipTest('one GPU')",
        "\nif __name__ == '__main__':\n    unittest.main()\n",
        Outcome.PASSED,
        "^$",
        1,
    ),
    "test_raises.py": (
        PASS,
        "\nraise RuntimeError('at the end')\n",
        Outcome.FAILED,
        "^no test failed, but it ended with status 1",
        0,
    ),
    "test_says_five.py": (
        PASS,
        "\nsys.exit('a reason')\n",
        Outcome.FAILED,
        "^no test failed, but it ended with status 1",
        0,
    ),
    # It runs the tests of other files: through pytest, through unittest.
    "test_runs_another.py": (
        "def test_fails(): assert 0",
        f"\npytest.main(['{FOLDER}/test_as_it_should_be.py'])\n",
        Outcome.NO_TESTS,
        "^no test of it was executed: its main block ran .*test_as_it_should_be.py::test_passes",
        0,
    ),
    "test_imports_another.py": (
        "class TestIt(unittest.TestCase):\n    def test_fails(self): self.fail()",
        "\nunittest.main(module='test_unittest_bases')\n",
        Outcome.NO_TESTS,
        "^no test of it was executed: its main block ran test_unittest_bases.TestBase.test_one",
        0,
    ),
    "test_another_fails.py": (
        PASS,
        f"\nif __name__ == '__main__':\n    pytest.main([__file__, '{FOLDER}/test_swallows.py'])\n",
        Outcome.FAILED,
        "^.*test_swallows.py::test_fails, a test of another file .*: assert 0",
        1,
    ),
    "test_unittest_bases.py": (
        "class TestBase(unittest.TestCase):\n    def test_one(self): pass",
        UNITTEST,
        Outcome.PASSED,
        "^$",
        1,
    ),
    "test_inherits.py": (  # as pytest, which finds what is imported too
        "from test_unittest_bases import TestBase\nclass TestMore(TestBase): pass",
        UNITTEST,
        Outcome.PASSED,
        "^$",
        2,
    ),
    "test_by_its_name.py": (
        "class TestIt(unittest.TestCase):\n    def test_one(self): pass",
        "\nif __name__ == '__main__':\n    unittest.main(module='test_by_its_name')\n",
        Outcome.PASSED,
        "^$",
        1,
    ),
    "test_method_of_any_name.py": (
        "class TestIt(unittest.TestCase):\n    def test_case(self): pass",
        UNITTEST,
        Outcome.PASSED,
        "^$",
        1,
    ),
    # A class or module that is not set up: its tests are named, as by pytest.
    "test_class_skips.py": (
        "class TestIt(unittest.TestCase):\n    @classmethod\n"
        "    def setUpClass(cls): raise unittest.SkipTest('no driver')\n"
        "    def test_may_skip(self): pass\n" + CASE,
        UNITTEST,
        Outcome.PASSED,
        "^$",
        1,
    ),
    "test_module_skips.py": (
        "def setUpModule(): raise unittest.SkipTest('no driver')\n"
        "class TestIt(unittest.TestCase):\n    def test_may_skip(self): pass\n",
        UNITTEST,
        Outcome.EXCUSED,
        "^1 skipped, as suites.yml allows",
        0,
    ),
    "test_class_is_not_set_up.py": (
        "class TestIt(unittest.TestCase):\n    @classmethod\n"
        "    def setUpClass(cls): raise OSError('no driver')\n"
        "    def test_a(self): pass\n    def test_b(self): pass\n" + CASE,
        UNITTEST,
        Outcome.FAILED,
        "^2 of 3 tests failed: TestIt::test_a: OSError: no driver",
        3,
    ),
    "test_class_is_not_torn_down.py": (
        "class TestIt(unittest.TestCase):\n    @classmethod\n"
        "    def tearDownClass(cls): raise OSError('no driver')\n"
        "    def test_a(self): pass\n    def test_b(self): pass\n",
        UNITTEST,
        Outcome.FAILED,
        "tests failed: TestIt::test_b: in tearDownClass: OSError: no driver",
        3,
    ),
    # Result classes of others: one that calls nothing of its base, one that hands on to another.
    "test_result_without_base.py": (
        RESULTS + CASE + "    @unittest.expectedFailure\n    def test_xfail(self): self.fail()\n",
        "\nunittest.main(testRunner=unittest.TextTestRunner(resultclass=Own))\n",
        Outcome.PASSED,
        "^$",
        2,
    ),
    "test_result_hands_on.py": (
        RESULTS + CASE,
        "\ncase = unittest.defaultTestLoader.loadTestsFromTestCase(TestEnd)\n"
        "case.run(HandsOn(unittest.TestResult()))\n",
        Outcome.PASSED,
        "^$",
        1,
    ),
    "test_without_a_runner.py": (
        CASE,
        "\nTestEnd('test_passes').run()\n",
        Outcome.PASSED,
        "^$",
        1,
    ),
    "bench_speed.py": ("print('1.5 us')", "", Outcome.PASSED, "^$", 1),
    **{name: (body + CASE, UNITTEST, *expected, 1) for name, (body, *expected) in ENDS.items()},
}


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notes")


@pytest.fixture(scope="module")
def through_pytest(tmp_path_factory: pytest.TempPathFactory, notes: Path) -> Ran:
    files = {name: registered(body) for name, (body, *_) in CASES.items()}
    files[f"{FOLDER}/broken/conftest.py"] = "raise RuntimeError('broken on purpose')\n"
    files[f"{FOLDER}/exits/conftest.py"] = EXITS
    files[f"{FOLDER}/again/conftest.py"] = AGAIN
    files[f"{FOLDER}/left_out/conftest.py"] = DESELECTS
    files["test_syntax.py"] = "def broken(:\n"
    root = make(tmp_path_factory.mktemp("pytest"), files)
    options = ("--timeout-per-file", str(TIMEOUT), "--grace", "0.5", "--jobs", "4")
    ran = run(root, "--suite", SUITE, *options, NOTES=str(notes))
    assert ran.status == 1, ran.error
    return ran


@pytest.fixture(scope="module")
def as_scripts(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    files = {name: registered(body, main=main) for name, (body, main, *_) in SCRIPTS.items()}
    root = make(tmp_path_factory.mktemp("scripts"), files)
    ran = run(root, "--suite", SUITE, "--as-script")
    assert ran.status == 1, ran.error
    return ran


@pytest.fixture(scope="module")
def spawned(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    files = {name: registered(body + CASE, main=UNITTEST) for name, (body, *_) in ENDS.items()}
    root = make(tmp_path_factory.mktemp("spawned"), files)
    return run(root, "--suite", SUITE, "--as-script", "--isolate", "spawn")


def own_words(message: str) -> str:
    """Without what a file that ran beside may have put into the machine's shared memory."""
    return re.sub(r"(^|\. )left in shared memory, by it or what ran beside: .*$", "", message)


@pytest.mark.parametrize("name", ENDS)
def test_the_end_in_a_fresh_interpreter(spawned: Ran, name: str) -> None:
    result, (_, outcome, message) = spawned.result(name), ENDS[name]
    assert (result.outcome, result.tests) == (outcome, 1), result.message
    assert re.search(message, own_words(result.message)), result.message


@pytest.mark.parametrize("name", CASES)
def test_outcome_through_pytest(through_pytest: Ran, name: str) -> None:
    _, outcome, message, tests = CASES[name]
    result = through_pytest.result(name.rpartition("/")[2])
    assert (result.outcome, result.tests) == (outcome, tests), result.message
    assert re.search(message, own_words(result.message)), result.message


@pytest.mark.parametrize("name", SCRIPTS)
def test_outcome_as_script(as_scripts: Ran, name: str) -> None:
    _, _, outcome, message, tests = SCRIPTS[name]
    result = as_scripts.result(name)
    assert (result.outcome, result.tests) == (outcome, tests), result.message
    assert re.search(message, own_words(result.message)), result.message


def test_a_file_that_cannot_be_parsed_fails_and_hides_nothing(through_pytest: Ran) -> None:
    result = through_pytest.result("test_syntax.py")
    assert result.outcome is Outcome.FAILED
    assert result.message.startswith("cannot be read: ")


def test_every_file_has_one_result_and_the_last_line_counts_them(through_pytest: Ran) -> None:
    results = through_pytest.results()
    assert len(results) == len(CASES) + 1
    assert all(len(attempts) == 1 for attempts in results.values())
    outcomes = [attempts[0].outcome for attempts in results.values()]
    excused = outcomes.count(Outcome.EXCUSED)
    passed = sum(outcome.green for outcome in outcomes) - excused
    failed = len(outcomes) - passed - excused
    assert through_pytest.last == f"{passed} passed, {failed} failed, {excused} skipped"
    assert through_pytest.status == 1
    assert not through_pytest.error


def test_a_failed_file_prints_the_command_that_repeats_it(through_pytest: Ran) -> None:
    """With the time limit that it ran under."""
    command = f"runci run --suite {SUITE} --timeout-per-file {TIMEOUT} {FOLDER}/test_killed.py"
    assert f"repeat: {command}\n" in through_pytest.output


def test_last_words_of_a_killed_child_are_shown(through_pytest: Ran) -> None:
    assert "test_killed last words\n" in through_pytest.output
    assert "Fatal Python error: Segmentation fault" in through_pytest.output


def test_deselected_tests_are_counted(through_pytest: Ran) -> None:
    assert "; 3 tests deselected" in through_pytest.output
    found = {
        name: through_pytest.result(name).deselected for name in ("test_some.py", "test_all.py")
    }
    assert found == {"test_some.py": 1, "test_all.py": 2}
    assert through_pytest.result("test_daemon.py").deselected == 0


def test_odd_bytes_are_escaped_on_the_terminal(through_pytest: Ran) -> None:
    assert r"\xff\xfe\x80 odd \x1b]0;title\x07" in through_pytest.output
    assert "\x1b" not in through_pytest.output


def test_a_timeout_shows_where_it_was_unless_the_test_ignores_it(through_pytest: Ran) -> None:
    assert "about to hang" in through_pytest.output
    assert through_pytest.result("test_ignores_sigterm.py").signal == "SIGKILL"


def test_nothing_survives(through_pytest: Ran, notes: Path) -> None:
    found = list(pids(notes))
    assert len(found) == 2
    assert not [pid for pid in found if alive(pid)]


def test_the_port_of_the_daemon_is_free_again(through_pytest: Ran, notes: Path) -> None:
    import socket

    port = int((notes / "daemon.port").read_text(encoding="utf-8"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", port))


def test_a_gigabyte_is_kept_by_its_ends_in_bounded_memory(through_pytest: Ran) -> None:
    logs = list((through_pytest.root / ".runci/results/logs").glob("test_prints_a_gigabyte.*"))
    assert len(logs) == 1
    content = logs[0].read_bytes()
    assert len(content) < 8 << 20
    assert b"bytes are left out here" in content
    assert b"the very last line" in content
    # KiB of the largest process below this one, runci and its server among them.
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 400 << 10


def test_junit_counts_single_tests(through_pytest: Ran) -> None:
    (path,) = (through_pytest.root / ".runci/results").glob("junit.*.xml")
    document = ElementTree.parse(path).getroot()
    by_name = {suite.get("name"): suite for suite in document}
    assert by_name[f"{FOLDER}/test_parametrized.py"].get("tests") == "3"
    assert by_name[f"{FOLDER}/test_only_skips.py"].get("failures") == "1"
    assert by_name[f"{FOLDER}/test_segfault.py"].get("failures") == "1"
    assert len(document) == len(CASES) + 1


def test_results_say_where_and_how_much(through_pytest: Ran) -> None:
    result = through_pytest.result("test_unittest.py")
    assert result.seconds > 0
    assert result.peak_memory_mb
    assert result.exit_status == 0
    assert "processors" in str(result.device)
    skipped = through_pytest.result("test_allowed.py").skipped
    assert json.dumps([(s.test.rpartition("::")[2], s.reason) for s in skipped]) == (
        '[["test_may_skip[a/b]", "one GPU"]]'
    )


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
