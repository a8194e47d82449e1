"""The evidence in an issue about one series, as paragraphs of Markdown; pure.

Names, reasons and tests are text of others: they stand in code spans or are escaped.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from runci.nightly.bisect import Searched
from runci.nightly.history.lines import SuiteNight
from runci.nightly.history.suites import BENCHMARK as SUITES
from runci.nightly.notify.body import Links
from runci.nightly.page import words
from runci.nightly.record import EXACT, SeriesId, anchor
from runci.nightly.verdict import Confirmed, Verdict
from runci.text.markdown import block, code, escaped, one_line
from runci.text.tables import render_markdown
from runci.text.wording import plural

MOST_LISTED = 50  # tests, metrics or nights in one list


def title(verdict: Verdict) -> str:
    """Plain text: GitHub shows no Markdown in titles."""
    return one_line(f"Nightly regression: {verdict.id.metric} on {verdict.id.gpu}", 200)


def is_suite(series: SeriesId) -> bool:
    """Whether this is a suite of nightly tests, and no metric of a benchmark."""
    return series.benchmark == SUITES


def summary(verdict: Verdict) -> str:
    """What got worse, by how much, since when: one sentence without its full stop."""
    name = code(verdict.id.metric)
    if verdict.unit == EXACT:
        text = f"{name} fails"
    elif verdict.change is None:
        text = f"{name} is worse"
    elif verdict.confirmed_by is Confirmed.BUDGET:
        text = f"{name} is {words.percent(verdict.change)} over its budget"
    else:
        text = f"{name} is {words.change(verdict.change)}"
        if verdict.low is not None and verdict.high is not None:
            text += f" (95 % confidence: {words.interval(verdict.low, verdict.high)})"
    return text + (f" since the night {verdict.since}" if verdict.since else "")


def standing(verdict: Verdict) -> str:
    """How long it has lasted."""
    first, last = words.day(verdict.since or verdict.night), words.day(verdict.night)
    nights = last - first + 1 if first is not None and last is not None else 1
    if nights <= 1:
        return f"**Open since the night {verdict.night}.** {summary(verdict)}."
    return f"**Still open on {verdict.night}, {plural(nights, 'nights')}.** {summary(verdict)}."


def evidence(verdict: Verdict, suites: Sequence[SuiteNight], links: Links) -> Iterable[str]:
    """The paragraphs."""
    if verdict.reason:
        yield escaped(verdict.reason)
    yield _table(verdict, links)
    yield from failures(suites)
    if len(verdict.segments) > 1:
        yield _levels(verdict)
    yield f"To see it again, on a machine of this kind:\n\n{block(reproduce(verdict), 'sh')}"
    accept = block([accepting(verdict)], "sh")
    yield f"If this is right as it is now, say so, and the issue closes:\n\n{accept}"


def _table(verdict: Verdict, links: Links) -> str:
    series = verdict.id
    driver = f", driver {series.driver_major}" if series.driver_major else ""
    rows = [("metric", code(series.metric)), ("machine", f"{code(series.gpu)}{driver}")]
    if not is_suite(series):
        rows.append(("benchmark", f"{code(series.benchmark)}, version {code(series.version)}"))
    if verdict.unit != EXACT:
        rows += [
            ("change", f"{words.change(verdict.change)}, {words.better(verdict.direction)}"),
            ("95 % confidence", words.interval(verdict.low, verdict.high)),
            ("ratio to the pinned baseline", words.ratio(verdict.value)),
            ("accepted level", words.ratio(verdict.level)),
        ]
    rows += [
        ("since", f"{code(verdict.since or 'not known')}, {links.commit(verdict.since_commit)}"),
        ("commits", links.range(verdict.last_good, verdict.since_commit) or "not known"),
        ("confirmed by", _confirmed(verdict)),
        ("last night", f"{code(verdict.night)}, {links.commit(verdict.commit)}"),
    ]
    if links.page:
        rows.append(("report", links.report(anchor(series))))
    return render_markdown(("", ""), rows).rstrip()


def _confirmed(verdict: Verdict) -> str:
    by = verdict.confirmed_by
    return "nothing more: one failure is enough" if by is Confirmed.EXACT else by.value


def failures(suites: Sequence[SuiteNight]) -> Iterable[str]:
    """A list a suite that has something to list."""
    for suite in suites:
        found = [*suite.failures, *suite.problems]
        if not found and not suite.failed:
            continue
        counted = f"{plural(suite.failed, 'tests')} of {suite.executed:,} failed"
        yield "\n".join([f"In {code(suite.suite)}, {counted}:", "", *listed(found)])


def listed(names: Sequence[str]) -> Iterable[str]:
    """The lines of a list; a long one is cut, and says so."""
    yield from (f"- {code(name, 300)}" for name in names[:MOST_LISTED])
    if len(names) > MOST_LISTED:
        yield f"- and {len(names) - MOST_LISTED:,} more"


def _levels(verdict: Verdict) -> str:
    rows = [
        (code(part.first), code(part.last), f"{part.points:,}", words.ratio(part.level))
        for part in verdict.segments[-MOST_LISTED:]
    ]
    return render_markdown(("from", "to", "nights", "ratio"), rows, "<<>>").rstrip()


def bisected(searched: Searched, links: Links) -> str:
    """What a bisection came to."""
    name = code(searched.series.metric)
    text = f"**Bisected:** {name}, {escaped(searched.said)}."
    if searched.culprit:
        by = f" of {escaped(searched.author)}: {escaped(searched.subject)}"
        return f"{text} {links.commit(searched.culprit)}{by}"
    return "\n".join([text, "", *(f"- {links.commit(each)}" for each in searched.suspects)]).strip()


def reproduce(verdict: Verdict) -> list[str]:
    """The commands that run the suite again, or measure the first bad commit against a good one."""
    bad, good = verdict.since_commit or verdict.commit, verdict.last_good
    checkout = [shlex.join(["git", "checkout", bad])] if bad else []
    if is_suite(verdict.id):
        suite = verdict.id.metric.removeprefix("suite ").partition(" (")[0]
        return [*checkout, shlex.join(["runci", "run", "--suite", suite])]
    measure = ["runci", "perf", "measure", verdict.id.benchmark, "--output", "record.json"]
    measure += ["--baseline", good] if good else []
    return [*checkout, shlex.join(measure)]


def accepting(verdict: Verdict) -> str:
    """The command that makes the level the new normal."""
    accept = ["runci", "perf", "accept", verdict.id.metric, "--machine", verdict.id.machine_key]
    return shlex.join([*accept, "--reason", "WHY THIS IS RIGHT"])
