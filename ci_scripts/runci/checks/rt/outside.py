"""Registrations where no reader looks: outside the roots, in conftest.py, not checked out."""

from __future__ import annotations

from collections.abc import Iterator

from runci.checks.rule import REGISTERED, Tree, TreeRule
from runci.core.finding import Finding, Level
from runci.core.globs import matches
from runci.core.source import at
from runci.read.outside import shown, test_names


def registration_not_read(tree: Tree) -> Iterator[Finding]:
    """One finding at each such registration; a note for each submodule and sparse checkout."""
    taxonomy = tree.taxonomy
    names = test_names(taxonomy)
    for file in tree.outside:
        named = matches(file.path, names)
        for call in file.calls:
            if call.within is not None and not named:
                continue  # a program may define what registers
            if call.via == "value" or call.module not in taxonomy.marker_modules:
                continue
            yield Finding(
                file.path,
                call.span,
                "RT110",
                f"{call.written}() stands where no registration is read",
                f"Move the file below {', '.join(taxonomy.roots)}, add its folder to `roots` in "
                f"{taxonomy.path}, or remove the call; what is no test, name by path in `exclude`.",
                key=call.written,
            )
    for path in tree.unseen.submodules:
        text = f"submodule {path}: the tests in it are not read"
        remedy = "Lint that repository by itself, or leave the submodule out of `roots`."
        yield Finding(taxonomy.path, at(1), "RT110", text, remedy, path, level=Level.NOTE)
    if left_out := tree.unseen.left_out:
        text = f"a sparse checkout leaves out {shown(left_out)}: nothing is known of them"
        remedy = f"Check them out: git sparse-checkout add {' '.join(taxonomy.roots)}."
        yield Finding(taxonomy.path, at(1), "RT110", text, remedy, "sparse", level=Level.NOTE)


REGISTRATION_NOT_READ = TreeRule(
    id="RT110",
    name="registration-not-read",
    summary="A registration stands outside the roots, or in a file that is excluded.",
    reason="It looks registered, and no suite runs it: only test files below the roots are read. "
    "(Outside them files count that are named as tests are.) "
    "(A note says where a submodule or a sparse checkout hides tests.)",
    bad=f"# test/registered/conftest.py\n{REGISTERED}",
    good=f"# test/registered/test_linear.py\n{REGISTERED}",
    check=registration_not_read,
)

RULES = (REGISTRATION_NOT_READ,)
