"""The registered-test lint: discover → parse → rules → suppressions → baseline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from runci.audit.ids import IDS
from runci.discover import Discovered, discover, why_not_visited
from runci.errors import Exit, RunciError
from runci.finding import Finding, Level
from runci.lines import LineReader
from runci.parse import TestFile, unreadable
from runci.parse.registrations import registrations
from runci.paths import relative
from runci.reading import Reading
from runci.rules import ALL, RULES, require_known
from runci.rules.base import FileRule, Tree
from runci.settings import open_cache, read_suite_runs, read_taxonomy
from runci.suites import Taxonomy
from runci.suppress import in_workflows, suppress
from runci.workflows import SuiteRuns


@dataclass(frozen=True, slots=True)
class Options:
    """What a run of the lint was asked for.

    `paths` restrict the report, never what the rules see; they are relative to `cwd`. `active`
    are rule ids. `cache_folder` None means no cache; `jobs` is the most processes to use.
    """

    root: Path
    config: Path
    cwd: Path
    active: frozenset[str]
    paths: tuple[str, ...] = ()
    baseline: Path | None = None
    cache_folder: Path | None = None
    jobs: int = 1


@dataclass(frozen=True, slots=True)
class Result:
    """Findings to report, and the counts of the last line. `gone`: of the baseline, no more."""

    findings: tuple[Finding, ...]
    tree: Tree
    files: int
    registrations: int
    suppressed: int = 0
    baselined: int = 0
    gone: int = 0

    @property
    def failed(self) -> bool:
        """Whether any finding is more than a note."""
        return any(finding.level is Level.ERROR for finding in self.findings)


def lint(options: Options) -> Result:
    """Run the whole lint. Raises RunciError for wrong configuration or nothing to check."""
    tree = load_tree(options)
    wanted = wanted_paths(options, tree)
    found = [f for f in check(tree, options.active) if not tree.taxonomy.ignores(f.rule, f.path)]
    comments = {file.path: file.suppressions for file in all_files(tree) if file.suppressions}
    comments.update(in_workflows(found, LineReader(options.root)))
    remaining = suppress(found, comments, (*ALL, *IDS), options.active)
    reported = tuple(f for f in remaining.findings if is_below(f.path, wanted))
    known = gone = 0
    if options.baseline is not None:
        from runci import baseline

        listed = baseline.read(options.baseline)
        compared = baseline.compare(reported, baseline.of_rules(listed, options.active))
        reported, known, gone = compared.new, compared.known, compared.gone
    files = [file for file in tree.files if is_below(file.path, wanted)]
    return Result(
        reported,
        tree,
        files=len(files),
        registrations=sum(len(tree.of(file)) for file in files),
        suppressed=remaining.count,
        baselined=known,
        gone=gone if not wanted else 0,
    )


def load_tree(options: Options) -> Tree:
    """Read everything that the rules look at."""
    root, cache = options.root, open_cache(options.root, options.config, options.cache_folder)
    taxonomy, taxonomy_key = read_taxonomy(root, options.config, cache)
    for rules in taxonomy.folder_rules:
        require_known(rules.ignore, f"{taxonomy.path}:{rules.line}: ignore: ")
    found = discover(root, taxonomy)
    used = [*found.tests, *found.others]
    with Reading(root, used, cache, options.jobs) as reading:
        runs, runs_key = read_suite_runs(root, taxonomy, cache)
        files = reading.files(keep=[taxonomy_key, runs_key])
    links = [unreadable(path, why_not_visited(root, path)) for path in found.linked]
    return tree_of(taxonomy, files, found, runs, links)


def tree_of(
    taxonomy: Taxonomy,
    files: Sequence[TestFile],
    found: Discovered,
    runs: SuiteRuns | None,
    links: Sequence[TestFile] = (),
) -> Tree:
    """Put together what the rules see; `files` are the tests, then the others."""
    tests = [*files[: len(found.tests)], *links]
    return Tree(
        files=tests,
        taxonomy=taxonomy,
        registrations={f.path: known for f in tests if (known := registrations(f))},
        uncollected=files[len(found.tests) :],
        packages=found.packages,
        suite_runs=runs,
    )


def check(tree: Tree, active: frozenset[str]) -> list[Finding]:
    """All findings of the active rules; pure."""
    found: list[Finding] = []
    for rule in RULES:
        if rule.id not in active:
            continue
        if isinstance(rule, FileRule):
            files = tree.files if rule.files == "test" else tree.uncollected
            for file in files:
                found.extend(rule.check(file, tree))
        else:
            found.extend(rule.check(tree))
    return found


def all_files(tree: Tree) -> Iterable[TestFile]:
    """The tests, and the Python files beside them."""
    yield from tree.files
    yield from tree.uncollected


def wanted_paths(options: Options, tree: Tree) -> tuple[str, ...]:
    """The paths to report on, relative to the root; empty for all."""
    wanted = tuple(relative(options.root, path, options.cwd) for path in options.paths)
    if not wanted or "" in wanted:
        return ()
    if not any(is_below(file.path, wanted) for file in all_files(tree)):
        shown = ", ".join(options.paths)
        roots = ", ".join(tree.taxonomy.roots)
        raise RunciError(f"{shown}: no test file there (tests are below {roots})", Exit.NOTHING)
    return wanted


def is_below(path: str, wanted: tuple[str, ...]) -> bool:
    """Whether a path is one of these or below one; nothing wanted means everything."""
    return not wanted or any(path == w or path.startswith(f"{w}/") for w in wanted)
