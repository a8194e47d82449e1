"""What a rule is, what a run of rules is asked for, what rules see, and what they give."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from runci.config.taxonomy import Taxonomy
from runci.core.errors import Exit, RunciError
from runci.core.finding import Finding, RuleInfo
from runci.core.paths import is_below, relative
from runci.core.source import Span
from runci.read.outside import NOTHING, Outside
from runci.read.testfile import Suppression

if TYPE_CHECKING:
    from runci.core.registration import Registration
    from runci.core.source import Edit
    from runci.read.testfile import MarkerCall, TestFile
    from runci.workflows.runs import PathRun, SuiteRuns

# What the examples of many rules begin with, and what they test.
REGISTERED = (
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")'
)
A_TEST = "\n\n\ndef test_addition():\n    assert 1 + 1 == 2"


@dataclass(frozen=True, slots=True)
class Tree:
    """What the rules see: every test file of the repository, in order, and its taxonomy.

    `uncollected` are Python files under a root that no runner collects. `packages` are the
    folders that hold an `__init__.py`. `suite_runs` is None where there are no workflows.
    `tracked` are all files that git tracks, where a rule asks for them and there is git.
    `outside` are files with registrations that are not read as tests, `unseen` what else is not.
    """

    files: Sequence[TestFile]
    taxonomy: Taxonomy
    registrations: Mapping[str, tuple[Registration, ...]] = field(default_factory=dict)
    uncollected: Sequence[TestFile] = ()
    packages: frozenset[str] = frozenset()
    suite_runs: SuiteRuns | None = None
    tracked: Sequence[str] = ()
    outside: Sequence[TestFile] = ()
    unseen: Outside = NOTHING

    def of(self, file: TestFile) -> tuple[Registration, ...]:
        """The valid registrations of a file."""
        return self.registrations.get(file.path, ())

    def by_path(self, path: str) -> PathRun | None:
        """The step that runs this file by path, if a workflow has one."""
        return self.suite_runs.by_path(path) if self.suite_runs is not None else None

    def rejected(self, file: TestFile) -> Sequence[MarkerCall]:
        """The calls of a file where any makes no registration: nearly always none at all."""
        if sum(not one.declared for one in self.of(file)) == len(file.calls):
            return ()
        return [call for call in file.calls if call.via != "value"]  # those have no arguments


FileCheck = Callable[["TestFile", Tree], Iterable[Finding]]
TreeCheck = Callable[[Tree], Iterable[Finding]]
# The file, its text, and the finding to mend; no edits where there is no one right answer.
Fix = Callable[["TestFile", str, Finding, Tree], Sequence["Edit"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRule(RuleInfo):
    """A rule about one file alone. `files` says which: «test» files, or «uncollected» ones."""

    check: FileCheck
    fix: Fix | None = None
    files: str = "test"


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRule(RuleInfo):
    """A rule that compares files, or files with workflows."""

    check: TreeCheck


Rule = FileRule | TreeRule


@dataclass(frozen=True, slots=True)
class Options:
    """What a run of checks was asked for.

    `paths` restrict the report, never what the rules see; they are relative to `cwd`. `active`
    are rule ids. `cache_folder` None means no cache; `jobs` is the most processes to use.
    `diff_base` is a commit: of whitespace, only lines that were added since then count.
    `ruleset` is an export of the default branch's rules, None for the repository's own file.
    `reuse` is whether findings that still stand will do, without the tree that they are in.
    """

    root: Path
    config: Path
    cwd: Path
    active: frozenset[str]
    paths: tuple[str, ...] = ()
    baseline: Path | None = None
    cache_folder: Path | None = None
    jobs: int = 1
    diff_base: str | None = None
    markdown_breaks: bool = True
    ruleset: Path | None = None
    reuse: bool = False


@dataclass(frozen=True, slots=True)
class Accepted:
    """A finding that stands with somebody's consent; `why` is the reason or who gave it."""

    finding: Finding
    why: str


@dataclass(frozen=True, slots=True)
class Found:
    """What the rules of one family found.

    `paths` are the files in question; `nothing` is what to say where none of them is wanted.
    `comments` are the suppressions of every file that was read. The lint sets `taxonomy`, how many
    registrations each test file has, and which files are none; `tree` only where it read it all.
    """

    findings: Sequence[Finding]
    paths: Collection[str]
    nothing: str = ""
    comments: Mapping[str, Sequence[Suppression]] = field(default_factory=dict)
    accepted: Sequence[Accepted] = ()
    taxonomy: Taxonomy | None = None
    registered: Mapping[str, int] = field(default_factory=dict)
    uncollected: Collection[str] = frozenset()
    tree: Tree | None = None


def wanted_paths(options: Options, there: Iterable[str], nothing: str) -> tuple[str, ...]:
    """The paths to report on, relative to the root; empty for all.

    Raises RunciError where none of the files that are `there` is wanted: `nothing` says so.
    """
    wanted = tuple(relative(options.root, path, options.cwd) for path in options.paths)
    if not wanted or "" in wanted:
        return ()
    if not any(is_below(path, wanted) for path in there):
        raise RunciError(f"{', '.join(options.paths)}: {nothing}", Exit.NOTHING)
    return wanted


def shortened(condition: str) -> str:
    """A condition as a message quotes it: at most 60 characters."""
    return condition if len(condition) <= 60 else condition[:57] + "..."


def by_path_words(run: PathRun | None) -> str:
    """What to add to a message about a file that a step runs by path."""
    if run is None:
        return ""
    if run.chosen:
        return f"; may run by {run.path}:{run.line}: {run.chosen}"
    runs = f"runs {run.part} of it" if run.part else "runs it by path"
    return f"; {run.path}:{run.line} {runs if run.certain else f'may run it as {run.target}'}"


def arguments_span(file: TestFile, registration: Registration, *names: str) -> Span:
    """Where these arguments of a registration stand, from the first to the last of them."""
    call = next((c for c in file.calls if c.span == registration.span), None)
    spans = [a.span for a in call.arguments if a.name in names] if call is not None else []
    if not spans:
        return registration.span
    first, last = min(spans), max(spans)
    return Span(first.line, first.column, last.end_line, last.end_column)
