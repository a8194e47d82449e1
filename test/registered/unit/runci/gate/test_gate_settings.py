"""The names of the gate's labels: of the default branch, right or refused, and only names."""

from __future__ import annotations

import json
import sys
from dataclasses import astuple, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`
sys.path.insert(0, str(Path(__file__).parent))  # for pytest

from direct_api import DirectApi
from fake_github import PEOPLE, STATUS, FakeGitHub, saved, world
from test_gate import BEFORE, GRANTED, INSIDER, KEEPER, LISTED, NEEDS, PAUSED, ROWS, bypassed
from trees import runci

from runci import register_cpu_ci
from runci.config.gate import Host, HostRepository, HostWorkflow, Labels, load_permissions
from runci.core.errors import RunciError
from runci.gate.api import Recorder
from runci.gate.decide import decide
from runci.gate.events import read_event
from runci.gate.facts import collect
from runci.gate.host import decide_on_host
from runci.gate.request import Decision, GateRequest, Outcome
from runci.gate.rules import is_protected, needed_labels, ours

register_cpu_ci(est_time=4, stage="base-a", runner_config="cpu")

NOW = datetime(2026, 11, 1, 12, 0, tzinfo=timezone.utc)
PERMISSIONS_FILE = ".github/ci-permissions.yml"
NEW = Labels("GPU: go", "gpu/more", "ops.up", "no-wait")
TEXT = f"""{PEOPLE}labels:
  run: "{NEW.run}"
  extra: {NEW.extra}
  bypass_maintenance: {NEW.bypass_maintenance}
  bypass_fastfail: {NEW.bypass_fastfail}
"""


# What is read.


def labels(text: str) -> Labels:
    return load_permissions(f"{PEOPLE}labels: {text}\n".encode()).labels


def test_names_that_are_not_given_are_the_usual_ones() -> None:
    usual = Labels("run-ci", "run-ci-extra", "bypass-maintenance", "bypass-fastfail")
    assert load_permissions(None).labels == load_permissions(PEOPLE.encode()).labels == usual
    assert labels("{}") == usual
    assert labels("{bypass_fastfail: go}") == replace(usual, bypass_fastfail="go")
    assert load_permissions(TEXT.encode()).labels == NEW


@pytest.mark.parametrize(
    "name",
    ["x", "GPU", "run ci", "a  b", "ci: gpu", "a/b", "v1.2+x", "(gpu)", "-x", "9" * 50, "7x"],
)
def test_a_name_that_a_label_can_have(name: str) -> None:
    assert labels(f"{{run: {json.dumps(name)}}}").run == name


@pytest.mark.parametrize(
    "name",
    [
        *("", " ", " x", "x ", "x\n", "\nx", "x\ny", "x\r", "x\ty", "x\0", "x\u2028", "x" * 51),
        *("a,b", "a'b", 'a"b', "a`b", "a\\b", "a{b", "$x", "a<b", "a&b", "@x", "#1", "a|b", "a*b"),
        *("run-\u0441i", "run\u2011ci", "\u0130", "gpu\u200b", "\u2705"),  # Cyrillic, …
        *(7, True, None, ["x"], {"a": "b"}, 1.5),
    ],
)
def test_a_name_that_none_should_have_is_refused_where_it_stands(name: object) -> None:
    with pytest.raises(RunciError, match=r"ci-permissions\.yml:4:\d+: labels\.extra: .*allowed: "):
        labels(f"\n  {{run: go,\n  extra: {json.dumps(name)}}}".replace("go,\n ", "go,"))


@pytest.mark.parametrize("text", ["", "run-ci", "[run-ci]", "{start: go}", "{run: a, run: b}"])
def test_labels_are_a_mapping_of_those_that_there_are(text: str) -> None:
    with pytest.raises(RunciError, match=r"ci-permissions\.yml:3:\d+: .*(labels|run)"):
        labels(text)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("{run: go, extra: go}", {("run", "extra"), ("extra", "run")}),
        ("{run: go, extra: GO}", {("run", "extra"), ("extra", "run")}),
        ("{run: run-ci-extra}", {("run", "extra")}),  # the usual name of another one
        ("{bypass_fastfail: Run-CI}", {("bypass_fastfail", "run")}),
        ("{bypass_maintenance: bypass-fastfail}", {("bypass_maintenance", "bypass_fastfail")}),
        ("{extra: run-ci, run: run-ci-extra}", set()),  # changed over
        ("{run: run-ci, extra: go}", set()),
    ],
)
def test_no_two_have_one_name(text: str, keys: set[tuple[str, str]]) -> None:
    if not keys:
        assert labels(text)
        return
    with pytest.raises(RunciError) as found:
        labels(text)
    lines = str(found.value).splitlines()
    told = [line for line in lines if ".yml:3:" in line]
    assert len(told) == len(keys)
    for key, other in keys:
        assert any(f"labels.{key}: " in line and f"labels.{other}:" in line for line in told)


# What is decided: names are only names.

NAMES = dict(zip(astuple(Labels()), astuple(NEW), strict=True))


def named(name: str) -> str:
    """The new name, in the case of the old one; of a lookalike or another label the same."""
    new = NAMES.get(name.lower(), name)
    return new if name == name.lower() else new.swapcase()


def renamed(request: GateRequest) -> GateRequest:
    """The same request where the labels are called otherwise."""
    pull = request.pull
    if pull is not None:
        pull = replace(
            pull,
            labels=None if pull.labels is None else tuple(map(named, pull.labels)),
            labelled={named(name): act for name, act in pull.labelled.items()},
        )
    label = None if request.label is None else named(request.label)
    return replace(request, pull=pull, label=label, labels=NEW)


@pytest.mark.parametrize(("about", "request_", "rule"), ROWS, ids=[row[0] for row in ROWS])
def test_a_name_changes_no_decision(about: str, request_: GateRequest, rule: str) -> None:
    decision = decide(renamed(request_))
    assert decision.rule == rule
    usual = decide(request_)
    assert decision.outcome is usual.outcome
    assert decision.bypass_fastfail is usual.bypass_fastfail
    said = f"{decision.reason} {decision.remedy}"
    assert not [name for name in Labels.__slots__ if f"`{getattr(Labels(), name)}`" in said]


@pytest.mark.parametrize(("about", "request_", "rule"), ROWS, ids=[row[0] for row in ROWS])
def test_the_old_names_open_nothing(about: str, request_: GateRequest, rule: str) -> None:
    """As where the setting changed after the labels were put on."""
    decision = decide(replace(request_, labels=NEW))
    if request_.for_pull:
        assert not decision.allowed
    else:
        assert decision.rule == rule


def only(**changes: str) -> Labels:
    return replace(Labels(), **changes)


BOTH = bypassed(KEEPER, PAUSED)
FAST = replace(INSIDER, pull=replace(INSIDER.pull, labels=("run-ci", "bypass-fastfail")))  # type: ignore[type-var]
ONE: list[tuple[str, GateRequest, Labels, str]] = [
    ("run", GRANTED, only(run="go"), "other-label"),
    ("run, labelled before", BEFORE, only(run="go"), "label-missing"),
    ("run, by an author", INSIDER, only(run="go"), "label-missing"),
    ("run, by a listed person", LISTED, only(run="go"), "label-missing"),
    ("run is now another's", replace(GRANTED, label="docs"), only(run="docs"), "label-missing"),
    ("extra, which is not asked for", GRANTED, only(extra="go"), "granted"),
    ("extra is now the old run", replace(GRANTED, label="run-ci-extra"), Labels(), "other-label"),
    ("bypass", BOTH, only(bypass_maintenance="up"), "paused"),
    ("bypass of old-base", replace(BOTH, status=NEEDS), only(bypass_maintenance="up"), "old-base"),
    ("bypass is not fastfail's", BOTH, only(bypass_fastfail="bypass"), "author"),
    ("case is another name", INSIDER, only(run="Run-CI"), "label-missing"),
    (
        "case is not another's",
        replace(GRANTED, label="run-ci"),
        only(run="RUN-CI"),
        "label-missing",
    ),
]


@pytest.mark.parametrize(("about", "request_", "given", "rule"), ONE, ids=[row[0] for row in ONE])
def test_each_name_is_for_one_thing(
    about: str,
    request_: GateRequest,
    given: Labels,
    rule: str,
) -> None:
    assert decide(replace(request_, labels=given)).rule == rule


def test_fastfail_is_lifted_by_its_own_label_only() -> None:
    assert decide(FAST).bypass_fastfail
    assert not decide(replace(FAST, labels=only(bypass_fastfail="go"))).bypass_fastfail
    both = replace(FAST, labels=only(bypass_fastfail="bypass-maintenance"))
    assert not decide(both).bypass_fastfail


def test_where_the_names_are_not_known_nothing_is_ignored_or_allowed() -> None:
    for request in (INSIDER, GRANTED, BEFORE, LISTED, replace(GRANTED, label="docs"), BOTH, FAST):
        decision = decide(replace(request, labels=None))
        assert (decision.outcome, decision.rule) == (Outcome.DENY, "unknown")
        assert "ci-permissions.yml" in decision.reason


def test_a_denial_says_the_names_of_here() -> None:
    missing = decide(replace(INSIDER, labels=NEW, extra=True))
    assert NEW.run in missing.reason and f"`{NEW.extra}`" in missing.remedy
    assert "run-ci:" not in missing.reason
    paused = decide(renamed(replace(INSIDER, status=PAUSED)))
    assert f"`{NEW.bypass_maintenance}`" in paused.remedy
    case = decide(replace(INSIDER, labels=only(run="Run-CI")))
    assert "it has run-ci: the settings must write it so" in case.reason


def test_what_a_hosts_list_asks_for_stands_for_what_the_branch_says() -> None:
    request = replace(INSIDER, labels=NEW, host_labels=("run-ci",))
    assert needed_labels(request) == ("run-ci",)
    assert ours(request) == ("run-ci", NEW.bypass_maintenance, NEW.bypass_fastfail)
    assert decide(request).rule == "author"
    assert decide(replace(request, host_labels=(NEW.run,))).rule == "label-missing"
    assert decide(replace(renamed(request), host_labels=("run-ci",))).rule == "label-missing"
    by_label = replace(request, action="labeled", label="run-ci", labels=None)
    assert decide(by_label).rule == "unknown"  # which others are ours?


def test_both_files_protect_themselves_wherever_they_may_stand() -> None:
    for name in ("ci-permissions.yml", "ci-status.yml"):
        for path in (name, f".github/{name}", name.upper(), f"{name}/"):
            assert is_protected(path), path


# What is asked of GitHub.


def about(event: dict[str, Any], label: str) -> dict[str, Any]:
    """An event about another label, which is on the pull request, put on by whoever it was."""
    event["payload"]["label"]["name"] = label
    event["world"].setdefault("pull", {})["labels"] = [label]
    event["world"]["events"] = [{"event": "labeled", "label": label, "actor": "mona"}]
    return event


def ask(event: dict[str, Any], github: FakeGitHub) -> Decision:
    read = read_event(event["payload"], event["environment"])
    return decide(collect(read, DirectApi(github), NOW))


def told(event: dict[str, Any], text: str | None = TEXT, **changes: Any) -> Decision:
    contents = {PERMISSIONS_FILE: text, **changes.pop("contents", {})}
    with FakeGitHub(world(**event["world"], contents=contents, **changes)) as github:
        return ask(event, github)


LABELED = "labeled-by-maintainer-on-fork"


def test_the_label_of_the_settings_grants_and_no_other() -> None:
    assert told(about(saved(LABELED), NEW.run)).rule == "granted"
    assert told(about(saved(LABELED), "run-ci")).rule == "other-label"
    assert told(about(saved(LABELED), "run-ci"), None).rule == "granted"
    assert told(about(saved(LABELED), NEW.run), None).rule == "other-label"
    assert told(about(saved(LABELED), NEW.run.upper())).rule == "label-missing"


def test_a_label_from_before_grants_by_the_name_that_it_has_now() -> None:
    for name, text, rule in (
        (NEW.run, TEXT, "granted"),
        ("run-ci", TEXT, "label-missing"),
        (NEW.run, None, "label-missing"),
        ("run-ci", None, "granted"),
    ):
        event = saved("reopened-after-label")
        event["world"]["pull"]["labels"] = [name]
        event["world"]["events"] = [{"event": "labeled", "label": name, "actor": "mona"}]
        assert told(event, text).rule == rule


def test_no_pull_request_names_the_labels() -> None:
    """Only the default branch's file counts, whatever a pull request changes in its own."""
    event = about(saved(LABELED), NEW.run)
    added = [{"filename": f, "status": "added"} for f in (PERMISSIONS_FILE, "ci-permissions.yml")]
    assert told(event, None, files=added).rule == "other-label"
    assert told(about(saved(LABELED), "run-ci"), None, files=added).rule == "protected"
    assert told(event, files=[PERMISSIONS_FILE]).rule == "protected"
    trees = {"f" * 40: {PERMISSIONS_FILE: None}}  # what the run checks out
    assert told(event, trees=trees).rule == "protected"


def test_they_may_stand_at_the_root() -> None:
    event = about(saved(LABELED), NEW.run)
    status = {".github/ci-status.yml": None, "ci-status.yml": STATUS}
    assert told(event, None, contents={"ci-permissions.yml": TEXT, **status}).rule == "granted"
    paused = "version: 1\npaused: true\n"
    assert told(event, contents={**status, "ci-status.yml": paused}).rule == "paused"
    both = told(event, contents={"ci-permissions.yml": TEXT})
    assert both.rule == "unknown" and "are both there: delete one" in both.reason
    wrong = told(event, None, contents={"ci-permissions.yml": f"{TEXT}  x: y\n"})
    assert wrong.rule == "unknown" and "ci-permissions.yml:8:3" in wrong.reason
    assert ".github" not in wrong.reason


UNRELATED = "unrelated-label"


def test_a_label_of_others_is_ignored_where_the_settings_can_be_read() -> None:
    for text in (None, PEOPLE, TEXT):
        assert told(saved(UNRELATED), text).rule == "other-label"
    # What it does not depend on may be broken.
    for contents in ({".github/ci-status.yml": "x"}, {".github/ci-status.yml": None}):
        assert told(saved(UNRELATED), contents=contents).rule == "other-label"


@pytest.mark.parametrize("text", [f"{PEOPLE}labels: {{run: ''}}\n", "", "version: 2\n", "\0"])
def test_a_label_of_others_is_denied_where_they_are_wrong(text: str) -> None:
    decision = told(saved(UNRELATED), text)
    assert (decision.outcome, decision.rule) == (Outcome.DENY, "unknown")
    assert PERMISSIONS_FILE in decision.reason and decision.remedy


@pytest.mark.parametrize("kind", ["500", "404", "403", "garbage", "cut"])
@pytest.mark.parametrize("place", ["/repos/octo", "/branches/", "/git/trees/", "/git/blobs/"])
def test_a_label_of_others_is_denied_where_they_cannot_be_read(place: str, kind: str) -> None:
    with FakeGitHub(world(**saved(UNRELATED)["world"])) as github:
        github.fault(place, kind)
        decision = ask(saved(UNRELATED), github)
    assert (decision.outcome, decision.rule) == (Outcome.DENY, "unknown")


@pytest.mark.parametrize("place", ["/pulls/", "/issues/", "/collaborators/", "/actions/"])
def test_a_label_of_others_needs_no_answer_about_the_pull_request(place: str) -> None:
    with FakeGitHub(world(**saved(UNRELATED)["world"])) as github:
        github.fault(place, "500")
        assert ask(saved(UNRELATED), github).rule == "other-label"


@pytest.mark.parametrize("name", ["schedule", "push-to-main", "dispatch"])
def test_what_has_no_label_asks_for_none(name: str) -> None:
    assert told(saved(name), "wrong").allowed


def test_a_machine_that_asks_later_hears_what_the_labels_are_called_by_then() -> None:
    event = about(saved(LABELED), "run-ci")
    with FakeGitHub(world(**event["world"])) as github:
        said = []
        for text in (PEOPLE, TEXT, PEOPLE, "wrong"):
            github.world["contents"][PERMISSIONS_FILE] = text
            said.append(ask(event, github).rule)
    assert said == ["granted", "other-label", "granted", "unknown"]


def test_the_second_label_is_that_of_the_settings(tmp_path: Path) -> None:
    """And what was recorded leads to the same answer without a network."""
    event = about(saved(LABELED), NEW.run)
    for on, code in ((NEW.extra, 0), ("run-ci-extra", 1)):
        event["world"]["pull"]["labels"] = [NEW.run, on]
        state = world(**event["world"], contents={PERMISSIONS_FILE: TEXT})
        with FakeGitHub(state) as github:
            api = Recorder(DirectApi(github))
            read = read_event(event["payload"], event["environment"])
            assert decide(collect(read, api, NOW, extra=True)).allowed is (code == 0)
        record = {**event, "answers": api.answers, "now": NOW.isoformat()}
        (tmp_path / "a.json").write_text(json.dumps(record), encoding="utf-8")
        done = runci("gate", "--explain", "a.json", "--extra", cwd=tmp_path)
        assert done.returncode == code, done.stdout
        assert code == 0 or NEW.extra in done.stdout


@pytest.mark.parametrize(
    ("given", "label", "rule"),
    [
        (None, NEW.run, "granted"),  # left out: what the default branch says
        (None, "run-ci", "other-label"),
        ((NEW.run,), NEW.run, "granted"),
        (("run-ci",), NEW.run, "other-label"),  # the host's own list, whatever the branch says
        ((NEW.run, "run-ci-extra"), NEW.run, "label-missing"),
    ],
)
def test_a_host_asks_for_its_own_labels(
    given: tuple[str, ...] | None, label: str, rule: str
) -> None:
    event = about(saved(LABELED), label)
    workflow = HostWorkflow(".github/workflows/pr-test.yml", ("refs/pull/*/merge",), given)
    host = Host((HostRepository("octo/kernels", 1000, (workflow,)),))
    run = {"id": 31, "file": "pr-test.yml"}
    contents = {PERMISSIONS_FILE: TEXT}
    with FakeGitHub(world(**event["world"], runs=[run], contents=contents)) as github:
        read = read_event(event["payload"], event["environment"])
        decision = decide_on_host(read, host, DirectApi(github), NOW)
    assert decision.rule == rule
    assert decision.outcome is (Outcome.ALLOW if rule == "granted" else Outcome.DENY)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
