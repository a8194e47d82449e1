"""Plans as pipelines of Buildkite and GitLab: what a service expands, and what a shell gets."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from planning import COMMIT, registered, taxonomy
from services import expanded

from runci import register_cpu_ci
from runci.core.errors import RunciError
from runci.core.labels import Group, Label
from runci.core.registration import Backend, Registration
from runci.plan.build import Settings, make_plan
from runci.plan.model import Plan
from runci.plan.pipelines import MAX_PARALLEL, SERVICES, as_buildkite, as_gitlab
from runci.plan.selection import of_service, select

register_cpu_ci(est_time=3, stage="base-a", runner_config="cpu")

SUITES = """\
version: 1
roots: [test/registered]
runners:
  gpu: {label: gpu, gpus: 1}
suites:
  cuda:
    - {name: a, runner: gpu, kind: per-commit, timeout_minutes: 30.5, run_by: Buildkite}
    - {name: pages, runner: gpu, kind: per-commit, run_by: our GitLab}
    - {name: both, runner: gpu, kind: per-commit, run_by: Buildkite and GitLab}
    - {name: hosted, runner: gpu, kind: per-commit}
    - {name: near, runner: gpu, kind: per-commit, run_by: Build-Kite and gitlab_ci}
    - {name: hand, runner: gpu, kind: per-commit, run_by: by hand}
"""
NAMES = ("a", "pages", "both", "hosted", "near", "hand")


def plan_of(*suites: str, files: int = 1, shards: int = 1, label: Label = "gpu") -> Plan:
    """A plan of suites with as many files each, on a runner with this label."""
    known = taxonomy(SUITES)
    tests: dict[str, tuple[Registration, ...]] = {
        f"test/registered/{suite}/test_{n}.py": (registered(suite, Backend.CUDA),)
        for suite in suites
        for n in range(files)
    }
    settings = Settings(shards=dict.fromkeys(suites, shards))
    plan = make_plan(COMMIT, select(None, known, {}), known, tests, settings)
    return replace(plan, suites=tuple(replace(suite, label=label) for suite in plan.suites))


@pytest.mark.parametrize(
    ("service", "names"),
    [
        ("github", {"hosted"}),
        ("buildkite", {"a", "both", "near"}),
        ("gitlab", {"pages", "both", "near"}),
    ],
)
def test_a_service_gets_the_suites_whose_run_by_names_it(service: str, names: set[str]) -> None:
    known = taxonomy(SUITES)
    chosen = of_service(select(None, known, {}), known, service)
    assert {name for _, name in chosen.suites} == names
    assert {name for _, name in chosen.elsewhere} == set(NAMES) - names
    # What is left out is said, where it has tests.
    tests = {"test/registered/test_x.py": (registered("hand", Backend.CUDA),)}
    (note,) = [n for n in make_plan(COMMIT, chosen, known, tests, Settings()).notes if "hand" in n]
    assert "another service" in note


def test_each_shard_is_a_step_and_verify_waits_for_all_however_they_end() -> None:
    plan = plan_of("a", "both", files=3, shards=2)
    *steps, verify = yaml.safe_load(as_buildkite(plan))["steps"]
    ids = [shard.id for suite in plan.suites for shard in suite.shards]
    assert [step["label"] for step in steps] == ids
    assert [step["command"][-1].split()[-3:] for step in steps] == [
        [one, "--results", f"runci-results/{one}"] for one in ids
    ]
    assert [step.get("timeout_in_minutes") for step in steps] == [46, 46, None, None]
    before = {step["step"]: step["allow_failure"] for step in verify["depends_on"]}
    assert before == dict.fromkeys(["runci-plan", *(step["key"] for step in steps)], True)
    assert verify["command"][-1] == "runci verify plan.json runci-results"


def test_each_suite_is_a_job_of_gitlab_and_verify_always_runs() -> None:
    document = yaml.safe_load(as_gitlab(plan_of("a", "pages", files=3, shards=2)))
    jobs = {name: job for name, job in document.items() if isinstance(job, dict)}
    verify = jobs.pop("runci verify")
    # «pages» by itself would be a job of GitLab's own.
    assert list(jobs) == ["cuda a", "cuda pages"]
    assert [job["parallel"] for job in jobs.values()] == [2, 2]
    assert [job.get("timeout") for job in jobs.values()] == ["46 minutes", None]
    assert all(job["artifacts"]["when"] == "always" for job in jobs.values())
    assert verify["when"] == "always"
    assert [need["job"] for need in verify["needs"]] == ["runci-plan", *jobs]
    # What another pipeline left in the folder of a runner is not taken for this one's.
    assert verify["script"][-1] == 'runci verify plan.json "runci-results/$CI_PIPELINE_ID"'


@pytest.mark.parametrize(
    ("label", "agents", "tags"),
    [
        ("a100", {"queue": "a100"}, ["a100"]),
        (("true=no", "null=é"), {"true": "no", "null": "é"}, ["true=no", "null=é"]),
        (("a100", "os=linux"), {"queue": "a100", "os": "linux"}, ["a100", "os=linux"]),
        (("queue=a100", "gpu=a=b"), {"queue": "a100", "gpu": "a=b"}, ["queue=a100", "gpu=a=b"]),
        (Group("big"), {"queue": "big"}, ["big"]),
        (Group("big", ("gpu=2",)), {"queue": "big", "gpu": "2"}, ["big", "gpu=2"]),
        ("yes", {"queue": "yes"}, ["yes"]),
        ('say "no": {x}', {"queue": 'say "no": {x}'}, ['say "no": {x}']),
        ("ünï #1", {"queue": "ünï #1"}, ["ünï #1"]),
        (("self-hosted", "gpu"), None, ["self-hosted", "gpu"]),
        (("queue=a", "b"), None, ["queue=a", "b"]),
        ("$HOME", None, None),
        ("${HOME}", None, None),
        ("%PATH%", None, None),
        ("a\\b", None, None),
        ("a\nb", None, None),
    ],
)
def test_a_label_asks_for_the_same_machine(
    label: Label, agents: dict[str, str] | None, tags: list[str] | None
) -> None:
    asked: tuple[tuple[str, Any], ...] = (("buildkite", agents), ("gitlab", tags))
    for service, wanted in asked:
        plan = plan_of("a", label=label)
        if wanted is None:
            with pytest.raises(RunciError, match="runner gpu"):
                SERVICES[service](plan, ())
            continue
        document = yaml.safe_load(SERVICES[service](plan, ()))
        found = (
            document["cuda a"]["tags"] if service == "gitlab" else document["steps"][0]["agents"]
        )
        assert found == wanted


NASTY = [
    "plain.yml",
    "two words",
    "$HOME",
    "${HOME}",
    "$$HOME",
    "$(touch x)",
    "`touch x`",
    "a\\$HOME",
    "a\\\\$HOME",
    "a\\\\\\$HOME",
    "\\",
    "$",
    "it's",
    "'$HOME'\\'$HOME",
    '"; touch x; "',
    "a\nb",
    "%HOME%",
    "{{matrix}}",
    "-n",
    "*",
    "ü",
    "\U0001f680",
    "\x85\u2028\x7f\ufeff",  # of which YAML's parsers make ends of lines, or nothing
]


@pytest.mark.parametrize("name", NASTY)
@pytest.mark.parametrize("service", SERVICES)
def test_no_word_reaches_a_shell_as_anything_else(service: str, name: str, tmp_path: Path) -> None:
    text = SERVICES[service](plan_of("a"), ("--config", name))
    document = yaml.safe_load(text)
    lines = document["cuda a"]["script"] if service == "gitlab" else document["steps"][0]["command"]
    command = expanded(lines[-1], {"HOME": "wrong"}) if service == "buildkite" else lines[-1]
    script = f"runci() {{ printf '%s\\0' \"$@\"; }}\nshard=one\n{command}"
    done = subprocess.run(["bash", "-ec", script], cwd=tmp_path, capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[3:5] == ["--config", name]
    assert list(tmp_path.iterdir()) == []


# What Buildkite's agent makes of a text, by its documentation and its own parser.
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("$A ${A} $A-b", "1 1 1-b"),
        ("$$A \\$A $${A}", "$A $A ${A}"),
        ("\\\\$A", "\\\\1"),
        ("\\$$A", "$1"),
        ("$(A) $ $1", "$(A) $ $1"),
    ],
)
def test_the_played_agent_expands_as_the_real_one(text: str, wanted: str) -> None:
    assert expanded(text, {"A": "1"}) == wanted


def test_shards_and_jobs_are_as_many_as_gitlab_takes() -> None:
    files = MAX_PARALLEL + 1
    assert yaml.safe_load(as_gitlab(plan_of("a", files=files, shards=MAX_PARALLEL)))
    with pytest.raises(RunciError, match="--shards a=200"):
        as_gitlab(plan_of("a", files=files, shards=files))
    plan = plan_of("a")
    many = tuple(replace(plan.suites[0], name=f"a{n}") for n in range(50))
    assert yaml.safe_load(as_gitlab(replace(plan, suites=many[:49])))
    with pytest.raises(RunciError, match="--suite"):
        as_gitlab(replace(plan, suites=many))


def test_a_suite_without_a_machine_is_refused() -> None:
    plan = plan_of("a")
    alone = replace(plan, suites=(replace(plan.suites[0], label=None, runner=None),))
    for render in SERVICES.values():
        with pytest.raises(RunciError, match="cuda a: it has no runner"):
            render(alone, ())


PLANS = {
    "nothing": plan_of(),
    "one": plan_of("a"),
    "many": plan_of("a", "both", files=4, shards=3, label=("a100", 'say="no"')),
}


@pytest.mark.parametrize(
    ("service", "schema"), [("buildkite", "vendor.buildkite"), ("gitlab", "vendor.gitlab-ci")]
)
def test_the_services_own_schemas_take_them(service: str, schema: str, tmp_path: Path) -> None:
    files = []
    for name, plan in PLANS.items():
        files.append(tmp_path / f"{name}.yml")
        files[-1].write_text(SERVICES[service](plan, ("--config", "a $b.yml")), encoding="utf-8")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]
    done = subprocess.run([*command, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "--allow-empty" in files[0].read_text() and "--allow-empty" not in files[1].read_text()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))


@pytest.mark.parametrize("service", SERVICES.values())
def test_a_path_that_no_yaml_can_hold(service: Any) -> None:
    with pytest.raises(RunciError, match="rename it"):
        service(plan_of("a"), ["--config", "a\udcff.yml"])
