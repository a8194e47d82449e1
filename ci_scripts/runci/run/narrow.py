"""Runs what -k and -m choose, and ends with -x at the first failure: in pytest and in scripts.

pytest's own rules decide, and its own hook, called for these two alone: so nobody takes what they
leave out for what a conftest or a plugin did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from runci.core.selected import Selected
from runci.run.events import Sink

NOT_ASKED = pytest.StashKey[bool]()  # items that nobody asked for: left out by the command line


class PytestNarrow:
    """A pytest plugin. `paths` are the files that pytest was given, none for a script, `file`,
    which calls it itself and may narrow its tests further."""

    def __init__(
        self, sink: Sink, selected: Selected, paths: Sequence[str], file: str | None = None
    ) -> None:
        self._sink, self._selected, self._paths, self._file = sink, selected, paths, file
        self._dropped: list[Any] | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: Any) -> None:
        """End at the first failure; refuse options by which other tests would run, or none."""
        if self._selected.first:
            config.option.maxfail = 1
        more = [one for one in config.args if one not in self._paths]
        if self._paths and more:
            raise pytest.UsageError(
                f"{more[0]}: after `--` stand options of pytest: name files before it"
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """Leave out what -k and -m do; say of each file how many."""
        if not self._selected.chooses:
            return
        option, self._dropped = config.option, []
        given = option.keyword, option.markexpr
        option.keyword, option.markexpr = self._selected.keyword, self._selected.marks
        try:
            config.pluginmanager.get_plugin("mark").pytest_collection_modifyitems(items, config)
        finally:
            option.keyword, option.markexpr = given
        counts = Counter(self._file or item.nodeid.partition("::")[0] for item in self._dropped)
        self._dropped = None
        for path in self._paths or [self._file or ""]:
            self._sink.send({"event": "unselected", "test": path, "count": counts[path]})

    @pytest.hookimpl(tryfirst=True)
    def pytest_deselected(self, items: Sequence[Any]) -> None:
        """Note what is left out now."""
        if self._dropped is not None:
            self._dropped += items
            for item in items:
                item.stash[NOT_ASKED] = True


def chooser(selected: Selected) -> Callable[[Iterable[str], Iterable[Any]], bool]:
    """Whether -k and -m choose a test that no pytest runs, by its names and its marks.

    As pytest does: -k by any part of a name, in any case, -m by whole names of marks.
    """
    from _pytest.mark.expression import Expression

    keyword, marks = (
        Expression.compile(text) if text else None for text in (selected.keyword, selected.marks)
    )

    def chosen(names: Iterable[str], bearing: Iterable[Any]) -> bool:
        found = list(bearing)
        known = [name.lower() for name in (*names, *(mark.name for mark in found))]

        def named(name: str, /, **_: object) -> bool:
            return any(name.lower() in one for one in known)

        def marked(name: str, /, **wanted: object) -> bool:
            return any(
                mark.name == name and wanted.items() <= mark.kwargs.items() for mark in found
            )

        return (keyword is None or keyword.evaluate(named)) and (
            marks is None or marks.evaluate(marked)
        )

    return chosen
