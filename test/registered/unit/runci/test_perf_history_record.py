"""What `runci perf record` makes of a night, and how `runci perf history` shows it."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from perf_records import (
    BASELINE,
    BITS,
    COMMIT,
    KERNEL,
    LINEAR,
    accept,
    date,
    event,
    files_of,
    header,
    measurement,
    night,
    point,
    record,
    series_id,
    write_config,
    write_record,
)
from planning import CPU, GPU, cpu_tests, plan_of, registered, results_of, write_results

from runci import register_cpu_ci
from runci.cli import main
from runci.errors import Exit, RunciError
from runci.perf.decode import encode
from runci.perf.history.export import COLUMNS, as_csv
from runci.perf.history.points import additions_of
from runci.perf.history.show import by_night, listing
from runci.perf.history.store import read_folder, start_folder, write_files
from runci.perf.history.suites import RunOf, series_of, suite_nights
from runci.perf.lines import History, Night, Point, Series, SuiteNight
from runci.perf.metric import Direction
from runci.perf.record import Machine, Measurement, Record
from runci.perf.samples import Check
from runci.registration import Backend
from runci.report.terminal import display_width
from runci.results import FileResult, Outcome
from runci.results.files import Found

register_cpu_ci(est_time=10, stage="base-a", runner_config="cpu")

AT = f"{date(1)}T03:10:00Z"


# A record becomes points


def test_a_point_has_the_median_of_each_repetition() -> None:
    again = measurement(
        reference=LINEAR,
        again_candidate=((7.0, 1.0, 99.0),) * 2,
        again_baseline=((6.0, 6.2),) * 2,
    )
    given = record(1, measurements=(again, measurement(LINEAR, 8.0)), run_url="https://x.invalid/1")
    additions = additions_of(given, "r.json")
    kernel, linear, bits = additions.series
    assert kernel.header == header(KERNEL)
    assert kernel.lines == (
        Point(
            date(1),
            AT,
            "r1",
            COMMIT,
            BASELINE,
            candidate=(6.0, 6.1, 6.2, 6.3, 6.4),
            baseline=(6.0,) * 5,
            again_candidate=(7.0, 7.0),
            again_baseline=(6.1, 6.1),
            reference=pytest.approx(6.2 / 8.2),
            run_url="https://x.invalid/1",
            temperature=61,
            sm_clock=2400,
        ),
    )
    assert linear.lines[0].reference is None  # type: ignore[union-attr]
    assert bits.header == header(BITS, unit="exact")
    assert bits.lines == (
        Point(
            date(1),
            AT,
            "r1",
            COMMIT,
            BASELINE,
            passed=True,
            detail="M = 2..8",
            run_url="https://x.invalid/1",
        ),
    )
    assert additions.nights == (
        Night(
            date(1),
            AT,
            "r1",
            COMMIT,
            True,
            run_url="https://x.invalid/1",
            machine="NVIDIA GeForce RTX 5090/580/gemm/1",
        ),
    )


def test_a_reference_that_was_not_measured_is_none() -> None:
    given = record(1, measurements=(measurement(reference="gone"),))
    assert additions_of(given, "r.json").series[0].lines[0].reference is None  # type: ignore[union-attr]


def test_one_repetition_and_no_baseline_are_recorded() -> None:
    alone = measurement(candidate=((6.0,),), baseline=())
    [addition] = additions_of(record(1, measurements=(alone,), checks=()), "r.json").series
    assert (addition.lines[0].candidate, addition.lines[0].baseline) == ((6.0,), ())  # type: ignore[union-attr]


def test_an_unusable_record_keeps_its_reasons_and_its_checks_count() -> None:
    additions = additions_of(record(1, unusable=("busy", "hot")), "r.json")
    reasons = [addition.lines[0].unusable for addition in additions.series]  # type: ignore[union-attr]
    assert reasons == [("busy", "hot"), ("busy", "hot"), ()]
    assert additions.nights[0].unusable == ("busy", "hot")


def test_a_record_that_only_says_why_measured_nothing() -> None:
    given = record(1, measurements=(), checks=(), unusable=("wrong GPU",))
    additions = additions_of(given, "r.json")
    assert additions.series == ()
    assert additions.nights[0].measured is False


@pytest.mark.parametrize("results", [(True, False, True), (False, True), (True, True, False)])
def test_a_check_that_failed_in_any_repetition_failed(results: Sequence[bool]) -> None:
    checks = tuple(Check(BITS, passed, f"run {n}") for n, passed in enumerate(results))
    [addition] = additions_of(record(1, measurements=(), checks=checks), "r.json").series
    [line] = addition.lines
    assert isinstance(line, Point)
    assert (line.passed, line.detail) == (False, f"run {results.index(False)}")


def bad(**changed: Any) -> Record:
    return record(1, measurements=(measurement(**changed),))


PAIRS = ((6.0,),) * 4
FAULTS: dict[str, tuple[Record, str]] = {
    "negative": (bad(candidate=((6.0, -1.0),) * 5), r"candidate\[0\]: -1.0 is no figure from"),
    "zero": (bad(baseline=((6.0,),) * 4 + ((0.0,),)), r"baseline\[4\]: 0.0 is no figure from"),
    "huge": (bad(candidate=((1e308,) * 2,) * 5), r"candidate\[0\]: 1e\+308 is no figure from"),
    "tiny": (bad(baseline=((1e-320,),) * 5), r"baseline\[0\]: 1e-320 is no figure from"),
    "no value": (bad(candidate=((6.0,), ()) + ((6.0,),) * 3), r"candidate\[1\]: no value"),
    "no repetition": (bad(candidate=(), baseline=()), "no repetition"),
    "pairs": (bad(baseline=PAIRS), "5 candidate repetitions, but 4 of the baseline"),
    "again": (bad(again_candidate=((6.0,),), again_baseline=PAIRS), "1 again_candidate rep"),
    "again negative": (bad(again_candidate=((-1.0,),)), r"again_candidate\[0\]: -1.0"),
    "exact figures": (bad(unit="exact"), "exact is no unit of figures"),
    "twice": (record(1, measurements=(measurement(), measurement())), f"the metric '{KERNEL}' twi"),
    "metric and check": (record(1, checks=(Check(KERNEL, True),)), "both a metric and a check"),
    "nothing": (record(1, measurements=(), checks=()), "nothing to record"),
    "night": (record(1, night="yesterday"), "night 'yesterday' is no date"),
    "night's form": (record(1, night="20261201"), "night '20261201' is no date"),
    "time": (record(1, finished="soon"), "finished 'soon' is no time"),
    "zone": (record(1, finished=f"{date(1)}T03:10:00+02:00"), "is no time such as"),
    "no zone": (record(1, started=f"{date(1)}T03:10:00"), "started .* is no time such as"),
    "driver": (record(1, machine=Machine("RTX", "unknown")), "driver 'unknown' is no version"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_figures_that_cannot_be_are_an_error(name: str) -> None:
    given, message = FAULTS[name]
    with pytest.raises(RunciError, match=message) as caught:
        additions_of(given, "r.json")
    assert str(caught.value).startswith("r.json: ")
    assert caught.value.code == Exit.USAGE


# Suites become points

RUN = RunOf(date(1), AT, "r1", "https://x.invalid/1")
PLAN = plan_of({**cpu_tests(3), "test/registered/test_gpu.py": (registered(GPU, Backend.CUDA),)})


def nights(results: Sequence[FileResult], broken: tuple[str, ...] = ()) -> dict[str, Any]:
    """Each suite's night and point, by its name."""
    found = Found(tuple((f"r/{n}.json", one) for n, one in enumerate(results)), broken)
    said, additions = suite_nights(PLAN, found, RUN)
    return {
        suite.suite: (suite, addition.header.id, addition.lines[0])
        for suite, addition in zip(said, additions, strict=True)
    }


def test_suites_whose_results_are_the_plan_passed() -> None:
    found = nights(results_of(PLAN))
    assert set(found) == {CPU, GPU}
    assert found[CPU][0] == SuiteNight(CPU, executed=9, failed=0, skipped=0)
    assert found[CPU][1] == series_of(CPU, "cpu")
    assert found[CPU][2] == Point(
        date(1),
        AT,
        "r1",
        PLAN.commit,
        passed=True,
        detail="9 tests in 3 files",
        run_url="https://x.invalid/1",
    )
    assert found[GPU][1].machine_key == "1-gpu-small/0/suites/1"
    assert found[GPU][2].passed is True


def test_only_the_suite_that_failed_has_failed() -> None:
    results = [
        dataclasses.replace(one, outcome=Outcome.FAILED, failed=2, exit_status=1, message="boom")
        if one.backend == "cuda"
        else one
        for one in results_of(PLAN)
    ]
    found = nights(results)
    assert found[CPU][2].passed is True
    suite, _, line = found[GPU]
    assert (suite.executed, suite.failed) == (3, 2)
    assert suite.failures == (
        f"test/registered/test_gpu.py (cuda {GPU}): failed, 2 tests failed: boom",
    )
    assert (line.passed, line.detail, line.unusable) == (False, suite.failures[0], ())


def test_a_crash_counts_as_one_failure_and_a_rerun_that_passed_as_none() -> None:
    [first, *others] = results_of(PLAN)
    crash = dataclasses.replace(first, outcome=Outcome.CRASHED, tests=0, signal="SIGSEGV")
    again = dataclasses.replace(first, attempt=2)
    assert nights([crash, *others])[CPU][0].failed == 1
    assert nights([crash, *others])[CPU][2].passed is False
    assert nights([crash, again, *others])[CPU][0].failed == 0
    assert nights([crash, again, *others])[CPU][2].passed is True


def test_a_missing_file_fails_its_suite() -> None:
    suite, _, line = nights(results_of(PLAN)[1:])[CPU]
    assert line.passed is False
    assert len(suite.problems) == 1
    assert suite.problems[0].startswith("Planned, but without a result: ")


def test_a_suite_of_which_nothing_ran_has_not_failed_but_no_night() -> None:
    found = nights([one for one in results_of(PLAN) if one.backend == "cpu"])
    _, _, line = found[GPU]
    assert (line.passed, line.unusable) == (None, ("none of the suite's files has a result",))
    assert found[CPU][2].passed is True
    assert found[GPU][0].problems


def test_torn_and_foreign_results_fail_every_suite() -> None:
    found = nights(results_of(PLAN), ("r/9.json: not a whole result",))
    assert [line.passed for _, _, line in found.values()] == [False, False]
    stray = dataclasses.replace(results_of(PLAN)[0], suite="another")
    found = nights([*results_of(PLAN), stray])
    assert [line.passed for _, _, line in found.values()] == [False, False]
    other = [dataclasses.replace(one, plan="0" * 64) for one in results_of(PLAN)]
    found = nights(other)
    assert [line.passed for _, _, line in found.values()] == [None, None]


# The command, on a folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A started history; the current folder has perf.yml."""
    write_config(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_RUN_ID", "GITHUB_SHA", "GITHUB_REPOSITORY", "GITHUB_SERVER_URL"):
        monkeypatch.delenv(name, raising=False)
    start_folder(tmp_path / "h")
    return tmp_path / "h"


def perf(step: str, *arguments: object) -> int:
    return main(["perf", step, "--root", ".", "--history", "h", *map(str, arguments)])


def test_a_night_is_recorded_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_record(folder.parent, record(1))
    assert perf("record", path) == Exit.OK
    assert capsys.readouterr() == ("4 lines appended\n", "")
    assert perf("record", path) == Exit.OK
    out, err = capsys.readouterr()
    assert out == "0 lines appended\n"
    assert err.count("is there already") == 4
    assert sorted(one.metric for one in read_folder(folder).series) == [LINEAR, BITS, KERNEL]
    assert len(read_folder(folder).nights) == 1


def test_an_unusable_record_is_recorded_and_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_record(folder.parent, record(1, unusable=("another process on the GPU",)))
    assert perf("record", path) == Exit.OK
    assert "its figures do not count: another process on the GPU" in capsys.readouterr().err
    assert read_folder(folder).series[series_id()].points[0].unusable


def test_two_benchmarks_of_one_night(folder: Path) -> None:
    one = write_record(folder.parent / "r", record(1))
    write_record(folder.parent / "r", record(1, benchmark="attention"))
    assert perf("record", one.parent) == Exit.OK
    found = read_folder(folder)
    assert sorted(night.machine.split("/")[2] for night in found.nights) == ["attention", "gemm"]
    assert len(found.series) == 6


def test_a_night_that_measured_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_RUN_ID", "77")
    monkeypatch.setenv("GITHUB_SHA", COMMIT)
    monkeypatch.setenv("GITHUB_REPOSITORY", "octo/kernels")
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    for _ in range(2):
        assert perf("record", "none-came", "--night", date(3)) == Exit.OK
    [found] = read_folder(folder).nights
    url = "https://github.com/octo/kernels/actions/runs/77"
    assert found == Night(date(3), found.at, "77", COMMIT, False, run_url=url)


def test_suites_are_recorded_with_the_night(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_of(cpu_tests(3))
    Path("plan.json").write_text(plan.to_json())
    write_results(Path("results"), results_of(plan)[1:])
    path = write_record(folder.parent, record(1))
    given = ("--plan", "plan.json", "--results", "results")
    assert perf("record", path, *given) == Exit.OK
    assert "suite base-a-test-cpu: Planned, but without a result" in capsys.readouterr().err
    found = read_folder(folder)
    assert found.series[series_of(CPU, "cpu")].points[0].passed is False
    [said] = found.nights
    assert (said.measured, said.commit, said.suites[0].executed) == (True, COMMIT, 6)
    assert perf("record", "--night", date(2), *given) == Exit.OK
    last = read_folder(folder).nights[-1]
    assert (last.measured, last.commit, last.suites[0].executed) == (False, plan.commit, 6)


def test_a_dead_host_leaves_suites_without_results(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("plan.json").write_text(plan_of(cpu_tests(3)).to_json())
    given = ("--plan", "plan.json", "--results", "none")
    assert perf("record", "--night", date(2), *given) == Exit.OK
    assert "none: no such folder: recorded as suites without a result" in capsys.readouterr().err
    found = read_folder(folder)
    assert found.series[series_of(CPU, "cpu")].points[0].passed is None
    assert found.nights[0].measured is False


def spoiled(**changed: Any) -> bytes:
    plain = json.loads(encode(record(1)))
    return json.dumps({**plain, **changed}).encode()


BYTES = {
    "empty": (b"", "not JSON"),
    "torn": (encode(record(1))[:-100], "not JSON"),
    "NaN": (encode(record(1)).replace(b"99.0", b"NaN"), "not JSON"),
    "infinity": (encode(record(1)).replace(b"99.0", b"1e999"), "Number out of range"),
    "negative": (encode(record(1)).replace(b"99.0", b"-99.0"), "-99.0 is no figure"),
    "schema": (spoiled(schema=2), "schema 2, but this runci reads 1"),
    "no schema": (b"{}", "schema None"),
    "a list": (b"[]", "schema None"),
    "no machine": (spoiled(machine=None), r"Expected `object`, got `null` - at `\$\.machine`"),
}


@pytest.mark.parametrize("name", BYTES)
def test_a_record_that_cannot_be_read_is_an_error_and_nothing_is_written(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    good = write_record(folder.parent, record(1, benchmark="attention"))
    data, message = BYTES[name]
    Path("bad.json").write_bytes(data)
    assert perf("record", good, "bad.json") == Exit.USAGE
    said = capsys.readouterr().err
    assert said.startswith("runci: bad.json: ")
    assert any(part.replace("\\", "") in said for part in message.split("|"))
    assert read_folder(folder) == History()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a RECORD"),
        (["misspelt"], "name a RECORD"),
        ([os.devnull], "name a RECORD"),
        (["gone.json"], "gone.json: cannot read the record: No such file"),
        (["--night", "today"], "--night today: no date"),
        (["--night", date(1), "--plan", "p.json"], "--plan and --results go together"),
        (["--night", date(1), "--results", "r"], "--plan and --results go together"),
        (
            ["--night", date(1), "--plan", "p.json", "--results", "r"],
            "p.json: cannot read the plan",
        ),
        (["r1.json", "--night", date(2)], "one night at a time: r1.json is of 2026-12-01"),
        (["r1.json", "r2.json"], "r1.json is of 2026-12-01, r2.json is of 2026-12-02"),
    ],
)
def test_wrong_use_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    for number in (1, 2):
        Path(f"r{number}.json").write_bytes(encode(record(number)))
    assert perf("record", *arguments) == Exit.USAGE
    assert message in capsys.readouterr().err
    assert read_folder(folder) == History()


def test_another_unit_needs_another_version(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert perf("record", write_record(folder.parent, record(1))) == Exit.OK
    before = read_folder(folder)
    other = record(2, measurements=(measurement(unit="ns"),))
    assert perf("record", write_record(folder.parent, other)) == Exit.USAGE
    assert "give the benchmark a new version in perf.yml" in capsys.readouterr().err
    assert read_folder(folder) == before
    newer = dataclasses.replace(other, version="2")
    assert perf("record", write_record(folder.parent, newer)) == Exit.OK
    assert read_folder(folder).series[series_id(version="2")].unit == "ns"


# The command `history`

LONG = "a metric whose name is far too long for one line of a terminal that is 80 columns wide, é"


def shown() -> list[Series]:
    files = {
        header(KERNEL): [
            point(1, 6.0),
            point(2, 6.3, unusable=("another process on the GPU: python (pid 4242), 12,000 MiB",)),
            point(3, 6.3, run_id="first"),
            point(3, 6.6, run_id="second"),
            accept(3, "wider \x1b[31mtiles"),
            event(3),
        ],
        header(LONG): [point(2, 1234.5)],
        header(BITS, unit="exact"): [
            point(1, candidate=(), baseline=(), passed=True),
            point(2, candidate=(), baseline=(), passed=False, detail="M = 4 differs"),
        ],
        header(KERNEL, gpu="NVIDIA H200"): [point(1)],
    }
    from runci.perf.history.read import history_of, parse_files

    return list(history_of(parse_files(files_of(files, [night(1)]), "x"), {}).series.values())


def test_the_listing_has_a_table_for_each_machine() -> None:
    text = listing(shown(), 80)
    assert text.splitlines()[0] == "NVIDIA GeForce RTX 5090/580/gemm/1"
    assert "NVIDIA H200/580/gemm/1" in text.splitlines()
    assert max(map(display_width, text.splitlines())) <= 80
    rows = [line.split() for line in text.splitlines() if line.startswith("this kernel")]
    assert rows[0][4:] == ["3", date(1), date(3), "6.600", "us", "1.100"]
    assert "failed" in next(line for line in text.splitlines() if line.startswith(BITS[:9]))
    wide = listing(shown(), 200)
    assert LONG in wide


def test_one_metric_is_shown_night_by_night() -> None:
    [series] = [one for one in shown() if one.id == series_id()]
    lines = by_night(series, 80).splitlines()
    assert lines[0] == (
        "this kernel M=4 warm on NVIDIA GeForce RTX 5090/580/gemm/1, us, lower is better"
    )
    assert lines[3].split() == [date(1), COMMIT[:9], "6.000", "6.000", "1.000"]
    assert lines[4].split() == [date(2), COMMIT[:9], "6.300", "6.000", "1.050"]
    assert lines[5].startswith("    unusable: another process on the GPU: python (pid 4242)")
    text = "\n".join(lines)
    assert "does not count: a later run of this night does" in text
    assert "accepted from 2026-12-03 on by Ada (2026-12-03): wider" in text
    assert "\x1b" not in text
    flat = " ".join(text.split())
    assert "regression since 2026-12-02 (ddddddddd): +5.2% (+4.9% to +5.6%), confirmed by a" in flat
    assert max(map(len, lines)) <= 80


def test_what_was_said_of_a_night_without_a_point_stands_in_its_place() -> None:
    series = Series(
        series_id(), "us", Direction.LOWER, (point(1), point(4)), (accept(2, "why"),), (event(5),)
    )
    starts = [line.split()[0] for line in by_night(series, 80).splitlines()[3:]]
    assert starts[:3] == [date(1), "accepted", date(4)]
    assert starts[3] == "regression"


@pytest.mark.parametrize("figure", [0.0, 5e-324, 1e308])
def test_a_baseline_that_is_no_figure_has_no_ratio(figure: float) -> None:
    """Such as a history of another writer may hold: to look at it must not fail."""
    odd = Series(series_id(), "us", Direction.LOWER, (point(1, baseline=(6.0, figure)),))
    [row] = csv.DictReader(as_csv([odd]).splitlines())
    assert (row["ratio"], row["value"]) == ("", "6.0")
    assert date(1) in by_night(odd, 80)


def test_csv_has_every_point_and_survives_commas_quotes_and_lines() -> None:
    tricky = point(1, 6.05, detail='a, "b"\nc;d', unusable=("x, y", "z"), again_candidate=(0.1,))
    series = [
        Series(series_id('=1,"2"'), "us", Direction.LOWER, (tricky, point(2))),
        Series(
            series_id(BITS), "exact", Direction.HIGHER, (Point(date(1), AT, "r", "c", passed=True),)
        ),
    ]
    rows = list(csv.DictReader(as_csv(series).splitlines(keepends=True)))
    assert len(rows) == 3
    assert tuple(rows[0]) == COLUMNS
    row = rows[0]
    assert row["metric"] == '=1,"2"'
    assert (row["gpu"], row["driver_major"], row["unit"]) == (
        "NVIDIA GeForce RTX 5090",
        "580",
        "us",
    )
    assert (row["detail"], row["unusable"]) == ('a, "b"\nc;d', "x, y; z")
    assert [float(value) for value in row["candidate"].split()] == [6.05, 6.05]
    assert float(row["ratio"]) == 6.05 / 6.0
    assert row["again_candidate"] == "0.1"
    assert (rows[2]["passed"], rows[2]["value"], rows[2]["candidate"]) == ("True", "", "")


def test_the_command_lists_shows_and_exports(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert perf("history") == Exit.NOTHING
    for number in (1, 2):
        assert perf("record", write_record(folder.parent, record(number))) == Exit.OK
    capsys.readouterr()
    assert perf("history") == Exit.OK
    assert KERNEL in capsys.readouterr().out
    assert perf("history", KERNEL) == Exit.OK
    assert date(2) in capsys.readouterr().out
    assert perf("history", "this kernel M=5 warm") == Exit.USAGE
    assert f"did you mean '{LINEAR}', '{KERNEL}'?" in capsys.readouterr().err
    assert perf("history", "--csv", "all.csv") == Exit.OK
    assert len(Path("all.csv").read_text().splitlines()) == 1 + 6
    assert perf("history", "--csv", "one.csv", KERNEL) == Exit.OK
    assert len(Path("one.csv").read_text().splitlines()) == 1 + 2


def test_the_command_tells_what_was_mended(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert perf("record", write_record(folder.parent, record(1))) == Exit.OK
    with (folder / "nights.jsonl").open("ab") as stream:
        stream.write(b"{")
    assert perf("history") == Exit.OK
    assert "nights.jsonl:2: the last line is torn (1 bytes): left out" in capsys.readouterr().err


def test_the_command_refuses_a_corrupt_history(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_record(folder.parent, record(1))
    assert perf("record", path) == Exit.OK
    write_files(folder, {"nights.jsonl": b"{\n{}\n"})
    for step in ("history", "record"):
        assert perf(step, *([path] if step == "record" else [])) == Exit.USAGE
        assert "nights.jsonl:1: not JSON" in capsys.readouterr().err


def test_renames_of_perf_yml_count(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert perf("record", write_record(folder.parent, record(1))) == Exit.OK
    write_config(folder.parent, f'renames: [{{from: "{KERNEL}", to: "kernel"}}]\n')
    newer = record(2, measurements=(measurement("kernel"),))
    assert perf("record", write_record(folder.parent, newer)) == Exit.OK
    capsys.readouterr()
    assert perf("history", "kernel") == Exit.OK
    out = capsys.readouterr().out
    assert date(1) in out
    assert date(2) in out
    write_config(folder.parent, 'renames: [{from: "a", to: "b"}, {from: "b", to: "a"}]\n')
    assert perf("history") == Exit.USAGE
    assert "go in a circle: 'a' → 'b' → 'a'" in capsys.readouterr().err
    write_config(folder.parent, 'renames: [{from: "a", to: "b"}, {from: "a", to: "c"}]\n')
    assert perf("history") == Exit.USAGE
    assert "renames: 'a' becomes 'b' and 'c'" in capsys.readouterr().err


def test_a_history_starts_and_is_checked_out_in_folders(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert perf("history", "--init") == Exit.USAGE
    assert "there already" in capsys.readouterr().err
    other = ["perf", "history", "--root", ".", "--history", "h2"]
    assert main([*other, "--init"]) == Exit.OK
    assert read_folder(Path("h2")) == History()
    assert perf("history", "--checkout", "h2") == Exit.USAGE
    assert "h2: not an empty folder" in capsys.readouterr().err
    assert perf("record", write_record(folder.parent, record(1))) == Exit.OK
    assert perf("history", "--checkout", "h3") == Exit.OK
    assert read_folder(Path("h3")) == read_folder(folder)
    for flag in (["--init"], ["--checkout", "h4"]):
        assert perf("history", *flag, "METRIC") == Exit.USAGE
        assert "takes no METRIC" in capsys.readouterr().err


def test_a_missing_configuration_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert perf("history") == Exit.USAGE
    assert "test/perf.yml: cannot read" in capsys.readouterr().err


def test_measurements_keep_their_direction() -> None:
    faster: Measurement = measurement("throughput", unit="TFLOP/s", direction=Direction.HIGHER)
    [addition] = additions_of(record(1, measurements=(faster,), checks=()), "r").series
    assert addition.header.direction is Direction.HIGHER


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
