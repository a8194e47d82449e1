"""Reads workflows and the local actions that they use."""

from __future__ import annotations

import posixpath
from pathlib import Path

from runci.suites import Workflows
from runci.workflows.find import local_uses
from runci.workflows.runs import Broken
from runci.workflows.walk import ACTION_FILES


def read_workflows(root: Path, settings: Workflows) -> tuple[dict[str, bytes], tuple[Broken, ...]]:
    """The files by path from the root, and those that cannot be read."""
    files: dict[str, bytes] = {}
    broken: list[Broken] = []
    waiting = [
        posixpath.join(folder, path.name)
        for folder in settings.paths
        for path in sorted((root / folder).glob("*.y*ml"))
        if path.suffix in (".yml", ".yaml")
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
        for used in local_uses(data):
            is_workflow = used.endswith((".yml", ".yaml"))
            names = {used} if is_workflow else {posixpath.join(used, n) for n in ACTION_FILES}
            waiting += sorted(names - seen)
            seen |= names
    return files, tuple(broken)
