"""Where things of this repository stand, however deep the test that asks."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "test" / "fixtures"
