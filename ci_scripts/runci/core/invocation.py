"""What a suite adds to the way its files are run: environment, options of pytest, set-up; pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from runci.core.devices import EVERY

# runci sets these itself, or what sets them is the machine, the service or a lease.
RESERVED = EVERY | {"TMPDIR", "PYTEST_ADDOPTS"}
_RESERVED_BEGINNINGS = ("RUNCI_", "GITHUB_", "RUNNER_", "ACTIONS_")
_SECRET = re.compile(
    r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|API_?KEY|ACCESS_KEY|PRIVATE_KEY)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Invocation:
    """`env` is added to that of the suite's processes, `pytest_args` to pytest's options.

    `setup` is a command, its words, that runs once before the suite's files; empty for none.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    pytest_args: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()

    @property
    def shown(self) -> tuple[str, ...]:
        """What a person is told of it, a line each."""
        parts = {
            "environment": " ".join(f"{k}={shlex.quote(v)}" for k, v in sorted(self.env.items())),
            "pytest": shlex.join(self.pytest_args),
            "set-up": shlex.join(self.setup),
        }
        return tuple(f"{name}: {text}" for name, text in parts.items() if text)


PLAIN = Invocation()  # nothing added


def env_problem(name: str) -> str | None:
    """Why suites.yml may not set this variable; None where it may."""
    if name in RESERVED or name.startswith(_RESERVED_BEGINNINGS):
        remedy = "; write pytest_args" if name == "PYTEST_ADDOPTS" else ""
        return f"{name!r} is set by runci, its leases or the service, not by a suite{remedy}"
    if _SECRET.search(name):
        return (
            f"{name!r} is the name of a secret, and plan.json shows it: give it to the job that "
            "runs the suite, in the workflow"
        )
    return None


def text_problem(text: str) -> str | None:
    """Why a value or a word cannot be meant; None where it can."""
    if "${{" in text:
        return f"{text!r} has an expression, which only workflows evaluate: write a value"
    return "it holds a NUL" if "\0" in text else None
