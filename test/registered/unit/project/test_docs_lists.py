"""The pages on markers and lists, executed: their files make a repository that does as they say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "support"))  # for `python FILE`

from places import FIXTURES, ROOT
from trees import files_by_suite, runci_process, track

from runci import register_cpu_ci

register_cpu_ci(est_time=4, stage="base-a", runner_config="cpu")

MARKERS = (ROOT / "docs" / "markers.md").read_text(encoding="utf-8")
LISTS = (ROOT / "docs" / "lists.md").read_text(encoding="utf-8")
A_TEST = "def test_x():\n    assert 2 * 3 == 6\n"
SECTIONS = MARKERS.split("\n## ")[1:]


def files(text: str) -> dict[str, str]:
    """The files that a page shows: blocks whose first line is their path."""
    blocks = re.findall(r"```\w+\n(# (\S+)\n.*?)```", text, re.DOTALL)
    return {path: block for block, path in blocks}


def repository(root: Path, given: dict[str, str]) -> Path:
    for path, text in given.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(textwrap.dedent(text), encoding="utf-8")
    return track(root)


def planned(root: Path) -> dict[str, set[str]]:
    done = runci_process("plan", "--all", "--format", "json", cwd=root)
    assert done.returncode == 0, done.stderr
    return {name: set(paths) for name, paths in files_by_suite(done.stdout).items()}


# Python as it is where runci is not installed.
WITHOUT = "import sys; sys.modules['runci'] = None; import pytest; sys.exit(pytest.main(['-q']))"


@pytest.mark.parametrize(
    ("section", "more", "suites"),
    [
        (
            SECTIONS[0],
            {"tests/test_a.py": A_TEST, "tests/kernels/test_b.py": A_TEST},
            {"cpu": {"tests/test_a.py"}, "cuda": {"tests/kernels/test_b.py"}},
        ),
        (
            SECTIONS[1],
            {"pytest.ini": "[pytest]\nmarkers = gpu\n"},
            {"cpu": {"tests/test_both.py"}, "cuda": {"tests/test_both.py"}},
        ),
        (SECTIONS[2], {}, {"cpu": {"tests/test_gemm.py"}, "cuda": {"tests/test_gemm.py"}}),
    ],
    ids=["files", "marks", "calls"],
)
def test_each_way_to_register_needs_no_runci_where_tests_run(
    section: str, more: dict[str, str], suites: dict[str, set[str]], tmp_path: Path
) -> None:
    root = repository(tmp_path, {**files(section), **more})
    checked = runci_process("lint", cwd=root)
    assert checked.returncode == 0, checked.stdout
    assert planned(root) == suites
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT], cwd=root, env=alone, capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stdout.decode()


def test_a_call_from_elsewhere_is_a_finding(tmp_path: Path) -> None:
    """`marker_modules` decides: without it the stand-in registers nothing."""
    given = files(SECTIONS[2])
    given["runci.yml"] = given["runci.yml"].replace("marker_modules: [ci_register]\n", "")
    found = runci_process("lint", "--format", "concise", cwd=repository(tmp_path, given))
    (rule,) = re.findall(r"from anywhere else is a finding: `runci rule (RT\d+)`", MARKERS)
    assert (found.returncode, found.stdout.count(f" {rule} ")) == (1, 2), found.stdout


def test_lists_become_what_the_page_says(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "adopt" / "lists" / "tests", tmp_path / "tests")
    shutil.copy(FIXTURES / "adopt" / "lists" / "pytest.ini", tmp_path)
    root = repository(tmp_path, files(LISTS))
    done = runci_process("init", cwd=root)
    assert done.returncode == 0, done.stderr
    made = (root / "runci.yml").read_text(encoding="utf-8")
    (shown,) = re.findall(r"becomes\n\n```yaml\n(.*?)```", LISTS, re.DOTALL)
    assert shown in made
    for name in re.findall(r"becomes the suite `([\w-]+)`", LISTS):
        assert f"- name: {name}  # from " in made
    assert "Not as in the lists" not in done.stdout


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
