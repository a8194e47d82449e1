"""Runs a command of `sm120_ba validate` in this process, or in two ranks that meet over gloo."""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from sm120_ba.validate import commands


def validate(*words: str) -> tuple[int, dict[str, Any], str]:
    """Exit status, report (empty where there is none) and what was printed."""
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.json")
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            try:
                status = commands.main([*words, "--report", str(path)])
            except SystemExit as error:
                status = int(error.code or 0)
        report = json.loads(path.read_text()) if path.exists() else {}
    return status, report, printed.getvalue()


def two_ranks(*arguments: str, **environ: str) -> list[subprocess.CompletedProcess[str]]:
    """Python with these arguments as ranks 0 and 1, at the same time."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    common |= {"PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1", **environ}
    started = [
        subprocess.Popen(
            [sys.executable, *arguments],
            env={**os.environ, **common, "RANK": rank, "LOCAL_RANK": rank},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in "01"
    ]
    done = []
    for one in started:
        out, error = one.communicate(timeout=120)
        done.append(subprocess.CompletedProcess(one.args, one.returncode, out, error))
    return done
