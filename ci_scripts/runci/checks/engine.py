"""One run of checks: find → suppress → restrict to paths → baseline. What is accepted, and why.

Lint, audit, whitespace, `check` and the plan ask here, so that they cannot disagree about what a
comment or a baseline lets stand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from runci.checks.rule import Accepted, Found, Options, Tree, wanted_paths
from runci.checks.suppress import suppress
from runci.core.errors import Exit, RunciError
from runci.core.finding import Finding, Level
from runci.core.paths import is_below
from runci.read.comments import suppressions_of
from runci.read.decode import read as read_file
from runci.read.testfile import Suppression

if TYPE_CHECKING:
    from runci.checks.fix import Fixed
    from runci.config.taxonomy import Taxonomy


@dataclass(frozen=True, slots=True)
class Result:
    """Findings to report, those that are accepted, and the counts of the last line.

    `gone`: how many the baseline lists in vain. `found`: what each family gave. `wanted`: the paths
    that the report is restricted to, none for all. `complete`: the rules of which every finding
    is known; what comments and baselines say of others is neither unused nor gone.
    """

    findings: tuple[Finding, ...]
    accepted: tuple[Accepted, ...]
    found: Mapping[str, Found]
    complete: frozenset[str]
    suppressed: int = 0
    baselined: int = 0
    gone: int = 0
    notes: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()

    @property
    def tree(self) -> Tree | None:
        """The tests and the taxonomy, where all of them were read."""
        return self.found["RT"].tree if "RT" in self.found else None

    @property
    def looked_at(self) -> frozenset[str]:
        """The files in question that the report is about."""
        every = (path for found in self.found.values() for path in found.paths)
        return frozenset(path for path in every if not self.wanted or is_below(path, self.wanted))

    @property
    def failed(self) -> bool:
        """Whether any finding is more than a note."""
        return any(finding.level is Level.ERROR for finding in self.findings)


def check(options: Options, families: Sequence[str]) -> Result:
    """Run the rules of these families. Raises RunciError for wrong use, or nothing to check."""
    found, notes = _find(options, families)
    there = [path for one in found.values() for path in one.paths]
    nothing = found[families[0]].nothing if len(families) == 1 else "no file there to check"
    return judge(options, found, wanted_paths(options, there, nothing), notes)


def _find(options: Options, families: Sequence[str]) -> tuple[dict[str, Found], tuple[str, ...]]:
    """What each family finds, and what to say of those that have nothing to look at.

    Raises RunciError where that is all of them.
    """
    given = {family: _find_one(options, family) for family in families}
    empty = [one for one in given.values() if isinstance(one, RunciError)]
    if len(empty) == len(given):
        raise empty[0]
    found = {f: one if isinstance(one, Found) else Found((), ()) for f, one in given.items()}
    return found, tuple(map(str, empty))


def _find_one(options: Options, family: str) -> Found | RunciError:
    try:
        found: Found = import_module(f"runci.checks.{family.lower()}").find(options)
    except RunciError as error:
        if error.code != Exit.NOTHING:
            raise
        return error
    return found


def judge(
    options: Options,
    found: Mapping[str, Found],
    wanted: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
) -> Result:
    """What is left of the findings once comments, paths and the baseline had their say."""
    findings = [finding for item in found.values() for finding in item.findings]
    complete = frozenset(rule for rule in options.active if _is_complete(rule, options, found))
    comments = _comments(options, found)
    remaining = suppress(findings, comments, options.active, complete, _readers(found))
    taxonomy = found["RT"].taxonomy if "RT" in found else None
    reported = tuple(f for f in remaining.findings if _is_reported(f, wanted, taxonomy))
    accepted = [*(one for item in found.values() for one in item.accepted), *remaining.accepted]
    known = gone = 0
    if options.baseline is not None:
        from runci.checks import baseline

        listed = baseline.read(options.baseline)
        compared = baseline.compare(reported, listed, complete)
        reported, known, gone = compared.new, len(compared.known), compared.gone
        name = _below_root(options.baseline, options.root) or options.baseline.as_posix()
        accepted += [Accepted(f, f"listed in {name}") for f in compared.known]
    return Result(
        reported,
        tuple(accepted),
        found,
        complete,
        suppressed=sum(_is_reported(a.finding, wanted, taxonomy) for a in remaining.accepted),
        baselined=known,
        gone=gone if not wanted else 0,
        notes=notes,
        wanted=wanted,
    )


def _is_reported(finding: Finding, wanted: tuple[str, ...], taxonomy: Taxonomy | None) -> bool:
    if wanted and not is_below(finding.path, wanted):
        return False
    # What is wrong with comments is known only now: folder_rules may ignore that, too.
    return taxonomy is None or not taxonomy.ignores(finding.rule, finding.path)


def _below_root(path: Path, root: Path) -> str:
    """A path without links, as every machine has it; nothing for one that is outside the root."""
    full, top = path.resolve(), root.resolve()
    return full.relative_to(top).as_posix() if full.is_relative_to(top) else ""


def _is_complete(rule: str, options: Options, found: Mapping[str, Found]) -> bool:
    """Whether all that a rule finds is known; of comments, the lint knows most."""
    return rule[:2] in found and (options.diff_base is None or not rule.startswith("WS"))


def _comments(options: Options, found: Mapping[str, Found]) -> dict[str, Sequence[Suppression]]:
    """The suppressions of every file that was read, or has a finding."""
    known = {path: items for one in found.values() for path, items in one.comments.items()}
    others = {f.path for one in found.values() for f in one.findings} - known.keys()
    read = ((path, read_file(options.root, path)) for path in sorted(others))
    return known | {p: suppressions_of(p, d) for p, d in read if isinstance(d, bytes)}


def _readers(found: Mapping[str, Found]) -> Callable[[str], frozenset[str]]:
    """The families whose rules looked at a file."""
    paths = {family: {*one.paths, *(f.path for f in one.findings)} for family, one in found.items()}
    return lambda path: frozenset(family for family, known in paths.items() if path in known)


def changes(options: Options, result: Result) -> list[Fixed]:
    """What --fix would write: registered tests first, then the whitespace of what came of it."""
    from runci.checks.fix import fix_files

    mended: dict[str, Fixed] = {}
    if result.tree is not None:
        fixed = fix_files(options.root, result.findings, result.tree, options.active)
        paths = {one.path: Path(options.root, one.path) for one in fixed}
        real = {path: _below_root(full, options.root) or path for path, full in paths.items()}
        mended = {real[one.path]: replace(one, path=real[one.path]) for one in fixed}
    if "WS" in result.found:
        mended |= _with_whitespace(options, result, mended)
    return [mended[path] for path in sorted(mended)]


def _with_whitespace(
    options: Options, result: Result, earlier: Mapping[str, Fixed]
) -> dict[str, Fixed]:
    """Whitespace mended in the files as they are by now; judged anew, since lines have moved."""
    from runci.checks import ws
    from runci.checks.fix import Fixed

    paths = {f.path for f in result.findings if f.fixable and f.rule.startswith("WS")}
    files = ws.read_again(options, {**dict.fromkeys(paths), **earlier})
    found = ws.found_in(files, options.active, [file.path for file in files])
    left = judge(options, {"WS": found}).findings
    mended = {}
    for file in files:
        after, count = ws.mended(file, [f for f in left if f.path == file.path])
        if after != file.data:
            first = earlier.get(file.path) or Fixed(file.path, file.data, file.data, 0)
            mended[file.path] = replace(first, after=after, count=first.count + count)
    return mended
