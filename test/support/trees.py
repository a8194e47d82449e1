"""Small repositories for the tests of the lint: made from text, from fixtures, from examples."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from places import FIXTURES

from runci.checks import engine, fix
from runci.checks.registry import rules
from runci.checks.rule import Options
from runci.cli import main
from runci.core.finding import Finding

TAXONOMY = FIXTURES / "suites.yml"
TESTS = "test/registered"

ALL = rules(("RT",))
# Rules that ask git which files there are.
OF_TRACKED = {"RT208"}

IMPORT = "from runci import register_cpu_ci\n\n"
CALL = 'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")\n'
TEST = "\n\ndef test_addition():\n    assert 1 + 1 == 2\n"
CLEAN = IMPORT + CALL + TEST
FAULTY = CLEAN.replace("est_time=5", "est_time=0")

_EXPECT = re.compile(rb"expect: ((?:RT\d{3}[ ,]*)+)")


def fixtures(kind: str) -> list[Path]:
    """Of every rule; test_rules.py says which rule has none."""
    return sorted(path for rule in ALL for path in (FIXTURES / rule / kind).glob("*"))


def name_of(fixture: Path) -> str:
    return fixture.relative_to(FIXTURES).as_posix()


def skip_where_links_are_files(fixture: Path) -> None:
    links = fixture / TESTS / "test_broken.py"
    if fixture.name == "links" and links.is_file():
        pytest.skip("this checkout has files in place of symbolic links")


def make_tree(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write a repository; it gets the taxonomy of the fixtures where it has none."""
    for path, content in files.items():
        full = root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(content if isinstance(content, bytes) else content.encode())
    return with_taxonomy(root)


def with_taxonomy(root: Path) -> Path:
    config = root / "test" / "suites.yml"
    if not config.exists():
        (root / TESTS).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(TAXONOMY, config)
    return root


def place(fixture: Path, root: Path) -> Path:
    """Copy a fixture: a folder is a whole tree, a file is one test in an otherwise empty tree."""
    if fixture.is_dir() and not fixture.is_symlink():
        shutil.copytree(fixture, root, symlinks=True, dirs_exist_ok=True)
    else:
        (root / TESTS).mkdir(parents=True)
        shutil.copy(fixture, root / TESTS / fixture.name, follow_symlinks=False)
    with_taxonomy(root)
    return track(root) if name_of(fixture).split("/")[0] in OF_TRACKED else root


def track(root: Path) -> Path:
    """Let git track all files of a tree."""
    for command in ("init -q", "add --all"):
        subprocess.run(["git", *command.split()], cwd=root, check=True)
    return root


def options(root: Path, *paths: str, active: Iterable[str] = ALL, **others: Any) -> Options:
    """What a run of checks is asked for here, without a cache."""
    config = root / "test" / "suites.yml"
    return Options(root, config, root, frozenset(active), paths, **others)


def run(root: Path, active: Iterable[str] = ALL) -> engine.Result:
    """The whole lint, without a cache and in this process."""
    return engine.check(options(root, active=active), ("RT",))


def mend(root: Path) -> int:
    """Apply all fixes; give how many findings that mended."""
    count, refused = fix.write(root, engine.changes(options(root), run(root)))
    assert not refused
    return count


def findings(root: Path, rule: str = "RT") -> list[Finding]:
    """What the lint finds with all rules on, of one rule or family."""
    return [f for f in run(root).findings if f.rule.startswith(rule)]


def found(root: Path, rule: str = "RT") -> list[tuple[str, int]]:
    """Path and line of each finding of a rule, sorted."""
    return sorted((f.path, f.line) for f in findings(root, rule))


def expected(root: Path, rule: str) -> list[tuple[str, int]]:
    """Path and line of each comment `expect: RT104` below a tree, sorted."""
    return sorted(
        (path.relative_to(root).as_posix(), number)
        for path in root.rglob("*")
        if path.is_file()
        for number, line in enumerate(path.read_bytes().splitlines(), 1)
        for words in _EXPECT.findall(line)
        for word in re.split(rb"[ ,]+", words)
        if word.decode() == rule
    )


def runci(
    *arguments: str, cwd: Path, stdin: bytes | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line in this process: what it prints, and its exit status.

    Where the process itself is tested (signals, pipes, encodings), see `runci_process`.
    """
    streams = [io.TextIOWrapper(io.BytesIO(data), "utf-8") for data in (stdin or b"", b"", b"")]
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("GIT_")]:
            patch.delenv(name)
        for name, value in _variables(cwd, environment).items():
            patch.setenv(name, value)
        patch.chdir(cwd)
        for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
            patch.setattr(sys, name, stream)
        code = main(arguments)
    return subprocess.CompletedProcess(arguments, int(code), *map(_written, streams[1:]))


def _written(stream: io.TextIOWrapper[io.BytesIO]) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode("utf-8", "surrogateescape")


def files_by_suite(plan: str) -> dict[str, list[str]]:
    """The paths that each suite of a plan.json has, sorted."""
    return {
        suite["name"]: sorted(f["path"] for shard in suite["shards"] for f in shard["files"])
        for suite in json.loads(plan)["suites"]
    }


def runci_process(
    *arguments: str, cwd: Path, stdin: bytes | None = None, timeout: float = 60, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line as a process of its own."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    return subprocess.run(
        [sys.executable, "-m", "runci", *arguments],
        cwd=cwd,
        env={**variables, "PYTHONIOENCODING": "utf-8", **_variables(cwd, environment)},
        capture_output=True,
        encoding="utf-8",
        errors="surrogateescape",
        input=None if stdin is None else stdin.decode(),
        timeout=timeout,
        check=False,
    )


def _variables(cwd: Path, given: Mapping[str, str]) -> dict[str, str]:
    """No cache in the user's folder, and a terminal of the usual width."""
    return {"XDG_CACHE_HOME": str(cwd / ".cache"), "COLUMNS": "80", **given}
