"""RT207: one process group in several suites."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from runci.finding import Finding
from runci.registration import Registration
from runci.rules.base import Tree, TreeRule


def check(tree: Tree) -> Iterator[Finding]:
    """One finding at each member that is not in the suite of most members."""
    groups: dict[tuple[str, str], list[tuple[str, Registration]]] = defaultdict(list)
    for path, registrations in tree.registrations.items():
        for registration in registrations:
            if registration.in_process_group and registration.enabled:
                key = (registration.backend.value, registration.in_process_group)
                groups[key].append((path, registration))
    for (backend, group), members in groups.items():
        suites = [registration.effective_suite for _, registration in members]
        usual = max(dict.fromkeys(suites), key=suites.count)
        for path, registration in members:
            suite = registration.effective_suite
            if suite != usual:
                home = next(p for p, r in members if r.effective_suite == usual)
                yield Finding(
                    path,
                    registration.span,
                    "RT207",
                    f"in_process_group={group!r} is in {backend} suite {usual} (see {home}), "
                    f"but this registration is in {suite}",
                    "Files of a group share one process, so they share one suite: use the same "
                    "suite, or another group name.",
                    key=f"{group}:{suite}",
                )


RULE = TreeRule(
    id="RT207",
    name="process-group-across-suites",
    summary="Files of one `in_process_group` register in different suites.",
    reason="Files of a group run in one process. Different suites run on different machines, so "
    "the group is torn and each part runs without what it relies on.",
    bad="# test_a.py\n"
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu", in_process_group="llm")\n\n'
    "# test_b.py\n"
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-b", runner_config="cpu", in_process_group="llm")',
    good="# test_a.py\n"
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu", in_process_group="llm")\n\n'
    "# test_b.py\n"
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu", in_process_group="llm")',
    check=check,
)
