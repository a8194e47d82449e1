"""The summary for a job's page: the verdict, what is not steady, missing nights, suites."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runci.nightly.page import words
from runci.nightly.page.view import Page, Row
from runci.nightly.page.words import Link
from runci.text.markdown import escaped as _escaped
from runci.text.tables import render_markdown
from runci.text.wording import some

MOST = 50  # rows of a table: GitHub drops a summary of more than 1 MiB as a whole
_LONGEST = 200  # characters of a text
_STEADY = "steady"


def escaped(text: str, longest: int = _LONGEST) -> str:
    """Text of others, also in a table: `|` as an entity, since a backslash there is doubled."""
    return _escaped(text, longest).replace("\\|", "&#124;")


def summary(page: Page, address: str = "") -> str:
    """Markdown, always far below 1 MiB. Text of others shows as it is and notifies nobody.

    `address` is where the page will be; metrics then link to their parts of it.
    """
    return "".join(_parts(page, address))


def plain_address(url: str) -> bool:
    """Whether this is an address of the web that Markdown cannot take for anything else."""
    plain = len(url) <= 500 and url.isascii() and url.isprintable()
    return plain and not set(url) & set("()<> \\|\"'`[]") and words.safe_url(url) is not None


def _parts(page: Page, address: str) -> Iterable[str]:
    where = ", ".join(map(escaped, page.machines[:3]))
    commits = ", ".join(map(_link, page.commits[:3]))
    yield f"### Nightly {escaped(page.night)}: {escaped(page.headline.text, 1000)}\n\n"
    for text in page.headline.more:
        yield f"- {escaped(text, 1000)}\n"
    if page.headline.more:
        yield "\n"
    if where or commits:
        yield f"{where}{', commit ' if where and commits else ''}{commits}\n\n"
    changed = list(_changed(page))
    if changed:
        yield _verdicts(changed, address) + _more(len(changed), "verdicts")
    if page.counts:
        counts = ", ".join(f"{count:,} {status}" for status, count in page.counts)
        yield f"Of {len(page.rows):,} metrics: {counts}.\n\n"
    if page.missing:
        rows = [(n.night, _link(n.run), escaped(n.why)) for n in page.missing[-MOST:]]
        yield render_markdown(("missing night", "run", "what is known"), rows) + "\n"
        yield _more(len(page.missing), "missing nights")
    if page.suites:
        yield _suites(page)
    for message in page.messages[:MOST]:
        yield f"- {escaped(message)}\n"
    if address:
        yield f"\n[The whole report of this night]({address})\n"


def _changed(page: Page) -> Iterable[tuple[Row, bool]]:
    """What is not steady, and whether it stands below the row of its cause."""
    for group in page.groups:
        if group.lead is not None:
            yield group.lead, False
        for row in group.rows:
            if row.status != _STEADY or row.watch:
                yield row, group.lead is not None


def _verdicts(rows: Sequence[tuple[Row, bool]], address: str) -> str:
    """Each row, and whether it stands below the row of its cause."""
    lines = [
        (
            "" if below else f"{row.symbol} {row.status}{' (watch)' if row.watch else ''}",
            ("↳ " if below else "")
            + _link(Link(row.metric, f"{address}#{row.anchor}" if address else None))
            + (f" on {escaped(row.machine)}" if row.machine else ""),
            row.value,
            row.change + (f" ({row.interval})" if row.interval != words.NONE else ""),
            _since(row, below),
            row.confirmed,
            escaped(row.reason),
        )
        for row, below in rows[:MOST]
    ]
    headers = (
        "verdict", "metric", "value", "change (95 % interval)", "since", "confirmed by", "reason",
    )  # fmt: skip
    return render_markdown(headers, lines, "<<>>") + "\n"


def _since(row: Row, below: bool) -> str:
    if row.since == words.NONE:
        return words.NONE
    issue = f", {_link(row.issue)}" if row.issue.url and not below else ""
    return f"{row.since} {_link(row.since_commit)}{issue}"


def _suites(page: Page) -> str:
    rows = [
        (
            escaped(suite.suite),
            f"{suite.executed:,}",
            f"{suite.failed:,}",
            f"{suite.skipped:,}",
            escaped(some([*suite.failures, *suite.problems], 10), 400),
        )
        for suite in page.suites[:MOST]
    ]
    headers = ("nightly tests", "executed", "failed", "skipped", "failures and problems")
    return render_markdown(headers, rows, "<>>>") + "\n"


def _more(count: int, what: str) -> str:
    return f"And {count - MOST:,} more {what}: see the page.\n\n" if count > MOST else ""


def _link(link: Link) -> str:
    text = escaped(link.text)
    if link.url is None or not plain_address(link.url):
        return text
    return f"[{text}]({link.url})"
