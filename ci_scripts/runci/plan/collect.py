"""Registrations by suite, with totals, as a table or JSON: what `runci collect` lists."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runci.config.taxonomy import Kind, Taxonomy
from runci.core.globs import matches
from runci.core.registration import Backend, Registration
from runci.core.targets import title
from runci.text.tables import render_table
from runci.text.wording import plural


@dataclass(frozen=True, slots=True)
class Filter:
    """Which registrations to list; None and False mean all."""

    backend: Backend | None = None
    suite: str | None = None
    kind: Kind | None = None
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class SuiteList:
    """One suite's registrations. `seconds` is the estimate of the enabled ones.

    `kind` and `timeout_minutes` are None for a suite that the taxonomy does not declare.
    """

    backend: Backend
    name: str
    kind: Kind | None
    timeout_minutes: float | None
    enabled: int
    disabled: int
    seconds: float
    members: tuple[tuple[str, Registration], ...]


def by_suite(
    registrations: Mapping[str, Iterable[Registration]], taxonomy: Taxonomy, wanted: Filter
) -> list[SuiteList]:
    """Group what the filter lets through: backends in their order, suites by name."""
    groups: dict[tuple[Backend, str], list[tuple[str, Registration]]] = {}
    for path, items in registrations.items():
        for item in items:
            if _passes(item, taxonomy, wanted):
                groups.setdefault((item.backend, item.effective_suite), []).append((path, item))
    order = list(Backend)
    keys = sorted(groups, key=lambda key: (order.index(key[0]), key[1]))
    return [_summarize(backend, name, groups[backend, name], taxonomy) for backend, name in keys]


def _passes(item: Registration, taxonomy: Taxonomy, wanted: Filter) -> bool:
    if wanted.backend not in (None, item.backend) or (wanted.disabled and item.enabled):
        return False
    if wanted.suite is not None and not matches(item.effective_suite, (wanted.suite,)):
        return False
    suite = taxonomy.suite(item.backend, item.effective_suite)
    return wanted.kind is None or (suite is not None and suite.kind is wanted.kind)


def _summarize(
    backend: Backend, name: str, members: list[tuple[str, Registration]], taxonomy: Taxonomy
) -> SuiteList:
    suite = taxonomy.suite(backend, name)
    default = suite.default_est_time if suite is not None else None
    enabled = [item for _, item in members if item.enabled]
    return SuiteList(
        backend,
        name,
        suite.kind if suite is not None else None,
        suite.timeout_minutes if suite is not None else None,
        len(enabled),
        len(members) - len(enabled),
        sum(item.est_time or default or 0 for item in enabled),
        tuple(members),
    )


def as_table(suites: Sequence[SuiteList], *, files: bool) -> str:
    """One row a suite, with a row of totals; with `files`, the tests of each suite below.

    As wide as it comes: a name that is cut cannot be given to another command.
    """
    headers = ["backend", "suite", "kind", "tests", "disabled", "minutes", "timeout"]
    rows = [_row(suite) for suite in suites]
    rows.append(
        [
            "total",
            plural(len(suites), "suites"),
            "",
            f"{sum(s.enabled for s in suites):,}",
            f"{sum(s.disabled for s in suites):,}",
            f"{sum(s.seconds for s in suites) / 60:,.1f}",
            "",
        ]
    )
    table = render_table(headers, rows, "<<<>>>>")
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
        where = title(path, item.only) if item.declared else f"{path}:{item.span.line}"
        lines.append(f"  {seconds} s  {where}{state}\n")
    return "".join(lines)


def as_json(suites: Sequence[SuiteList]) -> str:
    """The same as a document, with totals."""
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
        "line": None if item.declared else item.span.line,
        "declared": item.declared or None,
        "only": list(item.only),
        "est_time": item.est_time,
        "nightly": item.nightly,
        "disabled": item.disabled,
        "stage": item.stage,
        "runner_config": item.runner_config,
    }
