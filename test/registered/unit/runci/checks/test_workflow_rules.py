"""RT205 and RT206: registrations that no workflow runs, and jobs that run no test."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from trees import TAXONOMY, TESTS, findings, found, make_tree

from runci import register_cpu_ci
from runci.checks.rt import form
from runci.checks.rt import suite as suite_rules
from runci.checks.rt import workflow
from runci.checks.rule import Tree
from runci.config.taxonomy import Kind, Suite, Taxonomy
from runci.core.finding import Level
from runci.core.registration import Backend, Registration
from runci.core.source import at
from runci.read.testfile import TestFile
from runci.workflows.runs import Broken, PartRun, PathRun, SuiteRun, SuiteRuns, Unresolved

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

PATH = ".github/workflows/ci.yml"


def suite(name: str, backend: Backend = Backend.CUDA, run_by: str | None = None) -> Suite:
    return Suite(name, backend, Kind.PER_COMMIT, run_by=run_by)


def registration(name: str, backend: Backend = Backend.CUDA, disabled: str | None = None):
    return Registration(backend, 5, name, None, None, False, disabled, None, at(7, 3))


def run(name: str, backend: Backend | None = Backend.CUDA, *, resolved: bool = True, line: int = 4):
    return SuiteRun(PATH, line, name, backend, "job", resolved)


def tree(registrations=(), runs=(), suites=None, **rest) -> Tree:
    declared = [suite("base-a"), suite("base-b")] if suites is None else suites
    taxonomy = Taxonomy(
        "test/suites.yml",
        ("test",),
        suites={(one.backend, one.name): one for one in declared},
    )
    found = SuiteRuns(tuple(runs), **rest)
    return Tree((), taxonomy, {"test_a.py": tuple(registrations)}, suite_runs=found)


@pytest.mark.parametrize(
    "runs",
    [
        [run("base-a")],
        [run("base-a", None)],
        [run("base-*", resolved=False)],
        [run("*", None, resolved=False)],
    ],
)
def test_a_suite_that_runs(runs):
    assert not list(workflow.suite_never_run(tree([registration("base-a")], runs)))


@pytest.mark.parametrize(
    "runs",
    [[], [run("base-a", Backend.AMD)], [run("base-b")], [run("night-*", resolved=False)]],
)
def test_a_suite_that_does_not_run(runs):
    (finding,) = workflow.suite_never_run(tree([registration("base-a")], runs))
    assert (finding.path, finding.line, finding.column) == ("test_a.py", 7, 3)
    assert finding.level is Level.ERROR
    assert "cuda suite 'base-a'" in finding.message
    assert "test/suites.yml" in finding.remedy


def test_the_nearest_suite_that_runs_is_named():
    (finding,) = workflow.suite_never_run(
        tree([registration("base-a")], [run("base-b"), run("other")])
    )
    assert finding.message.endswith("; one runs 'base-b'")


@pytest.mark.parametrize(
    ("registered", "suites"),
    [
        (registration("base-a", disabled="#1"), None),
        (registration("undeclared"), None),
        (registration("base-a"), [suite("base-a", run_by="by hand")]),
    ],
)
def test_what_need_not_run(registered, suites):
    assert not list(workflow.suite_never_run(tree([registered], suites=suites)))


def test_without_workflows_both_are_silent():
    nothing = Tree((), tree().taxonomy, {"test_a.py": (registration("base-a"),)})
    assert not list(workflow.suite_never_run(nothing))
    assert not list(workflow.suite_without_tests(nothing))


def test_each_registration_has_its_finding():
    assert len(list(workflow.suite_never_run(tree([registration("base-a")] * 3)))) == 3


@pytest.mark.parametrize(("typed", "says"), [(True, "no suite"), (False, "all")])
def test_an_unresolved_place_is_a_note(typed, says):
    places = (Unresolved(PATH, 9, "${{ x }}", typed),)
    (finding,) = workflow.suite_never_run(tree(unresolved=places))
    assert (finding.path, finding.line, finding.level) == (PATH, 9, Level.NOTE)
    assert "${{ x }}" in finding.message
    assert says in finding.message


def test_a_broken_workflow_is_an_error():
    (finding,) = workflow.suite_never_run(tree(broken=(Broken(PATH, 3, "invalid YAML: x"),)))
    assert (finding.path, finding.line, finding.level) == (PATH, 3, Level.ERROR)
    assert "invalid YAML: x" in finding.message


@pytest.mark.parametrize(
    ("one", "registered", "says"),
    [
        (run("base-c"), [registration("base-b")], "does not exist; did you mean 'base-b'?"),
        (run("zzz"), [registration("base-b")], "cuda suite 'zzz' does not exist"),
        (run("zzz", None), [registration("base-b")], "suite 'zzz' does not exist"),
        (run("base-a"), [], "none is registered in it"),
        (run("base-a", None), [], "none is registered in it"),
        (run("base-a"), [registration("base-a", disabled="#1")] * 2, "all 2 of its registrations"),
        (run("base-a", Backend.AMD), [registration("base-a")], "amd suite 'base-a' does not exist"),
    ],
)
def test_a_job_without_tests(one, registered, says):
    (finding,) = workflow.suite_without_tests(tree(registered, [one]))
    assert (finding.path, finding.line, finding.level) == (PATH, 4, Level.ERROR)
    assert says in finding.message


@pytest.mark.parametrize(
    "one", [run("base-a"), run("base-a", None), run("night-*", resolved=False)]
)
def test_a_job_with_tests(one):
    registered = [registration("base-a"), registration("base-a", disabled="#1")]
    assert not list(workflow.suite_without_tests(tree(registered, [one])))


def test_a_suite_run_by_something_else_is_left_alone():
    assert not list(
        workflow.suite_without_tests(tree([], [run("base-a")], [suite("base-a", run_by="by hand")]))
    )


def test_a_place_is_reported_once():
    runs = [SuiteRun(PATH, 4, "zzz", Backend.CUDA, job) for job in ("a", "b")]
    assert len(list(workflow.suite_without_tests(tree([], runs)))) == 1


@pytest.mark.parametrize(
    ("arguments", "flags", "found"),
    [
        ("", "nightly=True", True),
        ("", "nightly=False", False),
        ("--nightly", "nightly=True", False),
        ("--nightly", "nightly=False", True),
        ("$FLAG", "nightly=True", False),  # nobody knows
        ("${{ matrix.flag }}", "nightly=True", False),
        ("--quiet", "nightly=True", True),
        ("", 'nightly=True, disabled="#1"', True),  # found as a suite without tests
    ],
)
def test_a_flag_that_takes_no_test(tmp_path: Path, arguments: str, flags: str, found: bool) -> None:
    registered = f'from runci import register_cpu_ci\n\nregister_cpu_ci(1, suite="old", {flags})\n'
    others = registered.replace("old", "night").replace(flags, "nightly=True")
    steps = (f"python run_suite.py --suite old {arguments}", "python run_suite.py --suite night ")
    for known in (True, False):
        run = steps[0], steps[1] + "--nightly" * known
        text = (
            "on: push\njobs:\n  x:\n    runs-on: x\n    strategy: {matrix: {flag: [--nightly]}}\n"
            "    steps:\n" + "".join(f"      - run: {step}\n" for step in run)
        )
        files = {PATH: text, f"{TESTS}/test_a.py": registered, f"{TESTS}/test_b.py": others}
        root = make_tree(tmp_path, files)
        lines = [f.line for f in findings(root, "RT206") if f.key == "old"]
        # Without any `--nightly` the command may not have that flag at all.
        needs = arguments != "--nightly" and "disabled" not in flags
        assert lines == ([7] if found and (known or not needs) else [])


def test_a_start_without_the_flag_takes_what_is_not_nightly():
    nightly = dataclasses.replace(registration("base-a"), nightly=True)
    runs = [run("base-a"), dataclasses.replace(run("base-b", line=5), nightly=True)]
    others = [registration("base-b"), dataclasses.replace(registration("base-b"), nightly=True)]
    mixed = tree([nightly, registration("base-a"), *others], runs)
    assert not list(workflow.suite_without_tests(mixed))
    (finding,) = workflow.suite_without_tests(tree([nightly, *others], runs))
    assert finding.line == 4
    elsewhere = [suite("base-a", run_by="by hand"), suite("base-b")]
    assert not list(workflow.suite_without_tests(tree(others, runs, elsewhere)))


def test_files_that_something_else_runs_are_left_alone(tmp_path: Path) -> None:
    more = '\nrun_by: [{files: ["**/vendor/**", test_b.py], by: another CI}]\n'
    text = 'from runci import register_cpu_ci\n\nregister_cpu_ci(1, suite="x", disabled="#1")\n'
    unrun = text.replace('suite="x", disabled="#1"', 'stage="base-b", runner_config="cpu"')
    plain = "def test_a():\n    assert 1\n"
    files = {f"{TESTS}/{path}": plain for path in ("vendor/test_a.py", "test_b.py", "test_c.py")}
    files |= {f"{TESTS}/{path}": unrun for path in ("vendor/test_d.py", "test_e.py")}
    files |= {f"{TESTS}/vendor/test_f.py": text}
    files |= {PATH: "on: push\njobs: {x: {runs-on: x, steps: [{run: runci run --suite y}]}}\n"}
    files |= {"test/suites.yml": TAXONOMY.read_text(encoding="utf-8") + more}
    root = make_tree(tmp_path, files)
    assert found(root, "RT101") == [(f"{TESTS}/test_c.py", 1)]
    assert found(root, "RT205") == [(f"{TESTS}/test_e.py", 3)]
    assert found(root, "RT201") == [(f"{TESTS}/vendor/test_f.py", 3)]  # a name is a name


BY_PATH = PathRun(PATH, 9, "test_a.py")


def test_a_file_that_runs_by_path_is_run():
    assert not list(workflow.suite_never_run(tree([registration("base-a")], paths=(BY_PATH,))))
    other = tree([registration("base-a")], paths=(PathRun(PATH, 9, "test_b.py"),))
    assert [f.level for f in workflow.suite_never_run(other)] == [Level.ERROR]


@pytest.mark.parametrize(
    ("run_of", "more"),
    [
        (dataclasses.replace(BY_PATH, part="-k one"), []),
        (dataclasses.replace(BY_PATH, certain=False), []),
        (BY_PATH, [registration("cpu", Backend.CPU)]),
    ],
)
def test_a_note_where_a_part_of_it_runs_by_path(run_of, more):
    given = tree([registration("base-a"), *more], paths=(run_of,))
    found = [f for f in workflow.suite_never_run(given) if f.key == "base-a"]
    assert [f.level for f in found] == [Level.NOTE]
    assert f"{PATH}:9" in found[0].message


@pytest.mark.parametrize(
    ("steps", "level", "says"),
    [
        ([], Level.ERROR, "never run"),
        (["ci/${X}.sh"], Level.NOTE, "may run by ci/a.sh:1"),
        (["ci/a.sh"], Level.ERROR, "1 of its 2 files"),
        (["ci/b.sh", "ci/a.sh"], None, ""),
        (["pytest -k x tests"], Level.NOTE, "runs -k x of it"),
    ],
)
def test_tests_of_a_suite_that_scripts_may_run(steps, level, says, tmp_path):
    test = "def test_x():\n    assert 1\n"
    taxonomy = (
        "version: 1\nroots: [tests]\nrunners: {cpu: {label: x, execution: pytest}}\nsuites:\n"
        "  cpu: [{name: cpu, runner: cpu, kind: per-commit, tests: ['tests/**']}]\n"
    )
    runs = ", ".join(f'{{run: "{step}"}}' for step in ["true", *steps])
    files = {"tests/test_a.py": test, "tests/test_b.py": test, "test/suites.yml": taxonomy}
    files |= {f"ci/{name}.sh": f"pytest tests/test_{name}.py\n" for name in "ab"}
    files |= {PATH: f"on: push\njobs: {{x: {{runs-on: x, steps: [{runs}]}}}}\n"}
    found = [f for f in findings(make_tree(tmp_path, files)) if f.rule == "RT205"]
    assert [f.level for f in found] == ([level] if level else [])
    assert all(says in f.message for f in found)


@pytest.mark.parametrize(
    ("rule", "name", "text"),
    [
        ("RT305", "test_a.py", "x = 1\n"),
        ("RT306", "a_check.py", "def test_x():\n    assert 1\n"),
        ("RT312", "test_a.py", "import pytest\n@pytest.mark.skip(reason='r')\ndef test_x(): ...\n"),
        (
            "RT313",
            "test_a.py",
            "import pytest\nimport torch\n\n\n"
            "@pytest.mark.skipif(torch.cuda.device_count() < 2, reason='r')\n"
            "def test_x():\n    assert 1\n",
        ),
    ],
)
def test_who_registers_nothing_is_not_told_to_change_a_call(rule, name, text, tmp_path):
    """Of a suite with `tests:` the remedies are in the file or in the taxonomy."""
    taxonomy = (
        "version: 1\nroots: [tests]\nrunners: {gpu: {label: x, gpus: 1, execution: pytest}}\n"
        "suites:\n  cuda: [{name: g, runner: gpu, kind: per-commit, tests: ['tests/**']}]\n"
    )
    for call in ("", "from runci import register_cuda_ci\n\nregister_cuda_ci(60, 'g')\n"):
        files = {f"tests/{name}": call + text, "test/suites.yml": taxonomy}
        files["tests/test_other.py"] = "def test_y():\n    assert 1\n"
        (found,) = [f for f in findings(make_tree(tmp_path, files)) if f.rule == rule]
        said = f"{found.message} {found.remedy}".lower()
        assert ("regist" in said or "disabled" in said) is bool(call)


@pytest.mark.parametrize(
    ("rule", "made"),
    [("RT101", ""), ("RT201", "made-up")],
)
def test_what_runs_a_file_without_a_known_suite(rule, made):
    file = TestFile("test_a.py", tests=1)
    check = suite_rules.unknown_suite if made else form.missing_registration
    for paths, level in (((BY_PATH,), Level.NOTE), ((), Level.ERROR)):
        found = list(check(file, tree([registration(made)] if made else [], paths=paths)))
        assert [(f.rule, f.level, f"{PATH}:9" in f.message) for f in found] == [
            (rule, level, bool(paths))
        ]


def part(
    index: int, count: int = 3, *, first: int = -1, path: str = PATH, line: int = 4
) -> PartRun:
    return PartRun(path, line, "base-a", Backend.CUDA, count, index, first)


def job(line: int, *indices: int) -> list[PartRun]:
    return [part(index, line=line) for index in indices]


@pytest.mark.parametrize(
    ("parts", "missing"),
    [
        ([part(0), part(1), part(2)], []),
        ([part(0), part(2)], ["part 1 of 3"]),
        ([part(1), part(2), part(3)], []),  # counted from 1
        ([part(1, first=1), part(2, first=1)], ["part 3 of 3"]),
        ([part(0)], ["part 1, 2 of 3"]),
        ([part(0), part(-1)], []),
        ([part(0, -1)], []),
        ([part(0), part(1, path="other.yml"), part(2)], ["part 1 of 3", "part 0, 2 of 3"]),
        ([*job(4, 0), *job(9, 1), *job(14, 2)], []),  # a job for each
        ([*job(4, 0, 1), *job(9, 2)], []),
        ([*job(4, 0, 1, 2), *job(9, 0, 2)], ["part 1 of 3"]),  # on another machine
        ([*job(4, 0, 2), *job(9, 0, 1, 2)], ["part 1 of 3"]),
        ([*job(4, 0, 1, 2), *job(9, 1)], []),  # a short check
        ([*job(4, 0, 2), *job(9, -1)], []),
        ([part(i, first=0) for i in (1, 2, 3)], ["part 3 of 3", "part 0 of 3"]),
        ([part(i, first=0) for i in range(4)], ["part 3 of 3"]),  # all there, and one too many
        (job(4, 0, 1, 2, 3), ["part 3 of 3"]),
        ([*job(4, 0, 1, 2), *job(9, 7)], ["part 7 of 3"]),
        ([part(i, first=1) for i in range(4)], ["part 0 of 3"]),
        ([*job(4, 0, 1, 2, 4), part(-1)], []),
        ([*job(4, 0, 1, 2), *(part(i, 2) for i in range(3))], []),  # which 2 is whose, nobody knows
    ],
)
def test_parts_that_no_job_starts(parts, missing):
    found = list(workflow.part_never_started(tree([registration("base-a")], parts=tuple(parts))))
    assert [f.message.partition(" of suite")[0] for f in found] == missing


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
