"""Runs the simulated year, or its first nights, and prints what came of it as JSON.

    .venv-perf/bin/python -m year.run FOLDER [NIGHTS]      (in test/support)

One process for the whole year: each step is `runci.cli.main` with a night's command line. What the
benchmark, git and GitHub do is real processes and a real server on this machine.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from fake_github import FakeGitHub, world

from runci.cli import main

from .nights import BISECTED, NIGHTS, Night, nights
from .world import Repository, environment, with_driver


class Year:
    """Runs nights one after another and keeps the exit status and output of every step."""

    def __init__(self, folder: Path, github: FakeGitHub) -> None:
        self.folder, self.github = folder, github
        self.repository = Repository(folder)
        self.record = folder / "record.json"
        self.verdicts = folder / "verdicts.json"
        os.environ.clear()
        os.environ.update(environment(self.repository, github.url))
        self.nights: list[dict[str, Any]] = []
        self.step("history", "--init")

    def step(self, *arguments: str) -> tuple[int, str]:
        """One command. A fault of ours ends the year."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            status = main(["perf", *arguments, "--root", str(self.repository.folder)])
        if status not in (0, 1):
            raise SystemExit(f"runci perf {' '.join(arguments)}: {status}\n{out.getvalue()}")
        return status, out.getvalue()

    def night(self, night: Night) -> None:
        """One night, as the workflow does it; on a dead one only the watcher runs."""
        self.repository.prepare(night)
        if not night.dead:
            os.environ |= {"GITHUB_RUN_ID": str(1000 + night.number)}
            measure = ["--night", night.date, "--seed", str(night.number)]
            self.step("measure", "kernels", "--output", str(self.record), *measure)
            with_driver(self.record, night)
            self.step("record", str(self.record))
        if night.accept:
            metric, reason = night.accept
            self.step("accept", metric, "--reason", reason, "--by", "mona")
        check = ["--push", "--output", str(self.verdicts), "--night", night.date]
        status, said = self.step("check", *check)
        self.nights.append({"night": night.date, "check": status, "said": said})
        self.report(night)
        self.nights[-1]["writes"] = self.notify()
        self.nights[-1]["verdicts"] = json.loads(self.verdicts.read_text())["verdicts"]

    def notify(self, *found: str) -> list[str]:
        """Bring the issues up to date; gives what was changed on GitHub."""
        before = len(self.github.requests)
        self.step("notify", str(self.verdicts), "--no-dry-run", *found)
        asked = self.github.requests[before:]
        return [f"{verb} {path}" for verb, path, _ in asked if verb != "GET"]

    def bisect(self, metric: str) -> dict[str, Any]:
        """Search for the commit of an open regression, and tell it in its issue.

        How many processes that takes is chance, so they do not count for the year's own noise.
        """
        machine = self.folder / "machine of the search"
        shutil.copytree(self.repository.machine, machine)
        output = self.folder / "bisect.json"
        os.environ["YEAR_WORLD"] = str(machine)
        status, said = self.step("bisect", metric, "--output", str(output))
        os.environ["YEAR_WORLD"] = str(self.repository.machine)
        self.notify("--bisect", str(output))
        (issue,) = (i for i in self.github.world["issues"] if metric in i["title"])
        found = json.loads(output.read_text())
        return {"status": status, "said": said, "found": found, "issue": copy.deepcopy(issue)}

    def lose(self, metric: str, night: str) -> dict[str, Any]:
        """Somebody deletes the newest file of a metric from the history; what comes of it."""
        history = self.folder / "copy"
        self.step("history", "--checkout", str(history))
        lost = max(history.glob(f"metrics/*/{metric}-*.jsonl"), key=lambda path: path.parent.name)
        lost.unlink()
        out = io.StringIO()
        root = ["--root", str(self.repository.folder), "--history", str(history), "--night", night]
        verdicts = self.folder / "lost.json"
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            status = main(["perf", "check", "--output", str(verdicts), *root])
        return {
            "check": status,
            "said": out.getvalue(),
            "file": lost.name,
            "written": verdicts.exists(),
        }

    def report(self, night: Night) -> None:
        """On some nights only: plots take time, and pages have tests of their own."""
        written = ["--markdown", "summary.md", "--badge", "badge.svg"]
        if night.number == NIGHTS - 1:
            written += ["--html", "page.html"]
        elif night.number % 30:
            return
        places = [str(self.folder / word) if "." in word else word for word in written]
        record = [] if night.dead else ["--record", str(self.record)]
        self.step("report", str(self.verdicts), *record, *places)


def run(folder: Path, count: int = NIGHTS) -> dict[str, Any]:
    """The first `count` nights: each night's verdicts, the commits, the issues, and what is
    written when the last night's issues are brought up to date again."""
    with FakeGitHub(world()) as github:
        year = Year(folder, github)
        bisected = {}
        for night in nights():
            if night.number < count:
                if night.number % 30 == 0:
                    print(night.date, file=sys.stderr, flush=True)
                year.night(night)
            if night.number == BISECTED < count:
                bisected = year.bisect("attention")
        return {
            "nights": year.nights,
            "commits": year.repository.commits,
            "culprits": year.repository.culprits,
            "bisected": bisected,
            "baseline": year.repository.baseline,
            "issues": github.world["issues"],
            "again": year.notify(),
            "lost": year.lose("gemm", year.nights[-1]["night"]),
        }


if __name__ == "__main__":
    outcome = run(Path(sys.argv[1]), *map(int, sys.argv[2:3]))
    (Path(sys.argv[1]) / "outcome.json").write_text(json.dumps(outcome))
