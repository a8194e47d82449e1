"""Pages of simulated nights, for the tests of what they show."""

from __future__ import annotations

from dataclasses import replace

import perf_world as sim

from runci.nightly.page import words
from runci.nightly.page.view import Page, view
from runci.nightly.verdict import Status, Verdicts

PLAN = sim.Plan("kernel", 30)
DASH = words.NONE


def shown(where: sim.World) -> Page:
    return view(where.verdicts, where.history, where.records)


def verdicts(*statuses: Status, **given: object) -> Verdicts:
    judged = tuple(
        sim.verdict(replace(PLAN, metric=f"m{i}"), status) for i, status in enumerate(statuses)
    )
    bare = Verdicts(sim.night(0), f"{sim.night(0)}T03:00:00Z", judged)
    return replace(bare, **given)  # type: ignore[arg-type]
