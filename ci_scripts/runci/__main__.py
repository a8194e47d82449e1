"""`python -m runci`."""

from __future__ import annotations

from runci.cli import entry_point

entry_point()
