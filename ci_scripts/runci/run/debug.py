"""One file at pytest's debugger, for a person: in the foreground, with the terminal, no time limit.

The parent leases and waits (`debug`); `python -m runci.run.debug SPEC` is the child.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runci.core.selected import Selected
from runci.run.events import Sink
from runci.run.model import RunFile, Selection
from runci.run.worker import run_pytest


def not_debuggable(selection: Selection, *, script: bool, terminal: bool) -> str | None:
    """Why a debugger can not run these files; pure."""
    if len(selection.files) != 1 or selection.broken:
        count = len(selection.files) + len(selection.broken)
        return f"--pdb is for one file, and here are {count}: name one, or a test of it"
    (file,) = selection.files
    if script or file.benchmark:
        return f"--pdb is pytest's, and no script's: `python -m pdb {file.path}`"
    return None if terminal else "--pdb needs a terminal as standard input and output"


def debug(
    file: RunFile, root: Path, environment: Mapping[str, str], options: Sequence[str] = ()
) -> int:
    """Run a file at the debugger, and give its exit status, as a shell counts it.

    Ctrl-C is the debugger's: the caller must have a handler of its own for it.
    """
    spec = {
        "file": file.path,
        "root": str(root.absolute()),
        "only": list(file.only),
        "selected": file.selected.as_dict,
        "options": list(options),
    }
    command = [sys.executable, "-m", "runci.run.debug", json.dumps(spec)]
    with subprocess.Popen(  # noqa: S603  our own interpreter
        command, cwd=root, env={**os.environ, **environment}
    ) as process:
        before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        try:
            status = process.wait()
        finally:
            signal.signal(signal.SIGTERM, before)
    return status if status >= 0 else 128 - status


class _Shown(Sink):
    """Nobody reads events: what was asked for and is not there is told the person."""

    def send(self, event: Mapping[str, Any]) -> None:
        if event["event"] == "absent":
            sys.stderr.write(f"runci: {event['message']}\n")


def main(arguments: Sequence[str]) -> int:
    """The child."""
    spec = json.loads(arguments[0])
    only = {spec["file"]: spec["only"]} if spec["only"] else {}
    selected = Selected.of(spec["selected"])
    files, options = [spec["file"]], spec["options"]
    return run_pytest(
        files, spec["root"], _Shown(2), only, selected, options=options, debugger=True
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
