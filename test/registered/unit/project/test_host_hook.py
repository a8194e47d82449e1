"""The hooks of a GPU host, as processes: saved events, and an API on this machine."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "support"))  # for `python FILE`

from fake_github import FakeGitHub, saved, world
from places import ROOT

from runci import register_cpu_ci
from runci.gate.host_log import Place, fault

register_cpu_ci(est_time=57, stage="base-a", runner_config="cpu")

HOST = ROOT / "ci_scripts" / "host"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="GPU hosts run Linux")

LIST = """\
version: 1
api_url: {url}
append_only: false
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
    (folder / "state" / "decisions.log").touch()
    install_runci(folder)
    return folder


def install_runci(folder: Path) -> None:
    """This checkout's runci, and the token that it uses."""
    (folder / "token").write_text("host-token\n", encoding="ascii")
    command = folder / "venv" / "bin" / "runci"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m runci "$@"\n', encoding="utf-8")
    command.chmod(0o755)


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


# As the runner's worker does: it starts the hook through bash, whatever the first line says, reads
# what it prints, and then runs the steps that ask for `always()`, whatever came of it.
WORKER = """\
while IFS= read -r line; do printf 'hook: %s\\n' "$line"; done < <(
  exec env "${@:3}" bash -e "$1" 2>&1
)
wait $!
printf 'the hook ended with %s\\n' "$?"
: >"$2"
"""


@dataclass(frozen=True)
class Played:
    """What became of a job: how its worker ended, what it printed, whether its step ran."""

    ended: int
    step_ran: bool
    output: str
    annotated: str
    """What the listener would get from the worker's standard error."""
    log: str


class Worker:
    """A process whose executable is named Runner.Worker, and which runs the hook of `host`."""

    def __init__(
        self,
        host: Path,
        *,
        name: str = "Runner.Worker",
        account: int | None = None,
        below: tuple[str, ...] = (),
        hook: str | None = None,
        **environ: str,
    ) -> None:
        """`account`: the user to run as, from root; `below`: a command that starts the worker."""
        self.host = host
        # Not in the host's folder: pytest's may be on a mount where nothing executes.
        self.folder = tempfile.TemporaryDirectory()
        Path(self.folder.name).chmod(0o777)
        copy = Path(self.folder.name) / name
        bash = shutil.which("bash")
        assert bash
        shutil.copy(bash, copy)
        self.step = Path(self.folder.name) / "step"
        given = [f"{name}={value}" for name, value in environ.items()]
        hook = hook or str(host / "job-started.sh")
        self.process = subprocess.Popen(
            [*below, str(copy), "-c", WORKER, "worker", hook, str(self.step), *given],
            cwd=host.parent,
            env={"PATH": os.environ["PATH"]},
            user=account,
            group=account,
            extra_groups=None if account is None else [],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        if account is not None and self.process.stderr is not None:
            # The listener makes this pipe as the same account.
            os.fchown(self.process.stderr.fileno(), account, account)

    def state(self) -> str:
        """The letter of ps: T is stopped."""
        line = Path(f"/proc/{self.process.pid}/stat").read_text("utf-8")
        return line.rpartition(") ")[2][0]

    def hooks(self) -> list[int]:
        """The processes below the worker."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in children.read_text("ascii").split()]

    def left(self, seconds: float = 1.0) -> Played:
        """What became of it once no hook is left that could change anything, and some time on."""
        ends = time.monotonic() + 60
        while time.monotonic() < ends and self.process.poll() is None:
            if not any(map(alive, self.hooks())):
                break
            time.sleep(0.02)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        state = "" if self.process.poll() is not None else self.state()
        self.process.kill()
        return self.end(state)

    def end(self, state: str = "") -> Played:
        try:
            out, err = self.process.communicate(timeout=40)
        finally:
            self.process.kill()
            ran = self.step.exists()
            self.folder.cleanup()
        log = self.host / "state" / "decisions.log"
        text = log.read_text("utf-8") if log.is_file() else ""
        return Played(self.process.returncode, ran, out + err + state, err, text)


def alive(pid: int) -> bool:
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text("utf-8")
    except OSError:
        return False


def start(
    host: Path,
    event: dict[str, Any],
    github: FakeGitHub,
    *,
    text: str = LIST,
    below: tuple[str, ...] = (),
    **environ: str,
) -> Played:
    (host / "host.yml").write_text(text.format(url=github.url), encoding="utf-8")
    payload = host / "event.json"
    payload.write_text(json.dumps(event["payload"]), encoding="utf-8")
    given = {
        **event["environment"],
        "GITHUB_EVENT_PATH": str(payload),
        "GITHUB_API_URL": "http://127.0.0.1:9",
        **environ,
    }
    return Worker(host, below=below, **given).end()


def decided(name: str, host: Path, **environ: str) -> Played:
    event = saved(name)
    with FakeGitHub(scene(event)) as github:
        return start(host, event, github, **environ)


def assert_denied(job: Played, reason: str = "") -> None:
    """Nothing of the job ran, its worker is dead, and the listener was told why."""
    assert not job.step_ran
    assert job.ended == -signal.SIGKILL, job.output
    assert "job-started: denied: " in job.annotated
    assert reason in job.annotated


def assert_allowed(job: Played) -> None:
    assert job.step_ran
    assert "the hook ended with 0" in job.output, job.output
    assert job.ended == 0
    assert job.annotated == ""


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
    job = decided(name, host)
    assert_allowed(job)
    assert job.log.count("\n") == 1
    assert " allow " in job.log


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
    job = decided(name, host)
    assert_denied(job, "what to do")
    assert f" deny {rule} " in job.log
    assert job.log.count("\n") == 1


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
        job = start(host, event, github)
        assert not github.requests
    assert_denied(job, "this host's list")


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
        job = start(host, event, github)
    assert_denied(job, "not known")


@pytest.mark.parametrize("kind", ["500", "403", "garbage"])
def test_an_api_that_fails_denies(host: Path, kind: str) -> None:
    event = saved(ALLOWED)
    with FakeGitHub(scene(event)) as github:
        github.fault("/pulls/7", kind)
        job = start(host, event, github)
    assert_denied(job)
    assert "status" in job.annotated or "not known" in job.annotated


@pytest.mark.parametrize(
    "gone", ["token", "venv", "event.json", "host.yml", "state/decisions.log", "state"]
)
def test_a_host_that_lacks_a_part_denies(host: Path, gone: str) -> None:
    event = saved(ALLOWED)
    given = {}
    with FakeGitHub(scene(event)) as github:
        if gone == "event.json":
            given["GITHUB_EVENT_PATH"] = str(host / "none.json")
        elif gone == "host.yml":
            run_before_runci(host, f'rm -f "{host}/host.yml"')
        else:
            path = host / gone
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        assert_denied(start(host, event, github, **given))


def run_before_runci(host: Path, line: str) -> None:
    """What the gate's process does before it decides."""
    (host / "venv/bin/runci").write_text(
        f'#!/bin/bash\n{line}\nexec "{sys.executable}" -m runci "$@"\n', encoding="utf-8"
    )


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
    job = decided(
        "unlabelled",
        host,
        PYTHONPATH=str(evil),
        PYTHONSTARTUP=str(evil / "x.py"),
        GITHUB_TOKEN="theirs",
        RUNCI_HOST=str(evil),
        http_proxy="http://127.0.0.1:9",
    )
    assert_denied(job)
    assert " deny label-missing " in job.log


def test_the_hosts_own_token_is_used_and_shown_to_nobody(host: Path) -> None:
    job = decided(ALLOWED, host)
    assert_allowed(job)
    assert "host-token" not in job.output + job.log


def test_foreign_text_cannot_forge_a_line_of_the_log(host: Path) -> None:
    event = changed(ALLOWED, GITHUB_REF="refs/heads/x\n2026 allow")
    event["payload"]["pull_request"]["head"]["sha"] = "x\nallow author"
    event["payload"]["action"] = "##[add-mask]x\n::set-output name=a::b"
    with FakeGitHub(scene(saved(ALLOWED))) as github:
        job = start(host, event, github)
    assert_denied(job)
    assert job.log.count("\n") == 1
    assert not any(line.startswith("::") for line in job.output.splitlines())


@pytest.mark.parametrize("kind", ["file", "pipe", "folder", "broken link"])
def test_a_host_out_of_service_denies_whatever_says_so(host: Path, kind: str) -> None:
    mark = host / "state" / "out-of-service"
    if kind == "file":
        mark.write_text("GPU 0 is not free\n")
    elif kind == "pipe":
        os.mkfifo(mark)
    elif kind == "folder":
        mark.mkdir()
    else:
        mark.symlink_to(host / "none")
    job = decided(ALLOWED, host)
    assert_denied(job, "out of service")
    assert " deny hook " in job.log


# What keeps the steps of a denied job from running: the worker is stopped first of all, goes on
# with an «allow» only, and dies of a denial.


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM", "SIGHUP"])
def test_a_hook_that_dies_leaves_the_worker_stopped(host: Path, name: str) -> None:
    """Even where the gate would have allowed."""
    asked = until_asked(host)
    worker = Worker(host)
    wait_for(asked.exists)
    (hook,) = worker.hooks()
    os.kill(hook, signal.Signals[name])
    wait_for(lambda: not alive(hook))
    asked.unlink()
    job = worker.left()
    assert not job.step_ran
    assert job.output.endswith("T"), "the worker is not stopped: " + job.output


def until_asked(host: Path) -> Path:
    """A gate that allows once the file that it makes, which this gives, is removed."""
    asked = host / "asked"
    wait = f'touch "{asked}"; while [[ -e "{asked}" ]]; do sleep 0.05; done; exit 0'
    run_before_runci(host, wait)
    return asked


def wait_for(true: Callable[[], bool], seconds: float = 30) -> None:
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends, "waited in vain"
        time.sleep(0.02)


@pytest.mark.parametrize("status", ["1", "2", "70", "130", "crash", "full pipe"])
def test_a_gate_that_fails_unheard_denies_and_is_logged(host: Path, status: str) -> None:
    line = {
        "crash": "kill -s SEGV $$",
        # More than a pipe holds, whose reader is stopped.
        "full pipe": "head -c 200000 /dev/zero | tr '\\0' x",
    }.get(status, f"echo no; exit {status}")
    run_before_runci(host, f"{line}; exit 1")
    job = Worker(host, GITHUB_RUN_ID="31", GITHUB_RUN_ATTEMPT="2").end()
    assert_denied(job, "the gate ended with")
    assert job.log.count("\n") == 1
    assert " deny hook run=31/2 reason=the gate ended with" in job.log


@pytest.mark.parametrize("stubborn", ["", "trap '' TERM;"])
def test_a_gate_without_an_end_denies(host: Path, stubborn: str) -> None:
    (host / "host.conf").write_text("GATE_SECONDS=1\n")
    run_before_runci(host, f"{stubborn} while :; do sleep 0.1; done")
    assert_denied(Worker(host).end(), "the gate ended with 1")


def test_the_worker_is_stopped_while_the_gate_decides(host: Path) -> None:
    asked = until_asked(host)
    worker = Worker(host)
    wait_for(asked.exists)
    stopped = worker.state()
    asked.unlink()
    assert stopped == "T"
    assert_allowed(worker.end())


@pytest.mark.parametrize("name", ["bash", "Runner.Worker.old", "my-Runner.Worker"])
def test_without_a_worker_above_it_denies_and_ends_no_account_that_is_not_the_runners(
    host: Path, name: str
) -> None:
    """As root, or as somebody whom host.conf does not name: nobody's processes are killed."""
    bystander = subprocess.Popen(["sleep", "300"])
    try:
        job = Worker(host, name=name, GITHUB_EVENT_NAME="pull_request").end()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
    assert job.ended == 0
    assert "the hook ended with 1" in job.output
    assert "steps with always() may run" in job.output
    assert " deny hook " in job.log


CALLED = """unset set export exec exit trap return local cd dirname read readlink kill env bash
timeout head stat sed tail printf date tee getent"""


def test_no_function_of_the_caller_is_called(host: Path) -> None:
    functions = {f"BASH_FUNC_{name}%%": "() { exit 0; }" for name in CALLED.split()}
    assert_denied(decided("unlabelled", host, **functions), "what to do")
    assert_allowed(decided(ALLOWED, host, **functions))


def test_variables_that_steer_bash_are_not_handed_on(host: Path, tmp_path: Path) -> None:
    """Only what acts before the hook's first line is beyond it (docs/host.md)."""
    (tmp_path / "evil" / host.name).mkdir(parents=True)
    run_before_runci(host, f'env >"{host}/seen"')
    given = {"CDPATH": str(tmp_path / "evil"), "LD_LIBRARY_PATH": "/none", "ENV": "/none"}
    job = Worker(host, hook=f"{host.name}/job-started.sh", **given).end()
    assert_denied(job, "what to do")
    names = {line.partition("=")[0] for line in (host / "seen").read_text().splitlines()}
    ours = {"PATH", "HOME", "LANG", "PYTHONSAFEPATH", "PYTHONNOUSERSITE", "PWD", "SHLVL", "_"}
    assert {name for name in names if not name.startswith("GITHUB_")} <= ours


def test_the_self_test_tells_a_hook_that_holds_from_one_that_does_not(host: Path) -> None:
    def ended() -> subprocess.CompletedProcess[str]:
        command = ["bash", str(host / "self-test.sh")]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    good = ended()
    assert good.returncode == 0, good.stdout + good.stderr
    script = host / "job-started.sh"
    text = script.read_text("utf-8")
    for kept, lost in (
        ("kill -s STOP", "true"),
        ('kill -s KILL "$worker"', 'kill -s CONT "$worker"'),
    ):
        assert kept in text
        script.write_text(text.replace(kept, lost), encoding="utf-8")
        assert ended().returncode == 1


# The log and its folder: what a job could clear, replace or block.


FILE, DIRECTORY, PIPE, LINK = stat.S_IFREG, stat.S_IFDIR, stat.S_IFIFO, stat.S_IFLNK


@pytest.mark.parametrize(
    ("mode", "flag", "folder", "needed", "told"),
    [
        (FILE, True, False, True, None),
        (FILE, False, False, True, "chattr +a place"),
        (FILE, None, False, True, "append_only: false"),
        (FILE, False, False, False, None),
        (FILE, None, False, False, None),
        (FILE, True, True, True, "no folder"),
        (DIRECTORY, True, True, True, None),
        (DIRECTORY, False, True, True, "chattr +a place"),
        (DIRECTORY, None, True, True, "append_only: false"),
        (DIRECTORY, None, True, False, None),
        (DIRECTORY, True, False, True, "no regular file"),
        (PIPE, True, False, True, "no regular file"),
        (PIPE, None, False, False, "no regular file"),
        (LINK, None, False, False, "no regular file"),
    ],
)
def test_what_can_serve_as_log_and_folder(
    mode: int, flag: bool | None, folder: bool, needed: bool, told: str | None
) -> None:
    found = fault(Place("place", mode | 0o660, flag), folder=folder, append_only=needed)
    assert (found is None) is (told is None)
    assert (told or "") in (found or "")


@pytest.mark.parametrize("read", [False, True])
def test_a_log_that_is_a_pipe_denies_at_once(host: Path, read: bool) -> None:
    log = host / "state" / "decisions.log"
    log.unlink()
    os.mkfifo(log)
    # With a reader, opening it to write does not fail.
    reader = os.open(log, os.O_RDONLY | os.O_NONBLOCK) if read else None
    began = time.monotonic()
    try:
        assert_denied(decided(ALLOWED, host), "decisions.log")
    finally:
        if reader is not None:
            os.close(reader)
    assert time.monotonic() - began < 30


def test_nothing_is_written_into_a_pipe_in_the_logs_place(host: Path) -> None:
    """Also where the settings, and with them the check, could not be read."""
    (host / "host.yml").write_text("{", encoding="utf-8")
    log = host / "state" / "decisions.log"
    log.unlink()
    os.mkfifo(log)
    reader = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    try:
        done = subprocess.run(
            [str(host / "venv/bin/runci"), "gate", "--host", str(host / "host.yml")],
            env={"PATH": os.environ["PATH"]},
            check=False,
        )
        assert done.returncode == 1
        assert os.read(reader, 1) == b""
    finally:
        os.close(reader)


def test_a_log_that_is_a_link_denies(host: Path) -> None:
    log = host / "state" / "decisions.log"
    log.rename(host / "elsewhere")
    log.symlink_to(host / "elsewhere")
    assert_denied(decided(ALLOWED, host), "decisions.log")
    assert (host / "elsewhere").read_text() == ""


# An account that nothing else on this machine uses, other runs of these tests included: the hook
# ends all its processes. Above what subuid and systemd give away.
JOB_UID = 2_000_000_000 + os.getpid()
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
        (folder / "state" / "decisions.log").touch()
        for path in (folder / "state", folder / "state" / "decisions.log"):
            os.chown(path, JOB_UID, JOB_UID)
        yield folder


def can_unshare() -> bool:
    """Whether a mount of our own, which nothing else sees, can be made."""
    command = ["unshare", "--mount", "mount", "-t", "ramfs", "none", "/mnt"]
    return (
        shutil.which("unshare") is not None
        and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


def without_worker(job_host: Path, conf: str, *, below: tuple[str, ...] = ()) -> tuple[Played, int]:
    """The hook below a process that is no worker; and how a bystander of its account ended.

    The account is one of this test alone, and not root: the kernel lets it signal nobody else.
    """
    (job_host / "host.conf").write_text(conf, encoding="utf-8")
    # Started by itself, so that it is below nothing that the hook could take for its runner.
    bystander = subprocess.Popen(["sleep", "300"], user=JOB_UID, start_new_session=True)
    other = subprocess.Popen(["sleep", "300"])
    try:
        account = None if below else JOB_UID
        job = Worker(job_host, name="Other.Worker", account=account, below=below).end()
        time.sleep(0.5)
        assert other.poll() is None
        return job, bystander.poll() or 0
    finally:
        for process in (bystander, other):
            process.kill()
            process.wait()


@needs_root
def test_without_a_worker_every_process_of_the_runners_account_is_killed(job_host: Path) -> None:
    job, bystander = without_worker(job_host, f"JOB_USER={JOB_UID}\n")
    assert (job.ended, bystander) == (-signal.SIGKILL, -signal.SIGKILL)
    assert not job.step_ran
    assert " deny hook " in job.log


@needs_root
@pytest.mark.parametrize("conf", ["", "JOB_USER=\n", "JOB_USER=root\n", f"JOB_USER={JOB_UID}0\n"])
def test_without_a_worker_no_account_is_ended_that_host_conf_does_not_name(
    job_host: Path, conf: str
) -> None:
    job, bystander = without_worker(job_host, conf)
    assert (job.ended, bystander) == (0, 0)
    assert "the hook ended with 1" in job.output
    assert "steps with always() may run" in job.output


@needs_root
@pytest.mark.parametrize(
    ("shell", "ends"),
    [("/bin/bash", 0), ("", 0), ("/usr/sbin/nologin", -signal.SIGKILL), ("/bin/false", -9)],
)
def test_without_a_worker_no_account_is_ended_that_people_log_in_as(
    job_host: Path, shell: str, ends: int
) -> None:
    if not can_unshare():
        pytest.skip("the account stands in an /etc/passwd of this test's own mount")
    passwd = job_host / "passwd"
    passwd.write_text(f"gpu-ci:x:{JOB_UID}:{JOB_UID}::/:{shell}\n", encoding="utf-8")
    mount = f'mount --bind "{passwd}" /etc/passwd && exec setpriv --reuid {JOB_UID} "$@"'
    below = ("unshare", "--mount", "sh", "-c", mount, "sh", "--regid", str(JOB_UID))
    job, bystander = without_worker(
        job_host, "JOB_USER=gpu-ci\n", below=(*below, "--clear-groups", "--")
    )
    assert (job.ended, bystander) == (ends, ends)
    assert job.step_ran is (ends == 0)


@pytest.fixture
def guarded(job_host: Path) -> Iterator[Path]:
    """The folder and log as the set-up makes them; skipped where that cannot be done."""
    state = job_host / "state"
    log = state / "decisions.log"
    for path, mode in ((log, 0o660), (state, 0o1770)):
        os.chown(path, 0, JOB_UID)
        path.chmod(mode)
    try:
        if subprocess.run(["chattr", "+a", str(log), str(state)], check=False).returncode:
            pytest.skip("chattr +a does nothing here")
        yield job_host
    finally:
        subprocess.run(["chattr", "-a", str(state), str(log)], check=False)


def as_job(command: str, folder: Path) -> int:
    return subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        user=JOB_UID,
        group=JOB_UID,
        extra_groups=[],
        capture_output=True,
        timeout=60,
        check=False,
    ).returncode


@needs_root
def test_a_job_clears_neither_the_log_nor_the_mark(guarded: Path) -> None:
    state = guarded / "state"
    log = state / "decisions.log"
    assert as_job("echo old >>decisions.log && echo why >out-of-service", state) == 0
    for command in (
        "rm -f decisions.log",
        "rm -f out-of-service",
        "mv out-of-service other",
        "mv -f out-of-service decisions.log",
        ": >decisions.log",
        "rm -f decisions.log && mkfifo decisions.log",
        "ln -sf /dev/null decisions.log",
        "chmod 000 decisions.log",
        "chattr -a decisions.log",
        "mv ../state ../other",
    ):
        assert as_job(command, state) != 0, command
        assert log.read_text() == "old\n", command
        assert (state / "out-of-service").exists(), command


@needs_root
@pytest.mark.parametrize("status", [0, 1])
def test_it_holds_for_an_account_that_is_not_root(guarded: Path, status: int) -> None:
    """With a played gate: the account cannot reach this checkout's Python."""
    command = guarded / "venv" / "bin" / "runci"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho said\nexit {status}\n", encoding="utf-8")
    command.chmod(0o755)
    job = Worker(guarded, account=JOB_UID).end()
    if status == 0:
        assert_allowed(job)
    else:
        assert_denied(job, "said")
        assert " deny hook " in job.log


@needs_root
@pytest.mark.parametrize("lost", ["state", "state/decisions.log"])
def test_a_log_or_folder_that_is_not_append_only_denies(guarded: Path, lost: str) -> None:
    install_runci(guarded)
    event = saved(ALLOWED)
    strict = LIST.replace("append_only: false\n", "")
    with FakeGitHub(scene(event)) as github:
        assert_allowed(start(guarded, event, github, text=strict))
        subprocess.run(["chattr", "-a", str(guarded / lost)], check=True)
        assert_denied(start(guarded, event, github, text=strict), f"chattr +a {guarded / lost}")
        assert_allowed(start(guarded, event, github))


@needs_root
def test_what_the_log_cannot_hold_is_not_allowed(job_host: Path) -> None:
    if not can_unshare():
        pytest.skip("a full disk is mounted for this test alone")
    install_runci(job_host)
    state = job_host / "state"
    fill = f'head -c 1000000 /dev/zero 2>/dev/null >"{state}/decisions.log"'
    mount = f'mount -t tmpfs -o size=64k none "{state}" && {{ {fill} || exec "$@"; }}'
    event = saved(ALLOWED)
    with FakeGitHub(scene(event)) as github:
        job = start(job_host, event, github, below=("unshare", "--mount", "sh", "-c", mount, "sh"))
    assert_denied(job, "decisions.log: cannot write")


@needs_root
@pytest.mark.parametrize(("setting", "right"), [("", False), ("append_only: false\n", True)])
def test_a_file_system_without_append_only_is_accepted_only_when_said(
    job_host: Path, setting: str, right: bool
) -> None:
    if not can_unshare():
        pytest.skip("such a file system is mounted for this test alone")
    install_runci(job_host)
    event = saved(ALLOWED)
    state = job_host / "state"
    mount = f'mount -t ramfs none "{state}" && touch "{state}/decisions.log" && exec "$@"'
    below = ("unshare", "--mount", "sh", "-c", mount, "sh")
    with FakeGitHub(scene(event)) as github:
        text = LIST.replace("append_only: false\n", setting)
        job = start(job_host, event, github, text=text, below=below)
    if right:
        assert_allowed(job)
    else:
        assert_denied(job, "append_only: false")


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
    assert " out-of-service a GPU is not free" in (job_host / "state/decisions.log").read_text()


@needs_root
@pytest.mark.parametrize("pipe", ["out-of-service", "decisions.log"])
def test_a_pipe_that_a_job_made_does_not_hold_up_the_hook(
    job_host: Path, completed: Completed, pipe: str
) -> None:
    path = job_host / "state" / pipe
    path.unlink(missing_ok=True)
    os.mkfifo(path, 0o666)
    path.chmod(0o666)
    done = completed("exit 9")
    assert done.returncode == 1
    assert (job_host / "state" / "out-of-service").exists()


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


@pytest.mark.parametrize("script", ["job-started.sh", "job-completed.sh", "self-test.sh"])
def test_the_scripts_parse_and_are_executable(script: str) -> None:
    assert subprocess.run(["bash", "-n", str(HOST / script)], check=False).returncode == 0
    assert os.access(HOST / script, os.X_OK)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
