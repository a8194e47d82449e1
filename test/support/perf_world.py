"""Small simulated nights for the tests of the page: series, verdicts and records that fit."""

from __future__ import annotations

import datetime
import itertools
import random
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runci.nightly.history.additions import Addition, Additions
from runci.nightly.history.lines import (
    Accept,
    Event,
    History,
    Night,
    Point,
    Series,
    SeriesHeader,
    SuiteNight,
    Turn,
)
from runci.nightly.history.store import append_folder, start_folder
from runci.nightly.record import (
    EXACT,
    Check,
    Direction,
    Machine,
    MachineState,
    Measurement,
    Record,
    SeriesId,
    encode,
)
from runci.nightly.verdict import Confirmed, Segment, Status, Verdict, Verdicts

LAST = datetime.date(2026, 11, 29)
GPU = "NVIDIA GeForce RTX 5090"
PINNED = "b" * 40
RUNS = "https://github.com/octo/kernels/actions/runs"


def series_id(metric: str, gpu: str = GPU, benchmark: str = "gemm") -> SeriesId:
    return SeriesId(metric, benchmark, "1", gpu, 580)


def night(back: int) -> str:
    """The date so many nights before the last one."""
    return (LAST - datetime.timedelta(days=back)).isoformat()


def commit(back: int) -> str:
    return random.Random(f"commit {back}").randbytes(20).hex()


@dataclass(frozen=True)
class Plan:
    """A series to simulate: `steps` are (nights back, relative change from there on)."""

    metric: str
    nights: int = 90
    unit: str = "us"
    direction: Direction = Direction.LOWER
    base: float = 6.0
    spread: float = 0.006
    steps: tuple[tuple[int, float], ...] = ()
    gaps: frozenset[int] = frozenset()  # nights back
    unusable: Mapping[int, str] | None = None
    pairs: int = 5
    again: frozenset[int] = frozenset()
    compared: bool = True
    failed: frozenset[int] = frozenset()  # of an exact metric
    gpu: str = GPU


def level(plan: Plan, back: int) -> float:
    found = 1.0
    for at, change in plan.steps:
        if back <= at:
            found *= 1 + change
    return found


def point(plan: Plan, back: int) -> Point:
    chance = random.Random(f"{plan.metric} {back}")
    bare = Point(
        night=night(back),
        at=f"{night(back)}T02:30:00Z",
        run_id=str(9000 - back),
        commit=commit(back),
        run_url=f"{RUNS}/{9000 - back}",
        temperature=58 + chance.randrange(8),
        sm_clock=2700 + 15 * chance.randrange(8),
        unusable=tuple(
            reason for at, reason in (plan.unusable or {}).items() if at == back and reason
        ),
    )
    if plan.unit == EXACT:
        return replace(bare, passed=back not in plan.failed, detail="M = 2..8, frozen form")
    tonight = plan.base * (1 + chance.gauss(0, plan.spread))
    wanted = level(plan, back) * (1 + chance.gauss(0, plan.spread))

    def medians(factor: float) -> tuple[float, ...]:
        return tuple(
            round(tonight * factor * (1 + chance.gauss(0, plan.spread)), 4)
            for _ in range(plan.pairs)
        )

    again = back in plan.again
    return replace(
        bare,
        baseline_commit=PINNED if plan.compared else "",
        candidate=medians(wanted),
        baseline=medians(1.0) if plan.compared else (),
        again_candidate=medians(wanted) if again else (),
        again_baseline=medians(1.0) if again and plan.compared else (),
        reference=0.62,
    )


def series(plan: Plan, accepts: Iterable[Accept] = (), events: Iterable[Event] = ()) -> Series:
    points = [point(plan, b) for b in range(plan.nights - 1, -1, -1) if b not in plan.gaps]
    direction = Direction.HIGHER if plan.unit == EXACT else plan.direction
    return Series(
        series_id(plan.metric, plan.gpu), plan.unit, direction, tuple(points),
        tuple(accepts), tuple(events),
    )  # fmt: skip


def ratio(at: Point) -> float:
    """Computed here on its own, so that tests compare the page with something else."""
    if not at.baseline:
        return statistics.median(at.candidate)
    return statistics.median(c / b for c, b in zip(at.candidate, at.baseline, strict=True))


def verdict(plan: Plan, status: Status = Status.STEADY, **given: object) -> Verdict:
    """A verdict that fits the plan; segments lie between its steps."""
    exact = plan.unit == EXACT
    bounds = [plan.nights - 1, *(at for at, _ in plan.steps), -1]
    scale = 1.0 if plan.compared else plan.base
    segments = [
        Segment(night(first), night(last + 1), first - last, scale * level(plan, first))
        for first, last in itertools.pairwise(bounds)
    ]
    last = next(point(plan, b) for b in range(plan.nights) if b not in plan.gaps)
    bare = Verdict(
        id=series_id(plan.metric, plan.gpu),
        unit=plan.unit,
        direction=Direction.HIGHER if exact else plan.direction,
        status=status,
        reason="within 3 % of the accepted level",
        night=night(0),
        commit=commit(0),
        points=plan.nights - len(plan.gaps),
        value=None if exact else ratio(last),
        level=None if exact else scale,
        change=None if exact else ratio(last) / scale - 1,
        low=None if exact else ratio(last) / scale - 1 - 0.004,
        high=None if exact else ratio(last) / scale - 1 + 0.004,
        segments=() if exact else tuple(segments),
    )
    return replace(bare, **given)  # type: ignore[arg-type]


def record(plans: Sequence[Plan], samples: int = 40, **given: object) -> Record:
    """Last night's record of these plans: each repetition's samples lie around its median."""
    measurements, checks = [], []
    for plan in plans:
        last = point(plan, 0)
        if plan.unit == EXACT:
            checks.append(Check(plan.metric, bool(last.passed), last.detail))
            continue
        chance = random.Random(plan.metric)

        def spread(
            medians: tuple[float, ...], chance: random.Random = chance
        ) -> tuple[tuple[float, ...], ...]:
            # Symmetric around the median, so that the median of the samples is the history's.
            halves = [[abs(chance.gauss(0, 0.01)) for _ in range(samples // 2)] for _ in medians]
            return tuple(
                tuple(m * (1 + sign * d) for d in half for sign in (1, -1))
                for m, half in zip(medians, halves, strict=True)
            )

        measurements.append(
            Measurement(
                plan.metric,
                plan.unit,
                plan.direction,
                spread(last.candidate),
                spread(last.baseline),
                "F.linear",
                spread(last.again_candidate),
                spread(last.again_baseline),
            )
        )
    before = MachineState(f"{night(0)}T02:10:00Z", 2790, 14001, 41, 65.0, 2, (), (), 0.2)
    after = MachineState(f"{night(0)}T02:24:00Z", 2760, 14001, 63, 402.5, 2, (), (), 1.1)
    bare = Record(
        night=night(0),
        started=before.at,
        finished=after.at,
        benchmark="gemm",
        version="1",
        command=("python", "kernel/benchmark/gemm.py", "--only=this kernel", "--json={output}"),
        commit=commit(0),
        baseline_commit=PINNED,
        seed=4711,
        order=("candidate", "baseline", "baseline", "candidate") * 2 + ("baseline", "candidate"),
        machine=Machine(plans[0].gpu, "580.159.04", "gpu-host-1", "AMD EPYC 9354", "12.0"),
        before=before,
        after=after,
        measurements=tuple(measurements),
        checks=tuple(checks),
        versions={"torch": "2.13.0", "triton": "3.7.1", "CUDA": "13.0"},
        run_id="9000",
        run_url=f"{RUNS}/9000",
    )
    return replace(bare, **given)  # type: ignore[arg-type]


@dataclass(frozen=True)
class World:
    """What the three files of a report hold."""

    verdicts: Verdicts
    history: History
    records: tuple[Record, ...] = ()


def world(
    judged: Sequence[tuple[Series, Verdict]], records: Sequence[Record] = (), **given: object
) -> World:
    """Series with their verdicts; `given` are further fields of the Verdicts."""
    verdicts = Verdicts(night(0), f"{night(0)}T03:00:00Z", tuple(v for _, v in judged))
    history = History({s.id: s for s, _ in judged}, (last_night(),))
    return World(replace(verdicts, **given), history, tuple(records))  # type: ignore[arg-type]


def last_night(**given: object) -> Night:
    bare = Night(night(0), f"{night(0)}T02:30:00Z", "9000", commit(0), True, run_url=f"{RUNS}/9000")
    return replace(bare, **given)  # type: ignore[arg-type]


def busy() -> World:
    """A morning with something of everything."""
    slow = Plan(
        "this kernel M=4 warm", 160, steps=((3, 0.062),), gaps=frozenset({20, 21, 50}),
        unusable={33: "clocks held down by SwThermalSlowdown"}, again=frozenset({0}),
    )  # fmt: skip
    accepted = Plan("this kernel M=1 cold", 400, steps=((60, 0.08), (30, -0.055)))
    speed = Plan("tokens per second", 80, "tok/s", Direction.HIGHER, 1834.0, compared=False)
    noisy = Plan("F.linear M=64 warm", 45, base=41.0, spread=0.02)
    bits = Plan("bits of the frozen form", 60, EXACT, failed=frozenset({0, 40}))
    good = Plan("bits of F.linear", 60, EXACT, unusable={7: "another process on the GPU: 4711"})
    young = Plan("this kernel M=16 warm", 4)
    steady = [Plan(f"this kernel M={m} warm", 100, base=5.0 + m / 4) for m in (2, 8, 32, 64)]
    accepts = [
        Accept(night(60), f"{night(55)}T09:00:00Z", "ana", "needed for exact rounding (#41)")
    ]
    events = [
        Event(
            night(59), f"{night(59)}T03:00:00Z", Turn.REGRESSION, night(60), commit(60), commit(61),
            0.08, 0.071, 0.089, 1.08, Confirmed.SECOND_NIGHT.value,
        )
    ]  # fmt: skip
    changed = {
        "since": night(3), "since_commit": commit(3), "last_good": commit(4),
        "confirmed_by": Confirmed.SECOND_NIGHT,
        "reason": f"slower than the accepted level since {night(3)}, confirmed by a second night",
    }  # fmt: skip
    judged = [
        (series(slow), verdict(slow, Status.REGRESSION, **changed)),
        (series(bits), verdict(bits, Status.REGRESSION, since=night(0), since_commit=commit(0),
            last_good=commit(1), confirmed_by=Confirmed.EXACT, reason="bits differ")),
        (series(noisy), verdict(noisy, Status.NOISY, reason="its pairs spread by 4.1 %")),
        (series(young), verdict(young, Status.TOO_LITTLE, reason="4 usable nights of 10")),
        (series(accepted, accepts, events), verdict(accepted, Status.IMPROVEMENT, level=1.08,
            since=night(30), since_commit=commit(30), last_good=commit(31), accepted=True,
            confirmed_by=Confirmed.PAIRED, change=-0.055, low=-0.061, high=-0.048)),
        (series(speed), verdict(speed)), (series(good), verdict(good, reason="bits are equal")),
        *((series(p), verdict(p)) for p in steady),
    ]  # fmt: skip
    suites = (
        SuiteNight(
            "nightly-kernel-1-gpu-small", 1284, 1, 3, ("test_sweep.py::test_rounding[M=7]",)
        ),
        SuiteNight("nightly-sanitizer", 12, 0, 0),
    )
    found = world(
        judged, [record([slow, bits, noisy, young, accepted, good, *steady])],
        missing=(night(21), night(20)), suites=suites,
    )  # fmt: skip
    failed_run = Night(night(20), f"{night(20)}T02:30:00Z", "8980", commit(20), False,
        ("no GPU answered",), run_url=f"{RUNS}/8980")  # fmt: skip
    return replace(found, history=replace(found.history, nights=(failed_run, last_night())))


def one_cause(metrics: int = 14) -> World:
    """One commit made all of these worse, and left others alone."""
    plans = [
        Plan(f"this kernel M={n + 1} warm", 60, base=5.0 + n / 4, steps=((3, 0.05 + n / 500),))
        for n in range(metrics)
    ]
    steady = [Plan(f"F.linear M={n} warm", 60, base=8.0) for n in (1, 16)]
    changed = {
        "since": night(3), "since_commit": commit(3), "last_good": commit(4),
        "confirmed_by": Confirmed.SECOND_NIGHT,
        "reason": f"slower than the accepted level since {night(3)}, confirmed by a second night",
    }  # fmt: skip
    judged = [(series(p), verdict(p, Status.REGRESSION, **changed)) for p in plans]
    judged += [(series(p), verdict(p)) for p in steady]
    return world(judged, [record([*plans, *steady])])


HOSTILE = (
    "<script>window.hit = 1</script>",
    '"><img src=x onerror="window.hit = 2">',
    "a|b `c` **d** @octo #1 [e](https://evil.example)",
    "$\\frac{1}{0}$ {{ 7 * 7 }} {% raw %}",
    "Ωμέγα 性能 \u202edrow",
    "x" * 3000,
)


def hostile() -> World:
    """Every text that comes from outside is an attack on the page or on the summary."""
    evil = "".join(HOSTILE[:5])
    judged, plans = [], [Plan(name, 40, unit=f"<i>{HOSTILE[3]}") for name in HOSTILE]
    for plan in plans:
        found = series(plan, [Accept(night(9), f"{night(9)}T09:00:00Z", evil, evil)])
        points = tuple(
            replace(p, commit=evil, run_url=f"javascript:{evil}", unusable=(evil,) * (i == 30))
            for i, p in enumerate(found.points)
        )
        changed = {"since": night(2), "since_commit": evil, "last_good": evil, "reason": evil}
        judged.append(
            (
                replace(found, points=points),
                verdict(plan, Status.REGRESSION, commit=evil, watch=True, **changed),
            )
        )
    state = MachineState(evil, 1, 1, 1, 1.0, 1, (evil,), (evil,), 1.0)
    one = record(
        plans, commit=evil, command=(evil, evil), run_id=evil, run_url=f"javascript:{evil}",
        versions={evil: evil}, before=state, after=state, during=(state,), unusable=(evil,),
        checks=(Check(evil, False, evil),), machine=Machine(GPU, "580.1", evil, evil, evil),
    )  # fmt: skip
    suites = (SuiteNight(evil, 1, 1, 1, (evil,), (evil,)),)
    found = world(judged, [one], missing=(night(1),), suites=suites, messages=(evil,))
    bad = Night(night(1), f"{night(1)}T02:30:00Z", evil, evil, False, (evil,), (), f"data:{evil}")
    return replace(found, history=replace(found.history, nights=(bad,), messages=(evil,)))


def ten_years(metrics: int = 50, nights: int = 3650) -> World:
    """Many series, all with the figures of one, since making them takes longer than the report."""
    first = Plan("metric 0", nights, steps=((1500, 0.04), (300, -0.03)))
    points, plans = series(first).points, [first]
    plans += [replace(first, metric=f"metric {n}") for n in range(1, metrics)]
    model = verdict(first)
    ids = [series_id(plan.metric) for plan in plans]
    judged = [
        (Series(found, first.unit, first.direction, points), replace(model, id=found))
        for found in ids
    ]
    one = record([first])
    measurements = tuple(replace(one.measurements[0], metric=plan.metric) for plan in plans)
    return world(judged, [replace(one, measurements=measurements)])


def write(where: World, folder: Path) -> list[str]:
    """Write everything below `folder`; the arguments of `runci perf report` but the outputs."""
    history, verdicts = folder / "history", folder / "verdicts.json"
    start_folder(history)
    additions = Additions(
        tuple(
            Addition(SeriesHeader(s.id, s.unit, s.direction), (*s.points, *s.accepts, *s.events))
            for s in where.history.series.values()
        ),
        where.history.nights,
    )
    append_folder(history, lambda _: additions)
    verdicts.write_bytes(encode(where.verdicts))
    arguments = [str(verdicts), "--history", str(history)]
    for index, one in enumerate(where.records):
        path = folder / f"record{index}.json"
        path.write_bytes(encode(one))
        arguments += ["--record", str(path)]
    return arguments
