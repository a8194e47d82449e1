"""What `runci perf measure` cannot measure, and nights that are interrupted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_records import git
from perf_repository import BENCH, Repository, gone, made_repository, stubborn

from runci import register_cpu_ci
from runci.cli import main

register_cpu_ci(est_time=9, stage="base-a", runner_config="cpu")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    yield from made_repository(tmp_path, monkeypatch)


# What cannot be measured


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (
            "python, -c, 'import sys; print(6); sys.exit(\"no \\x1b[31mluck\")'",
            1,
            "record.log, last:\n    no \\x1b[31mluck\n",
        ),
        ("python, -c, 'import os; os.kill(os.getpid(), 9)'", 1, "ended by SIGKILL"),
        ("python, -c, 'print(6.02)'", 2, "schema None, but this runci reads 1"),
        ("python, -c, 'print(\"6.02 us\")'", 2, "not JSON"),
        ("python, -c, pass, '{output}'", 2, "ended with status 0 and wrote no {output}"),
        (
            "python, -c, 'import os, sys; os.mkfifo(sys.argv[1])', '{output}'",
            2,
            "what it wrote as {output} is no file",
        ),
        ("python, -c, 'print(\"x\" * (65 << 20))'", 1, "printed more than 64 MiB"),
        ("no-such-program", 2, "cannot start no-such-program: No such file"),
        ("python, -c, 'print(''{\"schema\": 1, \"samples\": []}'')'", 3, "nothing was measured"),
    ],
)
def test_no_record_is_written_where_nothing_can_be_measured(
    repository: Repository, capsys: pytest.CaptureFixture[str], command: str, code: int, said: str
) -> None:
    repository.configure(command=command)
    assert repository.measure() == code
    shown = capsys.readouterr().err
    assert said in shown
    assert "candidate 1 of 5: " in shown
    assert not repository.output.exists()


def test_a_failing_baseline_is_named(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository.folder / "bench.py").write_text("raise SystemExit('broken')\n")
    pinned = repository.commit(4.0)
    (repository.folder / "bench.py").write_text(BENCH)
    repository.commit(6.0)
    assert repository.measure("--baseline", pinned) == 1
    shown = capsys.readouterr().err
    assert "runci: baseline 1 of 5: exit status 1; " in shown
    assert shown.endswith("record.log, last:\n    broken\n")
    assert "broken" in repository.log()


def test_what_takes_too_long_is_ended_with_all_that_it_started(
    repository: Repository, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code = stubborn(tmp_path)
    repository.configure("timeout_minutes: 0.02", command=f'python, -c, "{code}"')
    assert repository.measure() == 1
    assert "timeout_minutes (0.02 min)" in capsys.readouterr().err
    assert gone(int((tmp_path / "pid").read_text()[:-1]))


def test_what_prints_without_end_is_ended(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.configure(command="sh, -c, 'yes; :'")
    assert repository.measure() == 1
    assert "printed more than 64 MiB" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--repetitions", "0"], "--repetitions 0: at least one pair must run"),
        (["--night", "yesterday"], "--night 'yesterday' is no date"),
        (["--baseline", "no-such-commit"], "baseline no-such-commit: it is not here: git fetch"),
        (["--baseline", "--all"], "baseline --all: it is not here"),
        (["--output", "no/such/folder/x.json"], "cannot write"),
        (["--output", "x.log"], "the log stands there"),
        (["--output", os.devnull], "not a file"),
        (["--night", "20261201"], "no date"),
        (["--night", "2026-W49-2"], "no date"),
        (["--night", "9999-12-31"], "no date"),
        (["--history", "no-such-folder"], "no-such-folder"),
        (["--config", "no-such.yml"], "no-such.yml: cannot read"),
    ],
)
def test_wrong_use_is_said_before_anything_runs(
    repository: Repository, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    if arguments[0] == "--baseline":
        arguments = [f"--baseline={arguments[1]}"]
    assert repository.measure(*arguments) == 2
    assert said in capsys.readouterr().err
    assert not repository.output.with_suffix(".log").exists()


def test_an_unknown_benchmark(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["perf", "measure", "x", "--output", "y", "--root", str(repository.folder)]) == 2
    assert "'x'; there are: gemm" in capsys.readouterr().err


def test_a_shallow_clone_says_what_to_fetch(
    repository: Repository,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    git(repository.folder, "add", "-f", "test/perf.yml")
    git(repository.folder, "commit", "-q", "-m", "perf.yml")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth=1", repository.folder.as_uri(), str(clone))
    arguments = ["perf", "measure", "gemm", "--root", str(clone), "--output"]
    arguments.append(str(repository.output))
    assert main(arguments) == 2
    fetch = f"git fetch --depth=1 origin {repository.baseline}"
    assert f": {fetch}" in capsys.readouterr().err
    git(clone, "fetch", "-q", "--depth=1", "origin", repository.baseline)
    monkeypatch.setenv("PYTHONPATH", str(clone / "packages"))
    assert main(arguments) == 0
    assert repository.record().measurements[0].baseline == ((4.0, 4.25),) * 5


def test_no_repository_no_record(
    repository: Repository, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    repository.configure()
    config = str(repository.folder / "test" / "perf.yml")
    bare = tmp_path / "bare"
    bare.mkdir()
    where = ["--root", str(bare), "--config", config, "--output", str(repository.output)]
    assert main(["perf", "measure", "gemm", *where]) == 2
    assert "not a git repository" in capsys.readouterr().err


# Interrupted


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_night_leaves_nothing(
    repository: Repository, tmp_path: Path, number: int, status: int
) -> None:
    code = stubborn(tmp_path)
    repository.configure(f"baseline: {repository.baseline}", command=f'python, -c, "{code}"')
    arguments = ["perf", "measure", "gemm", "--output", str(repository.output)]
    process = subprocess.Popen(
        [sys.executable, "-m", "runci", *arguments, "--root", str(repository.folder)],
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    pid = tmp_path / "pid"
    while process.poll() is None and not (pid.exists() and pid.read_text().endswith(".")):
        time.sleep(0.05)
    assert not repository.is_clean()  # the baseline is checked out
    process.send_signal(number)
    process.send_signal(number)  # whoever stops it is impatient
    _, said = process.communicate(timeout=60)
    assert process.returncode == status, said
    assert b"Traceback" not in said
    assert gone(int(pid.read_text()[:-1]))
    assert not repository.output.exists()


def test_what_a_killed_night_left_goes_with_the_next_and_not_with_one_beside_it(
    repository: Repository, tmp_path: Path
) -> None:
    code = stubborn(tmp_path)
    repository.configure(f"baseline: {repository.baseline}", command=f'python, -c, "{code}"')
    arguments = ["perf", "measure", "gemm", "--output", str(tmp_path / "other.json")]
    process = subprocess.Popen(
        [sys.executable, "-m", "runci", *arguments, "--root", str(repository.folder)],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    pid = tmp_path / "pid"
    while process.poll() is None and not (pid.exists() and pid.read_text().endswith(".")):
        time.sleep(0.05)
    repository.configure(f"baseline: {repository.baseline}")
    assert repository.measure() == 0
    assert not repository.is_clean()  # the other one still runs
    process.kill()
    process.wait()
    os.kill(int(pid.read_text()[:-1]), signal.SIGKILL)
    assert not repository.is_clean()
    assert repository.measure() == 0
    assert repository.is_clean()


# A disk that fills.


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 8 MiB, with a folder for temporary files."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)]
    if (
        not shutil.which("mount")
        or subprocess.run(mount, capture_output=True, check=False).returncode
    ):
        pytest.skip("only root may mount a small disk")
    try:
        (place / "tmp").mkdir()
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_fills_keeps_the_pairs_that_are_whole(
    repository: Repository,
    disk: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    repository.output = disk / "record.json"
    monkeypatch.setenv("TMPDIR", str(disk / "tmp"))
    # Half of the third pair is there when nothing fits any more.
    filling = f"open('{disk}/x', 'wb').write(bytes(1 << 24))"
    monkeypatch.setenv("EXTRA", f"if number == 6: {filling}")
    assert repository.measure() == 1
    record = repository.record()
    assert [len(one.candidate) for one in record.measurements] == [2, 2]
    assert [len(one.baseline) for one in record.measurements] == [2, 2]
    assert record.unusable[-1].startswith("stopped after 2 of 5 pairs: ")
    assert "stopped after 2 of 5 pairs" in capsys.readouterr().err
    assert not list((disk / "tmp").iterdir())


def test_there_is_room_for_the_record_on_a_disk_that_filled(
    repository: Repository, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.output = disk / "record.json"
    whole = f"try: open('{disk}/x', 'wb').write(bytes(1 << 24))\nexcept OSError: pass"
    monkeypatch.setenv("EXTRA", whole)
    assert repository.measure() == 0  # what runs has its temporary files elsewhere
    assert len(repository.record().measurements[0].candidate) == 5


def test_a_log_that_cannot_be_written_ends_nothing(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXTRA", "sys.stderr.write('x' * 20_000)")
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, before[1]))
    try:
        assert repository.measure() == 0
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(repository.record().measurements[0].candidate) == 5
    assert len(repository.log()) < 65_537


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
