"""Suppression comments: without a reason, or without effect."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from runci.checks.registry import FAMILIES, is_known, rules
from runci.checks.rule import Accepted
from runci.core.finding import Finding, RuleInfo
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
    summary="A suppression comment, or a rule that it names, that suppresses nothing.",
    reason="The fault is gone; the comment would hide the next one.",
    bad=f"{_HEAD}{_CALL})  # runci: ignore[RT109] issue tracker is private",
    good=f"{_HEAD}{_CALL})",
)

RULES = (UNJUSTIFIED, UNUSED)


@dataclass(frozen=True, slots=True)
class Suppressed:
    """The findings that remain, with those about suppressions, and those that comments accept."""

    findings: tuple[Finding, ...]
    accepted: tuple[Accepted, ...]


def suppress(
    findings: Iterable[Finding],
    suppressions: Mapping[str, Sequence[Suppression]],
    active: frozenset[str],
    complete: frozenset[str] | None = None,
    readers: Callable[[str], Container[str]] = lambda _path: FAMILIES,
) -> Suppressed:
    """Take the suppressed findings out. `active` are the rules that ran.

    `complete` are those that were asked of all that a comment can stand at (default: all of
    them), `readers` the families whose rules read a file: a comment of others is not judged.
    """
    complete = active if complete is None else complete
    kept: list[Finding] = []
    used: dict[str, set[tuple[int, str]]] = defaultdict(set)  # place of the comment, and rule
    accepted: list[Accepted] = []
    for finding in findings:
        places = {
            place: item.reason
            for place, item in enumerate(suppressions.get(finding.path, ()))
            if item.reason and finding.rule in item.rules and _covers(item, finding)
        }
        used[finding.path].update((place, finding.rule) for place in places)
        if places:
            accepted.append(Accepted(finding, next(iter(places.values()))))
        else:
            kept.append(finding)
    for path, items in suppressions.items():
        for place, item in enumerate(items):
            idle = (rule for rule in item.rules if (place, rule) not in used[path])
            unused = tuple(rule for rule in dict.fromkeys(idle) if rule in complete)
            kept.extend(f for f in _faults(path, item, unused, readers(path)) if f.rule in active)
    return Suppressed(tuple(sorted(kept)), tuple(accepted))


# Where Python gave up, which is not where the fault is: a comment at the top speaks for it, too.
_OF_THE_FILE = frozenset({"RT401", "RT402"})


def _covers(item: Suppression, finding: Finding) -> bool:
    if item.target == 1 and finding.rule in _OF_THE_FILE:
        return True
    first, last = finding.span.line, finding.span.end_line
    return (first <= item.last and item.target <= last) or first <= item.span.line <= last


def _faults(
    path: str, item: Suppression, unused: Sequence[str], readers: Container[str]
) -> Iterable[Finding]:
    families = {rule[:2] for rule in item.rules} & FAMILIES.keys()
    # Whitespace is looked for in every file, also in what only quotes a comment of others.
    if "RT" not in readers and not any(f in readers for f in families or ("WF",)):
        return
    unknown = [rule for rule in item.rules if not is_known(rule)]
    if not item.rules or unknown or not item.reason:
        yield _unjustified(path, item, unknown)
    elif unused and ("RT" in readers or all(family in readers for family in families)):
        rules = ", ".join(unused)
        whole = len(unused) == len(set(item.rules))
        yield Finding(
            path,
            item.span,
            UNUSED.id,
            f"nothing to suppress here: {rules} finds no fault",
            "Remove the comment." if whole else f"Remove {rules} from the comment.",
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
