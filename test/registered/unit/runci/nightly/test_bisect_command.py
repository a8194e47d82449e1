"""`runci perf bisect`, on real commits of a small benchmark that the CPU runs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_records import event, header, night, point
from perf_repository import BENCH, Repository, made_repository

from runci import register_cpu_ci
from runci.cli import main
from runci.nightly.bisect import Searched
from runci.nightly.history.additions import Addition, Additions
from runci.nightly.history.store import append_folder, start_folder
from runci.nightly.measure.state import cpu_model
from runci.nightly.record import decode

register_cpu_ci(est_time=30, stage="base-a", runner_config="cpu")

LEVELS = (6.0, 6.0, 6.0, 6.0, 6.0, 6.6, 6.6, 6.6, 6.6)  # of the good commit, and those after it
CULPRIT = 4  # of those after it, from 0
NOISE = "import random; a['values'] = [v * random.gauss(1, 0.01) for v in a['values']]"


class Bisected:
    """A repository whose regression is open in a history, and the commits after the good one."""

    def __init__(
        self, repository: Repository, levels: tuple[float, ...] = LEVELS, spread: float = 0.0
    ) -> None:
        self.repository = repository
        self.output = repository.folder.parent / "bisect.json"
        (repository.folder / "n").write_text("")
        self.commits = [self.commit(i, level) for i, level in enumerate(levels)]
        self.history = repository.folder.parent / "h"
        self.remember(tuple(6.0 * (1 + spread * n) for n in (-2, -1, 0, 1, 2)))

    def commit(self, number: int, level: float) -> str:
        (self.repository.folder / "n").write_text(str(number))
        return self.repository.commit(level)

    def remember(self, candidate: tuple[float, ...]) -> None:
        """Two nights with such pairs."""
        start_folder(self.history)
        known = header("a", gpu=f"cpu: {cpu_model()}", driver_major=0)
        good, bad = self.commits[0], self.commits[-1]
        opened = replace(event(2), since_commit=bad, last_good=good, change=0.1)
        pairs = {"candidate": candidate, "baseline": (6.0,) * len(candidate)}
        lines = (point(1, **pairs), point(2, **pairs), opened)
        made = Additions((Addition(known, lines),), (night(1), night(2)))
        append_folder(self.history, lambda _: made)

    def arguments(self, *more: str) -> list[str]:
        where = ["--root", str(self.repository.folder), "--history", str(self.history)]
        return ["perf", "bisect", "a", *where, "--output", str(self.output), *more]

    def run(self, *more: str) -> int:
        return main(self.arguments(*more))

    def read(self) -> Searched:
        return decode(self.output.read_bytes(), Searched, "bisect.json")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    monkeypatch.setenv("EXTRA", NOISE)
    yield from made_repository(tmp_path, monkeypatch)


def test_the_culprit_is_found_among_noisy_pairs(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    bisected = Bisected(repository)
    assert bisected.run() == 0
    said = bisected.read()
    culprit = bisected.commits[1 + CULPRIT]
    assert (said.culprit, said.author, said.subject) == (culprit, "Ada", "level 6.6")
    assert said.commits == tuple(bisected.commits[1:])
    assert 6 <= len(said.pairs) <= 25
    assert culprit in capsys.readouterr().out
    assert bisected.run() == 0  # nothing is measured again
    assert bisected.read() == said


def test_real_work_of_the_cpu_is_told_apart(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = "for _ in range(int(level.VALUE * 300_000)): pass"
    clock = "import time\nbegan = time.process_time()"
    monkeypatch.setenv("EXTRA", f"{clock}\n{work}\na['values'] = [time.process_time() - began]")
    bisected = Bisected(repository, (1.0, 1.0, 1.0, 2.0, 2.0))
    assert bisected.run() == 0
    assert bisected.read().culprit == bisected.commits[3]


def test_what_does_not_run_is_skipped(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    """The culprit itself runs; the one before it and another do not."""
    broken = "if open('n').read() in ('2', '4'): raise SystemExit('does not build')\n"
    (repository.folder / "bench.py").write_text(broken + BENCH)
    bisected = Bisected(repository)
    assert bisected.run() == 0
    said = bisected.read()
    assert said.suspects == (bisected.commits[4], bisected.commits[5])
    assert bisected.commits[4] in said.broken
    assert said.culprit == ""
    assert "does not build" in capsys.readouterr().err


def test_a_search_that_is_killed_goes_on_where_it_was(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    bisected = Bisected(repository)
    command = [sys.executable, "-m", "runci", *bisected.arguments()]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    while process.poll() is None and not bisected.output.exists():
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = bisected.read().pairs
    assert before
    assert bisected.run() == 0
    assert "going on after" in capsys.readouterr().err
    said = bisected.read()
    assert said.pairs[: len(before)] == before
    assert said.culprit == bisected.commits[1 + CULPRIT]


def test_what_is_not_seen_here_is_said(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    bisected = Bisected(repository, (6.0,) * 5)
    assert bisected.run() == 1
    said = bisected.read()
    assert (said.suspects, said.confidence > 0.9) == ((), True)
    assert "not seen on this machine" in capsys.readouterr().out


def test_too_few_pairs_name_what_is_left(repository: Repository) -> None:
    bisected = Bisected(repository)
    assert bisected.run("--most", "4") == 1
    said = bisected.read()
    assert (len(said.pairs), said.culprit) == (4, "")
    assert bisected.commits[1 + CULPRIT] in said.suspects
    assert bisected.run() == 0  # more of them go on
    assert bisected.read().culprit == bisected.commits[1 + CULPRIT]


def test_as_many_pairs_are_measured_as_the_nights_noise_asks_for(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same measurements, after nights whose pairs vary little, and by four per cent."""
    monkeypatch.setenv("EXTRA", "")
    bisected = Bisected(repository, spread=0.001)
    assert bisected.run() == 0
    few = len(bisected.read().pairs)
    bisected.output.unlink()
    shutil.rmtree(bisected.history)
    bisected.remember((5.6, 5.8, 6.0, 6.2, 6.4))
    assert bisected.run() == 0
    assert bisected.read().culprit == bisected.commits[1 + CULPRIT]
    assert len(bisected.read().pairs) > few


def test_where_there_is_nothing_to_search(
    repository: Repository, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    bisected = Bisected(repository)
    good, bad = bisected.commits[0], bisected.commits[-1]
    assert bisected.run("--good", bad, "--bad", good) == 2
    assert "no commit lies after" in capsys.readouterr().err
    assert bisected.run("--most", "3") == 1
    assert bisected.run("--good", bisected.commits[1]) == 2
    assert "of another search" in capsys.readouterr().err
    assert main([*bisected.arguments(), "--machine", "other"]) == 2
    start_folder(tmp_path / "other")
    closed = Additions((Addition(header("a"), (point(1),)),), (night(1),))
    append_folder(tmp_path / "other", lambda _: closed)
    assert bisected.run("--history", str(tmp_path / "other")) == 3
    assert "name --good and --bad" in capsys.readouterr().err
    named = ("--history", str(tmp_path / "other"), "--good", good, "--bad", bad)
    assert bisected.run(*named, "--output", str(tmp_path / "x.json")) == 2
    assert "was seen on NVIDIA GeForce RTX 5090" in capsys.readouterr().err


def test_a_good_commit_that_fails_ends_it(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = "if open('n').read() == '0': raise SystemExit('no')\n"
    (repository.folder / "bench.py").write_text(bench + BENCH)
    bisected = Bisected(repository)
    assert bisected.run() == 2
    assert "the good commit, fails" in capsys.readouterr().err


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
