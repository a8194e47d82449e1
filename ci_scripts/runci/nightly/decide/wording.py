"""Sentences for a person; the one place that rounds."""

from __future__ import annotations

from runci.nightly.decide.state import Change, Turns
from runci.nightly.decide.steps import Shift
from runci.nightly.decide.values import Value
from runci.nightly.history.lines import Event, Turn
from runci.text.wording import plural

WITHIN = "within its level"


def percent(change: float) -> str:
    """«5.1 %», without a sign."""
    return f"{abs(change) * 100:.1f} %"


def moved(change: float) -> str:
    """«5.1 % worse»."""
    return f"{percent(change)} {'worse' if change > 0 else 'better'}"


def short(commit: str) -> str:
    """A commit's first nine digits."""
    return commit[:9] or "an unknown commit"


def changed(change: Change, since: str, commit: str, by: str) -> str:
    """A confirmed change."""
    span = f"{change.low * 100:+.1f} to {change.high * 100:+.1f} %"
    return f"{moved(change.change)} ({span}) since {since} ({short(commit)}), confirmed by {by}"


def to_watch(change: float, shift: Shift, again: Change | None) -> str:
    """A change that nothing has confirmed yet; `again` is what a re-run of tonight says."""
    nights = len(shift.nights)
    seen = "tonight" if nights == 1 else f"{nights} nights since {shift.nights[0].night}"
    rerun = f" (measured again at once: {moved(again.change)})" if again else ""
    return f"{moved(change)}, {seen}{rerun}; not confirmed yet, nothing is claimed"


def noisy(value: Value, limit: float) -> str:
    """A night whose pairs do not agree."""
    return (
        f"the night's pairs spread {percent(value.spread)} between their quartiles, more than "
        f"{percent(limit)}: no change is claimed from it"
    )


def two_modes(distance: float, flips: int, nights: int) -> str:
    """A machine with two modes."""
    return (
        f"two levels {percent(distance)} apart: it went there and came back by itself {flips} "
        f"times in {nights} nights, as a machine with two modes does; no change is claimed"
    )


def machine_moved(moved_by: float) -> str:
    """The baseline itself takes another time, and the ratio does not change."""
    more = "more" if moved_by > 0 else "less"
    return (
        f"the pinned baseline itself reads {percent(moved_by)} {more} than on the nights before: "
        "the machine changed, the code did not"
    )


def too_little(points: int, missing: int, turns: Turns) -> str:
    """A segment that is too short to say anything."""
    since = f" since the acceptance of {turns.accept.night}" if turns.accept else ""
    return f"{plural(points, 'usable nights')}{since}, {missing} more are needed"


def back(since: str, commit: str) -> str:
    """A recovery."""
    return f"back at its level since {since} ({short(commit)})"


def event(event: Event) -> str:
    """A change of the last week."""
    if event.turn is Turn.RECOVERED:
        return back(event.since, event.since_commit)
    return f"{moved(event.change)} since {event.since} ({short(event.since_commit)})"
