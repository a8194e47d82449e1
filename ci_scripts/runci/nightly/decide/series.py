"""One series on one night: the verdict, and the events that it adds to the record."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from runci.config.perf import Rule
from runci.nightly.decide import words
from runci.nightly.decide.exact import decide_exact
from runci.nightly.decide.turns import (
    Change,
    Outcome,
    Turns,
    blank,
    event_of,
    news,
    told,
    turns,
    with_change,
)
from runci.nightly.decide.values import Value, read_nights
from runci.nightly.decide.walk import Shift, Walked, walk
from runci.nightly.figures import SMALLEST, ratio
from runci.nightly.history.lines import Event, Series, Turn
from runci.nightly.record import EXACT, Direction
from runci.nightly.verdict import Confirmed, Segment, Status, Step, Verdict

NORMAL_95 = 1.96  # standard errors on each side of a 95 % interval


@dataclass(frozen=True, slots=True)
class Case:
    """The nights that can be compared with tonight, the last of them, and what became of them.

    They have one pinned baseline and follow the last acceptance. The indices of `seen` count from
    `values`, and one more is the re-run of tonight.
    """

    values: tuple[Value, ...]
    direction: Direction
    rule: Rule
    known: Turns
    seen: Walked

    @property
    def tonight(self) -> Value:
        """The night to decide about."""
        return self.values[-1]

    def figures(self, values: Sequence[Value]) -> list[float]:
        """What the rule compares."""
        return [_figure(value.value, self.direction) for value in values]

    def change(self, off: float, values: Sequence[Value]) -> Change:
        """How far these nights are, `off` as a figure, with what their number makes likely."""
        if self.seen.sigma is not None:
            error = NORMAL_95 * self.seen.sigma / math.sqrt(len(values))
            ends = [_worse(off + sign * error, self.direction) for sign in (-1, 1)]
        else:  # of three pairs or more the least and the largest hold the median, as a rule
            middle = median(self.figures(values))
            pairs = [_figure(p, self.direction) for value in values for p in value.pairs]
            ends = [_worse(end - middle + off, self.direction) for end in (min(pairs), max(pairs))]
        return Change(_worse(off, self.direction), *sorted(ends))


def decide(
    series: Series,
    rule: Rule,
    night: str,
    at: str,
    absent: str = "no run",
    kin: Sequence[Series] = (),
) -> Outcome:
    """The verdict of a series as of `night`, and the events to write down.

    `at` is the time of the decision, for the record; `absent` is why there are no figures tonight
    where the points do not say it. `kin` are the series of this metric on other drivers: a ratio to
    the same baseline goes on. What is later than `night` is not looked at. The same arguments give
    the same outcome.
    """
    if series.unit == EXACT:
        return decide_exact(series, night, at, absent)
    whole = _joined(series, kin)
    usable, unusable = _nights(series, kin, night)
    known = turns(whole, night)
    verdict = replace(
        blank(series, night, usable[-1].commit if usable else "", known),
        segments=_segments(whole, usable, night),
    )
    case = _case(usable, series.direction, known, rule) if usable else None
    if case is not None:
        level = case.seen.accepted
        verdict = replace(
            verdict,
            points=len(case.values),
            level=None if level is None else _value(level, series.direction),
        )
    if case is None or case.tonight.night != night:
        return _without_figures(verdict, known, unusable.get(night, absent)), ()
    verdict = replace(verdict, value=case.tonight.value)
    if known.open is not None and known.open.since < case.values[0].night:
        return _repinned(verdict, case, known.open), ()
    events = tuple(_event(verdict, case, shift, at) for shift in case.seen.shifts)
    if events:  # tonight's page has them, too, as every later one
        whole = replace(whole, events=(*whole.events, *events))
        verdict = replace(verdict, accepted=False, segments=_segments(whole, usable, night))
        case = replace(case, known=Turns(known.accept, (*known.events, *events)))
    return _judged(verdict, case), events


def departure(
    series: Series, kin: Sequence[Series], night: str, tonight: Value, rule: Rule
) -> float | None:
    """How far a night that is not yet on record would be from what `decide` compares it with.

    Relative, above 0 worse. None where too few nights are known, and while a regression is open:
    more figures would not close it.
    """
    known = turns(_joined(series, kin), night)
    usable = [value for value in _nights(series, kin, night)[0] if value.night < night]
    case = _case([*usable, tonight], series.direction, known, rule)
    if (
        len(case.values) <= rule.min_points
        or len(case.seen.segments) > 1
        or case.seen.level is None
    ):
        return None
    return _worse(_off(case), series.direction)


def _judged(verdict: Verdict, case: Case) -> Verdict:
    """What is open comes first, then news, then what can be claimed."""
    if case.known.open is not None:
        return _open(verdict, case, case.known.open)
    recent = news(case.known, verdict.night)
    if recent is not None:
        change = Change(recent[1].change, recent[1].low, recent[1].high)
        return told(with_change(verdict, change), *recent, words.event(recent[1]))
    off = _off(case)
    tonight = _figure(case.tonight.value, case.direction)
    accepted = tonight if case.seen.accepted is None else case.seen.accepted
    verdict = with_change(verdict, case.change(tonight - accepted, case.values[-1:]))
    missing = case.rule.min_points - len(case.values)
    if missing > 0:
        reason = words.too_little(len(case.values), missing, case.known)
        return replace(verdict, status=Status.TOO_LITTLE, reason=reason)
    visible = case.seen.visible
    if visible is not None and visible > case.rule.min_change:
        nights = case.rule.lasting // 2
        reason = words.noisy(math.expm1(visible), verdict.change or 0.0, nights)
        return replace(verdict, status=Status.NOISY, reason=reason)
    if abs(off) < case.rule.min_change:
        return replace(verdict, reason=_machine_moved(case) or words.WITHIN)
    return replace(verdict, reason=_watched(case, off), watch=True)


def _off(case: Case) -> float:
    """How far tonight is, above 0 worse than what a step is measured from, or than accepted."""
    tonight = _figure(case.tonight.value, case.direction)
    worse = tonight - (tonight if case.seen.level is None else case.seen.level)
    better = (tonight if case.seen.accepted is None else case.seen.accepted) - tonight
    return worse if worse >= better else -better


def _open(verdict: Verdict, case: Case, last: Event) -> Verdict:
    """The regression that is open, as its last nights show it."""
    steps = _steps(case)
    start = case.seen.segments[-1].start
    figures = case.figures(case.values[start:] or case.values[-1:])
    accepted, near = case.seen.accepted or 0.0, case.rule.min_change / 2
    back = next((n for n, f in enumerate(reversed(figures)) if f - accepted > near), 0)
    shown = figures[: len(figures) - back][-case.rule.lasting :]
    nights = case.values[-len(shown) - back : len(case.values) - back]
    change = case.change(median(shown) - accepted, nights)
    reason = words.changed(change, steps, last.confirmed_by)
    if back:
        reason += "; tonight is back at the level, and closes it where it lasts"
    return replace(told(with_change(verdict, change), Status.REGRESSION, last, reason), steps=steps)


def _repinned(verdict: Verdict, case: Case, last: Event) -> Verdict:
    """It began against another baseline: nothing here can be compared with its level."""
    found = _on_record(replace(verdict, level=None), last, _steps(case))
    tail = "; measured against another baseline since: only `runci perf accept` closes it"
    return replace(found, reason=found.reason + tail)


def _without_figures(verdict: Verdict, known: Turns, why: str) -> Verdict:
    """A night without figures says nothing new: what is open stays open."""
    if known.open is None:
        return replace(verdict, status=Status.MISSING, reason=why)
    steps = tuple(_step(event) for event in _open_events(known))
    found = _on_record(verdict, known.open, steps)
    return replace(found, reason=f"{found.reason}; tonight: {why}")


def _on_record(verdict: Verdict, last: Event, steps: tuple[Step, ...]) -> Verdict:
    """An open regression as it was written down."""
    sign = 1.0 if verdict.direction is Direction.LOWER else -1.0
    total = last.change
    if len(steps) > 1:
        total = sign * (math.prod(1 + sign * step.change for step in steps) - 1)
    change = Change(total, total + last.low - last.change, total + last.high - last.change)
    reason = words.changed(change, steps, last.confirmed_by)
    return replace(told(with_change(verdict, change), Status.REGRESSION, last, reason), steps=steps)


def _open_events(known: Turns) -> tuple[Event, ...]:
    """The steps of the open regression."""
    back = itertools.takewhile(lambda e: e.turn is Turn.REGRESSION, reversed(known.events))
    return tuple(reversed(tuple(back)))


def _step(event: Event, driver: str = "") -> Step:
    return Step(event.since, event.since_commit, event.last_good, event.change, driver)


def _steps(case: Case) -> tuple[Step, ...]:
    drivers = {
        b.night: f"{b.driver} (before: {a.driver})"
        for a, b in itertools.pairwise(case.values)
        if a.driver != b.driver
    }
    return tuple(_step(e, drivers.get(e.since, "")) for e in _open_events(case.known))


def _event(verdict: Verdict, case: Case, shift: Shift, at: str) -> Event:
    """A shift as it is written down."""
    nights = case.values[shift.since : shift.told + 1]
    first, figures = nights[0], case.figures(nights)
    is_step = median(figures) - shift.before >= case.rule.min_change
    level = shift.before if shift.turn is Turn.IMPROVEMENT else shift.level
    if shift.turn is Turn.REGRESSION and case.seen.segments[1:]:
        later = shift.since > case.seen.segments[1].start
        level = shift.before if later else shift.level
    by = Confirmed.SECOND_NIGHT
    if shift.told >= len(case.values):
        by = Confirmed.PAIRED
    elif shift.turn is Turn.REGRESSION and not is_step:
        by = Confirmed.BASELINE
    change = case.change(median(figures) - level, nights)
    earlier = case.values[shift.since - 1].commit if shift.since else first.pin
    found = replace(
        verdict,
        since=first.night,
        since_commit=first.commit,
        last_good=earlier,
        confirmed_by=by,
    )
    return event_of(found, at, shift.turn, change, _value(shift.level, case.direction))


def _watched(case: Case, off: float) -> str:
    """The sentence about a night beyond its level that nothing has confirmed."""
    change = _worse(off, case.direction)
    last = len(case.values) - 1
    moved = _moved_alone(case.values, case.direction, case.rule, last, last, off)
    if moved is not None:
        return words.baseline_moved(moved, change)
    again = None
    if case.tonight.again and case.seen.level is not None:
        figure = _figure(median(case.tonight.again), case.direction)
        again = _worse(figure - case.seen.level, case.direction)
    return words.to_watch(change, again)


def _machine_moved(case: Case) -> str:
    """The sentence about a baseline that reads otherwise than before; empty where it does not."""
    tonight = case.tonight
    before = [
        v.base for v in case.values[-case.rule.lasting - 1 : -1] if v.driver == tonight.driver
    ]
    known = [base for base in before if base is not None]
    if tonight.base is None or not known:
        return ""
    moved = ratio(tonight.base, median(known)) - 1.0
    return words.machine_moved(moved) if abs(moved) >= case.rule.min_change else ""


def _moved_alone(
    values: Sequence[Value],
    direction: Direction,
    rule: Rule,
    first: int,
    last: int,
    size: float,
) -> float | None:
    """How far the baseline itself moved, where it did and the candidate did not: its own time.

    Both arms are at hand within one driver: what moves the ratio is then no change of the code.
    """
    last = min(last, len(values) - 1)
    here = [v for v in values[first : last + 1] if v.base]
    before = [v for v in values[max(first - rule.lasting, 0) : first] if v.base]
    if not here or any(v.driver != here[-1].driver for v in (*here, *before)):
        return None
    if len(before) < rule.min_points:
        return None
    bases = [_figure(v.base or 1.0, direction) for v in before]
    base = median([_figure(v.base or 1.0, direction) for v in here]) - median(bases)
    own = median([_figure(v.own, direction) for v in here]) - median(
        [_figure(v.own, direction) for v in before]
    )
    if -base * math.copysign(1, size) < abs(size) / 2 or abs(own) >= abs(size) / 2:
        return None
    return math.expm1(base if direction is Direction.LOWER else -base)


def _case(usable: Sequence[Value], direction: Direction, known: Turns, rule: Rule) -> Case:
    """The nights of tonight's baseline since the last acceptance, walked through.

    Ratios to different baselines are not comparable. To a pinned commit a ratio starts at 1, unless
    somebody accepted another level for it.
    """
    start = known.accept.night if known.accept else ""
    pin = usable[-1].pin
    values = [v for v in usable if v.night >= start and v.pin == pin] or list(usable[-1:])
    earlier = [v.night for v in usable if v.night < values[0].night]
    level = 0.0 if pin and not (start and start > max(earlier, default="")) else None
    figures = [_figure(value.value, direction) for value in values]
    if values[-1].again:
        figures.append(_figure(median(values[-1].again), direction))
    recorded = _recorded(known, values, direction)

    def doubtful(first: int, last: int, size: float) -> bool:
        return _moved_alone(values, direction, rule, first, last, size) is not None

    seen = walk(figures, rule, level, recorded, doubtful)
    return Case(tuple(values), direction, rule, known, seen)


def _recorded(
    known: Turns, values: Sequence[Value], direction: Direction
) -> dict[int, list[Shift]]:
    """The events of these nights by the index of the night that told them."""
    nights = [value.night for value in values]
    by_its_rerun = nights[-1], Confirmed.PAIRED.value
    found: dict[int, list[Shift]] = {}
    for event in known.events:
        if event.since < nights[0] and event.turn is not Turn.RECOVERED:
            continue  # of another baseline
        since = min(bisect_left(nights, event.since), len(nights) - 1)
        at = max(bisect_right(nights, event.night) - 1, since)
        if values[-1].again and (event.night, event.confirmed_by) == by_its_rerun:
            at = len(nights)  # what it was told by is no noise of the night's
        level = _figure(event.level, direction)
        found.setdefault(at, []).append(Shift(event.turn, since, at, level, level))
    return found


def _joined(series: Series, kin: Sequence[Series]) -> Series:
    """The series with what was decided about it on other drivers."""
    return replace(
        series,
        accepts=tuple(a for one in (*kin, series) for a in one.accepts),
        events=tuple(e for one in (*kin, series) for e in one.events),
    )


def _nights(
    series: Series, kin: Sequence[Series], night: str
) -> tuple[list[Value], dict[str, str]]:
    """The usable nights of all drivers, and why the others of this one are not."""
    own = read_nights(series.points, night, series.id.driver_major)
    found = {
        value.night: value
        for one in kin
        for value in read_nights(one.points, night, one.id.driver_major).usable
    }
    found |= {value.night: value for value in own.usable}
    return [found[at] for at in sorted(found)], own.unusable


def _segments(series: Series, usable: Sequence[Value], night: str) -> tuple[Segment, ...]:
    """Usable nights between acceptances, changes on record, and other pinned baselines."""
    starts = {accept.night for accept in series.accepts if accept.night <= night}
    starts |= {event.since for event in series.events if event.night <= night}
    starts |= {b.night for a, b in itertools.pairwise(usable) if a.pin != b.pin}
    waiting = sorted(starts, reverse=True)
    groups: list[list[Value]] = []
    for value in usable:
        begins = not groups
        while waiting and waiting[-1] <= value.night:
            waiting.pop()
            begins = True
        if begins:
            groups.append([])
        groups[-1].append(value)
    return tuple(
        Segment(group[0].night, group[-1].night, len(group), median([v.value for v in group]))
        for group in groups
    )


def _figure(value: float, direction: Direction) -> float:
    """A value as the rule's figure, above 0 worse; nothing at all as the least that there is."""
    figure = math.log(max(value, SMALLEST))
    return figure if direction is Direction.LOWER else -figure


def _value(figure: float, direction: Direction) -> float:
    return math.exp(figure if direction is Direction.LOWER else -figure)


def _worse(off: float, direction: Direction) -> float:
    """A difference of figures as people say it: 0.05 is 5 % more time, or 5 % less speed."""
    return math.expm1(off) if direction is Direction.LOWER else -math.expm1(-off)
