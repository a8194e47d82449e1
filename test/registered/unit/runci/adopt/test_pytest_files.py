"""Which files pytest takes for tests: the same as pytest itself, where it can be asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from runci import register_cpu_ci
from runci.adopt.pytest_files import choose, read_settings
from runci.core.errors import RunciError

register_cpu_ci(est_time=8, stage="base-a", runner_config="cpu")

PATHS = (
    "test_top.py",
    "tests/test_a.py",
    "tests/a_test.py",
    "tests/check_a.py",
    "tests/helper.py",
    "tests/data/test_b.py",
    "packages/x/tests/test_c.py",
    "build/test_d.py",
    ".hidden/test_e.py",
)
SETTINGS = (
    {},
    {"pyproject.toml": "[tool.pytest.ini_options]\ntestpaths = ['tests']\n"},
    {"pyproject.toml": "[tool.pytest.ini_options]\npython_files = ['check_*.py', '*_test.py']\n"},
    {"pytest.ini": "[pytest]\ntestpaths = packages/*/tests tests\n"},
    {"pytest.ini": "[pytest]\nnorecursedirs = data build\n"},
    {"tox.ini": "[pytest]\npython_files = tests/check_*.py\n"},
    {"setup.cfg": "[tool:pytest]\ntestpaths =\n    tests\n    build\n"},
    # The first decides, alone: an empty pytest.ini too.
    {"pytest.ini": "", "setup.cfg": "[tool:pytest]\ntestpaths = tests\n"},
    {
        "tox.ini": "[pytest]\ntestpaths = tests\n",
        "setup.cfg": "[tool:pytest]\ntestpaths = packages\n",
    },
    {"tox.ini": "[tox]\n", "setup.cfg": "[tool:pytest]\ntestpaths = tests\n"},
    {"pyproject.toml": "[tool.pytest.ini_options]\ntestpaths = 'tests'\n"},
    {"setup.cfg": "[tool:pytest]\ntestpaths = nowhere\n"},
)


@pytest.mark.parametrize("files", SETTINGS, ids=range(len(SETTINGS)))
def test_as_pytest_collects(files: dict[str, str], tmp_path: Path) -> None:
    for path in PATHS:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("def test_x(): ...\n")
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    command = ["-m", "pytest", "--collect-only", "-qq", "--import-mode=importlib"]
    done = subprocess.run(
        [sys.executable, *command, "--rootdir=."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    listed = {line.split(":")[0] for line in done.stdout.splitlines() if ".py: " in line}
    settings = read_settings({name: text.encode() for name, text in files.items()})
    assert listed, done.stdout + done.stderr
    assert set(choose(PATHS, settings).tests) == listed


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", "[tool.pytest"),
        ("pyproject.toml", "\xff"),
        ("setup.cfg", "no section\n"),
        ("tox.ini", "[pytest\n"),
        ("pytest.ini", "[pytest]\n  = x\n"),
    ],
)
def test_settings_that_cannot_be_read(name: str, text: str) -> None:
    with pytest.raises(RunciError, match=name) as raised:
        read_settings({name: text.encode("latin-1")})
    assert raised.value.code == 2


def test_marks() -> None:
    text = "[pytest]\nmarkers =\n    gpu: needs one\n    gpus(n): several\n    slow\n"
    assert read_settings({"pytest.ini": text.encode()}).markers == ("gpu", "gpus", "slow")
