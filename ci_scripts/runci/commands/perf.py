"""`runci perf STEP`: each step is declared in a module of its own, as a command is."""

from __future__ import annotations

import contextlib
import signal
import threading
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from types import FrameType
from typing import Any

from runci.core.errors import Exit, RunciError, with_extra
from runci.text.arguments import Parser

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
_OWN = f"{with_extra('perf')}, in an environment of its own (it pins numpy)"
_RUN = with_extra("run")


@dataclass(frozen=True, slots=True)
class Step:
    """What help says of a step, and how to install what it needs."""

    says: str
    how: str


# In the order of a night. `runci.commands.perf_NAME` declares a step's options (`add_options`) and
# does its work (`run`); it is imported for its own step only.
STEPS: dict[str, Step] = {
    "measure": Step("run a benchmark against its pinned baseline", _RUN),
    "record": Step("append a night to the history", _RUN),
    "history": Step("list, show, start or export the history", _RUN),
    "check": Step("say of each metric whether it got worse", _RUN),
    "accept": Step("take a changed level as the new normal", _RUN),
    "report": Step("write the page, the summary and the badge", _OWN),
    "bisect": Step("find the commit that made a metric worse", _RUN),
    "notify": Step("open, update and close the issues", with_extra("github,run")),
}


class StepParser(Parser):
    """The parser of one step, which gets its options when it is the one to parse."""

    step = ""

    def declare(self) -> None:
        """Import the step, which declares its options, where that was not done."""
        if self.get_default("run_step") is None:
            with _saying_what_is_missing(self.step):
                module = import_module(f"runci.commands.perf_{self.step}")
            module.add_options(self)
            self.set_defaults(run_step=module.run)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Import the step first."""
        self.declare()
        return super().parse_known_args(args, namespace)


def add_options(command: ArgumentParser) -> None:
    """Declare the steps."""
    command.set_defaults(parser=command)
    steps = command.add_subparsers(
        title="steps", metavar="STEP", dest="step", parser_class=StepParser
    )
    for name, step in STEPS.items():
        steps.add_parser(name, help=step.says).step = name


def run(options: Namespace) -> int:
    """Run one step."""
    if options.step is None:
        options.parser.print_help()
        return Exit.USAGE
    # A step imports some of what it needs only when it needs it.
    with _saying_what_is_missing(options.step), stopping():
        status: int = options.run_step(options)
    return status


@contextlib.contextmanager
def _saying_what_is_missing(step: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("runci"):
            raise
        raise RunciError(
            f"runci perf {step} needs the package {error.name}: {STEPS[step].how}"
        ) from error


@contextlib.contextmanager
def stopping() -> Iterator[None]:
    """Turn the first of these signals into SystemExit, 128 and its number; later ones do nothing.

    So children end, and temporary repositories and worktrees go, however impatient whoever stops it
    is. Outside the main thread, where no handler can be set, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]

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
