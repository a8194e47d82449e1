"""What `init` says: lines that fit, commands that can be copied, and that do what they say."""

from __future__ import annotations

import pytest

from runci import register_cpu_ci
from runci.adopt.hardware import GPU, Clue
from runci.adopt.machines import machine_of
from runci.adopt.propose import Facts, FileFact, propose
from runci.adopt.pytest_files import Collected, PytestSettings
from runci.adopt.report import Asked, report
from runci.adopt.workflow_text import NO_ACTION

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

ACTION = f"o/runci@{'a' * 40}"


def said(asked: Asked, width: int, *, machine: bool) -> list[str]:
    """Of nine GPU tests with long paths, and whether a workflow names a machine with a GPU."""
    paths = [f"tests/a_folder_of_kernels/another/test_kernel_{number}.py" for number in range(9)]
    read = tuple(FileFact(path, (Clue(GPU, 3, ".cuda()"),), several=True) for path in paths)
    machines = (machine_of(("self-hosted", "h100"), (("w.yml", "a"),)),) if machine else ()
    facts = Facts(PytestSettings(), Collected(tuple(paths)), read, machines)
    return report(facts, propose(facts), (), asked, width).splitlines()


@pytest.mark.parametrize("width", [60, 80, 300])
def test_lines_fit_but_for_commands_and_paths(width: int) -> None:
    for line in said(Asked(ACTION), width, machine=True):
        whole = (line.startswith("  runci ") and width < 80) or len(line.split()) == 1
        assert len(line) <= width or whole, line
        assert line == line.rstrip()


@pytest.mark.parametrize("dry", [True, False])
def test_the_commands_that_say_what_was_not_known(dry: bool) -> None:
    """Nothing is there to remove after a dry run, and what was given is given again."""
    lines = said(Asked(NO_ACTION, dry, ("--gpu-runner", "a b")), 80, machine=True)
    (command,) = [line.strip() for line in lines if "--action" in line]
    init = "runci init --gpu-runner 'a b' --action OWNER/runci@COMMIT"
    assert command == (init if dry else f"rm runci.yml .github/workflows/runci.yml && {init}")
    lines = said(Asked(ACTION, dry), 80, machine=False)
    (command,) = [line.strip() for line in lines if "--gpu-runner" in line]
    assert command.endswith("runci init --gpu-runner self-hosted,LABEL")
    assert command.startswith("rm ") is not dry


def test_what_follows_a_dry_run_is_the_same_without_it() -> None:
    lines = said(Asked(ACTION, True, ("--action", ACTION)), 80, machine=True)
    assert lines[-2:] == ["Next:", f"  runci init --action {ACTION}"]
