"""Which suites the GitHub workflows of a repository run.

`read_workflows` reads the files; `find_suite_runs` is pure, and its result can be cached under
a hash of the files and settings.
"""

from __future__ import annotations

from runci.workflows.find import find_suite_runs
from runci.workflows.read import read_workflows
from runci.workflows.runs import Broken, SuiteRun, SuiteRuns, Unresolved

__all__ = [
    "Broken",
    "SuiteRun",
    "SuiteRuns",
    "Unresolved",
    "find_suite_runs",
    "read_workflows",
]
