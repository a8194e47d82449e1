"""How often the nightly alarms for nothing, and how soon it finds what is there.

`python bench_nightly.py` replays simulated series night by night, as `runci perf check --push` does
it: each night sees only what was known then, with the events of the nights before. It needs the
environment of the extra `perf`. nightly_series.py says what is planted: as in the figures that the
rule is compared with, 3 % of the runs are ten sigma off; two kinds are harder: there, whole nights
of the candidate are. The rule was tuned on the seeds 1 and 2026; the table is of another.

The first night at a new level is delay 1. An event that nothing planted explains is a false alarm,
so is a second event for the same fault, and a recovery from one that is still there.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial

from measure import machine
from nightly_series import FIRST, KINDS, Planted, make

from runci.config.perf import Rule
from runci.nightly.decide.series import decide
from runci.nightly.decide.state import Tools
from runci.nightly.decide.values import ChangePoints, Value, bootstrap_interval, otava, read_nights
from runci.nightly.history.lines import Turn
from runci.text.tables import render_markdown

SEED = 2027
SERIES = 150
WITHIN = 7
ALARMS = 0.5  # false ones in 1,000 metric-nights
DELAY = 2.0
STEPS = ("step", "step among spikes", "gap", "direction")
NO_GOAL = "bimodal, sticky"  # a mode that stays for days is a change for as long as it stays
NEAR = 5  # nights: where a naive rule's change point may wander and still be the same alarm


@dataclass(frozen=True)
class Alarm:
    """What a rule said on the usable night `night` (its index in the simulated calendar)."""

    night: str
    turn: Turn


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


@cache
def tools() -> Tools:
    return Tools(otava(Rule()), bootstrap_interval())


@cache
def defaults() -> ChangePoints:
    """Otava as it comes: any magnitude."""
    return otava(Rule(min_change=0.0))


def ours(planted: Planted) -> Iterator[Alarm]:
    """The decision of `runci perf check`, its events fed back."""
    series = planted.series
    for point in planted.series.points:
        _, events = decide(series, Rule(), point.night, point.at, tools())
        series = replace(series, events=series.events + events)
        yield from (Alarm(point.night, event.turn) for event in events)


def naive(
    planted: Planted, value: Callable[[Value], float], find: Callable[[], ChangePoints], after: int
) -> Iterator[Alarm]:
    """Each new change point is an alarm, once `after` nights follow it. It remembers its alarms."""
    usable = read_nights(planted.series.points, "9").usable
    values = [value(night) for night in usable]
    known: list[int] = []
    for last in range(9, len(values)):
        for index in find()(values[: last + 1]):
            if last + 1 - index >= after and all(abs(index - k) >= NEAR for k in known):
                known.append(index)
                worse = (values[index] > values[index - 1]) == (
                    planted.series.direction.value == "lower"
                )
                yield Alarm(usable[last].night, Turn.REGRESSION if worse else Turn.IMPROVEMENT)


def first_pair(night: Value) -> float:
    return night.pairs[0]


def median_pair(night: Value) -> float:
    return night.value


def ours_points() -> ChangePoints:
    return tools().change_points


RULES: dict[str, tuple[Callable[[Planted], Iterator[Alarm]], bool, tuple[str, ...]]] = {
    # what it does, whether with re-runs, and the kinds that it is shown for
    "one pair, any change point": (
        partial(naive, value=first_pair, find=defaults, after=1),
        False,
        ("none", "step"),
    ),
    "median of 5, any change point": (
        partial(naive, value=median_pair, find=defaults, after=1),
        False,
        ("none", "step"),
    ),
    "median of 5, at least 3 %, second night": (
        partial(naive, value=median_pair, find=ours_points, after=2),
        False,
        ("none", "step", "spike", "bimodal"),
    ),
    "runci": (ours, False, tuple(KINDS)),
    "runci, with re-runs": (ours, True, ("none", "step", "spike")),
}


def judge(planted: Planted, alarms: Sequence[Alarm]) -> Outcome:
    usable = [night.night for night in read_nights(planted.series.points, "9").usable]
    first = None
    false = 0
    is_open = False  # what is open was never there
    for alarm in alarms:
        due = planted.turn is not None and int_of(alarm.night) >= planted.begin
        if due and first is None and alarm.turn is planted.turn:
            first = alarm
        elif alarm.turn is Turn.RECOVERED and is_open:
            is_open = False
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
    mine = [row for row in table if row.rule == "runci" and row.kind != NO_GOAL]
    if not mine:
        return []
    rate = 1000 * sum(r.false for r in mine) / sum(r.nights for r in mine)
    steps = [row for row in mine if row.kind in STEPS]
    within, planted = sum(r.within for r in steps), sum(r.planted for r in steps)
    delays = [delay for row in steps for delay in row.delays]
    middle = statistics.median(delays) if delays else float("inf")
    return [
        [
            "false alarms in 1,000 metric-nights, all kinds but the sticky one",
            f"{rate:.2f}",
            f"<= {ALARMS}",
        ],
        [f"steps of 5 % found in {WITHIN} nights", f"{within} of {planted}", "all"],
        ["median delay, nights", f"{middle:g}", f"<= {DELAY:g}"],
    ]


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
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args()
    started = time.perf_counter()
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
