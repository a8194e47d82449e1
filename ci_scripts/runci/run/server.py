"""The process that imports the heavy modules once and forks a keeper for every job.

It never touches a GPU: a CUDA context does not survive a fork. `python -m runci.run.server FD
MODULES` is started by `pool`; each request is one byte with four descriptors (control, events,
output, and where stacks are written when asked for).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import select
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from runci.run import keeper, processes, worker

FRESH = "-"  # in place of modules: import nothing, jobs get interpreters of their own


def main(arguments: Sequence[str]) -> int:
    """Serve until the parent closes its end."""
    parent = socket.socket(fileno=int(arguments[0]))
    parent.set_inheritable(False)
    notes = [] if arguments[1] == FRESH else warm_up(arguments[1].split(","))
    gc.collect()
    processes.outlive_requests()
    gc.freeze()  # so that the children's collector leaves the shared pages alone
    with contextlib.suppress(OSError):
        parent.sendall(json.dumps({"notes": notes}).encode() + b"\n")
    while True:
        select.select([parent], [], [], 1.0)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not select.select([parent], [], [], 0)[0]:
            continue
        request, descriptors, _, _ = socket.recv_fds(parent, 1, 4)
        if not request:
            return 0
        if os.fork() == 0:
            parent.close()
            _keep(descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def warm_up(names: Sequence[str]) -> list[str]:
    """Import modules, then pytest with its plugins; gives what could not be, as notes."""
    notes = []
    for name in filter(None, names):
        problem = _import(name)
        if problem is not None:
            notes.append(f"{name} could not be imported in advance: {problem}")
    worker.warm_up()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        notes.append("importing in advance initialised CUDA: use --isolate spawn")
    return notes


def _import(name: str) -> str | None:
    try:
        importlib.import_module(name)
    except Exception as error:  # noqa: BLE001  a broken package is the tests' business
        return str(error)
    return None


def _keep(descriptors: Sequence[int]) -> None:
    control, events, output, answers = descriptors
    os.set_inheritable(answers, False)  # where another program is started, nobody would write

    def job(spec: Mapping[str, Any]) -> int:
        _redirect(output)
        os.environ.update(spec["env"])
        tempfile.tempdir = None  # the server has looked where it is; the job has its own
        os.chdir(spec["root"])
        if spec["fresh"]:
            for descriptor in (events, answers):
                os.set_inheritable(descriptor, True)
            own = {"events": events, "answers": answers, "holder": os.getpid()}
            line = json.dumps({**spec, **own})
            command = [*spec["tool"], sys.executable, "-m", "runci.run.worker", line]
            os.execv(command[0], command)  # noqa: S606
        return worker.work(spec, events, answers)

    code = 0
    try:
        keeper.keep(socket.socket(fileno=control), job, (events, output, answers))
    except SystemExit:  # the job itself
        raise
    except BaseException:  # noqa: BLE001  never back into the server's loop
        import traceback

        traceback.print_exc()
        code = 70
    os._exit(code)


def _redirect(output: int) -> None:
    """Standard output and error into the job's pipe, standard input from nowhere."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(null)
    os.close(output)
    # Anew, since the old ones remember what they wrote to. By lines: the last words of a child that
    # is killed count.
    sys.stdout = sys.__stdout__ = _text(1, "strict")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _text(2, "backslashreplace")  # type: ignore[misc]


def _text(descriptor: int, errors: str) -> io.TextIOWrapper[io.BufferedWriter]:
    stream = open(descriptor, "wb", closefd=False)  # noqa: SIM115  for the whole process
    return io.TextIOWrapper(stream, sys.stdout.encoding, errors, line_buffering=True)


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))  # tearing down the heavy modules takes longer than all else
