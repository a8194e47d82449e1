"""Small series for tests of the decision: what each night is like, written as figures."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from runci.config.perf import Benchmark, Config, Rule
from runci.nightly.decide.series import decide
from runci.nightly.decide.turns import Outcome
from runci.nightly.history.additions import Addition
from runci.nightly.history.lines import Accept, Event, Night, Point, Series, SeriesHeader, Turn
from runci.nightly.record import EXACT, Direction, SeriesId
from runci.nightly.verdict import Confirmed, Verdict

FIRST = datetime.date(2026, 12, 1)
GPU = "NVIDIA GeForce RTX 5090"
PIN = "b" * 40
OFFSETS = (0.002, -0.004, 0.0, 0.004, -0.002)  # of a night's pairs, relative; their median is 0


def night(index: int) -> str:
    return (FIRST + datetime.timedelta(days=index)).isoformat()


def commit(index: int) -> str:
    return f"{index + 1:040x}"


def point(index: int, ratio: float = 1.0, **more: object) -> Point:
    """One night: five pairs around `ratio`, with a baseline of 6 µs."""
    bare = Point(
        night=night(index),
        at=f"{night(index)}T03:00:00Z",
        run_id=str(index),
        commit=commit(index),
        baseline_commit=PIN,
        candidate=tuple(6.0 * ratio * (1 + offset) for offset in OFFSETS),
        baseline=(6.0,) * len(OFFSETS),
    )
    return replace(bare, **more)  # type: ignore[arg-type]


def scaled(one: Point, factor: float) -> Point:
    """The same night on a machine that is slower by `factor`: candidate and baseline alike."""
    return replace(
        one,
        candidate=tuple(figure * factor for figure in one.candidate),
        baseline=tuple(figure * factor for figure in one.baseline),
    )


def rerun(one: Point, ratio: float) -> Point:
    """The same night with a paired re-run around `ratio`."""
    again = point(0, ratio)
    return replace(one, again_candidate=again.candidate, again_baseline=again.baseline)


def series_id(metric: str = "m", gpu: str = GPU, driver: int = 580) -> SeriesId:
    return SeriesId(metric, "gemm", "1", gpu, driver)


def series(
    points: Iterable[Point],
    metric: str = "m",
    direction: Direction = Direction.LOWER,
    accepts: Iterable[Accept] = (),
    events: Iterable[Event] = (),
    gpu: str = GPU,
    driver: int = 580,
) -> Series:
    """A measured series."""
    found = series_id(metric, gpu, driver)
    return Series(found, "us", direction, tuple(points), tuple(accepts), tuple(events))


def ratios(*levels: tuple[int, float], seed: int = 1, sigma: float = 0.003) -> list[Point]:
    """Nights in a row: (how many, at which ratio), each off by chance."""
    source = random.Random(seed)
    wanted = [ratio for count, ratio in levels for _ in range(count)]
    return [point(n, ratio * (1 + source.gauss(0, sigma))) for n, ratio in enumerate(wanted)]


def exact(results: Sequence[bool | None], accepts: Iterable[Accept] = ()) -> Series:
    """A series that passes or fails."""
    points = tuple(
        Point(night(n), f"{night(n)}T03:00:00Z", str(n), commit(n), passed=passed, detail="bits")
        for n, passed in enumerate(results)
    )
    return Series(series_id("bits"), EXACT, Direction.HIGHER, points, tuple(accepts))


def accepted(index: int, reason: str = "wanted") -> Accept:
    return Accept(night(index), f"{night(index + 3)}T09:00:00Z", "ann", reason)


def event(turn: Turn, since: int, at: int, change: float = 0.05, level: float = 1.0) -> Event:
    """An event decided on night `at`."""
    return Event(
        night(at), f"{night(at)}T04:00:00Z", turn, night(since), commit(since), commit(since - 1),
        change, change - 0.01, change + 0.01, level, Confirmed.SECOND_NIGHT.value,
    )  # fmt: skip


def judged(
    one: Series, last: int | None = None, rule: Rule | None = None, kin: Sequence[Series] = ()
) -> Outcome:
    """The decision about a series on its last night, or on night `last`."""
    when = max(p.night for p in one.points) if last is None else night(last)
    return decide(one, rule or Rule(), when, f"{when}T05:00:00Z", kin=kin)


def replayed(
    one: Series, until: int | None = None, kin: Sequence[Series] = ()
) -> tuple[Series, list[Verdict]]:
    """Every night decided in its turn, with the events of those before."""
    last = max(p.night for p in one.points) if until is None else night(until)
    verdicts = []
    for index in range((datetime.date.fromisoformat(last) - FIRST).days + 1):
        verdict, events = judged(one, index, kin=kin)
        one = replace(one, events=one.events + events)
        verdicts.append(verdict)
    return one, verdicts


@dataclass
class World:
    """A history to write: series, and the nights that ran."""

    all: list[Series] = field(default_factory=list)
    nights: list[Night] = field(default_factory=list)

    def additions(self) -> tuple[Addition, ...]:
        return tuple(
            Addition(
                SeriesHeader(one.id, one.unit, one.direction),
                (*one.points, *one.accepts, *one.events),
            )
            for one in self.all
        )


def ran(index: int, measured: bool = True, *unusable: str) -> Night:
    """A run of the nightly."""
    at = f"{night(index)}T03:30:00Z"
    return Night(night(index), at, str(index), commit(index), measured, unusable)


def config(**more: object) -> Config:
    """A configuration with one benchmark, `gemm`, expected since the first night."""
    bare = Config(FIRST, {"gemm": Benchmark("gemm", "1", ("true",))})
    return replace(bare, **more)  # type: ignore[arg-type]


STEP = ratios((30, 1.0), (40, 1.05))
