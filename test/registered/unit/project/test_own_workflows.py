"""The workflows of this repository: what they promise beyond what `runci audit` proves."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import pytest

from runci import register_cpu_ci
from runci.config.gate import PERMISSIONS, load_permissions
from runci.gate.decide import decide
from runci.gate.events import read_event
from runci.gate.labels import IDLE
from runci.gate.request import GateRequest, Outcome
from runci.gate.rules import is_other_label, needed_labels, ours
from runci.workflows.evaluate import render
from runci.workflows.find import read_document
from runci.workflows.model import Document, steps_of, text_of_node

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

ROOT = Path(__file__).parents[4]
FILES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted((ROOT / ".github").rglob("*.yml"))
    if path.parent != ROOT / ".github"
}
WORKFLOWS = sorted(path for path in FILES if "/workflows/" in path)
BASE_TEST = ".github/workflows/pr-test.yml"
EXTRA_TEST = ".github/workflows/pr-test-extra.yml"
KERNEL = ".github/workflows/pr-test-jit-kernel.yml"
NIGHTLY = ".github/workflows/nightly-sm120.yml"
WATCH = ".github/workflows/nightly-watch.yml"
SLASH = ".github/workflows/slash-command.yml"
STATES = ".github/workflows/pr-states.yml"
DOCS = ".github/workflows/docs.yml"
RELEASE = ".github/workflows/release.yml"
# Workflows cannot read the settings, so the labels stand in them literally.
LABELS = load_permissions((ROOT / PERMISSIONS).read_bytes()).labels
BASE = GateRequest("pull_request", labels=LABELS)
EXTRA = replace(BASE, extra=True)


@pytest.mark.parametrize(("path", "asked"), [(BASE_TEST, BASE), (EXTRA_TEST, EXTRA)])
def test_the_lanes_know_the_labels_of_the_settings(path: str, asked: GateRequest) -> None:
    """A label that only the gate knows would give no check, one that only they know a red one."""
    found = re.findall(r"!contains\(fromJSON\('(\[.+?\])'\)", FILES[path])
    assert [json.loads(names) for names in found] == [list(ours(asked))] * 2
    # What grants ends the run before it.
    cancels = re.findall(r"'labeled' &&\s+contains\(fromJSON\('(\[.+?\])'\)", FILES[path])
    assert [json.loads(names) for names in cancels] == [list(needed_labels(asked))]


@pytest.mark.parametrize(("path", "asked"), [(BASE_TEST, BASE), (EXTRA_TEST, EXTRA)])
def test_a_label_of_others_ends_no_tests(path: str, asked: GateRequest) -> None:
    """A change of a pull request ends its older run; a label of others has a lane of its own."""
    document = read_document(FILES[path].encode(), path)
    assert isinstance(document, Document)
    concurrency = document.root.get("concurrency")
    assert concurrency is not None

    def lane(run: int, pull: int | None, action: str = "synchronize", label: str = "") -> str:
        payload: dict[str, Any] = {"action": action, "label": {"name": label}}
        if pull is not None:
            payload["pull_request"] = {"number": pull}
        github = {"run_id": run, "event": payload}
        (group,) = render(text_of_node(concurrency.get("group")), {"github": github})
        return str(group)

    tests = lane(1, 7)
    assert lane(2, 7) == tests != lane(2, 8)
    for action in ("labeled", "unlabeled"):
        for label in ours(asked):
            assert lane(2, 7, action, label) == tests
        assert len({tests, lane(2, 7, action, "docs"), lane(3, 7, action, "docs")}) == 3
    assert len({tests, lane(2, None), lane(3, None)}) == 3  # schedule, and by hand


NEW_BASE = {"base": {"ref": {"from": "old"}, "sha": {"from": "b" * 40}}}
# What each event of a pull request does to the run before it: ends it, waits for it, or neither.
LANES: list[tuple[str, Mapping[str, object], str]] = [
    ("opened", {}, "waits"),
    ("reopened", {}, "waits"),
    ("ready_for_review", {}, "waits"),
    ("synchronize", {}, "ends"),
    ("edited", {"changes": NEW_BASE}, "ends"),
    ("edited", {"changes": {**NEW_BASE, "title": {"from": "x"}}}, "ends"),
    ("edited", {"changes": {"title": {"from": "x"}}}, "beside"),
    ("edited", {"changes": {}}, "beside"),
    ("edited", {}, "beside"),
    ("labeled", {"label": {"name": "run-ci"}}, "ends"),
    ("labeled", {"label": {"name": "bypass-fastfail"}}, "waits"),
    ("labeled", {"label": {"name": "bypass-maintenance"}}, "waits"),
    ("unlabeled", {"label": {"name": "run-ci"}}, "ends"),
    ("unlabeled", {"label": {"name": "bypass-fastfail"}}, "ends"),
    ("labeled", {"label": {"name": "docs"}}, "beside"),
    ("unlabeled", {"label": {"name": "docs"}}, "beside"),
]


@pytest.mark.parametrize("path", [BASE_TEST, EXTRA_TEST])
@pytest.mark.parametrize(("action", "payload", "does"), LANES)
def test_only_what_replaces_grants_or_takes_back_ends_the_run_before(
    path: str, action: str, payload: Mapping[str, object], does: str
) -> None:
    """What the gate may deny must not end a run that was authorized; it waits for it."""
    document = read_document(FILES[path].encode(), path)
    assert isinstance(document, Document)
    concurrency = document.root.get("concurrency")
    assert concurrency is not None
    pull = {"action": "opened", "pull_request": {"number": 7}}
    before = {"github": {"run_id": 1, "event": pull}}
    event = {"github": {"run_id": 2, "event": {**pull, "action": action, **payload}}}
    group = text_of_node(concurrency.get("group"))
    (ends,) = render(text_of_node(concurrency.get("cancel-in-progress")), event)
    meets = render(group, before) == render(group, event)
    assert {(True, True): "ends", (True, False): "waits"}.get((meets, ends), "beside") == does
    # Beside it there is no required check.
    name = called(document, list(document.jobs)[-1], "pull_request", event["github"]["event"])
    assert (name == list(document.jobs)[-1]) is (does != "beside")


def test_a_merge_queue_gets_the_check_and_ends_nothing() -> None:
    document = read_document(FILES[BASE_TEST].encode(), BASE_TEST)
    assert isinstance(document, Document)
    payload = {"action": "checks_requested", "merge_group": {"base_ref": "refs/heads/main"}}
    last = list(document.jobs)[-1]
    assert called(document, last, "merge_group", payload) == last
    group = text_of_node(document.root.get("concurrency", "group"))
    lanes = {render(group, {"github": {"run_id": n, "event": payload}}) for n in (1, 2)}
    assert len(lanes) == 2


def test_the_second_label_of_extra_starts_it_anew() -> None:
    for path, ends in ((BASE_TEST, False), (EXTRA_TEST, True)):
        document = read_document(FILES[path].encode(), path)
        assert isinstance(document, Document)
        node = document.root.get("concurrency", "cancel-in-progress")
        event = {"action": "labeled", "label": {"name": "run-ci-extra"}}
        assert render(text_of_node(node), {"github": {"event": event}}) == (ends,)


@pytest.mark.parametrize("path", [BASE_TEST, EXTRA_TEST])
@pytest.mark.parametrize(
    "changes",
    [
        *(None, "base", [], {}, {"title": {"from": "x"}}, {"body": {"from": "x"}}, NEW_BASE),
        *({"base": wrong} for wrong in (None, "main", {}, [], 0, True, {"ref": "x"})),
    ],
)
def test_an_edit_with_the_name_of_a_required_check_is_never_ignored(
    path: str, changes: object
) -> None:
    document = read_document(FILES[path].encode(), path)
    assert isinstance(document, Document)
    last = list(document.jobs)[-1]
    payload = {"action": "edited", "changes": changes, "pull_request": {"number": 7}}
    event = read_event(payload, {"GITHUB_EVENT_NAME": "pull_request"})
    request = GateRequest("pull_request", "edited", retargets=event.retargets, for_pull=True)
    if called(document, last, "pull_request", payload) == last:
        assert decide(request).outcome is Outcome.DENY
    other = isinstance(changes, dict) and "base" not in changes
    assert (decide(request).outcome is Outcome.IGNORE) is other
    assert event.retargets is (True if changes == NEW_BASE else False if other else None)


@pytest.mark.parametrize(("path", "asked"), [(BASE_TEST, BASE), (EXTRA_TEST, EXTRA)])
@pytest.mark.parametrize("action", ["labeled", "unlabeled", "synchronize"])
@pytest.mark.parametrize("change", [str, str.upper, str.title, str.swapcase, "x{}".format])
def test_a_run_with_the_name_of_a_required_check_is_never_ignored(
    path: str, asked: GateRequest, action: str, change: Callable[[str], str]
) -> None:
    document = read_document(FILES[path].encode(), path)
    assert isinstance(document, Document)
    last = list(document.jobs)[-1]
    for label in map(change, ours(asked)):
        request = replace(asked, action=action, label=label)
        payload = {"action": action, "label": {"name": label}}
        assert (called(document, last, "pull_request", payload) == last) is not is_other_label(
            request
        )


@pytest.mark.parametrize("path", [BASE_TEST, EXTRA_TEST])
@pytest.mark.parametrize("action", ["labeled", "unlabeled", "synchronize", "edited"])
@pytest.mark.parametrize("label", ["docs", *astuple(LABELS)])
def test_what_the_gate_ignores_by_other_labels_gives_no_required_check(
    path: str, action: str, label: str
) -> None:
    """A branch may have older labels in its workflows than the default branch in its settings."""
    document = read_document(FILES[path].encode(), path)
    assert isinstance(document, Document)
    last = list(document.jobs)[-1]
    payload = {"action": action, "label": {"name": label}}
    name = called(document, last, "pull_request", payload, "ignore")
    assert name.startswith(IDLE)
    steps = [text_of_node(step.get("if")) for step in steps_of(document.jobs[last])]
    assert [step for step in steps if step] == ["needs.call-gate.outputs.outcome != 'ignore'"]


@pytest.mark.parametrize("path", [BASE_TEST, EXTRA_TEST])
@pytest.mark.parametrize(("base", "required"), [("main", True), ("mainline", False), ("x", False)])
def test_a_check_is_of_one_base(path: str, base: str, required: bool) -> None:
    """Checks stand at a head, and anybody may open a second pull request of that head into another
    branch, where less is planned."""
    document = read_document(FILES[path].encode(), path)
    assert isinstance(document, Document)
    last = list(document.jobs)[-1]
    pull = {"number": 8, "base": {"ref": base}}
    payload = {"pull_request": pull, "repository": {"default_branch": "main"}}
    for action in ("opened", "synchronize", "reopened"):
        name = called(document, last, "pull_request", {**payload, "action": action})
        assert name == (last if required else f"{last} ({base})")
    other = {**payload, "action": "labeled", "label": {"name": "docs"}}
    assert called(document, last, "pull_request", other).startswith("nothing to test")


def called(
    document: Document, job: str, event: str, payload: Mapping[str, object], outcome: str = "deny"
) -> str:
    """The name of a job, as a check shows it."""
    github = {"event_name": event, "event": payload}
    contexts = {"github": github, "needs": {"call-gate": {"outputs": {"outcome": outcome}}}}
    (name,) = render(text_of_node(document.jobs[job].get("name")), contexts)
    return str(name)


def test_a_dispatch_gives_no_required_check() -> None:
    """It may be of one test only, and its check stands at the ref that it was dispatched on, which
    can be the head of a pull request."""
    document = read_document(FILES[BASE_TEST].encode(), BASE_TEST)
    assert isinstance(document, Document)
    last = list(document.jobs)[-1]
    payload = {"inputs": {"test": "test/registered/test_a.py"}}
    assert called(document, last, "workflow_dispatch", payload) == "dispatched"
    assert called(document, last, "schedule", {}) == last
    # Whoever asked for it finds it by its name; others keep the one that GitHub gives.
    for test, pull, name in (("", "", ""), ("a.py", "7", "a.py (#7)"), ("a.py", "", "a.py")):
        inputs = {"inputs": {"test": test, "pull_request": pull} if test else {}}
        assert render(text_of_node(document.root.get("run-name")), inputs) == (name,)


@pytest.mark.parametrize("path", [BASE_TEST, EXTRA_TEST, KERNEL, NIGHTLY])
def test_each_gpu_job_asks_the_gate_before_anything_of_the_pull_request(path: str) -> None:
    """Until it has answered, only the default branch's code may be there."""
    document = read_document(FILES[path].encode(), path)
    assert isinstance(document, Document)
    jobs = [job for job in document.jobs.values() if "gpu" in text_of_node(job.get("runs-on"))]
    for job in jobs:
        before, setup, gate, *after = [step.plain() for step in steps_of(job)]
        assert before["uses"].startswith("actions/checkout@")
        assert before["with"]["ref"] == "${{ github.event.repository.default_branch }}"
        assert setup == {"uses": "./.github/actions/setup-runci"}
        assert gate["run"] == ("runci gate --extra" if path == EXTRA_TEST else "runci gate")
        assert gate.keys() == {"name", "env", "run"} and gate["env"].keys() == {"GITHUB_TOKEN"}
        ran = [step for step in after if "run" in step or "./" in step["uses"]]
        assert ran and all("if" not in step for step in ran)
    assert jobs


@pytest.mark.parametrize("path", WORKFLOWS)
def test_who_has_a_token_runs_the_default_branchs_code(path: str) -> None:
    document = read_document(FILES[path].encode(), path)
    assert isinstance(document, Document)
    assert document.root.get("env") is None
    for job in document.jobs.values():
        # Only in the step that needs it, and nothing else is secret here.
        around = {key: value for key, value in job.plain().items() if key != "steps"}
        assert "github.token" not in str(around) and "secrets" not in FILES[path].casefold()
        steps = [step.plain() for step in steps_of(job)]
        asking = [n for n, step in enumerate(steps) if "github.token" in str(step)]
        for step in steps[: max(asking, default=0)]:
            if "run" in step:  # nothing but runci, and no file of the checkout
                assert re.fullmatch(r"mkdir \w+|runci perf [^\n;&|]*", step["run"])
            elif step["uses"].startswith("actions/checkout@"):
                assert step["with"]["ref"] == "${{ github.event.repository.default_branch }}"
            elif step["uses"].startswith("actions/"):  # data, apart from the code
                uses = step["uses"].partition("@")[0]
                if uses != "actions/attest":
                    assert re.fullmatch(r"actions/(up|down)load-(pages-)?artifact", uses)
                    assert step["with"]["path"] != "."


def test_a_release_is_made_of_checked_files_and_by_nothing_of_the_checkout() -> None:
    """Only a tag makes one, after both other jobs, where an environment may ask somebody."""
    document = read_document(FILES[RELEASE].encode(), RELEASE)
    assert isinstance(document, Document)
    jobs = {name: job.plain() for name, job in document.jobs.items()}
    writes = {name for name, job in jobs.items() if "write" in job["permissions"].values()}
    assert writes == {"release"}
    last = jobs["release"]
    assert last["needs"] == ["build", "check"] and last["environment"] == "release"
    assert last["if"] == "${{ github.event_name == 'push' }}"
    assert [step.get("uses", "run").partition("@")[0] for step in last["steps"]] == [
        *("actions/download-artifact", "actions/attest", "run")
    ]
    assert last["steps"][1]["with"] == {"subject-path": "release/dist/*"}
    assert last["steps"][2]["run"].startswith(
        'gh release create "$TAG" release/dist/* --verify-tag'
    )
    assert jobs["check"]["needs"] == "build"


@pytest.mark.parametrize("path", WORKFLOWS)
def test_every_job_has_a_timeout_and_only_the_permissions_that_it_names(path: str) -> None:
    document = read_document(FILES[path].encode(), path)
    assert isinstance(document, Document)
    permissions = document.root.get("permissions")
    assert permissions is not None and permissions.plain() == {}
    for job in document.jobs.values():
        assert job.get("permissions") is not None
        assert job.get("uses") is not None or job.get("timeout-minutes") is not None
        assert job.get("secrets") is None


# What jobs may write, or ask for; everything else reads. The nightly's have a test of their own.
READS = {"actions", "contents", "issues", "pull-requests"}
WRITES = {
    SLASH: {"actions: write", "checks: read", "issues: write", "pull-requests: write"},
    STATES: {"pull-requests: write", "checks: read"},
    DOCS: {"id-token: write", "pages: write"},
    RELEASE: {"attestations: write", "contents: write", "id-token: write"},
}


@pytest.mark.parametrize("path", sorted(set(WORKFLOWS) - {NIGHTLY, WATCH}))
def test_no_job_may_write_what_it_need_not(path: str) -> None:
    document = read_document(FILES[path].encode(), path)
    assert isinstance(document, Document)
    asked = {
        f"{name}: {level}"
        for job in document.jobs.values()
        for name, level in job.plain()["permissions"].items()
    }
    assert asked - {f"{name}: read" for name in READS} == WRITES.get(path, set())


@pytest.mark.parametrize(
    ("event", "variables", "deployed"),
    [
        ("push", {"DOCS_PAGES": "true"}, True),
        ("push", {}, False),
        ("push", {"DOCS_PAGES": "true", "PERF_PAGES": "true"}, False),  # Pages has one site
        ("pull_request", {"DOCS_PAGES": "true"}, False),
    ],
)
def test_only_the_default_branch_deploys_the_documents(
    event: str, variables: Mapping[str, str], deployed: bool
) -> None:
    document = read_document(FILES[DOCS].encode(), DOCS)
    assert isinstance(document, Document)
    job = document.jobs["pages"]
    context = {"github": {"event_name": event}, "vars": variables}
    assert render(text_of_node(job.get("if")), context) == (deployed,)
    (step,) = steps_of(job)  # it sees nothing of a checkout
    assert step.plain()["uses"].startswith("actions/deploy-pages@")


@pytest.mark.parametrize("path", sorted(FILES))
def test_nothing_is_cached(path: str) -> None:
    """A dispatch for a pull request's commit runs its code where the default branch's caches are
    written: with no cache that anybody reads, there is nothing to poison."""
    assert "cache" not in FILES[path].casefold()


@pytest.mark.parametrize("path", sorted(FILES))
def test_actions_are_pinned_and_no_expression_reaches_a_shell(path: str) -> None:
    for uses in re.findall(r"uses: (\S+.*)", FILES[path]):
        own = r"\./\.github/\S+ # zizmor: ignore\[self-repository\]"
        assert re.fullmatch(rf"{own}|actions/[\w-]+@[0-9a-f]{{40}} # v\d+\.\d+\.\d+", uses)
    for run in re.findall(r"run: (\|\n(?:        .*\n| *\n)+|.*\n)", FILES[path]):
        assert "${{" not in run
    checkouts = FILES[path].count("uses: actions/checkout@")
    assert FILES[path].count("persist-credentials: false") == checkouts


def test_what_zizmor_ignores_is_ignored_on_its_line_and_for_a_reason() -> None:
    assert not [*ROOT.glob(".github/zizmor.y*ml"), *ROOT.glob("zizmor.y*ml")]
    assert "zizmor --offline --quiet --persona auditor .github" in (ROOT / "Makefile").read_text()
    rare = []
    for path, text in FILES.items():
        for line, above in zip(text.splitlines()[1:], text.splitlines(), strict=False):
            found = re.search(r"zizmor: ignore\[(.+)\]$", line)
            if found and found[1] == "self-repository":
                assert "# zizmor: self-repository is ignored, since " in text, path
            elif found:
                assert above.startswith(("#", "on:")), f"{path}: no reason above {line}"
                rare.append(found[1])
    assert sorted(rare) == ["concurrency-limits"] * 2 + ["dangerous-triggers"] * 2


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
