"""Verdicts as `runci perf check` writes them, for tests of what is told of them."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from runci.nightly.history.additions import series_of
from runci.nightly.history.lines import SuiteNight
from runci.nightly.record import EXACT, Direction, SeriesId
from runci.nightly.verdict import Confirmed, Segment, Status, Verdict, Verdicts

GPU = "NVIDIA GeForce RTX 5090"
BENCHMARK = "sm120_ba_gemm"
BAD, GOOD, TIP = "a" * 40, "c" * 40, "d" * 40
FIRST = datetime.date(2026, 12, 1)


def night(number: int) -> str:
    """The date of night `number`, from 1 on."""
    return (FIRST + datetime.timedelta(days=number - 1)).isoformat()


def series(metric: str = "M=4 warm", **changes: Any) -> SeriesId:
    return replace(SeriesId(metric, BENCHMARK, "1", GPU, 580), **changes)


def commit_of(metric: str) -> str:
    return hashlib.sha1(metric.encode()).hexdigest()


def steady(number: int, metric: str = "M=4 warm", **changes: Any) -> Verdict:
    """A metric at its level."""
    usual = Verdict(
        id=series(metric),
        unit="us",
        direction=Direction.LOWER,
        status=Status.STEADY,
        reason="at its level",
        night=night(number),
        commit=TIP,
        points=20,
        value=1.0,
        level=1.0,
        change=0.0,
        low=-0.01,
        high=0.01,
    )
    return replace(usual, **changes)


def worse(
    number: int, metric: str = "M=4 warm", change: float = 0.05, since: int = 20, **changes: Any
) -> Verdict:
    """A confirmed regression, by a commit of its own."""
    usual = steady(
        number,
        metric,
        status=Status.REGRESSION,
        reason="worse since then",
        value=1.0 + change,
        change=change,
        low=change - 0.01,
        high=change + 0.01,
        since=night(since),
        since_commit=BAD if metric == "M=4 warm" else commit_of(metric),
        last_good=GOOD,
        confirmed_by=Confirmed.SECOND_NIGHT,
        segments=(
            Segment(night(1), night(since - 1), since - 1, 1.0),
            Segment(night(since), night(number), number - since + 1, 1.0 + change),
        ),
    )
    return replace(usual, **changes)


def recovered(number: int, metric: str = "M=4 warm", **changes: Any) -> Verdict:
    return steady(number, metric, status=Status.RECOVERED, reason="back at 1.0", **changes)


def unmeasured(number: int, metric: str = "M=4 warm", **changes: Any) -> Verdict:
    """A metric without figures on this night."""
    bare = {"value": None, "change": None, "low": None, "high": None, "reason": "no run"}
    return steady(number, metric, status=Status.MISSING, **{**bare, **changes})


def suite(number: int, *failures: str, **changes: Any) -> tuple[Verdict, SuiteNight]:
    """A suite of nightly tests: failed where it has failures."""
    name = "nightly-kernel-1-gpu-small"
    bare: dict[str, Any] = {"value": None, "level": None, "change": None, "low": None, "high": None}
    failed: dict[str, Any] = {
        "status": Status.REGRESSION,
        "since": night(number),
        "since_commit": BAD,
        "last_good": GOOD,
        "confirmed_by": Confirmed.EXACT,
    }
    verdict = steady(
        number,
        unit=EXACT,
        direction=Direction.HIGHER,
        id=series_of(name, "1-gpu-5090"),
        **{**bare, **(failed if failures else {}), **changes},
    )
    return verdict, SuiteNight(name, 40, len(failures), 0, failures)


def of_night(
    number: int,
    *found: Verdict,
    missing: Sequence[int] = (),
    suites: Sequence[SuiteNight] = (),
) -> Verdicts:
    """All of a night; `missing` has the numbers of nights."""
    days = tuple(night(n) for n in missing)
    return Verdicts(night(number), f"{night(number)}T02:00:00Z", found, days, tuple(suites))
