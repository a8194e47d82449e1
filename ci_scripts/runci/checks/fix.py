"""Mends what has one right answer: edits of the source, checked and written whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from runci.checks.registry import rules_of
from runci.checks.rule import FileRule, Tree
from runci.checks.suppress import suppress
from runci.checks.tree import registered
from runci.core.atomic import replace_file
from runci.core.errors import RunciError
from runci.core.finding import Finding
from runci.core.source import apply_edits, split_lines
from runci.read.decode import BOM, decode, read
from runci.read.parse import parse
from runci.read.registrations import registrations
from runci.read.testfile import TestFile

_PASSES = 20  # a mended fault can uncover another one


@dataclass(frozen=True, slots=True)
class Fixed:
    """One file before and after, and how many findings were mended."""

    path: str
    before: bytes
    after: bytes
    count: int


def fix_files(
    root: Path, findings: Iterable[Finding], tree: Tree, active: frozenset[str]
) -> list[Fixed]:
    """Mend the fixable findings of each file, in memory; only changed files are returned.

    What that uncovers of the other `active` rules is mended as well, so that a second run finds
    nothing more to do.
    """
    reported: dict[str, list[Finding]] = {}
    for finding in findings:
        reported.setdefault(finding.path, []).append(finding)
    changed = []
    for path, found in sorted(reported.items()):
        fixable = {finding.rule for finding in found if finding.fixable}
        data = read(root, path) if fixable else ""
        if isinstance(data, bytes):
            others = _not_accepted(parse(path, data), active - fixable, tree, found)
            fixed = fix_bytes(path, data, others.union(fixable), tree)
            if fixed.after != data:
                changed.append(fixed)
    return changed


def write(root: Path, fixed: Iterable[Fixed]) -> tuple[int, list[str]]:
    """Write the mended files, each in one step; the findings that mends, and what failed.

    A file that changed since it was read is left alone.
    """
    count = 0
    refused = []
    for item in fixed:
        try:
            if read(root, item.path) != item.before:
                refused.append(f"{item.path}: changed while it was checked: not mended")
                continue
            replace_file(root / item.path, item.after)
            count += item.count
        except RunciError as error:
            refused.append(f"not mended: {error}")
    return count, refused


def diff(fixed: Iterable[Fixed]) -> str:
    """What `write` would change, as a unified diff."""
    import difflib

    out: list[str] = []
    for item in fixed:
        before, after = (decode(data).text or "" for data in (item.before, item.after))
        old, new = (split_lines(text)[:-1] for text in (before, after))
        name = item.path
        out.extend(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")
        )
        if item.before.startswith(BOM) and not item.after.startswith(BOM) and before == after:
            out.append(f"{name}: the byte order mark is removed\n")
    return "".join(out)


def fix_bytes(path: str, data: bytes, active: frozenset[str], tree: Tree) -> Fixed:
    """Apply the fixes of these rules until none is left to apply; pure."""
    current, count = data, 0
    if "RT402" in active and decode(data).text is not None:
        while current.startswith(BOM):
            current, count = current[len(BOM) :], 1
    for _ in range(_PASSES):
        better, mended = _one_pass(path, current, active, tree)
        if better == current:
            break
        current, count = better, count + mended
    return Fixed(path, data, current, count)


def _rules(active: frozenset[str]) -> list[FileRule]:
    return [r for r in rules_of("RT") if r.id in active and isinstance(r, FileRule)]


def _not_accepted(
    file: TestFile, active: frozenset[str], tree: Tree, reported: Iterable[Finding]
) -> frozenset[str]:
    """The rules of which nothing in a file was accepted: what they find later is mended, too."""
    places = {(finding.rule, finding.span) for finding in reported}
    return frozenset(
        rule.id
        for rule in _rules(active)
        if not tree.taxonomy.ignores(rule.id, file.path)
        and places.issuperset((f.rule, f.span) for f in _found(rule, file, tree))
    )


def _one_pass(path: str, data: bytes, active: frozenset[str], tree: Tree) -> tuple[bytes, int]:
    decoded = decode(data)
    if decoded.text is None:
        return data, 0
    file = parse(path, data)
    alone = replace(tree, files=[file], registrations={path: registered(file, tree.taxonomy)})
    for rule in _rules(active):
        if rule.fix is None:
            continue
        found = _found(rule, file, tree)
        for finding in found:
            edits = rule.fix(file, decoded.text, finding, alone) if finding.fixable else ()
            better = decoded.encode(apply_edits(decoded.text, edits))
            after = parse(path, better)
            mended = len(found) - len(_found(rule, after, tree))
            if mended > 0 and _keeps(file, after):
                return better, mended
    return data, 0


def _found(rule: FileRule, file: TestFile, tree: Tree) -> tuple[Finding, ...]:
    """What one rule finds in one file."""
    alone = replace(tree, files=[file], registrations={file.path: registered(file, tree.taxonomy)})
    comments = {file.path: file.suppressions}
    return suppress(rule.check(file, alone), comments, frozenset()).findings


def _keeps(before: TestFile, after: TestFile) -> bool:
    """Whether a mended file can still be read and lost no test and no suite."""
    suites = ({(r.backend, r.effective_suite) for r in registrations(f)} for f in (before, after))
    return after.readable and before.tests <= after.tests and next(suites) <= next(suites)
