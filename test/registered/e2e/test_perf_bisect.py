"""A regression from its first night to its culprit: measured, judged, bisected and told."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # for `python FILE`

from fake_github import FakeGitHub, world
from perf_repository import Repository, made_repository
from places import ROOT

from runci import register_cpu_ci
from runci.nightly.bisect import Searched
from runci.nightly.record import decode

register_cpu_ci(est_time=20, stage="base-a", runner_config="cpu")

PYTHON = ROOT / ".venv-perf" / "bin" / "python"
NOISE = "import random; a['values'] = [v * random.gauss(1, 0.005) for v in a['values']]"
FIRST = datetime.date(2026, 1, 1)
GOOD_NIGHTS = 12


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    monkeypatch.setenv("EXTRA", NOISE)
    yield from made_repository(tmp_path, monkeypatch)


class Nights:
    """Runs the steps of nights in the nightly's environment."""

    def __init__(self, repository: Repository, github: FakeGitHub) -> None:
        self.repository, self.folder = repository, repository.folder.parent
        self.environment = {
            **os.environ,
            "CI": "true",
            "GITHUB_API_URL": github.url,
            "GITHUB_REPOSITORY": "octo/kernels",
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_TOKEN": "secret",
        }
        self.perf("history", "--init", "--history", "h")

    def perf(self, *arguments: str) -> int:
        command = [str(PYTHON), "-m", "runci", "perf", *arguments]
        where = ["--root", str(self.repository.folder)]
        done = subprocess.run(
            [*command, *where],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in (0, 1), done.stderr
        return done.returncode

    def night(self, number: int) -> int:
        """Measure, remember and judge a night; the exit status of the check."""
        date = (FIRST + datetime.timedelta(number)).isoformat()
        history = ("--history", "h")
        assert self.perf("measure", "gemm", "--night", date, "--output", "record.json") == 0
        assert self.perf("record", "record.json", *history) == 0
        found = self.perf("check", "--push", "--night", date, "--output", "v.json", *history)
        self.perf("notify", "v.json")
        return found


def test_the_culprit_among_a_day_s_commits_stands_in_the_issue(repository: Repository) -> None:
    assert PYTHON.exists(), "no .venv-perf: run `make .venv-perf/stamp`"
    repository.configure(f"baseline: {repository.head}")  # else it is slower than that at once
    with FakeGitHub(world()) as github:
        nights = Nights(repository, github)
        for number in range(GOOD_NIGHTS):
            assert nights.night(number) == 0
        commits = []
        for i, level in enumerate((6.0, 6.0, 6.6, 6.6, 6.6)):  # of one day
            (repository.folder / "n").write_text(str(i))
            commits.append(repository.commit(level))
        found = [nights.night(GOOD_NIGHTS + n) for n in range(2)]
        assert found[-1] == 1
        (issue,) = github.world["issues"]
        assert "runci perf bisect" in issue["body"]
        assert nights.perf("bisect", "a", "--history", "h", "--output", "bisect.json") == 0
        said = decode((nights.folder / "bisect.json").read_bytes(), Searched, "bisect.json")
        assert said.commits == tuple(commits)
        assert said.culprit == commits[2]
        nights.perf("notify", "v.json", "--bisect", "bisect.json")
        assert f"/octo/kernels/commit/{commits[2]})" in issue["body"]
        assert "level 6.6" in issue["comments"][-1]["body"]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
