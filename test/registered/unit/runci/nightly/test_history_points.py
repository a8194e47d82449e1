"""What a night's record becomes: points, and an error where its figures cannot be."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_records import BASELINE, BITS, COMMIT, KERNEL, LINEAR, date, header, measurement, record

from runci import register_cpu_ci
from runci.core.errors import Exit, RunciError
from runci.nightly.history.additions import additions_of
from runci.nightly.history.lines import Night, Point
from runci.nightly.record import Check, Direction, Machine, Measurement, Record

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

AT = f"{date(1)}T03:10:00Z"


def test_a_point_has_the_median_of_each_repetition() -> None:
    again = measurement(
        reference=LINEAR,
        again_candidate=((7.0, 1.0, 99.0),) * 2,
        again_baseline=((6.0, 6.2),) * 2,
    )
    given = record(1, measurements=(again, measurement(LINEAR, 8.0)), run_url="https://x.invalid/1")
    additions = additions_of(given, "r.json")
    kernel, linear, bits = additions.series
    assert kernel.header == header(KERNEL)
    assert kernel.lines == (
        Point(
            date(1),
            AT,
            "r1",
            COMMIT,
            BASELINE,
            candidate=(6.0, 6.1, 6.2, 6.3, 6.4),
            baseline=(6.0,) * 5,
            again_candidate=(7.0, 7.0),
            again_baseline=(6.1, 6.1),
            reference=pytest.approx(6.2 / 8.2),
            run_url="https://x.invalid/1",
            temperature=61,
            sm_clock=2400,
        ),
    )
    assert linear.lines[0].reference is None  # type: ignore[union-attr]
    assert bits.header == header(BITS, unit="exact")
    assert bits.lines == (
        Point(
            date(1),
            AT,
            "r1",
            COMMIT,
            BASELINE,
            passed=True,
            detail="M = 2..8",
            run_url="https://x.invalid/1",
        ),
    )
    assert additions.nights == (
        Night(
            date(1),
            AT,
            "r1",
            COMMIT,
            True,
            run_url="https://x.invalid/1",
            machine="NVIDIA GeForce RTX 5090/580/gemm/1",
        ),
    )


def test_a_reference_that_was_not_measured_is_none() -> None:
    given = record(1, measurements=(measurement(reference="gone"),))
    assert additions_of(given, "r.json").series[0].lines[0].reference is None  # type: ignore[union-attr]


def test_one_repetition_and_no_baseline_are_recorded() -> None:
    alone = measurement(candidate=((6.0,),), baseline=())
    [addition] = additions_of(record(1, measurements=(alone,), checks=()), "r.json").series
    assert (addition.lines[0].candidate, addition.lines[0].baseline) == ((6.0,), ())  # type: ignore[union-attr]


def test_an_unusable_record_keeps_its_reasons_and_its_checks_count() -> None:
    additions = additions_of(record(1, unusable=("busy", "hot")), "r.json")
    reasons = [addition.lines[0].unusable for addition in additions.series]  # type: ignore[union-attr]
    assert reasons == [("busy", "hot"), ("busy", "hot"), ()]
    assert additions.nights[0].unusable == ("busy", "hot")


def test_a_record_that_only_says_why_measured_nothing() -> None:
    given = record(1, measurements=(), checks=(), unusable=("wrong GPU",))
    additions = additions_of(given, "r.json")
    assert additions.series == ()
    assert additions.nights[0].measured is False


@pytest.mark.parametrize("results", [(True, False, True), (False, True), (True, True, False)])
def test_a_check_that_failed_in_any_repetition_failed(results: Sequence[bool]) -> None:
    checks = tuple(Check(BITS, passed, f"run {n}") for n, passed in enumerate(results))
    [addition] = additions_of(record(1, measurements=(), checks=checks), "r.json").series
    [line] = addition.lines
    assert isinstance(line, Point)
    assert (line.passed, line.detail) == (False, f"run {results.index(False)}")


def bad(**changed: Any) -> Record:
    return record(1, measurements=(measurement(**changed),))


PAIRS = ((6.0,),) * 4
FAULTS: dict[str, tuple[Record, str]] = {
    "negative": (bad(candidate=((6.0, -1.0),) * 5), r"candidate\[0\]: -1.0 is no figure from"),
    "zero": (bad(baseline=((6.0,),) * 4 + ((0.0,),)), r"baseline\[4\]: 0.0 is no figure from"),
    "huge": (bad(candidate=((1e308,) * 2,) * 5), r"candidate\[0\]: 1e\+308 is no figure from"),
    "tiny": (bad(baseline=((1e-320,),) * 5), r"baseline\[0\]: 1e-320 is no figure from"),
    "no value": (bad(candidate=((6.0,), ()) + ((6.0,),) * 3), r"candidate\[1\]: no value"),
    "no repetition": (bad(candidate=(), baseline=()), "no repetition"),
    "pairs": (bad(baseline=PAIRS), "5 candidate repetitions, but 4 of the baseline"),
    "again": (bad(again_candidate=((6.0,),), again_baseline=PAIRS), "1 again_candidate rep"),
    "again negative": (bad(again_candidate=((-1.0,),)), r"again_candidate\[0\]: -1.0"),
    "exact figures": (bad(unit="exact"), "exact is no unit of figures"),
    "twice": (record(1, measurements=(measurement(), measurement())), f"the metric '{KERNEL}' twi"),
    "metric and check": (record(1, checks=(Check(KERNEL, True),)), "both a metric and a check"),
    "nothing": (record(1, measurements=(), checks=()), "nothing to record"),
    "night": (record(1, night="yesterday"), "night 'yesterday' is no date"),
    "night's form": (record(1, night="20261201"), "night '20261201' is no date"),
    "time": (record(1, finished="soon"), "finished 'soon' is no time"),
    "zone": (record(1, finished=f"{date(1)}T03:10:00+02:00"), "is no time such as"),
    "no zone": (record(1, started=f"{date(1)}T03:10:00"), "started .* is no time such as"),
    "driver": (record(1, machine=Machine("RTX", "unknown")), "driver 'unknown' is no version"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_figures_that_cannot_be_are_an_error(name: str) -> None:
    given, message = FAULTS[name]
    with pytest.raises(RunciError, match=message) as caught:
        additions_of(given, "r.json")
    assert str(caught.value).startswith("r.json: ")
    assert caught.value.code == Exit.USAGE


def test_measurements_keep_their_direction() -> None:
    faster: Measurement = measurement("throughput", unit="TFLOP/s", direction=Direction.HIGHER)
    [addition] = additions_of(record(1, measurements=(faster,), checks=()), "r").series
    assert addition.header.direction is Direction.HIGHER


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
