"""Everything that there is to tell of a night; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from runci.config.perf import Config
from runci.nightly.notify.body import Links
from runci.nightly.notify.model import Issue, Now, Topic
from runci.nightly.notify.nights import nights_topic
from runci.nightly.notify.series import Context, series_topics
from runci.nightly.verdict import Verdicts
from runci.text.markdown import code


def about(issues: Sequence[Issue], config: Config) -> tuple[Issue, ...]:
    """The issues about this configuration's history."""
    return tuple(issue for issue in issues if issue.memory.history in ("", config.branch))


def topics(
    verdicts: Verdicts, issues: Sequence[Issue], links: Links, config: Config
) -> Iterable[Topic]:
    """Missing nights first, then machines and series, worst first, then what nobody judges."""
    context = Context(issues, links, verdicts.suites, config.renames, config.rule.min_change)
    found = [nights_topic(verdicts, issues, links), *series_topics(verdicts.verdicts, context)]
    if verdicts.verdicts:
        found += _ended(found, verdicts.night, issues)
    return (replace(topic, history=config.branch) for topic in found)


def _ended(found: Sequence[Topic], night: str, issues: Sequence[Issue]) -> list[Topic]:
    """What an issue is about and no verdict: a series with an open regression always has one."""
    known = {key for topic in found for key in (topic.key, *topic.aliases)}
    over = (
        f"**Ended:** on {code(night)} there is no verdict on it any more. It was accepted, or is "
        "measured no longer."
    )
    keys = dict.fromkeys(issue.memory.key for issue in issues)
    return [Topic(key, Now.OVER, night, over=over) for key in keys if key not in known]
