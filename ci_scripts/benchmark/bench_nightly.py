"""How often the nightly alarms for nothing, and how soon it finds what is there.

`python bench_nightly.py` replays simulated series night by night, as `runci perf check --push` does
it, with an alert threshold, three sigma and Otava beside it, which needs the environment of the
extra `perf`. nightly_series.py says what is planted. `--real FILE` replays real histories instead,
one JSON object a line: `set`, `direction`, `candidate` (a list of runs a night).

The first night at a new level is delay 1. In a simulated series an event that nothing planted
explains is a false alarm; in a real one an alarm is, whose level is back within 14 nights. Its
clear steps are found without any rule: where the medians of 14 nights before and after differ by
3 % or more and by three times their spread.
"""

from __future__ import annotations

import argparse
import datetime
import json
import lzma
import math
import multiprocessing
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path

from measure import machine
from nightly_series import FIRST, KINDS, Planted, date, make

from runci.config.perf import Rule
from runci.nightly.decide.series import decide
from runci.nightly.decide.values import read_nights
from runci.nightly.history.lines import Point, Series, Turn
from runci.nightly.record import Direction, SeriesId
from runci.text.tables import render_markdown

SEED = 2027
SERIES = 150
WITHIN = 7
ALARMS = 0.5  # false ones in 1,000 metric-nights
DELAY = 2.0
STEPS = ("step", "step among spikes", "gap", "direction", "driver change")
# A mode that stays for days, and noise that remembers, are a change for as long as they last.
NO_GOAL = ("bimodal", "bimodal, sticky", "correlated")
NEAR = 5  # nights: where a naive rule's change point may wander and still be the same alarm
LASTING = 14  # nights after which a real alarm's level must still be there
LEAST = 0.03


@dataclass(frozen=True)
class Alarm:
    """What a rule said on the usable night `night` (its index in the simulated calendar)."""

    night: str
    turn: Turn
    since: str = ""


@dataclass(frozen=True)
class Outcome:
    """What came of one series."""

    nights: int
    false: int
    planted: bool
    delay: int | None


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    rule: str
    kind: str
    series: int
    nights: int
    false: int
    planted: int
    within: int
    delays: tuple[int, ...]

    @property
    def rate(self) -> float:
        """False alarms in 1,000 metric-nights."""
        return 1000 * self.false / self.nights


def ours(planted: Planted) -> Iterator[Alarm]:
    """The decision of `runci perf check`, its events fed back."""
    series = planted.series
    for point in sorted((*series.points, *planted.kin_points), key=lambda one: one.night):
        kin = (replace(planted.kin, points=planted.kin_points),) if planted.kin else ()
        _, events = decide(series, Rule(), point.night, point.at, kin=kin)
        series = replace(series, events=series.events + events)
        yield from (Alarm(point.night, event.turn, event.since) for event in events)


def figures(planted: Planted) -> tuple[list[str], list[float]]:
    """The usable nights and their values, above the one before worse."""
    points = (*planted.kin_points, *planted.series.points)
    usable = read_nights(points, "9").usable
    sign = 1.0 if planted.series.direction is Direction.LOWER else -1.0
    return [v.night for v in usable], [v.value**sign for v in usable]


def threshold(planted: Planted, over: float) -> Iterator[Alarm]:
    """As a continuous benchmark's alert: against the night before."""
    nights, values = figures(planted)
    for n in range(1, len(values)):
        if values[n] >= over * values[n - 1]:
            yield Alarm(nights[n], Turn.REGRESSION, nights[n])


def sigmas(planted: Planted, window: int = 30) -> Iterator[Alarm]:
    """Three standard deviations above the mean of the last nights."""
    nights, values = figures(planted)
    for n in range(10, len(values)):
        last = values[max(n - window, 0) : n]
        if values[n] > statistics.fmean(last) + 3 * statistics.stdev(last):
            yield Alarm(nights[n], Turn.REGRESSION, nights[n])


def otava(planted: Planted, least: float = LEAST, window: int = 50) -> Iterator[Alarm]:
    """Each new change point is an alarm. It remembers its alarms, and sees the last 100 nights."""
    from otava.analysis import compute_change_points

    nights, values = figures(planted)
    known: list[int] = []
    for last in range(9, len(values)):
        start = max(last + 1 - 2 * window, 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # two levels without any noise divide by zero
            found, _ = compute_change_points(
                values[start : last + 1],
                window_len=window,
                max_pvalue=0.001,
                min_magnitude=least,
            )
        for at in (start + point.index for point in found):
            if all(abs(at - one) >= NEAR for one in known):
                known.append(at)
                before, after = values[max(at - 10, 0) : at], values[at : last + 1]
                worse = statistics.fmean(after) > statistics.fmean(before)
                turn = Turn.REGRESSION if worse else Turn.IMPROVEMENT
                yield Alarm(nights[last], turn, nights[at])


PEERS = ("none", "none, noisy", "step", "creep", "weekly", "weekly, step", "spike", "bimodal")
RULES: dict[str, tuple[Callable[[Planted], Iterator[Alarm]], bool, tuple[str, ...]]] = {
    # what it does, whether with re-runs, and the kinds that it is shown for
    "alert at 105 %": (partial(threshold, over=1.05), False, PEERS),
    "alert at 150 %": (partial(threshold, over=1.5), False, PEERS),
    "3 sigma": (sigmas, False, PEERS),
    "Otava, at least 3 %": (otava, False, PEERS),
    "runci": (ours, False, tuple(KINDS)),
    "runci, with re-runs": (ours, True, ("none", "step", "spike")),
}


def judge(planted: Planted, alarms: Sequence[Alarm]) -> Outcome:
    usable = figures(planted)[0]
    first = None
    false = 0
    is_open = False  # what is open was never there
    for alarm in alarms:
        if int_of(alarm.night) < planted.quiet:
            continue
        due = planted.turn is not None and int_of(alarm.night) >= planted.begin
        if due and first is None and alarm.turn is planted.turn:
            first = alarm
        elif alarm.turn is Turn.RECOVERED and is_open:
            is_open = False
        elif due and planted.goes_on and alarm.turn is Turn.REGRESSION:
            pass  # it got worse since, and each step is told
        else:
            false += 1
            is_open = alarm.turn is Turn.REGRESSION
    delay = None
    if first is None and is_open and planted.turn is Turn.REGRESSION:
        delay = 1  # opened a little too early, and rightly open since
    if first is not None:
        passed = sum(planted.at <= int_of(night) <= int_of(first.night) for night in usable)
        delay = max(passed, 1)
    return Outcome(len(usable), false, planted.turn is not None, delay)


@cache
def int_of(night: str) -> int:
    """The index of a night."""
    return (datetime.date.fromisoformat(night) - FIRST).days


def one(task: tuple[str, str, int, int]) -> Outcome:
    rule, kind, seed, number = task
    alarms, rerun, _ = RULES[rule]
    planted = make(kind, seed, number, rerun)
    return judge(planted, list(alarms(planted)))


def rows(count: int, seed: int, chosen: Sequence[str], jobs: int) -> Iterator[Row]:
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs) as pool:
        for rule in chosen:
            for kind in RULES[rule][2]:
                progress(f"{rule}: {kind}")
                tasks = [(rule, kind, seed, number) for number in range(count)]
                yield row_of(rule, kind, pool.map(one, tasks, chunksize=4))
    progress("")


def row_of(rule: str, kind: str, outcomes: Sequence[Outcome]) -> Row:
    delays = tuple(o.delay for o in outcomes if o.delay is not None)
    return Row(
        rule,
        kind,
        len(outcomes),
        sum(o.nights for o in outcomes),
        sum(o.false for o in outcomes),
        sum(o.planted for o in outcomes),
        sum(delay <= WITHIN for delay in delays),
        tuple(sorted(delays)),
    )


def shown(row: Row) -> list[str]:
    found = f"{row.within} of {row.planted}" if row.planted else ""
    middle = f"{statistics.median(row.delays):g}" if row.delays else ""
    late = row.planted - len(row.delays)
    worst = (f"{row.delays[-1]}" if row.delays else "") + (f", {late} never" if late else "")
    return [
        row.rule,
        row.kind,
        str(row.series),
        f"{row.nights:,}",
        str(row.false),
        f"{row.rate:.2f}",
        found,
        middle,
        worst,
    ]


HEADERS = [
    "rule",
    "kind of fault",
    "series",
    "nights",
    "false alarms",
    "in 1,000",
    f"found in {WITHIN} nights",
    "median delay",
    "worst",
]


def goals(table: Sequence[Row]) -> list[list[str]]:
    """What is asked of the rule, over all kinds but one, and for steps."""
    mine = [row for row in table if row.rule == "runci" and row.kind not in NO_GOAL]
    if not mine:
        return []
    rate = 1000 * sum(r.false for r in mine) / sum(r.nights for r in mine)
    steps = [row for row in mine if row.kind in STEPS]
    within, planted = sum(r.within for r in steps), sum(r.planted for r in steps)
    delays = [delay for row in steps for delay in row.delays]
    middle = statistics.median(delays) if delays else float("inf")
    return [
        [
            f"false alarms in 1,000 metric-nights, all kinds but {', '.join(NO_GOAL)}",
            f"{rate:.2f}",
            f"<= {ALARMS}",
        ],
        [f"steps of 5 % found in {WITHIN} nights", f"{within} of {planted}", "all"],
        ["median delay, nights", f"{middle:g}", f"<= {DELAY:g}"],
    ]


def real(path: Path) -> dict[str, list[Planted]]:
    """Real histories by their set; single runs count three times, since fewer are no night."""
    data = path.read_bytes()
    lines = (lzma.decompress(data) if path.suffix == ".xz" else data).splitlines()
    sets: dict[str, list[Planted]] = {}
    for number, one in enumerate(map(json.loads, lines)):
        points = [
            Point(date(n), f"{date(n)}T03:00:00Z", str(n), f"{n:040x}", candidate=runs)
            for n, runs in enumerate(map(_three, one["candidate"]))
        ]
        name = SeriesId(str(number), "real", "1", "GPU", 580)
        series = Series(name, one["unit"], Direction(one["direction"]), tuple(points))
        sets.setdefault(one["set"], []).append(Planted(series))
    return sets


def _three(runs: Sequence[float]) -> tuple[float, ...]:
    return tuple(runs) if len(runs) >= 3 else (statistics.median(runs),) * 3


@dataclass(frozen=True)
class Real:
    """What came of one real series: its nights, false and lasting alarms, clear steps and found."""

    nights: int
    false: int
    lasting: int
    clear: int
    found: int


def one_real(task: tuple[str, Planted]) -> Real:
    rule, planted = task
    nights, raw = figures(planted)
    values = [math.log(value) for value in raw]
    place = {night: n for n, night in enumerate(nights)}
    alarms = [a for a in RULES[rule][0](planted) if a.turn is Turn.REGRESSION]
    told = [(place[a.night], place[a.since]) for a in alarms]
    judged = [
        statistics.median(values[at + 1 : at + 1 + LASTING])
        - statistics.median(values[max(since - LASTING, 0) : max(since, 1)])
        >= LEAST / 2
        for at, since in told
        if len(values) > at + LASTING // 2
    ]
    clear = clear_steps(values)
    found = sum(
        any(c - 3 <= at <= c + LASTING and abs(since - c) <= LASTING for at, since in told)
        for c in clear
    )
    return Real(len(values), judged.count(False), judged.count(True), len(clear), found)


def clear_steps(values: Sequence[float]) -> list[int]:
    """Where a level of `LASTING` nights is clearly worse than the one before."""
    sizes: dict[int, float] = {}
    for n in range(LASTING, len(values) - LASTING + 1):
        sides = [values[n - LASTING : n], values[n : n + LASTING]]
        before, after = map(statistics.median, sides)
        spread = max(
            1.4826 * statistics.median(abs(v - m) for v in side)
            for side, m in zip(sides, (before, after), strict=True)
        )
        if after - before >= max(LEAST, 3 * spread):
            sizes[n] = after - before
    groups: list[list[int]] = []
    for n in sizes:
        if not groups or n - groups[-1][-1] > 3:
            groups.append([])
        groups[-1].append(n)
    return [max(group, key=sizes.__getitem__) for group in groups]


def real_rows(path: Path, chosen: Iterable[str], jobs: int) -> Iterator[list[str]]:
    sets = real(path)
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for name, series in sets.items():
            for rule in chosen:
                progress(f"{name}: {rule}")
                found = pool.map(one_real, [(rule, one) for one in series], chunksize=2)
                nights = sum(one.nights for one in found)
                yield [
                    name,
                    rule,
                    str(len(series)),
                    f"{nights:,}",
                    f"{1000 * sum(one.false for one in found) / nights:.2f}",
                    f"{1000 * sum(one.lasting for one in found) / nights:.2f}",
                    f"{sum(o.found for o in found)} of {sum(o.clear for o in found)}",
                ]
    progress("")


REAL_HEADERS = [
    "set", "rule", "series", "nights", "false in 1,000", "lasting in 1,000", "clear steps found",
]  # fmt: skip


def progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description="replay simulated nights")
    parser.add_argument("--series", type=int, default=SERIES, help=f"of each kind ({SERIES})")
    parser.add_argument("--seed", type=int, default=SEED, help=f"({SEED})")
    parser.add_argument("--rule", action="append", choices=list(RULES), help="default: all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--real", type=Path, metavar="FILE", help="replay these histories instead")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args()
    started = time.perf_counter()
    if options.real:
        shown_real = list(real_rows(options.real, options.rule or list(RULES)[:5], options.jobs))
        print(", ".join(f"{name}: {value}" for name, value in machine().items()) + "\n")
        print(render_markdown(REAL_HEADERS, shown_real, "<<>>>>>"))
        print(f"{time.perf_counter() - started:.0f} s")
        return 0
    table = list(rows(options.series, options.seed, options.rule or list(RULES), options.jobs))
    if options.json:
        print(json.dumps([asdict(row) for row in table]))
        return 0
    print(", ".join(f"{name}: {value}" for name, value in machine().items()) + "\n")
    print(render_markdown(HEADERS, map(shown, table), "<<>>>>>>>"))
    print(render_markdown(["the rule of runci", "reached", "goal"], goals(table), "<>>"))
    print(f"{time.perf_counter() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
