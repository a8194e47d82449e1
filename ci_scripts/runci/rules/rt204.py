"""RT204: `nightly` that disagrees with the kind of the suite."""

from __future__ import annotations

from collections.abc import Iterator

from runci.finding import Finding
from runci.parse.model import TestFile
from runci.rules.base import FileRule, Tree, arguments_span
from runci.suites import Kind


def check(file: TestFile, tree: Tree) -> Iterator[Finding]:
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

RULE = FileRule(
    id="RT204",
    name="nightly-disagrees",
    summary="`nightly` says otherwise than the kind of the suite.",
    reason="Runners filter by both: a test whose flag and suite disagree is selected by neither "
    "the per-commit nor the nightly run.",
    bad="from runci import register_cuda_ci\n\nregister_cuda_ci(est_time=600, "
    'suite="nightly-kernel-1-gpu-small")',
    good="from runci import register_cuda_ci\n\n"
    'register_cuda_ci(est_time=600, suite="nightly-kernel-1-gpu-small", nightly=True)',
    check=check,
)
