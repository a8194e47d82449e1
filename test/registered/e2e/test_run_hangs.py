"""Files that hang: where each of their processes was is in the log, however it was started.

The faulty files run at once in one real run, which also shows that looking at one disturbs no
other. A second run is told to look without ending anything.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # for `python FILE`

from run_trees import FOLDER, SUITE, Ran, alive, ended, environment, make, registered, run
from run_trees import start as start_run

from runci import register_cpu_ci
from runci.core.result import Outcome

register_cpu_ci(est_time=85, stage="base-a", runner_config="cpu")

TIMEOUT = 14

WORKERS = """
    import multiprocessing

    def hang_in_fork(): time.sleep(600)
    def hang_in_spawn(): time.sleep(600)
    def hang_in_forkserver(): time.sleep(600)

    def test_workers():
        children = [
            multiprocessing.get_context(name).Process(target=globals()["hang_in_" + name])
            for name in ("fork", "spawn", "forkserver")
        ]
        for child in children: child.start()
        for child in children: child.join()
"""

# Whose parents are gone, in sessions of their own, with nothing of ours open; one of them another
# program with an empty environment. Each blocks for ever in another way.
DAEMONS = """
    import subprocess, threading

    def deadlock_in_daemon():
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()

    OTHER = '''
    import threading
    def deadlock_in_program():
        threading.Event().wait()
    deadlock_in_program()
    '''

    def daemon(work):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.closerange(3, 256)
                work()
            os._exit(0)
        os.wait()

    def test_daemons():
        daemon(deadlock_in_daemon)
        daemon(lambda: os.execve(sys.executable, [sys.executable, "-c", OTHER], {}))
        while True: time.sleep(60)
"""

# A shell between, a program without Python, and a child that stands still.
SHELL = """
    import subprocess

    CHILD = '''
    import time
    def hang_below_a_shell():
        time.sleep(600)
    hang_below_a_shell()
    '''

    def test_shell():
        still = subprocess.Popen([sys.executable, "-c", "import time\\ntime.sleep(600)"])
        time.sleep(0.5)
        still.send_signal(signal.SIGSTOP)
        env = {**os.environ, "CHILD": CHILD, "MY_TOKEN": "hunter2", "NCCL_DEBUG": "WARN"}
        line = f"sleep 611 & {sys.executable} -c \\"$CHILD\\"; echo"
        subprocess.run(["sh", "-c", line], env=env)
"""

# Blocked in C, once without the GIL and once with it, so that no Python code runs any more.
NATIVE = """
    import threading

    def hang_in_c():
        ctypes.CDLL(None).sleep(600)

    def hang_with_the_gil():
        mutex = ctypes.create_string_buffer(64)
        for _ in range(2): ctypes.PyDLL(None).pthread_mutex_lock(mutex)

    def test_native():
        threading.Thread(target=hang_in_c, name="in-c").start()
        time.sleep(0.2)
        hang_with_the_gil()
"""

# What pytest runs meanwhile is none of the test's; three processes are at one place.
SAME = """
    def hang_together():
        time.sleep(600)

    def test_same():
        for _ in range(3):
            if os.fork() == 0: hang_together()
        os.wait()
"""

RANKS = """
    import subprocess

    RANK = '''
    import os, datetime, torch, torch.distributed as dist
    def in_all_reduce():
        dist.all_reduce(torch.ones(4))
    def never_comes():
        import time
        time.sleep(600)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=600))
    in_all_reduce() if dist.get_rank() == 0 else never_comes()
    '''

    def test_ranks():
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", RANK],
                env={**os.environ, **common, "RANK": str(rank), "GLOO_SOCKET_IFNAME": "lo"},
            )
            for rank in (0, 1)
        ]
        for rank in ranks: rank.wait()
"""

HANGS = {
    "test_workers.py": registered(WORKERS),
    "test_daemons.py": registered(DAEMONS),
    "test_shell.py": registered(SHELL),
    "test_native.py": registered(NATIVE),
    "test_same.py": registered(SAME),
    "test_ranks.py": registered(RANKS),
}


@pytest.fixture(scope="module")
def hung(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    root = make(tmp_path_factory.mktemp("hung"), HANGS)
    page = str(root / "page.md")
    more = ("--timeout-per-file", str(TIMEOUT), "--jobs", "6", "--grace", "1", "--format", "github")
    return run(root, "--suite", SUITE, *more, GITHUB_STEP_SUMMARY=page)


def stacks(ran: Ran, name: str) -> str:
    """What stands with the results, by its name in them."""
    written = ran.result(name).stacks
    assert written is not None, ran.output
    return (ran.root / ".runci/results" / written).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "places"),
    [
        (
            "test_workers.py",
            ["test_workers", "hang_in_fork", "hang_in_spawn", "hang_in_forkserver"],
        ),
        ("test_daemons.py", ["test_daemons", "deadlock_in_daemon", "deadlock_in_program"]),
        ("test_shell.py", ["test_shell", "hang_below_a_shell"]),
        ("test_native.py", ["hang_in_c", "hang_with_the_gil"]),
        ("test_same.py", ["test_same", "hang_together"]),
        ("test_ranks.py", ["test_ranks", "in_all_reduce", "never_comes"]),
    ],
)
def test_every_process_of_a_file_is_shown(hung: Ran, name: str, places: list[str]) -> None:
    assert hung.result(name).outcome is Outcome.TIMEOUT
    found = stacks(hung, name)
    # A call stands with its file and line.
    missing = [
        one for one in places if not re.search(rf"^ +(?:\\w+\.)*{one}  \S+:\d+$", found, re.M)
    ]
    assert missing == [], found


def test_the_end_of_a_file_waits_ten_seconds_at_most(hung: Ran) -> None:
    seconds = {name: hung.result(name).seconds for name in HANGS}
    assert {name: took for name, took in seconds.items() if not TIMEOUT < took < TIMEOUT + 12} == {}


def test_programs_that_are_no_python_and_those_that_stand_still_are_named(hung: Ran) -> None:
    found = stacks(hung, "test_shell.py")
    assert re.search(r"^pid \d+ \(sleep 611\): sleeping", found, re.M), found
    assert re.search(r"^pid \d+ \(sh -c .*\): sleeping", found, re.M), found
    assert re.search(r"^pid \d+ \(python.*\): stopped", found, re.M), found


def test_no_secret_of_the_environment_is_shown(hung: Ran) -> None:
    found = stacks(hung, "test_shell.py")
    assert "NCCL_DEBUG=WARN" in found
    assert "hunter2" not in found + hung.output


def test_ranks_are_told_apart(hung: Ran) -> None:
    found = stacks(hung, "test_ranks.py")
    for rank in (0, 1):
        assert re.search(
            rf"^pid .* GLOO_SOCKET_IFNAME=lo .* RANK={rank} WORLD_SIZE=2$", found, re.M
        )


def test_native_calls_are_shown(hung: Ran) -> None:
    found = stacks(hung, "test_native.py")
    thread = found.partition("thread in-c")[2]
    assert re.search(r"^ +sleep  \(libc", thread, re.M), found


def test_processes_at_one_place_are_shown_once(hung: Ran) -> None:
    found = stacks(hung, "test_same.py")
    assert len(re.findall(r"^ +hang_together ", found, re.M)) == 1
    assert re.search(r"^3 processes:\n(?:pid \d+ .*\n){3}  thread", found, re.M), found
    assert re.search(r"^ +\.\.\. \d+ frames of pytest and runci$", found, re.M)
    assert "_pytest" not in found


def test_where_a_file_was_is_shown_once(hung: Ran) -> None:
    """What it printed is not hidden by the same once more, in which all its forks write at once."""
    assert stacks(hung, "test_same.py").count("hang_together") > 1
    for log in (hung.root / ".runci/results/logs").glob("*.log"):
        if not log.name.endswith(".stacks.log"):
            assert "most recent call first" not in log.read_text(encoding="utf-8")


def test_the_page_and_the_annotations_have_the_first_lines(hung: Ran) -> None:
    page = (hung.root / "page.md").read_text(encoding="utf-8")
    assert page.count("<details>") == len(HANGS)
    assert "hang_together" in page
    annotations = re.findall(r"^::error file=.*$", hung.output, re.M)
    assert len(annotations) == len(HANGS)
    # Who waits for the others does not hide them.
    assert any("hang_in_forkserver" in one for one in annotations)
    assert any("never_comes" in one and "in_all_reduce" in one for one in annotations)


# Goes on after it was looked at, parent and child; the second test runs after.
SLOW = """
    import subprocess

    def test_slow():
        child = subprocess.Popen([sys.executable, "-c", "import time\\ntime.sleep(9)"])
        left = os.fork()
        if left == 0:
            time.sleep(9)
            os._exit(7)
        assert child.wait() == 0
        assert os.waitstatus_to_exitcode(os.waitpid(left, 0)[1]) == 7

    def test_after(): pass
"""
# Whatever it is asked, it stops its target and never answers.
SPY = """\
#!/bin/sh
for word in "$@"; do pid=$word; done
kill -STOP "$pid"
sleep 600
"""


def without_spy(folder: Path, spy: str | None = None) -> tuple[str, str]:
    """An interpreter beside which there is no py-spy, or this one, and a path of modules for it."""
    folder.mkdir()
    (folder / "python").symlink_to(os.path.realpath(sys.executable))
    if spy is not None:
        (folder / "py-spy").write_text(spy, encoding="utf-8")
        (folder / "py-spy").chmod(0o755)
    return str(folder / "python"), os.pathsep.join(sys.path)


def start_with(folder: Path, root: Path, spy: str | None, *options: str) -> subprocess.Popen[str]:
    python, modules = without_spy(folder, spy)
    return subprocess.Popen(
        [python, "-m", "runci", "run", "--suite", SUITE, *options],
        cwd=root,
        env={**environment(root), "PYTHONPATH": modules, "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


@pytest.mark.parametrize(
    ("spy", "isolate"),
    [(None, "fork"), (None, "spawn"), (SPY, "fork")],
    ids=["none", "none-spawn", "one that never answers"],
)
def test_a_soft_limit_ends_nothing(tmp_path: Path, spy: str | None, isolate: str) -> None:
    """Nor does a py-spy that never answers, or none: faulthandler tells of our own forks."""
    root = make(tmp_path / "tree", {"test_slow.py": registered(SLOW)})
    options = ("--soft-timeout", "3", "--isolate", isolate)
    began = time.monotonic()
    with start_with(tmp_path / "bin", root, spy, *options) as process:
        ran = ended(process, root)
    assert ran.status == 0, ran.output + ran.error
    assert time.monotonic() - began < 40
    result = ran.result("test_slow.py")
    assert (result.outcome, result.tests) == (Outcome.PASSED, 2)
    found = stacks(ran, "test_slow.py")
    assert len(re.findall(r"^ +test_slow  \S+:\d+$", found, re.M)) == 2, found  # it and its fork
    assert len(re.findall(r"^pid ", found, re.M)) == 3, found
    assert found.count("--soft-timeout") == 1
    assert ("pip install py-spy" in ran.output) == (spy is None)


CLOSED = """
    import subprocess

    CHILD = '''
    import ctypes, time
    ctypes.CDLL(None).prctl(4, 0)  # PR_SET_DUMPABLE: nobody may look into it
    time.sleep(6)
    '''

    def test_closed():
        assert subprocess.run([sys.executable, "-c", CHILD]).returncode == 0
"""


def test_where_pyspy_may_not_look_the_remedy_is_told_once(tmp_path: Path) -> None:
    files = {name: registered(CLOSED) for name in ("test_a.py", "test_b.py")}
    root = make(tmp_path / "tree", files)
    # Root may, but for this.
    less = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"]
    prefix = less if os.geteuid() == 0 else []
    more = ["--suite", SUITE, "--jobs", "2", "--soft-timeout", "3"]
    with subprocess.Popen(
        [*prefix, sys.executable, "-m", "runci", "run", *more],
        cwd=root,
        env=environment(root),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        ran = ended(process, root)
    assert ran.status == 0, ran.output + ran.error
    assert ran.output.count("SYS_PTRACE") == 1, ran.output
    for name in files:  # what the kernel says to everybody
        assert re.search(r"^pid \d+ \(python.*CDLL.*\): sleeping", stacks(ran, name), re.M)


@pytest.mark.parametrize("spy", ["#!/bin/sh\nsleep 600\n", SPY], ids=["silent", "stops it"])
def test_who_interrupts_waits_for_no_look(tmp_path: Path, spy: str) -> None:
    body = "def test_sleeps():\n    open('started', 'w').close()\n    time.sleep(600)\n"
    root = make(tmp_path / "tree", {"test_sleeps.py": registered(body)})
    options = ("--timeout-per-file", "4", "--grace", "30")
    with start_with(tmp_path / "bin", root, spy, *options) as process:
        while not (root / "started").exists():
            time.sleep(0.05)
        time.sleep(5)
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        ran = ended(process, root)
    assert time.monotonic() - began < 3
    assert ran.status == 130
    assert ran.result("test_sleeps.py").outcome is Outcome.TIMEOUT
    assert re.search(r"^  File .* in test_sleeps$", ran.output, re.M)  # nobody else says it


@pytest.mark.parametrize("signaled", [False, True], ids=["Ctrl-C", "from elsewhere"])
def test_who_is_ended_without_a_look_says_where_it_was(tmp_path: Path, signaled: bool) -> None:
    body = (
        "def test_sleeps():\n    open('started', 'w').write(str(os.getpid()))\n    time.sleep(9)\n"
    )
    root = make(tmp_path, {"test_sleeps.py": registered(body)})
    with start_run(root, "--suite", SUITE) as process:
        while not (root / "started").exists() or not (root / "started").read_text():
            time.sleep(0.05)
        process.send_signal(signal.SIGUSR1)  # what it says then is not said again
        time.sleep(2)
        if signaled:
            os.kill(int((root / "started").read_text()), signal.SIGTERM)
        else:
            process.send_signal(signal.SIGINT)
        ran = ended(process, root)
    assert len(re.findall(r"^  File .* in test_sleeps$", ran.output, re.M)) == 1, ran.output


WAITS = """
    def test_before(): time.sleep(4)
    def test_waits():
        open("started", "w").close()
        while not os.path.exists("go"): time.sleep(0.05)
"""


def children(pid: int) -> list[int]:
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(word) for word in found.stdout.split()]


def command(pid: int) -> str:
    """What it was started with; empty where it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def test_sigusr1_shows_what_runs_and_ends_nobody(tmp_path: Path) -> None:
    root = make(tmp_path, {"test_waits.py": registered(WAITS)})
    os.mkfifo(root / "pipe.yml")
    with start_run(root, "--suite", SUITE, "--config", "pipe.yml") as process:
        with (root / "pipe.yml").open("w", encoding="utf-8") as pipe:  # it reads, and waits
            process.send_signal(signal.SIGUSR1)
            time.sleep(0.1)
            pipe.write((root / "test/suites.yml").read_text(encoding="utf-8"))
        while not (root / "started").exists():  # while it reads, imports, starts
            process.send_signal(signal.SIGUSR1)
            assert process.poll() is None
            time.sleep(0.02)
        # Beside it may stand a py-spy that looks.
        (server,) = (pid for pid in children(process.pid) if "runci.run.server" in command(pid))
        (keeper,) = children(server)
        for pid in (server, keeper, process.pid):
            os.kill(pid, signal.SIGUSR1)
        time.sleep(3)
        (root / "go").touch()
        ran = ended(process, root)
    assert ran.status == 0, ran.output + ran.error
    assert ran.result("test_waits.py").outcome is Outcome.PASSED
    assert not alive(server)
    assert "running:" in ran.output
    # How long that test runs, not its file.
    ago = re.findall(rf"(\d\.\d) s  {FOLDER}/test_waits.py::test_waits, since ", ran.output)
    assert ago and all(float(one) < 3.5 for one in ago), ran.output
    assert re.search(r"^ +test_waits  \S+:\d+$", stacks(ran, "test_waits.py"), re.M)


def test_a_job_has_the_usual_signals(tmp_path: Path) -> None:
    """What a test does with SIGUSR1, or with the signal that asks for stacks, is its own."""
    body = """
        import subprocess

        def test_signals():
            assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
            got = []
            signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
            os.kill(os.getpid(), signal.SIGUSR1)
            assert got == [1]
            signal.signal(signal.SIGUSR1, signal.SIG_DFL)
            child = os.fork()
            if child == 0: time.sleep(60)
            os.kill(child, signal.SIGUSR1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGUSR1
            ignored = "grep SigIgn /proc/self/status"
            mask = int(subprocess.check_output(["sh", "-c", ignored]).split()[1], 16)
            assert not mask & (1 << signal.SIGUSR1 - 1 | 1 << signal.SIGURG - 1)
    """
    root = make(tmp_path, {"test_signals.py": registered(body)})
    ran = run(root, "--suite", SUITE)
    assert ran.status == 0, ran.output


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
