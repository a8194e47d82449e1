"""Skips that suites.yml allows, and nobody needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from runci.checks.rule import REGISTERED, Tree, TreeRule
from runci.core.finding import Finding
from runci.core.globs import matches
from runci.core.source import at

_SKIPS = (
    "# test/suites.yml\nversion: 1\nroots: [test/registered]\n"
    "runners:\n  cpu: {{label: ubuntu-latest, execution: pytest}}\n"
    "suites:\n  cpu:\n    - {{stage: base-a, runner_configs: [cpu], kind: per-commit}}\n"
    'skips:\n  - test: "{}"\n    runners: [cpu]\n    reason: needs a GPU\n\n'
    f"# test/registered/gemm/test_gemm.py\n{REGISTERED}\n\n\n"
    "def test_gemm():\n    assert 1 + 1 == 2"
)


def skip_of_nothing(tree: Tree) -> Iterator[Finding]:
    """One finding at each pattern under `skips` of whose files a runner runs none."""
    taxonomy = tree.taxonomy
    runners: dict[str, set[str | None]] = {}
    for path, registrations in tree.registrations.items() if taxonomy.skips else ():
        suites = (taxonomy.suite(one.backend, one.effective_suite) for one in registrations)
        runners[path] = {suite.runner for suite in suites if suite is not None}
    paths = frozenset(file.path for file in tree.files) if taxonomy.skips else frozenset[str]()
    known: dict[str, Collection[str]] = {}  # a file may have hundreds of entries
    for skip in taxonomy.skips:
        glob = skip.test.partition("::")[0]
        files = known.get(glob)
        if files is None:
            files = known[glob] = _files(glob, paths)
        run = {name for path in files for name in runners.get(path, ())}
        idle = [name for name in skip.runners if name not in run]
        if not idle:
            continue
        none = f"no file of {skip.test} is registered for {', '.join(idle)}"
        message = none if files else f"{skip.test} matches no test file"
        yield Finding(
            taxonomy.path,
            at(skip.line),
            "RT211",
            message,
            "Correct the pattern or the runners, or take the entry out.",
            key=message,
        )


def _files(glob: str, paths: Collection[str]) -> Collection[str]:
    if "/" in glob and not any(sign in glob for sign in "*?["):
        return (glob,) if glob in paths else ()
    return [path for path in paths if matches(path, (glob,))]


SKIP_OF_NOTHING = TreeRule(
    id="RT211",
    name="skip-of-nothing",
    summary="An entry under `skips` names no test file that its runners run.",
    reason="The file is gone, or the name is wrong: the skip that was meant fails the run, and "
    "what stands there may excuse another test one day. (Whether a test or its parameters are "
    "gone, or skipped any more, only a run knows: `runci run --learn-skips` says it.)",
    bad=_SKIPS.format("test/registered/gemms/test_gemm.py::test_gemm"),
    good=_SKIPS.format("test/registered/gemm/test_gemm.py::test_gemm"),
    check=skip_of_nothing,
)

RULES = (SKIP_OF_NOTHING,)
