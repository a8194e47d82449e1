"""What a failing test makes `python FILE` exit with: judged, and compared with real processes."""

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runci import register_cpu_ci
from runci.read.parse import parse

register_cpu_ci(est_time=6, stage="base-a", runner_config="cpu")

MAIN = """\
import collections, contextlib, heapq, logging, os, sys, tempfile, torch, unittest, pytest, warnings
from unittest import mock
BAD = []
class Quiet:
    def __enter__(self): return self
    def __exit__(self, *raised): return True
@contextlib.contextmanager
def quiet():
    try: yield
    except SystemExit: pass
@contextlib.contextmanager
def plain():
    try: yield
    finally: print("done")
def keep(code): sys.exit(code)
def last():
    code = 0
    for name in ("a", "b"):
        code = pytest.main([__file__, "-k", name])
    return code
def run(): return pytest.main([__file__])
if __name__ == "__main__":
"""
KEPT = [
    "sys.exit(bool(pytest.main([__file__])))",
    "sys.exit(max(pytest.main([f]) for f in (__file__, 'x.py')))",
    "sys.exit(sum([run(), run()]))",
    "sys.exit(any(pytest.main([f]) for f in ('a.py', 'b.py')))",
    "sys.exit(run() != pytest.ExitCode.OK)",
    "sys.exit(0 if run() == pytest.ExitCode.OK else 1)",
    "sys.exit(1 if run() else 0)",
    "keep(run())",
    "try:\n    sys.exit(run())\nfinally:\n    print('done')",
    "try:\n    sys.exit(run())\nexcept SystemExit as e:\n    raise",
    "try:\n    sys.exit(run())\nexcept SystemExit as e:\n    sys.exit(e.code)",
    "with contextlib.suppress(ValueError):\n    sys.exit(run())",
    "code = 0\nfor f in ('a.py', 'b.py'):\n    code |= pytest.main([f])\nsys.exit(code)",
    "for f in ('a.py', 'b.py'):\n    code = pytest.main([f])\n    if code:\n        sys.exit(code)",
    "for _ in range(3):\n    code = run()\n    if code == 0:\n        break\nsys.exit(code)",
    "result = unittest.main(exit=False).result\nsys.exit(len(result.failures + result.errors))",
    "if len(sys.argv) > 1:\n    code = run()\nif len(sys.argv) > 1:\n    sys.exit(code)",
    "sys.exit(f'failed {run()}')",
    "sys.exit('failed %d' % run())",
    "codes = [run()]\ncodes.extend([run()])\nsys.exit(len(codes) - codes.count(0))",
]
KEPT += [
    f"with {manager}:\n    sys.exit(run())"
    for manager in (
        "open('x')",
        "tempfile.TemporaryDirectory() as x, mock.patch.object(os, 'x')",
        "torch.no_grad()",
        "contextlib.redirect_stdout(None)",
        "contextlib.nullcontext()",
        "warnings.catch_warnings(record=True)",
        "plain()",
        "contextlib.suppress(ValueError, (KeyError, OSError))",
    )
]
# What is noted of a failure, and asked for later.
NOTED = [
    "bad = set()\nif run():\n    bad.add('x')\nif bad:\n    sys.exit(1)",
    "bad = {'a'}\nif run():\n    bad |= {'b'}\nif len(bad) > 1:\n    sys.exit(1)",
    "bad = {}\nif run():\n    bad.update(a=1)\nif bad:\n    sys.exit(1)",
    "bad = {}\nif run():\n    bad.setdefault('a', []).append(1)\nsys.exit(len(bad))",
    "bad = dict()\nif run():\n    bad['x'] = 1\nsys.exit(len(bad.keys()))",
    "bad = []\nif run():\n    bad.append('x')\nsys.exit(1 if bad else 0)",
    "bad = []\nif run():\n    bad += ['x']\nsys.exit(1 if bad else 0)",
    "bad = []\ndef note(x): bad.append(x)\nif run():\n    note(1)\nif bad:\n    sys.exit(1)",
    "res = {}\nres['a'] = run()\nfor k, r in res.items():\n    if r:\n        sys.exit(r)",
    "res = {}\nres['a'] = run()\nif any(r != 0 for r in res.values()):\n    sys.exit(1)",
    "res = {}\nres['a'] = run()\nsys.exit(res.get('a', 0))",
    "res = {f: pytest.main([f]) for f in ('a.py', 'b.py')}\nsys.exit(max(res.values()))",
]
KEPT += NOTED
DROPPED = [
    "unittest.main(argv=['x', '-h'])",
    "unittest.main(argv=('x', '--help'))",
    "bad = set()\nif run():\n    bad.add('x')\nif not bad:\n    sys.exit(1)",
    "res = {}\nres['a'] = run()\nfor k, r in res.items():\n    if r:\n        sys.exit(0)",
    "res = {}\nres['a'] = run()\nsys.exit(res.get('b', 0))",
    "if run():\n    logging.getLogger().error('failed')",
    "log = logging.getLogger()\nif run():\n    log.error('failed')\n    log.error('again')",
    "bad = set()\nif run():\n    bad.add('x')\nprint(bad)",
    "q = contextlib.suppress(SystemExit)\nwith q:\n    unittest.main()",
    "with contextlib.suppress(ValueError, (KeyError, SystemExit)):\n    unittest.main()",
    "result = unittest.main(exit=False).result\nsys.exit(1 if result.failures else 0)",
    "sys.exit(not pytest.main([__file__]))",
    "sys.exit(run() and 0)",
    "sys.exit(0 if run() else 1)",
    "sys.exit(run() == 2)",
    "sys.exit(run() == 1)",
    "sys.exit(pytest.main([__file__, '--co']))",
    "sys.exit(pytest.main([__file__, '--collect-only', '-q']))",
    "sys.exit(pytest.main([__file__, '--collectonly']))",
    "sys.exit(pytest.main([__file__, '--setup-plan']))",
    "sys.exit(pytest.main(['--version']))",
    "options = {'exit': False}\nunittest.main(**options)",
    "unittest.main('__main__', None, None, None, unittest.defaultTestLoader, False)",
    "sys.exit(last())",
    "sys.exit(min(pytest.main([f]) for f in ('a.py', 'b.py')))",
    "sys.exit(all(pytest.main([f]) for f in ('a.py', 'b.py')))",
    "with contextlib.suppress(SystemExit):\n    unittest.main()",
    "with contextlib.suppress(SystemExit):\n    sys.exit(run())",
    "try:\n    unittest.main()\nexcept SystemExit:\n    pass",
    "try:\n    unittest.main()\nexcept:\n    print('failed')",
    "try:\n    sys.exit(run())\nfinally:\n    os._exit(0)",
    "try:\n    sys.exit(run())\nfinally:\n    sys.exit(0)",
    "code = run()\nsys.exit(0)",
    "run()\nraise SystemExit",
    "run()\nexit()",
    "run()\nquit()",
    "sys.exit(run() * 256)",
    "sys.exit(run() == pytest.ExitCode.OK)",
    "if len(sys.argv) > 1:\n    sys.exit(run())\nrun()",
]
UNKNOWN = [
    *(
        f"bad = {made}\nif run():\n    {note}\nif bad:\n    sys.exit(1)"
        for made, note in (
            ("collections.deque()", "bad.append(1)"),
            ("collections.defaultdict(int)", "bad['a'] += 1"),
            ("other()", "bad.failed = True"),
            ("[]", "heapq.heappush(bad, 1)"),
            ("set()", "bad.symmetric_difference_update([1])"),
        )
    ),
    "if run():\n    BAD.append(1)\nif BAD:\n    sys.exit(1)",
    "def note(): BAD.append(1)\nif run():\n    note()\nif BAD:\n    sys.exit(1)",
    *(
        f"with {manager}:\n    {end}"
        for end in ("unittest.main()", "sys.exit(run())")
        for manager in (
            "Quiet()",
            "quiet()",
            "Quiet() as q, open('x')",
            "unittest.TestCase().assertRaises(SystemExit)",
            "contextlib.ExitStack() as s",
            "unknown",
        )
    ),
    "with contextlib.ExitStack().enter_context(mock) as s:\n    unittest.main()",
    "from elsewhere import judge\nsys.exit(judge(run()))",
    "from elsewhere import judge\njudge(run())",
    "sys.exit(run() & int(os.environ['MASK']))",
    "from elsewhere import options\nunittest.main(**options)",
]


# What a list, tuple or mapping holds is not known.
UNKNOWN += [
    f"from elsewhere import judge\n{line}"
    for line in (
        "sys.exit(0 if [judge(run())] == [0] else 1)",
        "sys.exit([judge(run())] != [0])",
        "sys.exit((judge(run()), 1) in [(0, 1)])",
        "sys.exit({'a': judge(run())} != {'a': 0})",
        "sys.exit(0 if 0 in [judge(run())] else 1)",
        "sys.exit([judge(run())].count(1))",
    )
]
# Programs that raise before they run a test, or make much: nothing breaks, and it ends.
ODD = [
    "[0].index(1)",
    "[].append()",
    "[].extend(5)",
    "[].pop()",
    "[1][::0]",
    "{}.pop(1)",
    "{}.get()",
    "{}.update(5)",
    "set().remove(1)",
    "set().add([])",
    "set().update(range(1_000_000_000_000))",
    "[0]" + "\nx.extend(x)" * 60,
    "[].extend(run())",
    "1 % 0",
    "'%s %s' % 1",
    "'%999999999d' % 1",
    "'%*d' % (1_000_000_000, 1)",
    "min([])",
    "int('a')",
    "int(float('inf'))",
    "sorted([1, 'a'])",
    "set([[]])",
    "{[]: 1}",
    "{1: 2}[3]",
    "'a'[::0]",
    "range(0, 1, 0)",
    "list(range(1_000_000_000_000))",
    "len(range(1_000_000_000_000_000_000_000))",
    "[0] * 10_000_000_000",
    "10_000_000_000 * 'a'",
    "[i for i in range(1_000_000_000_000)]",
    "1 << 10_000_000_000",
    "True * 10**400 * 1.0",
]


def verdict(text: str) -> bool | None:
    (block,) = parse("test_x.py", text.encode()).mains
    return block.exit_kept


def main(body: str) -> str:
    return MAIN + "".join(f"    {line}\n" for line in body.splitlines())


@pytest.mark.parametrize("body", KEPT)
def test_a_failing_test_fails_the_file(body: str) -> None:
    assert verdict(main(body)) is True


@pytest.mark.parametrize("body", DROPPED)
def test_a_failing_test_may_exit_0(body: str) -> None:
    assert verdict(main(body)) is False


@pytest.mark.parametrize("body", UNKNOWN)
def test_what_cannot_be_told_is_unknown(body: str) -> None:
    assert verdict(main(body)) is None


def args(*options: str) -> str:
    adds = "".join(f"parser.add_argument({option})\n" for option in options)
    return f"parser = argparse.ArgumentParser()\n{adds}args = parser.parse_args()\n"


# Whether `python FILE` reaches the runner; None where that depends on something.
STARTED = [
    ("if len(sys.argv) > 1:\n    unittest.main()", False),
    ("if '--run' in sys.argv:\n    unittest.main()", False),
    ("if '--bench' not in sys.argv:\n    unittest.main()", True),
    ("for a in sys.argv[1:]:\n    sys.exit(pytest.main([a]))", False),
    ("for a in sys.argv:\n    sys.exit(pytest.main([a]))", True),
    ("sys.exit(run() if sys.argv[1:] else 0)", False),
    ("sys.exit(run() if sys.argv[1:] else 1)", True),
    ("from sys import argv\nif argv[1:]:\n    unittest.main()", False),
    ("sys.argv.append('-v')\nif len(sys.argv) > 1:\n    unittest.main()", True),
    (args("'--run', action='store_true'") + "if args.run:\n    unittest.main()", False),
    (args("'--no-run', action='store_false'") + "if args.no_run:\n    unittest.main()", True),
    (args("'-b', '--bench'") + "if args.bench is None:\n    unittest.main()", True),
    (args("'--mode', default='test'") + "if args.mode == 'test':\n    unittest.main()", True),
    (args("'--mode', dest='m', default='b'") + "if args.m == 'test':\n    unittest.main()", False),
    (args("'--n', default=find()") + "if args.n:\n    unittest.main()", None),
    ("if os.environ.get('RUN_TESTS'):\n    unittest.main()", None),
    ("if not os.environ.get('CI'):\n    sys.exit(0)\nunittest.main()", None),
    ("import shutil\nif shutil.which('x'):\n    unittest.main()", None),
    ("if len(sys.argv) > 1:\n    unittest.main()\nelse:\n    other()", None),
    ("for name in names():\n    sys.exit(pytest.main([name]))", True),
    ("if other():\n    sys.exit(1)\nunittest.main()", True),
    ("match sys.argv:\n    case [_]: unittest.main()", None),
    ("if sys.argv[1:]:\n    unittest.main()\nelse:\n    os.execv(sys.executable, [])", None),
    ("def go(): other()\nif sys.argv[1:]:\n    unittest.main()\nelse:\n    go()", None),
    ("if sys.argv[1:]:\n    unittest.main()\nelse:\n    exec('x')", None),
    ("if sys.argv[1:]:\n    unittest.main()\nelse:\n    print(sorted([1]), len('a'))", False),
    ("def go():\n    if sys.argv[1:]: unittest.main()\ngo()", False),
    ("sys.exit(run())", True),
]


@pytest.mark.parametrize(("body", "runs"), STARTED)
def test_whether_a_runner_is_reached_without_arguments(body: str, runs: bool | None) -> None:
    text = "import argparse\n" + main(body)
    assert parse("test_x.py", text.encode()).mains[0].runs is runs


# What a file does to exits, and whether a failing test still fails it.
MEDDLES = [
    ("import atexit\natexit.register(os._exit, 0)", None),
    ("import atexit as a\na.register(lambda: os._exit(0))", None),
    ("from atexit import register\ndef end(): os._exit(0)\nregister(end)", None),
    ("import atexit\n@atexit.register\ndef end(): os._exit(0)", None),
    ("from os import _exit\nimport atexit\natexit.register(_exit, 0)", None),
    ("import atexit, functools\natexit.register(functools.partial(os._exit, 0))", None),
    ("sys.exit = lambda *a: None", None),
    ("sys.exit, x = print, 1", None),
    ("setattr(sys, 'exit', print)", None),
    ("pytest.main = lambda *a: 0", None),
    ("def change():\n    import sys as s\n    s.exit = print\nchange()", None),
    ("import atexit\natexit.register(print, 'bye')", True),
    ("import atexit\n@atexit.register\ndef clean(): os.remove('x')", True),
    ("sys.path = []", True),
    ("self.exit = 1", True),
    ("setattr(sys, 'path', [])", True),
]


@pytest.mark.parametrize(("lines", "kept"), MEDDLES)
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("end", ["unittest.main()", "sys.exit(pytest.main([__file__]))"])
def test_a_file_that_changes_what_an_exit_does(
    lines: str, kept: bool | None, inside: bool, end: str
) -> None:
    text = main(f"{lines}\n{end}") if inside else "import os, sys\n" + lines + "\n" + main(end)
    assert verdict(text) is kept
    if not inside:
        assert verdict(text.replace(end, "pytest.main([__file__])")) is False


PLAIN = "sys.exit(pytest.main([__file__, '-v']))"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (main(PLAIN), True),
        (main(PLAIN) + "os._exit(0)\n", True),
        (main("import sys as s\ns.exit(pytest.main(['--color', 'no']))"), True),
        (main("raise SystemExit(pytest.main())"), True),
        (main("raise sys.exit(pytest.main())"), True),
        (main("unittest.main(None, verbosity=2)"), True),
        (main("SystemExit(pytest.main())"), False),
        (main("sys.exit(pytest.main(['--co']))"), False),
        (main("unittest.main(exit=False)"), False),
        ("def exit(code): pass\n" + main("exit(pytest.main())"), False),
        (main("exit(pytest.main())") + "def exit(code): pass\n", False),
        ("pytest = 1\n" + main(PLAIN), None),
        ("unittest = 1\n" + main("unittest.main()"), None),
        ("sys = 1\n" + main(PLAIN), None),
    ],
)
def test_what_is_plain_or_only_looks_so(text: str, kept: bool | None) -> None:
    assert verdict(text) is kept


@pytest.mark.parametrize("expression", ODD)
def test_what_raises_or_is_long_breaks_nothing(expression: str) -> None:
    began = time.process_time()
    verdict(main(f"x = {expression}\nsys.exit(run())"))
    assert time.process_time() - began < 1


def test_what_stands_after_the_main_block_counts() -> None:
    assert verdict(main("code = run()") + "sys.exit(code)\n") is True
    assert verdict(main("code = run()") + "sys.exit(0)\n") is False


ASKS = "".join(f"if asked({n}): x = {n}\n" for n in range(12))


def test_more_paths_than_are_followed_is_unknown() -> None:
    assert verdict(main(f"code = run()\n{ASKS}sys.exit(code)")) is None


def test_long_ways_that_run_no_test_do_not_count() -> None:
    asks = ASKS.replace("if", "    if")
    assert verdict(main(f"if '--bench' in sys.argv:\n{asks}else:\n    sys.exit(run())")) is True


def programs(seed: int, count: int) -> Iterator[str]:
    """Main blocks that run one failing test and do something with what it gives."""
    draw = random.Random(seed)
    forms = ["{}", "not {}", "int({})", "bool({})", "{} and 0", "{} or 0", "0 if {} else 1"]
    forms += ["1 if {} else 0", "{} == 0", "{} != 0", "{} == 1", "max(0, {})", "min(0, {})"]
    forms += ["sum([{}, 0])", "any([{}])", "all([{}])", "{} * 256"]
    ends = ["sys.exit({})", "raise SystemExit({})", "code = {}", "os._exit({})", "exit({})"]
    ends += ["if {}: sys.exit(3)", "assert not {}", "finish({})", "code = {}; sys.exit(code)"]
    around = ["{}", "with contextlib.suppress(SystemExit): {}", "try: {}\nexcept SystemExit: pass"]
    around += ["try: {}\nexcept ValueError: pass", "try: {}\nfinally: print(1)"]
    around += ["try: {}\nexcept SystemExit as e: sys.exit(e.code)", "try: {}\nfinally: sys.exit(0)"]
    for _ in range(count):
        value = draw.choice(forms).format("result()")
        if draw.random() < 0.3:
            value = draw.choice(forms).format(f"({value})")
        end = draw.choice(ends).format(value)
        form = draw.choice([around[0], *around])
        yield form.format(end if form == "{}" else f"\n    {end}")


def test_the_verdict_is_what_a_real_process_does(tmp_path: Path) -> None:
    head = """\
import contextlib, os, sys, unittest
class TestOne(unittest.TestCase):
    def test_one(self): self.fail()
def result(): return int(not unittest.main(exit=False).result.wasSuccessful())
def finish(code): sys.exit(code)
if __name__ == "__main__":
"""
    bodies = list(dict.fromkeys(programs(7, 70)))[:60]
    wrong = []
    for number, body in enumerate(bodies):
        text = head + "".join(f"    {line}\n" for line in body.splitlines())
        path = tmp_path / f"test_{number}.py"
        path.write_text(text)
        ran = subprocess.run([sys.executable, str(path)], check=False, capture_output=True)
        if verdict(text) is not (ran.returncode != 0):
            wrong.append((body, ran.returncode, verdict(text)))
    assert wrong == []


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
