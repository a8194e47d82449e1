"""Nights without figures, as the page lists them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runci.perf.lines import Night
from runci.perf.page import words
from runci.perf.page.links import Link, run_link


@dataclass(frozen=True, slots=True)
class MissingNight:
    """A night without figures, or several one after the other of which nothing is known.

    `run` links to the run, where there was one; `why` is what is known.
    """

    night: str
    run: Link
    why: str


def missing_nights(missing: Sequence[str], nights: Sequence[Night]) -> tuple[MissingNight, ...]:
    """Newest first; nights without a run that follow each other as one line."""
    ran = {night.night: night for night in nights}
    groups: list[list[str]] = []
    for night in sorted(missing, reverse=True):
        before = groups[-1][-1] if groups else ""
        if night not in ran and before not in ran and _follows(night, before):
            groups[-1].append(night)
        else:
            groups.append([night])
    return tuple(_missing_night(group, ran.get(group[0])) for group in groups)


def _follows(night: str, newer: str) -> bool:
    one, other = words.day(night), words.day(newer)
    return one is not None and other is not None and other - one == 1


def _missing_night(group: Sequence[str], found: Night | None) -> MissingNight:
    if found is None:
        several = len(group) > 1
        name = f"{group[-1]} to {group[0]}, {len(group)} nights" if several else group[0]
        return MissingNight(name, Link(words.NONE), "no run")
    why = "; ".join(found.unusable) or "the run measured nothing"
    return MissingNight(found.night, run_link(found.run_url, found.run_id), why)
