"""What the published action makes of its inputs, and what it installs."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

sys.path.insert(0, str(Path(__file__).parents[3] / "support"))  # for `python FILE`

from places import ROOT

from runci import register_cpu_ci
from runci.read.yamlpos import Node, load
from runci.workflows.published import COMMANDS

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


def _setup() -> Any:
    spec = importlib.util.spec_from_file_location("setup", ROOT / "ci_scripts/action/setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SETUP = _setup()
ACTION = load((ROOT / "action.yml").read_bytes(), "action.yml")
OURS = "".join(path.read_text("utf-8") for path in (ROOT / ".github").rglob("*.yml"))
SHA, OTHER = "a" * 40, "b" * 40
REF = {"ref": SHA}
RUN = {"command": "run", "suite": "cpu", "shard": "cpu-1of1"}
FINISH = {"command": "finish", "needs": "{}", **REF}


def steps() -> tuple[Node, ...]:
    found = ACTION.get("runs", "steps")
    assert found is not None
    return found.items


@pytest.mark.parametrize(
    ("given", "event", "says"),
    [
        ({"command": "check", **REF}, "push", None),
        ({"command": "gate"}, "pull_request", None),
        ({"command": "plan", **REF}, "pull_request", None),
        ({"command": "plan", "ref": OTHER}, "workflow_dispatch", None),
        (RUN, "push", None),
        (FINISH, "pull_request", None),
        ({**FINISH, "ref": OTHER, "allowed": "true"}, "workflow_dispatch", None),
        ({}, "push", "command: ''"),
        ({"command": "gates"}, "push", "check, gate, plan, run, finish"),
        ({"command": "GATE"}, "push", "command: 'GATE'"),
        *(({"command": c, "ref": ""}, "push", "ref: ") for c in ("check", "plan", "finish")),
        ({**RUN, "suite": ""}, "push", "suite: "),
        ({**RUN, "shard": ""}, "push", "shard: "),
        ({**FINISH, "needs": ""}, "push", "needs: "),
        # The first parent of another commit is not the base.
        ({"command": "plan", "ref": OTHER}, "pull_request", "ref: "),
        ({**FINISH, "ref": OTHER, "allowed": "true"}, "pull_request", "ref: "),
        ({**FINISH, "ref": OTHER}, "workflow_dispatch", "ref: "),
        ({**FINISH, "ref": OTHER, "allowed": "false"}, "workflow_dispatch", "ref: "),
    ],
)
def test_inputs(given: dict[str, str], event: str, says: str | None) -> None:
    found = SETUP.problem(given, event, SHA)
    assert found == says or (says is not None and found is not None and says in found)


def test_pip_is_steered_by_nothing_but_where_files_come_from() -> None:
    stays = {"PIP_INDEX_URL": "i", "PIP_FIND_LINKS": "f", "HOME": "/h", "PATH": "/bin"}
    pip = ("CONFIG_FILE", "TARGET", "NO_DEPS", "REQUIREMENT")
    others = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "XDG_CONFIG_HOME", "VIRTUAL_ENV")
    goes = dict.fromkeys((*(f"PIP_{name}" for name in pip), *others), "x")
    assert SETUP.for_pip({**stays, **goes}) == stays


LOCK = """\
# head
--only-binary :all:
pytest==9.2.0 \\
    --hash=sha256:01 \\
    --hash=sha256:02
PyYAML==6.0.4 ; python_version > '3' \\
    --hash=sha256:03
pluggy==1.7.0 \\
    --hash=sha256:04
setuptools==84.0 \\
    --hash=sha256:05
"""


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        ({}, ["pytest", "PyYAML", "pluggy"]),
        ({"pytest": "8.0", "pluggy": "1.5", "pyyaml": "6.0"}, []),
        ({"pytest": "7.4", "pluggy": "1.5", "pyyaml": "6.0"}, ["pytest"]),
        ({"pytest": "9.3.0rc1", "pyyaml": "5.4"}, ["PyYAML", "pluggy"]),
        ({"setuptools": "40"}, ["pytest", "PyYAML", "pluggy"]),
    ],
)
def test_what_the_tests_python_has_is_not_replaced(
    there: dict[str, str], wanted: list[str]
) -> None:
    asked = [Requirement("pytest>=8"), Requirement("PyYAML>=6.0")]
    found = SETUP.missing(LOCK, asked, ["setuptools"], there)
    assert found.startswith("# head\n--only-binary :all:\n")
    assert [line.partition("==")[0] for line in found.splitlines() if "==" in line] == wanted
    hashes = {"pytest": ("01", "02"), "PyYAML": ("03",), "pluggy": ("04",)}
    assert found.count("--hash=") == sum(len(hashes[name]) for name in wanted)


def test_the_action_and_what_reads_its_steps_know_the_same_commands() -> None:
    assert set(SETUP.COMMANDS) == set(COMMANDS)
    inputs = ACTION.get("inputs")
    assert inputs is not None
    for lines in COMMANDS.values():
        for word in " ".join(lines).split():
            assert not word.startswith("{") or word.strip("{}") in inputs.mapping
    for command, lines in COMMANDS.items():
        runs = [str(s.plain()) for s in steps() if f"'{command}'" in str(s.plain())]
        for line in lines:
            assert any(f"-m {' '.join(line.split()[:2])}" in step for step in runs), line


@pytest.mark.parametrize("fake", ["exit 1", None], ids=["too old", "none"])
def test_a_machine_without_a_python_is_told(fake: str | None, tmp_path: Path) -> None:
    if fake is not None:
        (tmp_path / "python3").write_text(f"#!/bin/sh\n{fake}\n")
        (tmp_path / "python3").chmod(0o755)
    bash = shutil.which("bash")
    assert bash is not None
    script = steps()[0].plain()["run"]  # type: ignore[index]
    command = (bash, "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
    environ = {"PATH": str(tmp_path), "COMMAND": "gate", "ACTION_PATH": str(ROOT)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, "actions/setup-python" in done.stdout) == (2, True), done.stderr


def test_nothing_of_the_callers_checkout_is_used() -> None:
    for step in steps():
        uses, script = step.get("uses"), step.get("run")
        if uses is not None:
            assert "@" in str(uses.value)
            assert not str(uses.value).startswith((".", "$"))
            assert str(uses.value) in OURS  # the same commit, too
        elif script is not None and step.get("id") is None:
            assert '"$PYTHON" -I -m runci' in str(script.value)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
