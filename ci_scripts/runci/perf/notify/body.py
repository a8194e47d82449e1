"""An issue's text: the mark, then one paragraph on how it stands, then the evidence; pure."""

from __future__ import annotations

from runci.perf.notify.marks import mark
from runci.perf.notify.model import Memory, Topic
from runci.perf.page import words

MOST = 65_536  # characters that GitHub stores of a text


def compose(topic: Topic, memory: Memory, *, closed_by_hand: bool) -> str:
    """The whole body. Evidence that would not fit is cut at the end of a paragraph."""
    standing = topic.standing
    if closed_by_hand:
        standing = f"**Closed by hand, and not over.** {standing}"
    parts = [mark(memory), standing, *topic.facts]
    rules = f"---\n\n{_rules(topic)}"
    left_out = "(More does not fit here.)"
    room = MOST - len(rules) - len(left_out) - 4
    while len(parts) > 3 and len("\n\n".join(parts)) > room:
        parts = [*parts[:-2], left_out] if parts[-1] == left_out else [*parts[:-1], left_out]
    return "\n\n".join([*parts, rules])


def ended(body: str, memory: Memory, over: str) -> str:
    """The body as it was, with another mark and another first paragraph."""
    _, _, evidence = (*body.split("\n\n", 2), "", "")[:3]
    return "\n\n".join(part for part in (mark(memory), over, evidence) if part)


def worse_comment(topic: Topic, before: float | None) -> str:
    """By how much it got worse since it was last told."""
    return (
        f"**Worse:** {words.change(topic.change)} on {topic.night}, after {words.change(before)} "
        "when this was last told."
    )


def _rules(topic: Topic) -> str:
    """When this issue changes, for whoever reads it."""
    more = "more of it"
    if topic.change is not None:
        more = f"worse by another {words.percent(topic.min_change)}"
    return (
        "`runci perf notify` rewrites this text every night. It comments only when somebody should "
        f"know: {more}, over, or back. It closes this issue when it is over, and reopens it when "
        f"it is back. Closed by hand, it stays closed until it is {more}, or back; that accepts "
        "nothing."
    )
