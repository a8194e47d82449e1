"""Planted failures and the classes that `runci run` gives them, with real processes.

GPUs are played; what a real one does is in test/registered/gpu/test_gpu_classes.py.
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # for `python FILE`

from played_nvml import CARD, nvml
from run_trees import FOLDER, SUITE, Ran, make, registered, run

from runci import register_cpu_ci
from runci.core.result import FailureClass, Outcome

register_cpu_ci(est_time=80, stage="base-a", runner_config="cpu")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/dev/full, /proc")

# A name that does not exist is soon told, and nobody else is asked for another machine.
ALONE = {"RES_OPTIONS": "timeout:1 attempts:1", "no_proxy": "*"}
WORDS = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. headroom OOM Killed "
    "OSError: [Errno 28] No space left on device MemoryError NVRM: Xid (PCI:0000:65:00): 79 "
    "ConnectionRefusedError: [Errno 111] Connection refused socket.gaierror timeout SIGKILL"
)
# What is planted, the class that it is given, and how often the file runs.
PLANTED: dict[str, tuple[str, str, int]] = {
    "a killed worker": (
        """
        def test_it():
            import subprocess
            code = f"import os; os.kill({os.getpid()}, 9)"
            subprocess.run([sys.executable, "-c", code])
            time.sleep(60)
        """,
        "runner",
        1,
    ),
    "a worker that kills itself": (
        "def test_it(): os.kill(os.getpid(), signal.SIGKILL)\n",
        "test",
        1,
    ),
    "a worker that raises that in itself": (
        "def test_it(): signal.raise_signal(signal.SIGTERM)\n",
        "test",
        1,
    ),
    "a worker that ends a thread of its own": (
        """
        import threading
        def test_it(): signal.pthread_kill(threading.get_ident(), signal.SIGKILL)
        """,
        "test",
        1,
    ),
    "another machine, and then a wrong address": (
        """
        def test_it(): socket.create_connection(("files.invalid", 443), timeout=5)
        def test_then(): ctypes.string_at(0)
        """,
        "test",
        1,
    ),
    "another machine, and then pytest.exit": (
        """
        def test_it(): socket.create_connection(("files.invalid", 443), timeout=5)
        def test_then(): pytest.exit("enough")
        """,
        "test",
        1,
    ),
    "a test that says that a name does not exist": (
        'def test_it(): raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")\n',
        "test",
        1,
    ),
    "a service that does not exist": (
        'def test_it(): socket.create_connection(("files.invalid", "no-such"), timeout=5)\n',
        "test",
        1,
    ),
    "a wrong address": ("def test_it(): ctypes.string_at(0)\n", "test", 1),
    "a full disk": (
        """
        def test_it():
            with open("/dev/full", "w") as stream:
                stream.write("x" * 100_000)
        """,
        "disk full",
        1,
    ),
    "a file that grows too large": (
        """
        def test_it(tmp_path):
            import resource
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
            try:
                (tmp_path / "x").write_bytes(b"x" * 100_000)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
        """,
        "test",
        1,
    ),
    "another machine that is not reached": (
        """
        def test_it():
            import urllib.request
            urllib.request.urlopen("http://192.0.2.1/model.bin", timeout=1)
        """,
        "network",
        2,
    ),
    "a name that does not exist": (
        'def test_it(): socket.create_connection(("files.invalid", 443), timeout=5)\n',
        "network",
        2,
    ),
    "... while the file is collected": (
        """
        try:
            socket.create_connection(("files.invalid", 443), timeout=5)
        except OSError as error:
            raise ImportError("no model") from error
        def test_it(): pass
        """,
        "network",
        2,
    ),
    "a refused connection to a server of its own": (
        """
        def test_it():
            with socket.socket() as made:
                made.bind(("127.0.0.1", 0))
                port = made.getsockname()[1]
            socket.create_connection(("127.0.0.1", port))
        """,
        "test",
        1,
    ),
    "another machine, and a wrong value": (
        """
        def test_it(): socket.create_connection(("files.invalid", 443), timeout=5)
        def test_value(): assert 1 == 2
        """,
        "test",
        1,
    ),
    "no memory of the machine": (
        """
        def test_it():
            import resource
            resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
            bytearray(8 << 30)
        """,
        "out of memory: ours",
        1,
    ),
    "a deadlocked child of a child": (
        """
        def test_it():
            import threading
            lock = threading.Lock()
            lock.acquire()
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    lock.acquire()
                os.wait()
            os.wait()
        """,
        "hang",
        1,
    ),
    "a busy loop": ("def test_it():\n    while True: pass\n", "timeout", 1),
    "a busy child of a child": (
        """
        def test_it():
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    while True: pass
                os.wait()
            os.wait()
        """,
        "timeout",
        1,
    ),
    "one that waits and says so": (
        "def test_it():\n    while True: time.sleep(0.3); print('.', end='', flush=True)\n",
        "timeout",
        1,
    ),
    "all the words, and another reason": (
        f"""
        def test_it():
            print({WORDS!r})
            sys.stderr.write({WORDS!r})
            with pytest.raises(MemoryError):
                raise MemoryError({WORDS!r})
            assert {WORDS!r} == "nothing of it"
        """,
        "test",
        1,
    ),
    "what a test expected": (
        """
        def test_it():
            with pytest.raises(MemoryError):
                pass
        """,
        "test",
        1,
    ),
    "nothing was executed": ("", "test", 1),
}
SCRIPTS = {
    "a script without memory": ("bytearray(1 << 62)\n", "out of memory: ours", 1),
    "a script that asks another machine": (
        'socket.create_connection(("files.invalid", 443), timeout=5)\n',
        "network",
        2,
    ),
    "unittest": (
        """
        class TestIt(unittest.TestCase):
            def test_it(self): socket.create_connection(("files.invalid", 443), timeout=5)
        unittest.main()
        """,
        "network",
        2,
    ),
    "unittest, subtests": (
        """
        class TestIt(unittest.TestCase):
            def test_it(self):
                for number in (1, 2):
                    with self.subTest(number=number):
                        if number == 1:
                            socket.create_connection(("files.invalid", 443), timeout=5)
                        self.assertEqual(number, 1)
        unittest.main()
        """,
        "test",
        1,
    ),
}


def name_of(planted: str) -> str:
    return f"test_{''.join(c if c.isalnum() else '_' for c in planted)}.py"


@pytest.fixture(scope="module")
def through_pytest(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    root = tmp_path_factory.mktemp("classes")
    make(root, {name_of(name): registered(body) for name, (body, _, _) in PLANTED.items()})
    return run(root, "--suite", SUITE, "--timeout-per-file", "6s", "--jobs", "2", **ALONE)


@pytest.fixture(scope="module")
def as_scripts(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    root = tmp_path_factory.mktemp("scripts")
    files = {name_of(name): registered(b, main="") for name, (b, _, _) in SCRIPTS.items()}
    make(root, files)
    return run(root, "--suite", SUITE, "--timeout-per-file", "20s", "--as-script", **ALONE)


def check(ran: Ran, name: str, kind: str, times: int) -> None:
    results = ran.results()[name_of(name)]
    found = [one.failure.kind.value if one.failure else None for one in results]
    assert found == [kind] * times, results
    assert all(one.failure and one.failure.evidence for one in results)


@pytest.mark.parametrize("name", PLANTED)
def test_planted_and_the_class_given(through_pytest: Ran, name: str) -> None:
    _, kind, times = PLANTED[name]
    check(through_pytest, name, kind, times)


@pytest.mark.parametrize("name", SCRIPTS)
def test_planted_in_scripts(as_scripts: Ran, name: str) -> None:
    _, kind, times = SCRIPTS[name]
    check(as_scripts, name, kind, times)


def test_junit_and_the_last_lines_have_the_classes(through_pytest: Ran) -> None:
    (junit,) = (through_pytest.root / ".runci/results").glob("junit.*.xml")
    types = {one.get("type") for one in ElementTree.parse(junit).iter("failure")}
    assert types == {kind for _, kind, _ in PLANTED.values()}
    line = next(li for li in through_pytest.output.splitlines() if "failed by class: " in li)
    count = sum(kind == "network" for _, kind, _ in PLANTED.values())
    assert f"{count} network" in line
    assert through_pytest.status == 1


ONCE = """
def test_it():
    first = not os.path.exists("{name}")
    open("{name}", "w").close()
    if first:
        {fails}
"""


@pytest.mark.parametrize(
    ("fails", "arguments", "ends"),
    [
        ("socket.create_connection(('files.invalid', 443))", (), ["failed", "flaky"]),
        ("socket.create_connection(('files.invalid', 443))", ("--machine-retries", "0"),
         ["failed"]),
        ("assert 0", (), ["failed"]),
        ("assert 0", ("--machine-retries", "5"), ["failed"]),
        ("assert 0", ("--retries", "1"), ["failed", "flaky"]),
        ("os.kill(os.getpid(), 9)", (), ["crashed"]),
    ],
)  # fmt: skip
def test_only_what_the_machine_failed_is_repeated_unasked(
    tmp_path: Path, fails: str, arguments: tuple[str, ...], ends: list[str]
) -> None:
    make(tmp_path, {"test_a.py": registered(ONCE.format(name="been", fails=fails))})
    ran = run(tmp_path, "--suite", SUITE, *arguments, **ALONE)
    assert [one.outcome.value for one in ran.results()["test_a.py"]] == ends
    assert ran.status == (0 if ends[-1] == "flaky" else 1)


@pytest.mark.parametrize(
    ("hook", "kind", "times"),
    [
        ("pytest_addoption(parser): raise RuntimeError('x')", FailureClass.TEST, 1),
        ("pytest_cmdline_main(config): raise RuntimeError('x')", FailureClass.TEST, 1),
        ("pytest_configure(config): raise RuntimeError('x')", FailureClass.TEST, 1),
        ("pytest_unconfigure(config): raise RuntimeError('x')", FailureClass.TEST, 1),
        ("pytest_addoption(parser): socket.create_connection(('files.invalid', 443))",
         FailureClass.NETWORK, 2),
    ],
)  # fmt: skip
def test_a_conftest_is_no_fault_of_the_runner(
    tmp_path: Path, hook: str, kind: FailureClass, times: int
) -> None:
    conftest = {f"{FOLDER}/conftest.py": f"import socket\ndef {hook}\n"}
    make(tmp_path, {"test_a.py": registered("def test_it(): pass\n"), **conftest})
    results = run(tmp_path, "--suite", SUITE, **ALONE).results()["test_a.py"]
    assert [one.failure and one.failure.kind for one in results] == [kind] * times, results


def test_a_real_failure_after_one_of_the_machine_is_red(tmp_path: Path) -> None:
    body = ONCE.format(name="been", fails="socket.create_connection(('files.invalid', 443))")
    make(tmp_path, {"test_a.py": registered(body + "    assert first\n")})
    ran = run(tmp_path, "--suite", SUITE, "--machine-retries", "5", **ALONE)
    first, second = ran.results()["test_a.py"]
    assert (first.failure and first.failure.kind) is FailureClass.NETWORK
    assert (second.failure and second.failure.kind) is FailureClass.TEST
    assert ran.status == 1


def test_a_pass_unasked_is_a_failure_where_flaky_is(tmp_path: Path) -> None:
    body = ONCE.format(name="been", fails="socket.create_connection(('files.invalid', 443))")
    make(tmp_path, {"test_a.py": registered(body)})
    assert run(tmp_path, "--suite", SUITE, "--flaky-fails", **ALONE).status == 1


def test_a_file_that_cannot_be_started_ends_the_run_with_a_result(tmp_path: Path) -> None:
    first = """
        def test_it():
            import shutil, tempfile
            folder = os.path.dirname(tempfile.gettempdir())
            shutil.rmtree(folder)
            open(folder, "w").close()
    """
    make(tmp_path, {"test_a.py": registered(first), "test_b.py": registered("def test_b(): pass")})
    ran = run(tmp_path, "--suite", SUITE, "--jobs", "1", "--order", "path", TMPDIR="/tmp")
    results = ran.results()
    assert results["test_a.py"][0].outcome is Outcome.PASSED
    for one in results["test_b.py"]:
        assert one.outcome is Outcome.CRASHED
        assert (one.failure and one.failure.kind) is FailureClass.RUNNER
        assert "Not a directory" in one.message
    assert ran.status == 1


@pytest.mark.parametrize(
    ("raises", "kind"),
    [
        ("raise torch.OutOfMemoryError('CUDA out of memory.')", FailureClass.MEMORY_OURS),
        ("raise AssertionError('torch.OutOfMemoryError: CUDA out of memory.')", FailureClass.TEST),
    ],
)
def test_what_ended_a_process_of_torch_alone(
    tmp_path: Path, raises: str, kind: FailureClass
) -> None:
    body = f"""
        import torch
        def work(rank): {raises}
        def test_it(): torch.multiprocessing.spawn(work, nprocs=1)
    """
    make(tmp_path, {"test_a.py": registered(body)})
    result = run(tmp_path, "--suite", SUITE).result("test_a.py")
    assert (result.failure and result.failure.kind) is kind, result


def test_a_collective_that_a_process_does_not_join_hangs(tmp_path: Path) -> None:
    body = """
        import torch.distributed as dist
        def test_it(tmp_path):
            rank = 0 if os.fork() else 1
            place = f"file://{tmp_path}/store"
            dist.init_process_group("gloo", init_method=place, rank=rank, world_size=2)
            open("joined", "w").close()
            if rank == 0:
                dist.barrier()
            time.sleep(600)
    """
    make(tmp_path, {"test_a.py": registered(body)})
    limit = ("--timeout-per-file", "20s")
    ran = run(tmp_path, "--suite", SUITE, *limit, GLOO_SOCKET_IFNAME="lo")
    (result,) = ran.results()["test_a.py"]
    assert (tmp_path / "joined").exists(), ran.output
    assert (result.failure and result.failure.kind) is FailureClass.HANG, result


GPU_SUITES = """\
version: 1
roots: [test/t]
runners:
  gpu: {label: gpu, gpu: H100, gpus: 1, execution: pytest}
suites:
  cuda:
    - {stage: a, runner_configs: [gpu], kind: per-commit, timeout_minutes: 5}
"""
GPU_HEAD = """\
import os, pathlib
from runci import register_cuda_ci
register_cuda_ci(est_time=2, stage="a", runner_config="gpu")
PLAYED = pathlib.Path("played")
PLAYED.mkdir(exist_ok=True)
GPU = os.environ["CUDA_VISIBLE_DEVICES"][-1]
"""
BROKEN = """
        raise RuntimeError("CUDA error: unspecified launch failure\\nmore")
"""
OOM = (
    "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.65 GiB of "
    "which 9.65 GiB is free. Process 4711 has 60.00 GiB memory in use. Including non-PyTorch "
    "memory, this process has 10.00 GiB memory in use. Of the allocated memory 9.50 GiB is "
    "allocated by PyTorch, and 5.00 MiB is reserved by PyTorch but unallocated."
)


def on_gpus(root: Path, gpus: int, *files: str, held: str = "") -> Ran:
    texts = {
        "test/suites.yml": GPU_SUITES,
        "fake/pynvml.py": nvml(*[CARD] * gpus),
        **{f"test/t/test_{n}.py": GPU_HEAD + text for n, text in enumerate(files)},
    }
    if held:
        texts["played/memory-0"] = held
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    places = {"PYTHONPATH": "fake", "RUNCI_LOCKS": str(root / "locks")}
    return run(root, "--suite", "a-test-gpu", "--order", "path", **places)


def told(ran: Ran, name: str) -> list[tuple[str, str | None, str]]:
    """Of each attempt the outcome, the class and the GPU."""
    return [
        (
            one.outcome.value,
            one.failure.kind.value if one.failure else None,
            one.machine.gpus[0].uuid if one.machine else "",
        )
        for one in ran.results()[name]
    ]


@pytest.mark.parametrize(
    "fault",
    ['(PLAYED / "xid").write_text("0 79\\n")', '(PLAYED / "lost-0").touch()'],
    ids=["Xid", "the driver"],
)
def test_a_lost_gpu_is_left_for_another_one(tmp_path: Path, fault: str) -> None:
    breaks = f"def test_it():\n    if GPU == '0':\n        {fault}{BROKEN}"
    ran = on_gpus(tmp_path, 2, breaks, "def test_it(): assert GPU == '1'\n")
    assert told(ran, "test_0.py") == [("failed", "GPU lost", "GPU-0"), ("flaky", None, "GPU-1")]
    assert told(ran, "test_1.py") == [("passed", None, "GPU-1")]
    assert ran.status == 0, ran.output + ran.error


def test_without_another_gpu_a_lost_one_is_not_tried_again(tmp_path: Path) -> None:
    breaks = f"def test_it():\n    if True:\n        (PLAYED / 'lost-0').touch(){BROKEN}"
    ran = on_gpus(tmp_path, 1, breaks, "def test_it(): raise RuntimeError('CUDA error: x')\n")
    assert told(ran, "test_0.py") == [("failed", "GPU lost", "GPU-0")]
    assert told(ran, "test_1.py") == [("failed", "GPU lost", "GPU-0")]  # nor is that a test's
    assert ran.status == 1


@pytest.mark.parametrize("number", [13, 31])
def test_an_error_that_a_program_made_is_no_lost_gpu(tmp_path: Path, number: int) -> None:
    text = f"def test_it():\n    if True:\n        (PLAYED / 'xid').write_text('0 {number}\\n')"
    ran = on_gpus(tmp_path, 2, text + BROKEN)
    assert told(ran, "test_0.py") == [("failed", "test", "GPU-0")]


def test_memory_that_another_process_holds(tmp_path: Path) -> None:
    text = (
        f"import torch\ndef test_it():\n    if GPU == '0': raise torch.OutOfMemoryError({OOM!r})\n"
    )
    ran = on_gpus(tmp_path / "held", 2, text, held="4711 61440\n")
    others = ("failed", "out of memory: another process", "GPU-0")
    assert told(ran, "test_0.py") == [others, ("flaky", None, "GPU-1")]
    ran = on_gpus(tmp_path / "free", 2, text)  # that process is one of its own
    assert told(ran, "test_0.py") == [("failed", "out of memory: ours", "GPU-0")]


def test_outcomes_are_what_they_were(through_pytest: Ran) -> None:
    ends = {name: through_pytest.results()[name_of(name)][-1].outcome for name in PLANTED}
    assert ends["a killed worker"] is Outcome.CRASHED
    assert ends["a busy loop"] is ends["a deadlocked child of a child"] is Outcome.TIMEOUT
    assert ends["nothing was executed"] is Outcome.NO_TESTS


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
