"""Rules about registered tests, those of one subject in one module, and their run over a tree."""

from __future__ import annotations

from collections.abc import Iterable

from runci.checks.registry import rules_of
from runci.checks.rule import Accepted, FileRule, Found, Options, Tree, TreeRule
from runci.checks.tree import all_files, load_tree, nothing_there
from runci.core.finding import Finding


def find(options: Options) -> Found:
    """Read the tree and run the rules. Raises RunciError where there is no tree of tests."""
    return find_in(load_tree(options), options.active)


def find_in(tree: Tree, active: Iterable[str]) -> Found:
    """What the active rules find in a tree; pure."""
    found = check(tree, frozenset(active))
    ignored = [f for f in found if tree.taxonomy.ignores(f.rule, f.path)]
    return Found(
        [f for f in found if f not in ignored] if ignored else found,
        [file.path for file in all_files(tree)],
        nothing_there(tree),
        {file.path: file.suppressions for file in all_files(tree)},
        [Accepted(f, f"{tree.taxonomy.path} ignores {f.rule} there") for f in ignored],
        tree,
    )


def check(tree: Tree, active: frozenset[str]) -> list[Finding]:
    """All findings of the active rules; pure."""
    found: list[Finding] = []
    for rule in rules_of("RT"):
        if rule.id not in active:
            continue
        if isinstance(rule, FileRule):
            files = tree.files if rule.files == "test" else tree.uncollected
            for file in files:
                found.extend(rule.check(file, tree))
        elif isinstance(rule, TreeRule):
            found.extend(rule.check(tree))
    return found
