"""RT308: a test that returns early when its hardware, or a package, is missing."""

from __future__ import annotations

from collections.abc import Iterator

from runci.finding import Finding
from runci.parse.model import TestFile
from runci.rules.base import FileRule, Tree


def check(file: TestFile, _tree: Tree) -> Iterator[Finding]:
    """One finding at each such return, or exit with 0."""
    for early in file.early_returns:
        who = f"{early.test} returns" if early.exits == "return" else "the file exits with 0"
        condition = early.condition if len(early.condition) <= 60 else early.condition[:57] + "..."
        yield Finding(
            file.path,
            early.span,
            "RT308",
            f"{who} when `{condition}`: that counts as passed",
            "Skip instead, with the reason: self.skipTest(...), pytest.skip(...), or a decorator "
            "(unittest.skipUnless, pytest.mark.skipif).",
            key=f"{early.test}:{early.condition}",
        )


RULE = FileRule(
    id="RT308",
    name="early-return-without-skip",
    summary="A test returns early, instead of skipping, when its hardware or a package is missing.",
    reason="A return before the asserts is a pass. On a machine without what it needs every such "
    "test is green and nobody learns that nothing was tested; a skip is counted and shown.",
    bad="import torch\n\nfrom runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")\n\n\n'
    "def test_kernel():\n"
    "    if not torch.cuda.is_available():\n        return\n"
    "    assert torch.ones(1).cuda().sum() == 1",
    good="import pytest\nimport torch\n\nfrom runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")\n\n\n'
    "def test_kernel():\n"
    '    if not torch.cuda.is_available():\n        pytest.skip("needs a CUDA GPU")\n'
    "    assert torch.ones(1).cuda().sum() == 1",
    check=check,
)
