"""Puts the helpers of all tests where pytest finds them; `python FILE` has a line for it."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

# A helper that asserts says the values, as a test does.
pytest.register_assert_rewrite("perf_issues")
