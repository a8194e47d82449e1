"""A plan as a pipeline of another service than GitHub, Buildkite or GitLab; pure.

A pipeline names shards, and jobs read plan.json: no path of a test is in it. Words of others are
quoted for the shell, and for what Buildkite expands before one sees them. Labels, which no shell
reads, are refused where a service would expand them.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from runci.config.taxonomy import MARGIN_MINUTES
from runci.core.errors import RunciError
from runci.core.labels import Group, Label
from runci.plan.model import Plan, PlannedSuite, Shard
from runci.text.yaml import quoted, scalar

PLANNER = "runci-plan"  # the step or job that planned, and keeps plan.json
RESULTS = "runci-results"  # below it a folder a shard
# Of this pipeline alone: artifacts of others may lie in a folder that a runner does not clean.
_GITLAB_RESULTS = f'"{RESULTS}/$CI_PIPELINE_ID"'
MAX_PARALLEL = 200  # shards of one job, as GitLab allows
MAX_NEEDS = 50  # jobs that one waits for, as GitLab is set up
_FRESH = f"rm -rf {RESULTS}"  # of an earlier job, where a service keeps its folder
_EXPANDED = re.compile(r"[$%\\]")


def as_buildkite(plan: Plan, given: Sequence[str] = ()) -> str:
    """The steps that `buildkite-agent pipeline upload` adds: one a shard, and verify at the end.

    `given` are options that say which repository, for `runci run`. Raises RunciError for a label
    that no agent can be asked for by.
    """
    plan_file = f"buildkite-agent artifact download plan.json . --step {PLANNER}"
    steps: list[dict[str, Any]] = []
    fetched = []
    for suite in plan.suites:
        for shard in suite.shards:
            folder = f"{RESULTS}/{shard.id}"
            run = [*_run(given), "--shard", shard.id, "--results", folder]
            step: dict[str, Any] = {
                "label": shard.id,
                "key": f"runci-shard-{len(steps) + 1}",
                "depends_on": PLANNER,
                "agents": _agents(suite),
                "command": [_FRESH, plan_file, _uploaded(shlex.join(run))],
                "artifact_paths": [f"{folder}/**/*"],
            }
            if (minutes := _minutes(suite)) is not None:
                step["timeout_in_minutes"] = minutes
            steps.append(step)
            # Of its own step alone: what another one calls so is none.
            fetch = shlex.join(["buildkite-agent", "artifact", "download", f"{folder}/*", "."])
            fetched.append(f"{fetch} --step {step['key']} || echo none of {shlex.quote(shard.id)}")
    before = (PLANNER, *(step["key"] for step in steps))
    verify = {
        "label": "runci verify",
        "key": "runci-verify",
        "depends_on": [{"step": key, "allow_failure": True} for key in before],
        "command": [_FRESH, plan_file, *fetched, *_verify(plan, RESULTS)],
        "timeout_in_minutes": MARGIN_MINUTES,
    }
    return _text("buildkite", {"steps": [*steps, verify]})


def as_gitlab(plan: Plan, given: Sequence[str] = ()) -> str:
    """A child pipeline: one job a suite, parallel by its shards, and verify at the end.

    `given` as for `as_buildkite`. Raises RunciError for a label that is no tag, and for more than
    GitLab takes.
    """
    planner = {"pipeline": "$PARENT_PIPELINE_ID", "job": PLANNER}
    jobs = {f"{one.backend} {one.name}": _gitlab_job(one, planner, given) for one in plan.suites}
    if len(jobs) >= MAX_NEEDS:
        raise RunciError(
            f"{len(jobs)} suites, and a job of GitLab waits for at most {MAX_NEEDS}: plan fewer at "
            "once with --suite, each in a child pipeline of its own"
        )
    verify = {
        "stage": "test",
        "needs": [planner, *({"job": name} for name in jobs)],
        "when": "always",
        "timeout": f"{MARGIN_MINUTES} minutes",
        "script": _verify(plan, _GITLAB_RESULTS),
    }
    return _text("gitlab", {"stages": ["test"], **jobs, "runci verify": verify})


def _gitlab_job(
    suite: PlannedSuite, planner: Mapping[str, str], given: Sequence[str]
) -> dict[str, Any]:
    count = len(suite.shards)
    if count > MAX_PARALLEL:
        raise RunciError(
            f"{suite.backend} {suite.name}: {count} shards, and a job of GitLab is at most "
            f"{MAX_PARALLEL}: raise timeout_minutes, or pass --shards {suite.name}={MAX_PARALLEL}"
        )
    run = shlex.join(_run(given))
    job: dict[str, Any] = {
        "stage": "test",
        "needs": [planner],
        "tags": list(_names(suite)),
        "script": [
            _FRESH,
            f"shard={_numbered(suite.shards)}",
            f'{run} --shard "$shard" --results {_GITLAB_RESULTS}/"$shard"',
        ],
        "artifacts": {"when": "always", "expire_in": "1 week", "paths": [f"{RESULTS}/"]},
    }
    if count > 1:
        job["parallel"] = count
    if (minutes := _minutes(suite)) is not None:
        job["timeout"] = f"{minutes} minutes"
    return job


def _numbered(shards: Sequence[Shard]) -> str:
    """The id of a job's shard, as a word of the shell that counts as GitLab does."""
    if len(shards) == 1:
        return shlex.quote(shards[0].id)
    beginning = shards[0].id.removesuffix(f"1of{len(shards)}")
    return f'{shlex.quote(beginning)}"${{CI_NODE_INDEX}}of${{CI_NODE_TOTAL}}"'


def _run(given: Sequence[str]) -> list[str]:
    if odd := next((w for w in given if w.encode("utf-8", "ignore").decode() != w), None):
        raise RunciError(f"{odd!r}: no YAML can hold such a path, which is no UTF-8: rename it")
    return ["runci", "run", "--plan", "plan.json", *given]


def _verify(plan: Plan, folder: str) -> list[str]:
    """No pipeline is empty: where nothing is planned, this is all of it, and says so."""
    verify = f"runci verify plan.json {folder}"
    if not plan.suites:
        return ["echo Nothing is planned.", f"mkdir -p {folder}", f"{verify} --allow-empty"]
    return [f"mkdir -p {folder}", verify]


def _minutes(suite: PlannedSuite) -> int | None:
    timeout = suite.timeout_minutes
    return None if timeout is None else math.ceil(timeout) + MARGIN_MINUTES


def _uploaded(command: str) -> str:
    """A command as it stands in a file that is uploaded: Buildkite takes one dollar of two.

    It reads a backslash and a dollar as one dollar, so that nothing may stand between quotes so.
    """
    return command.replace("\\$", "\\''$").replace("$", "$$")


def _names(suite: PlannedSuite) -> tuple[str, ...]:
    """What the machine of a suite must have, a group first."""
    where = f"{suite.backend} {suite.name}"
    label: Label | None = suite.label
    if label is None:
        raise RunciError(f"{where}: it has no runner whose label could be asked for: give it one")
    if isinstance(label, Group):
        names = (label.group, *label.labels)
    else:
        names = (label,) if isinstance(label, str) else label
    for name in names:
        if _EXPANDED.search(name) or not name.isprintable():
            raise RunciError(
                f"{where}: runner {suite.runner}: label {name!r}: the service would expand it: "
                "use no $, %, backslash or control character"
            )
    return names


def _agents(suite: PlannedSuite) -> dict[str, str]:
    """A label KEY=VALUE is a tag of the agents, another one is their queue."""
    pairs = [name.partition("=") for name in _names(suite)]
    tags = [(key, value) if equals else ("queue", key) for key, equals, value in pairs]
    if len({key for key, _ in tags}) < len(tags):
        raise RunciError(
            f"{suite.backend} {suite.name}: runner {suite.runner}: an agent of Buildkite has one "
            "queue, and one value of a tag: write label: [QUEUE, KEY=VALUE, ...]"
        )
    return dict(tags)


def _text(service: str, pipeline: Mapping[str, Any]) -> str:
    """As YAML. Every text is quoted: two parsers of YAML do not agree which need not be."""
    return f"# `runci plan --format {service}` wrote this.\n" + "".join(
        f"{line}\n" for line in _lines(pipeline)
    )


def _lines(value: Mapping[str, Any] | Sequence[Any]) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            name = scalar(key) if re.fullmatch(r"[a-z_]{3,}", key) else quoted(key)
            if isinstance(item, (Mapping, list)):
                yield f"{name}:"
                yield from (f"  {line}" for line in _lines(item))
            else:
                yield f"{name}: {_quoted(item)}"
        return
    for item in value:
        lines = _lines(item) if isinstance(item, Mapping) else iter([_quoted(item)])
        yield f"- {next(lines)}"
        yield from (f"  {line}" for line in lines)


def _quoted(value: str | int | bool) -> str:
    return quoted(value) if isinstance(value, str) else json.dumps(value)


SERVICES: Mapping[str, Callable[[Plan, Sequence[str]], str]] = {
    "buildkite": as_buildkite,
    "gitlab": as_gitlab,
}
