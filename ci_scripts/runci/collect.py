"""Registrations by suite, with totals: what `runci collect` lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runci.globs import matches
from runci.registration import Backend, Registration
from runci.suites import Kind, Taxonomy


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
