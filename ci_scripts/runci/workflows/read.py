"""Reads workflows and the local actions that they use."""

from __future__ import annotations

import posixpath
from pathlib import Path

from runci.suites import Workflows
from runci.workflows.runs import Broken
from runci.workflows.uses import WORKFLOW_SUFFIXES, local_files


def read_workflows(root: Path, settings: Workflows) -> tuple[dict[str, bytes], tuple[Broken, ...]]:
    """The files by path from the root, and those that cannot be read."""
    files: dict[str, bytes] = {}
    broken: list[Broken] = []
    waiting = [
        posixpath.join(folder, path.name)
        for folder in settings.paths
        for path in sorted((root / folder).glob("*"))
        # In whatever case: a file that GitHub might start must not be left out of a proof.
        if path.suffix.lower() in WORKFLOW_SUFFIXES
    ]
    seen = set(waiting)
    while waiting:
        path = waiting.pop(0)
        try:
            data = (root / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            continue  # an action's other name, or one of another repository that is checked out
        except OSError as error:
            broken.append(Broken(path, 1, f"cannot be read: {error.strerror}"))
            continue
        files[path] = data
        used = set(local_files(data)) - seen
        seen |= used
        waiting += sorted(used)
    return files, tuple(broken)
