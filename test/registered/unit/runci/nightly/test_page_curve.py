"""What is drawn of a series and of its pairs: against figures computed here."""

from __future__ import annotations

import datetime
import itertools
import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

import perf_world as sim
from perf_pages import PLAN, shown

from runci import register_cpu_ci
from runci.nightly.decide.values import read_nights
from runci.nightly.history.lines import Accept, Point
from runci.nightly.page.curve import RECENT, Curve, curve, pairs, thin, value
from runci.nightly.record import EXACT

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")


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
        ((3.0,), (0.0,), 4.0),
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
    assert "the last 120 nights" in page.thinned
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


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
