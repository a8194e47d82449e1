"""The night in one line, and in a badge."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from runci.nightly.page import words
from runci.nightly.verdict import Status, Verdict, Verdicts, grouped
from runci.text.wording import plural, some

LABEL = "nightly"
_SILENT = (Status.MISSING, Status.TOO_LITTLE)  # such verdicts say nothing of the night
_HEIGHT, _PADDING = 20, 6
_NARROW, _WIDE = frozenset("fijlrtI1.,:;'|! "), frozenset("mwMW@%")


class Mood(str, enum.Enum):
    """How the night looks: the colour of the headline and of the badge."""

    BAD = "bad"
    WARN = "warn"
    GOOD = "good"


COLOURS: Mapping[Mood, str] = {
    Mood.BAD: "#c0392b",
    Mood.WARN: "#9a6700",
    Mood.GOOD: "#1a7f37",
}


@dataclass(frozen=True, slots=True)
class Headline:
    """`text` is the first sentence, `more` what follows it, `badge` a word or two."""

    mood: Mood
    text: str
    badge: str
    more: tuple[str, ...] = ()


def headline(verdicts: Verdicts) -> Headline:
    """Judge a night. Bad: a regression or failed tests; a warning: something nobody can say."""
    counts = Counter(v.status for v in verdicts.verdicts)
    bad = tuple(_bad(verdicts, counts))
    doubts = tuple(_doubts(verdicts, counts))
    news = tuple(_news(verdicts, counts))
    if bad:
        return Headline(Mood.BAD, bad[0], _bad_badge(verdicts), bad[1:] + doubts + news)
    if all(v.status in _SILENT for v in verdicts.verdicts):
        text, badge = _nothing(verdicts, counts)
        return Headline(Mood.WARN, text, badge, doubts + news)
    mood = Mood.WARN if doubts else Mood.GOOD
    badge = f"{len(verdicts.missing)} missing" if verdicts.missing else "steady"
    return Headline(mood, "Nothing got worse.", badge, doubts + news)


def badge(night: str, headline: Headline) -> str:
    """A well-formed SVG file; its title says the same, and of which night."""
    left, right = _width(LABEL), _width(headline.badge)
    title = f"{LABEL}: {headline.badge} ({night})"
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{_HEIGHT}" \
role="img" aria-label={quoteattr(title)}>
<title>{escape(title)}</title>
<clipPath id="round"><rect width="{left + right}" height="{_HEIGHT}" rx="3"/></clipPath>
<g clip-path="url(#round)">
<rect width="{left}" height="{_HEIGHT}" fill="#444d56"/>
<rect x="{left}" width="{right}" height="{_HEIGHT}" fill="{COLOURS[headline.mood]}"/>
</g>
<g fill="#ffffff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
{_text(LABEL, 0, left)}
{_text(headline.badge, left, right)}
</g>
</svg>
"""


def _bad(verdicts: Verdicts, counts: Counter[Status]) -> Iterable[str]:
    if counts[Status.REGRESSION]:
        found = grouped([v for v in verdicts.verdicts if v.status is Status.REGRESSION])
        named = some([f"{_names(those)}{_worse(_worst(those))}" for those in found])
        yield f"{plural(len(found), 'regressions')}: {named}."
    failed = _failed(verdicts)
    if failed:
        yield f"Nightly tests failed: {some(failed)}."


def _name(verdict: Verdict) -> str:
    return words.cut(verdict.id.metric)


def _worse(verdict: Verdict) -> str:
    parts = [words.change(verdict.change)] if verdict.change is not None else []
    parts += [f"since {verdict.since}"] if verdict.since else []
    return f" ({' '.join(parts)})" if parts else ""


def _names(verdicts: Sequence[Verdict]) -> str:
    """Of one cause: the metric, or the worst of several and how many there are besides."""
    rest = len(verdicts) - 1
    name = _name(_worst(verdicts))
    return f"{name} and {plural(rest, 'metrics')} with it" if rest else name


def _worst(verdicts: Sequence[Verdict]) -> Verdict:
    return max(verdicts, key=lambda v: v.change or 0.0)


def _failed(verdicts: Verdicts) -> list[str]:
    return [words.cut(s.suite) for s in verdicts.suites if s.is_bad]


def _doubts(verdicts: Verdicts, counts: Counter[Status]) -> Iterable[str]:
    if verdicts.missing:
        nights = some(sorted(verdicts.missing, reverse=True), 5)  # newest first
        yield f"{plural(len(verdicts.missing), 'nights')} missing: {nights}."
    watched = [_name(v) for v in verdicts.verdicts if v.watch]
    if watched:
        yield f"{plural(len(watched), 'metrics')} to watch, not confirmed: {some(watched)}."
    if counts[Status.NOISY]:
        noisy = [_name(v) for v in verdicts.verdicts if v.status is Status.NOISY]
        yield f"{plural(len(noisy), 'metrics')} too noisy to judge: {some(noisy)}."
    absent = [_name(v) for v in verdicts.verdicts if v.status is Status.MISSING]
    if absent:
        yield f"{plural(len(absent), 'metrics')} not measured: {some(absent)}."


def _news(verdicts: Verdicts, counts: Counter[Status]) -> Iterable[str]:
    for status, noun in ((Status.RECOVERED, "recovered"), (Status.IMPROVEMENT, "improved")):
        found = [_name(v) for v in verdicts.verdicts if v.status is status]
        if found:
            yield f"{plural(len(found), 'metrics')} {noun}: {some(found)}."
    if counts[Status.TOO_LITTLE]:
        yield f"{plural(counts[Status.TOO_LITTLE], 'metrics')} with too little history."


def _nothing(verdicts: Verdicts, counts: Counter[Status]) -> tuple[str, str]:
    if not verdicts.verdicts or not counts[Status.TOO_LITTLE]:
        return "Nothing was measured.", "nothing measured"
    return "Nothing can be said yet: too little history.", "too little history"


def _bad_badge(verdicts: Verdicts) -> str:
    found = grouped([v for v in verdicts.verdicts if v.status is Status.REGRESSION])
    return plural(len(found), "regressions") if found else "tests failed"


def _text(text: str, at: int, width: int) -> str:
    """Stretched to its field, whichever font the reader has."""
    room = f'x="{at + _PADDING}" y="14" textLength="{width - 2 * _PADDING}"'
    return f"<text {room}>{escape(text)}</text>"


def _width(text: str) -> int:
    """Of a field: about what 11 px Verdana takes, with a margin on both sides."""
    letters = sum(4.2 if c in _NARROW else 10.4 if c in _WIDE else 7.0 for c in text)
    return round(letters) + 2 * _PADDING
