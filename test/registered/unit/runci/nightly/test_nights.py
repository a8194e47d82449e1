"""Missing nights, series that end, what is accepted, and the commands around the decision."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

import perf_series as sim

from runci import register_cpu_ci
from runci.cli import main
from runci.commands.perf import STEPS
from runci.config.perf import Benchmark, Budget
from runci.core.errors import Exit, RunciError
from runci.nightly.decide.everything import Decided, decide_all, status_of
from runci.nightly.decide.turns import choose_night, choose_series, find_series
from runci.nightly.decide.words import render
from runci.nightly.history.additions import Additions
from runci.nightly.history.lines import History, Night, Series, SuiteNight, Turn
from runci.nightly.history.store import append_folder, read_folder, start_folder
from runci.nightly.record import SeriesId, encode
from runci.nightly.verdict import Status, Verdicts

register_cpu_ci(est_time=3, stage="base-a", runner_config="cpu")

STEADY = sim.ratios((30, 1.0))
CONFIG = """\
version: 1
first_night: 2026-12-01
benchmarks:
  gemm: {version: "1", command: ["true"]}
"""


def history(series: Iterable[Series], nights: Iterable[Night] | None = None) -> History:
    given = tuple(series)
    found = nights if nights is not None else [sim.ran(n) for n in range(30)]
    return History({one.id: one for one in given}, tuple(found))


def decided(
    given: History, index: int, hours: float = 40, asked: int | None = None, **config: object
) -> Decided:
    """As of night `asked`, so many hours after night `index` began."""
    began = datetime.datetime.combine(
        sim.FIRST, datetime.time(), datetime.timezone.utc
    ) + datetime.timedelta(days=index)
    day = sim.FIRST + datetime.timedelta(days=index if asked is None else asked)
    return decide_all(given, sim.config(**config), day, began + datetime.timedelta(hours=hours))


def statuses(found: Decided) -> dict[str, Status]:
    return {v.id.metric: v.status for v in found.verdicts.verdicts}


# Nights.


def test_a_dead_builder_is_seen_on_every_night_that_it_is_dead() -> None:
    found = decided(history([sim.series(STEADY)]), 33).verdicts
    assert (found.night, found.missing) == (sim.night(33), tuple(map(sim.night, range(30, 34))))
    (verdict,) = found.verdicts
    assert (verdict.status, verdict.reason) == (Status.MISSING, "no run on this night")
    assert status_of(found) == Exit.FINDINGS


def test_a_night_that_may_still_come_is_not_missing() -> None:
    given = history([sim.series(STEADY)])
    soon = decided(given, 30, hours=35.9).verdicts
    assert (soon.night, soon.missing, soon.verdicts[0].status) == (
        sim.night(29),
        (),
        Status.STEADY,
    )
    assert status_of(soon) == Exit.OK
    late = decided(given, 30, hours=36).verdicts
    assert (late.night, late.missing) == (sim.night(30), (sim.night(30),))
    patient = decided(given, 30, hours=36, late_hours=48.0).verdicts
    assert patient.missing == ()


def test_a_missing_night_makes_only_the_next_run_a_finding() -> None:
    """Else a machine that was down once would make every run of a month red."""
    ran = [sim.ran(n) for n in range(60) if n != 50]
    given = history([sim.series(sim.ratios((60, 1.0)))], ran)
    ended = {n: status_of(decided(given, n, hours=2).verdicts) for n in (49, 51, 52, 59)}
    assert ended == {49: Exit.OK, 51: Exit.FINDINGS, 52: Exit.OK, 59: Exit.OK}
    assert decided(given, 59, hours=2).verdicts.missing == (sim.night(50),)


def test_old_missing_nights_are_counted_and_recent_ones_named() -> None:
    ran = [sim.ran(n) for n in range(60) if n not in (3, 4, 50)]
    found = decided(history([sim.series(sim.ratios((60, 1.0)))], ran), 59).verdicts
    assert found.missing == (sim.night(50),)
    assert "2 nights before" in found.messages[0]


def test_no_night_is_expected_before_the_first_one() -> None:
    given = history([sim.series(STEADY)])
    first = sim.FIRST + datetime.timedelta(days=40)
    assert decided(given, 45, first_night=first).verdicts.missing == tuple(
        map(sim.night, range(40, 46))
    )


def test_a_run_that_measured_nothing_is_a_missing_night_with_its_reason() -> None:
    nights = [*(sim.ran(n) for n in range(29)), sim.ran(29, False, "wrong SKU")]
    found = decided(history([sim.series(STEADY[:29])], nights), 29).verdicts
    assert found.missing == (sim.night(29),)
    assert found.verdicts[0].reason == "wrong SKU"
    # A second run of that night, which measured, mends it.
    again = [*nights, sim.ran(29)]
    assert decided(history([sim.series(STEADY)], again), 29).verdicts.missing == ()


def test_a_series_without_any_point_yet_has_no_verdict() -> None:
    later = sim.series([sim.point(29)], metric="later")
    found = decided(history([sim.series(STEADY), later]), 28, asked=28)
    assert statuses(found) == {"m": Status.STEADY}
    empty = decided(history([]), 28).verdicts
    assert status_of(empty) == Exit.NOTHING


# Series that end.


def test_a_metric_that_disappears_is_missing_and_points_to_renames() -> None:
    gone = sim.series(STEADY[:25], metric="old name")
    found = decided(history([sim.series(STEADY), gone]), 29)
    assert statuses(found) == {"old name": Status.MISSING, "m": Status.STEADY}
    assert "renames" in found.verdicts.verdicts[0].reason
    ended = sim.series(STEADY[:25], metric="old name", accepts=[sim.accepted(25, "removed")])
    found = decided(history([sim.series(STEADY), ended]), 29)
    assert statuses(found) == {"m": Status.STEADY}
    assert "removed" in found.verdicts.messages[0]


def test_another_sku_is_another_series_and_ends_the_one_before() -> None:
    """Two SKUs in one series: twice as slow there is no regression here."""
    new = [replace(sim.point(n, 2.0), baseline=(), baseline_commit="") for n in range(20, 30)]
    both = [sim.series(STEADY[:20]), sim.series(new, gpu="NVIDIA H200")]
    found = decided(history(both), 29)
    (verdict,) = found.verdicts.verdicts
    assert (verdict.status, verdict.id.gpu) == (Status.STEADY, "NVIDIA H200")
    assert verdict.level == pytest.approx(12.0)
    said = f"measured on NVIDIA H200, driver 580 since {sim.night(20)}"
    assert said in found.verdicts.messages[0]


@pytest.mark.parametrize("paired", [True, False])
def test_another_driver_goes_on_with_the_ratio_and_only_with_that(paired: bool) -> None:
    """What came with a driver is told on its second night, and both are suspect."""
    points = sim.ratios((20, 1.0), (10, 1.2))
    if not paired:
        points = [replace(p, baseline=(), baseline_commit="") for p in points]
    both = [sim.series(points[:20]), sim.series(points[20:], driver=590)]
    found = decided(history(both), 29)
    (verdict,) = found.verdicts.verdicts
    assert verdict.id.driver_major == 590
    assert f"driver 590 since {sim.night(20)}" in found.verdicts.messages[0]
    if not paired:
        assert verdict.status is Status.STEADY
        return
    assert (verdict.status, verdict.since, verdict.points) == (
        Status.REGRESSION,
        sim.night(20),
        30,
    )
    assert [step.driver for step in verdict.steps] == ["590 (before: 580)"]
    assert "equally suspect" in verdict.reason
    assert set(found.events) == {both[1].id}
    # What was open on the old driver is open on the new one, and nowhere twice.
    slow = sim.ratios((15, 1.0), (15, 1.2))
    is_open = sim.series(slow[:20], events=[sim.event(Turn.REGRESSION, 15, 16)])
    found = decided(history([is_open, sim.series(slow[20:], driver=590)]), 29)
    assert [v.id.driver_major for v in found.verdicts.verdicts] == [590]
    assert found.verdicts.verdicts[0].since == sim.night(15)


def test_one_of_two_machines_that_fell_silent_is_missing() -> None:
    both = [sim.series(STEADY[:25]), sim.series(STEADY, gpu="NVIDIA H200")]
    found = decided(history(both), 29)
    assert [v.status for v in found.verdicts.verdicts] == [Status.MISSING, Status.STEADY]
    assert found.verdicts.verdicts[0].reason == f"the run did not measure gemm on {sim.GPU}"


def test_what_perf_yml_no_longer_measures_ends_but_not_while_a_regression_is_open() -> None:
    new = {"gemm": Benchmark("gemm", "2", ("true",))}
    old = sim.series(STEADY[:25])
    found = decided(history([old]), 29, benchmarks=new)
    assert (found.verdicts.verdicts, len(found.verdicts.messages)) == ((), 1)
    assert "version 2" in found.verdicts.messages[0]
    gone = decided(history([old]), 29, benchmarks={}).verdicts.messages
    assert "no longer in perf.yml" in gone[0]
    is_open = sim.series(STEADY[:25], events=[sim.event(Turn.REGRESSION, 20, 21)])
    found = decided(history([is_open]), 29, benchmarks=new)
    assert statuses(found) == {"m": Status.REGRESSION}


@pytest.mark.parametrize(
    ("benchmarks", "reason"),
    [
        ({}, "no longer in perf.yml"),
        ({"gemm": Benchmark("gemm", "1", ("true",), metrics=("other",))}, "no longer names it"),
    ],
)
@pytest.mark.parametrize("last", [25, 30])
def test_what_perf_yml_no_longer_names_alarms_no_more(
    benchmarks: dict[str, Benchmark], reason: str, last: int
) -> None:
    """Whether or not it is open, and whether or not it is still printed."""
    is_open = sim.series(STEADY[:last], events=[sim.event(Turn.REGRESSION, 20, 21)])
    other = sim.series(STEADY, "other")
    found = decided(history([is_open, other]), 29, benchmarks=benchmarks).verdicts
    assert [v.id.metric for v in found.verdicts] == (["other"] if benchmarks else [])
    ended = {one.id.metric: one.reason for one in found.ended}
    assert reason in ended["m"]


def test_a_budget_that_nothing_is_held_against_is_told() -> None:
    budgets = {"m": Budget(9.0, "us"), "misspelt": Budget(9.0, "us")}
    known = {"gemm": Benchmark("gemm", "1", ("true",), budgets=budgets)}
    found = decided(history([sim.series(STEADY)]), 29, benchmarks=known).verdicts
    assert [v.status for v in found.verdicts] == [Status.STEADY]
    (message,) = found.messages
    assert "'misspelt'" in message
    known = {"gemm": Benchmark("gemm", "1", ("true",), budgets={"m": Budget(5.0, "us")})}
    found = decided(history([sim.series(STEADY)]), 29, benchmarks=known).verdicts
    assert status_of(found) == Exit.FINDINGS
    assert "budget" in render(found, 80)


def test_the_nightly_suites_are_expected_although_no_benchmark_measures_them() -> None:
    one = sim.exact([True] * 25)
    suites = Series(
        SeriesId("suite nightly", "suites", "1", "1-gpu", 0), one.unit, one.direction, one.points
    )
    found = decided(history([suites, sim.series(STEADY)]), 29)
    assert statuses(found) == {"suite nightly": Status.MISSING, "m": Status.STEADY}


# All together.


def test_verdicts_are_worst_first_and_a_failed_suite_is_a_finding() -> None:
    bad = sim.series(
        sim.ratios((28, 1.0), (2, 1.1)), "bad", events=[sim.event(Turn.REGRESSION, 28, 29)]
    )
    worse = sim.series(
        sim.ratios((28, 1.0), (2, 1.2)), "worse", events=[sim.event(Turn.REGRESSION, 28, 29)]
    )
    given = history([sim.series(STEADY), bad, sim.series(STEADY[:29], "silent"), worse])
    found = decided(given, 29).verdicts
    assert [v.id.metric for v in found.verdicts] == ["worse", "bad", "silent", "m"]
    failed = SuiteNight("nightly", 10, 1, 0, ("test_a.py::test_b",))
    nights = [*(sim.ran(n) for n in range(29)),
              Night(sim.night(29), "", "29", "c", True, suites=(failed,))]  # fmt: skip
    found = decided(history([sim.series(STEADY)], nights), 29).verdicts
    assert (found.suites, status_of(found)) == ((failed,), Exit.FINDINGS)
    assert "suite nightly: 1 failed of 10: test_a.py::test_b" in render(found, 80)


def test_the_table_fits_80_columns_and_says_everything_once() -> None:
    long = "this kernel M=4 N=4096 K=14336 warm, with a name that is long"
    bad = sim.series(
        sim.ratios((28, 1.0), (2, 1.1)), long, events=[sim.event(Turn.REGRESSION, 28, 29)]
    )
    found = decided(history([bad, sim.series(STEADY)]), 29).verdicts
    text = render(found, 80, ["a note of the history" + " and more" * 9, "\x1b[31mred"])
    table = text.partition("\n\n")[2].partition("\n\n")[0].splitlines()
    assert max(map(len, text.splitlines())) <= 80
    cells = table[2].split("  ")
    assert cells[0] == "regression" and cells[1].startswith("this kernel M=4 N=4")
    assert cells[2:] == ["+9.9 (+9.5, +10.3)", f"12-29 {sim.commit(28)[:7]}", "2nd night"]
    assert text.count("regression:") == 1  # wherever the line breaks
    assert text.splitlines()[0] == f"night of {sim.night(29)}: 1 regression, 1 steady"
    assert text.endswith(f" and\n  more{' and more' * 3}\nnote: \\x1b[31mred\n")


# Accepting.


OPEN = sim.series(sim.ratios((30, 1.0), (5, 1.05)), events=[sim.event(Turn.REGRESSION, 30, 31)])
NIGHTS = [sim.ran(n) for n in range(35)]


def test_an_open_regression_is_accepted_from_where_it_began() -> None:
    chosen = choose_night(history([OPEN], NIGHTS), OPEN, None, sim.night(35))
    assert chosen.night == sim.night(30)
    assert "+5.0%" in chosen.settles
    later = choose_night(history([OPEN], NIGHTS), OPEN, sim.night(32), sim.night(35))
    assert later.night == sim.night(32)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (sim.night(29), "began later"),
        ("tomorrow", "no date"),
        (sim.night(99), "to come"),
    ],
)
def test_a_night_that_settles_nothing_is_refused(asked: str, said: str) -> None:
    with pytest.raises(RunciError, match=said):
        choose_night(history([OPEN], NIGHTS), OPEN, asked, sim.night(35))


def test_with_nothing_open_a_night_has_to_be_named() -> None:
    one = sim.series(STEADY, accepts=[sim.accepted(10)])
    given = history([one])
    with pytest.raises(RunciError, match="--night"):
        choose_night(given, one, None, sim.night(30))
    with pytest.raises(RunciError, match="accepted already"):
        choose_night(given, one, sim.night(5), sim.night(30))
    assert choose_night(given, one, sim.night(20), sim.night(30)).night == sim.night(20)


def test_the_end_of_a_metric_is_accepted_from_the_day_after_its_last_night() -> None:
    gone = sim.series(STEADY[:25], "old name")
    given = history([sim.series(STEADY), gone])
    assert choose_night(given, gone, None, sim.night(30)).night == sim.night(25)


def test_a_name_means_all_its_series_or_that_of_one_machine() -> None:
    given = history([sim.series(STEADY, "kernel"), sim.series(STEADY, "kernel", gpu="NVIDIA H200")])
    with pytest.raises(RunciError, match=r"did you mean 'kernel'\?"):
        find_series(given, "kernal", None)
    assert len(find_series(given, "kernel", None)) == 2
    with pytest.raises(RunciError, match="never measured on 'H100'"):
        find_series(given, "kernel", "H100")
    (found,) = find_series(given, "kernel", "NVIDIA H200/580/gemm/1")
    assert found.id.gpu == "NVIDIA H200"


def on(driver: int, first: int, last: int, *, opened: bool = False) -> Series:
    points = sim.ratios((35, 1.0))[first:last]
    events = [sim.event(Turn.REGRESSION, last - 2, last - 1)] if opened else []
    return sim.series(points, "m", driver=driver, events=events)


@pytest.mark.parametrize(
    ("series", "chosen"),
    [
        # A driver came on night 20: the one before stays as it is.
        ([on(580, 0, 20), on(590, 20, 35, opened=True)], [590]),
        ([on(580, 0, 20, opened=True), on(590, 20, 35, opened=True)], [580, 590]),
        ([on(580, 0, 20), on(590, 20, 35)], [590]),
        # Two machines, of which one is worse; both are; the metric is gone from both.
        ([on(580, 0, 35), on(590, 0, 35, opened=True)], [590]),
        ([on(580, 0, 35, opened=True), on(590, 0, 35, opened=True)], [580, 590]),
        ([on(580, 0, 20), on(590, 0, 25)], [580, 590]),
    ],
)
def test_an_acceptance_is_about_every_machine_on_which_something_is_open(
    series: list[Series], chosen: list[int]
) -> None:
    found = choose_series(history(series, NIGHTS), series)
    assert [one.id.driver_major for one in found] == chosen


# The commands, on a folder.


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A repository with perf.yml and, in `history`, a regression that is open."""
    root = tmp_path / "repository"
    (root / "test").mkdir(parents=True)
    (root / "test" / "perf.yml").write_text(CONFIG)
    start_folder(root / "history")
    everything = sim.World([OPEN, sim.series(sim.ratios((35, 1.0)), "other")], NIGHTS)
    append_folder(
        root / "history", lambda _: Additions(everything.additions(), tuple(everything.nights))
    )
    return root


def accept(root: Path, *more: str) -> int:
    where = ["--root", str(root), "--history", str(root / "history"), "--by", "ann"]
    return main(["perf", "accept", *more, *where])


def test_accept_writes_a_line_and_keeps_the_event(
    world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert accept(world, "m", "--reason", "more\n precise") == 0
    said = capsys.readouterr().out
    assert f"accepted from {sim.night(30)} on, by ann: more precise" in said
    one = read_folder(world / "history").series[OPEN.id]
    assert [(a.night, a.by, a.reason) for a in one.accepts] == [
        (sim.night(30), "ann", "more precise")
    ]
    assert len(one.events) == 1
    assert sim.judged(one)[0].accepted


def test_accept_settles_it_on_every_machine_or_on_the_one_that_is_named(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    (root / "test").mkdir(parents=True)
    (root / "test" / "perf.yml").write_text(CONFIG)
    start_folder(root / "history")
    both = [on(580, 0, 35, opened=True), on(590, 0, 35, opened=True)]
    other = sim.series(OPEN.points, "other", events=OPEN.events)
    made = sim.World([*both, other], NIGHTS)
    append_folder(root / "history", lambda _: Additions(made.additions(), tuple(made.nights)))
    assert accept(root, "m", "--reason", "x", "--machine", both[1].id.machine_key) == 0
    assert accepted_on(root) == {590}
    assert accept(root, "m", "other", "--reason", "y") == 0
    found = read_folder(root / "history").series
    assert all(len(one.accepts) == 1 for one in found.values())


def accepted_on(root: Path) -> set[int]:
    found = read_folder(root / "history").series
    return {series_id.driver_major for series_id, one in found.items() if one.accepts}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["m", "--reason", " \n"], "say why"),
        (["m", "--reason", "x" * 501], "501 characters"),
        (["n", "--reason", "x"], "no metric 'n'"),
        (["other", "--reason", "x"], "nothing to accept"),
    ],
)
def test_accept_refuses_what_says_nothing(
    world: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    before = (world / "history" / "nights.jsonl").read_bytes()
    assert accept(world, *arguments) == 2
    assert said in capsys.readouterr().err
    assert (world / "history" / "nights.jsonl").read_bytes() == before
    assert read_folder(world / "history").series[OPEN.id].accepts == ()


def check(root: Path, *more: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    command = [python, "-m", "runci", "perf", "check", "--root", str(root), *more]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_check_needs_nothing_that_pins_other_packages(world: Path) -> None:
    """It runs beside torch: no numpy of its own."""
    done = check(world, "--history", str(world / "history"), "--night", sim.night(34))
    assert (done.returncode, done.stderr) == (1, "")
    assert "regression" in done.stdout


WITHOUT = """\
import sys
sys.modules["msgspec"] = None
from runci.cli import main
for step in (["measure", "b", "--output", "r.json"], ["record"], ["history"], ["check"],
             ["accept", "m", "--reason", "x"], ["report", "v.json"], ["bisect", "m"],
             ["notify", "v.json"]):
    assert main(["perf", *step]) == 2, step
"""


def test_each_step_says_which_packages_it_needs(world: Path) -> None:
    """On a GPU host `runci[perf]` would take another numpy than torch was installed with."""
    command = [sys.executable, "-c", WITHOUT]
    done = subprocess.run(command, cwd=world, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert [line.split()[3] for line in lines] == list(STEPS)
    for step, line in zip(STEPS, lines, strict=True):
        extra = {"report": "perf", "notify": "github,run"}.get(step, "run")
        assert f'needs the package msgspec: pip install ".[{extra}]"' in line


HELP = """\
import sys
for name in ("otava", "scipy", "numpy", "matplotlib", "jinja2", "requests", "psutil", "rich"):
    sys.modules[name] = None
from runci.cli import main
sys.exit(main(["perf", sys.argv[1], "--help"]) or [m for m in sys.modules if ".perf_" in m] != [
    "runci.commands.perf_" + sys.argv[1]])
"""


@pytest.mark.parametrize("step", STEPS)
def test_help_of_a_step_needs_no_extra_and_imports_that_step_only(step: str) -> None:
    command = [sys.executable, "-c", HELP, step]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: runci perf {step} ")


def test_check_never_takes_an_absent_history_for_an_empty_one(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["perf", "check", "--root", str(world)]
    assert main([*where, "--history", str(tmp_path / "nowhere")]) == 2
    (tmp_path / "empty").mkdir()
    assert main([*where, "--history", str(tmp_path / "empty")]) == 2
    start_folder(tmp_path / "new")
    soon = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=9)).date()
    config = world / "test" / "perf.yml"
    config.write_text(config.read_text().replace(str(sim.FIRST), str(soon)))
    assert main([*where, "--history", str(tmp_path / "new")]) == 3
    assert "no series yet" in capsys.readouterr().err


def test_a_machine_that_was_dead_from_the_first_night_on_is_told_of(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--root", str(world), "--history", str(tmp_path / "new")]
    start_folder(tmp_path / "new")
    verdicts = str(tmp_path / "verdicts.json")
    night = sim.FIRST + datetime.timedelta(days=2)
    assert main(["perf", "check", *where, "--night", str(night), "--output", verdicts]) == 1
    assert f"missing night: {night}\n" in capsys.readouterr().out
    summary, badge = tmp_path / "summary.md", tmp_path / "badge.svg"
    written = ["--markdown", str(summary), "--badge", str(badge)]
    assert main(["perf", "report", verdicts, *where, *written]) == 0
    assert "3 nights missing" in summary.read_text()
    assert main(["perf", "notify", verdicts, "--root", str(world), "--dry-run"]) == 0
    assert "open: Nightly: nights are missing" in capsys.readouterr().out


@pytest.mark.parametrize(
    "night", ["9999-12-31", "2999-12-31", "0001-01-01", "20261201", "2026-W49-2", "yesterday", ""]
)
def test_check_refuses_a_night_that_nothing_is_known_of(world: Path, night: str) -> None:
    done = check(world, "--history", str(world / "history"), "--night", night)
    assert done.returncode == 2
    assert "--night" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("night", ["garbage", "2026-W49-2", "20261201", "2026-12-01T00:00"])
def test_every_command_takes_the_same_nights(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], night: str
) -> None:
    """Python 3.11 reads more of ISO 8601 than 3.10 did, and than lines of the history have."""
    bare = Verdicts(sim.night(0), "", (), missing=(sim.night(0),))
    path = str(tmp_path / "verdicts.json")
    where = ["--root", str(world), "--history", str(world / "history")]
    commands = [
        ["measure", "gemm", "--output", str(tmp_path / "r.json"), "--night", night, *where],
        ["record", "--night", night, *where],
        ["check", "--night", night, *where],
        ["accept", "m", "--reason", "x", "--night", night, *where],
    ]
    for wrong in (replace(bare, night=night), replace(bare, missing=(night,))):
        reads = (["report", path, "--markdown", str(tmp_path / "s.md"), *where], ["notify", path])
        for command in (*commands, *reads):
            Path(path).write_bytes(encode(wrong))
            root = [] if "--root" in command else ["--root", str(world)]
            assert main(["perf", *command, *root]) == 2, command
            assert repr(night) in capsys.readouterr().err


def test_verdicts_keep_their_form() -> None:
    """What report and notify read."""
    from runci.nightly.record import decode, encode

    found = decided(history([OPEN], NIGHTS), 34).verdicts
    assert decode(encode(found), Verdicts, "here") == found
    assert json.loads(encode(found))["verdicts"][0]["status"] == "regression"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
