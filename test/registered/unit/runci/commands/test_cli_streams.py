"""The command line as a process among others: interrupts, pipes, closed streams, full disks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from trees import CLEAN, FAULTY, TESTS, make_tree

from runci import register_cpu_ci
from runci.core.errors import Exit

register_cpu_ci(est_time=4, stage="base-a", runner_config="cpu")

FILE = f"{TESTS}/test_x.py"
COMMAND = [sys.executable, "-m", "runci"]

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals, pipes or files")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_tree(tmp_path / "root", {FILE: CLEAN})


def test_a_message_drives_no_terminal(root: Path) -> None:
    command = [*COMMAND, "lint", "--root", "no\x1b[31m\x07folder"]
    done = subprocess.run(command, cwd=root, capture_output=True, check=False)
    assert done.returncode == Exit.USAGE
    assert done.stderr == b"runci: --root no\\x1b[31m\\x07folder: no such folder\n"


@posix
def test_an_interrupt_ends_at_once(root: Path) -> None:
    # Enough work for processes of their own: they must end as well.
    text = CLEAN + "".join(f"\n\ndef helper_{n}(a, b):\n    return a + b\n" for n in range(3000))
    make_tree(root, {f"{TESTS}/test_{n}.py": f"{text}# {n}\n" for n in range(60)})
    arguments = [*COMMAND, "lint", "--no-cache", "--jobs", "2"]
    process = subprocess.Popen(
        arguments, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    time.sleep(0.7)
    started = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == Exit.INTERRUPTED, err
    assert time.monotonic() - started < 5
    assert b"Traceback" not in err
    assert out == b""
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


@posix
def test_a_reader_that_leaves(root: Path) -> None:
    make_tree(root, {f"{TESTS}/test_{n}.py": FAULTY for n in range(300)})
    process = subprocess.Popen(
        [*COMMAND, "lint", "--no-cache"], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(20) == Exit.FINDINGS
    assert process.stderr.read() == b""


@posix
@pytest.mark.parametrize(
    ("redirect", "code"),
    [(">&-", Exit.FINDINGS), ("2>&-", Exit.FINDINGS), (">&- 2>&-", Exit.FINDINGS)],
)
def test_closed_streams(redirect: str, code: Exit, root: Path) -> None:
    (root / FILE).write_text(FAULTY)
    line = f'"{sys.executable}" -m runci lint --no-cache {redirect}'
    done = subprocess.run(["sh", "-c", line], cwd=root, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert done.returncode == code
    done = subprocess.run(
        ["sh", "-c", line.replace("lint --no-cache", "--version")], cwd=root, check=False
    )
    assert done.returncode in (Exit.OK, Exit.FINDINGS)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_said(root: Path) -> None:
    (root / FILE).write_text(FAULTY)
    line = f'"{sys.executable}" -m runci lint --no-cache > /dev/full'
    done = subprocess.run(["sh", "-c", line], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == Exit.USAGE
    assert ": No space left on device\n" in done.stderr
    assert "Traceback" not in done.stderr


@posix
def test_a_current_folder_that_is_gone(root: Path) -> None:
    gone = root / "gone"
    gone.mkdir()
    line = f'rmdir ../gone; "{sys.executable}" -m runci lint --no-cache'
    done = subprocess.run(["sh", "-c", line], cwd=gone, capture_output=True, text=True, check=False)
    assert done.returncode == Exit.USAGE
    assert "Traceback" not in done.stderr


def test_a_fault_of_ours_says_how_to_report_it(root: Path) -> None:
    code = (
        "import sys, runci.cli, runci.checks.rt; runci.checks.rt.load_tree = None; "
        "sys.exit(runci.cli.main(['lint']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == Exit.FAULT
    assert "Traceback" in done.stderr
    assert "Please report it" in done.stderr


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
