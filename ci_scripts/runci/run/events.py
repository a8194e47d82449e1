"""What a child tells its parent: one JSON object a line, written by `Sink`, read by `reports`."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from runci.run.model import Case, FileReport

LONGEST = 2000


class Sink:
    """Writes events; only in the process that made it, since a fork of a test inherits it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._owner = descriptor, os.getpid()

    def send(self, event: Mapping[str, Any]) -> None:
        """Write one event; where nobody reads any more there is nobody to tell."""
        if os.getpid() != self._owner:
            return
        data = json.dumps(event).encode() + b"\n"
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(self._descriptor, data) :]


class Lines:
    """Puts the bytes of a stream together again to JSON objects; others' bytes are dropped."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """The objects that are complete now."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        found = []
        for line in lines:
            with contextlib.suppress(ValueError):
                value = json.loads(line)
                if isinstance(value, dict):
                    found.append(value)
        return found


def short(message: str) -> str:
    """A message of bounded length."""
    return message if len(message) <= LONGEST else message[:LONGEST] + "..."


def reports(events: Iterable[Mapping[str, Any]], files: Sequence[str]) -> dict[str, FileReport]:
    """What was said of each file, in the order of `files`.

    Events are `start` (a test begins), `test` (it ended), `end` (nothing more comes of it), `left`
    (it was collected and never begun), `foreign` (a test of another file ended), `deselected` (so
    many tests were left out), `absent` (what was asked for is not there), `error` (a failure
    outside tests) and `done` (the whole job ended by itself).
    """
    found = {path: FileReport(path) for path in files}
    for event in events:
        if event.get("event") == "done":
            found = {p: replace(r, code=int(event["code"])) for p, r in found.items()}
            continue
        path = _file_of(str(event.get("test", "")), files)
        if path is not None:
            found[path] = _add(found[path], event)
    return found


def _file_of(test: str, files: Sequence[str]) -> str | None:
    path = test.partition("::")[0]
    if path in files:
        return path
    return files[0] if len(files) == 1 else None


def _add(report: FileReport, event: Mapping[str, Any]) -> FileReport:
    test = str(event["test"])
    kind = event["event"]
    if kind == "start":
        return replace(report, running=test, begun=True)
    if kind == "left":
        return replace(report, left=test)
    if kind == "deselected":
        return replace(report, deselected=report.deselected + int(event["count"]))
    if kind == "foreign":
        first = report.foreign or test
        failed = (_case(event),) if event.get("outcome") == "failed" else ()
        return replace(report, foreign=first, errors=(*report.errors, *failed), begun=True)
    if kind == "absent":
        return replace(report, absent=str(event.get("message", "")))
    if kind == "end":
        return replace(report, running=None) if report.running == test else report
    case = _case(event)
    if kind == "error":
        return replace(report, errors=(*report.errors, case), begun=True)
    running = None if report.running == test else report.running
    return replace(report, cases=(*report.cases, case), running=running, begun=True)


def _case(event: Mapping[str, Any]) -> Case:
    return Case(
        str(event["test"]),
        str(event.get("outcome", "failed")),
        float(event.get("seconds", 0.0)),
        str(event.get("message", "")),
        event.get("line"),
        str(event.get("part_of", "")),
    )
