"""Whether a change edits what decides what must run. Pure.

By its own taxonomy or baseline it could plan nothing, and be green by its own word.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from runci.config.repository import BASELINE, CONFIG_NAMES, PYPROJECT, runci_table
from runci.core.errors import RunciError
from runci.plan.changes import Changes


def own_configuration(
    changes: Changes,
    before: bytes | None,
    after: bytes | None,
    read: Mapping[str, bool] = MappingProxyType({}),
) -> tuple[str, ...]:
    """The changed files that decide what must run, sorted; or why it cannot be known.

    `before` and `after` are pyproject.toml, of which only `[tool.runci]` counts. `read` are the
    files that are read, and whether links lead there: then a change of one has another name.
    """
    if changes.unknown is not None:
        return (changes.unknown,)
    found = {path for path in changes.paths if path != PYPROJECT and _decides(path, read)}
    found |= {f"{path}, which is a link" for path, linked in read.items() if linked}
    if PYPROJECT in changes.paths and not _same_table(before, after):
        found.add(f"[tool.runci] in {PYPROJECT}")
    return tuple(sorted(found))


def _decides(path: str, read: Mapping[str, bool]) -> bool:
    """By its name, of which a disk may ignore the case, or because it is read."""
    name = path.casefold()
    return name in (BASELINE, PYPROJECT) or name.rpartition("/")[2] in CONFIG_NAMES or path in read


def _same_table(before: bytes | None, after: bytes | None) -> bool:
    try:
        return runci_table(before, PYPROJECT) == runci_table(after, PYPROJECT)
    except RunciError:
        return False
