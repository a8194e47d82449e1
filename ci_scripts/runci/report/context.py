"""What a reporter may know beside the findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from runci.finding import RuleInfo


@dataclass(frozen=True)
class ReportContext:
    """The surroundings of a report; reporters read nothing else.

    `read_lines` gives the source lines of a finding's path, or None where it cannot be read; the
    caller caches. `color` is decided by the caller, see `terminal.use_color`. `width` is the
    terminal's, in columns. `root` is the folder that the paths are relative to, as seen from the
    working folder ("." where they are the same) or absolute. `command` is what the user ran.
    """

    read_lines: Callable[[str], Sequence[str] | None]
    rules: Mapping[str, RuleInfo]
    color: bool = False
    width: int = 80
    root: str = "."
    command: str = "runci lint"

    @property
    def program(self) -> str:
        """The command without its subcommand: «runci lint» is run by «runci»."""
        return self.command.rpartition(" ")[0] or self.command
