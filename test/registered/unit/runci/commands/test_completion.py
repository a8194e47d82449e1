"""Completion, by what a shell does with a TAB."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runci import register_cpu_ci
from runci.cli import main
from runci.core.errors import Exit

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == Exit.OK
    return capsys.readouterr().out


class Bash:
    """An interactive bash on a terminal of its own."""

    def __init__(self, folder: Path) -> None:
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.environ.update(PS1="> ", TERM="dumb", INPUTRC="/dev/null", HISTFILE="")
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])

    def type(self, keys: str, until: str) -> str:
        """What stands on the terminal once the text is there, at most 20 s later."""
        os.write(self.terminal, keys.encode())
        seen, end = "", time.monotonic() + 20
        while not re.search(until, seen) and time.monotonic() < end:
            if select.select([self.terminal], [], [], 0.1)[0]:
                seen += os.read(self.terminal, 4096).decode(errors="replace").replace("\a", "")
        return seen

    def end(self) -> None:
        os.close(self.terminal)
        os.waitpid(self.pid, 0)


# What is typed before the TAB, and what the line is then.
COMPLETED = {
    "runci pl": "runci plan ",
    "runci plan --ch": "runci plan --changed",  # and --changed-count
    "runci plan --cache": "runci plan --cache-dir ",
    "runci perf mea": "runci perf measure ",
    "runci perf measure --rep": "runci perf measure --repetitions ",
    "runci lint --format js": "runci lint --format json ",
    "runci estimates up": "runci estimates update ",
    "runci run --plan pla": "runci run --plan plan.json ",
}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "complete.bash").write_text(script("bash", capsys))
    (tmp_path / "plan.json").touch()
    bash = Bash(tmp_path)
    try:
        bash.type("source complete.bash; echo re''ady\n", "ready\r\n")
        for typed, line in COMPLETED.items():
            assert line in bash.type(f"{typed}\t", re.escape(line)), typed
            bash.type("\x15\n", "> $")  # clears the line
    finally:
        bash.end()


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_other_shells_take_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = script(shell, capsys)
    assert "pr-states" in text and "changed-count" in text and "repetitions" in text
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=text, encoding="utf-8", check=True)


def test_without_shtab_it_says_how(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == Exit.USAGE
    shown = capsys.readouterr()
    assert shown.out == ""
    assert 'needs the package shtab: pip install ".[completion]"' in shown.err


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
