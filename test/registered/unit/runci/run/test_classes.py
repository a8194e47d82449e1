"""What a failure was, as a table: each rule with what it is for, and what only looks like it."""

from __future__ import annotations

import errno
import http.client
import io
import os
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from runci.core.machine import Gpu
from runci.core.registration import Backend
from runci.core.result import Failure, FailureClass, FileResult, Outcome, by_class
from runci.run.activity import Watch
from runci.run.classes import Classified, classify
from runci.run.events import reports
from runci.run.gpu import GpuFacts, Usage
from runci.run.loop import first_for
from runci.run.model import (
    Activity,
    Case,
    Chain,
    Ending,
    FileReport,
    Job,
    Raised,
    RunFile,
    Selection,
)
from runci.run.processes import memory_files
from runci.run.progress import Ended, GitHub, Plain
from runci.run.raised import chain, is_here
from runci.run.summary import Finished, Summary, as_junit, step_summary, total_line
from runci.run.xids import KernelLog, bus_of, xids_of

from runci import register_cpu_ci  # isort: skip

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

PATH = "t/test_x.py"
TEST, TIMEOUT, HANG = FailureClass.TEST, FailureClass.TIMEOUT, FailureClass.HANG
OURS, OTHERS = FailureClass.MEMORY_OURS, FailureClass.MEMORY_OTHERS
LOST, DISK = FailureClass.GPU_LOST, FailureClass.DISK_FULL
NETWORK, RUNNER = FailureClass.NETWORK, FailureClass.RUNNER

RUNTIME = ("RuntimeError", "Exception", "BaseException")
OSERROR = ("OSError", "Exception", "BaseException")
REFUSED = ("ConnectionRefusedError", "ConnectionError", *OSERROR)
TORCH_OOM = ("torch.OutOfMemoryError", *RUNTIME)
ACCELERATOR = ("torch.AcceleratorError", *RUNTIME)
TORCH_SPAWN = "torch.multiprocessing.spawn"
ASSERT = Raised(("AssertionError", "Exception"), "assert 'CUDA out of memory' == 'headroom'")
IMPORT = Raised(("_pytest.nodes.Collector.CollectError", "Exception"), "ImportError while ...")

# As torch 2.9 writes it on an H200; of the figures in two places the second is of another process.
OOM = (
    "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.81 GiB of "
    "which {free} is free. Process 4711 has {others} memory in use. Including non-PyTorch memory, "
    "this process has {own} memory in use. Of the allocated memory 3.50 GiB is allocated by "
    "PyTorch, and 5.00 MiB is reserved by PyTorch but unallocated. If reserved but unallocated "
    "memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
    "fragmentation.  See documentation for Memory Management  "
    "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
)
CROWDED = OOM.format(free="15.44 GiB", others="120.00 GiB", own="4.00 GiB")
FULL = OOM.format(free="15.44 GiB", others="0.40 GiB", own="124.00 GiB")
# Before 2.2, where the sum says it all, and the word was misspelt.
OLDER = (
    "CUDA out of memory. Tried to allocate 496.00 MiB. GPU 0 has a total capacty of 14.75 GiB of "
    "which 235.06 MiB is free. Process 20398 has 14.52 GiB memory in use. Of the allocated memory "
    "14.06 GiB is allocated by PyTorch, and 330.42 MiB is reserved by PyTorch but unallocated."
)
LAUNCH = (
    "CUDA error: unspecified launch failure\nCUDA kernel errors might be asynchronously reported at"
    " some other API call, so the stacktrace below might be incorrect."
)
CPU_OOM = (
    "[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you "
    "tried to allocate 400000000000 bytes. Error code 12 (Cannot allocate memory)"
)
NO_SPACE = "[Errno 28] No space left on device: '/data/x'"

GPU = Gpu(0, "GPU-0", "NVIDIA H200")
IDLE = GpuFacts(GPU, Usage(600.0), Usage(600.0))
HELD = GpuFacts(GPU, Usage(123480.0, {4711: 122880.0}), Usage(123480.0, {4711: 122880.0}))
HIDDEN = GpuFacts(GPU, Usage(123480.0), Usage(123480.0))  # a container sees no processes
CAME = GpuFacts(GPU, Usage(600.0), Usage(123480.0, {4711: 122880.0}))
GONE = GpuFacts(GPU, Usage(600.0), Usage(0.0, fault="GPU is lost"))
OFF_BUS = GpuFacts(GPU, Usage(600.0), Usage(600.0), (79,))
OWN_FAULT = GpuFacts(GPU, Usage(600.0), Usage(600.0), (31, 13, 43))


def failed(*chains: Chain, test: str = "test_a", code: int | None = 1) -> FileReport:
    case = Case(f"{PATH}::{test}", "failed", message="said", raised=chains)
    return FileReport(PATH, (case,), begun=True, code=code)


def one(types: tuple[str, ...], message: str = "", **more: object) -> FileReport:
    return failed((replace(Raised(types, message), **more),))  # type: ignore[arg-type]


def printed() -> FileReport:
    """A test that printed all words, compared some of them, and failed for another reason."""
    message = f"assert {CROWDED!r} in {NO_SPACE!r}; ConnectionRefusedError, Xid 79, MemoryError"
    return one(("AssertionError", "Exception"), message)


Row = tuple[str, FileReport, Ending, tuple[GpuFacts, ...], FailureClass, bool]
STATUS = Ending(1.0, status=1)
HTTP = ("urllib.error.HTTPError", "urllib.error.URLError", *OSERROR)
REMOTE = {"peer": "files.example:443"}
GAI = ("socket.gaierror", *OSERROR)
OWN_SERVER = {"peer": "127.0.0.1:30000", "here": True}

REFUSAL = one(REFUSED, errno=errno.ECONNREFUSED, **REMOTE)
BESIDE_CRASH = replace(REFUSAL, code=None, running=f"{PATH}::test_b")

ROWS: list[Row] = [
    # Out of memory on a GPU: whose.
    ("ours", one(TORCH_OOM, FULL), STATUS, (IDLE,), OURS, False),
    ("others", one(TORCH_OOM, CROWDED), STATUS, (HELD,), OTHERS, True),
    ("others, without a list", one(TORCH_OOM, CROWDED), STATUS, (HIDDEN,), OTHERS, True),
    ("others came later", one(TORCH_OOM, CROWDED), STATUS, (CAME,), OTHERS, True),
    ("that process is its own", one(TORCH_OOM, CROWDED), STATUS, (IDLE,), OURS, False),
    ("nobody was asked", one(TORCH_OOM, CROWDED), STATUS, (), OURS, False),
    ("no room even alone", one(TORCH_OOM, CROWDED.replace("allocate 20", "allocate 200")), STATUS,
     (HELD,), OURS, False),
    ("there was room: a limit", one(TORCH_OOM, CROWDED.replace("15.44", "35.44")), STATUS,
     (HELD,), OURS, False),
    ("older, ours", one(("torch.cuda.OutOfMemoryError", *TORCH_OOM), OLDER), STATUS, (IDLE,),
     OURS, False),
    ("older, others", one(TORCH_OOM, OLDER), STATUS,
     (GpuFacts(GPU, Usage(14900.0, {20398: 14868.0}), Usage(600.0)),), OTHERS, True),
    ("only a little of others", one(TORCH_OOM, CROWDED.replace("allocate 20.00", "allocate 15.50")),
     STATUS, (GpuFacts(GPU, Usage(900.0, {4712: 200.0}), Usage(900.0)),), OURS, False),
    ("figures in other words", one(TORCH_OOM, f"no room for the model: {CROWDED}"), STATUS, (HELD,),
     OURS, False),
    ("no figures", one(TORCH_OOM, "CUDA out of memory."), STATUS, (HELD,), OURS, False),
    ("CUDA's own", one(ACCELERATOR, "CUDA error: out of memory\nmore", code=2), STATUS, (HELD,),
     OURS, False),
    ("Triton's", one(RUNTIME, "Triton Error [CUDA]: out of memory"), STATUS, (IDLE,), OURS, False),
    ("it is what a test was about", failed((ASSERT,)), STATUS, (HELD,), TEST, False),
    ("a text that has it", one(RUNTIME, f"no headroom: {CROWDED}"), STATUS, (HELD,), TEST, False),
    ("another type that says it", one(("ValueError",), CROWDED), STATUS, (HELD,), TEST, False),
    ("after pytest.raises(OutOfMemoryError)", one(("AssertionError",), "assert 0 == 1"), STATUS,
     (HELD,), TEST, False),
    ("pytest.fail", one(("Failed", "_pytest.outcomes.OutcomeException"),
     "DID NOT RAISE <class 'torch.OutOfMemoryError'>"), STATUS, (HELD,), TEST, False),
    # Out of the machine's memory.
    ("host", one(("MemoryError", "Exception")), STATUS, (), OURS, False),
    ("numpy", one(("numpy._core._exceptions._ArrayMemoryError", "MemoryError")), STATUS, (), OURS,
     False),
    ("torch on the CPU", one(RUNTIME, CPU_OOM), STATUS, (), OURS, False),
    ("fork", one(OSERROR, "[Errno 12] Cannot allocate memory", errno=errno.ENOMEM), STATUS, (),
     OURS, False),
    ("the word", one(RUNTIME, "headroom is too small: MemoryError"), STATUS, (), TEST, False),
    ("the kernel", FileReport(PATH, begun=True), Ending(1, signal="SIGKILL", out_of_memory=True),
     (), OURS, False),
    # A GPU that is lost.
    ("off the bus", one(ACCELERATOR, LAUNCH, code=719), STATUS, (OFF_BUS,), LOST, True),
    ("the driver", one(RUNTIME, LAUNCH), STATUS, (GONE,), LOST, True),
    ("ECC by its number", one(ACCELERATOR, "CUDA error: x", code=214), STATUS, (IDLE,), LOST, True),
    ("ECC by its line", one(RUNTIME, "CUDA error: uncorrectable ECC error encountered\nmore"),
     STATUS, (IDLE,), LOST, True),
    ("a crash then", FileReport(PATH, begun=True), Ending(1, signal="SIGABRT"), (OFF_BUS,), LOST,
     True),
    ("a limit then", FileReport(PATH, begun=True), Ending(9, stopped="timeout"), (GONE,), LOST,
     True),
    ("no test failed then", FileReport(PATH, begun=True, code=3), Ending(1, status=3), (GONE,),
     LOST, True),
    ("a kernel's own fault", one(ACCELERATOR, LAUNCH, code=719), STATUS, (OWN_FAULT,), TEST, False),
    ("no fault of the GPU", one(ACCELERATOR, LAUNCH, code=719), STATUS, (IDLE,), TEST, False),
    ("lost, and a wrong value", failed((ASSERT,)), STATUS, (OFF_BUS,), TEST, False),
    ("the words", one(("ValueError",), "CUDA error: uncorrectable ECC error encountered"), STATUS,
     (IDLE,), TEST, False),
    ("within a line", one(RUNTIME, "got CUDA error: uncorrectable ECC error encountered"), STATUS,
     (IDLE,), TEST, False),
    # The disk.
    ("ENOSPC", one(OSERROR, NO_SPACE, errno=errno.ENOSPC), STATUS, (), DISK, False),
    ("quota", one(OSERROR, "[Errno 122] Disk quota exceeded", errno=errno.EDQUOT), STATUS, (), DISK,
     False),
    ("torch's shared memory", one(RUNTIME,
     "unable to write to file </torch_12_3>: No space left on device (28)"), STATUS, (), DISK,
     False),
    ("too many watches", one(OSERROR, "[Errno 28] inotify watch limit reached",
     errno=errno.ENOSPC), STATUS, (), TEST, False),
    ("a file that is too large", one(OSERROR, "[Errno 27] File too large", errno=errno.EFBIG),
     STATUS, (), TEST, False),
    ("words of a disk", one(RUNTIME, NO_SPACE), STATUS, (), TEST, False),
    # The network.
    ("refused", one(REFUSED, errno=errno.ECONNREFUSED, **REMOTE), STATUS, (), NETWORK, True),
    ("no such name", one(GAI, errno=socket.EAI_NONAME, **REMOTE), STATUS, (), NETWORK, True),
    ("its own name", one(GAI, errno=socket.EAI_NONAME, **OWN_SERVER), STATUS, (), TEST, False),
    ("a test that raises that", one(GAI, errno=socket.EAI_NONAME), STATUS, (), TEST, False),
    ("no such service", one(GAI, errno=socket.EAI_SERVICE, **REMOTE), STATUS, (), TEST, False),
    ("asked for a family that is none", one(GAI, errno=socket.EAI_FAMILY, **REMOTE), STATUS, (),
     TEST, False),
    ("too slow", one(("TimeoutError", *OSERROR), **REMOTE), STATUS, (), NETWORK, True),
    ("no way", one(OSERROR, errno=errno.ENETUNREACH, **REMOTE), STATUS, (), NETWORK, True),
    ("requests", one(("requests.exceptions.ConnectionError", *OSERROR), **REMOTE), STATUS, (),
     NETWORK, True),
    ("503", one(HTTP, code=503, **REMOTE), STATUS, (), NETWORK, True),
    ("404", one(HTTP, code=404, **REMOTE), STATUS, (), TEST, False),
    ("503 of its own server", one(HTTP, code=503, **OWN_SERVER), STATUS, (), TEST, False),
    ("its own server", one(REFUSED, errno=errno.ECONNREFUSED, **OWN_SERVER), STATUS, (), TEST,
     False),
    ("of whom nobody knows", one(REFUSED, errno=errno.ECONNREFUSED), STATUS, (), TEST, False),
    ("a future that took long", one(("TimeoutError", *OSERROR)), STATUS, (), TEST, False),
    ("the word refused", one(RUNTIME, "ConnectionRefusedError: [Errno 111]", **REMOTE), STATUS, (),
     TEST, False),
    # Causes.
    ("raised from it", failed((IMPORT, Raised(REFUSED, peer="files.example:443"))), STATUS, (),
     NETWORK, True),
    ("a test that says what it expected", failed((ASSERT, Raised(REFUSED, **REMOTE))), STATUS,  # type: ignore[arg-type]
     (), TEST, False),
    ("an assert below", failed((Raised(RUNTIME), ASSERT)), STATUS, (), TEST, False),
    ("another phase failed too", failed((Raised(REFUSED, **REMOTE),), (ASSERT,)), STATUS, (),  # type: ignore[arg-type]
     TEST, False),
    ("memory of ours too", failed((Raised(REFUSED, **REMOTE),), (Raised(("MemoryError",)),)),  # type: ignore[arg-type]
     STATUS, (), OURS, False),
    ("a wrong value after that", failed((Raised(("MemoryError",)),), (ASSERT,)), STATUS, (), TEST,
     False),
    ("no exception is known", failed(), STATUS, (OFF_BUS,), TEST, False),
    # What went wrong beside it.
    ("then a wrong address", BESIDE_CRASH, Ending(1, signal="SIGSEGV"), (), TEST, False),
    ("then os._exit", BESIDE_CRASH, Ending(1, status=3), (), TEST, False),
    ("then pytest.exit", replace(REFUSAL, code=2, left=f"{PATH}::test_b"), Ending(1, status=2), (),
     TEST, False),
    ("then a test that never ended", replace(REFUSAL, running=f"{PATH}::test_b"), STATUS, (), TEST,
     False),
    ("then an error within pytest", replace(REFUSAL, code=3), Ending(1, status=3), (), TEST, False),
    ("then an exit handler", REFUSAL, Ending(1, status=9), (), TEST, False),
    ("while it was collected", replace(REFUSAL, cases=(), errors=REFUSAL.cases, code=2),
     Ending(1, status=2), (), NETWORK, True),
    ("in a conftest.py", FileReport(PATH, raised=REFUSAL.cases[0].raised[0]), Ending(1, status=70),
     (), NETWORK, True),
    ("a lost GPU ends its process", one(ACCELERATOR, "CUDA error: x", code=214),
     Ending(1, signal="SIGABRT"), (IDLE,), LOST, True),
    ("memory, then a crash", one(("MemoryError",)), Ending(1, signal="SIGABRT"), (), OURS, False),
    # Limits.
    ("worked", FileReport(PATH), Ending(9, stopped="timeout", last=Activity(20, 19.0)), (), TIMEOUT,
     False),
    ("stood still", FileReport(PATH), Ending(9, stopped="timeout", last=Activity(20, 0.1)), (),
     HANG, False),
    ("stood still, of the suite", FileReport(PATH),
     Ending(9, stopped="suite-timeout", last=Activity(20, 0.0)), (), HANG, False),
    ("said something", FileReport(PATH), Ending(9, stopped="timeout", last=Activity(20, 0.1, True)),
     (), TIMEOUT, False),
    ("nobody looked", FileReport(PATH), Ending(9, stopped="timeout"), (), TIMEOUT, False),
    # Ends.
    ("killed by somebody", FileReport(PATH, begun=True), Ending(1, signal="SIGKILL"), (), RUNNER,
     False),
    ("killed by itself", FileReport(PATH, begun=True, signalled=frozenset({"SIGKILL"})),
     Ending(1, signal="SIGKILL"), (), TEST, False),
    ("ended by another signal than its own",
     FileReport(PATH, begun=True, signalled=frozenset({"SIGUSR1"})), Ending(1, signal="SIGTERM"),
     (), RUNNER, False),
    ("a wrong address", FileReport(PATH, begun=True), Ending(1, signal="SIGSEGV"), (), TEST, False),
    ("an abort", FileReport(PATH, begun=True), Ending(1, signal="SIGABRT"), (OWN_FAULT,), TEST,
     False),
    ("os._exit", FileReport(PATH, begun=True), Ending(1, status=0), (), TEST, False),
    ("its watcher was killed", FileReport(PATH), Ending(1, stopped="lost"), (), RUNNER, True),
    ("... in a test", FileReport(PATH, begun=True), Ending(1, stopped="lost"), (), RUNNER, False),
    ("... by the test", FileReport(PATH, begun=True, signalled=frozenset({"SIGKILL"})),
     Ending(1, stopped="lost"), (), TEST, False),
    ("no folder for it", FileReport(PATH), Ending(1, stopped="unstarted",
     fault=(Raised(OSERROR, "[Errno 20] Not a directory", errno=errno.ENOTDIR),)), (), RUNNER,
     True),
    ("no room for its folder", FileReport(PATH), Ending(1, stopped="unstarted",
     fault=(Raised(OSERROR, NO_SPACE, errno=errno.ENOSPC),)), (), DISK, False),
    ("no process for it", FileReport(PATH), Ending(1, stopped="unstarted",
     fault=(Raised(("BlockingIOError", *OSERROR), "[Errno 11]", errno=errno.EAGAIN),)), (), RUNNER,
     True),
    ("our own code", FileReport(PATH, fault="KeyError: 'x'"), Ending(1, status=70), (), RUNNER,
     True),
    ("a status of ours", FileReport(PATH, begun=True), Ending(1, status=70), (), TEST, False),
    ("a status alone", FileReport(PATH, begun=True, code=3), Ending(1, status=3), (), TEST, False),
    ("a script", FileReport(PATH, begun=True, code=1, raised=(Raised(("MemoryError",)),)), STATUS,
     (), OURS, False),
    ("all the words, and another reason", printed(), STATUS, (HELD, OFF_BUS), TEST, False),
]  # fmt: skip


def classified(row: Row) -> Classified:
    _, report, ending, gpus, _, _ = row
    found = classify(Outcome.FAILED, "what the result says", report, ending, gpus)
    assert found is not None
    return found


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_classes(row: Row) -> None:
    found = classified(row)
    assert (found.failure.kind, found.again) == row[4:]
    assert found.failure.evidence


def test_every_class_is_given_and_has_a_near_miss() -> None:
    assert {row[4] for row in ROWS} == set(FailureClass)


@pytest.mark.parametrize("row", [row for row in ROWS if row[5]], ids=lambda row: row[0])
def test_a_test_that_failed_by_itself_vetoes(row: Row) -> None:
    name, report, ending, gpus, _, _ = row
    own = Case(f"{PATH}::test_b", "failed", message="assert 1 == 2", raised=((ASSERT,),))
    for cases in ((*report.cases, own), (own, *report.cases)):
        found = classified((name, replace(report, cases=cases), ending, gpus, TEST, False))
        assert (found.failure.kind, found.again) == (TEST, False)
        assert "test_b" in found.failure.evidence


@pytest.mark.parametrize("outcome", [one for one in Outcome if one.green])
def test_what_ended_well_has_no_class(outcome: Outcome) -> None:
    assert classify(outcome, "", printed(), STATUS) is None


def test_the_evidence_is_one_bounded_line() -> None:
    found = classified(("", one(("ValueError",), "x\n" * 9 + "y" * 9000), STATUS, (), TEST, False))
    assert len(found.failure.evidence) <= 500
    long = classify(Outcome.CRASHED, "a\r\nb " * 400, FileReport(PATH), Ending(1))
    assert long is not None
    assert "\n" not in long.failure.evidence
    assert len(long.failure.evidence) == 500


def raised_by(code: Callable[[], object]) -> list[Raised]:
    try:
        code()
    except BaseException as error:  # noqa: BLE001  whatever it raises
        report = reports(
            [
                {
                    "event": "test",
                    "test": f"{PATH}::t",
                    "outcome": "failed",
                    "raised": [chain(error)],
                }
            ],
            [PATH],
        )[PATH]
        return list(report.cases[0].raised[0])
    raise AssertionError("nothing was raised")


def closed_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def test_a_real_refusal_says_by_whom() -> None:
    port = closed_port()
    (found,) = raised_by(lambda: socket.create_connection(("127.0.0.1", port)))
    assert found.types[:3] == ("ConnectionRefusedError", "ConnectionError", "OSError")
    assert (found.errno, found.peer, found.here) == (errno.ECONNREFUSED, f"127.0.0.1:{port}", True)
    assert found.place.startswith(f"{os.path.relpath(__file__)}:")  # ours, not socket.py's


def test_a_real_refusal_of_a_request_is_found_below_what_hides_it() -> None:
    url = f"http://localhost:{closed_port()}/model.bin"
    top, below = raised_by(lambda: urllib.request.urlopen(url, timeout=5))
    assert top.types[0] == "urllib.error.URLError"
    assert below.types[0] == "ConnectionRefusedError"
    assert below.here


def test_a_name_that_cannot_be_resolved_says_which() -> None:
    (found,) = raised_by(lambda: socket.create_connection(("no.such.invalid", 80), timeout=5))
    assert found.types[0] == "socket.gaierror"
    assert (found.peer, found.here) == ("no.such.invalid", False)


def test_a_real_connection_that_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.getsockname()[1], timeout=5)
        connection.connect()
        server.accept()[0].close()
        found = raised_by(lambda: (connection.request("GET", "/"), connection.getresponse()))[0]
        connection.close()
    assert "ConnectionError" in found.types
    assert found.here


def test_an_answer_has_its_status_and_who_gave_it() -> None:
    answer = urllib.error.HTTPError("https://files.example/x", 503, "busy", {}, io.BytesIO())  # type: ignore[arg-type]

    def fail() -> None:
        raise answer

    found = raised_by(fail)[0]
    assert (found.code, found.peer, found.here) == (503, "files.example", False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
def test_a_real_full_disk() -> None:
    def fill() -> None:
        with Path("/dev/full").open("w", encoding="utf-8") as stream:
            stream.write("x" * 100_000)

    (found,) = raised_by(fill)
    assert found.errno == errno.ENOSPC
    assert "[Errno 28] No space left on device" in found.message
    assert "MiB free in" in found.message


def test_causes_are_what_was_named_so_and_no_context() -> None:
    def named() -> None:
        try:
            bytearray(1 << 62)
        except MemoryError as error:
            raise ValueError("x") from error

    def met() -> None:
        try:
            bytearray(1 << 62)
        except MemoryError:
            raise ValueError("x")  # noqa: B904

    assert [found.types[0] for found in raised_by(named)] == ["ValueError", "MemoryError"]
    assert [found.types[0] for found in raised_by(met)] == ["ValueError"]


SPAWNED = """

-- Process 1 terminated with the following error:
Traceback (most recent call last):
  File "/x/torch/multiprocessing/spawn.py", line 90, in _wrap
    fn(i, *args)
  File "/x/test_x.py", line 7, in work
    torch.empty(n, device="cuda")
    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{SPAWNED}torch.OutOfMemoryError: {CROWDED}\n", [("torch.OutOfMemoryError", CROWDED)]),
        (f"{SPAWNED}RuntimeError: {LAUNCH}\n", [("RuntimeError", LAUNCH)]),
        (f"{SPAWNED}MemoryError\n", [("MemoryError", "")]),
        (f"{SPAWNED}AssertionError: a\ntorch.OutOfMemoryError: {CROWDED}\n",
         [("AssertionError", f"a\ntorch.OutOfMemoryError: {CROWDED}")]),
        (f"{SPAWNED}MemoryError\n\nDuring handling of the above exception, another exception "
         f"occurred:\n{SPAWNED}KeyError: 'x'\n", [("KeyError", "'x'")]),
        (f"torch.OutOfMemoryError: {CROWDED}\n", []),
        (f"{SPAWNED}what no exception is: x\n", []),
        ("", []),
    ],
)  # fmt: skip
def test_what_ended_a_process_of_torch(text: str, found: list[tuple[str, str]]) -> None:
    kind = type("ProcessRaisedException", (Exception,), {"__module__": TORCH_SPAWN})

    def fail() -> None:
        raise kind(text)

    assert [(one.types[0], one.message) for one in raised_by(fail)[1:]] == found


def test_an_exception_that_cannot_be_read_says_nothing() -> None:
    class OddError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    error = OddError()
    error.__cause__ = error  # nor does one that is its own cause end never
    assert chain(error) == []
    circle = ValueError("x")
    circle.__cause__ = circle
    assert len(chain(circle)) == 1


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("0.0.0.0", True),
        ("localhost", True),
        ("ip6-localhost", True),
        (socket.gethostname(), True),
        (f"{socket.gethostname().upper()}.some.domain.", True),
        (f"{socket.gethostname()}s", False),
        ("192.0.2.7", False),
        ("2001:db8::7", False),
        ("files.example", False),
        ("localhost.example", False),
        ("", False),
    ],
)
def test_who_is_this_machine(host: str, here: bool) -> None:
    assert is_here(host) is here


LINE = "6,1234,56789,-;NVRM: Xid (PCI:0000:65:00): 79, pid=4711, GPU has fallen off the bus.\n"


@pytest.mark.parametrize(
    ("record", "found"),
    [
        (LINE, [("0000:65:00", 79)]),
        (LINE.replace("): 79, ", "): 119, pid='<unknown>', "), [("0000:65:00", 119)]),
        (LINE.replace("65:00", "E3:00.0"), [("0000:e3:00", 79)]),
        ("6,1,2,-;my module: NVRM: Xid (PCI:0000:65:00): 79, said\n", []),
        ("6,1,2,-;NVRM: GPU at PCI:0000:65:00: GPU-1 79\n", []),
        ("NVRM: Xid (PCI:0000:65:00): 79, no record\n", []),
        ("", []),
    ],
)
def test_xids_of_the_kernel_log(record: str, found: list[tuple[str, int]]) -> None:
    assert xids_of([record]) == found
    assert bus_of("00000000:65:00.0") == "0000:65:00"


def test_the_kernel_log_is_read_from_now_on_or_not_at_all() -> None:
    assert KernelLog().records() == []


def test_where_the_kernel_counts_what_it_ended_for_memory() -> None:
    unified = [["0", "", "/user.slice"]]
    legacy = [["9", "name=systemd", "/"], ["4", "cpu,memory", "/job"], ["0", "", "/"]]
    assert memory_files(unified) == ["/sys/fs/cgroup/user.slice/memory.events"]
    assert memory_files(legacy)[0] == "/sys/fs/cgroup/memory/job/memory.oom_control"


@pytest.mark.parametrize(
    ("looks", "end", "said", "last"),
    [
        ([(98.0, 5.0), (99.0, 5.0)], (100.0, 5.1), 0.0, Activity(2.0, 0.1)),
        ([(98.0, 5.0)], (100.0, 5.0), 99.0, Activity(2.0, 0.0, True)),
        ([(98.0, 5.0)], (100.0, 4.0), 0.0, Activity(2.0, 0.0)),  # one of them has ended
        ([(99.9, 5.0)], (100.0, 5.0), 0.0, None),
        ([], (100.0, 5.0), 0.0, None),
    ],
)
def test_what_a_job_did_last(
    looks: list[tuple[float, float]], end: tuple[float, float], said: float, last: Activity | None
) -> None:
    watch = Watch()
    for look in looks:
        watch.look(*look)
    assert watch.last(*end, said) == last


@pytest.mark.parametrize(("limit", "first", "most"), [(3600.0, 3570.0, 4), (6.0, 3.0, 4)])
def test_nobody_looks_before_the_end_comes_near(limit: float, first: float, most: int) -> None:
    watch, looked = Watch(), []
    for now in (step / 10 for step in range(int(limit * 10))):
        if watch.due(now, 0.0, limit):
            watch.look(now, 0.0)
            looked.append(now)
    assert looked[0] == pytest.approx(first, abs=0.2)
    assert 2 <= len(looked) <= most


def test_a_retry_goes_to_another_gpu_where_there_is_one() -> None:
    here, there = frozenset({"GPU-0"}), frozenset({"GPU-1"})
    file = RunFile(PATH, 1.0)
    again, other = Job((file,), 2, avoid=here), Job((RunFile("t/b.py", 1.0),))
    assert first_for(here, [again, other], [here, there]) is other
    assert first_for(here, [again], [here, there]) is None  # it waits for the other one
    assert first_for(there, [again, other], [here, there]) is again
    assert first_for(here, [again], [here]) is again
    assert first_for(frozenset(), [other], [frozenset()]) is other


FAILURE = Failure(NETWORK, "to ##[error]x\u202e <b>; `gaierror`\x1b[31m")


def result(failure: Failure | None = FAILURE, path: str = PATH) -> FileResult:
    outcome = Outcome.FAILED if failure else Outcome.PASSED
    return FileResult("s", "cpu", "s-1", path, outcome, 1, 1, (), 1.0, 0.0, failure=failure)


def test_counts_by_class() -> None:
    kinds = [NETWORK, TEST, NETWORK]
    assert by_class([result(Failure(kind)) for kind in kinds]) == "1 test, 2 network"
    assert by_class([result(None)]) == ""


@pytest.mark.parametrize("display", [Plain, GitHub])
def test_the_class_and_its_evidence_are_shown_escaped(display: type[Plain]) -> None:
    stream = io.StringIO()
    shown = display(stream, color=False, width=80, guard=True)
    shown.ended(Ended(result(), failed(), b"", failed=True, repeat="runci run"))
    text = stream.getvalue()
    assert "class: network: to " in text
    assert ("title=failed (network)%3A" in text) is (display is GitHub)
    assert not {"\u202e", "\x1b"} & set(text)
    assert "##[" not in text


def test_the_class_stands_in_the_summary_and_in_junit() -> None:
    selection = Selection(Backend.CPU, "s", "s-1", ())
    crashed = Finished(result(Failure(RUNNER, "killed"), "t/b.py"), FileReport("t/b.py"), 1.0)
    summary = Summary(selection, (Finished(result(), failed(), 1.0), crashed), 1.0)
    assert "failed by class: 1 network, 1 runner" in total_line(summary)
    page = step_summary(summary)
    assert "| network |" in page
    assert "&lt;b&gt;" in page
    assert not {"\u202e", "\x1b"} & set(page)
    document = ElementTree.fromstring(as_junit(summary))
    assert [one.get("type") for one in document.iter("failure")] == ["network", "runner"]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
