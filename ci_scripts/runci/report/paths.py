"""Where a finding's file is, as a consumer outside the root sees it."""

from __future__ import annotations

import re


def is_absolute(path: str) -> bool:
    """Say whether the path is absolute on any system: reports travel between them."""
    return path.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", path) is not None


def from_working_folder(root: str, path: str) -> str:
    """Join root and path with forward slashes; a root of «.» or nothing adds nothing."""
    base = root.replace("\\", "/").rstrip("/")
    while base.startswith("./"):
        base = base[2:].lstrip("/")
    return path if base in ("", ".") else f"{base}/{path}"
