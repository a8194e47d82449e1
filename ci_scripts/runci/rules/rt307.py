"""RT307: two test modules of one name in folders without packages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from runci.finding import Finding
from runci.parse.model import TestFile
from runci.rules.base import Tree, TreeRule
from runci.rules.script import runs_as_script
from runci.source import at


def check(tree: Tree) -> Iterator[Finding]:
    """One finding at each module but the first, among those that pytest would import."""
    modules: dict[str, list[TestFile]] = defaultdict(list)
    for file in tree.files:
        folder, _, name = file.path.rpartition("/")
        if folder not in tree.packages:
            modules[name].append(file)
    for name, files in modules.items():
        if len(files) < 2:
            continue
        paths = [file.path for file in files if not runs_as_script(file, tree)]
        for path in paths[1:]:
            yield Finding(
                path,
                at(1),
                "RT307",
                f"module name {name.removesuffix('.py')} is taken by {paths[0]}",
                "Rename one of them, or make their folders packages with an `__init__.py`: two "
                "modules of one name cannot be imported in one pytest run.",
                key=paths[0],
            )


RULE = TreeRule(
    id="RT307",
    name="same-module-name",
    summary="Two test modules have the same name in folders that are no packages.",
    reason="pytest imports a module that is in no package by its bare name. The second one is an "
    "import error, or the first one runs twice. (Files that each run as a script of their own are "
    "not reported.)",
    bad="# test/registered/a/test_linear.py\n"
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")\n\n'
    "# test/registered/b/test_linear.py\n"
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")',
    good="# test/registered/a/test_linear_forward.py\n"
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")\n\n'
    "# test/registered/b/test_linear_backward.py\n"
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")',
    check=check,
)
