"""Test programs of many shapes: what executes, and with which outcome, before and after `--fix`.

`python fix_programs.py` reads jobs from its standard input, one JSON object a line, and runs each
in a fork of its own, as pytest or as a script: starting an interpreter for each would take minutes.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import runpy
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Code above the main block: each test says that it began, and, where it passes, that it did.
_HEAD = """\
{imports}
{markers}

def ran(what):
    with open(os.environ["RAN"], "a") as log:
        log.write(what + "\\n")


def later(code):
    ran("later")
    return code
"""
_PAIR = 'stage="base-b", runner_config="1-gpu-large"'
_MARKERS = (
    f"from runci import register_cuda_ci\n\nregister_cuda_ci(est_time=5, {_PAIR})\n",
    f"from runci import register_cuda_ci as reg\n\nreg(est_time=5, {_PAIR})\n",
    f"import runci\n\nrunci.register_cuda_ci(est_time=5, {_PAIR})\n",
    "from runci import register_cuda_ci\n\n" + f"register_cuda_ci(est_time=5, {_PAIR})  # é\n" * 2,
    'from runci import register_cuda_ci\n\nregister_cuda_ci(5, "base-b-test-1-gpu-large")\n',
)
_ENDS = ("pass", "pass", "pass", "assert False", "raise ValueError('é')", "assert 1 == 2, 'no'")
_CALLS = (
    *("pytest.main([__file__])",) * 3,
    'pytest.main(["-q", __file__])',
    'pytest.main(\n    [\n        __file__,  # é\n        "-q",\n    ]\n)',
    'pytest.main([__file__, "-k", "1"])',
    'pytest.main([__file__, "--co"])',
    "pytest.main()",
    "unittest.main()",
    "unittest.main(verbosity=0)",
    "unittest.main(exit=False)",
    "unittest.main(exit=False)",
    "unittest.main(argv=['é'], exit=len(sys.argv) > 5)",
    "unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromName('__main__'))",
)
# `@` is a statement, `$` a call of a runner; most keep, drop or change what the runner returns.
_SHAPES = (
    *("$",) * 9,
    *("sys.exit($)", "raise SystemExit($)", "code = $", "code = $\nsys.exit(code)"),
    *("$; ran('beside')", "ran('before'); $", "($)", "$ and ran('and')", "$ or later(0)"),
    *("[$, ran('in a list')]", "print($)", "later($)", "sys.exit(later($))", "not $", "$;  # é"),
    *("assert not $", "sys.exit($ and 0)", "if $:\n    ran('failed')", "_ = lambda: $"),
    "for part in ('1', '2'):\n    @",
    "for part in ():\n    @\nelse:\n    @",
    "while True:\n    @\n    break",
    "with contextlib.suppress(SystemExit):\n    @",
    "with contextlib.suppress(ValueError):\n    @",
    "try:\n    @\nfinally:\n    ran('finally')",
    "try:\n    @\nfinally:\n    @",
    "try:\n    @\nexcept SystemExit:\n    ran('caught')",
    "try:\n    @\nexcept BaseException as error:\n    sys.exit(0)",
    "if len(sys.argv) < 9:\n    @",
    "if len(sys.argv) > 9:\n    ran('never')\nelse:\n    @",
    "def run():\n    @\nrun()",
    "def run():\n    @\nrun()\nrun()",
    "def run():\n    return $\nrun()",
    "def run(code=0):\n    @\n    return code\nsys.exit(run())",
    "ran('a statement')",
    "code = 0",
    "pass",
)
_MAIN = 'if __name__ == "__main__":'
_CONDITIONS = (*(_MAIN,) * 6, "if '__main__' == __name__ and os:", 'if (__name__ == "__main__"):')


@dataclass(frozen=True)
class Program:
    """A test file, and how it was made."""

    seed: int
    source: bytes

    @property
    def path(self) -> str:
        return f"test/registered/p{self.seed}/test_p{self.seed}.py"


def program(seed: int) -> Program:
    """The program of a seed, the same on every machine."""
    rng = random.Random(seed)
    imports = ["import contextlib", "import os", "import sys", "import unittest", "import pytest"]
    names = "\n".join([*imports, *(["from pytest import main"] if rng.random() < 0.2 else [])])
    head = _HEAD.format(imports=names, markers=rng.choices(_MARKERS, (20, 1, 1, 1, 1))[0])
    kinds = rng.choice(((_cases,), (_functions,), (_cases, _functions, _plain), (_cases, _plain)))
    parts = [rng.choice(kinds)(rng, number) for number in range(rng.randint(1, 3))]
    for block in _blocks(rng):
        early = rng.random() < 0.2
        parts.insert(rng.randint(0, len(parts)) if early else len(parts), block)
    if rng.random() < 0.25:
        parts.append(
            rng.choice(("ran('after')", "ran('after')", "LAST = '''a\n  '''  # é", "# the end"))
        )
    text = "\n\n\n".join([head.rstrip("\n"), *parts]) + "\n"
    text = text.rstrip("\n") if rng.random() < 0.1 else text
    return Program(seed, text.replace("\n", "\r\n" if rng.random() < 0.1 else "\n").encode())


def _test(rng: random.Random, name: str) -> str:
    return f"ran('test {name}')\n{rng.choice(_ENDS)}\nran('passed {name}')"


def _cases(rng: random.Random, number: int, base: str = "unittest.TestCase") -> str:
    lines = [f"class TestCase{number}({base}):" if base else f"class TestPlain{number}:"]
    for place in range(rng.randint(1, 2)):
        body = textwrap.indent(_test(rng, f"{base or 'plain'} {number} {place}"), "        ")
        lines.append(f"    def test_{number}_{place}(self):\n{body}")
    return "\n".join(lines)


def _plain(rng: random.Random, number: int) -> str:
    return _cases(rng, number, "")


def _functions(rng: random.Random, number: int) -> str:
    body = textwrap.indent(_test(rng, f"function {number}"), "    ")
    if rng.random() < 0.2:
        mark = '@pytest.mark.parametrize("size", [1, 2])\n'
        return f"{mark}def test_function_{number}(size):\n{body}"
    return f"def test_function_{number}():\n{body}"


def _blocks(rng: random.Random) -> Iterator[str]:
    """Main blocks: mostly one, of one to three statements."""
    for _ in range(rng.choice((0, 1, 1, 1, 1, 1, 1, 1, 1, 2))):
        count = rng.choice((1, 1, 1, 1, 2, 3))
        body = "\n".join(_statement(rng, depth=0) for _ in range(count))
        condition = rng.choice(_CONDITIONS)
        if "\n" not in body and body[0] not in "itwdf" and rng.random() < 0.3:
            yield f"{condition} {body}"
            continue
        block = f"{condition}\n{textwrap.indent(body, '    ')}"
        if rng.random() < 0.1:
            block += "\n    # still in it"
        if rng.random() < 0.1:
            block += "\nelse:\n    ran('imported')"
        yield f"if True:\n{textwrap.indent(block, '    ')}" if rng.random() < 0.05 else block


def _statement(rng: random.Random, depth: int) -> str:
    shapes = _SHAPES if depth < 2 else [shape for shape in _SHAPES if "@" not in shape]
    lines = []
    for line in rng.choice(shapes).split("\n"):
        inner = line.replace("$", rng.choice(_CALLS))
        if "@" in line:
            indent = line[: len(line) - len(line.lstrip())]
            inner = textwrap.indent(_statement(rng, depth + 1), indent)
        elif "\n" in inner and line.startswith(" "):
            inner = inner.replace("\n", "\n    ")
        lines.append(inner)
    return "\n".join(lines)


@dataclass(frozen=True)
class Run:
    """What a program said that it executed, in order, and its exit status."""

    ran: tuple[str, ...]
    status: int

    @property
    def tests(self) -> set[str]:
        return {line for line in self.ran if line.startswith(("test ", "passed "))}

    @property
    def failed(self) -> bool:
        begun, passed = (Counter(x[len(w) :] for x in self.ran if x.startswith(w)) for w in _WORDS)
        return begun != passed


_WORDS = ("test ", "passed ")


def execute(jobs: Sequence[tuple[str, Path]]) -> list[Run]:
    """Run each file as «pytest» or «script»: `runpy` in place of `python FILE`, which is slow."""
    lines = "".join(json.dumps([mode, str(path)]) + "\n" for mode, path in jobs)
    done = subprocess.run(
        [sys.executable, __file__], input=lines, capture_output=True, text=True, check=True
    )
    return [Run(tuple(ran), status) for ran, status in map(json.loads, done.stdout.splitlines())]


def as_process(path: Path) -> Run:
    """What `python FILE` does, in an interpreter of its own."""
    log = path.with_suffix(".log")
    log.unlink(missing_ok=True)
    environment = {**os.environ, **_PYTEST, "RAN": str(log)}
    command = [sys.executable, str(path)]
    done = subprocess.run(
        command, cwd=path.parent, env=environment, capture_output=True, check=False
    )
    return Run(_read(log), done.returncode)


_PYTEST = {"PYTEST_ADDOPTS": "-p no:cacheprovider", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def _read(log: Path) -> tuple[str, ...]:
    return tuple(log.read_text().splitlines()) if log.exists() else ()


def _serve() -> None:
    """Run the jobs of the standard input."""
    import pytest

    os.environ.update(_PYTEST)
    sys.dont_write_bytecode = True
    with contextlib.redirect_stdout(sys.stderr), tempfile.TemporaryDirectory() as folder:
        warm = Path(folder) / "test_warm.py"  # imports what every fork needs
        warm.write_text(
            "import runci, unittest\nclass T(unittest.TestCase):\n  def test(self): 1/0"
        )
        pytest.main([str(warm)])
    gc.freeze()
    for line in sys.stdin:
        mode, name = json.loads(line)
        path = Path(name)
        log = path.with_suffix(".log")
        log.unlink(missing_ok=True)
        child = os.fork()
        if not child:
            _run(mode, path, log)
        _, status = os.waitpid(child, 0)
        print(json.dumps([_read(log), os.waitstatus_to_exitcode(status)]), flush=True)


def _run(mode: str, path: Path, log: Path) -> None:
    import pytest

    signal.alarm(60)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    os.chdir(path.parent)
    os.environ["RAN"] = str(log)
    sys.argv = [str(path)]
    sys.path.insert(0, str(path.parent))
    status: Any = 0
    try:
        if mode == "pytest":
            status = pytest.main([str(path)])
        else:
            runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        status = end.code
    except BaseException:  # noqa: BLE001 (whatever it is, Python prints it and exits with 1)
        status = 1
    status = 0 if status is None else status
    os._exit(int(status) & 0xFF if isinstance(status, int) else 1)


def lint(root: Path, *arguments: str) -> dict[str, Counter[str]]:
    """The rules that find something in each file, after what `--fix` mends; notes apart."""
    command = [sys.executable, "-m", "runci", "lint", "--root", str(root), "--no-cache"]
    done = subprocess.run(
        [*command, "--format=json", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, Counter[str]] = {}
    for finding in json.loads(done.stdout)["findings"]:
        rule = finding["rule"] + (" note" if finding["level"] == "note" else "")
        found.setdefault(finding["path"], Counter())[rule] += 1
    return found


@dataclass(frozen=True)
class Outcome:
    """What held not, and how many programs had a finding of a rule mended."""

    broken: list[str]
    mended: Counter[str]
    left: Counter[str]


def check_programs(root: Path, taxonomy: bytes, seeds: Sequence[int]) -> Outcome:
    """Mend the programs of these seeds in a tree, and compare what executes."""
    programs = {one.path: one for one in map(program, seeds)}
    (root / "test").mkdir(parents=True, exist_ok=True)
    (root / "test" / "suites.yml").write_bytes(taxonomy)
    _write(root, programs.values())
    lint(root, "--fix", "--select=RT1,RT2")  # until then a file may register nowhere
    found = lint(root)
    _write(root, programs.values())
    left = lint(root, "--fix")
    changed = [p for p, one in programs.items() if (root / p).read_bytes() != one.source]
    after = _both(root, changed)
    texts = {path: (root / path).read_bytes() for path in changed}
    _write(root, (programs[path] for path in changed))
    before = _both(root, changed)
    for path, text in texts.items():
        (root / path).write_bytes(text)
    outcome = Outcome([], Counter(), sum(left.values(), Counter()))
    for path in changed:
        mended = found.get(path, Counter()) - left.get(path, Counter())
        outcome.mended.update(set(mended))
        problem = _problem(before[path], after[path], set(mended))
        if problem:
            outcome.broken.append(f"{path} ({', '.join(mended)}): {problem}")
    again = lint(root, "--fix")
    outcome.broken.extend(
        f"{path}: mended again" for path in changed if again.get(path) != left.get(path)
    )
    return outcome


def _write(root: Path, programs: Iterable[Program]) -> None:
    for one in programs:
        (root / one.path).parent.mkdir(parents=True, exist_ok=True)
        (root / one.path).write_bytes(one.source)


def _both(root: Path, paths: Sequence[str]) -> dict[str, tuple[Run, Run]]:
    runs = execute([(mode, root / path) for path in paths for mode in ("pytest", "script")])
    return dict(zip(paths, zip(runs[::2], runs[1::2], strict=True), strict=True))


def _problem(before: tuple[Run, Run], after: tuple[Run, Run], mended: set[str]) -> str:
    """What a fix changed that it may not; each side is a run by pytest, and one as a script."""
    if before[0] != after[0]:
        return f"pytest: {before[0]} became {after[0]}"
    old, new = before[1], after[1]
    if "RT301" in mended:  # nothing ran, and now all that pytest finds does
        good = new.tests == after[0].tests and bool(new.status) == bool(after[0].status)
        return "" if good else f"script with a main block: {new}, pytest: {after[0]}"
    moved = not mended.isdisjoint(("RT302", "RT302 note"))
    if moved and not old.tests <= new.tests:
        return f"script: {old} became {new}"
    if "RT302 note" in mended and old.tests != new.tests:
        return f"script: {old} became {new}"
    if not moved and old.ran != new.ran:
        return f"script: {old} became {new}"
    if "RT304" in mended:
        return "" if bool(new.status) >= new.failed else f"a failure that exits 0: {new}"
    return "" if moved or old.status == new.status else f"{old} became {new}"


if __name__ == "__main__":
    _serve()
