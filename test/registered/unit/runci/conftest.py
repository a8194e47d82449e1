"""Puts the helpers of these tests where pytest finds them; `python FILE` finds them by itself."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[3] / "support"))

# A helper that asserts says the values, as a test does.
pytest.register_assert_rewrite("perf_issues")
