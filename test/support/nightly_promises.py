"""What the nightly's workflows promise beyond `runci audit`, promise by promise."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from places import ROOT

from runci.config.perf import read_config
from runci.workflows.conditions import condition
from runci.workflows.evaluate import can_be
from runci.workflows.find import read_document
from runci.workflows.model import Document

NIGHTLY = ".github/workflows/nightly-sm120.yml"
WATCH = ".github/workflows/nightly-watch.yml"
FILES = {path: (ROOT / path).read_text(encoding="utf-8") for path in (NIGHTLY, WATCH)}
CONFIG = read_config(ROOT / "test/perf.yml")
SUITE = "nightly-kernel-1-gpu-small"

GATED = {"actions": "read", "contents": "read", "issues": "read", "pull-requests": "read"}
READ = {"contents": "read"}
PERMISSIONS = {
    NIGHTLY: {
        "plan": READ,
        "call-gate": GATED,
        "nightly-kernel-5090": GATED,
        "measure-5090": GATED,
        "bisect-5090": GATED,
        "verdict": {"contents": "write"},
        "report": {"contents": "read", "issues": "read"},
        "pages": {"id-token": "write", "pages": "write"},
        "notify": {"contents": "read", "issues": "write"},
        "nightly-finish": {"actions": "read", "contents": "read"},
    },
    WATCH: {"watch": READ, "notify": {"contents": "read", "issues": "write"}},
}


@dataclass
class Workflow:
    """A workflow file, and its text as plain data."""

    document: Document
    plain: Any = field(init=False)

    def __post_init__(self) -> None:
        self.plain = self.document.root.plain()

    @property
    def jobs(self) -> dict[str, Any]:
        found: dict[str, Any] = self.plain["jobs"]
        return found

    @property
    def steps(self) -> list[dict[str, Any]]:
        return [step for job in self.jobs.values() for step in job.get("steps", ())]

    def starts(
        self,
        *failing: str,
        allowed: bool = True,
        accept: str = "",
        bisect: str = "",
        pages: str = "",
        fork: bool = False,
    ) -> set[str]:
        """The jobs that start in a run in which these fail, by GitHub's rules."""
        ends: dict[str, dict[str, Any]] = {}
        before: dict[str, set[str]] = {}
        for name, node in self.document.jobs.items():
            needs = node.plain().get("needs", [])
            needs = [needs] if isinstance(needs, str) else needs
            before[name] = {*needs, *(job for need in needs for job in before[need])}
            results = {ends[job]["result"] for job in before[name]}
            contexts = {
                "github": {"event": {"repository": {"fork": fork}}},
                "inputs": {"accept": accept, "bisect": bisect},
                "vars": {"PERF_PAGES": pages},
                "needs": {need: ends[need] for need in needs},
                "success()": results <= {"success"},
                "failure()": "failure" in results,
                "cancelled()": False,
            }
            holds = condition(node.get("if"))
            assert holds is not None
            outputs = {"allowed": "true" if allowed else "false", "suites": _suites(1)}
            failed = name in failing or (name == "call-gate" and not allowed)
            if can_be(True, holds, contexts):
                ends[name] = {"result": "failure" if failed else "success", "outputs": outputs}
            else:
                ends[name] = {"result": "skipped", "outputs": {}}
        return {name for name, end in ends.items() if end["result"] != "skipped"}


def _suites(size: int) -> str:
    """The output of the action `plan`."""
    return json.dumps({f"cuda_{SUITE}": json.dumps({"size": size, "shards": ["x"] * size})})


def read(path: str, text: str) -> Workflow:
    document = read_document(text.encode(), path)
    assert isinstance(document, Document)
    return Workflow(document)


def broken(files: Mapping[str, str]) -> set[str]:
    """The promises that these files do not keep, by name."""
    nightly, watch = (read(path, files[path]) for path in (NIGHTLY, WATCH))
    kept = {
        "least permissions": all(
            {name: job["permissions"] for name, job in workflow.jobs.items()} == PERMISSIONS[path]
            for path, workflow in ((NIGHTLY, nightly), (WATCH, watch))
        ),
        "one night at a time": nightly.plain["concurrency"]
        == {
            "group": "nightly-sm120${{ (inputs.accept || inputs.bisect) && "
            "format('-{0}', github.run_id) || '' }}",
            "cancel-in-progress": False,
        },
        "one issue at a time": all(
            workflow.jobs["notify"].get("concurrency")
            == {"group": "nightly-notify", "cancel-in-progress": False}
            for workflow in (nightly, watch)
        ),
        "hours": _hours(nightly, watch),
        "after the tests, on the same machine": _after_the_tests(nightly.jobs),
        "what perf.yml names": _what_perf_yml_names(nightly),
        "goes on": _goes_on(nightly, watch),
        "stops at the gate": nightly.starts(allowed=False)
        == {"plan", "call-gate", "nightly-finish"},
        "an acceptance measures nothing": _acceptance(nightly),
        "a bisection measures no night": _bisection(nightly),
        "ends red": _ends_red(nightly.jobs),
        "text of others": all(_is_kept_from_options(step) for step in nightly.steps),
        "pages write no branch": _pages(nightly),
        "the night on which it began": _began(nightly),
        "the baseline is another one": _two_commits(nightly.jobs["measure-5090"]),
        "one job writes the history": _writers(nightly) == {"verdict"} and not _writers(watch),
        "a fork is not watched": watch.starts(fork=True) == set(),
        "who accepts is not typed": [
            step["env"]["BY"] for step in nightly.steps if "BY" in step.get("env", {})
        ]
        == ["${{ github.triggering_actor || github.actor }}"],
        "the watch needs no machine": all(
            job["runs-on"] == "ubuntu-latest" for job in watch.jobs.values()
        ),
    }
    return {name for name, holds in kept.items() if not holds}


def _hours(nightly: Workflow, watch: Workflow) -> bool:
    """Not on the full hour, when everybody starts; the watch soon after a night becomes late."""
    minutes = []
    for workflow in (nightly, watch):
        (entry,) = workflow.plain["on"]["schedule"]
        minute, hour, *days = entry["cron"].split()
        if int(minute) == 0 or days != ["*", "*", "*"]:
            return False
        minutes.append(int(hour) * 60 + int(minute))
    late = CONFIG.late_hours % 24 * 60
    return minutes[0] < 6 * 60 and late < minutes[1] < late + 60


def _after_the_tests(jobs: Mapping[str, Any]) -> bool:
    """Beside them, or beside itself in a matrix, there would be nothing to measure."""
    tests, measuring = jobs["nightly-kernel-5090"], jobs["measure-5090"]
    return (
        tests["runs-on"] == measuring["runs-on"]
        and "nightly-kernel-5090" in measuring["needs"]
        and "strategy" not in measuring
    )


def _what_perf_yml_names(nightly: Workflow) -> bool:
    """Its benchmarks, and the branch of its history."""
    commands = [step.get("run", "") for step in nightly.steps]
    measured = re.findall(r"perf measure (\S+)", "\n".join(commands))
    checkouts = [step.get("with", {}) for step in nightly.steps]
    branches = {given["ref"] for given in checkouts if given.get("path") == ".perf-history"}
    return measured == list(CONFIG.benchmarks) and branches == {CONFIG.branch}


def _goes_on(nightly: Workflow, watch: Workflow) -> bool:
    """Whatever fails, the night is remembered, judged and told, as far as there is something."""
    all_but_pages = set(nightly.jobs) - {"pages", "bisect-5090"}
    failing = ("nightly-kernel-5090", "measure-5090", "verdict", "report", "notify")
    return (
        all(nightly.starts(job) == all_but_pages for job in failing)
        and nightly.starts(*failing) == nightly.starts() == all_but_pages
        and nightly.starts("verdict", pages="true") == {*all_but_pages, "pages"}
        and watch.starts("watch") == set(watch.jobs)
    )


def _acceptance(nightly: Workflow) -> bool:
    """No machine is asked for, and no night is written down, but what follows is told."""
    conditions = {
        match[1]: step.get("if")
        for step in nightly.steps
        if (match := re.match(r"runci perf (record|accept)\b", step.get("run", "")))
    }
    told = {"plan", "call-gate", "verdict", "report", "notify"}
    return nightly.starts(accept="x") == told and conditions == {
        "record": "${{ !inputs.accept && !inputs.bisect }}",
        "accept": "inputs.accept",
    }


def _bisection(nightly: Workflow) -> bool:
    """It is gated as what measures, tells what it found, be that nothing, and keeps it."""
    told = {"plan", "call-gate", "bisect-5090", "verdict", "report", "notify"}
    *_, checkout, history, setup, _, earlier, _, search, keep = nightly.jobs["bisect-5090"]["steps"]
    gates = [
        [step.get("run") for step in nightly.jobs[job]["steps"][:3]]
        for job in ("bisect-5090", "measure-5090")
    ]
    notify = nightly.jobs["notify"]
    return (
        nightly.starts(bisect="x") == nightly.starts("bisect-5090", bisect="x") == told
        and nightly.starts(bisect="x", allowed=False) == {"plan", "call-gate"}
        and gates[0] == gates[1]
        and checkout["with"].get("fetch-depth") == 0
        and history["with"]["path"] == ".perf-history"
        and setup["with"].get("editable") == "true"
        and earlier["with"]["pattern"] == keep["with"]["name"] == "bisect"
        and search["run"].startswith("runci perf bisect")
        and keep["if"] == "${{ always() && steps.bisect.outcome != 'skipped' }}"
        and "bisect-5090" in notify["needs"]
        and "--bisect night/bisect" in notify["steps"][-1]["run"]
    )


def _ends_red(jobs: Mapping[str, Any]) -> bool:
    last = jobs["nightly-finish"]
    return (
        set(last["needs"]) == set(jobs) - {"nightly-finish", "pages", "bisect-5090"}
        and last["if"] == "${{ always() && !inputs.accept && !inputs.bisect }}"
        and last["steps"][-1]["uses"] == "./.github/actions/finish"
        and last["steps"][-1]["with"].items()
        >= {"needs": "${{ toJSON(needs) }}", "may-skip": ""}.items()
        and last["steps"][-1]["with"].keys().isdisjoint({"may-fail", "one-of"})
        and "continue-on-error" not in str(jobs)
    )


def _is_kept_from_options(step: Mapping[str, Any]) -> bool:
    """Whether text that somebody typed stands where a dash in front makes no option of it."""
    for variable, value in step.get("env", {}).items():
        if "inputs." in value or "actor" in value:
            places = re.findall(rf"(=|-- )\"\${variable}\"", step["run"])
            if len(places) != 1 or step["run"].count(f"${variable}") != 1:
                return False
    given = {key for key, value in step.get("with", {}).items() if "inputs." in str(value)}
    return given <= {"suite"}


def _writers(workflow: Workflow) -> set[str]:
    """The jobs that append to the history."""
    return {
        name
        for name, job in workflow.jobs.items()
        for step in job.get("steps", ())
        if re.search(r"perf (record|accept|history)|--push", step.get("run", ""))
    }


def _two_commits(job: Mapping[str, Any]) -> bool:
    """With a copy installed the baseline would be the candidate, and nothing would ever be slower;
    and the kernel, and the baseline's commit, have to be there."""
    *_, checkout, history, setup, _, measure, keep = job["steps"]
    return (
        checkout["with"].get("fetch-depth") == 0
        and checkout["with"]["ref"] == "${{ github.sha }}"
        and history["with"]["path"] == ".perf-history"
        and setup["uses"] == "./.github/actions/setup-runci"
        and setup["with"].get("kernel") == "./kernel"
        and setup["with"].get("editable") == "true"
        and measure["run"].startswith("runci perf measure")
        and keep["uses"].startswith("actions/upload-artifact@")
    )


def _began(nightly: Workflow) -> bool:
    """However long a machine was awaited, both steps speak of one night."""
    dated = [step for step in nightly.steps if "NIGHT" in step.get("env", {})]
    return [step["run"].split()[:3] for step in dated] == [
        ["runci", "perf", "measure"],
        ["runci", "perf", "record"],
    ] and all(
        step["env"]["NIGHT"] == "${{ needs.plan.outputs.night }}"
        and '--night="$NIGHT"' in step["run"]
        for step in dated
    )


def _pages(nightly: Workflow) -> bool:
    """Nothing but the deployment, and only where somebody wants a site."""
    (step,) = nightly.jobs["pages"]["steps"][:1]
    return (
        len(nightly.jobs["pages"]["steps"]) == 1
        and step["uses"].startswith("actions/deploy-pages@")
        and "pages" not in nightly.starts(pages="false")
    )
