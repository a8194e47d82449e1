"""What a suite adds to its run: environment, options of pytest, a set-up that runs once."""

from __future__ import annotations

import re
import signal
import sys
import time
from pathlib import Path

import pytest
from run_trees import FOLDER, SUITE, TAXONOMY, make, registered, run, runci, start

from runci import register_cpu_ci

register_cpu_ci(est_time=15, stage="base-a", runner_config="cpu")

STAGE = "{stage: base-a, "
SEES = """
def test_sees(request):
    assert os.environ["SEEN"] == "yes it is"
    assert request.config.getoption("maxfail") == 7
    assert os.path.exists("built")
def test_other(): pass
"""
INVOKED = (
    "env: {SEEN: yes it is}, pytest_args: [--maxfail=7], "
    'setup: [sh, -c, "echo built $SEEN; echo x >> built"], '
)


def tree(root: Path, added: str, *bodies: str) -> Path:
    """A repository whose suite has these settings."""
    files = {f"test_{n}.py": registered(body) for n, body in enumerate(bodies)}
    make(root, files)
    text = TAXONOMY.replace(STAGE, STAGE + added, 1)
    assert text != TAXONOMY or not added
    (root / "test/suites.yml").write_text(text, encoding="utf-8")
    return root


def log_of(root: Path) -> str:
    (log,) = (root / ".runci/results/logs").glob("setup.*.log")
    return log.read_text()


@pytest.mark.parametrize("isolate", ["fork", "spawn"])
def test_files_get_it_and_the_set_up_runs_once(tmp_path: Path, isolate: str) -> None:
    root = tree(tmp_path, INVOKED, SEES, SEES)
    ran = run(root, "--suite", SUITE, "--isolate", isolate)
    assert ran.status == 0, ran.output + ran.error
    assert (root / "built").read_text() == "x\n"
    assert log_of(root) == "built yes it is\n"
    assert "pytest: --maxfail=7\n" in ran.output


def test_what_the_plan_says_holds_and_not_what_the_file_says_since(tmp_path: Path) -> None:
    root = tree(tmp_path, INVOKED, SEES)
    planned = runci(root, "plan", "--all", "--output", "plan.json")
    assert planned.returncode == 0, planned.stderr
    tree(root, "", SEES)
    ran = run(root, "--plan", "plan.json")
    assert ran.status == 0, ran.output + ran.error
    assert run(root, "--suite", SUITE).status == 1  # which shows that the file says another thing


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        ('[sh, -c, "echo it broke; exit 3"]', "ended with exit status 3"),
        ('[sh, -c, "kill -9 $$"]', "ended with SIGKILL"),
        ("[no-such-program]", "cannot be started"),
    ],
)
def test_a_set_up_that_fails_is_the_machines(tmp_path: Path, setup: str, said: str) -> None:
    root = tree(tmp_path, f"setup: {setup}, ", "def test_passes(): pass\n")
    assert runci(root, "plan", "--all", "--output", "plan.json").returncode == 0
    ran = run(root, "--plan", "plan.json")
    assert ran.status == 2, ran.output
    assert said in ran.error
    assert not ran.results()
    ((unfit,),) = [one.unfit for one in ran.unfit()]
    assert said in unfit
    if "broke" in setup:
        assert log_of(root) == "it broke\n"
    verified = runci(root, "verify", "plan.json", ".runci/results")
    assert verified.returncode == 1
    assert "no test is to blame" in verified.stdout


def test_a_set_up_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    root = tree(tmp_path, 'setup: [sh, -c, "sleep 60 & echo $!; wait"], ', "def test_a(): pass\n")
    ran = run(root, "--suite", SUITE, "--suite-timeout", "1s")
    assert (ran.status, "took longer than 1 s" in ran.error) == (2, True), ran.error
    assert is_gone(int(log_of(root)))


def test_what_a_set_up_leaves_running_is_ended(tmp_path: Path) -> None:
    root = tree(tmp_path, 'setup: [sh, -c, "sleep 60 & echo $!"], ', "def test_a(): pass\n")
    assert run(root, "--suite", SUITE).status == 0
    assert is_gone(int(log_of(root)))


def test_an_interrupt_ends_the_set_up(tmp_path: Path) -> None:
    root = tree(tmp_path, 'setup: [sh, -c, "echo $$; sleep 60"], ', "def test_a(): pass\n")
    with start(root, "--suite", SUITE) as process:
        logs = root / ".runci/results/logs"
        until = time.monotonic() + 30
        while not any(log.read_text() for log in logs.glob("setup.*")):
            assert time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)
    assert process.returncode == 130, error
    assert is_gone(int(log_of(root)))


def is_gone(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    until = time.monotonic() + 5
    while time.monotonic() < until:
        try:
            if re.search(r"\) Z ", state.read_text()):
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_scripts_do_not_take_options_of_pytest(tmp_path: Path) -> None:
    ran = run(tree(tmp_path, INVOKED, SEES), "--suite", SUITE, "--as-script")
    assert (ran.status, ran.results()) == (2, {})
    assert "pytest_args" in ran.error


def test_what_is_left_out_by_options_counts_as_deselected(tmp_path: Path) -> None:
    body = "def test_a(): pass\ndef test_b(): pass\n"
    root = tree(tmp_path, f"pytest_args: [--deselect={FOLDER}/test_0.py::test_b], ", body)
    ran = run(root, "--suite", SUITE)
    assert (ran.status, ran.result("test_0.py").deselected) == (0, 1), ran.output
    for nothing in ("--collect-only", "--setup-only", "-k=none", "--version"):
        tree(root, f"pytest_args: [{nothing}], ", body)
        assert run(root, "--suite", SUITE).status == 1, nothing


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
