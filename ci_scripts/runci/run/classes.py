"""What a failure was: rules over what is known of it; pure.

A rule looks at types of exceptions, numbers of the system and figures of the driver, and at text
only where it is the whole line that a library is known to write, in the exception that ended the
test. What a test printed, compared or expected is never looked at.
"""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runci.core.result import LONGEST_EVIDENCE, Failure, FailureClass, Outcome
from runci.run.gpu import SYSTEM_MB, TOLERANCE_MB, GpuFacts
from runci.run.model import LIMITS, Activity, Case, Chain, Ending, FileReport, Raised

# Of cudaError: eccUncorrectable, nvlinkUncorrectable, systemNotReady; and what CUDA calls them.
_MACHINES_CUDA = {
    214: "uncorrectable ECC error encountered",
    220: "uncorrectable NVLink error detected during the execution",
    802: "system not yet initialized",
}
_NO_MEMORY_CUDA = 2
# A test that says what it expected has failed, whatever it was raised from.
_SAID_BY_TESTS = ("AssertionError", "Failed")
_CUDA = re.compile(r"(?:CUDA error|CUDA driver error|Triton Error \[CUDA\]): (?P<said>[^\n]+)")
_TORCH_MEMORY = re.compile(
    r"CUDA out of memory\. Tried to allocate (?P<asked>\S+ \w+)\. GPU (?P<gpu>\d+) has a total "
    r"capaci?ty of \S+ \w+ of which (?P<free>\S+ \w+) is free\. (?P<rest>.*)",
    re.DOTALL,
)
_OWN = re.compile(r"this process has (?P<size>\S+ \w+) memory in use\.")
_OTHER = re.compile(r"Process (?P<pid>\d+) has (?P<size>\S+ \w+) memory in use\.")
_UNITS = {"bytes": 2**-20, "KiB": 2**-10, "MiB": 1.0, "GiB": 2.0**10, "TiB": 2.0**20}
_CPU_MEMORY = re.compile(
    r"\[enforce fail at alloc_cpu\.cpp:\d+\] .*DefaultCPUAllocator: can't allocate memory: .*",
    re.DOTALL,
)
_TORCH_DISK = re.compile(r"unable to \S+ [^<>]*<[^<>]*>.*: No space left on device \(28\)")
_NO_SPACE = {errno.ENOSPC: "No space left on device", errno.EDQUOT: "Disk quota exceeded"}
_UNREACHED = frozenset({errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH})
# What a resolver says of a name; its other errors are of how it was asked.
_UNNAMED = tuple(
    getattr(socket, f"EAI_{name}", None) for name in ("AGAIN", "FAIL", "NODATA", "NONAME")
)
_CONNECTING = (
    "ConnectionError",
    "TimeoutError",
    "ssl.SSLError",
    "http.client.RemoteDisconnected",
    "http.client.IncompleteRead",
    "requests.exceptions.ConnectionError",
    "requests.exceptions.Timeout",
    "requests.exceptions.ChunkedEncodingError",
    "urllib3.exceptions.HTTPError",
    "httpx.TransportError",
    "aiohttp.client_exceptions.ClientConnectionError",
)
_ANSWERED = ("urllib.error.HTTPError", "requests.exceptions.HTTPError", "httpx.HTTPStatusError")
_BUSY_HTTP = frozenset({429, 500, 502, 503, 504})
_IDLE = 0.02  # of a processor, all processes together: what threads that only wait and look take


@dataclass(frozen=True, slots=True)
class Classified:
    """A failure's class. `again`: the file may be run again without anybody having asked."""

    failure: Failure
    again: bool = False

    @property
    def elsewhere(self) -> bool:
        """Whether another GPU serves it better."""
        return self.failure.kind in (FailureClass.GPU_LOST, FailureClass.MEMORY_OTHERS)


def classify(
    outcome: Outcome,
    message: str,
    report: FileReport,
    ending: Ending,
    gpus: Sequence[GpuFacts] = (),
) -> Classified | None:
    """The class of what did not end well; None for what did.

    `message` is what the file's result says, and the evidence where nothing tells more.
    """
    if outcome.green:
        return None
    found = _by_end(message, report, ending, gpus)
    if found is not None and not found.again:
        return found
    # A failure of its own is never repeated unasked, whatever else happened in the file.
    of_tests = sorted(_by_tests(report, gpus), key=_weight)
    own = [one for one in of_tests if not one.again]
    # A process whose GPU is lost ends as it can.
    lost = any(one.failure.kind is FailureClass.GPU_LOST for one in of_tests)
    beside = "" if found or own or lost else _beside(report, ending)
    if of_tests and beside:
        return _classified(FailureClass.TEST, f"{beside}; {message}")
    return next(iter([*own, *filter(None, [found]), *of_tests]), None) or _classified(
        FailureClass.TEST, message
    )


def _weight(one: Classified) -> int:
    """A failed test before what is the file's own otherwise, and that before the machine's."""
    return 0 if one.failure.kind is FailureClass.TEST else 2 if one.again else 1


def worked(activity: Activity) -> bool:
    """Whether a job's processes did anything in that time."""
    return activity.said or activity.cpu > _IDLE * activity.seconds


def _by_end(
    message: str, report: FileReport, ending: Ending, gpus: Sequence[GpuFacts]
) -> Classified | None:
    """By how the process ended, where its tests alone do not say why."""
    gone = next((gpu.lost for gpu in gpus if gpu.lost), "")
    if gone:
        return _classified(FailureClass.GPU_LOST, f"{gone}; {message}", again=True)
    if ending.stopped in LIMITS:
        return _at_limit(message, ending.last)
    if ending.stopped == "unstarted":
        return _unstarted(message, ending.fault)
    if report.fault:
        said = f"runci's own code failed: {report.fault}"
        return _classified(FailureClass.RUNNER, said, again=not report.begun)
    if ending.stopped == "lost" and "SIGKILL" not in report.signalled:
        return _classified(FailureClass.RUNNER, message, again=not report.begun)
    return _by_signal(message, report, ending)


def _unstarted(message: str, fault: Chain) -> Classified:
    """Before anything of the file ran: by what the system said."""
    own = [one for raised in fault for rule in _RULES if (one := rule(raised, ())) is not None]
    kind = own[0].failure.kind if own else FailureClass.RUNNER
    return _classified(kind, message, again=kind is FailureClass.RUNNER)


def _at_limit(message: str, last: Activity | None) -> Classified:
    if last is None:
        return _classified(FailureClass.TIMEOUT, message)
    did = f"all its processes used {last.cpu:.2f} s of CPU in the last {last.seconds:.1f} s"
    said = f"{did}{' and said something' if last.said else ''}; {message}"
    return _classified(FailureClass.TIMEOUT if worked(last) else FailureClass.HANG, said)


def _by_signal(message: str, report: FileReport, ending: Ending) -> Classified | None:
    """SIGKILL and SIGTERM come from elsewhere; other signals are of what a process itself did."""
    if ending.signal not in ("SIGKILL", "SIGTERM"):
        return None
    if ending.signal in report.signalled:
        return _classified(FailureClass.TEST, f"it sent {ending.signal} to itself; {message}")
    if ending.signal == "SIGKILL" and ending.out_of_memory:
        return _classified(FailureClass.MEMORY_OURS, message)
    # Never repeated unasked: a program that the file started may have sent it.
    unknown = ending.signal == "SIGKILL" and ending.out_of_memory is None
    kernel = "; whether the kernel did for memory cannot be asked here" if unknown else ""
    said = f"{message}; sent neither by runci nor by the file's own process{kernel}"
    return _classified(FailureClass.RUNNER, said)


def _beside(report: FileReport, ending: Ending) -> str:
    """What went wrong beside the exceptions, which a retry on their account would hide."""
    if ending.signal is not None:
        return f"ended by {ending.signal}"
    if report.code is None:
        return "" if report.raised else "ended before its tests had ended"
    if report.cut_short is not None:
        return f"{report.cut_short} never ended"
    ends = (0, 1, 2, 5) if report.errors else (0, 1, 5)
    odd = [status for status in (report.code, ending.status or 0) if status not in ends]
    return f"ended with status {odd[0]}" if odd else ""


def _by_tests(report: FileReport, gpus: Sequence[GpuFacts]) -> list[Classified]:
    """The class of each exception that ended a phase of a test, a collection, or a script."""
    found = []
    for case in report.failures:
        found += [_of_chain(case, chain, gpus) for chain in case.raised or ((),)]
    if report.raised:
        found.append(_of_chain(Case(report.path, "failed"), report.raised, gpus))
    return found


def _of_chain(case: Case, chain: Chain, gpus: Sequence[GpuFacts]) -> Classified:
    for raised in chain:
        if any(kind in _SAID_BY_TESTS for kind in raised.types):
            break
        for rule in _RULES:
            found = rule(raised, gpus)
            if found is not None:
                said = f"{_shown(raised)}, in {case.test}"
                more = f"{found.failure.evidence}; " if found.failure.evidence else ""
                return _classified(found.failure.kind, more + said, again=found.again)
    said = f"{_shown(chain[0])}, in {case.test}" if chain else f"{case.test}: {case.message}"
    return _classified(FailureClass.TEST, said)


def _shown(raised: Raised) -> str:
    first = (raised.message.strip().splitlines() or [""])[0]
    where = f" at {raised.place}" if raised.place else ""
    return f"{raised.types[0]}{': ' if first else ''}{first}{where}"


def _classified(kind: FailureClass, evidence: str, *, again: bool = False) -> Classified:
    line = " ".join(evidence.split())
    cut = line if len(line) <= LONGEST_EVIDENCE else f"{line[: LONGEST_EVIDENCE - 1]}…"
    return Classified(Failure(kind, cut), again)


def _of(raised: Raised, *types: str) -> bool:
    return any(kind in types for kind in raised.types)


def _cuda(raised: Raised) -> str | None:
    """What CUDA said, where the whole first line of this exception is its word."""
    if not _of(raised, "torch.AcceleratorError") and raised.types[:1] != ("RuntimeError",):
        return None
    match = _CUDA.fullmatch((raised.message.splitlines() or [""])[0])
    return match["said"] if match else None


def _gpu_lost(raised: Raised, gpus: Sequence[GpuFacts]) -> Classified | None:
    """An error of CUDA that is the GPU's by its number, or while the driver says it of the GPU."""
    said = _cuda(raised)
    if said is None:
        return None
    if raised.code in _MACHINES_CUDA or said in _MACHINES_CUDA.values():
        return _classified(FailureClass.GPU_LOST, "", again=True)
    gone = next((gpu.lost for gpu in gpus if gpu.lost), "")
    return _classified(FailureClass.GPU_LOST, gone, again=True) if gone else None


def _gpu_memory(raised: Raised, gpus: Sequence[GpuFacts]) -> Classified | None:
    if _of(raised, "torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError"):
        return _whose(raised.message, gpus)
    said = _cuda(raised)
    if said is not None and (raised.code == _NO_MEMORY_CUDA or said == "out of memory"):
        return _classified(FailureClass.MEMORY_OURS, "nobody said how much was asked for")
    return None


def _whose(message: str, gpus: Sequence[GpuFacts]) -> Classified:
    """Another process's where what was asked for had fitted without the others; else ours."""
    match = _TORCH_MEMORY.fullmatch(message)
    if match is None:
        return _classified(FailureClass.MEMORY_OURS, "no figures")
    index = int(match["gpu"])
    asked, free = _mib(match["asked"]), _mib(match["free"])
    if asked is None or free is None or index >= len(gpus):
        return _classified(FailureClass.MEMORY_OURS, "nobody asked the driver for others")
    gpu = gpus[index]
    others = _held_by_others(match["rest"], gpu)
    told = f"asked for {asked:,.0f} MiB, {free:,.0f} MiB free, {others:,.0f} MiB of others"
    if (own := _OWN.search(match["rest"])) is not None:
        told += f", {own['size']} of its own"
    if others > TOLERANCE_MB and free < asked <= free + others:
        return _classified(FailureClass.MEMORY_OTHERS, told, again=True)
    return _classified(FailureClass.MEMORY_OURS, told)


def _held_by_others(rest: str, gpu: GpuFacts) -> float:
    """MiB that processes of others certainly held when memory ran out: those that the driver showed
    before the first process of the file or after its last, and what was in use before."""
    known = {**gpu.before.processes, **gpu.after.processes}
    named = [(int(m["pid"]), _mib(m["size"]) or 0.0) for m in _OTHER.finditer(rest)]
    return max(
        sum(size for pid, size in named if pid in known),
        sum(gpu.before.processes.values()),
        sum(gpu.after.processes.values()),
        gpu.before.used_mb - SYSTEM_MB,
        0.0,
    )


def _mib(text: str) -> float | None:
    number, _, unit = text.partition(" ")
    try:
        return float(number) * _UNITS[unit]
    except (ValueError, KeyError):
        return None


def _host_memory(raised: Raised, _: Sequence[GpuFacts]) -> Classified | None:
    torch = raised.types[:1] == ("RuntimeError",) and _CPU_MEMORY.fullmatch(raised.message)
    system = raised.errno == errno.ENOMEM and _of(raised, "OSError")
    if _of(raised, "MemoryError") or torch or system:
        return _classified(FailureClass.MEMORY_OURS, "")
    return None


def _disk(raised: Raised, _: Sequence[GpuFacts]) -> Classified | None:
    """ENOSPC, where the system says it of space: a watch of files too many has the number too."""
    said = _NO_SPACE.get(raised.errno or 0)
    system = said is not None and _of(raised, "OSError") and f"] {said}" in raised.message
    torch = raised.types[:1] == ("RuntimeError",) and _TORCH_DISK.fullmatch(raised.message)
    return _classified(FailureClass.DISK_FULL, "") if system or torch else None


def _network(raised: Raised, _: Sequence[GpuFacts]) -> Classified | None:
    """Another machine that is not reached, has no name, or cannot answer now.

    Of this machine a test has started the server itself, or should have.
    """
    if not raised.peer or raised.here:
        return None
    unnamed = _of(raised, "socket.gaierror") and raised.errno in _UNNAMED
    connecting = _of(raised, *_CONNECTING) or (
        raised.errno in _UNREACHED and _of(raised, "OSError")
    )
    answered = _of(raised, *_ANSWERED) and raised.code in _BUSY_HTTP
    if connecting or answered or unnamed:
        return _classified(FailureClass.NETWORK, f"to {raised.peer}", again=True)
    return None


_RULES: tuple[Callable[[Raised, Sequence[GpuFacts]], Classified | None], ...] = (
    _gpu_lost,
    _gpu_memory,
    _host_memory,
    _disk,
    _network,
)
