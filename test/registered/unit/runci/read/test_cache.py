"""The cache changes how long a lint takes, never what it finds, whatever is in its file."""

from __future__ import annotations

import ast
import inspect
import json
import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from trees import CLEAN, TESTS, make_tree

import runci
from runci import register_cpu_ci
from runci.checks.engine import Result, check
from runci.checks.registry import rules
from runci.checks.rule import Options
from runci.config.repository import open_cache
from runci.config.suites import load_taxonomy
from runci.config.taxonomy import to_json
from runci.read.cache import Cache, digest, source_version
from runci.read.parse import parse
from runci.workflows.find import find_suite_runs

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

ALL = rules(("RT",))

BAD = CLEAN.replace("est_time=5", "est_time=0")


def run(root: Path, folder: Path | None, *paths: str) -> Result:
    config = root / "test" / "suites.yml"
    return check(Options(root, config, root, frozenset(ALL), paths, cache_folder=folder), ("RT",))


def cache_file(folder: Path) -> Path:
    (path,) = (p for p in folder.iterdir() if not p.name.startswith("."))
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {f"{TESTS}/test_{n}.py": CLEAN + f"\nX = {n}\n" for n in range(5)}
    workflow = "on: push\njobs:\n  a:\n    steps:\n      - run: runci run --suite base-a-test-cpu\n"
    files |= {f"{TESTS}/test_bad.py": BAD, ".github/workflows/a.yml": workflow}
    return make_tree(tmp_path / "root", files)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_warm_and_cold_find_the_same(root: Path, folder: Path) -> None:
    without, cold, warm = run(root, None), run(root, folder), run(root, folder)
    assert [f.rule for f in without.findings] == ["RT105"]
    assert without == cold == warm
    assert cache_file(folder).stat().st_size > 500


def test_a_warm_lint_parses_nothing(
    root: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(root, folder)

    def parse(*_: object) -> None:
        raise AssertionError("parsed again")

    monkeypatch.setattr("runci.read.parse.parse", parse)
    assert [f.rule for f in run(root, folder).findings] == ["RT105"]
    (root / TESTS / "test_1.py").write_text(CLEAN + "# changed\n")
    with pytest.raises(AssertionError, match="parsed again"):
        run(root, folder)


def test_a_changed_file_is_read_anew(root: Path, folder: Path) -> None:
    run(root, folder)
    (root / TESTS / "test_bad.py").write_text(CLEAN)
    assert run(root, folder).findings == ()
    (root / TESTS / "test_bad.py").write_text(BAD)
    assert [f.rule for f in run(root, folder).findings] == ["RT105"]


def test_equal_files_share_a_row_but_not_a_path(root: Path, folder: Path) -> None:
    make_tree(root, {f"{TESTS}/test_worse.py": BAD, f"{TESTS}/test_zero.py": BAD})
    for _ in range(2):
        names = [f.path.rpartition("/")[2] for f in run(root, folder).findings]
        assert names == ["test_bad.py", "test_worse.py", "test_zero.py"]


def with_rows(data: bytes, change: Callable[[str], str]) -> bytes:
    """A cache file whose header fits although its rows were changed."""
    first, _, body = data.partition(b"\n")
    rows = [line.partition(" ") for line in body.decode().split("\n")]
    body = "\n".join(f"{key} {change(row)}" for key, _, row in rows).encode()
    return first.rpartition(b" ")[0] + f" {zlib.crc32(body)}\n".encode() + body


def reshaped(change: Callable[[list], object]) -> Callable[[bytes], bytes]:
    def apply(row: str) -> str:
        value = json.loads(row)
        return json.dumps(change(value) if isinstance(value, list) else value)

    return lambda data: with_rows(data, apply)


def put(place: int, value: object) -> Callable[[bytes], bytes]:
    return reshaped(lambda row: [*row[:place], value, *row[place + 1 :]])


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "cut in the header": lambda data: data[:10],
    "one byte": lambda data: data[:-20] + bytes([data[-20] ^ 1]) + data[-19:],
    "longer": lambda data: data + b"\nx y",
    "another version": lambda data: data.replace(b"runci-cache 1", b"runci-cache 0"),
    "another Python": lambda data: data.replace(b"python(", b"python(9", 1),
    "a crc of another body": lambda data: with_rows(data, lambda row: row + " ").replace(
        b" \n", b"\n"
    ),
    "binary": lambda data: bytes(range(256)) * 100,
    "not UTF-8": lambda data: with_rows(data, lambda row: row)[:-3] + b"\xff\xff\xff",
    "rows of nothing": lambda data: with_rows(data, lambda row: ""),
    "no JSON": lambda data: with_rows(data, lambda row: row[:-1]),
    "several values": lambda data: with_rows(data, lambda row: f"{row},{row}"),
    "nested without end": lambda data: with_rows(data, lambda row: "[" * 100_000),
    "null": lambda data: with_rows(data, lambda row: "null"),
    "a number": lambda data: with_rows(data, lambda row: "7"),
    "a mapping": lambda data: with_rows(data, lambda row: '{"runs": 7}'),
    "texts": reshaped(lambda row: [""] * len(row)),
    "too short": reshaped(lambda row: row[:-1]),
    "too long": reshaped(lambda row: [*row, 1]),
    "calls of numbers": put(1, [1, 2]),
    "calls of texts": put(1, ["abcdefgh"]),
    "errors of texts": put(0, ["abc"]),
    "mains of nothing": put(2, [[]]),
    "a count that is a text": put(3, "many"),
    "a span of three": put(4, [1, 2, 3]),
    "a span of texts": put(4, ["a", "b", "c", "d"]),
    "suppressions of mappings": put(7, [{}]),
    "a line that is a list": put(8, []),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_is_discarded(damage: str, root: Path, folder: Path) -> None:
    good = run(root, folder)
    path = cache_file(folder)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    assert run(root, folder) == good
    assert run(root, folder) == good


def test_the_cache_depends_on_the_code_that_wrote_it(tmp_path: Path) -> None:
    assert source_version("parse") != source_version("parse", "workflows")
    path = tmp_path / "c"
    cache = Cache(path, "one")
    cache.put("k", "row")
    cache.save(["k"])
    assert Cache(path, "one").get("k") == "row"
    assert Cache(path, "two").get("k") is None


PACKAGE = Path(runci.__file__).parent


def closure(*functions: Callable[..., object]) -> set[Path]:
    """The modules of runci in which these are, and all that those import."""
    pending, found = [Path(str(inspect.getsourcefile(one))) for one in functions], set()
    while pending:
        path = pending.pop()
        if path in found:
            continue
        found.add(path)
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{item.name}" for item in node.names)]
                below = [name.split(".")[1:] for name in names if name.startswith("runci.")]
                places = [PACKAGE.joinpath(*parts) for parts in below]
                pending += [p.with_suffix(".py") for p in places if p.with_suffix(".py").exists()]
                pending += [p / "__init__.py" for p in places if (p / "__init__.py").exists()]
    return found


CHANGING = f"""
import json, sys
from pathlib import Path
from {open_cache.__module__} import open_cache

kept = []
for path in map(Path, json.load(sys.stdin)):
    cache = open_cache(Path("r"), Path("c"), Path("cache"))
    cache.put("key", "row")
    cache.save(["key"])
    assert open_cache(Path("r"), Path("c"), Path("cache")).get("key") == "row"
    before = path.read_bytes()
    path.write_bytes(before + b"\\n")
    if open_cache(Path("r"), Path("c"), Path("cache")).get("key") is not None:
        kept.append(str(path))
    path.write_bytes(before)
print(json.dumps(kept))
"""


def test_whatever_a_row_depends_on_counts(tmp_path: Path) -> None:
    """A row is of no use where the code or the schema that it comes from has changed."""
    read = closure(parse, load_taxonomy, find_suite_runs, to_json)
    assert len(read) > 20
    schemas = PACKAGE.rglob("suites.schema.json")
    files = sorted(p.relative_to(PACKAGE).as_posix() for p in (*read, *schemas))
    assert {"source.py", "suites.schema.json"} <= {file.rpartition("/")[2] for file in files}
    copy = tmp_path / "runci"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-B", "-c", CHANGING],
        input=json.dumps([str(copy / file) for file in files]),
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert json.loads(done.stdout) == []


def test_rows_that_nobody_used_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "c"
    cache = Cache(path, "v")
    for key in ("a", "b"):
        cache.put(key, "row")
    cache.save(["b", "c"])
    again = Cache(path, "v")
    assert (again.get("a"), again.get("b"), again.get("c")) == (None, "row", None)
    assert digest(b"a") != digest(b"b")


def test_a_folder_that_cannot_be_written_is_no_fault(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for place in (tmp_path / "file", tmp_path / "file" / "deeper"):
        assert [f.rule for f in run(root, place).findings] == ["RT105"]
    assert (tmp_path / "file").read_text() == "in the way"
    folder = tmp_path / "cache"
    run(root, folder)
    path = cache_file(folder)
    path.unlink()
    path.mkdir()  # a folder where the file belongs
    assert [f.rule for f in run(root, folder).findings] == ["RT105"]
    assert list(folder.iterdir()) == [path], "nothing is left over"


def test_two_repositories_do_not_share_a_file(root: Path, tmp_path: Path) -> None:
    other = make_tree(tmp_path / "other", {f"{TESTS}/test_a.py": CLEAN})
    folder = tmp_path / "cache"
    run(root, folder)
    run(other, folder)
    assert len(list(folder.iterdir())) == 2


SCRIPT = """
import sys
from pathlib import Path
from runci.read.cache import Cache
path = Path(sys.argv[1])
for turn in range(40):
    cache = Cache(path, "v")
    assert cache.get("k") in (None, "x" * 50_000, "y" * 50_000)
    cache.put("k", sys.argv[2] * 50_000)
    cache.save(["k"])
"""


def test_processes_that_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "c"
    processes = [
        subprocess.Popen([sys.executable, "-c", SCRIPT, str(path), letter]) for letter in "xy"
    ]
    assert [process.wait(60) for process in processes] == [0, 0]
    assert Cache(path, "v").get("k") in ("x" * 50_000, "y" * 50_000)
    assert list(tmp_path.iterdir()) == [path]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
