"""What the log of compute-sanitizer makes of a file: tables over logs as its versions write."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from runci import register_cpu_ci
from runci.core.result import Failure, FailureClass, Outcome, ToolError
from runci.run import sanitized
from runci.run.classes import Classified
from runci.run.model import Case, Ending, FileReport
from runci.run.outcome import decide
from runci.run.sanitized import MOST, Seen, read_log, seen

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

PATH = "test/registered/test_a.py"
HEAD = "COMPUTE-SANITIZER"
WRITE = """\
Invalid __global__ write of size 4 bytes
    at out_of_bounds_function()+0xb0 in memcheck_demo.cu:39
    by thread (0,0,0) in block (0,0,0)
    Address 0x87654320 is out of bounds
    and is 137,179,965,340,896 bytes before the nearest allocation at 0x7cc43a800000 of size 1,024 \
bytes
        Device Frame: out_of_bounds_kernel()+0x30 in memcheck_demo.cu:44
    Saved host backtrace up to driver entry point at kernel launch time
        Host Frame: run_out_of_bounds() [0xadb6] in memcheck_demo
        Host Frame: main [0xae66] in memcheck_demo
"""
OF_WRITE = ToolError(
    "Invalid __global__ write of size 4 bytes",
    "out_of_bounds_kernel()",
    "memcheck_demo.cu:39",
    "Address 0x87654320 is out of bounds and is 137,179,965,340,896 bytes before the nearest "
    "allocation at 0x7cc43a800000 of size 1,024 bytes",
)
RACE = """\
Error: Race reported between Write access at sumKernel(int *, int *)+0x90 in /home/a/block.cu:41
    and Read access at sumKernel(int *, int *)+0x100 in /home/a/block.cu:51 [508 hazards]
"""
OF_RACE = ToolError(
    "Error: Race reported between Write access at sumKernel(int *, int *)+0x90 in "
    "/home/a/block.cu:41 and Read access at sumKernel(int *, int *)+0x100 in /home/a/block.cu:51 "
    "[508 hazards]",
    "sumKernel(int *, int *)",
    "/home/a/block.cu:41",
)
UNREAD = """\
Uninitialized __global__ memory read of size 4 bytes
    at vectorAdd(int *)+0x70 in /home/a/memset_error.cu:41
    by thread (31,0,0) in block (1,0,0)
    Address 0x7f3c7ec000fc
"""
# As the tool wrote it for a target that ended by a signal, on a machine without a GPU.
CRASHED = """\
COMPUTE-SANITIZER
Error: process didn't terminate successfully
    The application may have hit an error when dereferencing Unified Memory from the host. Please \
rerun the application under cuda-gdb or a host debugger to catch host side errors.
Error: Target application terminated before first instrumented API call
"""


def log(*texts: str) -> bytes:
    """A log of records and lines, each line with the tool's prefix."""
    lines = [line for text in texts for line in [*text.splitlines(), ""]]
    return "".join(f"========= {line}".rstrip() + "\n" for line in lines).encode()


ONE = {
    "memcheck, an access in a function that the kernel calls": (WRITE, OF_WRITE),
    "memcheck, without lines": (
        "Invalid __global__ read of size 16 bytes\n"
        "    at void at::native::copy<float, 4>(float *, int)+0x50\n"
        "    by thread (1,0,0) in block (0,0,0)\n"
        "    Address 0x710fdca00001 is misaligned\n",
        ToolError(
            "Invalid __global__ read of size 16 bytes",
            "void at::native::copy<float, 4>(float *, int)",
            "",
            "Address 0x710fdca00001 is misaligned",
        ),
    ),
    "memcheck of CUDA 12": (
        "Invalid __global__ write of size 4 bytes\n"
        "    at unaligned_kernel():0x160 in memcheck_demo.cu:6\n"
        "    by thread (0,0,0) in block (0,0,0)\n"
        "    Address 0x7f6510c00001 is misaligned\n",
        ToolError(
            "Invalid __global__ write of size 4 bytes",
            "unaligned_kernel()",
            "memcheck_demo.cu:6",
            "Address 0x7f6510c00001 is misaligned",
        ),
    ),
    "memcheck of CUDA 11": (
        "Invalid __global__ write of size 4 bytes\n"
        "    at 0x160 in memcheck_demo.cu:6:unaligned_kernel(void)\n"
        "    by thread (0,0,0) in block (0,0,0)\n"
        "    Address 0x7f6510c00001 is misaligned\n",
        ToolError(
            "Invalid __global__ write of size 4 bytes",
            "unaligned_kernel(void)",
            "memcheck_demo.cu:6",
            "Address 0x7f6510c00001 is misaligned",
        ),
    ),
    "memcheck, below frames of the driver's own": (
        "Invalid __global__ write of size 1 bytes\n"
        "    at __raygen__x+0x19b0 in /home/a/app.cu:70\n"
        "    by thread (0,0,0) in block (0,0,0)\n"
        "    Address 0x7f91edf00403 is out of bounds\n"
        "    Device Frame:NVIDIA Internal [0x520]\n",
        ToolError(
            "Invalid __global__ write of size 1 bytes",
            "__raygen__x",
            "/home/a/app.cu:70",
            "Address 0x7f91edf00403 is out of bounds",
        ),
    ),
    "memcheck, a leak": (
        "Leaked 1,024 bytes at 0x7879c0800000\n"
        "    Saved host backtrace up to driver entry point at allocation time\n",
        ToolError("Leaked 1,024 bytes at 0x7879c0800000"),
    ),
    "memcheck, an error that is not known here": (
        "Something new happened\n    at scale()+0x50\n    Address 0x10\n",
        ToolError("Something new happened", "scale()", "", "Address 0x10"),
    ),
    "racecheck, an analysis": (RACE, OF_RACE),
    "racecheck, a warning": (
        "WARNING: Race reported between Write access at RAW()+0xf0 in raceGroupBasic.cu:40\n"
        "    and Read access at RAW()+0x280 in raceGroupBasic:46 [4 hazards]\n",
        ToolError(
            "WARNING: Race reported between Write access at RAW()+0xf0 in raceGroupBasic.cu:40 and "
            "Read access at RAW()+0x280 in raceGroupBasic:46 [4 hazards]",
            "RAW()",
            "raceGroupBasic.cu:40",
        ),
    ),
    "racecheck, a hazard": (
        "Warning: (Warp Level Programming) Potential RAW hazard detected at __shared__ 0x8c in "
        "block (0,0,0) :\n"
        "    Write Thread (35,0,0) at sumKernel(int *, int *)+0x90 in /home/a/warp.cu:44\n"
        "    Read Thread (32,0,0) at sumKernel(int *, int *)+0x120 in /home/a/warp.cu:56\n"
        "    Current Value : 35\n",
        ToolError(
            "Warning: (Warp Level Programming) Potential RAW hazard detected at __shared__ 0x8c in "
            "block (0,0,0)",
            "sumKernel(int *, int *)",
            "/home/a/warp.cu:44",
            "__shared__ 0x8c",
        ),
    ),
    "synccheck, a divergent barrier": (
        "Barrier error detected. Divergent thread(s) in warp\n"
        "    at ThreadDivergence(int *, int)+0xf0 in divergence.cu:79\n"
        "    by thread (37,0,0) in block (0,0,0)\n",
        ToolError(
            "Barrier error detected. Divergent thread(s) in warp",
            "ThreadDivergence(int *, int)",
            "divergence.cu:79",
        ),
    ),
    "synccheck, in a function of the toolkit": (
        "Barrier error detected. Invalid arguments\n"
        "    at __cuda_sm70_warpsync+0x30\n"
        "    by thread (0,0,0) in block (0,0,0)\n"
        "    Device Frame:__syncwarp(unsigned int)+0xf0 in /usr/include/sm_30_intrinsics.hpp:110\n"
        "    Device Frame:myKernel(int *)+0x3c0 in /home/a/illegal_syncwarp.cu:48\n",
        ToolError("Barrier error detected. Invalid arguments", "myKernel(int *)"),
    ),
    "synccheck, in one line": (
        "Barrier called by threads starting at (32,0,0) in block (1,0,0), (active mask: "
        "0xffffffff) at kernel()+0x2b0 in app.cu:36\n",
        ToolError(
            "Barrier called by threads starting at (32,0,0) in block (1,0,0), (active mask: "
            "0xffffffff) at kernel()+0x2b0 in app.cu:36",
            "kernel()",
            "app.cu:36",
        ),
    ),
    "initcheck": (
        UNREAD,
        ToolError(
            "Uninitialized __global__ memory read of size 4 bytes",
            "vectorAdd(int *)",
            "/home/a/memset_error.cu:41",
            "Address 0x7f3c7ec000fc",
        ),
    ),
}


@pytest.mark.parametrize("name", ONE)
def test_one_error(name: str) -> None:
    record, expected = ONE[name]
    found = read_log(log(HEAD, record, "ERROR SUMMARY: 1 error"))
    assert [one.error for one in found.printed] == [expected]
    assert (found.count, found.idle, found.faults) == (1, "", ())


# The log; how many errors it prints, what its summary counts, what was never reached, faults.
WHOLE = {
    "nothing found": (log(HEAD, "ERROR SUMMARY: 0 errors"), 0, 0, "", 0),
    "no hazard": (
        log(HEAD, "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"),
        0,
        0,
        "",
        0,
    ),
    "a hazard": (
        log(HEAD, RACE, "RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)"),
        1,
        1,
        "",
        0,
    ),
    "a summary with a leak's": (
        log(HEAD, "LEAK SUMMARY: 1024 bytes leaked in 1 allocations", "ERROR SUMMARY: 3 errors"),
        0,
        3,
        "",
        0,
    ),
    "thousands": (log(HEAD, "ERROR SUMMARY: 1,234 errors"), 0, 1234, "", 0),
    "several processes, each with its own": (
        log(HEAD, WRITE, "ERROR SUMMARY: 1 error", HEAD, UNREAD, "ERROR SUMMARY: 1 error"),
        2,
        2,
        "",
        0,
    ),
    "cut after an error": (log(HEAD, WRITE)[:-20], 1, None, "", 0),
    "cut within the first line of an error": (log(HEAD, WRITE)[:60], 1, None, "", 0),
    "cut before the first word": (b"", 0, None, "", 0),
    "without CUDA": (
        log(HEAD, "Error: Target application terminated before first instrumented API call"),
        0,
        None,
        "API call",
        0,
    ),
    "without a kernel, as a version without «Error:» says it": (
        log(HEAD, "Target application terminated before first instrumented kernel launch"),
        0,
        None,
        "kernel launch",
        0,
    ),
    "a target that ended by a signal": (log(CRASHED), 0, None, "API call", 0),
    "a target that returned an error": (
        log(HEAD, "Target application returned an error", "ERROR SUMMARY: 0 errors"),
        0,
        0,
        "",
        0,
    ),
    "a launch that was not followed": (
        log(
            HEAD,
            "Internal Sanitizer Error: The Sanitizer encountered an error while launching scale "
            "and didn't track the launch. Errors might go undetected.",
            "ERROR SUMMARY: 0 errors",
        ),
        0,
        0,
        "",
        1,
    ),
    "a device that the tool does not know": (
        log(HEAD, 'Error: Device not supported. Please refer to the "Supported Devices" section'),
        0,
        None,
        "",
        1,
    ),
    "remarks": (
        log(
            HEAD,
            "Warning: Detected overflow of tracked cuda::barrier structures. Results might be "
            "incorrect. Try using --num-cuda-barriers to fix the issue",
            "Tracking kernels launched by child processes requires the --target-processes all "
            "option.",
            "20 errors were not printed. Use --print-limit option to adjust the number",
            "ERROR SUMMARY: 0 errors",
        ),
        0,
        0,
        "",
        0,
    ),
    "lines of somebody else": (
        log(HEAD, "ERROR SUMMARY: 0 errors") + b"[rank 0] Invalid __global__ write\n\xff\n",
        0,
        0,
        "",
        0,
    ),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_log(name: str) -> None:
    data, errors, count, idle, faults = WHOLE[name]
    found = read_log(data)
    assert (len(found.printed), found.count, found.idle) == (errors, count, idle)
    assert len(found.faults) == faults


# What the tool says, and words of what is wrong with it; none: nothing is.
FAULTS = {
    "a whole log": (log(HEAD, WRITE, "ERROR SUMMARY: 1 error"), ()),
    "a program without CUDA": (log(CRASHED), ()),
    "no log": (None, ("no log",)),
    "an empty one": (b"", ("without a summary",)),
    "a log that was cut": (log(HEAD, WRITE), ("without a summary",)),
    "an error of the tool": (
        log(HEAD, "Error: Device not supported."),
        ("Device not", "without a"),
    ),
    "a launch that was not followed": (
        log(HEAD, "Internal Sanitizer Error: out of memory", "ERROR SUMMARY: 0 errors"),
        ("Internal Sanitizer Error: out of memory",),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_wrong_with_the_tool(name: str) -> None:
    data, words = FAULTS[name]
    fault = seen("memcheck", data, []).fault
    assert bool(fault) == bool(words)
    assert [word for word in words if word not in fault] == []


def test_a_log_may_end_at_any_byte() -> None:
    data = log(HEAD, WRITE, RACE, "ERROR SUMMARY: 2 errors")
    counts = [read_log(data[:end]).count for end in range(len(data))]
    assert set(counts[: data.index(b"ERROR SUMMARY")]) == {None}


def events(*starts: tuple[str, int]) -> list[dict[str, object]]:
    return [{"event": "start", "test": f"{PATH}::{test}", "log": at} for test, at in starts]


def test_an_error_is_of_the_test_that_ran_when_it_was_printed() -> None:
    head, first = len(log(HEAD)), len(log(WRITE))
    data = log(HEAD, WRITE, UNREAD, WRITE, "ERROR SUMMARY: 3 errors")
    told = events(("test_a", head + first), ("test_b", head + first + len(log(UNREAD))))
    ended = [{"event": "end", "test": f"{PATH}::test_a", "log": 10**6}]
    found = seen("memcheck", data, [told[0], *ended, told[1]])
    tests = [(error.what.split()[0], error.test.partition("::")[2]) for error in found.errors]
    assert tests == [("Invalid", ""), ("Uninitialized", "test_a"), ("Invalid", "test_b")]
    assert found.fault == ""


def test_one_error_in_many_threads_is_one_error() -> None:
    others = [WRITE.replace("(0,0,0)", f"({n},0,0)").replace("654320", f"{n:06}") for n in (7, 8)]
    found = seen(
        "memcheck", log(HEAD, WRITE, *others, "ERROR SUMMARY: 120 errors"), events(("a", 0))
    )
    first = replace(OF_WRITE, test=f"{PATH}::a", times=3)
    assert found.errors[0] == first
    assert [error.times for error in found.errors] == [3, 117]


def test_a_result_names_a_bounded_number_and_counts_the_others() -> None:
    many = [WRITE.replace("out_of_bounds_kernel", f"kernel_{n}") for n in range(MOST + 5)]
    found = seen("memcheck", log(HEAD, *many, f"ERROR SUMMARY: {len(many)} errors"), [])
    assert len(found.errors) == MOST + 1
    assert sum(error.times for error in found.errors) == len(many)


CLEAN = FileReport(PATH, (Case(f"{PATH}::a", "passed"), Case(f"{PATH}::b", "passed")), code=0)
WELL = Ending(1.0, status=0)
ERROR = replace(OF_WRITE, test=f"{PATH}::a")
OWN = replace(
    CLEAN, cases=(Case(f"{PATH}::a", "passed"), Case(f"{PATH}::b", "failed", message="b is 2"))
)
SKIPPED = replace(CLEAN, cases=(Case(f"{PATH}::a", "skipped", message="no GPU"),))
# The report, the ending, what the tool saw → the outcome, and words that its message holds.
JUDGED = {
    "clean": (CLEAN, WELL, Seen("memcheck"), Outcome.PASSED, ()),
    "an error in a test that passed": (
        CLEAN,
        WELL,
        Seen("memcheck", (ERROR,)),
        Outcome.FAILED,
        ("Invalid __global__ write", "out_of_bounds_kernel", f"{PATH}::a"),
    ),
    "an error before the tests": (
        CLEAN,
        WELL,
        Seen("memcheck", (OF_WRITE,)),
        Outcome.FAILED,
        ("Invalid __global__ write", "no test"),
    ),
    "an error, and a test that failed": (
        OWN,
        replace(WELL, status=1),
        Seen("memcheck", (ERROR,)),
        Outcome.FAILED,
        ("Invalid __global__ write", "2 of 2 tests failed"),
    ),
    "an error in tests that were skipped": (
        SKIPPED,
        WELL,
        Seen("memcheck", (OF_WRITE,)),
        Outcome.FAILED,
        ("Invalid __global__ write",),
    ),
    "an error, and a time that was over": (
        CLEAN,
        replace(WELL, status=None, signal="SIGTERM", stopped="timeout", limit=9.0),
        Seen("memcheck", (ERROR,), fault="its log ends without a summary"),
        Outcome.TIMEOUT,
        ("Invalid __global__ write", "9 s"),
    ),
    "no CUDA": (
        CLEAN,
        replace(WELL, status=255),
        Seen("memcheck", idle="API call"),
        Outcome.NO_TESTS,
        ("API call",),
    ),
    "no CUDA, and a test failed": (
        OWN,
        replace(WELL, status=1),
        Seen("memcheck", idle="API call"),
        Outcome.FAILED,
        ("b is 2",),
    ),
    "no CUDA, but all may be skipped": (
        SKIPPED,
        replace(WELL, status=255),
        Seen("memcheck", idle="API call"),
        Outcome.EXCUSED,
        (),
    ),
    "no summary": (
        CLEAN,
        WELL,
        Seen("racecheck", fault="no summary"),
        Outcome.CRASHED,
        ("racecheck of compute-sanitizer", "no summary"),
    ),
    "no summary, and an error": (
        CLEAN,
        WELL,
        Seen("racecheck", (ERROR,), fault="no summary"),
        Outcome.FAILED,
        ("Invalid __global__ write", "no summary"),
    ),
    "no summary, and a status": (
        CLEAN,
        replace(WELL, status=255),
        Seen("racecheck", fault="no summary"),
        Outcome.CRASHED,
        ("no summary",),
    ),
    "the tool was killed": (
        CLEAN,
        replace(WELL, status=None, signal="SIGSEGV"),
        Seen("racecheck", fault="no summary"),
        Outcome.CRASHED,
        ("racecheck of compute-sanitizer itself", "SIGSEGV"),
    ),
    "the tests' process was killed": (
        replace(CLEAN, code=None),
        replace(WELL, status=255),
        seen("memcheck", log(CRASHED), ()),
        Outcome.CRASHED,
        ("255", "memcheck says: process didn't terminate successfully"),
    ),
    "the tool failed, and a test": (
        OWN,
        replace(WELL, status=1),
        Seen("memcheck", fault="Internal Sanitizer Error"),
        Outcome.FAILED,
        ("b is 2", "Internal Sanitizer Error"),
    ),
}


def judged(report: FileReport, ending: Ending, found: Seen) -> tuple[Outcome, str]:
    added = sanitized.added(report, found)
    outcome, message = decide(added, sanitized.ended(ending, report, found), lambda _: True)
    return sanitized.overruled(outcome, message, report, ending, found)


@pytest.mark.parametrize("name", JUDGED)
def test_what_a_tool_makes_of_a_file(name: str) -> None:
    report, ending, found, outcome, words = JUDGED[name]
    got, message = judged(report, ending, found)
    assert got is outcome, message
    assert [word for word in words if word not in message] == []


def test_a_test_with_an_error_has_failed_and_keeps_its_own_words() -> None:
    found = Seen("memcheck", (ERROR, replace(OF_WRITE, test=f"{PATH}::b"), OF_WRITE))
    report = sanitized.added(OWN, found)
    assert report.failed_tests == (f"{PATH}::a", f"{PATH}::b")
    assert report.cases[1].message.startswith("b is 2\n")
    assert [case.test for case in report.errors] == [PATH]


def test_a_part_of_a_test_fails_with_it() -> None:
    part = Case(f"{PATH}::a (i=1)", "passed", part_of=f"{PATH}::a")
    report = sanitized.added(replace(CLEAN, cases=(part,)), Seen("memcheck", (ERROR,)))
    assert report.failed_tests == (f"{PATH}::a",)


CRASH = Seen("memcheck", fault="no summary")
OF_TEST = Classified(Failure(FailureClass.TEST, "x"))
OF_TOOL = Classified(Failure(FailureClass.RUNNER, "x"), again=False)
LOST = Classified(Failure(FailureClass.GPU_LOST, "x"), again=True)
ABORTED = replace(WELL, status=None, signal="SIGABRT")
CLASSED = {
    "the tool crashed": (OF_TEST, Outcome.CRASHED, CLEAN, WELL, CRASH, OF_TOOL),
    "the tool got a signal": (OF_TEST, Outcome.CRASHED, CLEAN, ABORTED, Seen("x"), OF_TOOL),
    "the tests' process crashed": (
        OF_TEST,
        Outcome.CRASHED,
        CLEAN,
        WELL,
        replace(CRASH, program="process didn't terminate successfully"),
        OF_TEST,
    ),
    "the tests' process ended early": (OF_TEST, Outcome.CRASHED, CLEAN, WELL, Seen("x"), OF_TEST),
    "a test failed too": (OF_TEST, Outcome.CRASHED, OWN, WELL, CRASH, OF_TEST),
    "a test failed": (OF_TEST, Outcome.FAILED, CLEAN, WELL, CRASH, OF_TEST),
    "the GPU was lost": (LOST, Outcome.CRASHED, CLEAN, WELL, CRASH, LOST),
}


@pytest.mark.parametrize("name", CLASSED)
def test_a_crash_of_the_tool_is_no_tests(name: str) -> None:
    known, outcome, report, ending, found, expected = CLASSED[name]
    assert sanitized.reclassed(known, outcome, report, ending, found) == expected


def test_a_tool_that_wrote_no_log_has_failed() -> None:
    found = seen("memcheck", None, [])
    assert judged(CLEAN, WELL, found)[0] is Outcome.CRASHED


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
