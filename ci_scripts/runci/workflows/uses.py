"""What `uses:` names within the repository."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

ACTION_FILES = ("action.yml", "action.yaml")
WORKFLOW_SUFFIXES = (".yml", ".yaml")

# `$/` is the repository at the commit of the workflow, `./` what the job checked out there.
LOCAL = ("./", "$/")
_USES = re.compile(rb"uses['\"]?\s*:\s*['\"]?([.$]/[^\s\0'\"#,}]*)")


def local_path(uses: str) -> str | None:
    """The path that a `uses: ./…` or `$/…` names, else None. '' is the root."""
    if not uses.startswith(LOCAL):
        return None
    path = posixpath.normpath(uses[2:])
    return None if path.startswith("..") else "" if path == "." else path


def local_files(data: bytes) -> Iterator[str]:
    """The files that a workflow or action may call, by its bytes: comments count too."""
    for match in _USES.finditer(data):
        path = local_path(match[1].decode("utf-8", "replace"))
        if path is not None and path.endswith(WORKFLOW_SUFFIXES):
            yield path
        elif path is not None:
            yield from (posixpath.join(path, name) for name in ACTION_FILES)
