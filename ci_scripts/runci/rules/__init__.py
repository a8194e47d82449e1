"""All rules, in order of their ids."""

from __future__ import annotations

from collections.abc import Iterable

from runci.errors import RunciError
from runci.finding import RuleInfo
from runci.rules import (
    rt101,
    rt102,
    rt103,
    rt104,
    rt105,
    rt106,
    rt107,
    rt108,
    rt109,
    rt201,
    rt202,
    rt203,
    rt204,
    rt205,
    rt206,
    rt207,
    rt301,
    rt302,
    rt303,
    rt304,
    rt305,
    rt306,
    rt307,
    rt308,
    rt401,
    rt402,
    rt403,
    rt501,
)
from runci.rules.base import Rule, nearest
from runci.rules.meta import UNJUSTIFIED, UNUSED

RULES: tuple[Rule, ...] = (
    rt101.RULE,
    rt102.RULE,
    rt103.RULE,
    rt104.RULE,
    rt105.RULE,
    rt106.RULE,
    rt107.RULE,
    rt108.RULE,
    rt109.RULE,
    rt201.RULE,
    rt202.RULE,
    rt203.RULE,
    rt204.RULE,
    rt205.RULE,
    rt206.RULE,
    rt207.RULE,
    rt301.RULE,
    rt302.RULE,
    rt303.RULE,
    rt304.RULE,
    rt305.RULE,
    rt306.RULE,
    rt307.RULE,
    rt308.RULE,
    rt401.RULE,
    rt402.RULE,
    rt403.RULE,
    rt501.RULE,
)

# What a reader can look up: the rules, and those about suppression comments.
ALL: dict[str, RuleInfo] = {rule.id: rule for rule in (*RULES, UNJUSTIFIED, UNUSED)}


def choose(select: tuple[str, ...], ignore: tuple[str, ...]) -> frozenset[str]:
    """Ids that are on; both take ids or prefixes («RT3»). Raises RunciError for an unknown one."""
    require_known((*select, *ignore))
    chosen = (rule for rule in ALL if not select or rule.startswith(select))
    return frozenset(rule for rule in chosen if not ignore or not rule.startswith(ignore))


def require_known(words: Iterable[str], where: str = "") -> None:
    """Raise RunciError for a word that is neither an id nor a prefix of one."""
    for word in words:
        if not any(rule.startswith(word) for rule in ALL):
            raise RunciError(
                f"{where}no rule {word!r}{nearest(word, ALL)} (rules: {', '.join(ALL)}); "
                "`runci rule --all` describes them"
            )
