"""The table of a night: medians, ratios and the spread of the pairs."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_records import measurement, record

from runci import register_cpu_ci
from runci.nightly.measure.show import summarize, table, title
from runci.nightly.record import Summary

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


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
    wide = measurement(candidate=((1.0,), (2.0,), (3.0,), (4.0,), (5.0,)), baseline=())
    assert summarize((wide,))[0].spread == pytest.approx(2 / 3)
    assert summarize((measurement(candidate=((1.0,),), baseline=()),))[0].spread is None


def test_a_table_of_long_names_fits_80_columns() -> None:
    name = "flashinfer mm_bf16, dispatched through everything M=8 cold"
    wide = measurement(name, candidate=((123_456.789,),) * 5)
    assert max(map(len, table(record(1, summary=summarize((wide,)))).splitlines())) <= 80
    assert title(record(1)).startswith(
        f"gemm, night 2026-10-01: {'c' * 12} beside {'b' * 12} on NV"
    )
    assert max(map(len, title(record(1)).splitlines())) <= 80


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
