"""Which suites a changed path starts, why, and what no plan may leave out in silence."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from planning import CPU, GPU, SUITES, TESTS, registered, taxonomy

from runci import register_cpu_ci
from runci.checks import baseline
from runci.checks.engine import judge
from runci.checks.rt import find_in
from runci.checks.rule import Options, Tree
from runci.config.taxonomy import Component, Kind
from runci.core.registration import Backend
from runci.plan.changes import Changes
from runci.plan.selection import Selection, Started, narrow, select, starts, unregistered
from runci.plan.unplanned import RULES, divide, unplannable
from runci.read.parse import parse
from runci.read.registrations import registrations
from runci.read.testfile import TestFile as Parsed
from runci.read.testfile import unreadable

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

CPU_KEY = (Backend.CPU, CPU)
GPU_KEY = (Backend.CUDA, GPU)
REGISTRATIONS = {
    f"{TESTS}/unit/test_cpu.py": (registered(),),
    f"{TESTS}/kernel/test_both.py": (registered(), registered(GPU, Backend.CUDA)),
    f"{TESTS}/kernel/test_off.py": (registered(GPU, Backend.CUDA, disabled="#1"),),
}
ALL = frozenset(taxonomy().suites)


def selected(*paths: str) -> Selection:
    return select(Changes(tuple(sorted(paths))), taxonomy(), REGISTRATIONS)


def test_a_component_starts_its_suites() -> None:
    chosen = selected("kernel/gemm.py")
    assert chosen.suites == {GPU_KEY: ("component kernel: kernel/gemm.py",)}
    assert chosen.everything is None


def test_reasons_name_one_path_and_count_the_others() -> None:
    chosen = selected("kernel/b.py", "kernel/a.py", f"{TESTS}/kernel/test_both.py")
    assert chosen.suites[GPU_KEY] == (
        "component kernel: kernel/a.py and 1 more",
        f"its own tests: {TESTS}/kernel/test_both.py",
    )


def test_a_changed_test_starts_its_own_suites() -> None:
    chosen = selected(f"{TESTS}/unit/test_cpu.py")
    assert chosen.suites == {CPU_KEY: (f"its own tests: {TESTS}/unit/test_cpu.py",)}


def test_a_disabled_registration_starts_nothing() -> None:
    path = f"{TESTS}/kernel/test_off.py"
    assert selected(path) == Selection({}, idle={"its registrations are disabled": (path,)})


def test_a_helper_starts_the_suites_of_the_tests_below_its_folder() -> None:
    assert set(selected(f"{TESTS}/kernel/conftest.py").suites) == {CPU_KEY, GPU_KEY}
    assert set(selected(f"{TESTS}/unit/data.json").suites) == {CPU_KEY}


@pytest.mark.parametrize(
    "path",
    [
        "csrc/kernel.cu",
        "CMakeLists.txt",
        "conftest.py",
        "pyproject.toml",
        "kernels/a.py",
        f"{TESTS}/kernel/test_gone.py",  # others may have imported it
        f"{TESTS}/other/data.json",
        f"{TESTS}/ker/data.json",  # no folder of the tests in kernel/
    ],
)
def test_a_path_that_no_component_lists_starts_everything(path: str) -> None:
    chosen = selected("kernel/a.py", path)
    assert frozenset(chosen.suites) == ALL
    assert (chosen.everything or "").startswith(f"{path} changed: no component lists it")


# What `ignore` reaches (the globs of SUITES would match all of these), and what it never does.
IGNORED = {
    "README.md": True,
    "docs/a/index.html": True,
    "kernel/notes/a.txt": True,  # in a component, too
    "ruff.toml": True,
    "test/support/data.json": True,
    "src/a.py": True,
    ".github/ISSUE_TEMPLATE/bug.yml": True,
    # roots and registered tests
    f"{TESTS}/README.md": False,
    f"{TESTS}/unit/test_cpu.py": False,
    f"{TESTS}/unit/test_gone.py": False,
    "src/test_there.py": False,
    # configuration
    "test/suites.yml": False,
    "test/perf.yml": False,
    "test/conftest.py": False,
    "conftest.py": False,
    "pyproject.toml": False,
    "docs/pyproject.toml": False,
    ".github/ci-permissions.yml": False,
    # workflows, and what they call
    ".github/workflows/README.md": False,
    ".github/workflows/a.yml": False,
    ".github/actions/setup/action.yml": False,
    # runci itself
    "runci/README.md": False,
    "ci/runci/README.md": False,
    "docs/runci.md": True,
}


@pytest.mark.parametrize(("path", "ignored"), IGNORED.items())
def test_what_ignore_reaches(path: str, ignored: bool) -> None:
    known = REGISTRATIONS | {"src/test_there.py": (registered(),)}
    chosen = select(Changes((path,)), taxonomy(), known)
    assert (chosen.suites == {}) == ignored
    assert chosen.idle == ({"ignored in test/suites.yml": (path,)} if ignored else {})


def test_what_stands_at_tests_where_the_root_is_the_whole_repository() -> None:
    whole = dataclasses.replace(taxonomy(), roots=(".",), ignore=("**",))
    reached = {"docs/a.md": True, "docs/a.py": False, "README.md": True, "conftest.py": False}
    assert {path: whole.is_ignored(path) for path in reached} == reached
    listed = dataclasses.replace(
        whole, ignore=(), components=(Component("c", ("*.md", "*.py"), ()),)
    )
    registered = {"a/test_a.py": REGISTRATIONS[f"{TESTS}/unit/test_cpu.py"]}
    for path, suites in (("conftest.py", [CPU_KEY]), ("a/util.py", [CPU_KEY]), ("b/util.py", [])):
        assert [key for key, _ in starts(path, listed, registered).suites] == suites
    assert starts("a/README.md", listed, registered).suites == ()


def test_without_components_ignored_paths_start_nothing() -> None:
    head, _, _ = SUITES.partition("components:")
    known = taxonomy(f"{head}ignore: [docs/**]\n")
    assert select(Changes(("docs/a.md",)), known, {}).suites == {}
    assert frozenset(select(Changes(("docs/a.md", "a.py")), known, {}).suites) == ALL


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("test/suites.yml", "it names the suites"),
        (".github/workflows/pr-test.yml", "it is a workflow or a part of one"),
        (".github/actions/setup/action.yml", "it is a workflow or a part of one"),
        ("ci_scripts/runci/plan.py", "it is a part of runci"),
        ("runci/plan.py", "it is a part of runci"),
    ],
)
def test_what_everything_depends_on_starts_everything(path: str, why: str) -> None:
    chosen = selected("docs/a.md", path)
    assert frozenset(chosen.suites) == ALL
    assert chosen.everything == f"{path} changed: {why}"


def test_tests_of_runci_are_no_part_of_it() -> None:
    path = "test/registered/unit/runci/plan/test_plan.py"
    chosen = select(Changes((path,)), taxonomy(), {path: (registered(),)})
    assert set(chosen.suites) == {CPU_KEY}


def test_unknown_changes_start_everything_and_say_why() -> None:
    chosen = select(Changes(unknown="a shallow clone"), taxonomy(), REGISTRATIONS)
    assert frozenset(chosen.suites) == ALL
    assert (chosen.everything or "").endswith(": a shallow clone")


def test_all_starts_everything() -> None:
    assert frozenset(select(None, taxonomy(), REGISTRATIONS).suites) == ALL


def test_without_components_every_path_starts_everything() -> None:
    bare = taxonomy(SUITES[: SUITES.index("components:")])
    chosen = select(Changes(("README.md",)), bare, REGISTRATIONS)
    assert "has no components" in (chosen.everything or "")


def test_paths_that_start_nothing_are_told() -> None:
    chosen = selected("README.md", "docs/a.md", "kernel/a.py")
    assert chosen.idle == {"ignored in test/suites.yml": ("README.md", "docs/a.md")}
    assert set(chosen.suites) == {GPU_KEY}
    assert selected().suites == {}


def test_one_path_alone_for_explain() -> None:
    assert starts("kernel/a.py", taxonomy(), REGISTRATIONS).suites == (
        (GPU_KEY, "component kernel"),
    )
    ignored = starts("README.md", taxonomy(), REGISTRATIONS)
    assert ignored == Started(nothing="ignored in test/suites.yml")
    unlisted = starts("csrc/a.cu", taxonomy(), REGISTRATIONS)
    assert unlisted == Started("no component lists it")


def test_kinds_and_names_narrow_a_selection() -> None:
    def names(kinds: list[Kind], *globs: str) -> set[str]:
        everything = select(None, taxonomy(), REGISTRATIONS)
        return {name for _, name in narrow(everything, taxonomy(), kinds, globs).suites}

    # Who runs a suite makes no difference: `manual`, which a person runs, is of another kind.
    assert names([Kind.PER_COMMIT]) == {CPU, GPU, "elsewhere"}
    assert names([Kind.NIGHTLY]) == {"nightly-1-gpu"}
    assert names([Kind.PER_COMMIT], "nightly-*") == {"nightly-1-gpu"}
    assert names([Kind.STRESS]) == names([], "manual") == {"manual"}


def seen(*files: Parsed, others: Sequence[Parsed] = ()) -> Tree:
    known = {file.path: registrations(file) for file in files}
    return Tree(files, taxonomy(), known, others)


def named(tree: Tree) -> list[str]:
    return [one.message for one in unplannable(tree)]


def test_an_undeclared_suite_is_not_planned_but_named_by_unplannable() -> None:
    chosen = select(Changes(("a.py",)), taxonomy(), {"a.py": (registered("no-such-suite"),)})
    assert narrow(chosen, taxonomy(), [Kind.PER_COMMIT], ()).suites == {}


IMPORT = "from runci import register_cpu_ci, register_cuda_ci\n"


@pytest.mark.parametrize(
    ("source", "line", "said"),
    [
        # sglang#40060: the suite exists, but for another backend.
        (
            'register_cuda_ci(est_time=1, stage="base-a", runner_config="cpu")\n',
            2,
            f"cuda has no suite '{CPU}'; cpu has it",
        ),
        ('register_cpu_ci(est_time=1, suite="misspelled")\n', 2, "cpu has no suite 'misspelled'"),
        (
            'if True:\n    register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")\n',
            3,
            "not a registration that can be read",
        ),
        ("def broken(:\n", 2, "cannot be read"),
    ],
)
def test_what_would_never_run_is_named(source: str, line: int, said: str) -> None:
    found = named(seen(parse("t.py", (IMPORT + source).encode())))
    assert len(found) == 1
    assert found[0].startswith(f"t.py:{line}: ")
    assert said in found[0]


def test_what_can_be_planned_is_not_named() -> None:
    good = 'register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")\n'
    off = 'register_cpu_ci(est_time=1, suite="gone", disabled="#1")\n'
    bom = b"\xef\xbb\xbf" + (IMPORT + good).encode()
    files = [parse("a.py", (IMPORT + good + off).encode()), parse("b.py", bom)]
    assert named(seen(*files)) == []


def judged(tree: Tree, options: Options) -> tuple[list[str], list[tuple[str, str]]]:
    """What is refused, and rule and reason of what is accepted."""
    result = judge(options, {"RT": find_in(tree, RULES)})
    refused, accepted = divide(unplannable(tree), result)
    return list(refused), [(one.rule, one.why) for one in accepted]


ODD = 'register_cpu_ci(est_time=N, stage="base-a", runner_config="cpu")'


@pytest.mark.parametrize(
    ("call", "accepted"),
    [
        (f"{ODD}  # runci: ignore[RT104] made by a script", [("RT104", "made by a script")]),
        # A comment for another rule, without a reason, or for nothing, accepts nothing.
        (f"{ODD}  # runci: ignore[RT501] made by a script", []),
        (f"{ODD}  # runci: ignore[RT104]", []),
        (f"{ODD}  # runci: ignore", []),
        (ODD, []),
        # On any line of the registration.
        (
            "register_cpu_ci(\n suite='manual',\n est_time=N,  # runci: ignore[RT104] meant\n)",
            [("RT104", "meant")],
        ),
        (
            'register_cpu_ci(est_time=1, suite="lab")  # runci: ignore[RT201] by hand',
            [("RT201", "by hand")],
        ),
        # Of two faults, one accepted.
        (
            'register_cpu_ci(est_time=0, suite=f"x")  # runci: ignore[RT104] meant',
            [],
        ),
    ],
)
def test_what_is_accepted_is_told_and_nothing_else(
    call: str, accepted: list[tuple[str, str]], tmp_path: Path
) -> None:
    text = f"{IMPORT}N = 5\n{call}\n"
    options = Options(tmp_path, tmp_path / "suites.yml", tmp_path, RULES)
    refused, found = judged(seen(parse("a.py", text.encode())), options)
    assert found == accepted
    assert len(refused) == (not accepted)


def test_a_baseline_accepts_as_the_lint_does(tmp_path: Path) -> None:
    known = tmp_path / "b.json"
    tree = seen(parse("a.py", f"{IMPORT}N = 5\n{ODD}\n{ODD}\n".encode()))
    options = Options(tmp_path, tmp_path / "suites.yml", tmp_path, RULES)
    findings = judge(options, {"RT": find_in(tree, RULES)}).findings
    baseline.write(known, findings[:1], frozenset())
    refused, accepted = judged(tree, dataclasses.replace(options, baseline=known))
    assert accepted == [("RT104", "listed in b.json")]
    assert len(refused) == 1


def test_an_unreadable_file_is_named() -> None:
    found = named(seen(unreadable("t.py", "Permission denied")))
    assert found == ["t.py:1: cannot be read: Permission denied"]


def test_registrations_in_a_file_that_no_runner_collects_are_named(tmp_path: Path) -> None:
    good = 'register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")\n'
    wrong = parse("addition_test.py", (IMPORT + good).encode())
    helper = parse("helper.py", b"def help(): ...\n")
    meant = parse("x.py", f"{IMPORT}{good[:-1]}  # runci: ignore[RT306] a template\n".encode())
    options = Options(tmp_path, tmp_path / "suites.yml", tmp_path, RULES)
    refused, accepted = judged(seen(others=[wrong, helper, meant]), options)
    assert refused == [
        "addition_test.py:2: register_cpu_ci: the name is not collected (test_*.py, bench_*.py)"
    ]
    assert accepted == [("RT306", "a template")]


def test_tests_that_are_registered_nowhere() -> None:
    files = [
        parse("b.py", b"def test_b(): ...\n"),
        parse("a.py", b"class TestA: ...\n"),
        parse("helper.py", b"X = 1\n"),
        parse("c.py", f"{IMPORT}register_cpu_ci(1, 'x')\ndef test_c(): ...\n".encode()),
        unreadable("d.py", "gone"),
    ]
    assert unregistered(files, {}) == ["a.py", "b.py"]
    assert unregistered(files, {"b.py": (registered(),)}) == ["a.py"]


def test_narrowing_keeps_why_everything_was_chosen() -> None:
    everything = selected("no/component/lists.it")
    assert everything.everything is not None
    kept = narrow(everything, taxonomy(), [Kind.NIGHTLY], ())
    assert kept.everything == everything.everything
    assert dataclasses.replace(kept, suites=everything.suites, other_kinds=()) == everything


def test_narrowing_tells_what_is_of_another_kind() -> None:
    everything = select(None, taxonomy(), REGISTRATIONS)
    kept = narrow(everything, taxonomy(), [Kind.PER_COMMIT], ())
    assert [name for _, name in kept.other_kinds] == ["nightly-1-gpu", "manual"]
    assert narrow(everything, taxonomy(), [], ["manual"]).other_kinds == ()  # others were not asked
    assert narrow(selected("kernel/a.py"), taxonomy(), [Kind.PER_COMMIT], ()).other_kinds == ()


@pytest.mark.parametrize(
    ("kinds", "names", "held"),
    [
        ([Kind.NIGHTLY, Kind.EXTRA], (), "nightly, extra"),
        ([Kind.PER_COMMIT], ("base-*",), "base-*"),
    ],
)
def test_what_all_is_narrowed_to_is_said(
    kinds: list[Kind], names: tuple[str, ...], held: str
) -> None:
    kept = narrow(select(None, taxonomy(), {}), taxonomy(), kinds, names)
    assert kept.everything is not None and held in kept.everything
    assert ("per-commit" in kept.everything) is False


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
