"""What the page of a night shows: against figures computed here."""

from __future__ import annotations

import statistics
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

import perf_world as sim
from perf_pages import DASH, PLAN, shown, verdicts

from runci import register_cpu_ci
from runci.nightly.history.lines import Accept, Event, History, Night, Point, Turn
from runci.nightly.page import words
from runci.nightly.page.view import view
from runci.nightly.record import Direction, anchor
from runci.nightly.verdict import Status, Verdict, Verdicts

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


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


def test_metrics_of_one_cause_stand_below_one_row() -> None:
    where = sim.one_cause(14)
    page = shown(where)
    cause, *others = page.groups
    assert cause.lead is not None
    assert [len(group.rows) for group in page.groups] == [14, 1, 1]
    assert all(group.lead is None for group in others)
    changes = {v.id.metric: v.change or 0 for v in where.verdicts.verdicts}
    assert [row.metric for row in cause.rows] == sorted(changes, key=lambda m: -changes[m])[:14]
    good, bad = sim.commit(4), sim.commit(3)
    assert (cause.lead.metric, cause.lead.since) == ("14 metrics", sim.night(3))
    assert cause.lead.since_commit.url == f"https://github.com/octo/kernels/compare/{good}...{bad}"
    assert cause.lead.issue.url is not None
    assert cause.lead.issue.url.startswith("https://github.com/octo/kernels/issues?q=")
    assert bad[:9] in cause.lead.issue.url
    assert page.headline.badge == "1 regression"


def test_an_issue_that_is_known_is_linked_itself() -> None:
    where = sim.busy()
    numbers = {v.id: 40 + n for n, v in enumerate(where.verdicts.verdicts)}
    page = view(where.verdicts, where.history, where.records, issues=numbers)
    bad = {v.id.metric: v.id for v in where.verdicts.verdicts if v.status is Status.REGRESSION}
    for row in page.rows:
        number = numbers[bad[row.metric]] if row.metric in bad else None
        url = f"https://github.com/octo/kernels/issues/{number}"
        assert (row.issue.text, row.issue.url) == ((f"#{number}", url) if number else (DASH, None))


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


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
