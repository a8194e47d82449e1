"""Which changes are of what decides what must run, and that none of them plans by its own word."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from planning import commit, git
from trees import runci

from runci import register_cpu_ci
from runci.plan.changes import Changes
from runci.plan.configuration import own_configuration

register_cpu_ci(est_time=4, stage="base-a", runner_config="cpu")

NAMED = b'[tool.runci]\nconfig = "ci/runci.yml"\n'
OTHER = b"[tool.x]\na = 1\n"


@pytest.mark.parametrize(
    ("paths", "before", "after", "found"),
    [
        ((), None, None, ()),
        (("a.py", "ci/suites.txt", "runci.yml.txt"), None, None, ()),
        (("runci.yml",), None, None, ("runci.yml",)),
        (("a/suites.yml", "b/runci.yml"), None, None, ("a/suites.yml", "b/runci.yml")),
        (("runci-baseline.json",), None, None, ("runci-baseline.json",)),
        (("a/runci-baseline.json",), None, None, ()),
        # Of which a disk that ignores case makes another file's place.
        (("Runci.yml",), None, None, ("Runci.yml",)),
        (("a/\u017fUITES.yml",), None, None, ("a/\u017fUITES.yml",)),
        (("Runci-Baseline.json",), None, None, ("Runci-Baseline.json",)),
        (("PyProject.toml", "a/PYPROJECT.toml"), OTHER, OTHER, ("PyProject.toml",)),
        (("pyproject.toml",), NAMED, NAMED + OTHER, ()),
        (("pyproject.toml",), OTHER, None, ()),
        (("pyproject.toml",), OTHER, NAMED, ("[tool.runci] in pyproject.toml",)),
        (("pyproject.toml",), NAMED, None, ("[tool.runci] in pyproject.toml",)),
        (("pyproject.toml",), NAMED, b"[tool.runci\n", ("[tool.runci] in pyproject.toml",)),
        (("pyproject.toml",), b"tool.runci = 1\n", NAMED, ("[tool.runci] in pyproject.toml",)),
    ],
)
def test_what_decides(
    paths: tuple[str, ...], before: bytes | None, after: bytes | None, found: tuple[str, ...]
) -> None:
    assert own_configuration(Changes(paths), before, after) == found


@pytest.mark.parametrize(
    ("paths", "read", "found"),
    [
        (("a.py",), {"runci.yml": False, "pyproject.toml": False}, ()),
        (("a.py",), {"runci.yml": True}, ("runci.yml, which is a link",)),
        ((), {"pyproject.toml": True}, ("pyproject.toml, which is a link",)),
        (("ci/a.yml", "b.json"), {"ci/a.yml": False, "b.json": False}, ("b.json", "ci/a.yml")),
        (("pyproject.toml",), {"pyproject.toml": False}, ()),
    ],
)
def test_what_is_read_elsewhere(
    paths: tuple[str, ...], read: dict[str, bool], found: tuple[str, ...]
) -> None:
    assert own_configuration(Changes(paths), OTHER, OTHER, read) == found


def test_what_is_not_known_may_be_of_it() -> None:
    assert own_configuration(Changes(unknown="a shallow clone"), None, None) == ("a shallow clone",)


TAXONOMY = """\
version: 1
roots: [tests]
runners: {cpu: {label: ubuntu-latest, execution: pytest}}
suites: {cpu: [{name: cpu, runner: cpu, kind: per-commit, tests: ["**"]}]}
"""


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"runci.yml": TAXONOMY.replace("per-commit", "stress")}, 1),
        ({"pyproject.toml": NAMED.decode(), "ci/runci.yml": TAXONOMY}, 1),
        ({"runci-baseline.json": "{}"}, 1),
        ({"pyproject.toml": OTHER.decode()}, 0),
        ({"tests/test_a.py": "def test_a(): pass\n"}, 0),
    ],
)
@pytest.mark.parametrize("answer", ["", "false", "True"])
def test_only_the_gates_yes_counts(
    changed: dict[str, str], status: int, answer: str, tmp_path: Path
) -> None:
    git(tmp_path, "init", "-q")
    first = {
        "runci.yml": TAXONOMY,
        "tests/test_a.py": "def test_a(): ...\n",
    }
    for at, files in enumerate((first, changed)):
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text(text)
        commit(tmp_path, str(at))
    command = ("plan", "--base=HEAD~1", "--allow-empty")
    done = runci(*command, f"--allowed={answer}", cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert ("by its own word" in done.stderr) == bool(status)


@pytest.mark.parametrize(
    ("link", "target", "taxonomy"),
    [
        ("runci.yml", "ci/tests.yml", "ci/tests.yml"),
        ("ci", "other", "other/tests.yml"),
        ("runci-baseline.json", "ci/base.json", "runci.yml"),
        ("", "", "ci/tests.yml"),  # no link, but named by an option
    ],
)
def test_a_link_hides_no_change(link: str, target: str, taxonomy: str, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    accepts = json.dumps({"version": 1, "findings": []})
    files = {taxonomy: TAXONOMY, "tests/test_a.py": "def test_a(): ...\n", "ci/base.json": accepts}
    for path, text in files.items():
        if path.partition("/")[0] != link:
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text(text)
    if link:
        (tmp_path / link).symlink_to(target)
    commit(tmp_path, "0")
    changed = tmp_path / (taxonomy if taxonomy != "runci.yml" else target)
    changed.write_text(changed.read_text().replace("per-commit", "stress") + "\n")
    commit(tmp_path, "1")
    command = ["plan", "--base=HEAD~1", "--allow-empty", "--allowed=false"]
    if link in ("", "ci"):
        command.append("--config=ci/tests.yml")
    done = runci(*command, cwd=tmp_path)
    assert (done.returncode, "by its own word" in done.stderr) == (1, True), done.stderr
    command[command.index("--allowed=false")] = "--allowed=true"
    done = runci(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
