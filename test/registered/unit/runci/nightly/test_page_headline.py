"""The headline of a night: its mood, its sentence, and what else to know."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

import perf_world as sim
from perf_pages import PLAN, verdicts

from runci import register_cpu_ci
from runci.nightly.history.lines import SuiteNight
from runci.nightly.page.headline import Mood, headline
from runci.nightly.verdict import Status, Verdicts

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

FAILED = (SuiteNight("nightly-x", 9, 1, 0, ("t",)),)


@pytest.mark.parametrize(
    ("given", "mood", "text", "said"),
    [
        (verdicts(Status.STEADY), Mood.GOOD, "Nothing got worse.", "steady"),
        (verdicts(Status.STEADY, Status.IMPROVEMENT), Mood.GOOD, "Nothing got worse.", "steady"),
        (verdicts(Status.STEADY, Status.NOISY), Mood.WARN, "Nothing got worse.", "steady"),
        (
            verdicts(Status.STEADY, missing=("2026-11-28",)),
            Mood.WARN,
            "Nothing got worse.",
            "1 missing",
        ),
        (verdicts(), Mood.WARN, "Nothing was measured.", "nothing measured"),
        (verdicts(Status.MISSING), Mood.WARN, "Nothing was measured.", "nothing measured"),
        (
            verdicts(Status.TOO_LITTLE, Status.MISSING),
            Mood.WARN,
            "Nothing can be said yet: too little history.",
            "too little history",
        ),
        (
            verdicts(Status.STEADY, suites=FAILED),
            Mood.BAD,
            "Nightly tests failed: nightly-x.",
            "tests failed",
        ),
        (
            verdicts(suites=(SuiteNight("y", 0, 0, 0, (), ("no result of test_z.py",)),)),
            Mood.BAD,
            "Nightly tests failed: y.",
            "tests failed",
        ),
    ],
)
def test_the_headline(given: Verdicts, mood: Mood, text: str, said: str) -> None:
    found = headline(given)
    assert (found.mood, found.text, found.badge) == (mood, text, said)


def test_the_headline_of_regressions_names_them() -> None:
    worse = sim.verdict(PLAN, Status.REGRESSION, change=0.0523, since="2026-11-20")
    found = headline(Verdicts(sim.night(0), "", (worse,), suites=FAILED))
    assert found.text == "1 regression: kernel (5.2 % worse since 2026-11-20)."
    assert (found.mood, found.badge) == (Mood.BAD, "1 regression")
    assert "Nightly tests failed: nightly-x." in found.more
    found = headline(verdicts(*[Status.REGRESSION] * 5, Status.STEADY))
    assert found.text.startswith("5 regressions: m0 (")
    assert found.text.endswith(" and 2 more.")
    assert found.badge == "5 regressions"


def test_the_headline_tells_what_else_to_know() -> None:
    watched = sim.verdict(replace(PLAN, metric="maybe"), watch=True)
    found = headline(
        verdicts(Status.NOISY, Status.MISSING, Status.RECOVERED, Status.TOO_LITTLE, Status.STEADY)
    )
    assert found.more == (
        "1 metric too noisy to judge: m0.",
        "1 metric not measured: m1.",
        "1 metric recovered: m2.",
        "1 metric with too little history.",
    )
    assert headline(Verdicts("", "", (watched,))).more == (
        "1 metric to watch, not confirmed: maybe.",
    )


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
