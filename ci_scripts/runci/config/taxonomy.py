"""The taxonomy: which suites, runners and folders a repository has (`test/suites.yml`, read)."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from runci.core.globs import FileGlobs, matches
from runci.core.invocation import PLAIN, Invocation
from runci.core.labels import Label, read_label
from runci.core.marks import SIGN, compiled
from runci.core.paths import is_below
from runci.core.registration import Backend, Registration
from runci.core.source import at

VERSION = 1
OUT = "!"  # before a glob: what it matches is taken out again
ACTIONS = ".github/actions"
MARGIN_MINUTES = 15  # for what a job does besides its suite's tests
EXCLUDED = ("conftest.py", "__init__.py")  # from the tests below the roots, where nothing else is
# What decides how tests are chosen, run and judged. By name alone: it may stand in any folder.
CONFIGURATION = (
    "suites.yml",
    "runci.yml",
    "perf.yml",
    "runci-baseline.json",
    ".github/ci-*.yml",
    "conftest.py",
    "pyproject.toml",
    "pytest.toml",
    ".pytest.toml",
    "pytest.ini",
    ".pytest.ini",
    "tox.ini",
    "setup.cfg",
)


class Kind(str, enum.Enum):
    """When a suite runs, and so which plans it is in.

    STRESS is when somebody asks: the kind of a suite that a person runs by hand, too.
    """

    PER_COMMIT = "per-commit"
    EXTRA = "extra"
    NIGHTLY = "nightly"
    WEEKLY = "weekly"
    STRESS = "stress"


class Execution(str, enum.Enum):
    """How a runner executes a test file: `python FILE`, or through pytest."""

    SCRIPT = "script"
    PYTEST = "pytest"


@dataclass(frozen=True, slots=True)
class Runner:
    """A kind of machine: core/machine.py says how it is compared. `gpus` is 0 for a CPU machine.

    `label` is what `runs-on` takes, `memory_gb` one GPU's memory. `line` is where suites.yml
    declares it.
    """

    name: str
    label: Label
    gpus: int = 0
    gpu: str | None = None
    compute_capability: str | None = None
    memory_gb: float | None = None
    execution: Execution = Execution.SCRIPT
    line: int = 0


@dataclass(frozen=True, slots=True)
class Members:
    """Test files that a suite has without a call in them, one entry of its `tests`.

    `files` are globs; one that begins with «!» takes files out that entries before have. `test` is
    a test of them, as `Class::test[parameters]`, "" for all; `marked` an expression of marks that
    the suite's tests have. `line` is where suites.yml says so.
    """

    files: tuple[str, ...]
    test: str = ""
    marked: str = ""
    line: int = 0


# Of compute-sanitizer; and how much longer a file is thought to take under one of them.
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
FACTOR = 10.0


@dataclass(frozen=True, slots=True)
class Suite:
    """One suite of one backend.

    `stage` and `runner_config` are set where the suite was declared as a stage with runner
    configs. `pair_required`: the legacy `suite=` may not name it (RT202). `run_by` is None when a
    workflow of this repository runs it, else who does («another CI», «by hand»): RT205 and RT206
    then leave it alone, and only a plan for GitHub does, too. `max_deselected` is for one file,
    None for any number. `tests` are files that it has without a call in them. `under` are the tools
    of compute-sanitizer that each file runs under, one after another, for `under_factor` times its
    estimate. `invocation` is what its `env`, `pytest_args` and `setup` say. `line` is where
    suites.yml declares it.
    """

    name: str
    backend: Backend
    kind: Kind
    runner: str | None = None
    timeout_minutes: float | None = None
    default_est_time: float | None = None
    max_deselected: int | None = None
    stage: str | None = None
    runner_config: str | None = None
    pair_required: bool = False
    run_by: str | None = None
    under: tuple[str, ...] = ()
    under_factor: float = FACTOR
    tests: tuple[Members, ...] = ()
    invocation: Invocation = PLAIN
    line: int = 0


@dataclass(frozen=True, slots=True)
class FolderPolicy:
    """Which suites the tests of a folder may register in.

    `folder` is a glob. `allow` maps a backend to suite-name globs; a backend that is missing may
    not register there. `because` is the sentence that a contributor is shown.
    """

    folder: str
    allow: Mapping[Backend, tuple[str, ...]]
    because: str


@dataclass(frozen=True, slots=True)
class Skip:
    """Tests that a runner may skip: a pattern, as `runci.core.patterns` has them."""

    test: str
    runners: tuple[str, ...]
    reason: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class RunBy:
    """Files (globs) that `by` runs, where no workflow of this repository does."""

    files: tuple[str, ...]
    by: str


@dataclass(frozen=True, slots=True)
class Component:
    """Paths that start suites when they change; both are globs."""

    name: str
    paths: tuple[str, ...]
    suites: tuple[str, ...]
    line: int = 0


@dataclass(frozen=True, slots=True)
class FolderRules:
    """Rules (ids or prefixes, «RT3») that are not reported below a folder, and why."""

    folder: str
    ignore: tuple[str, ...]
    because: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Workflows:
    """Where workflows stand and which commands in their `run:` steps start a suite.

    A command is words («runci run») or a script. A script with its folder from the root
    («test/run_suite.py») is told from others of the same file name; a bare name means them all.

    `gates` decide who may use a self-hosted runner: a command whose step says so in its output
    `gate_output`, «uses ACTION» for an action that does so, the path of a called workflow, whose
    success says so, or «environment NAME», whose reviewers approve each job. `hosted` are labels
    of GitHub's own runners beside the standard ones. `required_checks` are the checks that a merge
    waits for. `pr_tests` are the files of the workflows whose states a pull request shows. `jobs`
    are the suites that a job runs, by the name that GitHub shows without the values of a matrix.
    `file_timeout` are the seconds that a command gives one file where its options do not say.
    `action` is the published action, OWNER/NAME, whose steps count as the commands that it runs.
    """

    paths: tuple[str, ...] = (".github/workflows",)
    commands: tuple[str, ...] = ("runci run", "run_suite.py")
    gates: tuple[str, ...] = ("runci gate",)
    gate_output: str = "allowed"
    hosted: tuple[str, ...] = ()
    required_checks: tuple[str, ...] = ()
    pr_tests: tuple[str, ...] = ()
    jobs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    file_timeout: float | None = None
    action: str = ""


@dataclass(frozen=True, slots=True)
class Taxonomy:
    """Everything that suites.yml says, validated. `path` is the file, for messages.

    `roots` are folders, "." the whole repository. `own_globs` are those of roots that have some, by
    root, in place of `test_files` and `exclude`; of roots in each other the innermost decides.
    `benchmarks` are the test files that are scripts of measurements, without test functions.
    `entry_points` are functions of the repository that run a file's tests and exit with the
    result, as `unittest.main` does; by their last name or dotted. `ignore` are globs of paths
    that start nothing: ask `is_ignored`. `conditions` are functions of the repository that ask
    about the machine, by their last name, and packages that may be missing, by theirs, each as an
    expression of what is known of a runner.
    """

    path: str
    roots: tuple[str, ...]
    exclude: tuple[str, ...] = EXCLUDED
    test_files: tuple[str, ...] = ("test_*.py", "bench_*.py")
    benchmarks: tuple[str, ...] = ("bench_*.py",)
    marker_modules: tuple[str, ...] = ("runci",)
    entry_points: tuple[str, ...] = ()
    disabled_reason: str = r"https?://\S+|#\d+"
    runners: Mapping[str, Runner] = field(default_factory=dict)
    suites: Mapping[tuple[Backend, str], Suite] = field(default_factory=dict)
    folders: tuple[FolderPolicy, ...] = ()
    skips: tuple[Skip, ...] = ()
    components: tuple[Component, ...] = ()
    ignore: tuple[str, ...] = ()
    folder_rules: tuple[FolderRules, ...] = ()
    conditions: Mapping[str, str] = field(default_factory=dict)
    workflows: Workflows = Workflows()
    own_globs: Mapping[str, FileGlobs] = field(default_factory=dict)
    run_by: tuple[RunBy, ...] = ()

    def runs_elsewhere(self, path: str) -> bool:
        """Whether something else runs this file (`run_by`): it needs neither suite nor workflow."""
        return any(matches(path, one.files) for one in self.run_by)

    def globs_by_root(self) -> dict[str, FileGlobs]:
        """Those of roots that have their own; by "" those of all others."""
        return {"": FileGlobs(self.test_files, self.exclude), **self.own_globs}

    def root_of(self, path: str) -> str:
        """The root whose own globs a path is sorted by; "" where it has none."""
        folder = path if self.own_globs else ""
        while folder and folder not in self.roots:
            folder = folder.rpartition("/")[0]
        folder = folder or "."
        return folder if folder in self.own_globs else ""

    def globs(self, path: str) -> FileGlobs:
        """What sorts this path."""
        return self.own_globs.get(self.root_of(path)) or FileGlobs(self.test_files, self.exclude)

    def is_at_tests(self, path: str) -> bool:
        """Whether tests may need this file: below a root; of the whole repository only Python."""
        folders = [root for root in self.roots if root != "."]
        return is_below(path, folders) or ("." in self.roots and path.endswith(".py"))

    def suite(self, backend: Backend, name: str) -> Suite | None:
        """The suite of this name that the backend has."""
        return self.suites.get((backend, name))

    def names(self, backend: Backend) -> tuple[str, ...]:
        """All suite names of a backend, in the order of the file."""
        return tuple(name for owner, name in self.suites if owner is backend)

    def backends_with(self, name: str) -> tuple[Backend, ...]:
        """The backends that have a suite of this name."""
        return tuple(backend for backend, suite in self.suites if suite == name)

    def folder_policy(self, path: str) -> FolderPolicy | None:
        """The first policy, in the order of the file, whose folder holds the path."""
        return next((p for p in self.folders if matches(path, (p.folder,))), None)

    def is_benchmark(self, path: str) -> bool:
        """Whether a file is a script of measurements, which needs no test function."""
        return matches(path, self.benchmarks)

    def is_ignored(self, path: str) -> bool:
        """Whether a change of this path starts nothing (`ignore`).

        That never holds below the roots (of the root "." for Python files), for configuration, or
        for workflows and their actions.
        """
        return matches(path, self.ignore) and not self._starts_by_itself(path)

    def unlisted(self, paths: Iterable[str]) -> list[str]:
        """Those that start everything only because neither a component nor `ignore` has them."""
        listed = (*self.ignore, *(glob for one in self.components for glob in one.paths))
        return [
            path for path in paths if not (matches(path, listed) or self._starts_by_itself(path))
        ]

    def _starts_by_itself(self, path: str) -> bool:
        return (
            path == self.path
            or self.is_at_tests(path)
            or matches(path, CONFIGURATION)
            or self.is_workflow(path)
        )

    def is_workflow(self, path: str) -> bool:
        """Whether it is a workflow, or stands where their actions do."""
        return is_below(path, (*self.workflows.paths, ACTIONS))

    def ignores(self, rule: str, path: str) -> bool:
        """Whether a rule is not reported for a path (`folder_rules`)."""
        return any(
            rule.startswith(rules.ignore) and matches(path, (rules.folder,))
            for rules in self.folder_rules
        )

    def declared(self, path: str, marks: Iterable[Collection[str]]) -> tuple[Registration, ...]:
        """What `tests` of the suites say of a file whose tests have these sets of marks.

        A suite that takes tests by their marks has none of a file in which no set of marks fits.
        """
        with_tests = (suite for suite in self.suites.values() if suite.tests)
        found = (_declared(suite, path, marks) for suite in with_tests)
        return tuple(one for one in found if one is not None)

    def execution(self, suite: Suite | None) -> Execution:
        """How the suite's runner executes files; script where nothing is known."""
        runner = self.runners.get(suite.runner) if suite and suite.runner else None
        return runner.execution if runner else Execution.SCRIPT


def _declared(suite: Suite, path: str, marks: Iterable[Collection[str]]) -> Registration | None:
    """The registration that a suite's `tests` make of a file."""
    only: list[str] = []
    line, whole = 0, False
    for entry in suite.tests:
        if entry.files[0].startswith(OUT):
            if matches(path, (entry.files[0][1:],)):
                only, line, whole = [], 0, False
        elif matches(path, entry.files):
            line = line or entry.line
            if entry.marked:
                if any(compiled(entry.marked)(one) is not False for one in marks):
                    only.append(SIGN + entry.marked)
            elif entry.test:
                only.append(entry.test)
            else:
                whole = True
    if not only and not whole:
        return None
    return Registration(
        backend=suite.backend,
        est_time=None,
        suite=None if suite.stage else suite.name,
        stage=suite.stage,
        runner_config=suite.runner_config,
        nightly=suite.kind is Kind.NIGHTLY,
        disabled=None,
        in_process_group=None,
        span=at(1),
        declared=line,
        only=() if whole else tuple(sorted(set(only))),
    )


def to_json(taxonomy: Taxonomy) -> str:
    """Everything in it, on one line."""
    plain = {f.name: getattr(taxonomy, f.name) for f in dataclasses.fields(taxonomy)}
    plain["suites"] = list(taxonomy.suites.values())
    return json.dumps(plain, default=_plain)


def from_json(text: str) -> Taxonomy:
    """What `to_json` wrote. Raises ValueError, TypeError, KeyError or AttributeError for others."""
    plain = _frozen(json.loads(text))
    suites = [_suite(**row) for row in plain.pop("suites")]
    return Taxonomy(
        runners={name: _runner(**row) for name, row in plain.pop("runners").items()},
        suites={(suite.backend, suite.name): suite for suite in suites},
        folders=tuple(_policy(**row) for row in plain.pop("folders")),
        skips=tuple(Skip(**row) for row in plain.pop("skips")),
        run_by=tuple(RunBy(**row) for row in plain.pop("run_by")),
        components=tuple(Component(**row) for row in plain.pop("components")),
        folder_rules=tuple(FolderRules(**row) for row in plain.pop("folder_rules")),
        workflows=Workflows(**plain.pop("workflows")),
        own_globs={root: FileGlobs(*globs) for root, globs in plain.pop("own_globs").items()},
        **plain,
    )


def _plain(value: Any) -> dict[str, Any]:
    """One dataclass as a dict; raises TypeError for anything else that JSON lacks."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _frozen(value: Any) -> Any:
    """Lists as tuples, as the dataclasses have them."""
    if isinstance(value, dict):
        return {key: _frozen(below) for key, below in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _runner(execution: str, label: Any, **row: Any) -> Runner:
    known = read_label(label)
    if known is None:
        raise ValueError(label)
    return Runner(label=known, execution=Execution(execution), **row)


def _suite(
    backend: str, kind: str, tests: Iterable[Any], invocation: dict[str, Any], **row: Any
) -> Suite:
    row["tests"] = tuple(Members(**one) for one in tests)
    row["invocation"] = Invocation(**invocation)
    return Suite(backend=Backend(backend), kind=Kind(kind), **row)


def _policy(allow: dict[str, tuple[str, ...]], **row: Any) -> FolderPolicy:
    return FolderPolicy(allow={Backend(name): globs for name, globs in allow.items()}, **row)
