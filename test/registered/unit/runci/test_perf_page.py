"""What the page of a night shows, its summary and its badge: against figures computed here."""

from __future__ import annotations

import datetime
import html
import itertools
import math
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import perf_world as sim
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from runci import register_cpu_ci
from runci.cli import main
from runci.perf.decide.values import read_nights
from runci.perf.lines import Accept, Event, History, Night, Point, SuiteNight, Turn
from runci.perf.metric import EXACT, Direction, anchor
from runci.perf.page import words
from runci.perf.page.badge import COLOURS, badge
from runci.perf.page.curve import Curve, curve
from runci.perf.page.headline import Headline, Mood, headline
from runci.perf.page.markdown import summary
from runci.perf.page.nights import RECENT, thin, value
from runci.perf.page.pairs import pairs
from runci.perf.page.view import Page, view
from runci.perf.verdict import Status, Verdict, Verdicts

register_cpu_ci(est_time=12, stage="base-a", runner_config="cpu")

PLAN = sim.Plan("kernel", 30)
DASH = words.NONE


def shown(where: sim.World) -> Page:
    return view(where.verdicts, where.history, where.records)


# Numbers and words.


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (6.0123, "6.012"),
        (0.00012346, "0.0001235"),
        (1834.4, "1,834"),
        (12_345_678.0, "12,345,678"),
        (0.0, "0"),
        (-2.5, "-2.500"),
        (3e12, "3.000e+12"),
        (2e-9, "2.000e-09"),
        (math.nan, DASH),
        (math.inf, DASH),
        (None, DASH),
    ],
)
def test_numbers_have_four_digits(figure: float | None, text: str) -> None:
    assert words.number(figure) == text


@pytest.mark.parametrize(
    ("relative", "text"),
    [
        (0.0523, "5.2 % worse"),
        (-0.031, "3.1 % better"),
        (0.0004, "0.0 %"),
        (-0.0004, "0.0 %"),
        (12.0, "1,200.0 % worse"),
        (None, DASH),
        (math.nan, DASH),
    ],
)
def test_a_change_says_which_way(relative: float | None, text: str) -> None:
    assert words.change(relative) == text


def test_other_words() -> None:
    assert words.interval(-0.061, 0.048) == f"{words.MINUS}6.1 to +4.8 %"
    assert words.interval(-0.0001, 0.0001) == "0.0 to 0.0 %"
    assert words.interval(None, 0.1) == DASH
    assert words.ratio(1.0519) == f"1.052{words.TIMES}"
    assert words.amount(6.0, "us") == "6.000 µs"
    assert words.amount(None, "us") == DASH
    assert words.short("0123456789abcdef") == "012345678"
    assert words.better(Direction.HIGHER) == "higher is better"
    assert words.listed(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
    assert words.listed(["a"]) == "a"
    assert words.day("2026-02-30") is None
    assert words.day("tonight") is None
    assert words.cut("x" * 90, 10) == "x" * 9 + "…"


@pytest.mark.parametrize(
    ("ticks", "labels"),
    [
        ([0.95, 1.0, 1.05], ["0.95", "1.00", "1.05"]),
        ([1.0, 1.0025], ["1.0000", "1.0025"]),
        ([0.0, 500.0, 1000.0], ["0", "500", "1,000"]),
        ([-1.0, 1.0], [f"{words.MINUS}1", "1"]),
        ([1e12, 2e12], ["1e+12", "2e+12"]),
        ([], []),
    ],
)
def test_the_labels_of_an_axis_have_the_same_decimals(
    ticks: list[float], labels: list[str]
) -> None:
    assert words.scale(ticks) == labels


@pytest.mark.parametrize(
    ("url", "safe"),
    [
        ("https://github.com/o/r/actions/runs/1", True),
        ("http://localhost:8000/x", True),
        ("javascript:alert(1)", False),
        ("data:text/html,x", False),
        ("https:alert(1)", False),
        ("//evil.example/x", False),
        ("http://[", False),
        ("", False),
    ],
)
def test_only_addresses_of_the_web_become_links(url: str, safe: bool) -> None:
    assert words.safe_url(url) == (url if safe else None)


def test_commits_link_to_the_repository_of_the_run() -> None:
    run, one, two = f"{sim.RUNS}/9", "a" * 40, "b" * 40
    page = "https://github.com/octo/kernels"
    assert words.commit_url(run, one) == f"{page}/commit/{one}"
    assert words.commit_url(run, one, two) == f"{page}/compare/{two}...{one}"
    for bad in ("", None, "HEAD", f"{one}/../..", "<b>"):
        assert words.commit_url(run, bad) is None
    assert words.commit_url(run, one, "x/y") is None
    assert words.commit_url("https://example.org/other/9", one) is None
    assert words.commit_url("javascript:https://github.com/o/r/actions/runs/1", one) is None


# The headline.


def verdicts(*statuses: Status, **given: object) -> Verdicts:
    judged = tuple(
        sim.verdict(replace(PLAN, metric=f"m{i}"), status) for i, status in enumerate(statuses)
    )
    bare = Verdicts(sim.night(0), f"{sim.night(0)}T03:00:00Z", judged)
    return replace(bare, **given)  # type: ignore[arg-type]


FAILED = (SuiteNight("nightly-x", 9, 1, 0, ("t",)),)


@pytest.mark.parametrize(
    ("given", "mood", "text", "said"),
    [
        (verdicts(Status.STEADY), Mood.GOOD, "Nothing got worse.", "steady"),
        (verdicts(Status.STEADY, Status.IMPROVEMENT), Mood.GOOD, "Nothing got worse.", "steady"),
        (verdicts(Status.STEADY, Status.NOISY), Mood.WARN, "Nothing got worse.", "steady"),
        (
            verdicts(Status.STEADY, missing=("2026-11-28",)),
            Mood.WARN,
            "Nothing got worse.",
            "1 missing",
        ),
        (verdicts(), Mood.WARN, "Nothing was measured.", "nothing measured"),
        (verdicts(Status.MISSING), Mood.WARN, "Nothing was measured.", "nothing measured"),
        (
            verdicts(Status.TOO_LITTLE, Status.MISSING),
            Mood.WARN,
            "Nothing can be said yet: too little history.",
            "too little history",
        ),
        (
            verdicts(Status.STEADY, suites=FAILED),
            Mood.BAD,
            "Nightly tests failed: nightly-x.",
            "tests failed",
        ),
        (
            verdicts(suites=(SuiteNight("y", 0, 0, 0, (), ("no result of test_z.py",)),)),
            Mood.BAD,
            "Nightly tests failed: y.",
            "tests failed",
        ),
    ],
)
def test_the_headline(given: Verdicts, mood: Mood, text: str, said: str) -> None:
    found = headline(given)
    assert (found.mood, found.text, found.badge) == (mood, text, said)


def test_the_headline_of_regressions_names_them() -> None:
    worse = sim.verdict(PLAN, Status.REGRESSION, change=0.0523, since="2026-11-20")
    found = headline(Verdicts(sim.night(0), "", (worse,), suites=FAILED))
    assert found.text == "1 regression: kernel (5.2 % worse since 2026-11-20)."
    assert (found.mood, found.badge) == (Mood.BAD, "1 regression")
    assert "Nightly tests failed: nightly-x." in found.more
    found = headline(verdicts(*[Status.REGRESSION] * 5, Status.STEADY))
    assert found.text.startswith("5 regressions: m0 (")
    assert found.text.endswith(" and 2 more.")
    assert found.badge == "5 regressions"


def test_the_headline_tells_what_else_to_know() -> None:
    watched = sim.verdict(replace(PLAN, metric="maybe"), watch=True)
    found = headline(
        verdicts(Status.NOISY, Status.MISSING, Status.RECOVERED, Status.TOO_LITTLE, Status.STEADY)
    )
    assert found.more == (
        "1 metric too noisy to judge: m0.",
        "1 metric not measured: m1.",
        "1 metric recovered: m2.",
        "1 metric with too little history.",
    )
    assert headline(Verdicts("", "", (watched,))).more == (
        "1 metric to watch, not confirmed: maybe.",
    )


# The view.


def test_the_figures_are_those_of_the_record() -> None:
    where = sim.busy()
    page = shown(where)
    rows = {row.metric: row for row in page.rows}
    sections = {part.metric: part for part in page.sections}
    (record,) = where.records
    for measured in record.measurements:
        ratio = statistics.median(
            statistics.median(c) / statistics.median(b)
            for c, b in zip(measured.candidate, measured.baseline, strict=True)
        )
        assert rows[measured.metric].value == f"{ratio:.3f}{words.TIMES}"
        part = sections[measured.metric]
        middle = statistics.median(map(statistics.median, measured.candidate))
        assert ("candidate", f"{middle:.{3 if middle < 10 else 2}f} µs") in part.facts
        assert part.pairs is not None
        assert [r.middle for r in part.pairs.candidate if r] == [
            pytest.approx(statistics.median(s))
            for s in (*measured.candidate, *measured.again_candidate)
        ]
        assert part.nights[0].night == record.night
        assert (part.nights[0].candidate, part.nights[0].ratio) == (
            dict(part.facts)["candidate"],
            f"{ratio:.3f}{words.TIMES}",
        )
    assert rows["tokens per second"].value.endswith(" tok/s")
    assert rows["bits of the frozen form"].value == "failed"
    assert rows["bits of F.linear"].value == "passed"


def test_the_worst_is_first_and_every_metric_has_its_part() -> None:
    where = sim.busy()
    backwards = replace(where.verdicts, verdicts=where.verdicts.verdicts[::-1])
    page = view(backwards, where.history, where.records)
    order = [status.value for status in Status]
    assert [row.status for row in page.rows] == sorted(
        (row.status for row in page.rows), key=order.index
    )
    assert [row.anchor for row in page.rows] == [part.anchor for part in page.sections]
    assert {row.anchor for row in page.rows} == {anchor(s) for s in where.history.series}
    assert {part.metric for part in page.sections if not part.open} == {
        row.metric for row in page.rows if row.status == "steady"
    }
    assert page.counts[0] == ("regression", 2)


def test_confirmation_reads_as_it_was_decided() -> None:
    found = {row.metric: row for row in shown(sim.busy()).rows}
    slow = found["this kernel M=4 warm"]
    assert (slow.confirmed, slow.since) == ("a second night", sim.night(3))
    assert slow.since_commit.text == sim.commit(3)[:9]
    assert slow.since_commit.url == (
        f"https://github.com/octo/kernels/compare/{sim.commit(4)}...{sim.commit(3)}"
    )
    assert found["this kernel M=2 warm"].confirmed == DASH
    watched = sim.verdict(PLAN, watch=True)
    (row,) = shown(sim.world([(sim.series(PLAN), watched)])).rows
    assert row.confirmed == "not confirmed"


def test_missing_nights_say_what_is_known() -> None:
    no_gpu, no_run = shown(sim.busy()).missing
    assert (no_run.night, no_run.why, no_run.run.url) == (sim.night(21), "no run", None)
    assert (no_gpu.why, no_gpu.run.text) == ("no GPU answered", "run 8980")
    assert no_gpu.run.url == f"{sim.RUNS}/8980"
    silent = Night("2026-11-01", "", "", "", False)
    page = view(verdicts(missing=("2026-11-01",)), History(nights=(silent,)))
    assert page.missing[0].why == "the run measured nothing"


def test_nights_without_a_run_that_follow_each_other_are_one_line() -> None:
    given = tuple(f"2026-11-{day:02}" for day in (1, 2, 3, 5, 6, 7, 30))
    ran = Night("2026-11-06", "", "1", "", False, ("no GPU",))
    page = view(verdicts(missing=given), History(nights=(ran,)))
    assert [(night.night, night.why) for night in page.missing] == [
        ("2026-11-30", "no run"),
        ("2026-11-07", "no run"),
        ("2026-11-06", "no GPU"),
        ("2026-11-05", "no run"),
        ("2026-11-01 to 2026-11-03, 3 nights", "no run"),
    ]
    assert page.headline.more[0] == (
        "7 nights missing: 2026-11-30, 2026-11-07, 2026-11-06, 2026-11-05, 2026-11-03 and 2 more."
    )


def test_a_report_made_later_shows_the_night_as_it_was() -> None:
    series = sim.series(
        PLAN,
        [Accept(sim.night(2), f"{sim.night(2)}T09:00:00Z", "ana", "later")],
        [
            Event(
                sim.night(1),
                f"{sim.night(1)}T03:00:00Z",
                Turn.REGRESSION,
                sim.night(1),
                "",
                "",
                0.1,
                0.1,
                0.1,
                1.1,
                "",
            )
        ],
    )
    then = sim.verdict(PLAN, night=sim.night(5))
    where = sim.world([(series, then)], night=sim.night(5))
    (part,) = shown(where).sections
    assert part.nights[0].night == sim.night(5)
    assert part.decisions == ()
    assert part.curve is not None
    assert len(part.curve.dots) == 25


def test_what_does_not_fit_together_is_told() -> None:
    verdict = sim.verdict(PLAN)
    old = sim.record([PLAN], night=sim.night(1), unusable=("throttled",))
    odd = sim.record([PLAN])
    odd = replace(odd, machine=replace(odd.machine, driver="unknown"))
    page = view(
        Verdicts(sim.night(0), "", (verdict,), messages=("one", "two")),
        History(messages=("two", "one")),
        [old, odd],
    )
    assert page.messages == (
        "one",
        "two",
        "the record of gemm has the driver 'unknown'",
        f"kernel: a verdict, but no history on {verdict.id.machine_key}",
        f"a record of gemm is of {sim.night(1)}, but the verdicts are of {sim.night(0)}",
        "the figures of gemm do not count tonight: throttled",
    )
    (part,) = page.sections
    assert part.note == "The history has no nights of this metric."
    assert (part.curve, part.nights) == (None, ())


def test_without_a_record_the_history_shows_its_medians() -> None:
    where = sim.busy()
    page = view(where.verdicts, where.history)
    part = next(part for part in page.sections if part.metric == "this kernel M=4 warm")
    last = where.history.series[where.verdicts.verdicts[0].id].points[-1]
    assert part.pairs is not None
    assert not part.pairs.raw
    assert [r.middle for r in part.pairs.baseline if r] == [*last.baseline, *last.again_baseline]
    assert (part.pairs.again, len(part.pairs.candidate)) == (5, 10)
    assert "No record of this metric was given" in part.note
    assert part.command == f"git checkout {sim.commit(0)}\nruncI perf".replace(
        "runcI perf", "runci perf measure gemm --output record.json"
    )
    assert page.runs == ()


def test_the_command_repeats_the_night() -> None:
    slow, bits, *_ = shown(sim.busy()).sections
    assert bits.exact
    assert slow.command == bits.command
    assert slow.command == (
        f"git checkout {sim.commit(0)}\n"
        "runci perf measure gemm --output record.json --repetitions 5 --seed 4711 "
        f"--baseline {sim.PINNED}"
    )
    evil = sim.verdict(replace(PLAN, metric="m"), commit="$(rm -r x); `y`")
    (part,) = shown(sim.world([(sim.series(PLAN), evil)])).sections
    assert part.command.startswith("git checkout '$(rm -r x); `y`'\n")


def test_the_machine_before_during_and_after() -> None:
    record = sim.record([PLAN])
    hot = replace(record.before, temperature=71, processes=("4711 python",))
    cool = replace(record.before, temperature=44, power=None)
    (run,) = shown(
        sim.world([(sim.series(PLAN), sim.verdict(PLAN))], [replace(record, during=(cool, hot))])
    ).runs
    states = {what: rest for what, *rest in run.states}
    assert states["temperature"] == ["41 °C", "71 °C", "63 °C"]
    assert states["power"] == ["65.0 W", "65.0 W", "402.5 W"]
    assert states["SM clock"] == ["2,790 MHz", "2,790 MHz", "2,760 MHz"]
    assert states["other processes on the GPU"] == ["none", "4711 python", "none"]
    assert run.order == "C B B C C B B C B C"
    assert ("seed", "4711") in run.facts
    assert run.versions == (("CUDA", "13.0"), ("torch", "2.13.0"), ("triton", "3.7.1"))


def test_series_of_two_machines_are_told_apart() -> None:
    other = replace(PLAN, gpu="NVIDIA H200")
    page = shown(sim.world([(sim.series(p), sim.verdict(p)) for p in (PLAN, other)]))
    assert [row.machine for row in page.rows] == [
        f"{gpu}/580/gemm/1" for gpu in (sim.GPU, "NVIDIA H200")
    ]
    assert len({row.anchor for row in page.rows}) == 2
    assert page.machines == (f"{sim.GPU}, driver 580", "NVIDIA H200, driver 580")
    alone = shown(sim.world([(sim.series(PLAN), sim.verdict(PLAN))]))
    assert alone.rows[0].machine == ""


@pytest.mark.parametrize("night", ["2026-11-29", "never", ""])
def test_almost_nothing_is_no_fault(night: str) -> None:
    empty = view(Verdicts(night, "", ()), History())
    assert (empty.rows, empty.sections, empty.headline.text) == ((), (), "Nothing was measured.")
    one = Point(night, "", "", "", candidate=(5.0,))
    series = replace(sim.series(PLAN), points=(one,))
    verdict = Verdict(
        series.id, "us", Direction.LOWER, Status.TOO_LITTLE, "1 of 10", night, "", 1, value=5.0
    )
    (part,) = view(Verdicts(night, "", (verdict,)), History({series.id: series})).sections
    assert part.value == "5.000 µs"
    assert (part.curve is None) == (night != "2026-11-29")


# What is drawn.


def drawn(plan: sim.Plan, **given: object) -> Curve:
    found = curve(sim.verdict(plan, **given), sim.series(plan), 0.03)  # type: ignore[arg-type]
    assert found is not None
    return found


def test_a_nights_value_is_the_one_that_was_decided_about() -> None:
    for plan in (PLAN, replace(PLAN, compared=False)):
        series = sim.series(plan)
        decided = {v.night: v.value for v in read_nights(series.points, sim.night(0)).usable}
        assert {p.night: value(p) for p in series.points} == decided
        assert [value(p) for p in series.points] == [sim.ratio(p) for p in series.points]


@pytest.mark.parametrize(
    ("candidate", "baseline", "expected"),
    [
        ((), (), None),
        ((1.0,), (), 1.0),
        ((1.0, 2.0), (), 1.5),
        ((3.0, 8.0, 1.0), (1.0, 2.0, 1.0), 3.0),
        ((3.0, 8.0), (0.0, 2.0), 4.0),
        ((3.0,), (0.0,), None),
        ((math.inf,), (), None),
    ],
)
def test_values_of_odd_nights(
    candidate: Sequence[float], baseline: Sequence[float], expected: float | None
) -> None:
    point = Point("2026-11-29", "", "", "", "", tuple(candidate), tuple(baseline))
    assert value(point) == expected


def test_few_nights_are_drawn_one_by_one() -> None:
    plan = replace(PLAN, gaps=frozenset({3, 4}), unusable={7: "hot"})
    found = drawn(plan)
    assert (found.old, found.span) == ((), 0)
    assert [d.x for d in found.dots] == [29.0 - b for b in range(29, -1, -1) if b not in (3, 4)]
    assert [29 - d.x for d in found.dots if not d.usable] == [7]
    assert [d.y for d in found.dots] == [sim.ratio(p) for p in sim.series(plan).points]
    assert found.named[-1] == (29.0, sim.commit(0)[:9])
    assert found.ticks[0] == (0.0, sim.night(29))
    assert found.ticks[-1] == (29.0, sim.night(0))
    assert found.alt.startswith(f"28 nights until {sim.night(0)}, 27 of them usable: ratio")


def test_a_long_history_is_thinned() -> None:
    plan = replace(PLAN, nights=3650, unusable={200: "hot"})
    series = sim.series(plan)
    found = drawn(plan)
    assert len(found.dots) == RECENT
    assert len(found.old) <= 120
    assert found.span % 7 == 0
    older = [p for p in series.points[:-RECENT] if not p.unusable]
    values = [sim.ratio(p) for p in older]
    assert min(group.low for group in found.old) == min(values)
    assert max(group.high for group in found.old) == max(values)
    newest = thin(series.points).old[-1]
    inside = [
        sim.ratio(p)
        for p in older
        if newest.first <= datetime.date.fromisoformat(p.night).toordinal() <= newest.last
    ]
    assert (newest.count, newest.middle) == (len(inside), statistics.median(inside))
    assert sum(group.count for group in thin(series.points).old) == len(older)
    positions = [group.x for group in found.old] + [dot.x for dot in found.dots]
    assert positions == sorted(positions)
    # Ten years take at most 0.6 of the width of the last 120 nights.
    assert found.x[0] >= -0.6 * 119 - 1e-9


@pytest.mark.parametrize("nights", [2, 30, 121, 130, 160, 400, 3650])
def test_dates_below_a_plot_do_not_touch(nights: int) -> None:
    found = drawn(replace(PLAN, nights=nights))
    gaps = [b - a for (a, _), (b, _) in itertools.pairwise(found.ticks)]
    assert min(gaps) > 0.1 * (found.x[1] - found.x[0])
    assert found.ticks[-1] == (found.dots[-1].x, sim.night(0))


def test_the_page_says_that_and_how_it_was_thinned() -> None:
    long, short = replace(PLAN, nights=3650), replace(PLAN, metric="short")
    page = shown(sim.world([(sim.series(p), sim.verdict(p)) for p in (long, short)]))
    assert "the last 120 nights of a series one by one" in page.thinned
    assert "groups of 5 weeks" in page.thinned
    assert shown(sim.world([(sim.series(short), sim.verdict(short))])).thinned == ""


def test_levels_band_and_marks() -> None:
    plan = replace(PLAN, steps=((9, 0.1),))
    series = sim.series(plan, [Accept(sim.night(9), f"{sim.night(8)}T00:00:00Z", "ana", "why")])
    found = curve(sim.verdict(plan, level=1.1), series, 0.03)
    assert found is not None
    assert [(v.first, v.last, v.y) for v in found.levels] == [
        (0.0, 19.0, 1.0),
        (20.0, 29.0, pytest.approx(1.1)),
    ]
    assert found.band == (20.0, pytest.approx(1.067), pytest.approx(1.133))
    assert [(m.x, m.kind) for m in found.marks] == [(20.0, "accepted")]
    assert found.one == 1.0
    assert found.y[0] < 1.0 < 1.133 < found.y[1]


def test_marks_of_one_night_are_one() -> None:
    part = next(p for p in shown(sim.busy()).sections if p.metric == "this kernel M=1 cold")
    assert part.curve is not None
    (mark,) = part.curve.marks
    assert (mark.kind, mark.label) == ("accepted", "regression, accepted")
    assert [(d.night, d.what) for d in part.decisions] == [
        (sim.night(55), "accepted"),
        (sim.night(59), "regression"),
    ]
    assert part.decisions[0].text == (
        f"level accepted from {sim.night(60)} on by ana: needed for exact rounding (#41)"
    )


def test_a_baseline_far_away_does_not_squeeze_the_curve() -> None:
    far = drawn(replace(PLAN, steps=((29, 1.0),)), level=2.0)
    assert far.one is None
    assert far.y[0] > 1.5
    raw = drawn(replace(PLAN, compared=False), level=6.0)
    assert (raw.one, raw.label) == (None, "µs")


def test_a_night_that_does_not_count_does_not_set_the_scale() -> None:
    series = sim.series(PLAN)
    wild = replace(series.points[5], candidate=(600.0,) * 5, unusable=("hot",))
    points = (*series.points[:5], wild, *series.points[6:])
    found = curve(sim.verdict(PLAN), replace(series, points=points), 0.03)
    assert found is not None
    assert found.y[1] < 1.1


def test_an_exact_metric_is_a_strip() -> None:
    plan = sim.Plan("bits", 20, EXACT, failed=frozenset({3}), unusable={5: "hot"})
    found = drawn(plan)
    assert found.exact
    assert [19 - d.x for d in found.dots if d.passed is False] == [3]
    assert (found.band, found.one, found.levels) == (None, None, ())
    assert found.alt == f"20 nights until {sim.night(0)}: 18 passed, 1 failed."


def test_a_repetitions_samples_become_quartiles() -> None:
    record = sim.record([PLAN], samples=8)
    (measured,) = record.measurements
    found = pairs(measured, "us")
    assert found is not None
    assert found.raw
    for seen, samples in zip(found.candidate, measured.candidate, strict=True):
        assert seen is not None
        assert (seen.low, seen.high) == (min(samples), max(samples))
        assert seen.low <= seen.first <= seen.middle <= seen.third <= seen.high
        assert seen.raw == samples
    assert "candidate" in found.alt
    assert "baseline" in found.alt
    broken = replace(measured, candidate=((), (math.inf,)), baseline=())
    assert pairs(broken, "us") is None


# Summary and badge.


def table_rows(text: str) -> list[list[str]]:
    """The cells of every table, as a reader of Markdown sees them."""
    page = MarkdownIt("js-default").enable("table").render(text)
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [[html.unescape(re.sub(r"<[^>]*>", "", cell)) for cell in row] for row in cells]


def test_the_summary_lists_what_is_not_steady() -> None:
    page = shown(sim.busy())
    text = summary(page)
    rows = table_rows(text)
    named = {row[1] for row in rows if len(row) == 7}
    assert named == {"metric"} | {row.metric for row in page.rows if row.status != "steady"}
    slow = next(row for row in rows if row[1] == "this kernel M=4 warm")
    assert slow[:4] == [
        "✗ regression",
        "this kernel M=4 warm",
        page.rows[0].value,
        f"{page.rows[0].change} ({page.rows[0].interval})",
    ]
    assert "Of 11 metrics: 2 regression, 1 noisy" in text
    assert [sim.night(20), "run 8980", "no GPU answered"] in rows
    assert ["nightly-sanitizer", "12", "0", "0", ""] in rows
    assert text.startswith("### Nightly 2026-11-29: 2 regressions")


def test_the_summary_links_to_the_page() -> None:
    page, address = shown(sim.busy()), "https://octo.github.io/kernels/"
    rendered = MarkdownIt("js-default").enable("table").render(summary(page, address))
    links = dict(re.findall(r'<a href="([^"]*)">([^<]*)</a>', rendered))
    assert links[address] == "The whole report of this night"
    for row in page.rows:
        assert (f"{address}#{row.anchor}" in links) == (row.status != "steady")
    assert links[f"{address}#{page.rows[0].anchor}"] == page.rows[0].metric
    assert "The whole report" not in summary(page)


def test_a_quiet_summary_has_no_table() -> None:
    text = summary(shown(sim.world([(sim.series(PLAN), sim.verdict(PLAN))])))
    assert "|" not in text
    assert "Nothing got worse." in text


def test_hostile_texts_stay_texts_in_the_summary() -> None:
    page = shown(sim.hostile())
    text = summary(page)
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    tags = set(re.findall(r"<(\w+)", rendered))
    assert tags <= {"h3", "p", "ul", "li", "table", "thead", "tbody", "tr", "th", "td"}
    rows = [row for row in table_rows(text) if len(row) == 7]
    assert len(rows) == 1 + len(sim.HOSTILE)
    assert {len(row) for row in table_rows(text)} == {7, 5, 3}
    seen = {row[1].replace("\u200b", "") for row in rows}
    assert set(sim.HOSTILE[:4]) <= seen
    assert "\\|" not in text  # in a table two of GitHub's readers take it in two ways
    assert "@octo" not in rendered  # it would notify somebody
    assert "#1" not in rendered


def test_the_summary_stays_small() -> None:
    name = "|" * 3000
    judged = [
        sim.verdict(replace(PLAN, metric=f"{i} {name}"), Status.REGRESSION, reason=name)
        for i in range(3000)
    ]
    suites = tuple(SuiteNight(name, 1, 1, 1, (name,) * 50) for _ in range(300))
    given = Verdicts("n", "", tuple(judged), (name,) * 3000, suites, (name,) * 3000)
    text = summary(view(given, History()))
    assert len(text.encode()) < 1024 * 1024
    assert "And 2,950 more verdicts" in text


@pytest.mark.parametrize("mood", list(Mood))
def test_the_badge_is_an_image_with_a_name(mood: Mood) -> None:
    said = '2 < 3 & "x"'
    root = ElementTree.fromstring(badge("2026-11-29", Headline(mood, "", said)))
    space = "{http://www.w3.org/2000/svg}"
    assert root.get("role") == "img"
    assert root.get("aria-label") == f"nightly: {said} (2026-11-29)"
    assert root.findtext(f"{space}title") == root.get("aria-label")
    assert [t.text for t in root.iter(f"{space}text")] == ["nightly", said]
    assert COLOURS[mood] in [r.get("fill") for r in root.iter(f"{space}rect")]


@given(st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=30))
def test_the_badge_is_as_wide_as_its_text(text: str) -> None:
    root = ElementTree.fromstring(badge("n", Headline(Mood.GOOD, "", text)))
    wider = ElementTree.fromstring(badge("n", Headline(Mood.GOOD, "", text + "mm")))
    assert int(wider.get("width", 0)) > int(root.get("width", 0))
    *_, last = root.iter("{http://www.w3.org/2000/svg}text")
    right = float(last.get("x", 0)) + float(last.get("textLength", 0))
    assert right < int(root.get("width", 0))


# The command.


@pytest.fixture
def written(tmp_path: Path) -> list[str]:
    config = tmp_path / "perf.yml"
    config.write_text("version: 1\nfirst_night: 2026-01-01\nbenchmarks: {}\n", encoding="utf-8")
    return [*sim.write(sim.busy(), tmp_path), "--config", str(config)]


def run(*arguments: str) -> int:
    return main(["perf", "report", *arguments])


def test_the_command_writes_summary_and_badge(
    written: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary_file, badge_file = tmp_path / "summary.md", tmp_path / "badge.svg"
    summary_file.write_text("before\n", encoding="utf-8")
    outputs = ["--markdown", str(summary_file), "--badge", str(badge_file)]
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    assert run(*written, *outputs) == 0
    text = summary_file.read_text("utf-8")
    assert text == summary(shown(sim.busy()))
    assert "2 regressions" in badge_file.read_text("utf-8")
    # The page of a job holds what other steps wrote.
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary_file))
    assert run(*written, *outputs) == 0
    assert summary_file.read_text("utf-8") == text + text


def test_wrong_use_says_what_to_do(
    written: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--badge", str(tmp_path / "b.svg")]
    verdict_file = tmp_path / "verdicts.json"
    broken, newer = tmp_path / "broken.json", tmp_path / "newer.json"
    broken.write_bytes(verdict_file.read_bytes()[:-20])
    newer.write_bytes(verdict_file.read_bytes().replace(b'"schema":1', b'"schema":2'))
    rest = written[1:]
    for arguments, said in (
        (written, "nothing to write: pass --html, --markdown or --badge"),
        ([str(tmp_path / "none.json"), *rest, *out], "none.json: cannot read: No such file"),
        ([str(broken), *rest, *out], "broken.json: not JSON"),
        ([str(newer), *rest, *out], "newer.json: schema 2, but this runci reads 1"),
        ([*written, "--record", str(verdict_file), *out], "verdicts.json: Object missing"),
        ([*written, "--badge", str(tmp_path / "no" / "b.svg")], "cannot write"),
        ([*written, *out, "--page", "javascript:x"], "--page 'javascript:x' is no address"),
        ([*written, *out, "--page", "https://x/a)b"], "is no address"),
        ([*written, *out, "--history", str(tmp_path / "nowhere")], "nowhere"),
    ):
        assert run(*arguments) == 2, said
        error = capsys.readouterr().err
        assert said in error
        assert "Traceback" not in error
    assert not (tmp_path / "b.svg").exists()


def test_the_page_needs_the_extra(
    written: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in [name for name in sys.modules if name.startswith("runci.perf.page.")]:
        if name.rsplit(".", 1)[1] in ("html", "draw", "canvas"):
            monkeypatch.delitem(sys.modules, name)
    assert run(*written, "--html", str(tmp_path / "p.html")) == 2
    assert '--html needs the package matplotlib: pip install "runci[perf]"' in (
        capsys.readouterr().err
    )


# The Chromium that opens the page in test_perf_page_chromium.py.

INSTALL = Path(__file__).parents[4] / ".ci" / "install-chromium"


@pytest.mark.parametrize(
    ("user", "ci", "programs", "candidate", "calls", "told"),
    [
        (0, "", ("chromium",), "1", [], False),
        (0, "", ("google-chrome",), "1", [], False),
        (0, "", ("apt-get",), "1", ["update -qq", "install"], False),
        (0, "", ("apt-get",), "(none)", ["update -qq"], True),
        (0, "true", (), "1", [], True),
        (1000, "", ("apt-get", "sudo"), "1", [], True),
        (1000, "true", ("apt-get",), "1", [], True),
        (1000, "true", ("apt-get", "sudo"), "1", ["update -qq", "install"], False),
    ],
)
def test_a_chromium_is_installed_only_where_it_may_be(
    tmp_path: Path,
    user: int,
    ci: str,
    programs: tuple[str, ...],
    candidate: str,
    calls: list[str],
    told: bool,
) -> None:
    fakes, log = tmp_path / "bin", tmp_path / "log"
    fakes.mkdir()
    bodies = {
        "id": f"echo {user}",
        "apt-cache": f"echo '  Candidate: {candidate}'",
        "apt-get": f'echo "$*" >> {log}',
        "sudo": 'test "$1" = -n && shift && exec "$@"',
    }
    for name in ("id", "apt-cache", *programs):
        (fakes / name).write_text(f"#!/bin/sh\n{bodies.get(name, 'exit 9')}\n", encoding="utf-8")
        (fakes / name).chmod(0o755)
    for name in ("bash", "dirname", "env", "grep", "sh", "true"):
        (fakes / name).symlink_to(shutil.which(name) or name)
    ran = subprocess.run(
        [INSTALL], env={"PATH": str(fakes), "CI": ci}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    done = log.read_text("utf-8").splitlines() if log.exists() else []
    assert [call[: len(wanted)] for call, wanted in zip(done, calls, strict=True)] == calls
    if len(done) == 2:
        assert done[1] == "install -qq --yes --no-install-recommends chromium fonts-dejavu-core"
    assert ("No Chromium on PATH" in ran.stderr) is told
