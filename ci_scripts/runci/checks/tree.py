"""A repository as the rules see it: what to read of it, and reading it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from runci.checks.registry import require_known, rules_of
from runci.checks.rule import Options, Tree, wanted_paths
from runci.config.repository import open_cache, read_taxonomy
from runci.config.taxonomy import Taxonomy
from runci.core.git import list_tracked
from runci.core.paths import path_bytes
from runci.core.registration import Registration
from runci.read.cache import Cache, digest
from runci.read.discover import Discovered, discover, why_not_visited
from runci.read.files import Reading
from runci.read.outside import NOTHING, Outside, find_outside
from runci.read.registrations import registrations
from runci.read.testfile import TestFile, unreadable
from runci.workflows.runs import SuiteRuns, read_scripts, read_workflows


def _read_suite_runs(root: Path, taxonomy: Taxonomy, cache: Cache) -> tuple[SuiteRuns | None, str]:
    """What the workflows run, and its key in the cache; None where there are none."""
    files, broken = read_workflows(root, taxonomy.workflows)
    if not files and not broken:
        return None, ""
    scripts = read_scripts(root, files)
    hashed = [f"{path}:{digest(data)}" for path, data in sorted({**scripts, **files}.items())]
    settings = (broken, taxonomy.workflows, taxonomy.roots)
    key = digest(path_bytes("\0".join([*hashed, repr(settings)])))
    row = cache.get(key)
    if row is not None:
        with contextlib.suppress(TypeError, ValueError, KeyError, RecursionError):  # not ours
            return SuiteRuns.from_json(row), key
    from runci.workflows.find import find_suite_runs  # late: it needs YAML and expressions

    runs = find_suite_runs(files, taxonomy.workflows, broken, scripts, taxonomy.roots)
    cache.put(key, runs.to_json())
    return runs, key


def load_tree(options: Options) -> Tree:
    """Read everything that the rules look at."""
    root, cache = options.root, open_cache(options.root, options.config, options.cache_folder)
    taxonomy, taxonomy_key = read_taxonomy(root, options.config, cache)
    for rules in taxonomy.folder_rules:
        known = (rule.id for rule in rules_of("RT"))
        require_known(rules.ignore, known, f"{taxonomy.path}:{rules.line}: ignore: ")
    found = discover(root, taxonomy)
    used = [*found.tests, *found.others]
    asked = "RT110" in options.active
    unseen = find_outside(root, taxonomy, used) if asked else NOTHING
    used += unseen.candidates
    with Reading(root, used, cache, options.jobs) as reading:
        runs, runs_key = _read_suite_runs(root, taxonomy, cache)
        files = reading.files(keep=[taxonomy_key, runs_key])
    links = [unreadable(path, why_not_visited(root, path)) for path in found.linked]
    asked = bool(taxonomy.components) and "RT208" in options.active
    tracked = (list_tracked(root) or ()) if asked else ()
    return tree_of(taxonomy, files, found, runs, links, tracked, unseen)


def tree_of(
    taxonomy: Taxonomy,
    files: Sequence[TestFile],
    found: Discovered,
    runs: SuiteRuns | None,
    links: Sequence[TestFile] = (),
    tracked: Sequence[str] = (),
    unseen: Outside = NOTHING,
) -> Tree:
    """Put together what the rules see; `files` are the tests, the others, then those outside."""
    read = len(found.tests) + len(found.others)
    tests = [*files[: len(found.tests)], *links]
    return Tree(
        files=tests,
        taxonomy=taxonomy,
        registrations=registered_in(tests, taxonomy),
        uncollected=files[len(found.tests) : read],
        packages=found.packages,
        suite_runs=runs,
        tracked=tracked,
        outside=files[read:],
        unseen=unseen,
    )


def registered(file: TestFile, taxonomy: Taxonomy) -> tuple[Registration, ...]:
    """The registrations of a file: its valid calls, then what `tests` of other suites say."""
    called = registrations(file)
    suites = {(one.backend, one.effective_suite) for one in called}
    said = taxonomy.declared(file.path, file.marks)
    return (*called, *(s for s in said if (s.backend, s.effective_suite) not in suites))


def registered_in(
    files: Iterable[TestFile], taxonomy: Taxonomy
) -> dict[str, tuple[Registration, ...]]:
    """The registrations of files by path; without those that have none."""
    return {file.path: found for file in files if (found := registered(file, taxonomy))}


def all_files(tree: Tree) -> Iterable[TestFile]:
    """The tests, the Python files beside them, and those outside that hold registrations."""
    yield from tree.files
    yield from tree.uncollected
    yield from tree.outside


def nothing_there(tree: Tree) -> str:
    """What to say of paths without a test file."""
    return f"no test file there (tests are below {', '.join(tree.taxonomy.roots)})"


def wanted_tests(options: Options, tree: Tree) -> tuple[str, ...]:
    """The paths that were asked for, relative to the root; empty for all."""
    return wanted_paths(options, [file.path for file in all_files(tree)], nothing_there(tree))
