"""What a run was given for pytest, and so what its results are of; pure."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Selected:
    """`-k`, `-m`, `-x` and what stood after `--`, as they were given; false for none of them.

    What is of any of them is of a part: which tests it left out, nobody can tell afterwards.
    """

    keyword: str = ""
    marks: str = ""
    first: bool = False
    arguments: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Selected:
        """From what `dataclasses.asdict` made, perhaps in another process."""
        return cls(**{**given, "arguments": tuple(given["arguments"])})

    def __bool__(self) -> bool:
        return bool(self.keyword or self.marks or self.first or self.arguments)

    @property
    def chooses(self) -> bool:
        """Whether tests may be left out by an expression."""
        return bool(self.keyword or self.marks)

    @property
    def widened(self) -> Selected:
        """With all tests again: what is only about how they run."""
        return Selected(arguments=self.arguments)

    @property
    def options(self) -> list[str]:
        """How the command line has it before the files; all but `arguments`."""
        found = [*_option("-k", self.keyword), *_option("-m", self.marks)]
        return [*found, *(["-x"] if self.first else [])]

    @property
    def rest(self) -> list[str]:
        """How the command line has it after the files."""
        return ["--", *self.arguments] if self.arguments else []

    @property
    def shown(self) -> str:
        """«-k 'add or mul' -x -- --tb=short», as a shell takes it."""
        return shlex.join([*self.options, *self.rest])

    @property
    def as_dict(self) -> dict[str, Any]:
        """Plain data, for another process."""
        return dataclasses.asdict(self)


def _option(name: str, value: str) -> list[str]:
    # An option's value that begins with a dash is one only where it is attached.
    return [name + value] if value.startswith("-") else [name, value] if value else []


EVERYTHING = Selected()
