"""What a child tells its parent: one JSON object a line, written by `Sink`, read by `reports`."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from runci.run.model import Case, Chain, FileReport, Raised

LONGEST = 2000


class Sink:
    """Writes events; only in the process that made it, since a fork of a test inherits it.

    Where a tool writes a log, each event says as `log` how long that was.
    """

    def __init__(self, descriptor: int, tool_log: str | None = None) -> None:
        self._descriptor, self._owner = descriptor, os.getpid()
        self._length: Callable[[], int] | None = None
        if tool_log is not None:
            from runci.run.instrumented import length_of

            self._length = length_of(tool_log)

    def send(self, event: Mapping[str, Any]) -> None:
        """Write one event; where nobody reads any more there is nobody to tell."""
        if os.getpid() != self._owner:
            return
        if self._length is not None:
            event = {**event, "log": self._length()}
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


def current_test(events: Sequence[Mapping[str, Any]]) -> str | None:
    """The test that was begun last and has not ended; it looks no further back than for that."""
    ended = set()
    for event in reversed(events):
        if event.get("event") == "start":
            test = str(event["test"])
            return None if test in ended else test
        if event.get("event") in ("test", "end"):
            ended.add(str(event["test"]))
    return None


def reports(events: Iterable[Mapping[str, Any]], files: Sequence[str]) -> dict[str, FileReport]:
    """What was said of each file, in the order of `files`.

    Events are `start` (a test begins), `test` (it ended), `end` (nothing more comes of it), `left`
    (the first of so many that were collected and never begun), `foreign` (a test of another file
    ended), `deselected` (so many tests were left out), `unselected` (so many were by -k and -m),
    `absent` (what was asked for is not there), `error` (a failure outside tests), `raised` (an
    exception ended a script); of the whole job `signal` (it sent itself one), `fault` (runci's own
    code failed in it) and `done` (it ended by itself).
    """
    known = set(files)
    of_file: dict[str, list[Mapping[str, Any]]] = {path: [] for path in files}
    whole: dict[str, Any] = {"code": None, "fault": "", "signalled": frozenset()}
    for event in events:
        if event.get("event") in ("done", "fault", "signal"):
            _note_whole(event, whole)
            continue
        path = str(event.get("test", "")).partition("::")[0]
        if path in known or len(files) == 1:
            of_file[path if path in known else files[0]].append(event)
    return {path: replace(_report(path, said), **whole) for path, said in of_file.items()}


def _note_whole(event: Mapping[str, Any], whole: dict[str, Any]) -> None:
    """What is of the job, and so of each of its files."""
    if event["event"] == "done":
        whole["code"] = int(event["code"])
    elif event["event"] == "fault":
        whole["fault"] = str(event["message"])
    else:
        whole["signalled"] |= {str(event["name"])}


def _report(path: str, events: Iterable[Mapping[str, Any]]) -> FileReport:
    """What was said of one file; in time that grows with the number of its events."""
    cases: list[Case] = []
    errors: list[Case] = []
    state: dict[str, Any] = {"running": None, "begun": False, "left": None, "absent": ""}
    state["raised"] = ()
    foreign = ""
    counts: dict[str, int] = {}
    for event in events:
        kind, test = event["event"], str(event["test"])
        state["begun"] |= kind in ("start", "test", "error", "foreign")
        if kind == "start":
            state["running"] = test
        elif kind in ("test", "end") and state["running"] == test:
            state["running"] = None
        if kind == "test":
            cases.append(_case(event))
        elif kind == "error":
            errors.append(_case(event))
        elif kind == "foreign":
            foreign = foreign or test
            errors += [_case(event)] if event.get("outcome") == "failed" else []
        elif kind in ("deselected", "unselected"):
            counts[kind] = counts.get(kind, 0) + int(event["count"])
        elif kind in ("left", "absent"):
            state[kind] = test if kind == "left" else str(event.get("message", ""))
            counts["unbegun"] = counts.get("unbegun", 0) + int(event.get("count", 0))
        elif kind == "raised":
            state["raised"] = next(iter(_chains(event)), ())
    return FileReport(
        path,
        tuple(cases),
        errors=tuple(errors),
        foreign=foreign,
        deselected=counts.get("deselected", 0),
        unselected=counts.get("unselected"),
        unbegun=counts.get("unbegun", 0),
        **state,
    )


def _case(event: Mapping[str, Any]) -> Case:
    return Case(
        str(event["test"]),
        str(event.get("outcome", "failed")),
        float(event.get("seconds", 0.0)),
        str(event.get("message", "")),
        event.get("line"),
        str(event.get("part_of", "")),
        _chains(event),
        str(event.get("place", "")),
        bool(event.get("xfail")),
    )


def _chains(event: Mapping[str, Any]) -> tuple[Chain, ...]:
    return tuple(map(read_chain, event.get("raised", ())))


def read_chain(entries: Iterable[Mapping[str, Any]]) -> Chain:
    """An exception and its causes, as `raised.chain` wrote their fields in another process."""
    return tuple(Raised(**{**one, "types": tuple(one["types"])}) for one in entries)
