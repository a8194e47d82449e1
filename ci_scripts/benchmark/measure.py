"""Times whole processes: wall time, CPU time and memory, with the processes that they start."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Sample:
    """One run, or the medians of several.

    `wall` and `cpu` are seconds; `cpu` is user and system time of all its processes. `peak` is
    the memory in MB of its largest process; `total` that of all together, shared pages counted
    once, where the system tells (0: it does not, or was not asked).
    """

    wall: float
    cpu: float
    peak: float
    total: float = 0.0


def run(command: Sequence[str], stdin: bytes = b"", memory: bool = False) -> Sample:
    """Run a command whose exit status is 0 or 1. Raises RuntimeError for another."""
    started = time.perf_counter()
    # Where runci is installed, its bytecode is kept.
    variables = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=variables,
    )
    assert process.stdin is not None
    process.stdin.write(stdin)
    process.stdin.close()
    total = _watch(process.pid) if memory else 0.0
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    code = process.returncode = os.waitstatus_to_exitcode(status)
    assert process.stderr is not None
    said = process.stderr.read().decode(errors="replace")
    if code not in (0, 1):
        raise RuntimeError(f"exit status {code}: {' '.join(command)}\n{said}")
    unit = 1e6 if sys.platform == "darwin" else 1e3  # bytes there, else kilobytes
    return Sample(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / unit, total)


def median(times: int, once: Callable[[int], Sample], what: str) -> Sample:
    """Medians over some runs; shows progress on standard error."""
    samples: list[Sample] = []
    for number in range(times):
        _progress(f"{what}: run {number + 1} of {times}")
        samples.append(once(number))
    _progress("")
    return Sample(
        statistics.median(s.wall for s in samples),
        statistics.median(s.cpu for s in samples),
        max(s.peak for s in samples),
        max(s.total for s in samples),
    )


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
    elif text:
        sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _watch(pid: int) -> float:
    """The most memory (MB) that a process and its children hold together, until it ends."""
    most = 0.0
    while True:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None:
            return most
        most = max(most, sum(map(_proportional, [pid, *_children(pid)])))
        time.sleep(0.02)


def _children(pid: int) -> list[int]:
    try:
        return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _proportional(pid: int) -> float:
    """The proportional set size: shared pages are divided among the processes that share them."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1e3


def machine() -> dict[str, str]:
    """What the figures were measured on."""
    git = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout
    return {
        "CPU": _cpu(),
        "cores": str(len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()),
        "load at the start": f"{os.getloadavg()[0]:.1f}",
        "system": f"{platform.system()} {platform.release()}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "git": git.split()[-1],
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((x.partition(": ")[2] for x in lines if x.startswith("model name")), "unknown")
