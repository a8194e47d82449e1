"""The summary of a night, as a reader of Markdown sees it."""

from __future__ import annotations

import html
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

import perf_world as sim
from perf_pages import PLAN, shown

from runci import register_cpu_ci
from runci.nightly.history.lines import History, SuiteNight
from runci.nightly.page.markdown import summary
from runci.nightly.page.view import view
from runci.nightly.verdict import Status, Verdicts

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


def table_rows(text: str) -> list[list[str]]:
    """The cells of every table, as a reader of Markdown sees them."""
    page = MarkdownIt("js-default").enable("table").render(text)
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [[html.unescape(re.sub(r"<[^>]*>", "", cell)) for cell in row] for row in cells]


def test_the_summary_lists_what_is_not_steady() -> None:
    page = shown(sim.busy())
    text = summary(page)
    rows = table_rows(text)
    named = {row[1] for row in rows if len(row) == 7}
    assert named == {"metric"} | {row.metric for row in page.rows if row.status != "steady"}
    slow = next(row for row in rows if row[1] == "this kernel M=4 warm")
    assert slow[:4] == [
        "✗ regression",
        "this kernel M=4 warm",
        page.rows[0].value,
        f"{page.rows[0].change} ({page.rows[0].interval})",
    ]
    assert "Of 11 metrics: 2 regression, 1 noisy" in text
    assert [sim.night(20), "run 8980", "no GPU answered"] in rows
    assert ["nightly-sanitizer", "12", "0", "0", ""] in rows
    assert text.startswith("### Nightly 2026-11-29: 2 regressions")


def test_the_summary_links_to_the_page() -> None:
    page, address = shown(sim.busy()), "https://octo.github.io/kernels/"
    rendered = MarkdownIt("js-default").enable("table").render(summary(page, address))
    links = dict(re.findall(r'<a href="([^"]*)">([^<]*)</a>', rendered))
    assert links[address] == "The whole report of this night"
    for row in page.rows:
        assert (f"{address}#{row.anchor}" in links) == (row.status != "steady")
    assert links[f"{address}#{page.rows[0].anchor}"] == page.rows[0].metric
    assert "The whole report" not in summary(page)


def test_a_quiet_summary_has_no_table() -> None:
    text = summary(shown(sim.world([(sim.series(PLAN), sim.verdict(PLAN))])))
    assert "|" not in text
    assert "Nothing got worse." in text


def test_hostile_texts_stay_texts_in_the_summary() -> None:
    page = shown(sim.hostile())
    text = summary(page)
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    tags = set(re.findall(r"<(\w+)", rendered))
    assert tags <= {"h3", "p", "ul", "li", "table", "thead", "tbody", "tr", "th", "td"}
    rows = [row for row in table_rows(text) if len(row) == 7]
    assert len(rows) == 1 + len(sim.HOSTILE)
    assert {len(row) for row in table_rows(text)} == {7, 5, 3}
    seen = {row[1].replace("\u200b", "") for row in rows}
    assert set(sim.HOSTILE[:4]) <= seen
    assert "\\|" not in text  # in a table two of GitHub's readers take it in two ways
    assert "@octo" not in rendered  # it would notify somebody
    assert "#1" not in rendered


def test_the_summary_stays_small() -> None:
    name = "|" * 3000
    judged = [
        sim.verdict(replace(PLAN, metric=f"{i} {name}"), Status.REGRESSION, reason=name)
        for i in range(3000)
    ]
    suites = tuple(SuiteNight(name, 1, 1, 1, (name,) * 50) for _ in range(300))
    given = Verdicts("n", "", tuple(judged), (name,) * 3000, suites, (name,) * 3000)
    text = summary(view(given, History()))
    assert len(text.encode()) < 1024 * 1024
    assert "And 2,950 more verdicts" in text


def test_metrics_of_one_cause_stand_below_one_row() -> None:
    lines = [line.split(" | ") for line in summary(shown(sim.one_cause(14))).splitlines()]
    lead = next(i for i, line in enumerate(lines) if line[1:2] == ["14 metrics"])
    assert "/compare/" in lines[lead][4]
    assert "/issues?q=" in lines[lead][4]
    assert all(
        "kernel M=" in line[1] and "[" not in line[4] for line in lines[lead + 1 : lead + 15]
    )


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
