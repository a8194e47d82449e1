"""Simulated series of nights with planted faults, for the benchmark of the nightly's decision."""

from __future__ import annotations

import datetime
import math
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

    Found after `begin` and before `at` it is no false alarm, and has delay 1. Alarms before the
    night `quiet` do not count. `kin` is the same metric on the driver before, with `kin_points`.
    What `goes_on` gets worse after it was found, and may be told again.
    """

    series: Series
    turn: Turn | None = None
    at: int = 0
    begin: int = 0
    quiet: int = 0
    kin: Series | None = None
    kin_points: tuple[Point, ...] = ()
    goes_on: bool = False


@dataclass(frozen=True)
class Night:
    """What one night is like: factors of the candidate and of both, and whether it ran."""

    candidate: float = 1.0
    both: float = 1.0
    ran: bool = True
    usable: bool = True
    base: float = 1.0
    driver: int = 580


@dataclass(frozen=True)
class Plan:
    """The nights of a series, and what is to be found in them."""

    nights: list[Night]
    turn: Turn | None = None
    at: int = 0
    begin: int | None = None
    direction: Direction = Direction.LOWER
    night_spikes: float = 0.0
    quiet: int = 0


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


def noisy(source: random.Random, count: int) -> Plan:
    """2 % from night to night that the pairs do not share."""
    return Plan([Night(1 + source.gauss(0, HOT)) for _ in range(count)])


def noisy_step(source: random.Random, count: int) -> Plan:
    at = _place(source, count)
    factors = [(1 + STEP if n >= at else 1.0) for n in range(count)]
    nights = [Night(factor * (1 + source.gauss(0, HOT))) for factor in factors]
    return Plan(nights, Turn.REGRESSION, at)


def weekly(source: random.Random, count: int) -> Plan:
    """Swings of 4 % within a week; the first four weeks are there to learn them."""
    phase = source.random() * 7
    swings = [1 + 0.04 * math.sin(math.tau * (n + phase) / 7) for n in range(count)]
    return Plan([Night(swing) for swing in swings], quiet=28)


def weekly_step(source: random.Random, count: int) -> Plan:
    at = source.randint(35, count - 12)
    plan = weekly(source, count)
    nights = [replace(n, candidate=n.candidate * (1 + STEP * (i >= at)))
              for i, n in enumerate(plan.nights)]  # fmt: skip
    return replace(plan, nights=nights, turn=Turn.REGRESSION, at=at)


def correlated(source: random.Random, count: int) -> Plan:
    """Noise that remembers nine tenths of the night before, 2 % in all."""
    nights, now = [], 0.0
    for _ in range(count):
        now = 0.9 * now + source.gauss(0, HOT * math.sqrt(1 - 0.81))
        nights.append(Night(1 + now))
    return Plan(nights)


def baseline_slower(source: random.Random, count: int) -> Plan:
    """The pinned baseline itself is 6 % slower for some nights, and the candidate is not."""
    at, stay = _place(source, count), source.randint(5, 10)
    return Plan([Night(base=1.06 if at <= n < at + stay else 1.0) for n in range(count)])


def driver_change(source: random.Random, count: int) -> Plan:
    """Another driver from a night on, and a step on the same."""
    at = _place(source, count)
    nights = _from(at, count, 1 + STEP)
    nights = [replace(night, driver=590 if n >= at else 580) for n, night in enumerate(nights)]
    return Plan(nights, Turn.REGRESSION, at)


def first_nights(source: random.Random, count: int) -> Plan:
    """A step of 20 % within the first five nights."""
    at = source.randint(1, 4)
    return Plan(_from(at, count, 1.2), Turn.REGRESSION, at)


def second_step(source: random.Random, count: int) -> Plan:
    """Another step while the first is open; the second has to be found."""
    first = source.randint(15, 25)
    at = first + source.randint(8, 20)
    nights = [Night(1.0 if n < first else 1.06 if n < at else 1.2) for n in range(count)]
    return Plan(nights, Turn.REGRESSION, at, quiet=first + 7)


def after_a_gain(_: random.Random, count: int) -> Plan:
    """2.5 % better, which nothing tells, and then 5 % worse than that."""
    nights = [Night(1.0 if n < 20 else 0.975 if n < 40 else 1.025) for n in range(count)]
    return Plan(nights, Turn.REGRESSION, 40)


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
    "none, noisy": noisy,
    "step, noisy": noisy_step,
    "weekly": weekly,
    "weekly, step": weekly_step,
    "correlated": correlated,
    "baseline slower": baseline_slower,
    "driver change": driver_change,
    "first nights": first_nights,
    "second step": second_step,
    "after a gain": after_a_gain,
}


def make(kind: str, seed: int, number: int, rerun: bool = False) -> Planted:
    """Series `number` of a kind, of 60 to 120 nights. The same arguments give the same series.

    With `rerun` each point that left its level brings the pairs of a re-run: see `measured`.
    """
    source = random.Random(f"{kind}/{seed}/{number}")
    plan = KINDS[kind](source, source.randint(60, 120))
    series_id = SeriesId(f"{kind} {number}", "simulated", "1", "GPU", 580)
    points: dict[int, list[Point]] = {580: [], 590: []}
    for index, night in enumerate(plan.nights):
        if night.ran:
            points[night.driver].append(measured(source, plan, index, night, rerun))
    begin = plan.at if plan.begin is None else plan.begin
    old, new = (
        Series(replace(series_id, driver_major=driver), "us", plan.direction, tuple(points[driver]))
        for driver in points
    )
    if not new.points:
        goes_on = kind == "creep"
        return Planted(old, plan.turn, plan.at, begin, plan.quiet, goes_on=goes_on)
    return Planted(new, plan.turn, plan.at, begin, plan.quiet, old, old.points)


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
        baseline=_runs(source, both * night.base),
        again_candidate=_runs(source, night.candidate * lasting * both) if rerun else (),
        again_baseline=_runs(source, both * night.base) if rerun else (),
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
