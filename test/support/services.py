"""Buildkite and GitLab played: the steps of a pipeline, in order, each in a checkout of its own."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

# As the agent's parser goes on: pairs of backslashes, an escaped dollar, a command, a variable.
_DOLLAR = re.compile(r"\\\\|\\\$|\$\$|\$\(|\$([A-Za-z]\w*)|\$\{([A-Za-z]\w*)\}")


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """What Buildkite's agent makes of a text of a pipeline that is uploaded."""

    def one(found: re.Match[str]) -> str:
        if found[0] in ("\\$", "$$"):
            return "$"
        name = found[1] or found[2]
        return variables.get(name, "") if name else found[0]

    return _DOLLAR.sub(one, text)


_AGENT = """\
#!{python}
import fnmatch, os, pathlib, shutil, sys
assert sys.argv[1:3] == ["artifact", "download"] and sys.argv[5] == "--step", sys.argv
query, to, step = sys.argv[3], sys.argv[4], sys.argv[6]
kept = pathlib.Path(os.environ["PLAYED_ARTIFACTS"]) / step
found = [p for p in kept.rglob("*") if p.is_file()
         and fnmatch.fnmatchcase(p.relative_to(kept).as_posix(), query)]
for path in found:
    target = pathlib.Path(to) / path.relative_to(kept)
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, target)
sys.exit(0 if found else "no artifacts found")
"""


@dataclass
class Service:
    """A repository, what its jobs kept, and how they ended. `environment` is that of all jobs."""

    repository: Path
    folder: Path
    environment: Mapping[str, str]
    ended: dict[str, int] = field(default_factory=dict)
    output: dict[str, str] = field(default_factory=dict)
    jobs: dict[str, tuple[list[str], dict[str, str], list[str]]] = field(default_factory=dict)

    @property
    def kept(self) -> Path:
        return self.folder / "artifacts"

    def keep(self, job: str, path: Path) -> None:
        """What the job that plans keeps."""
        (self.kept / job).mkdir(parents=True)
        shutil.copy(path, self.kept / job)

    def buildkite(self, pipeline: str) -> None:
        """Run the steps that were uploaded; each waits for those that it depends on."""
        agent = self.folder / "bin" / "buildkite-agent"
        agent.parent.mkdir(parents=True, exist_ok=True)
        agent.write_text(_AGENT.format(python=sys.executable), encoding="utf-8")
        agent.chmod(0o755)
        for step in yaml.safe_load(pipeline)["steps"]:
            before = step["depends_on"]
            for one in before if isinstance(before, list) else [{"step": before}]:
                ran = self.ended.get(one["step"], 0 if one["step"] == "runci-plan" else None)
                assert ran == 0 or (ran is not None and one["allow_failure"])
            commands = [expanded(command, {}) for command in step["command"]]
            checkout = self._run(step["key"], ["bash", "-e", "-c", "\n".join(commands)], {}, [])
            paths = step.get("artifact_paths", ())
            files = (p.relative_to(checkout) for p in checkout.rglob("*") if p.is_file())
            # `**/` is also nothing, as Buildkite has it.
            flat = [one for path in paths for one in (path, path.replace("**/", ""))]
            self._keep(step["key"], checkout, (f for f in files if _any(f.as_posix(), flat)))

    def gitlab(self, pipeline: str) -> None:
        """Run the jobs of a child pipeline."""
        document = yaml.safe_load(pipeline)
        for name, job in document.items():
            if not isinstance(job, dict):
                continue
            needed = [need["job"] for need in job.get("needs", ())]
            assert job.get("when") == "always" or set(needed) <= {"runci-plan"}
            for number, total in _parallel(job):
                shown = name if total == 1 else f"{name} {number}/{total}"
                variables = {"CI_NODE_INDEX": str(number), "CI_NODE_TOTAL": str(total)}
                variables["CI_PIPELINE_ID"] = "7"
                script = ["bash", "-eo", "pipefail", "-c", "\n".join(job["script"])]
                checkout = self._run(shown, script, variables, needed)
                for folder in job.get("artifacts", {}).get("paths", ()):
                    files = (p for p in (checkout / folder).rglob("*") if p.is_file())
                    self._keep(shown, checkout, (f.relative_to(checkout) for f in files))

    def again(self, job: str) -> None:
        """Run a job once more."""
        self._run(job, *self.jobs[job])

    def _run(
        self, job: str, command: list[str], variables: dict[str, str], artifacts: list[str]
    ) -> Path:
        self.jobs[job] = (command, variables, artifacts)
        checkout = self.folder / "builds" / job.replace("/", "-")
        shutil.rmtree(checkout, ignore_errors=True)
        clone = ["git", "clone", "--quiet", str(self.repository), str(checkout)]
        subprocess.run(clone, check=True)
        for name in artifacts:  # of each of a job's parallel ones
            for kept in sorted(self.kept.glob(f"{name}*")):
                shutil.copytree(kept, checkout, dirs_exist_ok=True)
        path = os.pathsep.join(
            [str(self.folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
        )
        done = subprocess.run(
            command,
            cwd=checkout,
            env={
                **os.environ,
                "PATH": path,
                "PLAYED_ARTIFACTS": str(self.kept),
                **self.environment,
                **variables,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        self.ended[job], self.output[job] = done.returncode, done.stdout
        return checkout

    def _keep(self, job: str, checkout: Path, files: Iterable[Path]) -> None:
        for path in list(files):
            target = self.kept / job.replace("/", "-") / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(checkout / path, target)


def _any(path: str, globs: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(path, one) for one in globs)


def _parallel(job: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    total = job.get("parallel", 1)
    return ((number, total) for number in range(1, total + 1))
