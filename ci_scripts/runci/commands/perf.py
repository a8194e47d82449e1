"""`runci perf STEP`: the options of each step; only the step that runs is imported."""

from __future__ import annotations

import argparse
import contextlib
import signal
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING

from runci.core.errors import Exit, RunciError

if TYPE_CHECKING:
    from argparse import ArgumentParser


_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


@contextlib.contextmanager
def stopping() -> Iterator[None]:
    """Turn the first of these signals into SystemExit, 128 and its number; later ones do nothing.

    So children end and the worktree goes, however impatient whoever stops it is. Outside the main
    thread, where no handler can be set, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]

    def stop(number: int, _frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


STEPS: dict[str, str] = {
    "measure": "runci.commands.perf_measure",
    "record": "runci.commands.perf_history",
    "history": "runci.commands.perf_history",
    "check": "runci.commands.perf_check",
    "accept": "runci.commands.perf_check",
    "report": "runci.commands.perf_report",
    "notify": "runci.commands.perf_notify",
}

_OWN = 'pip install "runci[perf]" in an environment of its own (it pins numpy)'
_RUN = 'pip install "runci[run]"'
HOW: dict[str, str] = {
    "measure": _RUN,
    "record": _RUN,
    "history": _RUN,
    "check": _OWN,
    "accept": _RUN,
    "report": _OWN,
    "notify": 'pip install "runci[github,run]"',
}


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the steps, in the order of a night, and their options."""
    command.set_defaults(parser=command)
    steps = command.add_subparsers(title="steps", metavar="STEP", dest="step")
    _measure(steps.add_parser("measure", help="run a benchmark against its pinned baseline"))
    _record(steps.add_parser("record", help="append a night to the history"))
    _history(steps.add_parser("history", help="list, show, start or export the history"))
    _check(steps.add_parser("check", help="say of each metric whether it got worse"))
    _accept(steps.add_parser("accept", help="take a changed level as the new normal"))
    _report(steps.add_parser("report", help="write the page, the summary and the badge"))
    _notify(steps.add_parser("notify", help="open, update and close the issues"))


def _repository(step: ArgumentParser) -> None:
    step.add_argument("--root", metavar="DIR", help="the repository (default: found upwards)")
    step.add_argument("--config", metavar="FILE", help="default: test/perf.yml below the root")


def _source(step: ArgumentParser) -> None:
    step.add_argument("--remote", metavar="NAME", default="origin", help="default: origin")
    step.add_argument(
        "--history", metavar="DIR", help="a checkout of the branch, used instead of the remote's"
    )


def _measure(step: ArgumentParser) -> None:
    _repository(step)
    step.add_argument("benchmark", metavar="BENCHMARK", help="its name in perf.yml")
    step.add_argument("--output", metavar="FILE", required=True, help="the record, as JSON")
    step.add_argument("--repetitions", type=int, default=5, metavar="N", help="pairs (5)")
    step.add_argument("--seed", type=int, metavar="N", help="of the order (default: random)")
    step.add_argument("--baseline", metavar="COMMIT", help="instead of the pinned one")
    step.add_argument("--night", metavar="DATE", help="default: today, UTC")
    step.add_argument("--device", type=int, default=0, metavar="INDEX", help="GPU (0)")
    step.add_argument(
        "--history", metavar="DIR", help="measure again at once where a metric left its level"
    )


def _record(step: ArgumentParser) -> None:
    _repository(step)
    _source(step)
    step.add_argument(
        "records", nargs="*", metavar="RECORD", help="of `runci perf measure`, or a folder of them"
    )
    step.add_argument("--plan", metavar="FILE", help="the plan of the nightly suites")
    step.add_argument("--results", metavar="DIR", help="their results")
    step.add_argument("--night", metavar="DATE", help="where no record came (default: today)")


def _history(step: ArgumentParser) -> None:
    _repository(step)
    _source(step)
    what = step.add_mutually_exclusive_group()
    what.add_argument("--init", action="store_true", help="start the branch; it must not exist")
    what.add_argument("--csv", metavar="FILE", help="export every point")
    what.add_argument("--checkout", metavar="DIR", help="write the branch's files there")
    step.add_argument("metric", nargs="?", metavar="METRIC", help="show this one, night by night")


def _check(step: ArgumentParser) -> None:
    _repository(step)
    _source(step)
    step.add_argument("--output", metavar="FILE", help="the verdicts, as JSON")
    step.add_argument("--night", metavar="DATE", help="decide as of this night (default: today)")
    step.add_argument("--push", action="store_true", help="write confirmed changes to the history")


def _accept(step: ArgumentParser) -> None:
    _repository(step)
    _source(step)
    step.add_argument("metric", metavar="METRIC")
    step.add_argument("--reason", required=True, metavar="TEXT", help="why this is right")
    step.add_argument("--by", metavar="NAME", help="default: git's user.name")
    step.add_argument("--night", metavar="DATE", help="the first at this level (default: since)")
    step.add_argument("--machine", metavar="KEY", help="only there, such as 'NVIDIA H200/580/…'")


def _report(step: ArgumentParser) -> None:
    _repository(step)
    _source(step)
    step.add_argument("verdicts", metavar="VERDICTS.json")
    step.add_argument(
        "--record", action="append", default=[], metavar="FILE", help="of that night, or a folder"
    )
    step.add_argument("--html", metavar="FILE")
    step.add_argument("--markdown", metavar="FILE")
    step.add_argument("--badge", metavar="FILE.svg")
    step.add_argument("--page", metavar="URL", help="where the page will be, for the summary")


def _notify(step: ArgumentParser) -> None:
    _repository(step)
    step.add_argument("verdicts", metavar="VERDICTS.json")
    step.add_argument("--page", metavar="URL", help="the report, to link to")
    step.add_argument(
        "--dry-run",
        action=argparse.BooleanOptionalAction,
        help="say what would be done (default outside CI)",
    )


def run(options: Namespace) -> int:
    """Run one step."""
    if options.step is None:
        options.parser.print_help()
        return Exit.USAGE
    try:
        function: Callable[[Namespace], int] = getattr(
            import_module(STEPS[options.step]), options.step
        )
        with stopping():  # so that temporary repositories and worktrees go
            return function(options)  # a step imports some of what it needs only when it needs it
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("runci"):
            raise
        raise RunciError(
            f"runci perf {options.step} needs the package {error.name}: {HOW[options.step]}"
        ) from error
