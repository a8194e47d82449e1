"""Which rules there are: families by prefix, each rule declared once, in the module of its subject.

To add a rule, write it in the module of its subject and name it in that module's RULES. Only the
families that are asked for are imported: ids of the others are found when somebody names one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module

from runci.core.errors import RunciError
from runci.core.finding import RuleInfo
from runci.text.wording import nearest

# Of every family: their rules are about its comments.
_COMMENTS = "suppress"

# Prefix of the ids → modules of `runci.checks`. Each declares RULES.
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "RT": (
        "rt.form",
        "rt.outside",
        "rt.suite",
        "rt.workflow",
        "rt.skips",
        "rt.components",
        "rt.exit_status",
        "rt.files",
        "rt.unrun",
        "rt.gates",
        _COMMENTS,
    ),
    "WF": (
        "wf.gate",
        "wf.required",
        "wf.events",
        "wf.suites",
        "wf.concurrency",
        "wf.runners",
        "wf.checkouts",
        "wf.permissions",
        "wf.ruleset",
    ),
    "WS": ("ws.rules",),
}


@functools.cache
def rules_of(family: str) -> tuple[RuleInfo, ...]:
    """The rules of one family, in order of their ids."""
    found = [rule for _, rules in subjects(family) for rule in rules]
    return tuple(sorted(found, key=lambda rule: rule.id))


def subjects(family: str) -> list[tuple[str, tuple[RuleInfo, ...]]]:
    """What each module of a family is about, in its own words, and its rules."""
    modules = [import_module(f"runci.checks.{name}") for name in FAMILIES[family]]
    return [((module.__doc__ or "").strip().rstrip("."), module.RULES) for module in modules]


def rules(families: Iterable[str] = FAMILIES) -> dict[str, RuleInfo]:
    """The rules of these families by id, in order, with those about comments that accept."""
    found = {rule.id: rule for rule in _about_comments()}
    found |= {rule.id: rule for family in families for rule in rules_of(family)}
    return dict(sorted(found.items()))


def _about_comments() -> tuple[RuleInfo, ...]:
    found: tuple[RuleInfo, ...] = import_module(f"runci.checks.{_COMMENTS}").RULES
    return found


def is_known(rule: str) -> bool:
    """Whether a rule has this id; imports its family only."""
    return rule[:2] in FAMILIES and rule in rules((rule[:2],))


def choose(
    select: tuple[str, ...], ignore: tuple[str, ...], families: Iterable[str]
) -> frozenset[str]:
    """Ids that are on; both take ids or prefixes («RT3»).

    Raises RunciError for an unknown one, or where none is left.
    """
    known = rules(families)
    for word in (*select, *ignore):
        if word[:2] in FAMILIES.keys() - set(families) and not any(
            r.startswith(word) for r in known
        ):
            raise RunciError(f"no rule {word!r} in this command: `runci check` has them all")
    require_known((*select, *ignore), known)
    chosen = (rule for rule in known if not select or rule.startswith(select))
    left = frozenset(rule for rule in chosen if not ignore or not rule.startswith(ignore))
    if not left:
        raise RunciError(
            f"--select {','.join(select) or 'everything'} --ignore {','.join(ignore)}: no rule is "
            "left: nothing would be checked"
        )
    return left


def needed(active: frozenset[str], families: Sequence[str]) -> tuple[str, ...]:
    """The families that these rules ask something; all, where only comments are in question."""
    asked = active.difference(rule.id for rule in _about_comments())
    return tuple(f for f in families if any(r.startswith(f) for r in asked) or not asked)


def require_known(words: Iterable[str], known: Iterable[str], where: str = "") -> None:
    """Raise RunciError for a word that is neither one of these ids nor a prefix of one."""
    ids = tuple(known)
    for word in words:
        if not any(rule.startswith(word) for rule in ids):
            raise RunciError(
                f"{where}no rule {word!r}{nearest(word, ids)} (rules: {', '.join(ids)}); "
                "`runci rule --all` describes them"
            )
