"""What the published action makes of its inputs, and what it installs."""

from __future__ import annotations

import importlib.util
import json
import os
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
from runci.workflows.model import text_of_node, value_of
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
    ("given", "ref", "says"),
    [
        ({"command": "check", **REF}, "refs/heads/main", None),
        ({"command": "gate"}, "refs/pull/7/merge", None),
        ({"command": "plan", **REF}, "refs/pull/7/merge", None),
        ({"command": "plan", "ref": OTHER}, "refs/heads/main", None),
        (RUN, "refs/heads/main", None),
        (FINISH, "refs/pull/7/merge", None),
        ({**FINISH, "ref": OTHER, "allowed": "true"}, "refs/heads/main", None),
        ({}, "refs/heads/main", "command: ''"),
        ({"command": "gates"}, "refs/heads/main", "check, gate, plan, run, finish"),
        ({"command": "GATE"}, "refs/heads/main", "command: 'GATE'"),
        *(
            ({"command": c, "ref": ""}, "refs/heads/main", "ref: ")
            for c in ("check", "plan", "finish")
        ),
        ({"command": "plan", "ref": " "}, "refs/heads/main", "ref: is empty"),
        ({**RUN, "shard": " \n"}, "refs/heads/main", "shard: "),
        ({**RUN, "suite": ""}, "refs/heads/main", "suite: "),
        ({**RUN, "shard": ""}, "refs/heads/main", "shard: "),
        ({**FINISH, "needs": ""}, "refs/heads/main", "needs: "),
        # The first parent of another commit is not the base.
        ({"command": "plan", "ref": OTHER}, "refs/pull/7/merge", "ref: "),
        ({**FINISH, "ref": OTHER, "allowed": "true"}, "refs/pull/7/merge", "ref: "),
        ({**FINISH, "ref": OTHER}, "refs/heads/main", "ref: "),
        ({**FINISH, "ref": OTHER, "allowed": "false"}, "refs/heads/main", "ref: "),
    ],
)
def test_inputs(given: dict[str, str], ref: str, says: str | None) -> None:
    found = SETUP.problem(given, ref, SHA)
    assert found == says or (says is not None and found is not None and says in found)


def test_pip_is_steered_by_nothing_but_where_files_come_from() -> None:
    places = ("INDEX_URL", "FIND_LINKS", "TRUSTED_HOST", "CLIENT_CERT")
    stays = {**dict.fromkeys((f"PIP_{name}" for name in places), "i"), "HOME": "/h", "PATH": "/b"}
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


def test_a_module_beside_the_environment_is_not_run(tmp_path: Path) -> None:
    """What stands in RUNNER_TEMP when a gate is asked is no part of it."""
    (tmp_path / "json.py").write_text("raise SystemExit('of the job')\n")
    environ = {"RUNNER_TEMP": str(tmp_path), "ACTION_PATH": str(ROOT), "GITHUB_SHA": SHA}
    given = json.dumps({"command": "gate"})
    output = {"GITHUB_OUTPUT": str(tmp_path / "output"), "GITHUB_REF": "", "INPUTS": given}
    done = subprocess.run(
        (sys.executable, "-I", ROOT / "ci_scripts/action/setup.py"),
        # Without an index: it ends where something is to be installed.
        env={"PATH": os.environ["PATH"], "PIP_INDEX_URL": "file:///none", **environ, **output},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "of the job" not in done.stderr
    assert list(tmp_path.glob("runci-github/missing.txt")), done.stderr


def test_a_file_with_the_name_of_an_option_chooses_no_suite(tmp_path: Path) -> None:
    said = tmp_path / "python"
    said.write_text('#!/bin/sh\necho "$@"\n')
    said.chmod(0o755)
    (tmp_path / "--suite=gpu-a").touch()
    step = next(step for step in steps() if text_of_node(step.get("id")) == "plan")
    script = text_of_node(step.get("run"))
    only = {"ONLY": "--suite=gpu-* --kind=nightly", "WHAT": "--all", "ALLOWED": "true"}
    output = {"GITHUB_OUTPUT": str(tmp_path / "output"), "INTO": str(tmp_path), "SUMMARY": ""}
    subprocess.run(
        ("bash", "-eo", "pipefail", "-c", script),
        env={"PATH": os.environ["PATH"], "PYTHON": str(said), **only, **output},
        cwd=tmp_path,
        check=True,
    )
    assert " --suite=gpu-* --kind=nightly " in (tmp_path / "output").read_text()


@pytest.mark.parametrize(
    ("ref", "what"),
    [
        ("refs/pull/7/merge", "--base=HEAD^1"),
        ("refs/heads/main", "--all"),
        ("refs/heads/gh-readonly-queue/main/pr-7-a", "--all"),
        ("refs/tags/refs/pull/7", "--all"),
    ],
)
def test_what_is_planned(ref: str, what: str) -> None:
    """By its ref: the commit of a pull request is also what a review of it runs."""
    step = next(step for step in steps() if text_of_node(step.get("id")) == "plan")
    assert value_of(step.mapping["env"].mapping["WHAT"], {"github": {"ref": ref}}) == what


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
