"""`runci gate`: what it prints, writes and exits with; and the files that steer it."""

from __future__ import annotations

import copy
import functools
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from fake_github import FakeGitHub, saved, world
from places import ROOT
from trees import runci, runci_process

from runci import register_cpu_ci
from runci.commands.gate import within_time
from runci.config.gate import (
    PERMISSIONS,
    STATUS,
    Entry,
    Permissions,
    Status,
    load_host,
    load_permissions,
    load_status,
)
from runci.core.errors import RunciError
from runci.gate.api import Recorder
from runci.gate.decide import denied, table
from runci.gate.events import read_event
from runci.gate.facts import collect
from runci.gate.github import GitHubApi
from runci.gate.output import append_outputs, log, outputs, summary
from runci.gate.request import Decision, Outcome
from runci.text.markdown import escaped

register_cpu_ci(est_time=11, stage="base-a", runner_config="cpu")

NAMES = ("allowed", "outcome", "rule", "reason", "head_sha", "bypass_fastfail")

EVENTS = ROOT / "test" / "fixtures" / "events"
ALLOWED = "labeled-by-maintainer-on-fork"


Start = Callable[..., "subprocess.CompletedProcess[str]"]
here_and_alone = pytest.mark.parametrize("start", [runci, runci_process])


class Run:
    """One run of the command on a saved event, with the files that GitHub gives a step."""

    def __init__(
        self,
        folder: Path,
        name: str,
        *arguments: str,
        event: Any = None,
        start: Start = runci,
        **environ: str,
    ) -> None:
        event = saved(name) if event is None else event
        payload = folder / "event.json"
        payload.write_text(json.dumps(event["payload"]), encoding="utf-8")
        outputs_, summary_ = folder / "outputs", folder / "summary"
        for path in (outputs_, summary_):
            path.write_text("", encoding="utf-8")
        with FakeGitHub(world(**event["world"])) as github:
            variables = {
                **event["environment"],
                "GITHUB_ACTIONS": "true",
                "GITHUB_EVENT_PATH": str(payload),
                "GITHUB_API_URL": github.url,
                "GITHUB_TOKEN": "token",
                "GITHUB_OUTPUT": str(outputs_),
                "GITHUB_STEP_SUMMARY": str(summary_),
                **environ,
            }
            self.done = start("gate", *arguments, cwd=folder, **variables)
        self.code, self.log = self.done.returncode, self.done.stdout
        self.outputs = read_outputs(outputs_.read_text(encoding="utf-8"))
        self.summary = summary_.read_text(encoding="utf-8")


def read_outputs(text: str) -> dict[str, str]:
    """Reads GITHUB_OUTPUT as the runner does."""
    found, lines = {}, iter(text.splitlines())
    for line in lines:
        name, _, delimiter = line.partition("<<")
        value: list[str] = []
        for following in lines:
            if following == delimiter:
                break
            value.append(following)
        else:
            raise AssertionError(f"no end of {name}")
        found[name] = "\n".join(value)
    return found


@here_and_alone
def test_an_allowed_run(tmp_path: Path, start: Start) -> None:
    run = Run(tmp_path, ALLOWED, start=start)
    assert (run.code, run.done.stderr) == (0, "")
    assert run.outputs["allowed"] == "true"
    assert run.outputs["outcome"] == "allow"
    assert run.outputs["rule"] == "granted"
    assert run.outputs["head_sha"] == "a" * 40
    assert run.log.startswith("runci gate: allow (granted): ")
    assert "GPU jobs may run" in run.summary
    assert "::error" not in run.log


@pytest.mark.parametrize(
    ("server", "linked"),
    [
        ("https://github.com", True),
        ("http://ghes.example:8443", True),
        ("", False),
        ("javascript:alert(1)", False),
        ("https://github.com) <b>", False),
    ],
)
def test_the_summary_links_what_the_label_approved(
    tmp_path: Path, server: str, linked: bool
) -> None:
    run = Run(tmp_path, ALLOWED, GITHUB_SERVER_URL=server)
    assert (f"]({server}/octo/kernels/pull/7/files/{'a' * 40})" in run.summary) is linked
    assert "a" * 12 in run.outputs["reason"] and "/run-ci" in run.outputs["reason"]
    assert "/pull/7" not in Run(tmp_path, "unlabelled", GITHUB_SERVER_URL=server).summary


@here_and_alone
def test_a_denied_run_says_why_and_what_to_do(tmp_path: Path, start: Start) -> None:
    run = Run(tmp_path, "unlabelled", start=start)
    assert run.code == 1
    assert (run.outputs["allowed"], run.outputs["rule"]) == ("false", "label-missing")
    assert run.outputs["head_sha"] == ""
    assert "the label run-ci" in run.outputs["reason"]
    assert "may not run" in run.summary
    assert "**What to do:**" in run.summary
    assert f"::error title=runci gate::deny: {run.outputs['reason'][:40]}" in run.log


@pytest.mark.parametrize(("arguments", "code"), [((), 1), (("--ignore-is-ok",), 0)])
def test_a_label_of_others_allows_nothing(
    tmp_path: Path, arguments: tuple[str, ...], code: int
) -> None:
    run = Run(tmp_path, "unrelated-label", *arguments)
    assert run.code == code
    assert (run.outputs["allowed"], run.outputs["outcome"]) == ("false", "ignore")
    assert "::notice title=runci gate::ignore: " in run.log


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_bypass_counts_only_where_gpus_may_run(outcome: Outcome) -> None:
    decision = Decision(outcome, "a-rule", "a reason", "", bypass_fastfail=True)
    expected = "true" if outcome is Outcome.ALLOW else "false"
    assert outputs(decision, "a" * 40)["bypass_fastfail"] == expected


def test_extra_needs_both_labels(tmp_path: Path) -> None:
    assert Run(tmp_path, "extra-with-both-labels", "--extra").code == 0
    assert Run(tmp_path, "extra-without-second-label", "--extra").code == 1


def test_ignore_is_ok_lets_nothing_else_pass(tmp_path: Path) -> None:
    assert Run(tmp_path, "unlabelled", "--ignore-is-ok").code == 1


@pytest.mark.parametrize(
    "environ",
    [
        {"GITHUB_EVENT_PATH": ""},
        {"GITHUB_EVENT_PATH": "/nowhere"},
        {"GITHUB_API_URL": "http://127.0.0.1:9"},
        {"GITHUB_API_URL": "no address"},
        {"GITHUB_EVENT_NAME": ""},
        {"GITHUB_RUN_ATTEMPT": ""},
    ],
)
def test_whatever_is_wrong_denies(tmp_path: Path, environ: dict[str, str]) -> None:
    run = Run(tmp_path, ALLOWED, **environ)
    assert run.code == 1, run.log + run.done.stderr
    assert (run.outputs["allowed"], run.outputs["rule"]) == ("false", "unknown")
    assert "may not run" in run.summary


def test_a_payload_that_is_no_json_denies(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{", encoding="utf-8")
    run = Run(tmp_path, ALLOWED, GITHUB_EVENT_PATH=str(broken))
    assert (run.code, run.outputs["allowed"]) == (1, "false")


EVIL = "x\nallowed=true\nallowed<<E\ntrue\nE\n::set-output name=allowed::true ##[add-mask]a"


def test_text_of_a_pull_request_forges_no_output_and_no_command(tmp_path: Path) -> None:
    event = saved("fork-changes-workflow")
    event["world"]["files"] = [f".github/{EVIL}<script>|`@mona`"]
    run = Run(tmp_path, "", event=event)
    assert run.code == 1
    assert set(run.outputs) == set(NAMES)
    assert run.outputs["allowed"] == "false"
    commands = [line for line in run.log.splitlines() if line.lstrip().startswith("::")]
    assert len(commands) == 1 and commands[0].startswith("::error title=runci gate::")
    assert "##[" not in run.log.replace(commands[0], "")
    assert "<script>" not in run.summary
    assert "@mona" not in run.summary


@given(st.text())
def test_no_reason_can_end_its_output(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("out") / "outputs"
    decision = Decision(Outcome.DENY, "no-grant", text, "x")
    append_outputs(path, outputs(decision, "a" * 40))
    found = read_outputs(path.read_text(encoding="utf-8"))
    assert found["allowed"] == "false"
    assert set(found) == set(NAMES)


@given(st.text())
def test_no_reason_forges_a_command_or_a_tag(text: str) -> None:
    decision = Decision(Outcome.DENY, "no-grant", text, "x")
    lines = log(decision, annotate=True).split("\n")
    assert len(lines) == 4
    assert all("##[" not in line for line in lines[:2])
    assert all(line.startswith("runci gate: ") for line in lines[:2])
    assert not set(escaped(text)) & set("\n\r<>")
    assert len(summary(decision).splitlines()) == 5


def test_text_of_others_becomes_no_link() -> None:
    for text in ("see www.example.com", "WWW.example.com", "https://example.com", "GH-1", "@mona"):
        shown = escaped(text)
        assert not re.search(r"(?i)\bwww\.|[a-z]://|gh-[0-9]|@[a-z]", shown), shown
        assert "example.com" in shown or "example" not in text


def test_an_event_is_recorded_and_explained_offline(tmp_path: Path) -> None:
    recorded = tmp_path / "recorded.json"
    for name, code in ((ALLOWED, 0), ("fork-changes-workflow", 1), ("settings-broken", 1)):
        live = Run(tmp_path, name, "--record", str(recorded))
        assert live.code == code
        assert "token" not in recorded.read_text(encoding="utf-8")
        told = runci("gate", "--explain", str(recorded), cwd=tmp_path)
        assert told.returncode == code
        assert told.stdout == "".join(
            f"{line}\n" for line in live.log.splitlines() if not line.startswith("::")
        )


def test_answers_may_stand_apart(tmp_path: Path) -> None:
    recorded = tmp_path / "recorded.json"
    Run(tmp_path, ALLOWED, "--record", str(recorded))
    parts = json.loads(recorded.read_text(encoding="utf-8"))
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps(parts.pop("answers")), encoding="utf-8")
    recorded.write_text(json.dumps(parts), encoding="utf-8")
    told = runci("gate", "--explain", str(recorded), "--answers", str(answers), cwd=tmp_path)
    assert told.returncode == 0
    told = runci("gate", "--explain", str(recorded), cwd=tmp_path)
    assert told.returncode == 2
    assert "answers" in told.stderr


def test_an_answer_that_was_not_recorded_denies(tmp_path: Path) -> None:
    recorded = tmp_path / "recorded.json"
    Run(tmp_path, ALLOWED, "--record", str(recorded))
    parts = json.loads(recorded.read_text(encoding="utf-8"))
    for question in list(parts["answers"]):
        fewer = {**parts, "answers": {k: v for k, v in parts["answers"].items() if k != question}}
        recorded.write_text(json.dumps(fewer), encoding="utf-8")
        assert runci("gate", "--explain", str(recorded), cwd=tmp_path).returncode == 1


@pytest.mark.parametrize(
    ("record", "field"),
    [
        ({"environment": {"GITHUB_RUN_ID": 5}}, "environment.GITHUB_RUN_ID: 5"),
        ({"environment": {"GITHUB_SHA": None}}, "environment.GITHUB_SHA: None"),
        ({"environment": {"GITHUB_WORKFLOW_REF": []}}, "environment.GITHUB_WORKFLOW_REF: []"),
        ({"environment": {"GITHUB_REPOSITORY": {}}}, "environment.GITHUB_REPOSITORY: {}"),
        ({"environment": []}, "environment"),
        ({"payload": 1}, "payload"),
        ({"answers": None}, "answers"),
        ({"now": "yesterday"}, "now: 'yesterday'"),
        ({"now": "2026-11-01T12:00:00"}, "now: '2026-11-01T12:00:00'"),  # no zone
        ({"now": "0001-01-01T00:00:00+00:00"}, "now: '0001"),
        ({"now": 5}, "now: 5"),
        ({"now": None}, "now: None"),
    ],
)
def test_a_record_with_something_else_names_file_and_field(
    tmp_path: Path, record: dict[str, Any], field: str
) -> None:
    whole = {"environment": {}, "payload": {}, "answers": {}, **record}
    (tmp_path / "a.json").write_text(json.dumps(whole), encoding="utf-8")
    told = runci("gate", "--explain", "a.json", cwd=tmp_path)
    assert (told.returncode, told.stdout) == (2, "")
    assert f"a.json: {field}" in told.stderr


@pytest.mark.parametrize("part", ["environment", "payload", "answers"])
def test_a_record_without_a_part_names_it(tmp_path: Path, part: str) -> None:
    whole = {"environment": {}, "payload": {}, "answers": {}}
    del whole[part]
    (tmp_path / "a.json").write_text(json.dumps(whole), encoding="utf-8")
    told = runci("gate", "--explain", "a.json", cwd=tmp_path)
    assert told.returncode == 2
    assert f"a.json: {part} must be a mapping" in told.stderr


@pytest.mark.parametrize("content", ["", "{", "[]", "\udcff", "[" * 100_000, '{"a":' * 100_000])
def test_a_record_that_is_no_object_names_the_file(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    told = runci("gate", "--explain", "a.json", cwd=tmp_path)
    assert (told.returncode, told.stdout) == (2, "")
    assert "a.json: " in told.stderr


@pytest.mark.parametrize("option", ["--host", "--explain"])
def test_a_file_that_is_missing_is_named(tmp_path: Path, option: str) -> None:
    told = runci("gate", option, "nope.yml", cwd=tmp_path)
    assert told.returncode == 2
    assert "nope.yml: cannot read: No such file" in told.stdout + told.stderr


NOW = datetime(2026, 11, 1, 12, 0, tzinfo=timezone.utc)
# GitHub leaves these out, or null, where there is nothing to say.
MAY_BE_NONE = ("performed_via_github_app", "inputs", "head_sha")
# What a reader may find in the place of anything else.
OTHERS: list[Any] = [None, True, 0, -1, 7, 10**30, 1.5, "", "7", "main", "\ud800", [], [None], [[]]]
OTHERS += [{}, {"id": 7}, {"runci: failed": 1}]
SAVED = [path.stem for path in sorted(EVENTS.glob("*.json"))]


def places_of(data: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value but the whole."""
    if not isinstance(data, (dict, list)):
        return []
    keys = list(data) if isinstance(data, dict) else list(range(len(data)))
    return [way for k in keys for way in ((*above, k), *places_of(data[k], (*above, k)))]


def with_other(data: Any, way: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value there; without it where the value is Ellipsis."""
    changed = copy.deepcopy(data)
    holder = changed
    for key in way[:-1]:
        holder = holder[key]
    if value is ...:
        del holder[way[-1]]
    else:
        holder[way[-1]] = value
    return changed


def others(data: Any, way: tuple[Any, ...]) -> list[Any]:
    """Values of other types than the one there, and none; a list without an item is a right one."""
    for key in way:
        data = data[key]
    found = [value for value in OTHERS if type(value) is not type(data)]
    return found if isinstance(way[-1], int) else [*found, ...]


@functools.cache
def recorded(name: str) -> dict[str, Any]:
    """What `--record` writes of a saved event, with a time to decide at."""
    event = saved(name)
    with FakeGitHub(world(**event["world"])) as github:
        api = Recorder(GitHubApi("t", github.url))
        extra = bool(event.get("extra"))
        collect(read_event(event["payload"], event["environment"]), api, NOW, extra=extra)
    parts = {"environment": event["environment"], "payload": event["payload"]}
    return {**parts, "answers": api.answers, "now": NOW.isoformat()}


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_no_wrong_record_is_a_fault_or_opens_the_gate(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """One value of another type, or none, in a record of any saved event."""
    cooling = [name for name in SAVED if name.startswith(("cooldown", "dispatch"))]
    name = data.draw(st.sampled_from(SAVED) | st.sampled_from(cooling))
    record = recorded(name)
    way = data.draw(st.sampled_from(places_of(record)))
    value = data.draw(st.sampled_from(others(record, way)))
    wrong = with_other(record, way, value)
    folder = tmp_path_factory.mktemp("record")
    extra = ["--extra"] if saved(name).get("extra") else []
    codes = []
    for number, one in enumerate((record, wrong)):
        (folder / f"{number}.json").write_text(json.dumps(one), encoding="utf-8")
        told = runci("gate", "--explain", f"{number}.json", *extra, cwd=folder)
        codes.append(told.returncode)
        assert told.returncode in (0, 1, 2), told.stderr
    is_said = value not in (None, ...) or way[-1] not in MAY_BE_NONE
    assert codes[1] != 0 or codes[0] == 0 or not is_said


def test_the_table_is_printed(tmp_path: Path) -> None:
    assert runci("gate", "--table", cwd=tmp_path).stdout == table()


def test_a_decision_that_takes_too_long_denies() -> None:
    allowed = Decision(Outcome.ALLOW, "author", "x", "")

    def slow() -> Decision:
        time.sleep(5)
        return allowed

    assert within_time(lambda: allowed).allowed
    assert not within_time(slow, seconds=0.05).allowed
    assert not within_time(lambda: {}["x"]).allowed
    assert not denied("x").allowed


def test_the_network_is_imported_at_the_edge_only() -> None:
    importers = [
        path.name
        for path in (ROOT / "ci_scripts" / "runci").rglob("*.py")
        if re.search(r"^\s*(from|import) (requests|urllib3)\b", path.read_text("utf-8"), re.M)
    ]
    assert importers == ["github.py"]
    script = "import sys, runci.commands.gate; assert 'requests' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


# The files that steer the gate.


def test_this_repositorys_files_are_right() -> None:
    load_permissions((ROOT / PERMISSIONS).read_bytes())
    load_status((ROOT / STATUS).read_bytes())
    example = ROOT / "ci_scripts" / "host" / "host.yml.example"
    host = load_host(example.read_bytes(), "host.yml")
    assert host.api_url == "https://api.github.com"
    assert host.repositories[0].workflows[1].labels == ("run-ci", "run-ci-extra")


PERSON = "{login: octocat, id: 583231, cooldown_minutes: 60, because: trusted}"
PEOPLE = f"version: 1\npeople:\n  - {PERSON}\n"


def test_people_are_read() -> None:
    assert load_permissions(PEOPLE.encode()).people == (Entry("octocat", 583231, 60.0),)
    assert load_permissions(b"version: 1\npeople: []\n") == Permissions()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("version: 1", "version: 2"),
        ("version: 1\n", ""),
        ("id: 583231, ", ""),
        ("583231", "0"),
        ("583231", "'583231'"),
        ("583231", "true"),
        ("60", "-1"),
        ("60", "10081"),
        ("60", ".nan"),
        ("cooldown_minutes: 60, ", ""),
        (", because: trusted", ""),
        ("octocat", "'octo cat'"),
        ("octocat", "-octocat"),
        ("login: octocat", "login: octocat, admin: true"),
        ("people:", "persons:"),
        (PERSON, f"{PERSON}\npeople: []"),
        (PEOPLE, ""),
        (PEOPLE, "[]"),
        (PEOPLE, "\x00"),
    ],
)
def test_a_wrong_list_of_people_names_its_fault(before: str, after: str) -> None:
    assert before in PEOPLE
    with pytest.raises(RunciError, match="ci-permissions"):
        load_permissions(PEOPLE.replace(before, after).encode())


@pytest.mark.parametrize("value", ["-1", "-0.5", "-.inf", "10081", "'60'"])
def test_a_wrong_cooldown_is_refused_by_name(value: str) -> None:
    with pytest.raises(RunciError, match=r"people\[0\]\.cooldown_minutes: .*from 0 to 10080"):
        load_permissions(PEOPLE.replace("60", value).encode())


def test_more_protected_paths_are_read() -> None:
    assert load_permissions(PEOPLE.encode()).protected == ()
    text = f"{PEOPLE}protected: [tests/suites.yml, 'ci/**', 'Dockerfile*']\n"
    found = load_permissions(text.encode())
    assert found.protected == ("tests/suites.yml", "ci/**", "Dockerfile*")
    assert found.people == load_permissions(PEOPLE.encode()).people


@pytest.mark.parametrize(
    "glob", ["''", "'!.github/**'", "/ci", "ci/", "./ci", "'[z-a]'", "'a[A-_]'", "/", "7", "null"]
)
def test_a_glob_that_would_protect_nothing_is_refused(glob: str) -> None:
    with pytest.raises(RunciError, match=r"ci-permissions.*protected\[1\]"):
        load_permissions(f"{PEOPLE}protected: ['ci/**', {glob}]\n".encode())


@pytest.mark.parametrize("value", ["", "ci", "{ci: true}", "true"])
def test_protected_paths_are_a_list(value: str) -> None:
    with pytest.raises(RunciError, match=r"ci-permissions.*protected"):
        load_permissions(f"{PEOPLE}protected: {value}\n".encode())


def test_a_status_is_read() -> None:
    text = f'version: 1\npaused: true\nreason: driver\nmin_base_sha: "{"0" * 40}"\n'
    assert load_status(text.encode()) == Status(True, "driver", "0" * 40)
    assert load_status(b"version: 1\npaused: false\n") == Status(False)


@pytest.mark.parametrize(
    "line",
    [
        "paused: maybe",
        "paused: 1",
        "paused: 'true'",
        "pause: true",
        "reason: x",
        "paused: false\nmin_base_sha: abc",
        f"paused: false\nmin_base_sha: '{'A' * 40}'",
        f"paused: false\nmin_base_sha: {'0' * 40}",  # YAML reads a number
        "paused: false\nmin_base_sha:",
        "paused: false\nreason: ''",
        "paused: false\npaused: true",
        "paused: false\nuntil: tomorrow",
    ],
)
def test_a_wrong_status_names_its_fault(line: str) -> None:
    with pytest.raises(RunciError, match="ci-status"):
        load_status(f"version: 1\n{line}\n".encode())


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
