"""When and where each test last really ran; pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass

from runci.core.globs import matches
from runci.core.machine import Machine
from runci.core.result import FileResult
from runci.text.tables import path_end, render_table


@dataclass(frozen=True, slots=True)
class Status:
    """One file (or part of it) in one suite: its newest result, and the newest that ran tests."""

    newest: FileResult
    ran: FileResult | None
    results: int


def statuses(results: Iterable[FileResult], wanted: str | None = None) -> list[Status]:
    """By path, backend and suite; `wanted` is a path or a glob, all without it."""
    groups: dict[tuple[str, str, str, str, tuple[str, ...], str], list[FileResult]] = {}
    for result in results:
        if wanted is None or result.path == wanted or matches(result.path, (wanted,)):
            lane = (result.under or "", result.only, result.selected.shown)
            key = (result.path, result.backend, result.suite, *lane)
            groups.setdefault(key, []).append(result)
    return [_status(groups[key]) for key in sorted(groups)]


def _status(results: list[FileResult]) -> Status:
    ordered = sorted(results, key=lambda result: (result.started, result.attempt))
    ran = [result for result in ordered if result.tests > 0]
    return Status(ordered[-1], ran[-1] if ran else None, len(ordered))


def as_table(found: list[Status], width: int) -> str:
    """One table a suite, one row a file."""
    headers = ("test", "last ran", "tests", "seconds", "outcome")
    out = []
    for suite in sorted({(status.newest.backend, status.newest.suite) for status in found}):
        rows = [
            _row(status, width - 46)
            for status in found
            if (status.newest.backend, status.newest.suite) == suite
        ]
        out.append(f"{' '.join(suite)}\n{render_table(headers, rows, '<<>><', width)}")
    return "\n".join(out)


def _row(status: Status, room: int) -> list[str]:
    ran, newest = status.ran, status.newest
    return [
        path_end(_title(newest), room),
        when(ran.started)[:16] if ran is not None else "never",
        str(ran.tests) if ran is not None else "0",
        f"{ran.seconds:.1f}" if ran is not None else "",
        newest.outcome.value if newest is ran else f"{newest.outcome.value} (later)",
    ]


def as_text(status: Status) -> str:
    """One file in full: what a person asks of a test that they doubt."""
    newest, ran = status.newest, status.ran
    lines = [f"{_title(newest)} ({newest.backend} {newest.suite})"]
    if ran is None:
        lines.append(f"  never really ran: no test was executed in {status.results} results")
    else:
        lines += [
            f"  last ran   {when(ran.started)}, attempt {ran.attempt}: {ran.outcome.value}",
            f"  where      shard {ran.shard}, {ran.device or 'no device'}",
            *_machine(ran.machine),
            f"  how long   {ran.seconds:.1f} s",
            f"  tests      {ran.tests} executed, {ran.failed} failed, {len(ran.skipped)} skipped"
            + (f", {ran.deselected} deselected" if ran.deselected else ""),
            f"  commit     {ran.commit or 'unknown'}",
        ]
    if newest is not ran and ran is not None:
        said = f": {newest.message.splitlines()[0]}" if newest.message.strip() else ""
        lines.append(f"  since then {when(newest.started)}: {newest.outcome.value}{said}")
    if newest.failure is not None:
        lines.append(f"  class      {newest.failure.shown}")
    return "\n".join(lines) + "\n"


def _title(result: FileResult) -> str:
    return result.title + (f" under {result.under}" if result.under else "")


def _machine(machine: Machine | None) -> list[str]:
    if machine is None:
        return []
    lines = [f"  GPU        {gpu.shown}, {gpu.uuid}" for gpu in machine.gpus]
    if machine.not_compared:
        lines.append(f"  GPU        not compared: {machine.not_compared}")
    return lines + ([f"  driver     {machine.driver}"] if machine.driver else [])


def when(started: float) -> str:
    """Unix time as a date in UTC; a clock that went wrong is told as it is."""
    try:
        moment = datetime.datetime.fromtimestamp(started, datetime.timezone.utc)
    except (ValueError, OverflowError, OSError):
        return f"no time ({started!r})"
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")
