"""A look at all processes of a job that seems to hang, which ends and changes none of them.

A process is found by its descent from the job's keeper, which adopts orphans, or by the marker of
the job in its environment. What it does is asked in an order in which each step is surer than the
next: the kernel; faulthandler, by a signal that is ignored where nobody handles it; py-spy; py-spy
with native calls.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runci.core.errors import RunciError
from runci.run import processes
from runci.run.processes import ASK, MARKER
from runci.run.stacks import Process, Thread, from_faulthandler, from_pyspy, place, same, show, told

_ANSWER = 0.4  # seconds that one process has to answer the signal
_QUIET = 0.03  # seconds without a new line, after which an answer is over
_POLL = 0.002
_LAST = b" in _run_module_as_main\n"
_PLAIN = 3.0  # seconds for py-spy without native calls, which come after it
_PROC = Path("/proc")
_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
_PYTHON = re.compile(r"python[\d.]*t?(?: \(deleted\))?")


@dataclass(frozen=True, slots=True)
class Target:
    """What to look at: a job by its keeper and its marker; `answers` is the file into which
    faulthandler writes, `root` the repository."""

    keeper: int
    marker: str
    answers: int
    root: str


@dataclass(frozen=True, slots=True)
class Way:
    """How one process may be asked."""

    signal: bool = False
    spy: bool = False
    native: bool = False


def members(parents: Mapping[int, int], marked: Collection[int], keeper: int) -> list[int]:
    """The processes below the keeper, and those with the marker with all below them; pure."""
    inside = {keeper, *marked}
    while more := {pid for pid, of in parents.items() if of in inside} - inside:
        inside |= more
    return sorted(inside - {keeper})


def way(state: str, python: bool, caught: int, blocked: int, holds: bool, spy: bool) -> Way:
    """How to ask a process in this state of the kernel; pure.

    `caught` and `blocked` are its masks of signals, `holds` says that it has the file of the
    answers open. That is lost where another program is started or everything is closed, and with
    it the handler, or what it would write into. One that is stopped, or in the kernel for good,
    neither answers nor lets itself be attached to: py-spy then only reads its memory.
    """
    bit = 1 << (ASK - 1)
    awake = state in ("R", "S")
    return Way(
        signal=awake and holds and bool(caught & bit) and not blocked & bit,
        spy=python and spy,
        native=python and spy and awake,
    )


def runs_python(program: str, maps: bytes) -> bool:
    """Whether a process is Python, by its program and what it has mapped; pure."""
    return bool(_PYTHON.fullmatch(program.rpartition("/")[2])) or b"/libpython" in maps


def to_continue(before: Mapping[int, str], now: Mapping[int, str]) -> list[int]:
    """Processes that stand still since they were looked at, as py-spy may leave one where its own
    time is over; pure. One that stood before stays so."""
    return [pid for pid, state in now.items() if state == "T" and before.get(pid) not in ("T", "t")]


def remedy(said: Iterable[str], scope: str, spy: bool, lacking: bool) -> str:
    """What to do so that the next look sees more; empty: nothing lacks; pure.

    `said` are messages of py-spy, `scope` is the kernel's ptrace_scope, `lacking`: of some Python
    process nothing is known.
    """
    if not spy:
        return "py-spy would show more: pip install py-spy" if lacking else ""
    if not any(re.search(r"permission denied|not permitted", one.lower()) for one in said):
        return ""
    rest = (
        "in a container: --cap-add SYS_PTRACE; else: sudo setcap cap_sys_ptrace=ep $(which py-spy)"
    )
    if scope.strip() not in ("", "0"):
        return (
            f"py-spy may not look (kernel.yama.ptrace_scope is {scope.strip()}): "
            f"sudo sysctl kernel.yama.ptrace_scope=0; {rest}"
        )
    return f"py-spy may not look: {rest}"


def look(target: Target, why: str, budget: float) -> tuple[list[str], str]:
    """Lines that say where every process of a job is, and a remedy where more could be seen.

    It takes `budget` seconds at most, in any thread.
    """
    end = time.monotonic() + budget
    gpus: list[str] = []
    asking = _start(lambda: gpus.extend(gpu_lines()))
    spy = _find_spy()
    found, ways = _facts(target, spy is not None)
    before = {one.pid: one.state for one in found.values()}
    said: list[str] = []
    try:
        _ask_by_signal(target, found, ways, end - budget / 2)
        if spy is not None:
            spied = _Spy(spy, found, said)
            middle = min(time.monotonic() + _PLAIN, end)
            spied.ask([p for p, one in found.items() if ways[p].spy and not one.threads], middle)
            # Of processes at the same place one tells where all of them are.
            first = [group[0].pid for group in same(list(found.values()), place)]
            spied.ask([pid for pid in first if ways[pid].native], end, native=True)
    finally:
        processes.send(to_continue(before, {pid: _state(pid) for pid in found}), signal.SIGCONT)
    asking.join(max(end - time.monotonic(), 0))
    lacking = any(not found[pid].threads for pid in found if _is_python(pid))
    return (
        [why, *show(list(found.values()), target.root), *gpus],
        remedy(said, _text(_SCOPE), spy is not None, lacking),
    )


def gpu_lines() -> list[str]:
    """Of each NVIDIA GPU how busy it is and who uses it; none where none can be asked."""
    from runci.run.gpu import Nvml

    lines = []
    with contextlib.suppress(RunciError):
        driver = Nvml()
        for gpu in driver.gpus():
            usage, busy = driver.usage(gpu.uuid), driver.busy(gpu.uuid)
            who = [
                f"{processes.describe(pid)}: {mb:,.0f} MiB" for pid, mb in usage.processes.items()
            ]
            used = f"{usage.used_mb:,.0f} MiB in use"
            rate = "" if busy is None else f"{busy} % busy, "
            lines.append(
                f"GPU {gpu.index} ({gpu.name}): {rate}{used}; {', '.join(who) or 'by none'}"
            )
    return lines


class _Spy:
    """py-spy, and the processes that it tells more of."""

    def __init__(self, program: str, found: dict[int, Process], said: list[str]) -> None:
        self._program, self._found, self._said = program, found, said

    def ask(self, pids: Sequence[int], end: float, native: bool = False) -> None:
        """Ask for each of these, several at once; what did not come until `end` is as before."""
        waiting = list(reversed(pids))

        def work() -> None:
            while waiting and end - time.monotonic() > 0.1:
                with contextlib.suppress(IndexError):
                    self._one(waiting.pop(), end, native)

        threads = [_start(work) for _ in range(min(len(pids), max(os.cpu_count() or 1, 2)))]
        for thread in threads:
            thread.join(max(end - time.monotonic(), 0) + 0.2)

    def _one(self, pid: int, end: float, native: bool) -> None:
        how = "--native" if native else "--nonblocking"
        try:
            done = subprocess.run(  # noqa: S603  py-spy
                [self._program, "dump", "--json", how, "--pid", str(pid)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=max(end - time.monotonic(), 0.1),
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return
        threads = from_pyspy(done.stdout.decode("utf-8", "backslashreplace"))
        if threads:
            self._found[pid] = replace(self._found[pid], threads=threads)
        else:
            self._said.append(done.stderr.decode("utf-8", "backslashreplace"))


def _ask_by_signal(
    target: Target, found: dict[int, Process], ways: Mapping[int, Way], end: float
) -> None:
    """One after another, since all answer into one file and say no number."""
    for pid in [pid for pid in found if ways[pid].signal]:
        if time.monotonic() > end:
            return
        threads = _answer(target.answers, pid)
        if threads:
            found[pid] = replace(found[pid], threads=threads)


def _answer(file: int, pid: int) -> tuple[Thread, ...]:
    start = size = os.fstat(file).st_size
    processes.send([pid], ASK)
    began = grew = time.monotonic()
    while time.monotonic() - (grew if size > start else began - _QUIET + _ANSWER) < _QUIET:
        time.sleep(_POLL)
        now = os.fstat(file).st_size
        if now > size:
            size, grew = now, time.monotonic()
            # Where all that is ours began: the last line of the last thread.
            if os.pread(file, len(_LAST), size - len(_LAST)) == _LAST:
                break
    return from_faulthandler(os.pread(file, size - start, start).decode("utf-8", "replace"))


def _facts(target: Target, spy: bool) -> tuple[dict[int, Process], dict[int, Way]]:
    """The job's processes by number, the job first, and how each may be asked."""
    import psutil

    parents = {one.pid: one.info["ppid"] for one in psutil.process_iter(["ppid"])}
    marker = f"{MARKER}={target.marker}".encode()
    marked = [pid for pid in parents if marker in _bytes(pid, "environ").split(b"\0")]
    found: dict[int, Process] = {}
    ways: dict[int, Way] = {}
    for pid in members(parents, marked, target.keeper):
        state, status = _state(pid), _status(_text(_PROC / str(pid) / "status"))
        if state == "Z":
            continue
        found[pid] = Process(
            pid,
            processes.describe(pid),
            state,
            int(status.get("Threads", "1")),
            _text(_PROC / str(pid) / "wchan"),
            tuple(re.findall(r"\] ([\w.]+)", _text(_PROC / str(pid) / "stack"))),
            told(_bytes(pid, "environ")),
        )
        # Where the kernel does not say, whether it has our file open must do: it harms nobody.
        caught, blocked = (
            int(status.get("SigCgt", "f" * 16), 16),
            int(status.get("SigBlk", "0"), 16),
        )
        holds = _holds(pid, target.answers)
        ways[pid] = way(state, _is_python(pid), caught, blocked, holds, spy)
    return found, ways


def _find_spy() -> str | None:
    """py-spy beside this interpreter, which need not be on the PATH, or on it."""
    return shutil.which("py-spy", path=os.path.dirname(sys.executable)) or shutil.which("py-spy")  # noqa: PTH120


def _is_python(pid: int) -> bool:
    try:
        program = os.readlink(f"/proc/{pid}/exe")  # noqa: PTH115
    except OSError:  # another account's: its command line can be read all the same
        program = os.fsdecode(_bytes(pid, "cmdline").partition(b"\0")[0])
    return runs_python(program, _bytes(pid, "maps"))


def _holds(pid: int, file: int) -> bool:
    """Whether a process has our own file open, under whatever number."""
    ours = os.fstat(file)
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                if os.path.samestat(ours, entry.stat()):
                    return True
    return False


def _state(pid: int) -> str:
    """The kernel's letter; empty where it does not say, or the process is gone."""
    return _text(_PROC / str(pid) / "stat").rpartition(")")[2].strip()[:1]


def _status(text: str) -> dict[str, str]:
    return {name: value.strip() for name, _, value in (x.partition(":") for x in text.splitlines())}


def _bytes(pid: int, name: str) -> bytes:
    with contextlib.suppress(OSError):
        return (_PROC / str(pid) / name).read_bytes()
    return b""


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="backslashreplace")
    return ""


def _start(work: Callable[[], None]) -> threading.Thread:
    """A thread for which nobody waits at the end: what it asks may never answer."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread
