"""Tells a decision: to the log, to later steps (GITHUB_OUTPUT), to the reader (the summary).

Reasons name files and texts of a pull request, so each form escapes what would mean something.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from runci.gate.events import Event
from runci.gate.request import Decision, Outcome
from runci.text.github import annotation
from runci.text.markdown import escaped, one_line

ANNOTATION = "runci gate"
_SERVER = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]+)?")
_OUTPUT_NAME = re.compile(r"[a-z_]+")


def outputs(decision: Decision, head_sha: str | None) -> dict[str, str]:
    """What later jobs may read. `head_sha` is the commit that was decided about."""
    return {
        "allowed": "true" if decision.allowed else "false",
        "outcome": decision.outcome.value,
        "rule": decision.rule,
        "reason": one_line(decision.reason),
        "head_sha": (head_sha or "") if decision.allowed else "",
        "bypass_fastfail": "true" if decision.allowed and decision.bypass_fastfail else "false",
    }


def append_outputs(path: Path, values: Mapping[str, str]) -> None:
    """Append to GITHUB_OUTPUT. A delimiter that nobody can guess ends each value."""
    with path.open("a", encoding="utf-8", newline="\n") as stream:
        for name, value in values.items():
            if not _OUTPUT_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name of an output")
            delimiter = f"runci_{secrets.token_hex(16)}"
            stream.write(f"{name}<<{delimiter}\n{one_line(value)}\n{delimiter}\n")


def log(decision: Decision, *, annotate: bool) -> str:
    """The lines for the log; with an annotation, which `runci pr-states` reads too."""
    lines = [f"runci gate: {decision.outcome.value} ({decision.rule}): {one_line(decision.reason)}"]
    if decision.remedy:
        lines.append(f"runci gate: what to do: {one_line(decision.remedy)}")
    # The runner takes `##[` anywhere in a line for a command.
    lines = [line.replace("##[", "##\\[") for line in lines]
    if annotate and not decision.allowed:
        kind = "notice" if decision.outcome is Outcome.IGNORE else "error"
        told = f"{decision.outcome.value}: {one_line(decision.reason)}\n{decision.remedy}"
        lines.append(annotation(kind, told, {"title": ANNOTATION}))
    return "\n".join(lines) + "\n"


def diff_link(event: Event, server: str | None) -> str | None:
    """The address of what was decided about, made of checked parts only."""
    parts = event.repository, event.pull, event.run_sha
    if None in parts or not _SERVER.fullmatch(server or ""):
        return None
    return f"{server}/{event.repository}/pull/{event.pull}/files/{event.run_sha}"


def summary(decision: Decision, diff: str | None = None) -> str:
    """The step summary, as Markdown; `diff` is the address of the commit that is allowed."""
    words = {Outcome.ALLOW: "GPU jobs may run", Outcome.DENY: "GPU jobs may not run"}
    title = words.get(decision.outcome, "Nothing to decide")
    lines = [f"### {title}", "", f"{escaped(decision.reason)} (rule `{decision.rule}`)", ""]
    if decision.allowed and diff:
        lines += [f"[The changes up to this commit]({diff})", ""]
    if decision.remedy:
        lines += [f"**What to do:** {decision.remedy}", ""]
    return "\n".join(lines)
