"""A night of `runci perf measure`, with real commands in real repositories."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_records import git, header, night, point
from perf_repository import BENCH, Repository, made_repository

from runci import register_cpu_ci
from runci.cli import main
from runci.nightly.history.additions import Addition, Additions, additions_of
from runci.nightly.history.store import append_folder, start_folder
from runci.nightly.record import Summary

register_cpu_ci(est_time=15, stage="base-a", runner_config="cpu")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    yield from made_repository(tmp_path, monkeypatch)


# What is right


def test_a_night_is_measured_in_pairs_and_each_side_imports_its_own_package(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    assert repository.measure("--seed", "7", "--night", "2026-11-28") == 0
    record = repository.record()
    a, b = record.measurements
    assert a.candidate == ((6.0, 6.25),) * 5
    assert a.baseline == ((4.0, 4.25),) * 5
    assert (b.candidate, b.reference, a.reference) == (((8.0,),) * 5, None, "b")
    assert record.summary[0] == Summary("a", "us", 6.125, 4.125, 6.125 / 4.125, 6.125 / 8.0, 0.0)
    assert (record.commit, record.baseline_commit) == (repository.head, repository.baseline)
    assert (record.seed, record.night, record.unusable) == (7, "2026-11-28", ())
    assert sorted(record.order) == ["baseline"] * 5 + ["candidate"] * 5
    assert record.versions["file"] == str(repository.folder / "packages/level/__init__.py")
    assert record.machine.gpu.startswith("cpu: ")
    assert record.series_id("a").driver_major == 0
    assert record.started <= record.before.at <= record.after.at <= record.finished
    shown = capsys.readouterr()
    assert "1.485" in shown.out  # 6.125 / 4.125
    assert "runci: 10/10 " in shown.err
    assert repository.log().count("measuring") == 10
    assert additions_of(record, "record.json").series  # the next step takes it


def test_the_order_comes_from_the_seed(repository: Repository) -> None:
    repository.configure(f"baseline: {repository.baseline}", command="python, bench.py")
    orders = []
    for seed in ("1", "1", "2"):
        assert repository.measure("--seed", seed) == 0
        orders.append(repository.record().order)
    assert orders[0] == orders[1] != orders[2]


def test_without_a_baseline_there_are_raw_figures(repository: Repository) -> None:
    repository.configure()
    assert repository.measure() == 0
    record = repository.record()
    assert (record.baseline_commit, record.order) == ("", ("candidate",) * 5)
    assert record.measurements[0].baseline == ()


def test_another_baseline_by_name_becomes_a_full_commit(repository: Repository) -> None:
    git(repository.folder, "tag", "pinned", repository.head)
    assert repository.measure("--baseline", "pinned") == 0
    assert repository.record().baseline_commit == repository.head
    assert repository.record().measurements[0].baseline == ((6.0, 6.25),) * 5


def test_a_root_below_the_top_of_its_repository(repository: Repository) -> None:
    below = repository.folder / "packages"
    (below / "bench.py").write_text(BENCH)
    pinned = repository.commit(5.0)
    repository.commit(6.0)
    repository.configure(f"baseline: {pinned}")
    config = str(repository.folder / "test" / "perf.yml")
    where = ["--root", str(below), "--config", config, "--output", str(repository.output)]
    assert main(["perf", "measure", "gemm", *where]) == 0
    assert repository.record().measurements[0].baseline == ((5.0, 5.25),) * 5


def test_github_s_run_is_named(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.configure()
    for name, text in (
        ("GITHUB_RUN_ID", "42"),
        ("GITHUB_RUN_ATTEMPT", "2"),
        ("GITHUB_SERVER_URL", "https://github.example"),
        ("GITHUB_REPOSITORY", "octo/kernels"),
    ):
        monkeypatch.setenv(name, text)
    assert repository.measure() == 0
    record = repository.record()
    assert record.run_id == "42.2"
    assert record.run_url == "https://github.example/octo/kernels/actions/runs/42"


# Other arms


def test_the_last_release_is_measured_beside_the_baseline(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    git(repository.folder, "tag", "v1.0", repository.baseline)
    released = repository.commit(5.0)
    git(repository.folder, "tag", "v1.1")
    repository.commit(6.0)
    repository.configure(f"baseline: {repository.baseline}", "arms: {last release: v1.*}")
    assert repository.measure() == 0
    record = repository.record()
    assert record.arms == {"last release": released}
    assert record.unusable == ()
    rounds = [set(record.order[n : n + 3]) for n in range(0, 15, 3)]
    assert rounds == [{"candidate", "baseline", "last release"}] * 5
    (one, _) = record.measurements
    assert one.arms == {"last release": ((5.0, 5.25),) * 5}
    assert one.baseline == ((4.0, 4.25),) * 5
    assert record.summary[0].arms["last release"] == pytest.approx(6.125 / 5.125)
    assert "last release" in capsys.readouterr().out
    (point, *_) = additions_of(record, "record.json").series[0].lines
    assert point.arms == (("last release", (5.125,) * 5),)  # type: ignore[union-attr]


def test_an_arm_that_fails_is_left_out(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = (repository.folder / "bench.py").read_text()
    (repository.folder / "bench.py").write_text("raise SystemExit('too old')\n")
    old = repository.commit(5.0)
    (repository.folder / "bench.py").write_text(bench)
    repository.commit(6.0)
    repository.configure(f"baseline: {repository.baseline}", f"arms: {{old: {old}}}")
    assert repository.measure() == 0
    record = repository.record()
    assert [len(one.candidate) for one in record.measurements] == [5, 5]
    assert [one.arms for one in record.measurements] == [{}, {}]
    said = capsys.readouterr().err
    assert "old is left out" in said and said.count("too old") == 1


def test_an_arm_that_is_not_here_is_said(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.configure("arms: {last release: v9.*}")
    assert repository.measure() == 2
    assert "no tag v9.* before HEAD is here" in capsys.readouterr().err


# What does not count


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ("b['values'] = [float('nan'), 8.0]", "metric 'b' is nan in repetition 1"),
        ("b['values'] = [-8.0]", "metric 'b' is negative in repetition 1"),
        ("b['values'] = [1e308, 1e308]", "metric 'b' is above 1e+30 in repetition 1"),
        (
            "b['values'] = []",
            "metric 'b' has no values in repetition 1, 2, 3, 4, 5 of the candidate",
        ),
        (
            "if number == 3: del data['samples'][0]",
            "metric 'a' is missing in repetition 3 of the candidate",
        ),
    ],
)
def test_figures_that_are_off_are_written_and_do_not_count(
    repository: Repository,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    extra: str,
    reason: str,
) -> None:
    repository.configure()
    monkeypatch.setenv("EXTRA", extra)
    assert repository.measure() == 1
    record = repository.record()
    assert record.unusable == ()
    alone = [one for one in record.measurements if one.unusable]
    assert alone[0].unusable[0].startswith(reason)
    assert f"runci: unusable: {reason}" in capsys.readouterr().err
    made = additions_of(
        record, "record.json"
    )  # the next step takes it, and the other metric counts
    counts = {one.header.id.metric for one in made.series if not one.lines[0].unusable}  # type: ignore[union-attr]
    assert counts == {"a", "b"} - {one.metric for one in alone}
    assert not made.nights[0].unusable


def test_one_repetition_has_no_spread(repository: Repository) -> None:
    assert repository.measure("--repetitions", "1") == 1
    (reason,) = repository.record().unusable
    assert "--repetitions 5" in reason


def test_uncommitted_changes_are_said(repository: Repository) -> None:
    (repository.folder / "untracked").write_text("no fault\n")
    repository.configure()
    with (repository.folder / "bench.py").open("a") as stream:
        stream.write("# changed\n")
    assert repository.measure() == 1
    record = repository.record()
    assert record.commit == f"{repository.head}-dirty"
    assert [reason[:19] for reason in record.unusable] == ["uncommitted changes"]


def test_a_night_in_the_future_does_not_count(repository: Repository) -> None:
    repository.configure()
    assert repository.measure("--night", "2999-01-01") == 1
    assert repository.record().unusable[0].startswith("the night 2999-01-01 ")


def test_a_failed_check_is_kept_and_counts(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.configure()
    checks = (
        "{'name': 'fine', 'passed': True}, {'name': 'bits', 'passed': number != 2, 'detail': 'M'}"
    )
    monkeypatch.setenv("EXTRA", f"data['checks'] = [{checks}]")
    assert repository.measure() == 0
    record = repository.record()
    assert [(c.name, c.passed, c.detail) for c in record.checks] == [
        ("bits", False, "repetition 2 of 5: M"),
        ("fine", True, ""),
    ]
    assert "FAILED bits: repetition 2 of 5: M" in capsys.readouterr().out


# Again at once


def with_history(repository: Repository, tmp_path: Path, figure: float) -> Path:
    """A history in which metric a was `figure` times the baseline for eight nights."""
    repository.configure(f"baseline: {repository.baseline}")
    assert repository.measure() == 0
    known = repository.record().series_id("a")
    folder = tmp_path / "history"
    start_folder(folder)
    for number in range(1, 9):
        before = {"night": f"2025-12-{number:02d}"}  # than tonight, whenever that is
        pinned = {"baseline": (4.0,) * 3, "baseline_commit": repository.baseline, **before}
        pinned["candidate"] = (4.0 * figure,) * 3
        changed = {name: getattr(known, name) for name in ("benchmark", "gpu", "driver_major")}
        addition = Addition(header("a", **changed), (point(number, **pinned),))
        made = Additions((addition,), (night(number, **before),))
        append_folder(folder, lambda _, made=made: made)
    return folder


def test_a_metric_that_left_its_level_is_measured_again_at_once(
    repository: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = with_history(repository, tmp_path, 1.0)
    assert repository.measure("--history", str(history)) == 0
    record = repository.record()
    assert len(record.order) == 20
    for one in record.measurements:  # all of them
        assert (len(one.candidate), len(one.baseline)) == (5, 5)
        assert (one.again_candidate, one.again_baseline) == (one.candidate, one.baseline)
    shown = capsys.readouterr().err
    assert "a: +48.5% from its level" in shown
    assert "20/20 " in shown


def test_one_that_stayed_is_not(repository: Repository, tmp_path: Path) -> None:
    history = with_history(repository, tmp_path, 6.125 / 4.125)
    assert repository.measure("--history", str(history)) == 0
    assert len(repository.record().order) == 10
    assert repository.record().measurements[0].again_candidate == ()


def test_a_night_that_does_not_count_is_not_measured_again(
    repository: Repository, tmp_path: Path
) -> None:
    history = with_history(repository, tmp_path, 1.0)
    assert repository.measure("--history", str(history), "--repetitions", "2") == 1
    assert len(repository.record().order) == 4


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
