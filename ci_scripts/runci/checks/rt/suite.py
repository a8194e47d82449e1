"""What a registration says and the taxonomy does not: suites, folders, `nightly`, estimates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from runci.checks.rule import (
    REGISTERED,
    FileRule,
    Tree,
    TreeRule,
    arguments_span,
    by_path_words,
)
from runci.config.taxonomy import FolderPolicy, Kind, Suite
from runci.core.finding import Finding, Level
from runci.core.globs import matches
from runci.core.registration import Backend, Registration
from runci.core.source import Edit, comments_in
from runci.read.registrations import registration as read
from runci.read.testfile import TestFile
from runci.text.wording import nearest


def unknown_suite(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at each registration in an undeclared suite."""
    taxonomy = tree.taxonomy
    for registration in tree.of(file):
        name, backend = registration.effective_suite, registration.backend
        if not name.strip() or taxonomy.suite(backend, name) is not None:
            continue  # an empty name is RT105's
        others = [other.value for other in taxonomy.backends_with(name)]
        known = taxonomy.names(backend)
        if others:
            hint = f"; {' and '.join(others)} has it: register_{others[0]}_ci?"
        else:
            hint = nearest(name, known)
        run = tree.by_path(file.path)
        yield Finding(
            file.path,
            arguments_span(file, registration, "suite", "stage", "runner_config"),
            "RT201",
            f"{backend.value} has no suite {name!r}{hint}{by_path_words(run)}",
            f"Use a {backend.value} suite of {taxonomy.path}"
            + (f": {', '.join(known)}." if known else f": {backend.value} has none there."),
            key=name,
            level=Level.NOTE if run is not None and run.whole else Level.ERROR,
        )


UNKNOWN_SUITE = FileRule(
    id="RT201",
    name="unknown-suite",
    summary="A registration names a suite that its backend does not have.",
    reason="No job of that backend runs that suite, so the test never runs; or a runner that "
    "checks stops for everybody. (A note where a workflow runs the file by its path.)",
    bad='from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=5, stage="base-a", '
    'runner_config="1-gpu-small")',
    good=REGISTERED,
    check=unknown_suite,
)


def legacy_suite(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at each such registration."""
    for registration in tree.of(file):
        suite = _pair(registration, tree)
        if suite is not None:
            yield Finding(
                file.path,
                arguments_span(file, registration, "suite"),
                "RT202",
                f'suite="{suite.name}" must be written as stage and runner_config',
                f"Write {_written(suite)}.",
                key=suite.name,
                fixable=True,
            )


def _pair(registration: Registration, tree: Tree) -> Suite | None:
    if registration.suite is None:
        return None
    suite = tree.taxonomy.suite(registration.backend, registration.suite)
    return suite if suite is not None and suite.pair_required and suite.stage else None


def _written(suite: Suite) -> str:
    return f'stage="{suite.stage}", runner_config="{suite.runner_config}"'


def fix_legacy_suite(file: TestFile, text: str, finding: Finding, tree: Tree) -> Sequence[Edit]:
    """Replace the suite by the pair; arguments that follow by position get their names."""
    call = next(c for c in file.calls if any(a.span == finding.span for a in c.arguments))
    registration = read(call)
    suite = _pair(registration, tree) if registration is not None else None
    if suite is None:
        return []
    edits: list[Edit] = []
    for argument in call.arguments:
        if argument.name == "suite":
            indent = " " * (argument.span.column - 1)
            above = "".join(f"{c}\n{indent}" for c in comments_in(text, argument.span))
            edits.append(Edit(argument.span, above + _written(suite)))
        elif argument.positional and argument.name in ("nightly", "disabled"):
            span = argument.span._replace(
                end_line=argument.span.line, end_column=argument.span.column
            )
            edits.append(Edit(span, f"{argument.name}="))
    return edits


LEGACY_SUITE = FileRule(
    id="RT202",
    name="legacy-suite",
    summary="A suite that consists of a stage and a runner config is written as one string.",
    reason="Tools that select by stage or by runner (a rerun of one test, a plan for one machine) "
    "cannot see it.",
    bad="from runci import register_cuda_ci\n\nregister_cuda_ci(est_time=20, "
    'suite="base-b-test-1-gpu-small")',
    good="from runci import register_cuda_ci\n\n"
    'register_cuda_ci(est_time=20, stage="base-b", runner_config="1-gpu-small")',
    fixable=True,
    check=legacy_suite,
    fix=fix_legacy_suite,
)


def suite_not_for_folder(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at each registration that the folder's policy does not allow."""
    policy = tree.taxonomy.folder_policy(file.path)
    if policy is None:
        return
    for registration in tree.of(file):
        suite = registration.effective_suite
        if registration.declared or matches(suite, policy.allow.get(registration.backend, ())):
            continue  # the taxonomy itself put it there
        yield Finding(
            file.path,
            arguments_span(file, registration, "suite", "stage", "runner_config"),
            "RT203",
            f"{registration.backend.value} suite {suite} is not for tests in {policy.folder}",
            f"{policy.because.rstrip('.')}. Allowed there: {_allowed(policy)}.",
            key=suite,
        )


def _allowed(policy: FolderPolicy) -> str:
    return "; ".join(
        f"{backend.value}: {', '.join(patterns)}" for backend, patterns in policy.allow.items()
    )


SUITE_NOT_FOR_FOLDER = FileRule(
    id="RT203",
    name="suite-not-for-folder",
    summary="A test registers in a suite that is not for its folder.",
    reason="Folders say what a test needs. A unit test on a GPU wastes a scarce machine; a kernel "
    "test in a general suite is not started by a change of the kernel.",
    bad="# test/registered/unit/test_x.py\n"
    "from runci import register_cuda_ci\n\n"
    'register_cuda_ci(est_time=20, stage="base-b", runner_config="1-gpu-small")',
    good="# test/registered/unit/test_x.py\n"
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=20, stage="base-a", runner_config="cpu")',
    check=suite_not_for_folder,
)


def nightly_disagrees(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at each such registration in a declared suite."""
    for registration in tree.of(file):
        suite = tree.taxonomy.suite(registration.backend, registration.effective_suite)
        if suite is None or suite.kind in _EITHER:
            continue
        if registration.nightly and suite.kind is not Kind.NIGHTLY:
            at_fault = "nightly"
            message = f"nightly=True, but suite {suite.name} is {suite.kind.value}"
            remedy = "Remove nightly=True, or name a nightly suite."
        elif not registration.nightly and suite.kind is Kind.NIGHTLY:
            at_fault = "suite"
            message = f"suite {suite.name} is nightly, but the registration is not"
            remedy = "Add nightly=True, or name a per-commit suite."
        else:
            continue
        span = arguments_span(file, registration, at_fault)
        yield Finding(file.path, span, "RT204", message, remedy, key=suite.name)


# Suites outside the per-commit and nightly runs: runners differ on the flag there.
_EITHER = (Kind.WEEKLY, Kind.STRESS)

NIGHTLY_DISAGREES = FileRule(
    id="RT204",
    name="nightly-disagrees",
    summary="`nightly` says otherwise than the kind of the suite.",
    reason="Runners filter by both: a test whose flag and suite disagree is selected by neither "
    "the per-commit nor the nightly run.",
    bad="from runci import register_cuda_ci\n\nregister_cuda_ci(est_time=600, "
    'suite="nightly-kernel-1-gpu-small")',
    good="from runci import register_cuda_ci\n\n"
    'register_cuda_ci(est_time=600, suite="nightly-kernel-1-gpu-small", nightly=True)',
    check=nightly_disagrees,
)


def estimate_over_timeout(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at each enabled registration whose estimate exceeds the timeout."""
    for registration in tree.of(file):
        suite = tree.taxonomy.suite(registration.backend, registration.effective_suite)
        if suite is None or suite.timeout_minutes is None or registration.est_time is None:
            continue
        limit = suite.timeout_minutes * 60
        times = suite.under_factor if suite.under else 1
        if registration.enabled and registration.est_time * times > limit:
            tool = f" times {times:g} (under_factor)" if suite.under else ""
            yield Finding(
                file.path,
                arguments_span(file, registration, "est_time"),
                "RT501",
                f"est_time={registration.est_time:g} s{tool} exceeds the timeout of {suite.name}: "
                f"{suite.timeout_minutes:g} min ({limit:g} s)",
                "Split the file, use a suite with a longer timeout, or correct the estimate.",
                key=suite.name,
            )


ESTIMATE_OVER_TIMEOUT = FileRule(
    id="RT501",
    name="estimate-over-timeout",
    summary="An estimate is larger than the timeout of its suite.",
    reason="No partition can make the job fit: it is killed at the timeout on every run.",
    bad='from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=86400, stage="base-a", '
    'runner_config="cpu")',
    good='from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=60, stage="base-a", '
    'runner_config="cpu")',
    check=estimate_over_timeout,
)


def estimate_over_file_timeout(tree: Tree) -> Iterator[Finding]:
    """One finding at each enabled registration that every run of its suite would cut off."""
    limits: dict[tuple[Backend, str], tuple[float, str]] = {}
    for file in tree.files if tree.suite_runs is not None else ():
        for registration in tree.of(file):
            name = registration.effective_suite
            key = (registration.backend, name)
            if key not in limits:
                limits[key] = _file_limit(tree, *key)
            limit, where = limits[key]
            suite = tree.taxonomy.suite(registration.backend, name)
            times = suite.under_factor if suite is not None and suite.under else 1
            if registration.enabled and (registration.est_time or 0) * times > limit:
                tool = f" times {times:g} (under_factor)" if suite and suite.under else ""
                yield Finding(
                    file.path,
                    arguments_span(file, registration, "est_time"),
                    "RT502",
                    f"est_time={registration.est_time:g} s{tool} exceeds the {limit:g} s that "
                    f"{where} gives a file of {name}",
                    "Split the file, raise --timeout-per-file there, or correct the estimate.",
                    key=name,
                )


def _file_limit(tree: Tree, backend: Backend, suite: str) -> tuple[float, str]:
    """The most seconds that any run of the suite gives a file, and its workflow."""
    default = tree.taxonomy.workflows.file_timeout or math.inf
    runs = [r for r in tree.suite_runs.runs if r.starts(backend, suite)] if tree.suite_runs else []
    known = [(run.file_timeout or default, run.path) for run in runs]
    return max(known, default=(math.inf, ""))


ESTIMATE_OVER_FILE_TIMEOUT = TreeRule(
    id="RT502",
    name="estimate-over-file-timeout",
    summary="An estimate is larger than the time that every run of its suite gives one file.",
    reason="The runner ends the file at its limit each time. (The limit is `--timeout-per-file` of "
    "the command, else `file_timeout` of `workflows` in suites.yml; where a run of the suite has "
    "neither, nothing is said.)",
    bad="# .github/workflows/pr-test.yml\n"
    "      - run: runci run --hw cpu --suite base-a-test-cpu --timeout-per-file 5m\n\n"
    "# test/registered/unit/test_linear.py\n"
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=400, stage="base-a", runner_config="cpu")',
    good="# .github/workflows/pr-test.yml\n"
    "      - run: runci run --hw cpu --suite base-a-test-cpu --timeout-per-file 10m\n\n"
    "# test/registered/unit/test_linear.py\n"
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=400, stage="base-a", runner_config="cpu")',
    check=estimate_over_file_timeout,
)

RULES = (
    UNKNOWN_SUITE,
    LEGACY_SUITE,
    SUITE_NOT_FOR_FOLDER,
    NIGHTLY_DISAGREES,
    ESTIMATE_OVER_TIMEOUT,
    ESTIMATE_OVER_FILE_TIMEOUT,
)
