"""What the rules found file by file, used again while a file and all around it are as they were.

A rule about one file sees nothing of another, and a rule that compares files sees of each one no
more than its calls of markers and the marks of its tests. So where only tests have changed, and
those have not,
those tests alone are read and checked.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from runci.checks.rule import Found, Options, Tree
from runci.checks.tree import all_files, nothing_there, registered_in
from runci.core import inputs
from runci.core.errors import RunciError
from runci.core.finding import Finding, Level
from runci.core.paths import is_below, path_bytes
from runci.core.source import Span
from runci.read.answers import Around, asker, code_version, recording, still_so, written
from runci.read.cache import Cache
from runci.read.decode import read
from runci.read.testfile import Suppression, TestFile

# Of more changed files than these, reading the whole tree anew takes little longer.
_FEW = 50
_HEAD, _OTHERS = "head", "others"


class _Head(NamedTuple):
    """What is kept of the tree. Of the files, the first `tests` are tests, the rest beside them.

    `states` are how the files were; `registered` is how many registrations each of the tests has.
    """

    asked: str
    around: list[Any]
    taxonomy: str
    runs: str
    tests: int
    paths: list[str]
    states: list[str]
    registered: list[int]


class _Row(NamedTuple):
    """What is kept of one file: what others see of it, its comments, and what was found in it.

    `alone` is what rules about one file found, `compared` what those that compare files did.
    """

    calls: str
    comments: list[Any]
    alone: list[Any]
    compared: list[Any]


class Checked(NamedTuple):
    """A tree, and what the rules about one file and those that compare files found in it."""

    tree: Tree
    alone: Sequence[Finding]
    compared: Sequence[Finding]


class Standing:
    """The findings of one tree in the cache. `check` runs the rules about one file."""

    def __init__(self, options: Options, check: Callable[[Tree], list[Finding]]) -> None:
        about = f"{options.root.absolute()} {options.config.absolute()}"
        self._asked = f"{about} {sorted(options.active)} {asker()}"
        self._top = os.path.abspath(options.root)  # noqa: PTH100  as `Recording.look`
        self._root, self._check, self.recording = options.root, check, recording()
        folder = options.cache_folder or Path()
        name = f"tree-{zlib.crc32(path_bytes(about)):08x}"
        self._cache = Cache(folder / name, code_version())

    def find(self, wanted: Collection[str]) -> Found | None:
        """What is found below these paths (none: everywhere); None where too much has changed."""
        try:
            head = _Head(*json.loads(self._cache.get(_HEAD) or "[]"))
            around = still_so(head.around) if head.asked == self._asked else None
            return self._found(head, around, wanted) if around is not None else None
        except (TypeError, ValueError, LookupError, AttributeError, RecursionError, RunciError):
            return None  # not ours

    def _found(self, head: _Head, around: Around, wanted: Collection[str]) -> Found | None:
        with inputs.unheard():
            states = [inputs.how_it_is(f"{self._root}/{path}") for path in head.paths]
        changed = {
            n: s for n, (s, was) in enumerate(zip(states, head.states, strict=True)) if s != was
        }
        given = inputs.given_below(self._root)
        if not set(given).issubset(head.paths):
            return None
        changed |= {n: states[n] for n in map(head.paths.index, given)}
        tree = self._tree(head, changed) if len(changed) <= _FEW else None
        if tree is None:
            return None
        inputs.stand(*around)
        same = (n for n in range(len(states)) if n not in changed)
        inputs.stand(((f"{self._top}/{head.paths[n]}", states[n]) for n in same), ())
        self._renew(head, changed, tree, keep=not given)
        numbers = [n for n, path in enumerate(head.paths) if not wanted or is_below(path, wanted)]
        rows = {head.paths[n]: row for n, row in zip(numbers, self._rows(numbers), strict=True)}
        others, comments, findings = json.loads(self._cache.get(_OTHERS) or "")
        findings += ((path, *f) for path, row in rows.items() for f in (*row.alone, *row.compared))
        comments |= {path: row.comments for path, row in rows.items()}
        return Found(
            [_finding(*plain) for plain in findings],
            [*head.paths, *others],
            nothing_there(tree),
            {path: [_comment(*plain) for plain in known] for path, known in comments.items()},
            taxonomy=tree.taxonomy,
            registered=dict(zip(head.paths[: head.tests], head.registered, strict=True)),
            uncollected=frozenset(head.paths[head.tests :]),
        )

    def _rows(self, numbers: Iterable[int]) -> Iterable[_Row]:
        """Rows of files, read in one go: a third of the time."""
        texts = [self._cache.get(str(number)) or "" for number in numbers]
        return [_Row(*plain) for plain in json.loads(f"[{','.join(texts)}]")]

    def _tree(self, head: _Head, changed: Collection[int]) -> Tree | None:
        """A tree of the changed files alone; None where others may see a change."""
        from runci.config.taxonomy import from_json
        from runci.read.parse import parse
        from runci.workflows.runs import SuiteRuns

        tests: list[TestFile] = []
        others: list[TestFile] = []
        for number, row in zip(changed, self._rows(changed), strict=True):
            path = head.paths[number]
            data = read(self._root, path)
            file = parse(path, data) if isinstance(data, bytes) else None
            if file is None or _seen(file) != row.calls:
                return None
            (tests if number < head.tests else others).append(file)
        taxonomy = from_json(head.taxonomy)
        known = registered_in(tests, taxonomy)
        runs = SuiteRuns.from_json(head.runs) if head.runs else None
        return Tree(tests, taxonomy, known, others, suite_runs=runs)

    def _renew(self, head: _Head, changed: Mapping[int, str], tree: Tree, *, keep: bool) -> None:
        """Check the changed files; `keep` that where none of them may change once more unseen."""
        files = {file.path: file for file in (*tree.files, *tree.uncollected)}
        alone = _by_path(self._check(tree))
        for (number, state), row in zip(changed.items(), self._rows(changed), strict=True):
            path = head.paths[number]
            comments = [*files[path].suppressions]
            renewed = row._replace(alone=alone.get(path, []), comments=comments)
            self._cache.put(str(number), json.dumps(renewed))
            head.states[number] = state
        young = any(self.recording.is_young(f"{self._top}/{path}") for path in files)
        if changed and keep and not young:
            self._save(head)

    def _save(self, head: _Head) -> None:
        self._cache.put(_HEAD, json.dumps(head))
        self._cache.save([_HEAD, _OTHERS, *map(str, range(len(head.paths)))])

    def keep(self, checked: Checked) -> None:
        """Keep what was found, if all that it depends on was recorded."""
        tree = checked.tree
        tests = [file for file in tree.files if file.path.endswith(".py")]  # the rest are folders
        files = [*tests, *tree.uncollected]
        full = {file.path: f"{self._top}/{file.path}" for file in files}
        around, young = dict(self.recording.paths), self.recording.young
        states = ["" if at in young else around.pop(at, "") for at in full.values()]
        if not self.recording.known or young - set(full.values()):
            return
        from runci.config.taxonomy import to_json

        head = _Head(
            self._asked,
            written(around, self.recording.questions),
            to_json(tree.taxonomy),
            tree.suite_runs.to_json() if tree.suite_runs is not None else "",
            len(tests),
            list(full),
            states,
            [len(tree.of(file)) for file in tests],
        )
        alone, compared = _by_path(checked.alone), _by_path(checked.compared)
        for number, file in enumerate(files):
            mine = (found.pop(file.path, []) for found in (alone, compared))
            row = _Row(_seen(file), [*file.suppressions], *mine)
            self._cache.put(str(number), json.dumps(row))
        left = [(path, *f) for found in (alone, compared) for path in found for f in found[path]]
        others = {f.path: [*f.suppressions] for f in all_files(tree) if f.path not in full}
        self._cache.put(_OTHERS, json.dumps((list(others), others, left)))
        self._save(head)


def _seen(file: TestFile) -> str:
    """What rules that compare files see of one."""
    return json.dumps((file.calls, file.marks))


def _by_path(findings: Iterable[Finding]) -> dict[str, list[Any]]:
    """Findings as JSON has them, without their paths."""
    found: dict[str, list[Any]] = {}
    for f in findings:
        plain = (f.span, f.rule, f.message, f.remedy, f.key, f.fixable, f.level.value)
        found.setdefault(f.path, []).append(plain)
    return found


def _finding(path: str, span: list[int], *rest: Any) -> Finding:
    rule, message, remedy, key, fixable, level = rest
    return Finding(path, Span(*span), rule, message, remedy, key, fixable, Level(level))


def _comment(rules: list[str], reason: str, target: int, last: int, span: list[int]) -> Suppression:
    return Suppression(tuple(rules), reason, target, last, Span(*span))
