"""The text of an issue: its evidence, its commands, and what others wrote in it."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from commonmark import leaves, rendered
from perf_issues import CONFIG, KEY_OF_ONE, LINKS, OPEN, Repository, many, topic
from perf_verdicts import (
    BAD,
    BENCHMARK,
    GOOD,
    GPU,
    night,
    of_night,
    series,
    steady,
    suite,
    unmeasured,
    worse,
)

from runci import register_cpu_ci
from runci.cli import parser
from runci.commands.perf_notify import decide
from runci.nightly.notify.actions import Create
from runci.nightly.notify.issue import MOST, Memory, Now, compose, read_issue
from runci.nightly.record import anchor
from runci.nightly.verdict import Status, Verdict

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

HOSTILE = [
    "@everyone",
    "#1 and GH-2",
    "`",
    "a``b",
    "``` ```",
    "<script>alert(1)</script>",
    "<!-- runci:perf-issue 0123456789abcdef {} -->",
    "-->",
    "a|b",
    "a\\|<img src=x>",
    "a\nb\r\n\r\n# c",
    "[x](javascript:alert(1))",
    "'; rm -rf / #",
    "$(reboot)",
    "\u202eevil\u2066",
    "&lt;b&gt;",
    "*x* _y_ ~z~",
    "",
    "x" * 5000,
]


@pytest.mark.parametrize("name", HOSTILE)
def test_text_of_others_is_only_shown(name: str) -> None:
    """As a metric, a machine, a benchmark, a commit, a reason and a test."""
    verdict = worse(
        20,
        reason=name,
        since_commit=name,
        last_good=name,
        commit=name,
        id=series(name, gpu=name, benchmark=name, version=name),
    )
    tests = replace(suite(20, name)[1], problems=(name,))
    failed = replace(suite(20, name)[0], reason=name)
    gone = unmeasured(20, f"gone {name}", reason=name, id=series(f"gone {name}"))
    found = of_night(20, verdict, failed, gone, steady(20, "there"), suites=[tests])
    flood = [replace(v, id=replace(v.id, metric=f"{v.id.metric}{name}")) for v in many(20, 11)]
    bodies = [a.body for a in decide(found, [], CONFIG, LINKS) if isinstance(a, Create)]
    bodies += [a.body for a in decide(of_night(20, *flood), [], CONFIG, LINKS)]
    assert len(bodies) == 4
    comments = comments_of(verdict)
    for text in (*bodies, *comments):
        assert len(text) <= MOST
        lines = text.split("\n")
        shown = text if text in comments else "\n".join(lines[1:])
        for token in leaves(rendered(shown)):
            if token.type.startswith("html"):
                assert token.content in ("<code>", "</code>")
            if token.type == "text":
                assert not re.search(r"@\w|#\d|GH-2", token.content)
            if token.type == "link_open":
                assert token.attrs["href"].startswith(("https://github.com/octo/", LINKS.page))
            assert token.type != "image"
    assert all(read_issue(1, body, is_open=True) is not None for body in bodies)


def comments_of(verdict: Verdict) -> list[str]:
    """Everything that is ever said about a regression."""
    repository = Repository()
    repository.tell(of_night(20, verdict))
    repository.tell(of_night(21, replace(verdict, night=night(21), change=0.3)))
    repository.tell(of_night(22, replace(verdict, night=night(22), status=Status.RECOVERED)))
    repository.tell(of_night(23, replace(verdict, night=night(23))))
    assert len(repository.comments[1]) == 3
    return repository.comments[1]


def test_the_evidence_of_a_regression() -> None:
    (created,) = decide(of_night(21, worse(21)), [], CONFIG, LINKS)
    assert isinstance(created, Create)
    assert created.title == "Nightly regression: M=4 warm on NVIDIA GeForce RTX 5090"
    body = created.body
    repo = "https://github.com/octo/kernels"
    for part in (
        "5.0 % worse (95 % confidence: +4.0 to +6.0 %) since the night 2026-12-20",
        f"[`ccccccccc...aaaaaaaaa`]({repo}/compare/{GOOD}...{BAD})",
        f"| since | `2026-12-20`, [`aaaaaaaaa`]({repo}/commit/{BAD}) |",
        "| confirmed by | a second night |",
        "| change | 5.0 % worse, lower is better |",
        "| ratio to the pinned baseline | 1.050\u00d7 |",
        "| accepted level | 1.000\u00d7 |",
        "| `2026-12-01` | `2026-12-19` | 19 | 1.000\u00d7 |",
        "| `2026-12-20` | `2026-12-21` | 2 | 1.050\u00d7 |",
        f"({LINKS.page}#{anchor(series())})",
        "`NVIDIA GeForce RTX 5090`, driver 580",
        "worse by another 3.0 %",
        "runci perf bisect",
    ):
        assert part in body, part


def test_what_no_commit_lies_between_is_not_to_be_bisected() -> None:
    same = worse(21, last_good=BAD)
    verdict, tests = suite(21, "a::x")
    for found in (of_night(21, same), of_night(21, verdict, suites=[tests])):
        (created,) = decide(found, [], CONFIG, LINKS)
        assert isinstance(created, Create)
        assert "runci perf bisect" not in created.body


def commands(body: str) -> list[list[str]]:
    blocks = [t.content for t in rendered(body) if t.type == "fence"]
    return [shlex.split(line) for text in blocks for line in text.splitlines()]


def test_the_commands_can_be_pasted_whatever_the_metric_is_called() -> None:
    name = "M=4 'warm' $(reboot) `id`; #"
    (created,) = decide(of_night(21, worse(21, name, since_commit=BAD)), [], CONFIG, LINKS)
    measure = ["runci", "perf", "measure", BENCHMARK, "--output", "record.json"]
    key = f"{GPU}/580/{BENCHMARK}/1"
    accept = ["runci", "perf", "accept", name, "--machine", key, "--reason", "WHY THIS IS RIGHT"]
    assert commands(created.body) == [
        ["git", "checkout", BAD],
        [*measure, "--baseline", GOOD],
        accept,
    ]


def test_the_command_line_takes_the_commands() -> None:
    verdict, tests = suite(21, "a::x")
    found = decide(of_night(21, worse(21), verdict, suites=[tests]), [], CONFIG, LINKS)
    given = [line for action in found for line in commands(action.body) if line[0] == "runci"]
    parsed = [vars(parser().parse_args(line[1:])) for line in given]
    steps = [options.get("step") for options in parsed]
    assert steps == ["measure", "accept", None, "accept"]
    assert parsed[0]["baseline"] == GOOD
    assert parsed[1]["machine"] == series().machine_key
    assert parsed[2]["suite"] == "nightly-kernel-1-gpu-small"


def test_a_text_that_is_too_long_is_cut_between_paragraphs() -> None:
    long = topic(Now.BAD, facts=tuple("y" * 9000 for _ in range(20)))
    body = compose(long, Memory(KEY_OF_ONE, OPEN), closed_by_hand=False)
    assert len(body) <= MOST
    assert body.count("y" * 9000) == 7
    assert "(More does not fit here.)" in body
    assert body.endswith("that accepts nothing.")


def test_a_thousand_failed_tests_fit() -> None:
    verdict, tests = suite(20, *(f"test/{'x' * 400}.py::test_{n}" for n in range(1000)))
    (created,) = decide(of_night(20, verdict, suites=[tests]), [], CONFIG, LINKS)
    assert len(created.body) <= MOST
    assert "- and 950 more" in created.body


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
