"""`python -m runci`."""

from runci.cli import entry_point

entry_point()
