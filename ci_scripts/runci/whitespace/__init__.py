"""The whitespace lint: line ends, blanks, indentation, invisible characters, conflict markers."""

from __future__ import annotations

from runci.whitespace.policy import WhitespaceOptions
from runci.whitespace.rules import RULES
from runci.whitespace.run import WhitespaceResult, check

__all__ = ["RULES", "WhitespaceOptions", "WhitespaceResult", "check"]
