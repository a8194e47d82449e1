"""Rules about whitespace, line ends, invisible characters, and their run over files."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from runci.checks.fix import Fixed
from runci.checks.rule import Found, Options
from runci.checks.ws.files import File, listed, read_files
from runci.checks.ws.mend import mend
from runci.checks.ws.rules import LIMIT, check_bytes
from runci.core.errors import Exit, RunciError
from runci.core.finding import Finding
from runci.read.comments import suppressions_of
from runci.read.testfile import Suppression


def find(options: Options) -> Found:
    """Check files. Raises RunciError for wrong paths or revisions, or where there is no file."""
    listing = listed(options)
    if not listing.paths and options.diff_base is None:
        given = ", ".join(options.paths)
        nothing = f"{given}: no file there" if given else f"no file to check in {options.root}"
        raise RunciError(nothing, Exit.NOTHING)
    return found_in(read_files(options, listing), options.active, listing.paths)


def found_in(
    files: Iterable[File | Finding], active: frozenset[str], paths: Collection[str]
) -> Found:
    """What the active rules find in these files, and the comments there."""
    findings: list[Finding] = []
    comments = {}
    for item in files:
        if isinstance(item, File):
            comments[item.path] = suppressions_of(item.path, item.data)
            findings += _check(item, comments[item.path])
        else:
            findings.append(item)
    left = sorted(f for f in findings if f.rule in active)
    return Found(left, paths, "no file there", comments)


def check(file: File) -> list[Finding]:
    """Every finding in one text file, by line; pure."""
    return _check(file, suppressions_of(file.path, file.data))


def _check(file: File, comments: Sequence[Suppression]) -> list[Finding]:
    # A comment beyond the limit would seem to accept nothing, and its line would be mended.
    limit = sys.maxsize if comments else LIMIT
    return check_bytes(file.path, file.data, file.policy, file.scope, limit)


def read_again(options: Options, wanted: Mapping[str, Fixed | None]) -> list[File]:
    """The text files among these; with what was mended in them already, where that is given."""
    files = read_files(options, listed(options), only=wanted)
    return [_moved(file, wanted[file.path]) for file in files if isinstance(file, File)]


def _moved(file: File, earlier: Fixed | None) -> File:
    if earlier is None:
        return file
    scope = file.scope
    if scope.lines is not None:
        scope = replace(scope, lines=_lines_in(earlier.after, file.data, scope.lines))
    return replace(file, data=earlier.after, scope=scope)


def _lines_in(after: bytes, before: bytes, lines: Collection[int]) -> frozenset[int]:
    """Where these lines are now, and what is new."""
    import difflib

    old, new = before.split(b"\n"), after.split(b"\n")
    moved: set[int] = set()
    for kind, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        if kind == "equal":
            moved.update(j1 - i1 + line for line in range(i1 + 1, i2 + 1) if line in lines)
        else:
            moved.update(range(j1 + 1, j2 + 1))
    return frozenset(moved)


def mended(file: File, reported: Iterable[Finding]) -> tuple[bytes, int]:
    """The bytes with what was reported and is fixable mended, and how many findings that mends.

    What the same rules find elsewhere in the file was accepted, and stays.
    """
    places = {(f.rule, f.line) for f in reported if f.fixable}
    rules = frozenset(rule for rule, _ in places)
    found = check(file)
    accepted: dict[str, set[int]] = {rule: set() for rule in rules}
    for finding in found:
        if finding.rule in rules and (finding.rule, finding.line) not in places:
            accepted[finding.rule].add(finding.line)
    after = mend(file.data, file.policy, file.scope, accepted)
    return after, max(len(found) - len(check(replace(file, data=after))), 0)
