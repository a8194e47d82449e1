"""The page's drawings: round numbers on their scales, and everything within its figure."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

import perf_world as sim
from perf_pages import shown

from runci import register_cpu_ci
from runci.nightly.page.draw import Drawing, draw_curve, draw_pairs, draw_times, round_numbers

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


@pytest.mark.parametrize(
    ("low", "high", "count", "numbers"),
    [
        (0.0, 1.0, 4, [0.0, 0.25, 0.5, 0.75, 1.0]),
        (0.963, 1.072, 4, [1.0, 1.05]),
        (5.87, 6.47, 3, [6.0, 6.2, 6.4]),
        (-0.4, 10.2, 3, [0.0, 5.0, 10.0]),
        (1e29, 9e29, 4, [2e29, 4e29, 6e29, 8e29]),
        (0.0, 3e-9, 3, [0.0, 1e-9, 2e-9, 3e-9]),
        (6.0, 6.0 + 3.9e-9, 4, [6.0, 6.000000001, 6.000000002, 6.000000003]),
    ],
)
def test_scales_have_round_numbers(
    low: float, high: float, count: int, numbers: list[float]
) -> None:
    assert round_numbers(low, high, count) == pytest.approx(numbers, rel=1e-12)


def drawings(where: sim.World) -> list[Drawing]:
    found = []
    for part in shown(where).sections:
        if part.curve is not None:
            found += [draw_curve(part.curve), draw_times(part.curve)]
        if part.pairs is not None:
            found.append(draw_pairs(part.pairs))
    return [drawing for drawing in found if drawing is not None]


@pytest.mark.parametrize("where", [sim.busy(), sim.hostile(), sim.one_cause()])
def test_all_of_a_drawing_lies_within_it_and_is_xml(where: sim.World) -> None:
    made = drawings(where)
    assert len(made) > 10
    for drawing in made:
        _, _, width, height = map(float, drawing.view_box.split())
        for each in ElementTree.fromstring(f"<svg>{drawing.body}</svg>").iter():
            places = [(each.get("cx") or each.get("x"), each.get("cy") or each.get("y"))]
            places += re.findall(r"(-?[\d.]+) (-?[\d.]+)", each.get("d", ""))
            for x, y in places:
                if x is not None and y is not None:
                    assert -1 <= float(x) <= width + 1
                    assert -1 <= float(y) <= height + 1


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
