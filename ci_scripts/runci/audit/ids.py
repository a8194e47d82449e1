"""Ids of the audit's rules, for those who need no more: importing the rules is slow."""

from __future__ import annotations

IDS: tuple[str, ...] = tuple(f"WF{number}" for number in range(101, 111))
