"""`runci.read` reads registrations as the released SGLang does, wherever that one does not raise.

Opt-in (`make interop`): the wheel comes from the package index. RUNCI_INTEROP_TREE names a checkout
whose files under `test/` are compared too. What is meant to differ is listed in `DIFFERENCES`, and
counted.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
import os
import random
import subprocess
import sys
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from runci.read.parse import parse
from runci.read.registrations import registration
from runci.read.testfile import MarkerCall, TestFile

VERSION = "0.5.23"
READER = "sglang/test/ci/ci_register.py"
GENERATOR = Path(__file__).parents[2] / "ci_scripts" / "benchmark" / "tree.py"
TREE = os.environ.get("RUNCI_INTEROP_TREE")

DIFFERENCES = {
    "estimate": "0, True, inf and nan are estimates for SGLang; for runci there is none (RT105)",
    "computed": "SGLang takes a computed argument for its default; runci rejects the call (RT104)",
    "no suite": "SGLang accepts suite=None and a pair of None; runci rejects the call (RT107)",
    "another function": "SGLang reads any call by a marker's name, whatever was imported by it",
    "encoding": "SGLang ignores a declared encoding; runci decodes as Python does",
    "main calls": "SGLang counts calls inside functions that a main block only defines",
}


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """SGLang's reader, from its wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    # The wheel is for one platform; its reader is plain Python.
    tags = ("--platform=manylinux_2_34_x86_64", "--python-version=3.11", "--abi=cp311")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    only = ["--only-binary=:all:", *tags, f"sglang=={VERSION}"]
    subprocess.run([*pip, *only], check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        path = Path(archive.extract(READER, folder))
    spec = importlib.util.spec_from_file_location("sglang_ci_register", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look there
    spec.loader.exec_module(module)
    return module


def compare(reader: ModuleType, path: Path) -> tuple[str, set[str]]:
    """«raised», «none» or «agreed» (apart from differences, named); fails where they disagree."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            theirs, has_main = reader.ut_parse_one_file(str(path))
        except Exception:  # noqa: BLE001  whatever stops SGLang's runner
            return "raised", set()
    file = parse(path.name, path.read_bytes())
    assert file.readable, (path, file.errors)
    differences = _main_difference(file, has_main, path)
    plain = (call for call in file.calls if call.within is None and call.via == "name")
    ours = [call for call in plain if call.backend is not None]
    if len(ours) < len(theirs):
        ours = _named_alike(ours, theirs)
        differences.add("another function")
    assert len(ours) == len(theirs), path
    for call, their in zip(ours, theirs, strict=True):
        if call is not None:
            differences |= _difference(call, their, path)
    return ("agreed" if theirs else "none"), differences


def _named_alike(ours: list[MarkerCall], theirs: list[Any]) -> list[MarkerCall | None]:
    """Ours at the places of theirs, with None for calls of functions that are no markers."""
    rest = list(ours)
    found: list[MarkerCall | None] = []
    for their in theirs:
        same = rest and rest[0].marker == f"register_{their.backend.name.lower()}_ci"
        found.append(rest.pop(0) if same else None)
    assert not rest
    return found


def _difference(call: MarkerCall, their: Any, path: Path) -> set[str]:
    assert call.marker == f"register_{their.backend.name.lower()}_ci", path
    our = registration(call)
    if our is None:
        if any(argument.kind == "expression" for argument in call.arguments):
            return {"computed"}
        assert their.effective_suite is None, (path, call, their)
        return {"no suite"}
    names = ("stage", "runner_config", "suite", "nightly", "disabled")
    assert [getattr(our, n) for n in names] == [getattr(their, n) for n in names], path
    assert our.effective_suite == their.effective_suite
    assert our.enabled == (their.disabled is None)
    if our.est_time is None:
        argument = call.argument("est_time")
        assert argument is not None
        impossible = not math.isfinite(their.est_time) or their.est_time <= 0
        assert impossible or argument.type == "bool", (path, their)
        return {"estimate"}
    assert our.est_time == their.est_time, path
    return set()


def _main_difference(file: TestFile, has_main: bool, path: Path) -> set[str]:
    """What SGLang calls a main entry is one for runci (which knows more spellings)."""
    if not has_main or any(block.runner != "nothing" for block in file.mains):
        return set()
    assert any(block.runner == "nothing" for block in file.mains), path
    return {"main calls"}


def compare_all(reader: ModuleType, paths: Iterable[Path], what: str) -> Counter[str]:
    """Compare many files, and say how it went."""
    outcomes: Counter[str] = Counter()
    for path in paths:
        outcome, differences = compare(reader, path)
        outcomes.update([outcome, *differences])
    print(f"\n{what}: {dict(sorted(outcomes.items()))}")
    assert outcomes.keys() <= {"raised", "none", "agreed", *DIFFERENCES}
    assert outcomes["agreed"], "nothing was compared"
    return outcomes


@pytest.mark.parametrize("options", [[], ["--faults"]], ids=["clean", "seeded"])
def test_generated_tree(reader: ModuleType, tmp_path: Path, options: list[str]) -> None:
    subprocess.run([sys.executable, GENERATOR, tmp_path, *options], check=True, capture_output=True)
    files = sorted((tmp_path / "test").rglob("*.py"))
    outcomes = compare_all(reader, files, f"generated tree {options}")
    assert sum(outcomes[o] for o in ("raised", "none", "agreed")) == 1550
    if not options:
        assert outcomes.keys() == {"agreed"}


@pytest.mark.skipif(TREE is None, reason="RUNCI_INTEROP_TREE names no checkout")
def test_checkout(reader: ModuleType) -> None:
    compare_all(reader, sorted(Path(str(TREE), "test").rglob("*.py")), "checkout")


_VALUES = {
    "est_time": ("5", "0.5", "0", "-1", "True", "1e400", "1e3", "10**2", "'5'", "None", "1_000"),
    "suite": ('"s"', '"s" "t"', "''", "None", "b's'", "f's'", "SUITE", "5"),
    "nightly": ("True", "False", "None", "1", "not False", "NIGHTLY"),
    "disabled": ('"#1"', "''", "None", "True", "f'{x}'", "'é'"),
    "stage": ('"a"', '"base-b"', "''", "None", "STAGE"),
    "runner_config": ('"cpu"', '"1-gpu"', "None", "cpu"),
    "surplus": ("1",),
}
_POSITIONAL = ("est_time", "suite", "nightly", "disabled")


def _random_call(rng: random.Random) -> str:
    count = rng.choice((0, 0, 0, 1, 1, 2, 3, 4, 5))
    arguments = [rng.choice(_VALUES[name]) for name in (*_POSITIONAL, "surplus")[:count]]
    likely = [name for name in _VALUES if name not in _POSITIONAL[:count] and name != "surplus"]
    chosen = rng.sample(likely, rng.randrange(len(likely) + 1))
    if rng.random() < 0.6:  # make it a valid shape more often
        pair = {"stage", "runner_config"} if count < 2 and rng.random() < 0.5 else {"suite"}
        chosen = [n for n in chosen if n not in ("stage", "runner_config", "suite")]
        chosen += [n for n in ("est_time", *sorted(pair)) if n in likely and n not in chosen]
    arguments += [f"{name}={rng.choice(_VALUES[name])}" for name in chosen]
    backend = rng.choice(("cpu", "cuda", "amd", "npu", "xpu", "musa", "mlx", "mps", "ppu"))
    return f"register_{backend}_ci({', '.join(arguments)})"


def test_random_calls(reader: ModuleType, tmp_path: Path) -> None:
    rng = random.Random(0)
    for number in range(6000):
        calls = "\n".join(_random_call(rng) for _ in range(rng.choice((1, 1, 2))))
        source = f"from sglang.test.ci.ci_register import *\n{calls}\n"
        (tmp_path / f"{number}.py").write_text(source, encoding="utf-8")
    outcomes = compare_all(reader, sorted(tmp_path.iterdir()), "random calls")
    assert outcomes.keys() >= {"agreed", "raised", "estimate", "computed", "no suite"}


_IMPORT = "from sglang.test.ci.ci_register import register_cpu_ci\n"
_CALL = 'register_cpu_ci(est_time=5, suite="s")\n'
ADVERSARIAL: dict[str, tuple[str | bytes, set[str]]] = {
    "plain": (_IMPORT + _CALL, set()),
    "not imported": (_CALL, set()),
    "star import": ("from sglang.test.ci.ci_register import *\n" + _CALL, set()),
    "semicolons": (_IMPORT + f"x = 1; {_CALL.strip()}; y = 2\n", set()),
    "parentheses": (_IMPORT + f"({_CALL.strip()})\n", set()),
    "continuation": (_IMPORT + 'register_cpu_ci \\\n  (5, \\\n  "s")\n', set()),
    "comments inside": (_IMPORT + 'register_cpu_ci(  # a\n    5,  # b\n    "s",\n)\n', set()),
    "in a function": (_IMPORT + _CALL + f"def f():\n    {_CALL}", set()),
    "in an if": (_IMPORT + f"if True:\n    {_CALL}", set()),
    "in an expression": (_IMPORT + f"x = {_CALL}" + _CALL, set()),
    "nested": (_IMPORT + 'register_cpu_ci(5, "s").x(register_cpu_ci(6, "t"))\n', set()),
    "in a string": (_IMPORT + f"'''\n{_CALL}'''\n" + _CALL, set()),
    "alias": (_IMPORT.replace("_ci\n", "_ci as r\n") + 'r(5, "s")\n', set()),
    "attribute": ('import ci_register as c\nc.register_cpu_ci(5, "s")\n', set()),
    "awaited": (_IMPORT + f"async def f():\n    await {_CALL}" + _CALL, set()),
    "carriage returns": ((_IMPORT + _CALL).replace("\n", "\r\n").encode(), set()),
    "old Mac": ((_IMPORT + _CALL).replace("\n", "\r").encode(), set()),
    "form feed": (_IMPORT + "\f\n" + _CALL, set()),
    "no newline at the end": ((_IMPORT + _CALL).strip(), set()),
    "another name": ("from x import y as register_cpu_ci\n" + _CALL, {"another function"}),
    "other encoding": ("# coding: utf-8\n" + _IMPORT + _CALL, set()),
    "bound twice": (_IMPORT + "register_cpu_ci = print\n" + _CALL, set()),
    "defined here": ("def register_cpu_ci(*a, **k): pass\n" + _CALL, set()),
    "unknown marker": (_CALL.replace("cpu", "tpu"), set()),
    "main": (_IMPORT + _CALL + 'if __name__ == "__main__":\n    main()\n', set()),
    "main only defines": (
        _IMPORT + _CALL + 'if __name__ == "__main__":\n    def f():\n        g()\n',
        {"main calls"},
    ),
    "byte order mark": (b"\xef\xbb\xbf" + _CALL.encode(), set()),
    "null byte": (_CALL.encode() + b"\0", set()),
    "nothing": ("", set()),
}


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_adversarial(reader: ModuleType, tmp_path: Path, name: str) -> None:
    source, expected = ADVERSARIAL[name]
    path = tmp_path / "test_x.py"
    path.write_bytes(source if isinstance(source, bytes) else source.encode())
    _, differences = compare(reader, path)
    assert differences == expected


def test_declared_encoding(reader: ModuleType, tmp_path: Path) -> None:
    """The one difference that changes a value: «é» in UTF-8, in a file that declares Latin-1."""
    path = tmp_path / "test_x.py"
    path.write_bytes(b"# coding: latin-1\n" + _CALL.replace('"s"', '"\u00e9"').encode("utf-8"))
    theirs, _ = reader.ut_parse_one_file(str(path))
    (call,) = parse(path.name, path.read_bytes()).calls
    our = registration(call)
    assert our is not None
    assert (theirs[0].suite, our.suite) == ("\u00e9", "\u00c3\u00a9")
    assert "encoding" in DIFFERENCES


def test_every_order_of_keywords(reader: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "test_x.py"
    keywords = ("est_time=5", 'stage="a"', 'runner_config="cpu"', "nightly=True", 'disabled="#1"')
    for order in itertools.permutations(keywords):
        path.write_text(f"{_IMPORT}register_cpu_ci({', '.join(order)})\n")
        assert compare(reader, path) == ("agreed", set())


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
