"""`runci collect`: registrations by suite, as a table or JSON.

JSON: `{"version": 1, "suites": [{backend, suite, kind, timeout_minutes, enabled, disabled,
minutes, registrations: [{path, line, est_time, nightly, disabled, stage, runner_config}]}],
"totals": {registrations, enabled, disabled, minutes}}`. `minutes` sums the estimates of the
enabled registrations; `kind` and `timeout_minutes` are null for an undeclared suite.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from runci.collect import SuiteList
from runci.registration import Registration
from runci.report.table import render_table


def as_table(suites: Sequence[SuiteList], *, files: bool, width: int | None) -> str:
    """One row a suite, with a row of totals; with `files`, the tests of each suite below."""
    headers = ["backend", "suite", "kind", "tests", "disabled", "minutes", "timeout"]
    rows = [_row(suite) for suite in suites]
    rows.append(
        [
            "total",
            "1 suite" if len(suites) == 1 else f"{len(suites):,} suites",
            "",
            f"{sum(s.enabled for s in suites):,}",
            f"{sum(s.disabled for s in suites):,}",
            f"{sum(s.seconds for s in suites) / 60:,.1f}",
            "",
        ]
    )
    table = render_table(headers, rows, "<<<>>>>", width)
    return table + "".join(_members(suite) for suite in suites) if files else table


def _row(suite: SuiteList) -> list[str]:
    return [
        suite.backend.value,
        suite.name,
        suite.kind.value if suite.kind is not None else "undeclared",
        f"{suite.enabled:,}",
        f"{suite.disabled:,}",
        f"{suite.seconds / 60:,.1f}",
        "" if suite.timeout_minutes is None else f"{suite.timeout_minutes:g}",
    ]


def _members(suite: SuiteList) -> str:
    lines = [f"\n{suite.backend.value} {suite.name}\n"]
    for path, item in suite.members:
        seconds = "     ?" if item.est_time is None else f"{item.est_time:6g}"
        state = "" if item.enabled else f"  disabled: {item.disabled}"
        lines.append(f"  {seconds} s  {path}:{item.span.line}{state}\n")
    return "".join(lines)


def as_json(suites: Sequence[SuiteList]) -> str:
    """The document that the module's docstring describes."""
    document = {
        "version": 1,
        "suites": [dict(_suite(suite)) for suite in suites],
        "totals": {
            "registrations": sum(len(s.members) for s in suites),
            "enabled": sum(s.enabled for s in suites),
            "disabled": sum(s.disabled for s in suites),
            "minutes": round(sum(s.seconds for s in suites) / 60, 3),
        },
    }
    return json.dumps(document, indent=2) + "\n"


def _suite(suite: SuiteList) -> Iterator[tuple[str, Any]]:
    yield "backend", suite.backend.value
    yield "suite", suite.name
    yield "kind", suite.kind.value if suite.kind is not None else None
    yield "timeout_minutes", suite.timeout_minutes
    yield "enabled", suite.enabled
    yield "disabled", suite.disabled
    yield "minutes", round(suite.seconds / 60, 3)
    yield "registrations", [_registration(path, item) for path, item in suite.members]


def _registration(path: str, item: Registration) -> dict[str, Any]:
    return {
        "path": path,
        "line": item.span.line,
        "est_time": item.est_time,
        "nightly": item.nightly,
        "disabled": item.disabled,
        "stage": item.stage,
        "runner_config": item.runner_config,
    }
