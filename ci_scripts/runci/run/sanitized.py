"""What a tool of compute-sanitizer wrote into its log, and what that makes of a file; pure.

Only the log counts, never what a test printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from runci.core.result import FailureClass, Outcome, ToolError
from runci.run.model import Case, Ending, FileReport
from runci.text.wording import plural

if TYPE_CHECKING:
    from runci.run.classes import Classified

MOST = 50  # errors that a result names; the others are counted
_LONGEST = 300
_TEST = FailureClass.TEST
_PREFIX = b"========="
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (?P<count>[\d,]+) (?:error|hazard)s?\b")
_IDLE = re.compile(
    r"(?:Error: )?Target application terminated before first instrumented (?P<what>.+)"
)
_HAZARD = re.compile(r"(?:error|warning): .*(?:Race reported between|hazard detected)", re.I)
_FAULT = re.compile(r"(?:Error|Internal Sanitizer(?: Error)?|Fatal error): .*", re.I)
# Of the program, whose end the tests' own result tells.
_OF_PROGRAM = re.compile(
    r"(?:Error: )?(?:process didn't terminate successfully|Target application returned an error)"
)
_REMARK = re.compile(
    r"COMPUTE-SANITIZER|LEAK SUMMARY: |Warning: |[\d,]+ (?:error|hazard)s? (?:was|were) not printed"
    r"|Tracking kernels launched by child processes ",
    re.I,
)
_DETAIL = re.compile(r"at |by thread |Address |Saved host backtrace |Device Frame|Host Frame")
# What tells of an error without a line below it.
_ERROR = re.compile(
    r"(?:Potential )?(?:invalid|uninitialized|unused|misaligned) |Leaked |Barrier |Syncwarp "
    r"|Deadlock detected |Malloc/Free error |Program hit ",
    re.I,
)
_PLACE = re.compile(r"\bat (?P<name>(?:(?! at ).)+?)(?:\+|:)0x[0-9a-f]+(?: in (?P<place>\S+))?")
_OLD_PLACE = re.compile(r"at 0x[0-9a-f]+ in (?:(?P<place>\S+?:\d+):)?(?P<name>\S.*)")
_FRAME = re.compile(r"Device Frame: ?(?P<name>.+?)(?:\+| \[)0x[0-9a-f]+\]?(?: in (?P<place>\S+))?$")
_SHARED = re.compile(r"(?:__shared__|barrier address:) 0x[0-9a-f]+")
_VARIES = re.compile(r"0x[0-9a-f]+|\(\d+,\d+,\d+\)|\d+ hazards?")


@dataclass(frozen=True, slots=True)
class Printed:
    """One error, and the byte of the log that it begins at."""

    error: ToolError
    offset: int


@dataclass(frozen=True, slots=True)
class Log:
    """What a log says.

    `count` is of the errors by its summaries, None without one. `idle` is what the program never
    came to, such as «API call». `program` is how it ended, where the tool says that it ended badly.
    `faults` are the tool's own errors.
    """

    printed: tuple[Printed, ...] = ()
    count: int | None = None
    idle: str = ""
    program: str = ""
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """What a tool found in a file's process: errors by test, and what is wrong with the tool.

    `idle` and `program` are of its log.
    """

    tool: str
    errors: tuple[ToolError, ...] = ()
    idle: str = ""
    program: str = ""
    fault: str = ""


def read_log(data: bytes) -> Log:
    """Read a log, which may end anywhere; lines without the tool's prefix say nothing."""
    printed: list[Printed] = []
    faults: list[str] = []
    counts: list[int] = []
    idle = program = ""
    for offset, top, below in _records(data):
        if (match := _SUMMARY.match(top)) is not None:
            counts.append(int(match["count"].replace(",", "")))
        elif (match := _IDLE.match(top)) is not None:
            idle = match["what"]
        elif _HAZARD.match(top) is not None:
            printed.append(Printed(_error(top, below), offset))
        elif _OF_PROGRAM.match(top) is not None:
            program = top.removeprefix("Error: ")
        elif _REMARK.match(top) is not None:
            continue
        elif _FAULT.match(top) is not None:
            faults.append(_cut(top))
        elif _ERROR.match(top) is not None or any(_DETAIL.match(line) for line in below):
            printed.append(Printed(_error(top, below), offset))
    count = sum(counts) if counts else None
    return Log(tuple(printed), count, idle, program, tuple(faults))


def _records(data: bytes) -> Iterable[tuple[int, str, list[str]]]:
    """Each line that begins something, with its byte, and the indented ones below it."""
    at = 0
    current: tuple[int, str, list[str]] | None = None
    for raw in data.splitlines(keepends=True):
        offset, at = at, at + len(raw)
        line = raw.lstrip()
        if not line.startswith(_PREFIX):
            continue
        text = line[len(_PREFIX) :].decode("utf-8", "replace").rstrip()
        if text.startswith("    ") and current is not None:
            current[2].append(text.strip())
            continue
        if current is not None:
            yield current
        current = (offset, text.strip(), []) if text.strip() else None
    if current is not None:
        yield current


def _error(top: str, below: Sequence[str]) -> ToolError:
    own = [line for line in below if not line.startswith(("Saved host backtrace", "Host Frame"))]
    accesses = [line for line in own if line.startswith("and ") and " access at " in line]
    what = " ".join([top.rstrip(" :"), *accesses])
    name, place = _where(top, own)
    at = next((i for i, line in enumerate(own) if line.startswith("Address ")), None)
    if at is not None:
        address = own[at]
        if own[at + 1 : at + 2] and own[at + 1].startswith("and is "):
            address += f" {own[at + 1]}"
    else:
        shared = _SHARED.search(top)
        address = shared[0] if shared else ""
    return ToolError(_cut(what), _cut(name), _cut(place), _cut(address))


def _where(top: str, below: Sequence[str]) -> tuple[str, str]:
    """The kernel, which is the outermost function on the device, and the innermost place."""
    places = [line for line in below if line.startswith("at ") or " Thread (" in line]
    matches = [_PLACE.search(top), *(_PLACE.search(one) or _OLD_PLACE.match(one) for one in places)]
    found = next((match for match in matches if match is not None), None)
    frames = [match for line in below if (match := _FRAME.match(line)) is not None]
    named = [match["name"] for match in frames if not match["name"].startswith("NVIDIA Internal")]
    name = named[-1] if named else found["name"] if found else ""
    return name, (found["place"] or "") if found else ""


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def seen(tool: str, data: bytes | None, events: Iterable[Mapping[str, Any]]) -> Seen:
    """What a tool found, by its log (None: it wrote none) and what the process told meanwhile."""
    if data is None:
        return Seen(tool, fault="wrote no log: it could not start, or was ended at once")
    log = read_log(data)
    fault = log.faults[0] if log.faults else ""
    if log.count is None and not log.idle:
        cut = "its log ends without a summary: it crashed, or was ended"
        fault = f"{fault}; {cut}" if fault else cut
    return Seen(tool, _by_test(log, tuple(_spans(events))), log.idle, log.program, fault)


def _spans(events: Iterable[Mapping[str, Any]]) -> Iterable[tuple[int, str]]:
    """From which byte of the log on which test ran, or had ended last."""
    for event in events:
        if event.get("event") == "start" and "log" in event:
            yield int(event["log"]), str(event["test"])


def _by_test(log: Log, spans: Sequence[tuple[int, str]]) -> tuple[ToolError, ...]:
    """Each error once with its test, and one for those that were counted and not printed."""
    found: dict[tuple[str, ...], ToolError] = {}
    for one in log.printed:
        begun = [test for start, test in spans if start <= one.offset]
        error = replace(one.error, test=begun[-1] if begun else "")
        plain = (_VARIES.sub("", error.what), error.kernel, error.place, error.test)
        known = found.get(plain)
        found[plain] = replace(known, times=known.times + 1) if known else error
    errors = list(found.values())
    more = max((log.count or 0) - len(log.printed), 0) + sum(e.times for e in errors[MOST:])
    rest = [ToolError("counted by the tool, and not printed or named here", times=more)]
    return (*errors[:MOST], *(rest if more else []))


def added(report: FileReport, found: Seen) -> FileReport:
    """The report in which tests that the tool found an error in have failed."""
    of_test: dict[str, list[str]] = {}
    for error in found.errors:
        of_test.setdefault(error.test, []).append(f"{found.tool}: {error.shown}")
    cases = [_with(case, of_test.pop(case.whole, [])) for case in report.cases]
    errors = [
        Case(test or report.path, "failed", message=line)
        for test, lines in of_test.items()
        for line in lines
    ]
    return replace(report, cases=tuple(cases), errors=(*report.errors, *errors))


def _with(case: Case, lines: Sequence[str]) -> Case:
    if not lines:
        return case
    own = [case.message] if case.outcome == "failed" and case.message else []
    return replace(case, outcome="failed", message="\n".join([*own, *lines]))


def ended(ending: Ending, report: FileReport, found: Seen) -> Ending:
    """The ending without what the tool says by its own status of a program that used no CUDA."""
    idle = found.idle and ending.signal is None and report.code is not None
    return replace(ending, status=report.code) if idle else ending


def overruled(
    outcome: Outcome, message: str, plain: FileReport, ending: Ending, found: Seen
) -> tuple[Outcome, str]:
    """The outcome under the tool, given what it was decided to be; `plain` is without its errors.

    Errors → a crash of the tool → nothing executed under it → as decided.
    """
    if found.errors and outcome in (Outcome.FAILED, Outcome.PASSED, Outcome.FLAKY):
        own = [message] if plain.failures else []
        return Outcome.FAILED, "; ".join([*own, _told(found)])
    if ending.signal is not None and ending.stopped is None:
        return Outcome.CRASHED, f"{found.tool} of compute-sanitizer itself was {message}"
    parts = [message] if message else []
    if found.errors:
        parts.append(_told(found))
    if found.program and outcome is Outcome.CRASHED:
        parts.append(f"{found.tool} says: {found.program}")
    if found.fault and ending.stopped is None:
        parts.append(f"{found.tool} of compute-sanitizer failed: {found.fault}")
        status_alone = outcome is Outcome.FAILED and not plain.failures
        if outcome.green or status_alone:
            return Outcome.CRASHED, parts[-1]
    elif found.idle and outcome in (Outcome.PASSED, Outcome.FLAKY):
        return Outcome.NO_TESTS, (
            f"nothing was executed under {found.tool}: its processes ended before the first "
            f"instrumented {found.idle}: leave out of a lane what uses no CUDA"
        )
    return outcome, "; ".join(parts)


def _told(found: Seen) -> str:
    first = found.errors[0]
    where = f", in {first.test}" if first.test else ", in no test that is known"
    count = plural(sum(error.times for error in found.errors), "errors")
    fault = f"; and it failed itself: {found.fault}" if found.fault else ""
    return f"{found.tool} found {count}: {first.shown}{where}{fault}"


def reclassed(
    known: Classified, outcome: Outcome, report: FileReport, ending: Ending, found: Seen
) -> Classified:
    """The class of a failure under a tool: of a crash of the tool itself the runner's.

    Not where a test failed, by itself or by an error of the tool (`report` is with those), nor
    where the tool lived to say that the program crashed.
    """
    of_tool = (found.fault or ending.signal is not None) and not found.program
    crashed = outcome is Outcome.CRASHED and of_tool and not report.failures
    if not crashed or known.failure.kind is not _TEST:
        return known
    return replace(known, failure=replace(known.failure, kind=FailureClass.RUNNER))
