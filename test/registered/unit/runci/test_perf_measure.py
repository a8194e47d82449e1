"""What one night of measuring decides: which figures count, which order, when to measure again."""

from __future__ import annotations

import dataclasses
import math
import random
import sys
from collections import Counter
from pathlib import Path

import pytest
from perf_records import COMMIT, KERNEL, LINEAR, accept, date, measurement, point, record, series_id

from runci import register_cpu_ci
from runci.errors import Exit, RunciError
from runci.perf.config import Benchmark
from runci.perf.lines import Event, History, Point, Series, Turn
from runci.perf.measure import combine
from runci.perf.measure.again import left_level, level, value
from runci.perf.measure.combine import Runs, disagreements, kept, measurements, only_in_baseline
from runci.perf.measure.environment import refuse_shared, words
from runci.perf.measure.order import BASELINE, CANDIDATE, order
from runci.perf.measure.outputs import read_output
from runci.perf.measure.show import table, title
from runci.perf.measure.summary import spread, summarize
from runci.perf.measure.throttle import highest, throttle_reasons
from runci.perf.measure.usable import reasons
from runci.perf.metric import Direction
from runci.perf.record import Machine, MachineState, Measurement, Record, Summary
from runci.perf.samples import Check, Output, Sampled

register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")

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
            "the clock went backwards, from 2026-12-01T03:00:00Z",
        ),
        ({"night": date(2)}, "the night 2026-12-02 is in the future"),
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
    (found,) = why(changed_record(measurements=(one,)))
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
    assert why(changed_record(measurements=(one,))) == tuple(
        f"metric {KERNEL!r} is {text}: mend the benchmark" for text in said
    )


def test_several_reasons_all_stand_there() -> None:
    hot = state(temperature=90, throttled=("thermal slowdown",), processes=("x (pid 1)",))
    assert len(why(changed_record(before=hot, commit=f"{COMMIT}-dirty"))) == 5


def test_a_record_keeps_only_what_a_series_can_hold() -> None:
    one = measurement(candidate=((6.0, math.nan, -1.0, 1e308, 1e-320),) * 5, baseline=((6.0,),) * 5)
    cleaned = kept(one)
    assert cleaned is not None
    assert cleaned.candidate == ((6.0,),) * 5
    assert kept(measurement(candidate=((math.nan,), *((6.0,),) * 4))) is None
    assert kept(measurement(candidate=((6.0,),) * 4)) is None  # no pair for the fifth
    assert kept(measurement(baseline=())) == measurement(baseline=())


# What the processes printed


def sampled(metric: str = "a", *values: float, **changed: object) -> Sampled:
    known = {"unit": "us", "direction": Direction.LOWER, "values": values or (6.0,)}
    return Sampled(metric, **{**known, **changed})  # type: ignore[arg-type]


def output(*samples: Sampled, checks: tuple[Check, ...] = ()) -> Output:
    return Output(samples or (sampled(),), checks)


def test_repetitions_become_measurements_in_their_order() -> None:
    first = Runs(
        (
            output(sampled("a", 1.0, 2.0, reference="b"), sampled("b", 3.0)),
            output(sampled("a", 4.0)),
        ),
        (output(sampled("a", 5.0)), output(sampled("a", 6.0))),
    )
    again = Runs((output(sampled("a", 7.0)),), (output(sampled("a", 8.0)),))
    assert measurements(first, again) == (
        Measurement(
            "a",
            "us",
            Direction.LOWER,
            ((1.0, 2.0), (4.0,)),
            ((5.0,), (6.0,)),
            "b",
            ((7.0,),),
            ((8.0,),),
        ),
        Measurement("b", "us", Direction.LOWER, ((3.0,), ()), ()),
    )


@pytest.mark.parametrize(
    ("candidate", "baseline", "found"),
    [
        ([output(), output()], [output(), output()], []),
        ([output(), output(sampled("a"), sampled("b"))], [], ["'b' is missing in repetition 1 of"]),
        ([output()], [output(), output(sampled("b"))], ["'a' is missing in", "'b' is missing in"]),
        ([output(), output(sampled(unit="ms"))], [], ["'a' changes its unit, direction or refer"]),
        ([output()], [output(sampled(unit="ms"))], ["another unit or direction in the baseline"]),
        (
            [output()],
            [output(sampled(direction=Direction.HIGHER))],
            ["another unit or direction in the baseline"],
        ),
        ([output()], [output(sampled(reference="b"), sampled("b"))], []),
        ([output(sampled("a", values=()))], [], ["'a' has no values in repetition 1 of the candi"]),
        (
            [output()],
            [output(sampled("b", values=()))],
            ["'b' has no values in repetition 1 of th"],
        ),
        (
            [output(checks=(Check("c", True),)), output(sampled("a"), sampled("c"))],
            [],
            [
                "'c' is missing in",
                "'c' is missing in",
                "'c' is a metric in one repetition and a ch",
            ],
        ),
        (
            [output(checks=(Check("c", True),)), output()],
            [],
            ["check 'c' is missing in repetition 2 of the candidate"],
        ),
    ],
)
def test_repetitions_must_be_the_same_measurement(
    candidate: list[Output], baseline: list[Output], found: list[str]
) -> None:
    said = disagreements(Runs(tuple(candidate), tuple(baseline)))
    assert len(said) == len(found)
    assert all(part in sentence for part, sentence in zip(found, said, strict=True))


def test_a_new_metric_has_no_baseline_and_a_lost_one_is_named() -> None:
    runs = Runs((output(sampled("new")),), (output(sampled("old")),))
    (new,) = measurements(runs)
    assert (new.metric, new.baseline, disagreements(runs)) == ("new", (), ())
    assert only_in_baseline(runs) == ("old",)


def test_a_check_that_failed_in_any_repetition_has_failed_and_stands_first() -> None:
    outputs = [
        output(checks=(Check("good", True, "M = 2"), Check("bits", passed, detail)))
        for passed, detail in ((True, "fine"), (False, "M = 3"), (True, "fine"), (False, "M = 4"))
    ]
    assert combine.checks(outputs) == (
        Check("bits", False, "repetition 2, 4 of 4: M = 3"),
        Check("good", True, "M = 2"),
    )


def test_what_a_check_says_is_one_line_and_not_endless() -> None:
    (found,) = combine.checks([output(checks=(Check("bits", False, "a\n\x1b[31m" + "b" * 9000),))])
    assert found.detail.startswith("repetition 1 of 1: a \\x1b[31mbbb")
    assert len(found.detail) < 1100


def test_what_is_a_metric_in_another_repetition_is_no_check() -> None:
    outputs = [output(checks=(Check("c", False),)), output(sampled("c"))]
    assert combine.checks(outputs) == ()


# Bad output

SAMPLE = b'{"metric": "a", "unit": "us", "direction": "lower", "values": [6]}'


@pytest.mark.parametrize(
    ("data", "code", "said"),
    [
        (b"", Exit.USAGE, "not JSON"),
        (b"6.02 us", Exit.USAGE, "not JSON: Extra data"),
        (b"\xff", Exit.USAGE, "not JSON"),
        (b"[" * 100_000, Exit.USAGE, "not JSON"),
        (b"[]", Exit.USAGE, "schema None, but this runci reads 1"),
        (b'{"schema": 2, "samples": []}', Exit.USAGE, "schema 2, but this runci reads 1"),
        (b'{"schema": 1}', Exit.USAGE, "missing required field `samples`"),
        (b'{"schema": 1, "samples": []}', Exit.NOTHING, "no samples: nothing was measured"),
        (
            '"values": ["6"]',
            Exit.USAGE,
            "Expected `float`, got `str` - at `$.samples[0].values[0]`",
        ),
        ('"direction": "down"', Exit.USAGE, "Invalid enum value 'down'"),
        ('"unit": "exact"', Exit.USAGE, "has the unit 'exact'"),
        ('"unit": ""', Exit.USAGE, "has the unit ''"),
        ('"metric": " "', Exit.USAGE, "' ' is no name of a metric"),
        ('"metric": "a\\u001b[31m"', Exit.USAGE, "is no name of a metric"),
        ('"metric": " a"', Exit.USAGE, "' a' is no name of a metric"),
        ('"metric": "::error::a"', Exit.USAGE, "'::error::a' is no name of a metric"),
        (f'"metric": "{"a" * 201}"', Exit.USAGE, "aaa' is no name of a metric"),
        ('"unit": "u\\ns"', Exit.USAGE, "has the unit 'u\\ns'"),
        (f'"unit": "{"u" * 41}"', Exit.USAGE, "uuu'"),
        (
            b'{"schema": 1, "samples": [%s], "checks": [{"name": "a", "passed": true}]}' % SAMPLE,
            Exit.USAGE,
            "'a' is both a metric and a check",
        ),
        (
            b'{"schema": 1, "samples": [%s], "versions": {"a": "\\ud800"}}' % SAMPLE,
            Exit.USAGE,
            "'\\ud800' is no text",
        ),
        (
            b'{"schema": 1, "samples": [%s], "checks": [{"name": "b", "passed": true, '
            b'"detail": "\\udfff"}]}' % SAMPLE,
            Exit.USAGE,
            "'\\udfff' is no text",
        ),
        ('"reference": "b"', Exit.USAGE, "has the reference 'b', which is no other"),
        ('"reference": "a"', Exit.USAGE, "has the reference 'a', which is no other"),
    ],
)
def test_another_form_is_refused_with_the_reason(data: bytes | str, code: Exit, said: str) -> None:
    if isinstance(data, str):
        given = '{"metric": "a", "unit": "us", "direction": "lower", "values": [6]'
        data = f'{{"schema": 1, "samples": [{given}, {data}}}]}}'.encode()
    with pytest.raises(RunciError) as caught:
        read_output(data, "gemm, candidate 1 of 5")
    assert caught.value.code == code
    assert str(caught.value).startswith("gemm, candidate 1 of 5: ")
    assert said in str(caught.value)


@pytest.mark.parametrize("kind", ["samples", "checks"])
def test_a_name_twice_is_refused(kind: str) -> None:
    samples = ['{"metric": "a", "unit": "us", "direction": "lower", "values": [6]}']
    checks = ['{"name": "c", "passed": true}']
    (samples if kind == "samples" else checks).append((samples if kind == "samples" else checks)[0])
    text = f'{{"schema": 1, "samples": [{",".join(samples)}], "checks": [{",".join(checks)}]}}'
    with pytest.raises(RunciError, match="is there twice"):
        read_output(text.encode(), "x")


def test_values_that_json_does_not_know_are_read_so_that_they_can_be_named() -> None:
    text = '{"schema": 1, "samples": [{"metric": "a", "unit": "us", "direction": "lower", '
    (one,) = read_output((text + '"values": [NaN, -Infinity, 1e999, 6]}]}').encode(), "x").samples
    assert math.isnan(one.values[0])
    assert one.values[1:] == (-math.inf, math.inf, 6.0)


# Order


def test_pairs_are_balanced_random_and_repeatable() -> None:
    seen = set()
    for seed in range(300):
        found = order(5, random.Random(seed))
        assert found == order(5, random.Random(seed))
        pairs = [found[i : i + 2] for i in range(0, 10, 2)]
        assert all(set(pair) == {CANDIDATE, BASELINE} for pair in pairs)
        assert sorted(Counter(first for first, _ in pairs).values()) == [2, 3]
        seen.add(found)
    assert len(seen) == 20  # every way to choose which 2 or 3 of 5 begin with the baseline
    assert order(3, random.Random(0), with_baseline=False) == (CANDIDATE,) * 3


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


# Measuring again


@pytest.mark.parametrize(
    ("candidate", "baseline", "expected"),
    [
        ([[2.0, 9.0, 4.0], [6.0]], [[2.0], [2.0]], 2.5),
        ([[2.0], [6.0], [7.0]], [], 6.0),
        ([[2.0], []], [[2.0], [2.0]], None),
        ([[2.0]], [[0.0]], None),
        ([], [], None),
    ],
)
def test_a_night_is_the_median_of_its_pairs(
    candidate: list[list[float]], baseline: list[list[float]], expected: float | None
) -> None:
    assert value(candidate, baseline) == expected


def turn(number: int) -> Event:
    return Event(date(number), "", Turn.REGRESSION, date(number), "", "", 0.1, 0.1, 0.1, 1.1, "")


def series(*points: Point, **changed: object) -> Series:
    return Series(series_id(), "us", Direction.LOWER, points, **changed)  # type: ignore[arg-type]


def pinned(number: int, figure: float, **changed: object) -> Point:
    return point(number, figure, baseline_commit="b" * 40, **changed)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (series(*(pinned(n, 6.0) for n in range(1, 4))), 1.0),
        (series(*(pinned(n, 6.0) for n in range(1, 3))), None),  # too few
        (series(*(pinned(n, 6.0 if n > 5 else 12.0) for n in range(1, 26))), 1.0),  # the last 20
        (series(*(pinned(n, 6.0 if n < 4 else 9.0) for n in range(1, 10)), events=(turn(4),)), 1.5),
        (
            series(*(pinned(n, 6.0 if n < 4 else 9.0) for n in range(1, 10)), accepts=(accept(4),)),
            1.5,
        ),
        (series(*(pinned(n, 6.0 * n) for n in range(1, 6)), events=(turn(4),)), None),
        (series(*(pinned(n, 6.0, unusable=("hot",)) for n in range(1, 9))), None),
        (series(*(point(n, 6.0, baseline_commit="a" * 40) for n in range(1, 9))), None),
        (series(*(pinned(n, 6.0, baseline=()) for n in range(1, 9))), None),
    ],
)
def test_a_level_is_the_median_since_the_last_turn(given: Series, expected: float | None) -> None:
    assert level(given, "b" * 40) == expected


def test_without_a_baseline_a_level_is_of_raw_figures() -> None:
    assert level(series(*(point(n, 7.0, baseline=()) for n in range(1, 9))), None) == 7.0


@pytest.mark.parametrize(
    ("figure", "again"), [(6.0, False), (6.17, False), (6.19, True), (5.81, True), (12.0, True)]
)
def test_what_leaves_its_level_is_measured_again(figure: float, again: bool) -> None:
    known = History({series_id(): series(*(pinned(n, 6.0) for n in range(1, 9)))})
    night = record(9, measurements=(measurement(candidate=((figure,),) * 5),))
    assert bool(left_level(night, known, 0.03)) is again
    assert left_level(night, History(), 0.03) == ()


def test_it_says_which_metric_and_how_far() -> None:
    known = History({series_id(): series(*(pinned(n, 6.0) for n in range(1, 9)))})
    night = record(9, measurements=(measurement(candidate=((6.6,),) * 5), measurement(LINEAR)))
    assert left_level(night, known, 0.03) == (f"{KERNEL}: +10.0% from its level",)


# The command and the table


def test_the_command_s_words() -> None:
    path = Path("/tmp/1.json")
    assert words(("python", "a.py", "--only=python", "--json={output}"), path) == (
        [sys.executable, "a.py", "--only=python", "--json=/tmp/1.json"],
        True,
    )
    assert words(("env", "A=1", "python", "a.py"), path) == (
        ["env", "A=1", sys.executable, "a.py"],
        False,
    )
    assert words(("./bench",), path) == (["./bench"], False)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("python", "{root}/a.py"), "names a file of the working tree"),
        (("python", "a.py", "--data={root}/data"), "names a file of the working tree"),
        (("python", "-I", "a.py"), "with -I Python ignores PYTHONPATH"),
        (("python", "-u", "-BES", "a.py"), "with -BES Python ignores PYTHONPATH"),
        (("python", "-u", "a.py", "-I"), None),
        (("python", "-c", "-I"), None),
        (("python", "a.py", "--json=/elsewhere/x"), None),
        (("./bench", "-I"), None),
    ],
)
def test_a_baseline_that_would_run_the_candidate_is_refused(
    command: tuple[str, ...], said: str | None, tmp_path: Path
) -> None:
    given = [word.format(root=tmp_path) for word in command]
    if said is None:
        refuse_shared(given, tmp_path, "perf.yml")
        return
    with pytest.raises(RunciError, match=said):
        refuse_shared(given, tmp_path, "perf.yml")


def test_the_table_has_medians_ratios_and_the_spread_of_the_pairs() -> None:
    ours = measurement("ours", candidate=((6.0, 9.0, 6.2), (6.1,), (6.3,), (6.4,), (6.5,)))
    ours = dataclasses.replace(ours, baseline=((6.2,), (6.1,), (6.0,), (6.4,), (6.5,)))
    slow = measurement("theirs", candidate=((7.0,),) * 5, baseline=())
    ours = dataclasses.replace(ours, reference="theirs")
    found = summarize((ours, slow))
    assert found[0] == Summary("ours", "us", 6.3, 6.2, 1.0, pytest.approx(0.9), 0.0)
    assert found[1] == Summary("theirs", "us", 7.0, spread=0.0)
    lines = table(record(1, summary=found)).splitlines()
    assert lines[2].split() == ["ours", "6.3", "us", "6.2", "us", "1.000", "0.900", "0.0%"]
    assert lines[3].split() == ["theirs", "7", "us", "-", "-", "-", "0.0%"]
    assert spread(measurement(candidate=((1.0,), (2.0,), (3.0,), (4.0,), (5.0,)), baseline=())) == (
        pytest.approx(2 / 3)
    )
    assert spread(measurement(candidate=((1.0,),), baseline=())) is None


def test_a_table_of_long_names_fits_80_columns() -> None:
    name = "flashinfer mm_bf16, dispatched through everything M=8 cold"
    wide = measurement(name, candidate=((123_456.789,),) * 5)
    assert max(map(len, table(record(1, summary=summarize((wide,)))).splitlines())) <= 80
    assert title(record(1)).startswith(
        f"gemm, night 2026-12-01: {'c' * 12} beside {'b' * 12} on NV"
    )
    assert max(map(len, title(record(1)).splitlines())) <= 80


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, *sys.argv[1:]]))
