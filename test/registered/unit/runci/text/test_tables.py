"""Plain and Markdown tables."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runci import register_cpu_ci
from runci.text.tables import render_markdown, render_table
from runci.text.terminal import display_width

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

HEADERS = ["suite", "tests"]
ROWS = [["base-a-test-cpu", "7"], ["nightly", "1,204"]]


def test_columns_are_aligned():
    assert render_table(HEADERS, ROWS, "<>") == (
        "suite            tests\n"
        "---------------  -----\n"
        "base-a-test-cpu      7\n"
        "nightly          1,204\n"
    )


def test_no_rows():
    assert render_table(HEADERS, []) == "suite  tests\n-----  -----\n"


def test_wide_characters_are_aligned():
    assert render_table(["a", "b"], [["三", "x"]]) == "a   b\n--  -\n三  x\n"


def test_widest_column_is_cut_to_fit():
    assert render_table(["file", "n"], [["test/registered/long_name.py", "1"]], "<>", 20) == (
        "file               n\n-----------------  -\ntest/registere...  1\n"
    )


def test_what_cannot_give_way_stays():
    table = render_table(["a", "b"], [["x" * 50, "y" * 50]], width=5)
    assert table.splitlines()[2] == "xxxxx...  yyyyy..."


def test_cells_cannot_break_the_table():
    assert render_table(["a"], [["x\n\x1b[31my"]]) == "a\n" + "-" * 12 + "\nx\\n\\x1b[31my\n"
    assert render_markdown(["a"], [["x|y\nz"]]) == "| a |\n| --- |\n| x\\|y z |\n"


def test_markdown():
    assert render_markdown(HEADERS, ROWS, "<>") == (
        "| suite | tests |\n| --- | ---: |\n| base-a-test-cpu | 7 |\n| nightly | 1,204 |\n"
    )


@pytest.mark.parametrize("align", ["<<<", "^", "x"])
def test_align_is_checked(align):
    with pytest.raises(ValueError, match="align must be"):
        render_table(HEADERS, ROWS, align)


def test_rows_must_fit_the_headers():
    with pytest.raises(ValueError, match="is shorter"):
        render_table(["a"], [["x"], []])


@settings(deadline=None)
@given(st.lists(st.lists(st.text(), min_size=3, max_size=3), max_size=5), st.integers(28, 60))
def test_every_line_fits(rows, width):
    lines = render_table(["a", "b", "c"], rows, "<><", width).split("\n")
    assert len(lines) == len(rows) + 3
    assert all(display_width(line) <= width for line in lines)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
