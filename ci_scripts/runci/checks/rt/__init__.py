"""Rules about registered tests, those of one subject in one module, and their run over a tree."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace

from runci.checks.registry import rules_of
from runci.checks.rt.standing import Checked, Standing
from runci.checks.rule import Accepted, FileRule, Found, Options, Tree, TreeRule
from runci.checks.tree import all_files, load_tree, nothing_there
from runci.core import inputs
from runci.core.finding import Finding
from runci.core.paths import relative


def find(options: Options) -> Found:
    """Read the tree and run the rules. Raises RunciError where there is no tree of tests."""
    if not options.reuse or options.cache_folder is None or sys.platform == "win32":
        return find_in(load_tree(options), options.active)
    wanted = {relative(options.root, path, options.cwd) for path in options.paths}
    standing = Standing(options, lambda tree: check_alone(tree, options.active))
    found = standing.find(wanted if "" not in wanted else ())
    if found is not None:
        return _without_ignored(found)
    with inputs.recorded(standing.recording):
        tree = load_tree(options)
        checked = Checked(tree, check_alone(tree, options.active), compare(tree, options.active))
    standing.keep(checked)
    return _found(checked)


def find_in(tree: Tree, active: Iterable[str]) -> Found:
    """What the active rules find in a tree; pure."""
    rules = frozenset(active)
    return _found(Checked(tree, check_alone(tree, rules), compare(tree, rules)))


def _found(checked: Checked) -> Found:
    tree = checked.tree
    return _without_ignored(
        Found(
            [*checked.alone, *checked.compared],
            [file.path for file in all_files(tree)],
            nothing_there(tree),
            {file.path: file.suppressions for file in all_files(tree)},
            taxonomy=tree.taxonomy,
            registered={path: len(of) for path, of in tree.registrations.items()},
            uncollected=frozenset(file.path for file in tree.uncollected),
            tree=tree,
        )
    )


def _without_ignored(found: Found) -> Found:
    """Without what the taxonomy says to ignore in a folder."""
    taxonomy = found.taxonomy
    if taxonomy is None or not taxonomy.folder_rules:
        return found
    ignored = [f for f in found.findings if taxonomy.ignores(f.rule, f.path)]
    accepted = [Accepted(f, f"{taxonomy.path} ignores {f.rule} there") for f in ignored]
    kept = [f for f in found.findings if not taxonomy.ignores(f.rule, f.path)]
    return replace(found, findings=kept, accepted=accepted)


def check(tree: Tree, active: frozenset[str]) -> list[Finding]:
    """All findings of the active rules; pure."""
    return [*check_alone(tree, active), *compare(tree, active)]


def check_alone(tree: Tree, active: frozenset[str]) -> list[Finding]:
    """What the rules about one file find, each seeing no other file; pure."""
    found: list[Finding] = []
    for rule in rules_of("RT"):
        if isinstance(rule, FileRule) and rule.id in active:
            files = tree.files if rule.files == "test" else tree.uncollected
            for file in files:
                found.extend(rule.check(file, tree))
    return found


def compare(tree: Tree, active: frozenset[str]) -> list[Finding]:
    """What the rules that compare files find; pure. They see its calls and marks alone."""
    found: list[Finding] = []
    for rule in rules_of("RT"):
        if isinstance(rule, TreeRule) and rule.id in active:
            found.extend(rule.check(tree))
    return found
