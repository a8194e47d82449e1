"""Runs test files as `python FILE` or `python -m pytest FILE` would, each in a process of its own.

The processes are forks of one that has imported pytest: importing it again took nearly all of the
time of a file. `python -m real_runner` reads a folder and the words after `python`, one JSON list a
line, and answers with the exit status.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

Run = Callable[..., int]
FAULT = 70  # of this file


@contextlib.contextmanager
def real_runner() -> Iterator[Run]:
    """A function that takes a folder and the words after `python`, and gives the exit status."""
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    with subprocess.Popen(
        [sys.executable, "-m", "real_runner"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        asked, answers = server.stdin, server.stdout

        def run(folder: Path, *words: str) -> int:
            asked.write(json.dumps([str(folder), *words]) + "\n")
            asked.flush()
            status = int(answers.readline())
            assert status != FAULT, f"{words} was not started in {folder}"
            return status

        yield run


def serve() -> None:
    """Answer until standard input ends."""
    from _pytest.config import default_plugins

    for name in default_plugins:
        importlib.import_module(f"_pytest.{name}")
    for line in sys.stdin:
        folder, *words = json.loads(line)
        child = os.fork()
        if not child:
            _become(folder, words)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(f"{status}\n")
        sys.stdout.flush()


def _become(folder: str, words: list[str]) -> None:
    """The interpreter that `python WORDS` starts in `folder`, silent; never returns."""
    status = FAULT
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(nowhere, descriptor)
        warnings.simplefilter("ignore")
        os.chdir(folder)
        sys.path[0] = folder
        sys.modules.pop("__main__")
        try:
            if words[0] == "-m":
                sys.argv = words[1:]
                runpy.run_module(words[1], run_name="__main__", alter_sys=True)
            else:
                sys.argv = words
                runpy.run_path(words[0], run_name="__main__")
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:  # noqa: BLE001  as an interpreter ends then
            status = 1
    finally:
        os._exit(status)


if __name__ == "__main__":
    serve()
