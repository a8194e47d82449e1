"""A team whose GPU tests run on Buildkite or GitLab: from `runci init` to a verified run there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # for `python FILE`

from places import FIXTURES
from played_nvml import CARD, nvml
from services import Service
from trees import runci_process, track

from runci import register_cpu_ci

register_cpu_ci(est_time=30, stage="base-a", runner_config="cpu")

TORCH = """\
class cuda:
    device_count = staticmethod(lambda: 1)
    is_initialized = staticmethod(lambda: False)
"""
SUITE = "buildkite-gitlab-a100"  # as .buildkite/pipeline.yml and .gitlab-ci.yml say
SHARDS = (f"cuda-{SUITE}-1of2", f"cuda-{SUITE}-2of2")


@pytest.fixture
def played(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine with a GPU."""
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "pynvml.py").write_text(nvml(CARD), encoding="utf-8")
    (modules / "torch.py").write_text(TORCH, encoding="utf-8")
    return {
        "PYTHONPATH": str(modules),
        "RUNCI_LOCKS": str(tmp_path / "locks"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """The fixture, as `runci init` and the page say: with one more test, so two shards fill."""
    root = tmp_path / "team"
    shutil.copytree(FIXTURES / "adopt" / "elsewhere", root)
    shutil.copy(root / "tests/gpu/attention_test.py", root / "tests/gpu/norm_test.py")
    track(root)
    done = runci_process("init", cwd=root, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.returncode == 0
    assert "plan --all --format buildkite" in {
        line.partition("    #")[0].removeprefix("  runci ") for line in done.stdout.splitlines()
    }
    text = (root / "runci.yml").read_text(encoding="utf-8")
    assert text.count('run_by: "Buildkite and GitLab"\n') == 1 and "label: a100," in text
    return commit(root)


def commit(root: Path) -> Path:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for command in (["add", "--all"], [*who, "commit", "--quiet", "-m", "x"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    return root


def planned(root: Path, service: str, environment: dict[str, str], *more: str) -> tuple[str, Path]:
    """What the planning job prints, and the plan that it keeps."""
    plan = root.parent / service / "plan.json"
    plan.parent.mkdir(exist_ok=True)
    options = ["--allow-empty", "--format", service, "-o", str(plan), *(more or ["--all"])]
    done = runci_process("plan", *options, cwd=root, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout, plan


def ran(service: str, root: Path, environment: dict[str, str], folder: Path, *more: str) -> Service:
    """The pipeline of one service, run to its end."""
    pipeline, plan = planned(root, service, environment, *more)
    playing = Service(root, folder, environment)
    playing.keep("runci-plan", plan)
    getattr(playing, service)(pipeline)
    return playing


JOBS = {
    "buildkite": ("runci-shard-1", "runci-shard-2", "runci-verify"),
    "gitlab": (f"cuda {SUITE} 1/2", f"cuda {SUITE} 2/2", "runci verify"),
}
TWO = ("--all", "--shards", f"{SUITE}=2")


@pytest.mark.parametrize("service", JOBS)
def test_every_planned_shard_is_run_and_verified(
    service: str, team: Path, played: dict[str, str], tmp_path: Path
) -> None:
    first, second, verify = JOBS[service]
    done = ran(service, team, played, tmp_path / "played", *TWO)
    assert done.ended == {first: 0, second: 0, verify: 0}, done.output
    assert "2 tests" in done.output[verify]
    # A shard whose results did not arrive, although its job was green.
    shutil.rmtree(done.kept / second.replace("/", "-"))
    done.again(verify)
    assert done.ended[verify] == 1
    assert SHARDS[1] in done.output[verify] and SHARDS[0] not in done.output[verify]


def test_a_failed_test_is_red_and_verify_says_which(
    team: Path, played: dict[str, str], tmp_path: Path
) -> None:
    first, second, verify = JOBS["buildkite"]
    with (team / "tests/gpu/norm_test.py").open("a") as file:
        file.write("\n\ndef test_norm():\n    assert torch.cuda.device_count() == 2\n")
    done = ran("buildkite", commit(team), played, tmp_path / "played", *TWO)
    assert {done.ended.pop(first), done.ended.pop(second)} == {0, 1}, done.output
    assert done.ended == {verify: 1}
    assert "tests/gpu/norm_test.py" in done.output[verify]


@pytest.mark.parametrize("service", JOBS)
def test_where_nothing_is_planned_the_pipeline_runs_and_says_so(
    service: str, team: Path, played: dict[str, str], tmp_path: Path
) -> None:
    done = ran(service, team, played, tmp_path / "played", "--all", "--kind", "nightly")
    assert done.ended == {JOBS[service][2]: 0}, done.output
    assert "Nothing is planned" in done.output[JOBS[service][2]]


def test_github_verifies_what_it_runs_and_nothing_of_the_others(
    team: Path, played: dict[str, str]
) -> None:
    outputs, plan = planned(team, "github", played)
    read = dict(line.split("=", 1) for line in outputs.splitlines())
    assert [one["suite"] for one in json.loads(read["matrix"])["include"]] == ["cpu"]
    run = ["run", "--plan", str(plan), "--suite", "cpu", "--results", str(plan.parent / "results")]
    verify = ["verify", str(plan), str(plan.parent / "results")]
    for command in (run, verify):
        done = runci_process(*command, cwd=team, **played)
        assert done.returncode == 0, done.stdout + done.stderr
    # Without such a format all are planned, or those of a service that is named.
    for service, suites in (("github", ["cpu"]), ("gitlab", [SUITE]), ("", ["cpu", SUITE])):
        more = ["--service", service] if service else []
        done = runci_process("plan", "--all", "--format", "json", *more, cwd=team, **played)
        assert [suite["name"] for suite in json.loads(done.stdout)["suites"]] == suites


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["--service", "gitlab", "--format", "buildkite"], 2, "leave --service out"),
        (["--format", "gitlab"], 3, "run_by that names gitlab"),
        (["--format", "buildkite"], 0, f"cuda-{SUITE}-1of1"),
    ],
)
def test_what_no_service_runs_is_said(
    arguments: list[str], status: int, says: str, team: Path, played: dict[str, str]
) -> None:
    text = (team / "runci.yml").read_text(encoding="utf-8")
    (team / "runci.yml").write_text(text.replace(" and GitLab", ""), encoding="utf-8")
    done = runci_process("plan", "--all", *arguments, cwd=team, **played)
    assert done.returncode == status
    assert says in " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("service", ["buildkite", "gitlab"])
def test_the_log_of_the_step_that_plans_says_what_and_why(
    service: str, team: Path, played: dict[str, str]
) -> None:
    arguments = ("--base", "origin/main", "--format", service)
    done = runci_process("plan", *arguments, cwd=team, **played)
    said = " ".join(done.stderr.split())
    assert done.returncode == 0
    assert "base 'origin/main' is no commit in this clone" in said
    assert "left out: cpu cpu" in said
    assert "origin/main" not in done.stdout


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
