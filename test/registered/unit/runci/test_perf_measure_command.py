"""`runci perf measure` with real commands in real repositories."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import psutil
import pytest
from perf_records import git, header, night, point

from runci import register_cpu_ci
from runci.cli import main
from runci.perf.decode import decode
from runci.perf.history.additions import Addition, Additions
from runci.perf.history.points import additions_of
from runci.perf.history.store import append_folder, start_folder
from runci.perf.measure.environment import baseline_variables, package_folders, refuse_copies
from runci.perf.record import Record, Summary

register_cpu_ci(est_time=20, stage="base-a", runner_config="cpu")

ROOT = Path(__file__).parents[4]

# Prints what its package says, in the documented form. EXTRA may change it; `number` counts the
# processes of a night from 1.
BENCH = """\
import glob, json, os, sys
import level
a = {"metric": "a", "unit": "us", "direction": "lower", "values": [level.VALUE, level.VALUE + 0.25]}
b = {**a, "metric": "b", "values": [8.0]}
gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "")
data = {"schema": 1, "samples": [{**a, "reference": "b"}, b], "checks": []}
data["versions"] = {"file": level.__file__, "gpu": gpu}
number = len(glob.glob(os.environ["TMPDIR"] + "/*/*.err"))
print("measuring", file=sys.stderr)
exec(os.environ.get("EXTRA", ""))
text = json.dumps(data)
open(sys.argv[1], "w").write(text) if sys.argv[1:] else print(text)
"""


class Repository:
    """Two commits of a package whose figure differs; the first is the baseline."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output = folder.parent / "record.json"
        (folder / "packages" / "level").mkdir(parents=True)
        (folder / "test").mkdir()
        git(folder, "init", "-q", "-b", "main")
        git(folder, "config", "user.email", "ada@example.org")
        git(folder, "config", "user.name", "Ada")
        (folder / ".git" / "info" / "exclude").write_text("test/perf.yml\n")
        (folder / "bench.py").write_text(BENCH)
        self.baseline = self.commit(4.0)
        self.head = self.commit(6.0)
        self.configure(f"baseline: {self.baseline}")

    def commit(self, level: float) -> str:
        (self.folder / "packages" / "level" / "__init__.py").write_text(f"VALUE = {level}\n")
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "-m", f"level {level}")
        return git(self.folder, "rev-parse", "HEAD")

    def configure(self, *lines: str, command: str = "python, bench.py, '{output}'") -> None:
        known = ['version: "1"', f"command: [{command}]", *lines]
        text = "version: 1\nfirst_night: 2026-01-01\nbenchmarks:\n  gemm:\n"
        (self.folder / "test" / "perf.yml").write_text(text + "".join(f"    {k}\n" for k in known))

    def measure(self, *arguments: str) -> int:
        where = ("--root", str(self.folder), "--output", str(self.output))
        return main(["perf", "measure", "gemm", *where, *arguments])

    def record(self) -> Record:
        return decode(self.output.read_bytes(), Record, "record.json")

    def log(self) -> str:
        return self.output.with_suffix(".log").read_text()

    def is_clean(self) -> bool:
        """No worktree, and no temporary folder, is left."""
        listed = git(self.folder, "worktree", "list", "--porcelain").count("worktree ")
        return listed == 1 and not list(self.folder.parent.joinpath("tmp").iterdir())


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """Its package is on the search path as an environment would put it there."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("RUNCI_LOCKS", str(tmp_path / "locks"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "work" / "packages"))
    monkeypatch.delenv("GITHUB_RUN_ID", raising=False)
    made = Repository(tmp_path / "work")
    yield made
    assert made.is_clean()


# What is right


def test_a_night_is_measured_in_pairs_and_each_side_imports_its_own_package(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    assert repository.measure("--seed", "7", "--night", "2026-11-28") == 0
    record = repository.record()
    a, b = record.measurements
    assert a.candidate == ((6.0, 6.25),) * 5
    assert a.baseline == ((4.0, 4.25),) * 5
    assert (b.candidate, b.reference, a.reference) == (((8.0,),) * 5, None, "b")
    assert record.summary[0] == Summary("a", "us", 6.125, 4.125, 6.125 / 4.125, 6.125 / 8.0, 0.0)
    assert (record.commit, record.baseline_commit) == (repository.head, repository.baseline)
    assert (record.seed, record.night, record.unusable) == (7, "2026-11-28", ())
    assert sorted(record.order) == ["baseline"] * 5 + ["candidate"] * 5
    assert record.versions["file"] == str(repository.folder / "packages/level/__init__.py")
    assert record.machine.gpu.startswith("cpu: ")
    assert record.series_id("a").driver_major == 0
    assert record.started <= record.before.at <= record.after.at <= record.finished
    shown = capsys.readouterr()
    assert "1.485" in shown.out  # 6.125 / 4.125
    assert "runci: 10/10 " in shown.err
    assert repository.log().count("measuring") == 10
    assert additions_of(record, "record.json").series  # the next step takes it


def test_the_order_comes_from_the_seed(repository: Repository) -> None:
    repository.configure(f"baseline: {repository.baseline}", command="python, bench.py")
    orders = []
    for seed in ("1", "1", "2"):
        assert repository.measure("--seed", seed) == 0
        orders.append(repository.record().order)
    assert orders[0] == orders[1] != orders[2]


def test_without_a_baseline_there_are_raw_figures(repository: Repository) -> None:
    repository.configure()
    assert repository.measure() == 0
    record = repository.record()
    assert (record.baseline_commit, record.order) == ("", ("candidate",) * 5)
    assert record.measurements[0].baseline == ()


def test_another_baseline_by_name_becomes_a_full_commit(repository: Repository) -> None:
    git(repository.folder, "tag", "pinned", repository.head)
    assert repository.measure("--baseline", "pinned") == 0
    assert repository.record().baseline_commit == repository.head
    assert repository.record().measurements[0].baseline == ((6.0, 6.25),) * 5


def test_a_root_below_the_top_of_its_repository(repository: Repository) -> None:
    below = repository.folder / "packages"
    (below / "bench.py").write_text(BENCH)
    pinned = repository.commit(5.0)
    repository.commit(6.0)
    repository.configure(f"baseline: {pinned}")
    config = str(repository.folder / "test" / "perf.yml")
    where = ["--root", str(below), "--config", config, "--output", str(repository.output)]
    assert main(["perf", "measure", "gemm", *where]) == 0
    assert repository.record().measurements[0].baseline == ((5.0, 5.25),) * 5


def test_github_s_run_is_named(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.configure()
    for name, text in (
        ("GITHUB_RUN_ID", "42"),
        ("GITHUB_RUN_ATTEMPT", "2"),
        ("GITHUB_SERVER_URL", "https://github.example"),
        ("GITHUB_REPOSITORY", "octo/kernels"),
    ):
        monkeypatch.setenv(name, text)
    assert repository.measure() == 0
    record = repository.record()
    assert record.run_id == "42.2"
    assert record.run_url == "https://github.example/octo/kernels/actions/runs/42"


# What the baseline imports


def test_an_editable_install_does_not_leak_into_the_baseline(tmp_path: Path) -> None:
    """With this environment's own editable install, of this repository."""
    assert {path.as_posix() for path in package_folders(ROOT)} == {"ci_scripts", "kernel"}
    worktree, startup = tmp_path / "worktree", tmp_path / "startup"
    startup.mkdir()
    package = worktree / "kernel" / "sm120_ba"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("HERE = 'the baseline'\n")
    ask = (
        "import importlib.util as u, json, os, sys, sm120_ba, subprocess\n"
        "if sys.argv[1:]: os.chdir('/')\n"
        "child = sys.argv[1:] and subprocess.check_output([sys.executable, '-c', "
        "'import sm120_ba; print(sm120_ba.HERE)'], text=True)\n"
        "print(json.dumps([sm120_ba.HERE, u.find_spec('runci') is None, child and child.strip()]))"
    )
    variables = baseline_variables(ROOT, worktree, startup, {})
    for more, child in ((), []), (("x",), "the baseline"):
        done = subprocess.run(
            [sys.executable, "-c", ask, *more],
            cwd=worktree,
            env={**os.environ, **variables},
            capture_output=True,
            check=True,
        )
        # runci is installed from the candidate's tree, and this baseline has none.
        assert json.loads(done.stdout) == ["the baseline", True, child]


def test_the_environment_s_own_sitecustomize_still_runs(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import os\nos.environ['EXTRA'] = os.environ['HOOK']\n")
    paths = [str(own), str(repository.folder / "packages")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("HOOK", "data['samples'][0]['values'].append(100.0)")
    assert repository.measure() == 0
    (a, _) = repository.record().measurements
    assert (a.candidate[0], a.baseline[0]) == ((6.0, 6.25, 100.0), (4.0, 4.25, 100.0))


def test_a_copy_of_the_candidate_that_both_would_import_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, root = tmp_path / "site", tmp_path / "root"
    info = site / "kernels-1.dist-info"
    info.mkdir(parents=True)
    (root / "packages").mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kernels\nVersion: 1\n")
    monkeypatch.syspath_prepend(str(site))
    url = info / "direct_url.json"
    url.write_text(json.dumps({"url": root.as_uri(), "dir_info": {"editable": True}}))
    refuse_copies(root)
    url.write_text(json.dumps({"url": root.as_uri(), "dir_info": {}}))
    with pytest.raises(Exception, match="kernels: a copy is installed"):
        refuse_copies(root)
    monkeypatch.setenv("PYTHONPATH", str(root / "packages"))
    refuse_copies(root)


# What does not count


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ("b['values'] = [float('nan'), 8.0]", "metric 'b' is nan in repetition 1"),
        ("b['values'] = [-8.0]", "metric 'b' is negative in repetition 1"),
        ("b['values'] = [1e308, 1e308]", "metric 'b' is above 1e+30 in repetition 1"),
        (
            "b['values'] = []",
            "metric 'b' has no values in repetition 1, 2, 3, 4, 5 of the candidate",
        ),
        (
            "if number == 3: del data['samples'][0]",
            "metric 'a' is missing in repetition 3 of the candidate",
        ),
    ],
)
def test_figures_that_are_off_are_written_and_do_not_count(
    repository: Repository,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    extra: str,
    reason: str,
) -> None:
    repository.configure()
    monkeypatch.setenv("EXTRA", extra)
    assert repository.measure() == 1
    record = repository.record()
    assert record.unusable[0].startswith(reason)
    assert f"runci: unusable: {reason}" in capsys.readouterr().err
    assert additions_of(record, "record.json").nights[0].unusable  # the next step takes it


def test_one_repetition_has_no_spread(repository: Repository) -> None:
    assert repository.measure("--repetitions", "1") == 1
    (reason,) = repository.record().unusable
    assert reason == "one repetition has no spread: pass --repetitions 5 or more"


def test_uncommitted_changes_are_said(repository: Repository) -> None:
    (repository.folder / "untracked").write_text("no fault\n")
    repository.configure()
    with (repository.folder / "bench.py").open("a") as stream:
        stream.write("# changed\n")
    assert repository.measure() == 1
    record = repository.record()
    assert record.commit == f"{repository.head}-dirty"
    assert [reason[:19] for reason in record.unusable] == ["uncommitted changes"]


def test_a_night_in_the_future_does_not_count(repository: Repository) -> None:
    repository.configure()
    assert repository.measure("--night", "2999-01-01") == 1
    assert repository.record().unusable[0].startswith("the night 2999-01-01 is in the future")


def test_a_failed_check_is_kept_and_counts(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.configure()
    checks = (
        "{'name': 'fine', 'passed': True}, {'name': 'bits', 'passed': number != 2, 'detail': 'M'}"
    )
    monkeypatch.setenv("EXTRA", f"data['checks'] = [{checks}]")
    assert repository.measure() == 0
    record = repository.record()
    assert [(c.name, c.passed, c.detail) for c in record.checks] == [
        ("bits", False, "repetition 2 of 5: M"),
        ("fine", True, ""),
    ]
    assert "FAILED bits: repetition 2 of 5: M" in capsys.readouterr().out


# What cannot be measured


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (
            "python, -c, 'import sys; print(6); sys.exit(\"no \\x1b[31mluck\")'",
            1,
            "record.log, last:\n    no \\x1b[31mluck\n",
        ),
        ("python, -c, 'import os; os.kill(os.getpid(), 9)'", 1, "ended by SIGKILL"),
        ("python, -c, 'print(6.02)'", 2, "schema None, but this runci reads 1"),
        ("python, -c, 'print(\"6.02 us\")'", 2, "not JSON"),
        ("python, -c, pass, '{output}'", 2, "ended with status 0 and wrote no {output}"),
        (
            "python, -c, 'import os, sys; os.mkfifo(sys.argv[1])', '{output}'",
            2,
            "what it wrote as {output} is no file",
        ),
        ("python, -c, 'print(\"x\" * (65 << 20))'", 1, "printed more than 64 MiB"),
        ("no-such-program", 2, "cannot start no-such-program: No such file"),
        ("python, -c, 'print(''{\"schema\": 1, \"samples\": []}'')'", 3, "nothing was measured"),
    ],
)
def test_no_record_is_written_where_nothing_can_be_measured(
    repository: Repository, capsys: pytest.CaptureFixture[str], command: str, code: int, said: str
) -> None:
    repository.configure(command=command)
    assert repository.measure() == code
    shown = capsys.readouterr().err
    assert said in shown
    assert "candidate 1 of 5: " in shown
    assert not repository.output.exists()


def test_a_failing_baseline_is_named(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository.folder / "bench.py").write_text("raise SystemExit('broken')\n")
    pinned = repository.commit(4.0)
    (repository.folder / "bench.py").write_text(BENCH)
    repository.commit(6.0)
    assert repository.measure("--baseline", pinned) == 1
    shown = capsys.readouterr().err
    assert "runci: baseline 1 of 5: exit status 1; all that it printed is in " in shown
    assert shown.endswith("record.log, last:\n    broken\n")
    assert "broken" in repository.log()


def stubborn(folder: Path) -> str:
    """Python whose child writes its number to `pid`, and which only SIGKILL ends."""
    child = (
        f"signal.signal(15, signal.SIG_IGN), open('{folder}/pid', 'w').write(f'{{os.getpid()}}.')"
    )
    return f"import os, signal, time; os.fork() or ({child}); time.sleep(60)"


def test_what_takes_too_long_is_ended_with_all_that_it_started(
    repository: Repository, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code = stubborn(tmp_path)
    repository.configure("timeout_minutes: 0.02", command=f'python, -c, "{code}"')
    assert repository.measure() == 1
    assert "took longer than timeout_minutes (0.02 min)" in capsys.readouterr().err
    assert gone(int((tmp_path / "pid").read_text()[:-1]))


def test_what_prints_without_end_is_ended(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.configure(command="sh, -c, 'yes; :'")
    assert repository.measure() == 1
    assert "printed more than 64 MiB" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--repetitions", "0"], "--repetitions 0: at least one pair must run"),
        (["--night", "yesterday"], "--night yesterday: not a date"),
        (["--baseline", "no-such-commit"], "baseline no-such-commit: it is not here: git fetch"),
        (["--baseline", "--all"], "baseline --all: it is not here"),
        (["--output", "no/such/folder/x.json"], "cannot write"),
        (["--output", "x.log"], "the log stands there"),
        (["--output", os.devnull], "not a file"),
        (["--night", "20261201"], "not a date"),
        (["--night", "9999-12-31"], "not a date"),
        (["--history", "no-such-folder"], "no-such-folder"),
        (["--config", "no-such.yml"], "no-such.yml: cannot read"),
    ],
)
def test_wrong_use_is_said_before_anything_runs(
    repository: Repository, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    if arguments[0] == "--baseline":
        arguments = [f"--baseline={arguments[1]}"]
    assert repository.measure(*arguments) == 2
    assert said in capsys.readouterr().err
    assert not repository.output.with_suffix(".log").exists()


def test_an_unknown_benchmark(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["perf", "measure", "x", "--output", "y", "--root", str(repository.folder)]) == 2
    assert "there is no benchmark 'x'; there are: gemm" in capsys.readouterr().err


def test_a_shallow_clone_says_what_to_fetch(
    repository: Repository,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    git(repository.folder, "add", "-f", "test/perf.yml")
    git(repository.folder, "commit", "-q", "-m", "perf.yml")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth=1", repository.folder.as_uri(), str(clone))
    arguments = ["perf", "measure", "gemm", "--root", str(clone), "--output"]
    arguments.append(str(repository.output))
    assert main(arguments) == 2
    fetch = f"git fetch --depth=1 origin {repository.baseline}"
    assert f"this clone is shallow and does not hold it: {fetch}" in capsys.readouterr().err
    git(clone, "fetch", "-q", "--depth=1", "origin", repository.baseline)
    monkeypatch.setenv("PYTHONPATH", str(clone / "packages"))
    assert main(arguments) == 0
    assert repository.record().measurements[0].baseline == ((4.0, 4.25),) * 5


def test_no_repository_no_record(
    repository: Repository, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    repository.configure()
    config = str(repository.folder / "test" / "perf.yml")
    bare = tmp_path / "bare"
    bare.mkdir()
    where = ["--root", str(bare), "--config", config, "--output", str(repository.output)]
    assert main(["perf", "measure", "gemm", *where]) == 2
    assert "not a git repository" in capsys.readouterr().err


# Interrupted


def gone(pid: int) -> bool:
    """Whether a process ended, within a few seconds."""
    for _ in range(100):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_night_leaves_nothing(
    repository: Repository, tmp_path: Path, number: int, status: int
) -> None:
    code = stubborn(tmp_path)
    repository.configure(f"baseline: {repository.baseline}", command=f'python, -c, "{code}"')
    arguments = ["perf", "measure", "gemm", "--output", str(repository.output)]
    process = subprocess.Popen(
        [sys.executable, "-m", "runci", *arguments, "--root", str(repository.folder)],
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    pid = tmp_path / "pid"
    while process.poll() is None and not (pid.exists() and pid.read_text().endswith(".")):
        time.sleep(0.05)
    assert not repository.is_clean()  # the baseline is checked out
    process.send_signal(number)
    process.send_signal(number)  # whoever stops it is impatient
    _, said = process.communicate(timeout=60)
    assert process.returncode == status, said
    assert b"Traceback" not in said
    assert gone(int(pid.read_text()[:-1]))
    assert not repository.output.exists()


# Again at once


def with_history(repository: Repository, tmp_path: Path, figure: float) -> Path:
    """A history in which metric a was `figure` times the baseline for eight nights."""
    repository.configure(f"baseline: {repository.baseline}")
    assert repository.measure() == 0
    known = repository.record().series_id("a")
    folder = tmp_path / "history"
    start_folder(folder)
    for number in range(1, 9):
        pinned = {"baseline": (4.0, 4.0), "baseline_commit": repository.baseline}
        changed = {name: getattr(known, name) for name in ("benchmark", "gpu", "driver_major")}
        addition = Addition(header("a", **changed), (point(number, 4.0 * figure, **pinned),))
        made = Additions((addition,), (night(number),))
        append_folder(folder, lambda _, made=made: made)
    return folder


def test_a_metric_that_left_its_level_is_measured_again_at_once(
    repository: Repository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = with_history(repository, tmp_path, 1.0)
    assert repository.measure("--history", str(history)) == 0
    record = repository.record()
    assert len(record.order) == 20
    for one in record.measurements:  # all of them
        assert (len(one.candidate), len(one.baseline)) == (5, 5)
        assert (one.again_candidate, one.again_baseline) == (one.candidate, one.baseline)
    shown = capsys.readouterr().err
    assert "a: +48.5% from its level" in shown
    assert "20/20 " in shown


def test_one_that_stayed_is_not(repository: Repository, tmp_path: Path) -> None:
    history = with_history(repository, tmp_path, 6.125 / 4.125)
    assert repository.measure("--history", str(history)) == 0
    assert len(repository.record().order) == 10
    assert repository.record().measurements[0].again_candidate == ()


def test_a_night_that_does_not_count_is_not_measured_again(
    repository: Repository, tmp_path: Path
) -> None:
    history = with_history(repository, tmp_path, 1.0)
    assert repository.measure("--history", str(history), "--repetitions", "2") == 1
    assert len(repository.record().order) == 4


# On a GPU: the driver's library is played, everything else is real


class Driver(ModuleType):
    """In NVML's place: one GPU, idle and cool."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    class NVMLError(Exception):
        """What NVML raises."""

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.name, self.mask, self.celsius = "NVIDIA GeForce RTX 5090", 0x1, 40
        self.running: list[Any] = []
        self.lost_after: float = float("inf")
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("nvml"):
            return lambda *arguments: self.answer(name, *arguments)
        raise AttributeError(name)

    def answer(self, name: str, *arguments: Any) -> Any:
        answers: dict[str, Any] = {
            "nvmlInit": None,
            "nvmlDeviceGetCount": 1,
            "nvmlDeviceGetHandleByIndex": "handle",
            "nvmlDeviceGetHandleByUUID": "handle",
            "nvmlDeviceGetUUID": "GPU-1a2b",
            "nvmlDeviceGetName": self.name,
            "nvmlSystemGetDriverVersion": b"580.159.04",
            "nvmlDeviceGetCudaComputeCapability": (12, 0),
            "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=600 << 20),
            "nvmlDeviceGetComputeRunningProcesses": self.running,
            "nvmlDeviceGetClockInfo": {1: 2400, 2: 14001}.get(arguments[-1] if arguments else 0),
            "nvmlDeviceGetTemperature": self.celsius,
            "nvmlDeviceGetCurrentClocksThrottleReasons": self.mask,
        }
        self.asked += name == "nvmlDeviceGetName"
        if name not in answers or (name == "nvmlDeviceGetName" and self.asked > self.lost_after):
            raise self.NVMLError(f"{name}: not supported")
        return answers[name]


@pytest.fixture
def driver(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setitem(sys.modules, "pynvml", made)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("runci.perf.measure.state._PATIENCE", 0.0)
    repository.configure("gpu: RTX 5090", "max_temperature: 85")
    return made


def test_the_benchmark_runs_on_the_leased_gpu(repository: Repository, driver: Driver) -> None:
    driver.running = [SimpleNamespace(pid=os.getpid(), usedGpuMemory=1 << 20)]  # ourselves
    assert repository.measure() == 0
    record = repository.record()
    assert record.versions["gpu"] == "GPU-1a2b"
    assert (record.machine.gpu, record.machine.driver) == (driver.name, "580.159.04")
    assert (record.machine.capability, record.series_id("a").driver_major) == ("12.0", 580)
    assert (record.before.sm_clock, record.before.memory_clock) == (2400, 14001)
    assert (record.before.temperature, record.before.memory_used) == (40, 600)
    assert record.before.power is None  # this driver does not say
    assert (record.before.throttled, record.before.processes) == ((), ())
    assert len(record.during) == len(record.order) == 5
    assert (tuple(repository.output.parent.joinpath("locks").glob("GPU-1a2b.holder"))) == ()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"mask": 0x40}, "throttled before (hardware thermal slowdown)"),
        ({"celsius": 86}, "too hot before: 86 °C"),
        (
            {"running": [SimpleNamespace(pid=1, usedGpuMemory=None)]},
            f"other processes on the GPU before: {psutil.Process(1).name()} (pid 1): end them",
        ),
        ({"lost_after": 2}, "NVIDIA GeForce RTX 5090 could not be asked any more at the end"),
    ],
)
def test_a_gpu_that_is_off(
    repository: Repository, driver: Driver, changed: dict[str, Any], reason: str
) -> None:
    vars(driver).update(changed)
    assert repository.measure() == 1
    record = repository.record()
    assert record.unusable[0].startswith(reason)
    assert len(record.measurements) == 2  # raw figures are kept


def test_on_another_gpu_nothing_runs(repository: Repository, driver: Driver) -> None:
    driver.name = "NVIDIA H200"
    assert repository.measure() == 1
    record = repository.record()
    assert record.unusable[0].startswith("wrong SKU: NVIDIA H200, but gemm is for RTX 5090")
    assert (record.order, record.measurements) == ((), ())
    assert additions_of(record, "record.json").nights[0].unusable == record.unusable


def test_there_must_be_such_a_gpu(
    repository: Repository, driver: Driver, capsys: pytest.CaptureFixture[str]
) -> None:
    assert repository.measure("--device", "1") == 2
    assert "--device 1: there is no such GPU here (0: NVIDIA GeForce RTX 5090)" in (
        capsys.readouterr().err
    )


def test_without_a_driver_a_gpu_benchmark_is_refused(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    repository.configure("gpu: RTX 5090")
    assert repository.measure() == 2
    assert "GPU" in capsys.readouterr().err


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, *sys.argv[1:]]))
