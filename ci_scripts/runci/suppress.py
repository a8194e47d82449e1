"""Applies suppression comments, and finds those that are faulty or unused."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from runci.finding import Finding
from runci.parse.comments import read_comment
from runci.parse.model import Suppression
from runci.rules.base import nearest
from runci.rules.meta import UNJUSTIFIED, UNUSED

_COMMENT = re.compile(r"(?:^|\s)(#\s*runci:\s*ignore.*)")


@dataclass(frozen=True, slots=True)
class Suppressed:
    """The findings that remain, with those about suppressions, and how many are gone."""

    findings: tuple[Finding, ...]
    count: int


def suppress(
    findings: Iterable[Finding],
    suppressions: Mapping[str, Sequence[Suppression]],
    known: Iterable[str],
    active: frozenset[str],
) -> Suppressed:
    """Drop the suppressed findings. `known` are all rule ids, `active` those that ran."""
    kept: list[Finding] = []
    used: dict[str, set[int]] = defaultdict(set)
    count = 0
    for finding in findings:
        places = [
            place
            for place, item in enumerate(suppressions.get(finding.path, ()))
            if item.reason and finding.rule in item.rules and _covers(item, finding)
        ]
        used[finding.path].update(places)
        count += bool(places)
        if not places:
            kept.append(finding)
    rules = tuple(known)
    for path, items in suppressions.items():
        for place, item in enumerate(items):
            kept.extend(_faults(path, item, place in used[path], rules, active))
    return Suppressed(tuple(sorted(kept)), count)


def _covers(item: Suppression, finding: Finding) -> bool:
    first, last = finding.span.line, finding.span.end_line
    return (first <= item.last and item.target <= last) or first <= item.span.line <= last


def _faults(
    path: str, item: Suppression, used: bool, known: Sequence[str], active: frozenset[str]
) -> Iterable[Finding]:
    unknown = [rule for rule in item.rules if rule not in known]
    if not item.rules or unknown or not item.reason:
        if UNJUSTIFIED.id in active:
            yield _unjustified(path, item, unknown, known)
    elif not used and UNUSED.id in active and active.issuperset(item.rules):
        rules = ", ".join(item.rules)
        yield Finding(
            path,
            item.span,
            UNUSED.id,
            f"nothing to suppress here: {rules} finds no fault",
            "Remove the comment.",
            key=rules,
        )


def _unjustified(
    path: str, item: Suppression, unknown: Sequence[str], known: Sequence[str]
) -> Finding:
    if not item.rules:
        message = "the suppression names no rule"
    elif unknown:
        message = f"no rule {unknown[0]!r}{nearest(unknown[0], known)}"
    else:
        message = f"the suppression of {', '.join(item.rules)} gives no reason"
    remedy = "Write `# runci: ignore[RT109] why it is right here`."
    return Finding(path, item.span, UNJUSTIFIED.id, message, remedy, key=",".join(item.rules))


def in_workflows(
    findings: Iterable[Finding],
    read_lines: Callable[[str], Sequence[str] | None],
) -> dict[str, tuple[Suppression, ...]]:
    """Suppressions in the YAML files that have findings; used ones count, unused ones are free."""
    paths = {f.path for f in findings if f.path.endswith((".yml", ".yaml"))}
    found: dict[str, tuple[Suppression, ...]] = {}
    for path in sorted(paths):
        items = []
        for number, line in enumerate(read_lines(path) or (), 1):
            match = _COMMENT.search(line)
            if match is not None:
                target = number if line[: match.start(1)].strip() else number + 1
                items.append(read_comment(match[1], number, match.start(1) + 1, target, target))
        found[path] = tuple(item for item in items if item is not None)
    return found
