"""An issue: what it remembers in its mark, the topic that it tells of, and its text; pure.

Names, reasons and tests are text of others: they stand in code spans or are escaped.
"""

from __future__ import annotations

import enum
import hashlib
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from runci.core.errors import RunciError
from runci.nightly.bisect import Searched
from runci.nightly.history.additions import SUITES
from runci.nightly.history.lines import SuiteNight
from runci.nightly.page import words
from runci.nightly.record import EXACT, SeriesId, anchor
from runci.nightly.verdict import Confirmed, Verdict
from runci.text.markdown import block, code, escaped, one_line
from runci.text.tables import render_markdown
from runci.text.wording import plural


class Stage(str, enum.Enum):
    """What an issue says of its topic."""

    OPEN = "open"
    OVER = "over"
    DUPLICATE = "duplicate"  # of an older issue, which goes on


@dataclass(frozen=True, slots=True)
class Memory:
    """What an issue remembers from night to night, in its mark.

    `night` is the newest one told of. `worst` is the largest change told of (relative, above 0 is
    worse), `members` are digests of what it was opened for or commented on, `until` is the newest
    missing night told of, `page` the report that it links to, `history` the branch that it is
    about: two nightlies of one repository leave each other's issues alone. `culprit` is the commit
    that a bisection found, `bisected` the digest of what was said of the last one.
    """

    key: str
    stage: Stage
    night: str = ""
    worst: float | None = None
    members: tuple[str, ...] = ()
    until: str = ""
    page: str = ""
    history: str = ""
    culprit: str = ""
    bisected: str = ""


@dataclass(frozen=True, slots=True)
class Issue:
    """One of our issues; `body` has newlines only as `\\n`, and no space around it."""

    number: int
    is_open: bool
    body: str
    memory: Memory


class Now(enum.Enum):
    """What the verdicts say of a topic. UNKNOWN: nothing that would change an issue."""

    BAD = "bad"
    OVER = "over"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Topic:
    """One thing that an issue can be about; texts are Markdown, `title` is plain.

    `aliases` are the keys of its former names. `facts` are the body's paragraphs, `standing` its
    sentence about how long this has lasted, `over` the comment that closes it. `news` is what was
    added to `members`. `min_change` is how much more of `change` is worth a comment.
    `culprit` is the commit that a bisection found, `bisected` what is said of one of this run.
    """

    key: str
    now: Now
    night: str
    title: str = ""
    facts: tuple[str, ...] = ()
    standing: str = ""
    over: str = ""
    back: str = ""
    news: str = ""
    change: float | None = None
    min_change: float = 0.03
    members: tuple[str, ...] = ()
    until: str = ""
    page: str = ""
    history: str = ""
    aliases: tuple[str, ...] = ()
    culprit: str = ""
    bisected: str = ""


def main_issue(issues: Sequence[Issue], key: str, aliases: Sequence[str] = ()) -> Issue | None:
    """The topic's oldest issue that is no duplicate."""
    ours = [i for i in about_topic(issues, key, aliases) if i.memory.stage is not Stage.DUPLICATE]
    return min(ours, key=lambda issue: issue.number, default=None)


def about_topic(issues: Sequence[Issue], key: str, aliases: Sequence[str]) -> list[Issue]:
    """Every issue about a topic."""
    return [issue for issue in issues if issue.memory.key in (key, *aliases)]


BISECT = (
    "`runci perf bisect METRIC`, or «Run workflow» of the nightly with the metric in `bisect`, "
    "finds the commit among them."
)
MOST = 65_536  # characters that GitHub stores of a text
_MARK = re.compile(r"<!-- runci:perf-issue ([0-9a-f]{16}) (.*)-->")
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.\[\]:-]+(?:/[A-Za-z0-9._~/?&=%+,;:@-]*)?")


@dataclass(frozen=True, slots=True)
class Links:
    """`repository` such as https://github.com/octo/kernels, and the report; empty: no links."""

    repository: str = ""
    page: str = ""

    def for_issue(self, issue: Issue | None) -> Links:
        """With the page that an issue links to where none is known now, as when nights are watched.

        Whoever may edit the issue may have written another: only an address is taken.
        """
        if self.page or issue is None or not _ADDRESS.fullmatch(issue.memory.page):
            return self
        return replace(self, page=issue.memory.page)

    def commit(self, commit: str | None) -> str:
        """A commit's first digits, as Markdown."""
        if not commit:
            return "not known"
        url = words.commit_page(self.repository, commit)
        return _linked(words.short(commit), url)

    def range(self, good: str | None, bad: str | None) -> str:
        """All commits after `good` up to `bad`, as Markdown; empty where one is not known."""
        if not good or not bad:
            return ""
        url = words.commit_page(self.repository, bad, good)
        return _linked(f"{words.short(good)}...{words.short(bad)}", url)

    def report(self, anchor: str = "") -> str:
        """The page, as Markdown; empty where there is none."""
        if not self.page:
            return ""
        return f"[the report of the night]({self.page}{f'#{anchor}' if anchor else ''})"


def _linked(text: str, url: str | None) -> str:
    return f"[{code(text)}]({url})" if url else code(text)


def make_links(server: str, repository: str, page: str | None) -> Links:
    """Checks what goes into links. Raises RunciError for an address of the page that is none."""
    if page and not _ADDRESS.fullmatch(page):
        raise RunciError(f"--page {page!r} is no address, such as https://octo.github.io/kernels/")
    base = f"{server.rstrip('/')}/{repository}"
    return Links(base if repository and _ADDRESS.fullmatch(base) else "", page or "")


def key_of(*parts: str) -> str:
    """A topic's key. A series has its digest instead."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def mark(memory: Memory) -> str:
    """The line; nothing in it can end the comment."""
    data = msgspec.json.encode(memory, order="sorted").decode()
    return f"<!-- runci:perf-issue {memory.key} {data.replace('>', chr(92) + 'u003e')} -->"


def read_issue(number: int, body: str, *, is_open: bool) -> Issue | None:
    """An issue that our account wrote; None without our mark, on a line of its own.

    Whoever may edit the issue may write above it, and can spoil the rest of the line; then it
    remembers only its topic.
    """
    text = re.sub(r"\r\n?", "\n", body).strip()
    found = _marked(text)
    if found is None:
        return None
    try:
        memory = msgspec.json.decode(found[2], type=Memory)
    except (msgspec.DecodeError, RecursionError):
        memory = Memory("", Stage.OPEN)
    if memory.key != found[1]:
        memory = Memory(found[1], Stage.OPEN if is_open else Stage.OVER)
    return Issue(number, is_open, text, memory)


def _marked(text: str) -> re.Match[str] | None:
    """The first line that is our mark; one within a block of code is a quotation."""
    fenced = False
    for line in text.split("\n"):
        fenced ^= line.lstrip().startswith("```")
        if not fenced and (found := _MARK.fullmatch(line.strip())):
            return found
    return None


def short_digests(names: Iterable[str]) -> tuple[str, ...]:
    """What `Memory.members` keeps of names, sorted."""
    return tuple(sorted({hashlib.sha256(name.encode()).hexdigest()[:12] for name in names}))


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
    """The body as it was, with another mark and, after it, another paragraph."""
    found = _marked(body)
    above, _, below = body.partition(found[0]) if found else ("", "", body)
    _, _, evidence = below.strip().partition("\n\n")
    parts = (above.strip(), mark(memory), over, evidence)
    return "\n\n".join(part for part in parts if part)


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


MOST_LISTED = 50  # tests, metrics or nights in one list


def title(verdict: Verdict) -> str:
    """Plain text: GitHub shows no Markdown in titles."""
    return one_line(f"Nightly regression: {verdict.id.metric} on {verdict.id.gpu}", 200)


def is_suite(series: SeriesId) -> bool:
    """Whether this is a suite of nightly tests, and no metric of a benchmark."""
    return series.benchmark == SUITES


def said_of(verdict: Verdict) -> str:
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
        return f"**Open since the night {verdict.night}.** {said_of(verdict)}."
    return f"**Still open on {verdict.night}, {plural(nights, 'nights')}.** {said_of(verdict)}."


def evidence(verdict: Verdict, suites: Sequence[SuiteNight], links: Links) -> Iterable[str]:
    """The paragraphs."""
    if verdict.reason:
        yield escaped(verdict.reason)
    yield _table(verdict, links)
    yield from failures(suites)
    if len(verdict.segments) > 1:
        yield _levels(verdict)
    yield f"To see it again, on a machine of this kind:\n\n{block(reproduce(verdict), 'sh')}"
    if verdict.unit != EXACT and verdict.last_good != verdict.since_commit:
        yield BISECT
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
