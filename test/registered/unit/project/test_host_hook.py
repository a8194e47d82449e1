"""The hooks of a GPU host, as processes: saved events, and an API on this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "support"))  # for `python FILE`

from fake_github import FakeGitHub, world
from places import ROOT

from runci import register_cpu_ci

register_cpu_ci(est_time=36, stage="base-a", runner_config="cpu")

HOST = ROOT / "ci_scripts" / "host"
EVENTS = ROOT / "test" / "fixtures" / "events"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="GPU hosts run Linux")

LIST = """\
version: 1
api_url: {url}
repositories:
  - name: octo/kernels
    id: 1000
    workflows:
      - path: .github/workflows/pr-test.yml
        refs: [refs/pull/*/merge, refs/heads/main]
      - path: .github/workflows/pr-test-extra.yml
        refs: [refs/pull/*/merge]
        labels: [run-ci, run-ci-extra]
      - path: .github/workflows/nightly-sm120.yml
        refs: [refs/heads/main]
"""


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """The folder as an administrator installs it, with this checkout's runci."""
    folder = tmp_path / "a host's folder"
    shutil.copytree(HOST, folder)
    (folder / "state").mkdir()
    (folder / "token").write_text("host-token\n", encoding="ascii")
    command = folder / "venv" / "bin" / "runci"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m runci "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    return folder


def saved(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def scene(saved_event: dict[str, Any], **run: Any) -> dict[str, Any]:
    """The event's world, with the run itself, which the host asks about."""
    environment, changes = saved_event["environment"], dict(saved_event["world"])
    pull = saved_event["payload"].get("pull_request", {})
    own = {
        "id": 31,
        "file": environment["GITHUB_WORKFLOW_REF"].partition("@")[0].rpartition("/")[2],
        "event": environment["GITHUB_EVENT_NAME"],
        "run_attempt": int(environment["GITHUB_RUN_ATTEMPT"]),
        "head_sha": pull.get("head", {}).get("sha", "c" * 40),
        **next((run for run in changes.get("runs", ()) if run["id"] == 31), {}),
        **run,
    }
    others = [run for run in changes.get("runs", ()) if run["id"] != 31]
    return world(**{**changes, "runs": [own, *others]})


def start(
    host: Path, event: dict[str, Any], github: FakeGitHub, **environ: str
) -> subprocess.CompletedProcess[str]:
    (host / "host.yml").write_text(LIST.format(url=github.url), encoding="utf-8")
    payload = host / "event.json"
    payload.write_text(json.dumps(event["payload"]), encoding="utf-8")
    # As the runner starts it: through bash, whatever the first line says.
    return subprocess.run(
        ["bash", "-e", str(host / "job-started.sh")],
        cwd=host.parent,
        env={
            "PATH": os.environ["PATH"],
            **event["environment"],
            "GITHUB_EVENT_PATH": str(payload),
            "GITHUB_API_URL": "http://127.0.0.1:9",
            **environ,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def decided(name: str, host: Path, **environ: str) -> tuple[int, str, str]:
    event = saved(name)
    with FakeGitHub(scene(event)) as github:
        done = start(host, event, github, **environ)
    log = host / "state" / "decisions.log"
    return (
        done.returncode,
        done.stdout + done.stderr,
        log.read_text("utf-8") if log.exists() else "",
    )


@pytest.mark.parametrize(
    "name",
    [
        "labeled-by-maintainer-on-fork",
        "insider-opened-with-label",
        "extra-with-both-labels",
        "comment-grant",
        "dispatch",
        "schedule",
    ],
)
def test_an_authorized_job_starts(host: Path, name: str) -> None:
    code, output, log = decided(name, host)
    assert code == 0, output
    assert log.count("\n") == 1
    assert " allow " in log


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("unlabelled", "label-missing"),
        ("pushed-after-label", "superseded"),
        ("labeled-by-author", "no-grant"),
        ("fork-changes-workflow", "protected"),
        ("draft", "draft"),
        ("rerun-label-removed-since", "label-missing"),
        ("rerun-failed-jobs-after-push", "superseded"),
        ("extra-without-second-label", "label-missing"),
        ("unrelated-label", "other-label"),
        ("push-to-branch", "host-list"),
        ("dispatch-on-branch", "host-list"),
        ("pull-request-target", "event"),
        ("payload-without-repository", "host-list"),
    ],
)
def test_a_job_that_is_not_is_denied_before_its_first_step(
    host: Path, name: str, rule: str
) -> None:
    code, output, log = decided(name, host)
    assert code == 1, output
    assert f" deny {rule} " in log
    assert log.count("\n") == 1
    assert "what to do" in output


def changed(name: str, **environment: str) -> dict[str, Any]:
    event = saved(name)
    return {**event, "environment": {**event["environment"], **environment}}


ALLOWED = "insider-opened-with-label"
AT = "octo/kernels/.github/workflows"


@pytest.mark.parametrize(
    "workflow",
    [
        f"{AT}/mine.yml@refs/pull/7/merge",
        f"{AT}/pr-test.yml@refs/heads/evil",
        f"{AT}/pr-test.yml@refs/tags/main",
        f"{AT}/nightly-sm120.yml@refs/pull/7/merge",
        "eve/kernels/.github/workflows/pr-test.yml@refs/pull/7/merge",
        f"{AT}/../workflows/pr-test.yml@refs/pull/7/merge",
        "",
    ],
)
def test_a_workflow_or_ref_that_is_not_listed_is_denied(host: Path, workflow: str) -> None:
    event = changed(ALLOWED, GITHUB_WORKFLOW_REF=workflow)
    with FakeGitHub(scene(saved(ALLOWED))) as github:
        done = start(host, event, github)
        assert not github.requests
    assert done.returncode == 1
    assert "this host's list" in done.stdout


@pytest.mark.parametrize(
    "run",
    [
        {"event": "push"},
        {"run_attempt": 2},
        {"head_sha": "d" * 40},
        {"file": "pr-test-extra.yml"},
        {"repository": {"id": 2000}},
        {"status": "completed"},
        {"id": 32},
    ],
)
def test_a_run_that_github_knows_otherwise_is_denied(host: Path, run: dict[str, Any]) -> None:
    event = saved(ALLOWED)
    with FakeGitHub(scene(event, **run)) as github:
        done = start(host, event, github)
    assert done.returncode == 1, done.stdout
    assert "not known" in done.stdout


@pytest.mark.parametrize("kind", ["500", "403", "garbage"])
def test_an_api_that_fails_denies(host: Path, kind: str) -> None:
    event = saved(ALLOWED)
    with FakeGitHub(scene(event)) as github:
        github.fault("/pulls/7", kind)
        done = start(host, event, github)
    assert done.returncode == 1
    assert "status" in done.stdout or "not known" in done.stdout


@pytest.mark.parametrize("gone", ["token", "venv", "event.json", "host.yml"])
def test_a_host_that_lacks_a_part_denies(host: Path, gone: str) -> None:
    event = saved(ALLOWED)
    with FakeGitHub(scene(event)) as github:
        if gone in ("token", "venv"):
            path = host / gone
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            done = start(host, event, github)
        elif gone == "event.json":
            done = start(host, event, github, GITHUB_EVENT_PATH=str(host / "none.json"))
        else:
            (host / "venv/bin/runci").write_text(
                f'#!/bin/sh\nrm -f "{host}/host.yml"\nexec "{sys.executable}" -m runci "$@"\n'
            )
            done = start(host, event, github)
    assert done.returncode == 1


@pytest.mark.parametrize(
    "text", ["version: 2\nrepositories: []\n", "version: 1\nrepositories: []\n", "{", ""]
)
def test_a_list_that_is_wrong_denies_and_is_logged(host: Path, text: str) -> None:
    (host / "host.yml").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [str(host / "venv/bin/runci"), "gate", "--host", str(host / "host.yml")],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert " deny unknown " in (host / "state" / "decisions.log").read_text("utf-8")


def test_the_environment_of_a_job_changes_nothing(host: Path, tmp_path: Path) -> None:
    """What a workflow could set at most: the API's address, tokens, Python's search path."""
    evil = tmp_path / "evil"
    (evil / "runci").mkdir(parents=True)
    (evil / "runci" / "__init__.py").write_text("")
    (evil / "runci" / "__main__.py").write_text("raise SystemExit(0)\n")
    code, output, log = decided(
        "unlabelled",
        host,
        PYTHONPATH=str(evil),
        PYTHONSTARTUP=str(evil / "x.py"),
        GITHUB_TOKEN="theirs",
        RUNCI_HOST=str(evil),
        http_proxy="http://127.0.0.1:9",
    )
    assert code == 1, output
    assert " deny label-missing " in log


def test_the_hosts_own_token_is_used_and_shown_to_nobody(host: Path) -> None:
    code, output, log = decided(ALLOWED, host)
    assert code == 0
    assert "host-token" not in output + log


def test_foreign_text_cannot_forge_a_line_of_the_log(host: Path) -> None:
    event = changed(ALLOWED, GITHUB_REF="refs/heads/x\n2026 allow")
    event["payload"]["pull_request"]["head"]["sha"] = "x\nallow author"
    event["payload"]["action"] = "##[add-mask]x\n::set-output name=a::b"
    with FakeGitHub(scene(saved(ALLOWED))) as github:
        done = start(host, event, github)
    assert done.returncode == 1
    log = (host / "state" / "decisions.log").read_text("utf-8")
    assert log.count("\n") == 1
    assert not any(line.startswith("::") for line in done.stdout.splitlines())


def test_a_host_out_of_service_denies(host: Path) -> None:
    (host / "state" / "out-of-service").write_text("GPU 0 is not free\n")
    code, output, _ = decided(ALLOWED, host)
    assert code == 1
    assert "out of service" in output


# An account that nothing else on this machine uses, other runs of these tests included: the hook
# ends all its processes.
JOB_UID = 200_000 + os.getpid()
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0,
    reason="only root can start processes as an account of their own",
)

Completed = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def job_host() -> Iterator[Path]:
    """A host's folder that another account can reach: pytest's own folders are private."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "host"
        shutil.copytree(HOST, folder)
        folder.parent.chmod(0o755)
        (folder / "state").mkdir()
        os.chown(folder / "state", JOB_UID, JOB_UID)
        yield folder


@pytest.fixture
def completed(job_host: Path) -> Completed:
    """Runs job-completed.sh as the job's account, below a process that plays the runner."""

    def run(used: str = "echo '0, 12'", conf: str = f"JOB_USER={JOB_UID}\n") -> Any:
        smi = job_host / "smi"
        smi.write_text(f"#!/bin/sh\n{used}\n", encoding="utf-8")
        smi.chmod(0o755)
        conf += f"NVIDIA_SMI={smi}\nGPU_WAIT_SECONDS=1\n"
        (job_host / "host.conf").write_text(conf, encoding="utf-8")
        runner = f'bash -e "{job_host}/job-completed.sh"; code=$?; echo "runner lives"; exit $code'
        return subprocess.run(
            ["bash", "-c", runner],
            env={"PATH": os.environ["PATH"]},
            user=JOB_UID,
            group=JOB_UID,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@needs_root
def test_a_clean_host_stays_in_service(job_host: Path, completed: Completed) -> None:
    done = completed()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "GPUs free" in done.stdout
    assert not (job_host / "state" / "out-of-service").exists()


@needs_root
def test_leftover_processes_end_and_the_runner_lives(completed: Completed) -> None:
    stubborn = "trap '' TERM; while :; do sleep 0.2; done"
    left = [
        subprocess.Popen(command, user=JOB_UID, start_new_session=True)
        for command in (["sleep", "300"], ["bash", "-c", stubborn])
    ]
    other = subprocess.Popen(["sleep", "300"])
    try:
        time.sleep(0.5)
        done = completed()
        assert done.returncode == 0, done.stdout + done.stderr
        assert "runner lives" in done.stdout
        assert [process.wait(timeout=10) for process in left] == [-signal.SIGTERM, -signal.SIGKILL]
        assert other.poll() is None
    finally:
        for process in (*left, other):
            process.kill()
            process.wait()


@needs_root
@pytest.mark.parametrize("used", ["echo '0, 9000'", "exit 9", "true", "echo '0, [N/A]'"])
def test_a_gpu_that_is_not_free_takes_the_host_out_of_service(
    job_host: Path, completed: Completed, used: str
) -> None:
    done = completed(used)
    assert done.returncode == 1, done.stdout + done.stderr
    assert (job_host / "state" / "out-of-service").read_text()


@needs_root
@pytest.mark.parametrize("conf", ["", "JOB_USER=somebody\n", "JOB_USER=$(id -u)\n"])
def test_another_accounts_processes_are_never_ended(completed: Completed, conf: str) -> None:
    bystander = subprocess.Popen(["sleep", "300"], user=JOB_UID, start_new_session=True)
    try:
        done = completed(conf=conf)
        assert done.returncode == 1
        assert "JOB_USER" in done.stdout
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.parametrize("script", ["job-started.sh", "job-completed.sh"])
def test_the_scripts_parse_and_are_executable(script: str) -> None:
    assert subprocess.run(["bash", "-n", str(HOST / script)], check=False).returncode == 0
    assert os.access(HOST / script, os.X_OK)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
