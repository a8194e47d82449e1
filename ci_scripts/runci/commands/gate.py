"""`runci gate`: the event and the environment in, the decision out. Any fault denies."""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from runci.core.errors import Exit, RunciError
from runci.core.paths import read_named
from runci.gate.api import Recorded, Recorder
from runci.gate.decide import decide, denied, table
from runci.gate.events import (
    Event,
    live_api,
    load_payload,
    moment,
    read_event,
    read_object,
)
from runci.gate.facts import collect
from runci.gate.output import append_outputs, diff_link, log, outputs, summary
from runci.gate.request import Decision, Outcome

# The API's time limits bound each wait; this bounds an answer that trickles in for ever.
SECONDS = 90.0
_FIRST_YEAR = 1970
_VARIABLES = (
    "GITHUB_EVENT_NAME",
    "GITHUB_REPOSITORY",
    "GITHUB_REF",
    "GITHUB_SHA",
    "GITHUB_RUN_ID",
    "GITHUB_RUN_ATTEMPT",
    "GITHUB_WORKFLOW_REF",
)

_ABOUT = """\
Reads GITHUB_EVENT_PATH and the variables that GitHub sets, asks the API with GITHUB_TOKEN, prints
the decision, and writes outputs (allowed, outcome, rule, reason, head_sha) and the step summary.
exit status: 0 allowed; 1 denied or unknown; 2 a file that an option names is missing or wrong
"""


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    command.description = _ABOUT
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.add_argument(
        "--extra",
        action="store_true",
        help="also require the second label, run-ci-extra unless ci-permissions.yml names another",
    )
    command.add_argument(
        "--ignore-is-ok",
        action="store_true",
        help="exit 0 when the event is another workflow's label (allowed stays false)",
    )
    command.add_argument("--record", metavar="FILE", help="write event and answers for --explain")
    other = command.add_mutually_exclusive_group()
    other.add_argument(
        "--explain", metavar="EVENT.json", help="decide offline about a saved event and its answers"
    )
    other.add_argument("--host", metavar="HOST.yml", help="decide as a GPU host, by its own list")
    other.add_argument("--table", action="store_true", help="print the decision table as Markdown")
    command.add_argument("--answers", metavar="FILE", help="the answers for --explain, when apart")


def run(options: Namespace) -> int:
    """Decide about this run, or show how decisions are made."""
    if options.table:
        sys.stdout.write(table())
        return Exit.OK
    if options.host:
        return _on_host(Path(options.host))
    if options.explain:
        return _tell(_explain(options), options, {})
    return _tell(_live(options), options, os.environ)


def _live(options: Namespace) -> tuple[Decision, Event]:
    event = Event()
    try:
        event = _read(os.environ)
        api = Recorder(live_api(os.environ))
    except RunciError as error:
        return denied(f"not known: {error}"), event
    decision = within_time(lambda: decide(collect(event, api, _now(), extra=options.extra)))
    if options.record:
        saved = {
            "environment": {name: os.environ.get(name, "") for name in _VARIABLES},
            "payload": load_payload(os.environ),
            "answers": api.answers,
        }
        Path(options.record).write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")
    return decision, event


def _explain(options: Namespace) -> tuple[Decision, Event]:
    """A saved event is what --record writes: environment, payload and answers."""
    saved = read_object(Path(options.explain))
    if options.answers:
        saved = {**saved, "answers": read_object(Path(options.answers))}
    parts = {key: saved.get(key) for key in ("environment", "payload", "answers")}
    for key, part in parts.items():
        if not isinstance(part, dict):
            raise RunciError(f"{options.explain}: {key} must be a mapping, as --record writes it")
    answers: Any = parts["answers"]
    event = read_event(parts["payload"], _texts(parts["environment"], options.explain))
    when = _recorded_now(saved, options.explain) if "now" in saved else _now()
    return decide(collect(event, Recorded(answers), when, extra=options.extra)), event


def _texts(environment: Any, file: str) -> dict[str, str]:
    """Variables are texts, also those that look like numbers. Raises RunciError."""
    for name, value in environment.items():
        if not isinstance(value, str):
            raise RunciError(f"{file}: environment.{name}: {value!r} is no text: put it in quotes")
    return dict(environment)


def _recorded_now(saved: Mapping[str, Any], file: str) -> datetime:
    """When the record says it is. Raises RunciError where no times can be compared with it."""
    found = moment(saved, "now")
    # Runs are looked for a month back, which the first year has no dates for.
    if found is None or found.year < _FIRST_YEAR:
        raise RunciError(
            f"{file}: now: {saved['now']!r} is no time with a zone: write it as "
            "2026-11-01T12:00:00+00:00, or leave it out for the present"
        )
    return found


def _tell(told: tuple[Decision, Event], options: Namespace, environ: Mapping[str, str]) -> int:
    decision, event = told
    sys.stdout.write(log(decision, annotate=environ.get("GITHUB_ACTIONS") == "true"))
    if environ.get("GITHUB_OUTPUT"):
        append_outputs(Path(environ["GITHUB_OUTPUT"]), outputs(decision, event.run_sha))
    if environ.get("GITHUB_STEP_SUMMARY"):
        with Path(environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as stream:
            stream.write(summary(decision, diff_link(event, environ.get("GITHUB_SERVER_URL"))))
    harmless = decision.outcome is Outcome.IGNORE and options.ignore_is_ok
    return Exit.OK if decision.allowed or harmless else Exit.FINDINGS


def _on_host(path: Path) -> int:
    """Decide as a host does; its log gets one line whatever happens, or the answer is no."""
    from runci.config.gate import Host, load_host
    from runci.gate.host import decide_on_host, log_line
    from runci.gate.host_log import FOLDER, append, check

    state = path.parent / FOLDER
    event, host, decision = Event(), Host(()), denied("not known: the host's own settings")
    try:
        host = load_host(read_named(path, option="--host "), str(path))
        event = _read(os.environ)
        check(state, append_only=host.append_only)
        token = read_named(path.parent / host.token_file).decode("ascii").strip()
        settings = {"GITHUB_TOKEN": token, "GITHUB_API_URL": host.api_url}
        api = live_api(settings)
        decision = within_time(lambda: decide_on_host(event, host, api, _now()))
    except (RunciError, UnicodeDecodeError) as error:
        decision = denied(f"not known: {error}")
    try:
        append(state, log_line(event, decision, _now()))
    except RunciError as error:
        # What the log does not hold was not decided; what was wrong before it stays to be mended.
        first = "" if decision.allowed else f"{decision.reason}; "
        decision = denied(f"{first}not known: {error}")
    sys.stdout.write(log(decision, annotate=False))
    if not decision.allowed and not path.exists():
        return Exit.USAGE
    return Exit.OK if decision.allowed else Exit.FINDINGS


def within_time(work: Callable[[], Decision], seconds: float = SECONDS) -> Decision:
    """The decision, or a denial when it takes longer or fails in a way nobody foresaw."""
    found = [denied("not known: the API took too long")]

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:  # noqa: BLE001 (whatever it is, the gate must not open)
            found.append(denied(f"not known: a fault of runci, {type(error).__name__}: {error}"))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    return found[-1]


def _read(environ: Mapping[str, str]) -> Event:
    return read_event(load_payload(environ), environ)


def _now() -> datetime:
    return datetime.now(timezone.utc)
