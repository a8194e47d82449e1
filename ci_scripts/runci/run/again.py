"""What `--last-failed` runs of a file, by the results that are there; pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from runci.core.errors import RunciError
from runci.core.result import FileResult, not_made_good
from runci.core.targets import read_target, selects
from runci.run.model import RunFile
from runci.run.outcome import green

MOST = 60_000  # characters of names: they are handed on as an argument of a process


@dataclass(frozen=True, slots=True)
class Again:
    """What of a file runs, None for nothing. `why` it is all of it although tests failed."""

    file: RunFile | None
    why: str = ""


def again(
    file: RunFile,
    whole: Sequence[FileResult],
    others: Sequence[FileResult],
    flaky_fails: bool,
    may_have: Callable[[str], bool],
) -> Again:
    """The tests that failed and have not passed since; all of the file where they have no names.

    `whole` are the results of what was asked for (the file, or the part of it that `file.only`
    names; where there are none without -k, -m and -x, those with the same), by attempt, `others`
    those of parts of the file; `may_have` says of a test whether the file can still have it. Where
    all that failed has passed since, alone, all of it runs: what counts for a file is a result of
    the whole.
    """
    if not whole:
        return Again(file)
    parts = sorted((r for r in others if _is_later_part(r, file, whole[-1])), key=_started)
    last = parts[-1] if parts else whole[-1]
    failed = not_made_good([*([] if whole[-1].outcome.green else whole), *parts])
    if parts and not last.failed_tests and not last.outcome.green:
        return Again(file, f"its tests could not be run alone ({last.message}): all of it runs")
    ended_well = all(green(r.outcome, flaky_fails) for r in (whole[-1], last))
    if not failed:
        why = "the tests that failed have passed since, alone: all of it runs" if parts else ""
        return Again(None) if ended_well else Again(file, why)
    if file.benchmark:
        return Again(file)
    names = tuple(sorted(name.removeprefix(f"{file.path}::") for name in failed))
    if not all(_can_be_asked_for(file.path, name) for name in failed):
        return Again(file, "not every test that failed has a name to ask for: all of it runs")
    gone = [name for name in names if not may_have(name)]
    if gone:
        return Again(file, f"it has no test {gone[0]} any more: all of it runs")
    if sum(map(len, names)) > MOST:
        return Again(file, f"{len(names)} tests failed: all of it runs")
    return Again(replace(file, only=names))


def _started(result: FileResult) -> tuple[float, int]:
    return result.started, result.attempt


def _is_later_part(result: FileResult, file: RunFile, whole: FileResult) -> bool:
    """Whether a result is of some tests of a file, run as `file` runs them, and not before."""
    of, narrows = (result.only, result.selected), result.selected != result.selected.widened
    if of == (whole.only, whole.selected) or not (narrows or result.only not in ((), file.only)):
        return False
    # With other arguments a test is another one.
    alike = result.selected.arguments == file.selected.arguments
    within = all(any(selects(one, test) for one in file.only) for test in result.only)
    return (
        alike
        and result.started >= whole.started
        and (not file.only or (within and bool(result.only)))
    )


def _can_be_asked_for(path: str, name: str) -> bool:
    """Not «12 more», not a name that was cut, and nothing that no command line takes."""
    if not name.startswith(f"{path}::"):
        return False
    try:
        return read_target(name).path == path
    except RunciError:
        return False
