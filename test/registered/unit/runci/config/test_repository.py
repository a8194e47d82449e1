"""Where a taxonomy may stand, which one decides, and that the gate protects every such place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runci import register_cpu_ci
from runci.config.repository import CONFIGS, find_config, find_root
from runci.core.errors import RunciError
from runci.gate.rules import is_protected

register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")

SUITES = """\
version: 1
roots: [tests]
runners: {cpu: {label: ubuntu-latest, execution: pytest}}
suites: {cpu: [{stage: unit, runner_configs: [cpu], kind: per-commit, run_by: another CI}]}
"""
TEST = """\
from runci import register_cpu_ci

register_cpu_ci(est_time=1, stage="unit", runner_config="cpu")


def test_a():
    assert True
"""


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({}, "runci.yml"),
        ({"runci.yml": ""}, "runci.yml"),
        ({".github/runci.yml": ""}, ".github/runci.yml"),
        ({"test/suites.yml": ""}, "test/suites.yml"),
        ({"pyproject.toml": "[tool.runci]\nconfig = 'ci/a/suites.yml'\n"}, "ci/a/suites.yml"),
        ({"pyproject.toml": "[tool]\nrunci.config = 'ci/runci.yml'\n"}, "ci/runci.yml"),
        ({"pyproject.toml": "tool.runci = {config = 'ci/runci.yml'}\n"}, "ci/runci.yml"),
        ({"pyproject.toml": "[ tool . 'runci' ]\nconfig = 'ci/runci.yml'\n"}, "ci/runci.yml"),
        ({"pyproject.toml": "[project]\nname = 'runci'\n", "runci.yml": ""}, "runci.yml"),
        # Who names one has decided.
        (
            {
                "pyproject.toml": "[tool.runci]\nconfig = 'ci/suites.yml'\n",
                "runci.yml": "",
                "test/suites.yml": "",
            },
            "ci/suites.yml",
        ),
    ],
)
def test_where_it_stands(tmp_path: Path, files: dict[str, str], found: str) -> None:
    write(tmp_path, files)
    assert find_config(tmp_path) == tmp_path / found
    assert is_protected(found)
    assert find_config(tmp_path, "my.yml") == Path("my.yml")


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"runci.yml": "", "test/suites.yml": ""}, ["runci.yml", "test/suites.yml"]),
        ({".github/runci.yml": "", "runci.yml": ""}, ["runci.yml", ".github/runci.yml"]),
        ({"pyproject.toml": "[tool.runci]\nconfig = 'ci/lanes.yml'\n"}, ["pyproject", "lanes.yml"]),
        ({"pyproject.toml": "[tool.runci]\nconfig = '../suites.yml'\n"}, ["../suites.yml"]),
        ({"pyproject.toml": "[tool.runci]\nconfig = '/etc/suites.yml'\n"}, ["/etc/suites.yml"]),
        ({"pyproject.toml": "[tool.runci]\nconfig = 3\n"}, ["pyproject", "3"]),
        ({"pyproject.toml": "[tool.runci]\nconfg = 'suites.yml'\n"}, ["pyproject", "confg"]),
        ({"pyproject.toml": "[tool]\nrunci = 'suites.yml'\n"}, ["pyproject", "suites.yml"]),
        ({"pyproject.toml": "[tool.runci\n"}, ["pyproject"]),
    ],
)
def test_what_is_refused(tmp_path: Path, files: dict[str, str], named: list[str]) -> None:
    write(tmp_path, files)
    with pytest.raises(RunciError) as refused:
        find_config(tmp_path)
    assert all(name in str(refused.value) for name in named)


def test_a_pyproject_that_is_no_file_has_no_table(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "pyproject.toml").symlink_to("pipe")  # as to /dev/zero, of which no end can be read
    assert find_config(tmp_path) == tmp_path / "runci.yml"


@pytest.mark.parametrize("place", [*CONFIGS, "ci/deep/suites.yml"])
def test_every_command_finds_it_from_a_folder_below(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {place: SUITES, "tests/test_a.py": TEST, "tests/deep/note.txt": ""})
    if place not in CONFIGS:
        write(tmp_path, {"pyproject.toml": f"[tool.runci]\nconfig = '{place}'\n"})
    monkeypatch.chdir(tmp_path / "tests/deep")
    assert find_root(None) == tmp_path
    for words in ("lint", "collect", "plan --all", "run --list --suite unit-test-cpu"):
        command = [sys.executable, "-m", "runci", *words.split()]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (words, done.stdout, done.stderr)


def test_a_second_one_is_noticed_after_an_answer_was_kept(tmp_path: Path) -> None:
    write(tmp_path, {"runci.yml": SUITES, "tests/test_a.py": TEST})
    lint = [sys.executable, "-m", "runci", "lint", "--root", ".", "--cache-dir", "../cache"]

    def status() -> int:
        return subprocess.run(lint, cwd=tmp_path, capture_output=True, check=False).returncode

    assert [status(), status()] == [0, 0]
    write(tmp_path, {".github/runci.yml": SUITES})
    assert status() == 2
    (tmp_path / ".github/runci.yml").unlink()
    write(tmp_path, {"pyproject.toml": "[tool.runci]\nconfig = 'ci/suites.yml'\n"})
    assert status() == 2


@pytest.mark.parametrize(
    ("there", "found"),
    [
        (("runci.yml", "a/.git"), "a"),  # a repository of its own, in a folder with a taxonomy
        (("runci.yml", "a/b/.git"), "a/b"),
        ((".git", "a/runci.yml"), "a"),
        (("runci.yml", ".git"), ""),
        ((".git",), ""),
    ],
)
def test_the_nearest_repository_or_taxonomy_is_the_root(
    there: tuple[str, ...], found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for path in there:
        (tmp_path / path).touch()
    monkeypatch.chdir(tmp_path / "a" / "b")
    assert find_root(None) == tmp_path / found


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
