"""What the processes of a night print, and what becomes of it."""

from __future__ import annotations

import math
import sys

import pytest

from runci import register_cpu_ci
from runci.core.errors import Exit, RunciError
from runci.nightly.measure.night import read_output
from runci.nightly.measure.outputs import (
    Runs,
    checks,
    disagreements,
    measurements,
    only_in_baseline,
)
from runci.nightly.record import Check, Direction, Measurement, Output, Sampled

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

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
    said = [text for _, text in disagreements(Runs(tuple(candidate), tuple(baseline)))]
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
    assert checks(outputs) == (
        Check("bits", False, "repetition 2, 4 of 4: M = 3"),
        Check("good", True, "M = 2"),
    )


def test_what_a_check_says_is_one_line_and_not_endless() -> None:
    (found,) = checks([output(checks=(Check("bits", False, "a\n\x1b[31m" + "b" * 9000),))])
    assert found.detail.startswith("repetition 1 of 1: a \\x1b[31mbbb")
    assert len(found.detail) < 1100


def test_what_is_a_metric_in_another_repetition_is_no_check() -> None:
    outputs = [output(checks=(Check("c", False),)), output(sampled("c"))]
    assert checks(outputs) == ()


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


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
