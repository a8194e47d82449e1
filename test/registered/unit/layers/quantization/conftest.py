"""Puts the helpers of these tests where both pytest and `python FILE` find them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
