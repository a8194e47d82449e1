"""RT109: a disabled test whose reason leads nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runci.finding import Finding
from runci.parse.model import TestFile
from runci.rules.base import FileRule, Tree


def check(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at each `disabled` that the configured pattern does not find."""
    pattern = tree.taxonomy.disabled_reason
    for call in file.calls:
        argument = call.argument("disabled")
        if argument is None or not isinstance(argument.value, str) or not argument.value.strip():
            continue
        if not re.search(pattern, argument.value):
            yield Finding(
                file.path,
                argument.value_span,
                "RT109",
                f"disabled={argument.text} names no issue",
                "Add the link or number of the issue that says when the test comes back, such as "
                f'"flaky on H100, #1234" (`disabled_reason` in {tree.taxonomy.path}).',
                key=argument.text,
            )


RULE = FileRule(
    id="RT109",
    name="disabled-without-issue",
    summary="`disabled` gives no issue that a reader can follow.",
    reason="A disabled test without an issue is a deleted test that still looks alive: nobody can "
    "tell when it may run again.",
    bad='from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=5, stage="base-a", '
    'runner_config="cpu", disabled="flaky")',
    good='from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=5, stage="base-a", '
    'runner_config="cpu", disabled="flaky, see #1234")',
    check=check,
)
