"""Texts of others in Markdown: what is escaped reads as it was written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from commonmark import leaves, rendered

from runci import register_cpu_ci
from runci.text.markdown import block, code, escaped

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


@settings(deadline=None)
@given(st.text())
def test_a_code_span_holds_exactly_its_text(text: str) -> None:
    span = code(text)
    assert "\n" not in span
    found = [t for t in leaves(rendered(f"x {span} y")) if t.type == "code_inline"]
    line = " ".join(text.split())
    if line and line.isprintable() and "\\|" not in line and len(line) <= 1000:
        assert [t.content for t in found] == [line]


def test_a_backslash_before_a_pipe_ends_no_cell() -> None:
    """GitHub splits cells before it looks for code: `\\\\|` is a backslash, and the cell's end."""
    assert code("a\\|<b>") == "<code>a&#92;&#124;&#60;b&#62;</code>"
    assert code("a|b") == "`a|b`"


@settings(deadline=None)
@example(["```", "````` x"])
@given(st.lists(st.text(), min_size=1, max_size=4))
def test_a_block_of_code_holds_exactly_its_lines(lines: list[str]) -> None:
    (found,) = [t for t in rendered(f"{block(lines, 'sh')}\n\nwords") if t.type == "fence"]
    assert len(found.content.split("\n")) == len(lines) + 1


@settings(deadline=None)
@given(st.text())
def test_escaped_text_is_text(text: str) -> None:
    tokens = list(leaves(rendered(f"x {escaped(text)}")))
    assert {t.type for t in tokens} <= {
        "paragraph_open", "paragraph_close", "inline", "text", "text_special",
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
