"""Which suites the GitHub workflows of a repository run.

`read_workflows` reads the files; `find_suite_runs` is pure, and its result can be cached under
a hash of the files and settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from runci.workflows.read import read_workflows
from runci.workflows.runs import Broken, SuiteRun, SuiteRuns, Unresolved

if TYPE_CHECKING:
    from runci.suites import Workflows

__all__ = [
    "Broken",
    "SuiteRun",
    "SuiteRuns",
    "Unresolved",
    "find_suite_runs",
    "read_workflows",
]


def find_suite_runs(
    files: Mapping[str, bytes], settings: Workflows, unreadable: tuple[Broken, ...] = ()
) -> SuiteRuns:
    """Which suites the workflows run. `files` are workflows and local actions by path.

    `settings.commands` says which commands start a suite: words that follow each other («runci
    run»), or a script. A script with its folder («test/run_suite.py», from the root) tells it
    from others of the same file name.
    """
    # Imported late: with a cached result nobody needs the reader of YAML and expressions.
    from runci.workflows.find import find_suite_runs as find

    return find(files, settings, unreadable)
