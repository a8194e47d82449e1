"""RT203: a folder whose tests may not register in this suite."""

from __future__ import annotations

from collections.abc import Iterator

from runci.finding import Finding
from runci.globs import matches
from runci.parse.model import TestFile
from runci.rules.base import FileRule, Tree, arguments_span
from runci.suites import FolderPolicy


def check(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at each registration that the folder's policy does not allow."""
    policy = tree.taxonomy.folder_policy(file.path)
    if policy is None:
        return
    for registration in tree.of(file):
        suite = registration.effective_suite
        if matches(suite, policy.allow.get(registration.backend, ())):
            continue
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


RULE = FileRule(
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
    check=check,
)
