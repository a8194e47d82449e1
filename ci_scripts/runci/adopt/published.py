"""Which published action a workflow is to use: of what this runci was installed from. Pure."""

from __future__ import annotations

import json
import re

from runci.core.errors import RunciError

_ACTION = re.compile(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+@[0-9a-f]{40}")
_ON_GITHUB = re.compile(
    r"(?:(?:https?|ssh|git)://(?:[^/@\s]*@)?|[^/@\s]*@)github\.com[:/]"
    r"([A-Za-z0-9._-]+)/([A-Za-z0-9._-]+?)(?:\.git)?/?"
)


def installed_from(direct_url: str | None) -> str | None:
    """OWNER/NAME@COMMIT, of direct_url.json, where pip took a distribution from GitHub's git."""
    try:
        told = json.loads(direct_url or "null")
        source = _ON_GITHUB.fullmatch(told["url"])
        found = source and f"{source[1]}/{source[2]}@{told['vcs_info']['commit_id']}"
    except (ValueError, TypeError, KeyError):
        return None
    return found if found and _ACTION.fullmatch(found) else None


def checked(given: str) -> str:
    """An action that somebody names. Raises RunciError where what it means can change."""
    if not _ACTION.fullmatch(given):
        raise RunciError(
            f"--action {given!r}: write OWNER/NAME@COMMIT, with all 40 characters of the commit: "
            "a branch or tag can be moved, and no gate is proven by it"
        )
    return given
