"""A baseline: the findings that a tree has today, so that only new ones fail."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from runci.core.atomic import replace_file
from runci.core.errors import RunciError
from runci.core.finding import Finding, Level
from runci.core.paths import read_named

VERSION = 1
_MISSING = "no such baseline: make it with --write-baseline"

# Path, rule, what is faulty (no line, so that findings may move), and how bad it is:
# who lets a note stand has not let the error stand that it may become.
_Key = tuple[str, str, str, Level]


@dataclass(frozen=True, slots=True)
class Compared:
    """Findings beyond the baseline, those that it covers, and how many it lists in vain."""

    new: tuple[Finding, ...]
    known: tuple[Finding, ...]
    gone: int


def compare(
    findings: Iterable[Finding], baseline: Counter[_Key], complete: frozenset[str] | None = None
) -> Compared:
    """Take the baseline's findings out; of equal ones only as many as it lists.

    Gone is only what it lists of `complete` rules: those of which every finding is here.
    """
    left = baseline.copy()
    new: list[Finding] = []
    known: list[Finding] = []
    for finding in findings:
        key = _key(finding)
        if left[key] > 0:
            left[key] -= 1
            known.append(finding)
        else:
            new.append(finding)
    gone = sum(n for key, n in left.items() if complete is None or key[1] in complete)
    return Compared(tuple(new), tuple(known), gone)


def read(path: Path) -> Counter[_Key]:
    """Read a baseline file. Raises RunciError where it is missing or not one."""
    try:
        document = json.loads(read_named(path, missing=_MISSING))
        version, entries = document["version"], document["findings"]
        counts: Counter[_Key] = Counter()
        for key, count in map(_entry, entries):
            counts[key] += count
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise RunciError(
            f"{path}: not a baseline ({error}): delete it and make it again with --write-baseline"
        ) from error
    if version != VERSION:
        raise RunciError(
            f"{path}: baseline version {version}, but this runci reads {VERSION}: delete it and "
            "make it again with --write-baseline"
        )
    return counts


def _entry(entry: dict[str, object]) -> tuple[_Key, int]:
    path, rule, key, count = (entry[name] for name in ("path", "rule", "key", "count"))
    if not (isinstance(path, str) and isinstance(rule, str) and isinstance(key, str)):
        raise TypeError("a path, rule or key is no text")
    if type(count) is not int or count < 1:
        raise TypeError(f"count {count!r} is no number of findings")
    return (path, rule, _without_lines(key), Level(entry.get("level", Level.ERROR))), count


def write(path: Path, findings: Iterable[Finding], complete: frozenset[str]) -> int:
    """Write the baseline of these findings, atomically; give how many it holds.

    What it lists of rules that are not `complete`, since they did not run or not on all, stays.
    """
    counts = Counter(map(_key, findings))
    if path.exists():
        counts |= Counter({k: n for k, n in read(path).items() if k[1] not in complete})
    entries = [
        {"path": path, "rule": rule, "key": key, "count": count} | _named(level)
        for (path, rule, key, level), count in sorted(counts.items())
    ]
    document = {"version": VERSION, "findings": entries}
    replace_file(path, (json.dumps(document, indent=1) + "\n").encode())
    return sum(counts.values())


def _named(level: Level) -> dict[str, str]:
    return {} if level is Level.ERROR else {"level": level.value}


def _key(finding: Finding) -> _Key:
    key = _without_lines(finding.key or finding.message)
    return finding.path, finding.rule, key, finding.level


def _without_lines(key: str) -> str:
    """A message may say where the other half of a fault stands, which moves."""
    return re.sub(r"\bline \d+", "line", key) if "line " in key else key
