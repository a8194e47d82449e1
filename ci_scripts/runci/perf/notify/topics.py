"""Everything that there is to tell of a night; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runci.perf.config import Config
from runci.perf.notify.links import Links
from runci.perf.notify.model import Issue, Topic
from runci.perf.notify.nights import nights_topic
from runci.perf.notify.series import Context, series_topics
from runci.perf.verdict import Verdicts


def topics(
    verdicts: Verdicts, issues: Sequence[Issue], links: Links, config: Config
) -> Iterable[Topic]:
    """Missing nights first, then machines and series, worst first."""
    yield nights_topic(verdicts, issues, links)
    context = Context(issues, links, verdicts.suites, config.renames, config.rule.min_change)
    yield from series_topics(verdicts.verdicts, context)
