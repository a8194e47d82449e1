"""Simulated series of nights with planted faults, for the benchmark of the nightly's decision."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from runci.nightly.history.lines import Point, Series, Turn
from runci.nightly.record import Direction, SeriesId

FIRST = datetime.date(2026, 12, 1)
SIGMA = 0.01  # of one run within a night, relative
HOT = 0.02  # of a night, in candidate and baseline alike: a warm box, another clock
PAIRS = 5
SPIKES = 0.03  # of the runs, or of the nights where whole nights are spiked
TEN_SIGMA = 0.10
STEP = 0.05
LASTING = 0.1  # of the nights' spikes that the re-run sees, too
PIN = "b" * 40


@dataclass(frozen=True)
class Planted:
    """A series, and what is to be found: `turn` from the night with index `at` on, or nothing.

    Found after `begin` and before `at` it is no false alarm, and has delay 1.
    """

    series: Series
    turn: Turn | None = None
    at: int = 0
    begin: int = 0


@dataclass(frozen=True)
class Night:
    """What one night is like: factors of the candidate and of both, and whether it ran."""

    candidate: float = 1.0
    both: float = 1.0
    ran: bool = True
    usable: bool = True


@dataclass(frozen=True)
class Plan:
    """The nights of a series, and what is to be found in them."""

    nights: list[Night]
    turn: Turn | None = None
    at: int = 0
    begin: int | None = None
    direction: Direction = Direction.LOWER
    night_spikes: float = 0.0


def none(_: random.Random, count: int) -> Plan:
    return Plan([Night()] * count)


def step(source: random.Random, count: int) -> Plan:
    at = _place(source, count)
    return Plan(_from(at, count, 1 + STEP), Turn.REGRESSION, at)


def step_among_spikes(source: random.Random, count: int) -> Plan:
    return replace(step(source, count), night_spikes=SPIKES)


def creep(source: random.Random, count: int) -> Plan:
    """Up to 8 %, by 0.1 to 0.3 % a night; it has to be found once it is beyond 3 %."""
    slope, begin = source.uniform(0.001, 0.003), source.randint(12, 25)
    nights = [Night(1 + min(max(n - begin, 0) * slope, 0.08)) for n in range(count)]
    at = next((n for n, night in enumerate(nights) if night.candidate >= 1.03), count)
    begin = next((n for n, night in enumerate(nights) if night.candidate >= 1.015), at)
    return Plan(nights, Turn.REGRESSION, at, begin)


def spike(_: random.Random, count: int) -> Plan:
    """Whole nights of the candidate are ten sigma off, and their baseline is not."""
    return Plan([Night()] * count, night_spikes=SPIKES)


def bimodal(source: random.Random, count: int) -> Plan:
    """Each night in one of two modes, by chance."""
    other, share = 1 + source.uniform(0.05, 0.08), source.uniform(0.25, 0.75)
    return Plan([Night(other if source.random() < share else 1.0) for _ in range(count)])


def bimodal_sticky(source: random.Random, count: int) -> Plan:
    """As `bimodal`, but a mode stays for three nights on average."""
    other, mode, nights = 1 + source.uniform(0.05, 0.08), False, []
    for _ in range(count):
        mode ^= source.random() < 1 / 3
        nights.append(Night(other if mode else 1.0))
    return Plan(nights)


def machine_change(source: random.Random, count: int) -> Plan:
    """Another CPU or clock from a night on: everything takes another time, the code does not."""
    at, factor = _place(source, count), source.choice((0.85, 0.93, 1.07, 1.2))
    return Plan([Night(both=factor if n >= at else 1.0) for n in range(count)])


def gap(source: random.Random, count: int) -> Plan:
    """Two to four weeks without a run, one night in ten unusable, and a step in the gap."""
    at = _place(source, count)
    away = source.randint(14, 28)
    nights = [replace(n, usable=source.random() > 0.1) for n in _from(at, count, 1 + STEP)]
    nights[at:at] = [Night(ran=False)] * away
    return Plan(nights, Turn.REGRESSION, at + away)


def direction(source: random.Random, count: int) -> Plan:
    """Higher is better, and it falls."""
    at = _place(source, count)
    return Plan(_from(at, count, 1 - STEP), Turn.REGRESSION, at, direction=Direction.HIGHER)


def improvement(source: random.Random, count: int) -> Plan:
    """A step to the better side, in either direction."""
    at, way = _place(source, count), source.choice(list(Direction))
    factor = 1 - STEP if way is Direction.LOWER else 1 + STEP
    return Plan(_from(at, count, factor), Turn.IMPROVEMENT, at, direction=way)


KINDS: dict[str, Callable[[random.Random, int], Plan]] = {
    "none": none,
    "step": step,
    "step among spikes": step_among_spikes,
    "creep": creep,
    "spike": spike,
    "bimodal": bimodal,
    "bimodal, sticky": bimodal_sticky,
    "machine change": machine_change,
    "gap": gap,
    "direction": direction,
    "improvement": improvement,
}


def make(kind: str, seed: int, number: int, rerun: bool = False) -> Planted:
    """Series `number` of a kind, of 60 to 120 nights. The same arguments give the same series.

    With `rerun` each point that left its level brings the pairs of a re-run: see `measured`.
    """
    source = random.Random(f"{kind}/{seed}/{number}")
    plan = KINDS[kind](source, source.randint(60, 120))
    series_id = SeriesId(f"{kind} {number}", "simulated", "1", "GPU", 580)
    points = [
        measured(source, plan, index, night, rerun)
        for index, night in enumerate(plan.nights)
        if night.ran
    ]
    begin = plan.at if plan.begin is None else plan.begin
    series = Series(series_id, "us", plan.direction, tuple(points))
    return Planted(series, plan.turn, plan.at, begin)


def measured(source: random.Random, plan: Plan, index: int, night: Night, rerun: bool) -> Point:
    """One night: interleaved pairs, each run off by chance, and some of them spiked.

    Every night brings its re-run here: the decision looks at it only where the night is beyond its
    level, which is where the measurement makes one.
    """
    size = 1 + TEN_SIGMA if source.random() < plan.night_spikes else 1.0
    both = night.both * (1 + source.gauss(0, HOT))
    lasting = size if source.random() < LASTING else 1.0
    return Point(
        night=date(index),
        at=f"{date(index)}T03:00:00Z",
        run_id=str(index),
        commit=f"{index:040x}",
        baseline_commit=PIN,
        candidate=_runs(source, night.candidate * size * both),
        baseline=_runs(source, both),
        again_candidate=_runs(source, night.candidate * lasting * both) if rerun else (),
        again_baseline=_runs(source, both) if rerun else (),
        unusable=() if night.usable else ("throttled",),
    )


def date(index: int) -> str:
    return (FIRST + datetime.timedelta(days=index)).isoformat()


def _runs(source: random.Random, factor: float) -> tuple[float, ...]:
    spikes = [1 + TEN_SIGMA if source.random() < SPIKES else 1.0 for _ in range(PAIRS)]
    return tuple(6.0 * factor * spike * (1 + source.gauss(0, SIGMA)) for spike in spikes)


def _from(at: int, count: int, factor: float) -> list[Night]:
    return [Night(factor if n >= at else 1.0) for n in range(count)]


def _place(source: random.Random, count: int) -> int:
    """A night with enough before it to know the level, and enough after it to be found."""
    return source.randint(15, count - 12)
