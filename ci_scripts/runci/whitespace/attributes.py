"""What git is configured to do with each file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runci.git import run_git
from runci.whitespace.policy import ATTRIBUTES, UNSPECIFIED, Policy, WhitespaceOptions, policy_for

_NO_ATTRIBUTES: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of files, and the two settings of git that change what is checked."""

    values: Mapping[str, Mapping[str, str]]
    whitespace: str = ""
    autocrlf: bool = False

    def of(self, path: str) -> Mapping[str, str]:
        """The attributes that are specified for one file."""
        return self.values.get(path, _NO_ATTRIBUTES)

    def policy(self, path: str, options: WhitespaceOptions) -> Policy:
        """What is checked in one file."""
        return policy_for(path, self.of(path), options, self.whitespace, self.autocrlf)


def read_attributes(root: Path, paths: Sequence[str]) -> Attributes:
    """Ask git once for all files. Raises RunciError where git fails."""
    # One command for both: a setting that is missing is an error in `git config --get`.
    settings = run_git(root, "config", "--list", "-z", "--includes")
    configured: dict[str, str] = {}
    for entry in settings.decode("utf-8", "replace").split("\0"):
        name, _, value = entry.partition("\n")
        configured[name] = value
    return Attributes(
        _check_attr(root, paths),
        configured.get("core.whitespace", ""),
        # A name without a value is true.
        configured.get("core.autocrlf", "false").lower() in ("true", "input", "yes", "on", "1", ""),
    )


def _check_attr(root: Path, paths: Sequence[str]) -> dict[str, dict[str, str]]:
    stdin = b"\0".join(os.fsencode(path) for path in paths)
    out = run_git(root, "check-attr", "-z", "--stdin", *ATTRIBUTES, stdin=stdin)
    fields = out.split(b"\0")
    values: dict[str, dict[str, str]] = {}
    unspecified = UNSPECIFIED.encode()
    for name, attribute, value in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
        if value != unspecified:
            attributes = values.setdefault(os.fsdecode(name), {})
            attributes[attribute.decode()] = value.decode("utf-8", "replace")
    return values


def converted(root: Path, paths: Sequence[str]) -> frozenset[str]:
    """Those of `paths` whose CRLF git turns into LF when they are added, if it does so by itself.

    It does not where the file is stored with CRLF already, or looks binary.
    """
    # Without paths: a command line is limited, and on a machine where it matters all are asked.
    out = run_git(root, "ls-files", "-z", "--eol", "--cached", "--others", "--exclude-standard")
    kept: set[str] = set()
    for entry in out.split(b"\0"):
        info, _, name = entry.partition(b"\t")
        stored, present = [*info.split(), b"", b""][:2]
        if stored in (b"i/crlf", b"i/mixed", b"i/-text") or present == b"w/-text":
            kept.add(os.fsdecode(name))
    return frozenset(paths) - kept
