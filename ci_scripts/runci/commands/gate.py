"""`runci gate`: the event and the environment in, the decision out. Any fault denies."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from runci.errors import Exit, RunciError
from runci.gate.api import Api, Recorded, Recorder
from runci.gate.decide import decide, denied, table
from runci.gate.events import BASE, EXTRA, Event, at, read_event
from runci.gate.facts import collect
from runci.gate.output import append_outputs, log, outputs, summary
from runci.gate.request import Decision, Outcome

# The API's time limits bound each wait; this bounds an answer that trickles in for ever.
SECONDS = 90.0
_VARIABLES = (
    "GITHUB_EVENT_NAME",
    "GITHUB_REPOSITORY",
    "GITHUB_REF",
    "GITHUB_SHA",
    "GITHUB_RUN_ID",
    "GITHUB_RUN_ATTEMPT",
    "GITHUB_WORKFLOW_REF",
)


def gate(options: Namespace) -> int:
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
    decision = within_time(lambda: decide(collect(event, api, _now(), _labels(options))))
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
    saved = _json(Path(options.explain))
    if options.answers:
        saved = {**saved, "answers": _json(Path(options.answers))}
    parts = {key: saved.get(key) for key in ("environment", "payload", "answers")}
    for key, part in parts.items():
        if not isinstance(part, dict):
            raise RunciError(f"{options.explain}: {key} must be a mapping, as --record writes it")
    environment: Any = parts["environment"]
    event = read_event(parts["payload"], environment)
    now = at(saved, "now")
    moment = datetime.fromisoformat(now) if isinstance(now, str) else _now()
    answers: Any = parts["answers"]
    return decide(collect(event, Recorded(answers), moment, _labels(options))), event


def _tell(told: tuple[Decision, Event], options: Namespace, environ: Mapping[str, str]) -> int:
    decision, event = told
    sys.stdout.write(log(decision, annotate=environ.get("GITHUB_ACTIONS") == "true"))
    if environ.get("GITHUB_OUTPUT"):
        append_outputs(Path(environ["GITHUB_OUTPUT"]), outputs(decision, event.run_sha))
    if environ.get("GITHUB_STEP_SUMMARY"):
        with Path(environ["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as stream:
            stream.write(summary(decision))
    harmless = decision.outcome is Outcome.IGNORE and options.ignore_is_ok
    return Exit.OK if decision.allowed or harmless else Exit.FINDINGS


def _on_host(path: Path) -> int:
    """Decide as a host does; its log gets one line whatever happens."""
    from runci.gate.host import decide_on_host, log_line
    from runci.gate.settings import Host, load_host

    event, host, decision = Event(), Host(()), denied("not known: the host's own settings")
    try:
        host = load_host(_bytes(path), str(path))
        event = _read(os.environ)
        token = _bytes(path.parent / host.token_file).decode("ascii").strip()
        settings = {"GITHUB_TOKEN": token, "GITHUB_API_URL": host.api_url}
        api = live_api(settings)
        decision = within_time(lambda: decide_on_host(event, host, api, _now()))
    except (RunciError, UnicodeDecodeError) as error:
        decision = denied(f"not known: {error}")
    with (path.parent / host.log_file).open("a", encoding="utf-8") as stream:
        stream.write(log_line(event, decision, _now()))
    sys.stdout.write(log(decision, annotate=False))
    return Exit.OK if decision.allowed else Exit.FINDINGS


def live_api(environ: Mapping[str, str]) -> Api:
    """The API that the environment names. Raises RunciError without the extra `github`."""
    try:
        from runci.gate.github import GitHubApi
    except ImportError as error:
        raise RunciError("this needs requests: pip install 'runci[github]'") from error
    url = environ.get("GITHUB_API_URL") or "https://api.github.com"
    if not re.fullmatch(r"https?://[^\s/]+(?:/\S*)?", url):
        raise RunciError(f"GITHUB_API_URL {url!r} is no address, such as https://api.github.com")
    return GitHubApi(environ.get("GITHUB_TOKEN") or "", url)


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


def _labels(options: Namespace) -> tuple[str, ...]:
    return EXTRA if options.extra else BASE


def load_payload(environ: Mapping[str, str]) -> object:
    """The event's payload. Raises RunciError where there is none."""
    name = environ.get("GITHUB_EVENT_PATH")
    if not name:
        raise RunciError("GITHUB_EVENT_PATH is not set: run this in a workflow, or use --explain")
    return _json(Path(name))


def _read(environ: Mapping[str, str]) -> Event:
    return read_event(load_payload(environ), environ)


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(_bytes(path))
    except ValueError as error:
        raise RunciError(f"{path}: not JSON: {error}") from error
    if not isinstance(found, dict):
        raise RunciError(f"{path}: must be a JSON object")
    return found


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RunciError(f"{path}: cannot read: {error.strerror}") from error


def _now() -> datetime:
    return datetime.now(timezone.utc)
