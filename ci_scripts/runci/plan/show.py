"""A plan for a terminal, as Markdown, and as the outputs that workflows read."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable
from typing import Any

from runci.core.errors import RunciError
from runci.core.labels import plain_label, shown_label
from runci.core.registration import Backend, output_name
from runci.plan.model import Plan, PlannedSuite
from runci.text.tables import render_markdown, render_table
from runci.text.wording import plural, some

_HEADERS = ("suite", "shards", "files", "longest", "timeout")
_ALIGN = "<>>>>"


def as_table(plan: Plan, width: int) -> str:
    """One row a suite, why it was started, and what else there is to say."""
    table = render_table(_HEADERS, _rows(plan), _ALIGN, width) if plan.suites else ""
    why = [f"{_name(suite)}: {'; '.join(suite.reasons)}" for suite in plan.suites if suite.reasons]
    said = "".join(f"{line}\n" for text in [*why, *_remarks(plan)] for line in wrapped(text, width))
    return f"{table}{said}{summary(plan)}\n"


def as_markdown(plan: Plan) -> str:
    """The same for the summary of a workflow's step."""
    lines = [f"### Plan of `{plan.commit[:12]}`\n\n", f"{summary(plan)}\n\n"]
    if plan.suites:
        headers = [*_HEADERS, "label", "started by"]
        rows = zip(_rows(plan), plan.suites, strict=True)
        why = [
            [*row, _label(suite), "<br>".join(map(escaped, suite.reasons))] for row, suite in rows
        ]
        lines.append(render_markdown(headers, why, _ALIGN))
    remarks = _remarks(plan)
    if remarks:
        lines.append("\n" + "".join(f"- {escaped(remark)}\n" for remark in remarks))
    return "".join(lines)


def as_github(plan: Plan, known: Iterable[tuple[Backend, str]], max_parallel: int | None) -> str:
    """Lines for $GITHUB_OUTPUT.

    `matrix`: one entry a shard. `BACKEND_SUITE`, for every known suite, planned or not: `size`,
    `indices`, `shards` (ids), `max_parallel`, `runs_on` and `timeout_minutes`; a suite that is not
    planned has size 0. `runs_on` is what `runs-on` takes: a text, a list or an object. `any`,
    `commit` and `digest` of the plan.
    """
    planned = {(suite.backend, suite.name): suite for suite in plan.suites}
    include = [entry for suite in plan.suites for entry in _matrix(suite)]
    outputs = {
        "any": bool(plan.suites),
        "commit": plan.commit,
        "digest": plan.digest,
        "matrix": {"include": include},
    }
    names = {(backend.value, name) for backend, name in known} | set(planned)
    for backend, name in sorted(names):
        key = output_name(backend, name)
        if key in outputs:
            raise RunciError(f"two suites have the output {key}: rename {backend} {name}")
        outputs[key] = _outputs(planned.get((backend, name)), max_parallel)
    return "".join(f"{key}={_value(value)}\n" for key, value in outputs.items())


def summary(plan: Plan) -> str:
    """One sentence: how much is planned."""
    if not plan.suites:
        return "Nothing is planned."
    shards = [shard for suite in plan.suites for shard in suite.shards]
    files = sum(len(shard.files) for shard in shards)
    minutes = sum(shard.seconds for shard in shards) / 60
    return (
        f"{plural(len(plan.suites), 'suites')}, {plural(len(shards), 'shards')}, "
        f"{plural(files, 'files')}, {minutes:.1f} minutes of machines."
    )


def _rows(plan: Plan) -> list[list[str]]:
    return [_row(suite) for suite in plan.suites]


def _row(suite: PlannedSuite) -> list[str]:
    timeout = suite.timeout_minutes
    tools = list(dict.fromkeys(filter(None, (shard.under for shard in suite.shards))))
    return [
        _name(suite) + (f" under {', '.join(tools)}" if tools else ""),
        str(len(suite.shards)),
        str(sum(len(shard.files) for shard in suite.shards)),
        f"{max(shard.seconds for shard in suite.shards) / 60:.1f} min",
        "" if timeout is None else f"{timeout:g} min",
    ]


def _remarks(plan: Plan) -> list[str]:
    everything = [] if plan.everything is None else [f"Everything is planned: {plan.everything}"]
    return [*everything, *plan.notes, *not_planned(plan)]


def not_planned(plan: Plan) -> list[str]:
    """What is accepted and therefore not planned, one text for all; none where there is nothing."""
    if not plan.accepted:
        return []
    shown = [f"{one.path}:{one.line} ({one.rule}: {one.why})" for one in plan.accepted]
    return [f"not planned, accepted: {plural(len(shown), 'tests')}: {some(shown)}"]


def _name(suite: PlannedSuite) -> str:
    return f"{suite.backend} {suite.name}"


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Lines of at most this width, but for a word that is longer; later ones indented further."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def escaped(text: str) -> str:
    """Text whose marks Markdown must not read: a path may hold any."""
    return re.sub(r"([\\`*_<>|\[\]#])", r"\\\1", " ".join(text.split()))


def _matrix(suite: PlannedSuite) -> list[dict[str, Any]]:
    return [
        {
            "backend": suite.backend,
            "suite": suite.name,
            "shard": shard.id,
            "index": shard.index,
            "count": shard.count,
            "runs_on": _runs_on(suite),
            "timeout_minutes": suite.timeout_minutes,
        }
        for shard in suite.shards
    ]


def _outputs(suite: PlannedSuite | None, max_parallel: int | None) -> dict[str, Any]:
    size = len(suite.shards) if suite is not None else 0
    return {
        "size": size,
        "indices": list(range(size)),
        "shards": [shard.id for shard in suite.shards] if suite is not None else [],
        # GitHub refuses 0.
        "max_parallel": max(1, min(size, max_parallel or size)),
        "runs_on": _runs_on(suite) if suite is not None else None,
        "timeout_minutes": suite.timeout_minutes if suite is not None else None,
    }


def _label(suite: PlannedSuite) -> str:
    return escaped(shown_label(suite.label)) if suite.label is not None else ""


def _runs_on(suite: PlannedSuite) -> Any:
    return plain_label(suite.label) if suite.label is not None else None


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
