"""Rules about whitespace, line ends, invisible characters, and their run over files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from runci.checks.fix import Fixed
from runci.checks.rule import Found, Options
from runci.checks.ws.files import File, listed, read_files
from runci.checks.ws.mend import mend
from runci.checks.ws.rules import check_bytes
from runci.core.errors import Exit, RunciError
from runci.core.finding import Finding


def find(options: Options) -> Found:
    """Check files. Raises RunciError for wrong paths or revisions, or where there is no file."""
    listing = listed(options)
    if not listing.paths and options.diff_base is None:
        raise RunciError(f"no file to check in {options.root}", Exit.NOTHING)
    findings: list[Finding] = []
    for item in read_files(options, listing):
        findings += check(item) if isinstance(item, File) else [item]
    return Found(
        sorted(f for f in findings if f.rule in options.active), listing.paths, "no file there"
    )


def check(file: File) -> list[Finding]:
    """Every finding in one text file, by line; pure."""
    return check_bytes(file.path, file.data, file.policy, file.scope)


def mended(
    options: Options, findings: Iterable[Finding], before: Mapping[str, Fixed]
) -> list[Fixed]:
    """The files of these findings with everything mended that is fixable and among them.

    `before` are files that something else mended already: then these bytes are mended on.
    """
    reported: dict[str, set[tuple[str, int]]] = {}
    for finding in findings:
        if finding.fixable:
            reported.setdefault(finding.path, set()).add((finding.rule, finding.line))
    changed = []
    for file in read_files(options, listed(options), only=reported):
        if isinstance(file, File):
            earlier = before.get(file.path)
            now = replace(file, data=earlier.after) if earlier else file
            after, count = _mended(now, reported[file.path])
            if after != now.data:
                count += earlier.count if earlier else 0
                changed.append(Fixed(file.path, file.data, after, count))
    return changed


def _mended(file: File, reported: Collection[tuple[str, int]]) -> tuple[bytes, int]:
    """The bytes with what was reported mended, and how many findings that mends.

    What these rules find elsewhere in the file was excused, and stays.
    """
    rules = frozenset(rule for rule, _ in reported)
    found = check(file)
    excused = {f.line for f in found if f.rule in rules and (f.rule, f.line) not in reported}
    scope = replace(file.scope, without=frozenset(excused))
    after = mend(file.data, file.policy, scope, rules)
    return after, max(len(found) - len(check(replace(file, data=after))), 0)
