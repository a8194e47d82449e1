"""How `runci perf history` shows, exports, starts and checks out a history."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_folder import perf, started_folder
from perf_records import (
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

from runci import register_cpu_ci
from runci.cli import main
from runci.core.errors import Exit
from runci.nightly.history.lines import History, Point, Series
from runci.nightly.history.show import COLUMNS, as_csv, by_night, listing
from runci.nightly.history.store import read_folder, write_files
from runci.nightly.record import Direction
from runci.text.terminal import display_width

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

AT = f"{date(1)}T03:10:00Z"
LONG = "a metric whose name is far too long for one line of a terminal that is 80 columns wide, é"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return started_folder(tmp_path, monkeypatch)


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
    from runci.nightly.history.read import history_of, parse_files

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
    assert "does not count: " in text
    assert "accepted from 2026-10-03 on by Ada (2026-10-03): wider" in text
    assert "\x1b" not in text
    flat = " ".join(text.split())
    assert "regression since 2026-10-02 (ddddddddd): +5.2% (+4.9% to +5.6%), confirmed by a" in flat
    assert max(map(len, lines)) <= 80


def test_what_was_said_of_a_night_without_a_point_stands_in_its_place() -> None:
    series = Series(
        series_id(), "us", Direction.LOWER, (point(1), point(4)), (accept(2, "why"),), (event(5),)
    )
    starts = [line.split()[0] for line in by_night(series, 80).splitlines()[3:]]
    assert starts[:3] == [date(1), "accepted", date(4)]
    assert starts[3] == "regression"


@pytest.mark.parametrize("figure", [-1.0, 5e-324, 1e308])
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
    assert "nights.jsonl:2: the last line is torn (1 bytes)" in capsys.readouterr().err


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
    assert ": 'a' → 'b' → 'a'" in capsys.readouterr().err
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
    assert "h2: not an" in capsys.readouterr().err
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


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
