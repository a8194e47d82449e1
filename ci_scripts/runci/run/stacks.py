"""Stacks of processes as plain data: read from what tools print, folded, grouped, shown; pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from runci.text.wording import plural

T = TypeVar("T")

FRAMES = 40  # of a thread, beyond which the outer ones are counted
NAMED = 8  # processes at one place that have a line of their own
LONGEST_VALUE = 200  # of a variable
LONGEST_NAME = 100  # of a function
OWN = str(Path(__file__).parents[1]) + "/"
# Whose frames say nothing of a test: ours, pytest's, and how Python starts a script.
_FOLDED = re.compile(r"/(?:_pytest|pytest|pluggy)/|^<frozen (?:runpy|importlib)|/runpy\.py$")
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python\d[\d.]*t?/|^<frozen ")
_HEAD = re.compile(
    r"(?:Current thread|Thread) 0x[0-9a-f]+(?: \[(.*)\])? \(most recent call first\)"
)
_FRAME = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)')
# What is told of a process's environment: who it is in a collective, and no secret of anybody.
_TOLD = re.compile(
    r"(?:LOCAL_)?RANK|(?:LOCAL_)?WORLD_SIZE|MASTER_(?:ADDR|PORT)|CUDA_VISIBLE_DEVICES"
    r"|(?:TORCH_NCCL|NCCL|GLOO)_\w+"
)
_STATES = {"R": "running", "S": "sleeping", "D": "in the kernel", "T": "stopped", "t": "traced"}


@dataclass(frozen=True, slots=True)
class Frame:
    """One call; `native` where it is no Python. `line` is 0 where it is not known."""

    function: str
    file: str
    line: int
    native: bool = False


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread and its calls, the innermost first."""

    frames: tuple[Frame, ...]
    name: str = ""


@dataclass(frozen=True, slots=True)
class Process:
    """What is known of a process; `threads` are those that run Python, the main one first.

    `state` is the kernel's letter, `channel` where it waits, `kernel` its stack there, as far as
    they may be read; `variables` are those of `told`.
    """

    pid: int
    name: str
    state: str = "S"
    tasks: int = 1
    channel: str = ""
    kernel: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    threads: tuple[Thread, ...] = ()


def from_faulthandler(text: str) -> tuple[Thread, ...]:
    """The threads of one answer to the signal, the main one first."""
    found: list[Thread] = []
    inside = False
    for line in text.splitlines():
        head, frame = _HEAD.match(line), _FRAME.match(line)
        if head:
            found.append(Thread((), head[1] or ""))
        elif frame and inside:
            number = int(frame[2]) if frame[2].isdecimal() else 0
            calls = (*found[-1].frames, Frame(frame[3], frame[1], number))
            found[-1] = replace(found[-1], frames=calls)
        inside = bool(head) or (inside and line.startswith("  "))
    return tuple(thread for thread in reversed(found) if thread.frames)


def from_pyspy(text: str) -> tuple[Thread, ...]:
    """The threads that `py-spy dump --json` tells of, the main one first; none: no such answer."""
    try:
        threads = sorted(json.loads(text), key=lambda one: one["os_thread_id"] or one["pid"])
        return tuple(
            Thread(tuple(map(_pyspy_frame, one["frames"])), one["thread_name"] or "")
            for one in threads
            if one["frames"]
        )
    except (ValueError, KeyError, TypeError):
        return ()


def _pyspy_frame(frame: Mapping[str, object]) -> Frame:
    line = frame["line"]
    native = frame.get("module") is not None
    return Frame(
        str(frame["name"]), str(frame["filename"]), line if isinstance(line, int) else 0, native
    )


def told(environment: bytes) -> tuple[tuple[str, str], ...]:
    """Rank, size, address and settings of collectives in /proc/PID/environ, and nothing else."""
    pairs = (entry.partition(b"=") for entry in environment.split(b"\0"))
    found = {
        name.decode("utf-8", "backslashreplace"): value.decode("utf-8", "backslashreplace")
        for name, _, value in pairs
    }
    return tuple((n, v[:LONGEST_VALUE]) for n, v in sorted(found.items()) if _TOLD.fullmatch(n))


def fold(frames: Sequence[Frame], own: str = OWN) -> list[Frame | int]:
    """The calls that tell something, and in their place how many of ours or pytest's there were.

    Where the thread is stays, whoever's it is. Of native calls only the innermost tell where it
    waits; those between and outside Python's are how the interpreter calls itself.
    """
    python = next((i for i, frame in enumerate(frames) if not frame.native), len(frames))
    shown: list[Frame | int] = [*frames[: python + 1]]
    for frame in frames[python + 1 :]:
        if frame.native:
            continue
        if not frame.file.startswith(own) and not _FOLDED.search(frame.file):
            shown.append(frame)
        elif isinstance(shown[-1], int):
            shown[-1] += 1
        else:
            shown.append(1)
    return shown


def same(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Items of one key together, at the place of the first of them."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def where(thread: Thread) -> Hashable:
    """What two threads share that are at the same place, whichever tool saw them.

    faulthandler names no class, and knows nothing of native calls.
    """
    return tuple(
        (frame.file, frame.line, frame.function.rpartition(".")[2])
        for frame in thread.frames
        if not frame.native
    )


def place(process: Process) -> Hashable:
    """The same for processes; one without Python is where it waits in the kernel."""
    if process.threads:
        return frozenset(map(where, process.threads))
    return process.state, process.channel, process.kernel


def brief(process: Process, root: str) -> str:
    """Where a process is, in few words: the innermost call outside libraries, else of Python."""
    calls = [f for thread in process.threads[:1] for f in thread.frames if not f.native]
    own = [frame for frame in calls if not _LIBRARY.search(frame.file)]
    if not calls:
        return process.channel.strip("0") or _STATES.get(process.state, process.state)
    frame = (own or calls)[0]
    return f"{frame.function}  {_shown(frame, root)}"


def show(processes: Sequence[Process], root: str, own: str = OWN) -> list[str]:
    """Lines for people: in few words where each is, then each stack once, with all of it."""
    lines = [
        f"{brief(near[0], root)}: {_pids(near)}"
        for near in same(processes, lambda one: brief(one, root))
        if len(processes) > 1
    ]
    for group in same(processes, place):
        if len(group) > 1:
            lines.append(f"{plural(len(group), 'processes')}:")
        lines += [_line(process) for process in group[:NAMED]]
        lines += [f"and {_pids(group[NAMED:])}"] if len(group) > NAMED else []
        # The one that was looked at with native calls tells most.
        best = max(group, key=lambda one: sum(len(thread.frames) for thread in one.threads))
        for threads in same(best.threads, where):
            names = ", ".join(filter(None, (thread.name for thread in threads)))
            many = f"{len(threads)} threads: " if len(threads) > 1 else "thread "
            lines.append(f"  {many}{names}" if names else "  thread")
            most = max(threads, key=lambda one: len(one.frames))
            lines += [f"    {line}" for line in _calls(most.frames, root, own)]
        if not best.threads:
            lines += [f"    {call}  (kernel)" for call in best.kernel]
    return lines


def _pids(processes: Sequence[Process]) -> str:
    """Their numbers on one line, with their ranks where they have one."""
    ranks = [(one.pid, dict(one.variables).get("RANK")) for one in processes]
    told = [f"pid {pid}" + (f" (rank {rank})" if rank else "") for pid, rank in ranks]
    return ", ".join(told)


def _line(process: Process) -> str:
    state = _STATES.get(process.state, process.state)
    at = f" at {process.channel}" if process.channel not in ("", "0") else ""
    settings = "".join(f" {name}={value}" for name, value in process.variables)
    return f"{process.name}: {state}{at}, {plural(process.tasks, 'threads')}{settings}"


def _calls(frames: Sequence[Frame], root: str, own: str) -> list[str]:
    folded = fold(frames, own)
    lines = [
        f"... {plural(one, 'frames')} of pytest and runci"
        if isinstance(one, int)
        else f"{_short(one.function)}  {_shown(one, root)}"
        for one in folded
    ]
    more = [f"... {len(lines) - FRAMES} more"] if len(lines) > FRAMES else []
    return [*lines[:FRAMES], *more]


def _short(function: str) -> str:
    """A name of C++ may be a page of templates."""
    return function if len(function) <= LONGEST_NAME else f"{function[:LONGEST_NAME]}..."


def _shown(frame: Frame, root: str) -> str:
    """A file from the root or below its site-packages; a library by its name."""
    if frame.native and not frame.line:
        return f"({frame.file.rpartition('/')[2]})"
    file = frame.file.removeprefix(f"{root.rstrip('/')}/")
    return f"{file.rpartition('/site-packages/')[2]}:{frame.line}"
