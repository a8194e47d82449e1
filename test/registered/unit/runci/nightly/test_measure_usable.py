"""Which figures of a night count: the state of the machine, and figures that cannot be."""

from __future__ import annotations

import dataclasses
import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_records import COMMIT, KERNEL, date, measurement, record

from runci import register_cpu_ci
from runci.config.perf import Benchmark
from runci.nightly.measure.outputs import impossible, kept, reasons
from runci.nightly.measure.state import highest
from runci.nightly.record import Machine, MachineState, Record
from runci.run.gpu import throttle_reasons

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

BENCHMARK = Benchmark("gemm", "1", ("python",), gpu="RTX 5090", max_temperature=85)
MACHINE = Machine("NVIDIA GeForce RTX 5090", "580.159.04")


def state(**changed: object) -> MachineState:
    return MachineState(f"{date(1)}T03:00:00Z", **changed)  # type: ignore[arg-type]


def why(
    given: Record, machine_after: Machine | None = MACHINE, commit_after: str = COMMIT
) -> tuple[str, ...]:
    return reasons(given, BENCHMARK, machine_after, commit_after)


def changed_record(**changed: object) -> Record:
    return dataclasses.replace(record(1), **changed)  # type: ignore[arg-type]


# Which figures count


def test_a_night_in_order_counts() -> None:
    warm = state(
        sm_clock=2400,
        temperature=85,
        throttled=("power cap", "application clocks"),
        memory_used=1024,
    )
    assert why(record(1)) == ()
    assert why(changed_record(before=warm, after=warm, during=(warm, warm))) == ()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (
            {"machine": Machine("NVIDIA H200", "580.159.04")},
            "wrong SKU: NVIDIA H200, but gemm is for RTX 5090",
        ),
        (
            {"machine": Machine("NVIDIA GeForce RTX 5090 D", "580.159.04")},
            "wrong SKU: NVIDIA GeForce RTX 5090 D, but gemm is for RTX 5090",
        ),
        ({"before": state(processes=("python3 (pid 7, 512 MiB)",))}, "GPU before: python3 (pid 7"),
        ({"after": state(processes=("python3 (pid 7)",))}, "GPU after: python3 (pid 7)"),
        ({"before": state(memory_used=1025)}, "1,025 MiB of the GPU in use before"),
        ({"after": state(memory_used=9000)}, "9,000 MiB of the GPU in use after"),
        ({"before": state(throttled=("thermal slowdown",))}, "throttled before (thermal slowdown)"),
        ({"during": (state(), state(throttled=("power brake",)))}, "throttled while it ran (power"),
        ({"after": state(throttled=("hardware slowdown",))}, "throttled after (hardware slowdown)"),
        ({"after": state(throttled=("hardware thermal slowdown",))}, "(hardware thermal slowdown)"),
        ({"before": state(temperature=86)}, "too hot before: 86 °C, above max_temperature 85"),
        ({"during": (state(temperature=99), state())}, "too hot while it ran: 99 °C"),
        ({"after": state(temperature=86)}, "too hot after: 86 °C"),
        (
            {"finished": f"{date(1)}T02:59:59Z"},
            "the clock went backwards, from 2026-10-01T03:00:00Z",
        ),
        ({"night": date(2)}, "the night 2026-10-02 is in the future"),
        ({"commit": f"{COMMIT}-dirty"}, "uncommitted changes in the working tree"),
        (
            {"measurements": (measurement(candidate=((6.0,),), baseline=((6.0,),)),)},
            "one repetition",
        ),
        ({"measurements": (measurement(candidate=((6.0,),) * 4),)}, "4 repetitions are too few"),
        ({"measurements": ()}, "nothing was measured"),
    ],
)
def test_a_night_that_is_off_does_not(changed: dict[str, object], reason: str) -> None:
    given = changed_record(**changed)
    (found,) = why(given, given.machine, given.commit)
    assert reason in found


@pytest.mark.parametrize(
    ("after", "commit", "reason"),
    [
        (None, COMMIT, "NVIDIA GeForce RTX 5090 could not be asked any more at the end"),
        (Machine("NVIDIA GeForce RTX 4090", "580.159.04"), COMMIT, "another GPU at the end"),
        (Machine("NVIDIA GeForce RTX 5090", "590.1"), COMMIT, "another driver at the end: 590.1"),
        (MACHINE, "d" * 40, f"the working tree changed from {COMMIT} to {'d' * 40}"),
    ],
)
def test_nothing_may_change_meanwhile(after: Machine | None, commit: str, reason: str) -> None:
    (found,) = why(record(1), after, commit)
    assert reason in found


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((6.0, math.nan), "nan"),
        ((math.inf,), "inf"),
        ((0.0, 6.0), "zero"),
        ((-6.0,), "negative"),
        ((1e308, 1e308), "above 1e+30"),
        ((1e-320,), "below 1e-30"),
    ],
)
@pytest.mark.parametrize("side", ["candidate", "baseline", "again_candidate", "again_baseline"])
def test_impossible_figures_are_named(values: tuple[float, ...], said: str, side: str) -> None:
    good = ((6.0,),) * 5
    one = measurement(candidate=good, again_candidate=good, again_baseline=good)
    one = dataclasses.replace(one, **{side: (*good[:2], values, *good[3:])})
    (found,) = impossible(one)
    assert why(changed_record(measurements=(one,))) == ()  # the night counts without this metric
    number = 8 if side.startswith("again") else 3
    where = "candidate" if "candidate" in side else "baseline"
    assert found.startswith(f"metric {KERNEL!r} is {said} in repetition {number} of the {where}")


def test_repetitions_with_the_same_fault_are_told_of_once() -> None:
    one = measurement(candidate=((math.nan, math.nan),) * 5, baseline=((6.0,), *((-1.0, 0.0),) * 4))
    said = [
        "nan in repetition 1, 2, 3, 4, 5 of the candidate",
        "negative in repetition 2, 3, 4, 5 of the baseline",
        "zero in repetition 2, 3, 4, 5 of the baseline",
    ]
    assert tuple(impossible(one)) == tuple(
        f"metric {KERNEL!r} is {text}: mend the benchmark" for text in said
    )


@pytest.mark.parametrize(
    ("unit", "allowed"),
    [("count", True), ("MiB", True), ("us", False), ("S", False), ("GB/s", False)],
)
def test_zero_is_a_value_of_counts_and_sizes_and_of_no_time_or_rate(
    unit: str, allowed: bool
) -> None:
    one = measurement(unit=unit, candidate=((0.0,),) * 5, baseline=((0.0, 3.0),) * 5)
    assert (not list(impossible(one))) is allowed
    assert (kept(one) == one) is allowed


def test_several_reasons_all_stand_there() -> None:
    hot = state(temperature=90, throttled=("thermal slowdown",), processes=("x (pid 1)",))
    assert len(why(changed_record(before=hot, commit=f"{COMMIT}-dirty"))) == 5


def test_a_record_keeps_only_what_a_series_can_hold() -> None:
    one = measurement(candidate=((6.0, math.nan, -1.0, 1e308, 1e-320),) * 5, baseline=((6.0,),) * 5)
    assert kept(one).candidate == ((6.0,),) * 5
    nothing = measurement(candidate=(), baseline=())
    assert kept(measurement(candidate=((math.nan,), *((6.0,),) * 4))) == nothing
    assert kept(measurement(candidate=((6.0,),) * 4)) == nothing  # no pair for the fifth
    assert kept(measurement(baseline=())) == measurement(baseline=())


# The machine


@pytest.mark.parametrize(
    ("mask", "names"),
    [
        (0, ()),
        (0x1, ()),  # idle
        (0x4, ("power cap",)),
        (0x8 | 0x40, ("hardware slowdown", "hardware thermal slowdown")),
        (0x20, ("thermal slowdown",)),
        (0x80, ("power brake",)),
        (1 << 40, ()),
    ],
)
def test_throttle_reasons_have_names(mask: int, names: tuple[str, ...]) -> None:
    assert throttle_reasons(mask) == names


def test_several_moments_are_seen_as_one() -> None:
    states = [
        state(sm_clock=300, temperature=40, throttled=("power cap",)),
        state(sm_clock=2400, power=120.5, throttled=("power cap", "sync boost")),
    ]
    both = state(sm_clock=2400, temperature=40, power=120.5, throttled=("power cap", "sync boost"))
    assert highest(states) == both
    assert highest([]) is None


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
