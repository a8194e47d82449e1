"""Where the documents stand as a site (`site_url` of mkdocs.yml)."""

from __future__ import annotations

SITE = "https://OWNER.github.io/runci/"


def rule_page(rule: str) -> str:
    """The address of a rule's page."""
    return f"{SITE}rules/{rule}/"
