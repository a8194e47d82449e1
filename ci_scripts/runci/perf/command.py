"""`runci perf STEP`: each step is a function of its stage; only that stage is imported."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from importlib import import_module

from runci.errors import Exit, RunciError
from runci.perf.measure.signals import stopping

STEPS: dict[str, str] = {
    "measure": "runci.perf.measure.command",
    "record": "runci.perf.history.command",
    "history": "runci.perf.history.command",
    "check": "runci.perf.decide.command",
    "accept": "runci.perf.decide.command",
    "report": "runci.perf.page.command",
    "notify": "runci.perf.notify.command",
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


def perf(options: Namespace) -> int:
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
