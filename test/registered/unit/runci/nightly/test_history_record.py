"""`runci perf record`, on a history in a folder."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_folder import perf, started_folder
from perf_records import (
    BITS,
    COMMIT,
    KERNEL,
    LINEAR,
    date,
    measurement,
    record,
    series_id,
    write_record,
)
from planning import CPU, cpu_tests, plan_of, results_of, write_results

from runci import register_cpu_ci
from runci.core.errors import Exit
from runci.nightly.history.additions import series_of
from runci.nightly.history.lines import History, Night
from runci.nightly.history.store import read_folder
from runci.nightly.record import encode

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return started_folder(tmp_path, monkeypatch)


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
    assert ": another process on the GPU" in capsys.readouterr().err
    assert read_folder(folder).series[series_id()].points[0].unusable


def test_two_benchmarks_of_one_night(folder: Path) -> None:
    one = write_record(folder.parent / "r", record(1))
    write_record(folder.parent / "r", record(1, benchmark="attention"))
    assert perf("record", one.parent) == Exit.OK
    found = read_folder(folder)
    assert sorted(night.machine.split("/")[2] for night in found.nights) == ["attention", "gemm"]
    assert len(found.series) == 6


def test_many_nights_at_once_in_their_order(folder: Path) -> None:
    paths = [write_record(folder.parent, record(number)) for number in (1, 3, 2)]
    assert perf("record", *paths) == Exit.OK
    found = read_folder(folder)
    assert [night.night for night in found.nights] == [date(1), date(2), date(3)]
    assert [point.night for point in found.series[series_id()].points] == [
        date(1),
        date(2),
        date(3),
    ]
    assert found.messages == ()


def test_a_night_that_measured_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_RUN_ID", "77")
    monkeypatch.setenv("GITHUB_SHA", COMMIT)
    monkeypatch.setenv("GITHUB_REPOSITORY", "octo/kernels")
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    for _ in range(2):
        assert perf("record", "none-came", "--night", date(3)) == Exit.OK
    [found] = read_folder(folder).nights
    url = "https://github.com/octo/kernels/actions/runs/77"
    assert found == Night(date(3), found.at, "77", COMMIT, False, run_url=url, files=1)


def test_suites_are_recorded_with_the_night(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_of(cpu_tests(3))
    Path("plan.json").write_text(plan.to_json())
    write_results(Path("results"), results_of(plan)[1:])
    path = write_record(folder.parent, record(1))
    given = ("--plan", "plan.json", "--results", "results")
    assert perf("record", path, *given) == Exit.OK
    said = capsys.readouterr().err
    assert "suite base-a-test-cpu: " in said and "without a result" in said
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
    assert "none: no such folder: " in capsys.readouterr().err
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
        (["gone.json"], "gone.json: cannot read: No such file"),
        (["--night", "today"], "--night 'today' is no date"),
        (["--night", date(1), "--plan", "p.json"], "--plan and --results go together"),
        (["--night", date(1), "--results", "r"], "--plan and --results go together"),
        (
            ["--night", date(1), "--plan", "p.json", "--results", "r"],
            "p.json: cannot read: No such file or directory: download it",
        ),
        (["--night", "2026-W49-2"], "--night '2026-W49-2' is no date"),
        (["--night", "2999-01-01"], "--night: the night 2999-01-01 is in the future"),
        (["r1.json", "--night", date(2)], "r1.json is of 2026-10-01"),
        (
            ["r1.json", "r2.json", "--plan", "p.json", "--results", "r"],
            "r1.json is of 2026-10-01, r2.json is of 2026-10-02",
        ),
        (["r1.json", "future.json"], "future.json: the night 2999-01-01 is in the future"),
        (["r1.json", "other.json"], "other.json: perf.yml has no benchmark 'other'"),
        (["r1.json", "odd.json"], "odd.json: night '2026-W49-2' is no date"),
    ],
)
def test_wrong_use_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    for number in (1, 2):
        Path(f"r{number}.json").write_bytes(encode(record(number)))
    Path("future.json").write_bytes(encode(record(1, night="2999-01-01")))
    Path("other.json").write_bytes(encode(record(1, benchmark="other")))
    Path("odd.json").write_bytes(encode(record(1, night="2026-W49-2")))
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
    assert "version in perf.yml" in capsys.readouterr().err
    assert read_folder(folder) == before
    newer = dataclasses.replace(other, version="2")
    assert perf("record", write_record(folder.parent, newer)) == Exit.OK
    assert read_folder(folder).series[series_id(version="2")].unit == "ns"


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
