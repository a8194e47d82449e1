"""RT306: a file with tests or registrations whose name no runner collects."""

from __future__ import annotations

from collections.abc import Iterator

from runci.finding import Finding
from runci.parse.model import TestFile
from runci.rules.base import FileRule, Tree
from runci.source import at


def check(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at the first registration, or the last test, of an uncollected file."""
    called = [call for call in file.calls if call.via != "value"]
    if called:
        what, span = "registrations", called[0].span
    elif file.tests:
        what, span = "tests", file.last_test or at(1)
    else:
        return
    patterns = ", ".join(tree.taxonomy.test_files)
    name = file.path.rpartition("/")[2]
    yield Finding(
        file.path,
        span._replace(end_line=span.line, end_column=span.column) if what == "tests" else span,
        "RT306",
        f"the file has {what}, but no runner collects the name {name} ({patterns})",
        f"Rename it to match, or list it under `exclude` in {tree.taxonomy.path} and remove its "
        "registrations if it only helps others.",
        key=name,
    )


RULE = FileRule(
    id="RT306",
    name="name-not-collected",
    summary="A file with tests or registrations has a name that no runner collects.",
    reason="`tset_x.py` or `x_test.py` looks like a test to its author and like nothing to the "
    "runner: it never runs.",
    bad="# test/registered/addition_test.py\n"
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")\n\n\n'
    "def test_addition():\n    assert 1 + 1 == 2",
    good="# test/registered/test_addition.py\n"
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")\n\n\n'
    "def test_addition():\n    assert 1 + 1 == 2",
    check=check,
    files="uncollected",
)
