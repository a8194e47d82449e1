"""Folders whose changes start everything, since no component lists them."""

from __future__ import annotations

from collections.abc import Iterator

from runci.checks.rule import REGISTERED, Tree, TreeRule
from runci.core.finding import Finding, Level
from runci.core.source import at
from runci.text.wording import plural, some


def folder_in_no_component(tree: Tree) -> Iterator[Finding]:
    """One note for each top folder with such files, and one for those at the root."""
    components = tree.taxonomy.components
    if not components:
        return
    unlisted: dict[str, list[str]] = {}
    for path in tree.taxonomy.unlisted(tree.tracked):
        unlisted.setdefault(path.partition("/")[0] if "/" in path else "", []).append(path)
    for folder, paths in unlisted.items():
        where = f"in {folder}/" if folder else "at the root"
        yield Finding(
            tree.taxonomy.path,
            at(components[0].line),
            "RT208",
            f"no component lists {plural(len(paths), 'files')} {where}, so a change of one starts "
            f"everything: {some(paths)}",
            "List them in a component, or under `ignore` where they may start nothing.",
            key=folder,
            level=Level.NOTE,
        )


FOLDER_IN_NO_COMPONENT = TreeRule(
    id="RT208",
    name="folder-in-no-component",
    summary="A folder has files that neither a component of suites.yml nor `ignore` lists.",
    reason="Nobody said what such a file is part of, so a change of it starts every suite. (A "
    "note, where there are components, about files that git tracks; tests, configuration and "
    "workflows are known and need no component.)",
    bad="# test/suites.yml\n"
    "components:\n"
    "  kernel: {paths: [kernel/**], suites: [base-a-test-cpu]}\n\n"
    "# csrc/gemm.py\n"
    "BLOCK = 128\n\n"
    f"# test/registered/unit/test_linear.py\n{REGISTERED}",
    good="# test/suites.yml\n"
    "components:\n"
    "  kernel: {paths: [kernel/**, csrc/**], suites: [base-a-test-cpu]}\n\n"
    "# csrc/gemm.py\n"
    "BLOCK = 128\n\n"
    f"# test/registered/unit/test_linear.py\n{REGISTERED}",
    check=folder_in_no_component,
)

RULES = (FOLDER_IN_NO_COMPONENT,)
