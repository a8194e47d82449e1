"""The badge of a night: an image with a name, as wide as its text."""

from __future__ import annotations

import sys
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runci import register_cpu_ci
from runci.nightly.page.headline import COLOURS, Headline, Mood, badge

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")


@pytest.mark.parametrize("mood", list(Mood))
def test_the_badge_is_an_image_with_a_name(mood: Mood) -> None:
    said = '2 < 3 & "x"'
    root = ElementTree.fromstring(badge("2026-11-29", Headline(mood, "", said)))
    space = "{http://www.w3.org/2000/svg}"
    assert root.get("role") == "img"
    assert root.get("aria-label") == f"nightly: {said} (2026-11-29)"
    assert root.findtext(f"{space}title") == root.get("aria-label")
    assert [t.text for t in root.iter(f"{space}text")] == ["nightly", said]
    assert COLOURS[mood] in [r.get("fill") for r in root.iter(f"{space}rect")]


@given(st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=30))
def test_the_badge_is_as_wide_as_its_text(text: str) -> None:
    root = ElementTree.fromstring(badge("n", Headline(Mood.GOOD, "", text)))
    wider = ElementTree.fromstring(badge("n", Headline(Mood.GOOD, "", text + "mm")))
    assert int(wider.get("width", 0)) > int(root.get("width", 0))
    *_, last = root.iter("{http://www.w3.org/2000/svg}text")
    right = float(last.get("x", 0)) + float(last.get("textLength", 0))
    assert right < int(root.get("width", 0))


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
