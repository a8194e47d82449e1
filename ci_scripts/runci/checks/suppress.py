"""Suppression comments: without a reason, or without effect."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from runci.checks.registry import is_known, rules
from runci.checks.rule import Accepted
from runci.core.finding import Finding, RuleInfo
from runci.read.comments import find_suppressions, read_comment
from runci.read.testfile import Suppression
from runci.text.wording import nearest

_HEAD = "from runci import register_cpu_ci\n\n"
_CALL = 'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu"'

UNJUSTIFIED = RuleInfo(
    id="RT901",
    name="suppression-without-reason",
    summary="A suppression comment names no rule, an unknown rule, or no reason.",
    reason="A suppression without a reason cannot be reviewed or ever removed. One that names no "
    "known rule suppresses nothing, or everything.",
    bad=f'{_HEAD}{_CALL}, disabled="flaky")  # runci: ignore[RT109]',
    good=f'{_HEAD}{_CALL}, disabled="flaky")  # runci: ignore[RT109] issue tracker is private',
)

UNUSED = RuleInfo(
    id="RT902",
    name="unused-suppression",
    summary="A suppression comment that suppresses nothing.",
    reason="The fault is gone; the comment would hide the next one.",
    bad=f"{_HEAD}{_CALL})  # runci: ignore[RT109] issue tracker is private",
    good=f"{_HEAD}{_CALL})",
)

RULES = (UNJUSTIFIED, UNUSED)

_COMMENT = re.compile(r"(?:^|\s)(#\s*runci:\s*ignore.*)")


@dataclass(frozen=True, slots=True)
class Suppressed:
    """The findings that remain, with those about suppressions, and those that comments accept."""

    findings: tuple[Finding, ...]
    accepted: tuple[Accepted, ...]


def suppress(
    findings: Iterable[Finding],
    suppressions: Mapping[str, Sequence[Suppression]],
    active: frozenset[str],
) -> Suppressed:
    """Take the suppressed findings out. `active` are the rules that ran."""
    kept: list[Finding] = []
    used: dict[str, set[int]] = defaultdict(set)
    accepted: list[Accepted] = []
    for finding in findings:
        places = {
            place: item.reason
            for place, item in enumerate(suppressions.get(finding.path, ()))
            if item.reason and finding.rule in item.rules and _covers(item, finding)
        }
        used[finding.path].update(places)
        if places:
            accepted.append(Accepted(finding, next(iter(places.values()))))
        else:
            kept.append(finding)
    for path, items in suppressions.items():
        for place, item in enumerate(items):
            kept.extend(_faults(path, item, place in used[path], active))
    return Suppressed(tuple(sorted(kept)), tuple(accepted))


def _covers(item: Suppression, finding: Finding) -> bool:
    first, last = finding.span.line, finding.span.end_line
    return (first <= item.last and item.target <= last) or first <= item.span.line <= last


def _faults(path: str, item: Suppression, used: bool, active: frozenset[str]) -> Iterable[Finding]:
    unknown = [rule for rule in item.rules if not is_known(rule)]
    if not item.rules or unknown or not item.reason:
        if UNJUSTIFIED.id in active:
            yield _unjustified(path, item, unknown)
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


def _unjustified(path: str, item: Suppression, unknown: Sequence[str]) -> Finding:
    if not item.rules:
        message = "the suppression names no rule"
    elif unknown:
        message = f"no rule {unknown[0]!r}{nearest(unknown[0].upper(), rules())}"
    else:
        message = f"the suppression of {', '.join(item.rules)} gives no reason"
    remedy = "Write `# runci: ignore[RT109] why it is right here`."
    return Finding(path, item.span, UNJUSTIFIED.id, message, remedy, key=",".join(item.rules))


def beside(
    findings: Iterable[Finding],
    known: Mapping[str, Sequence[Suppression]],
    read_lines: Callable[[str], Sequence[str] | None],
) -> dict[str, tuple[Suppression, ...]]:
    """Suppressions in the files that have findings and whose comments are not known yet."""
    paths = {finding.path for finding in findings} - known.keys()
    found = {path: _in_text(path, read_lines(path) or ()) for path in sorted(paths)}
    return {path: items for path, items in found.items() if items}


def _in_text(path: str, lines: Sequence[str]) -> tuple[Suppression, ...]:
    if path.endswith(".py"):
        return find_suppressions("".join(f"{line}\n" for line in lines))
    items = []
    for number, line in enumerate(lines, 1):
        match = _COMMENT.search(line)
        if match is not None:
            target = number if line[: match.start(1)].strip() else number + 1
            items.append(read_comment(match[1], number, match.start(1) + 1, target, target))
    return tuple(item for item in items if item is not None)
