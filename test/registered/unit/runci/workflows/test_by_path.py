"""Tests that workflows run by path: commands, folders, lists, variables, called scripts."""

from __future__ import annotations

import sys
import textwrap

import pytest

from runci import register_cpu_ci
from runci.config.taxonomy import Workflows
from runci.workflows.by_path import may_run_tests
from runci.workflows.find import find_suite_runs
from runci.workflows.runs import PathRun, SuiteRuns, read_scripts

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

PATH = ".github/workflows/ci.yml"
ROOTS = ("test/registered",)
X, Y = "test/registered/a/test_x.py", "test/registered/test_y.py"


def find(
    text: str, more: str = "", scripts: dict[str, str] | None = None, on: str = "push"
) -> SuiteRuns:
    """What one step that runs `text` starts; `more` are lines of its job."""
    lines = [f"on: {on}", "jobs:", "  a:"]
    lines += [f"    {line}" for line in textwrap.dedent(more).splitlines()]
    lines += ["    steps:", "      - run: |"]
    lines += [f"          {line}" for line in textwrap.dedent(text).splitlines()]
    given = {path: textwrap.dedent(body).encode() for path, body in (scripts or {}).items()}
    workflow = "\n".join(lines).encode()
    return find_suite_runs({PATH: workflow}, Workflows(), (), given, ROOTS)


def run_of(runs: SuiteRuns) -> list[str]:
    """Which of the two files surely run as a whole."""
    return [path for path in (X, Y) if (run := runs.by_path(path)) and run.whole]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"pytest {X}", [X]),
        (f"python3 -m pytest -q -n 4 {X}", [X]),
        (f"python3 {X}", [X]),
        (f"python3 -u {X} -f || true", [X]),
        ("cd test && python3 registered/test_y.py", [Y]),
        ("cd test/registered && python3 test_y.py", [Y]),
        ("pytest test/registered", [X, Y]),
        ("pytest test", [X, Y]),
        ("pytest test/registered/a/", [X]),
        ("cd test/registered/a && pytest", [X]),
        ("pytest test/registered/*.py", [Y]),
        ("pytest test/registered/*/test_*.py", [X]),
        ("pytest test/registered --ignore test/registered/a", [Y]),
        ("pytest test/registered --ignore=test/registered/test_y.py", [X]),
        (f"pytest -k test_y {X}", []),
        (f"for f in {X} {Y}; do python3 $f; done", [X, Y]),
        (f'FILES="{X} {Y}"\npytest $FILES', [X, Y]),
        (f"FILES=({X}\n  # the second\n  {Y})\npytest ${{FILES[@]}}", [X, Y]),
        (f'FILES=({X})\nFILES+=({Y})\nfor f in "${{FILES[@]}}"; do python3 "$f"; done', [X, Y]),
        (f"PY=python3\n$PY -u {X}", [X]),
        (f"timeout 60 env A=b uv run pytest {X}", [X]),
        ("docker exec -w /checkout/test box python3 registered/test_y.py", [Y]),
        (f"docker exec box python3 /checkout/{X}", [X]),
        ("docker exec box bash -c 'cd test && pytest registered/test_y.py'", [Y]),
        (f"torchrun --nproc_per_node=2 {X}", [X]),
        (f"coverage run -m pytest {X}", [X]),
        (f"python -m unittest {X}", [X]),
        ("python -m unittest test.registered.test_y", [Y]),
        ("python -m unittest discover -s test/registered -p 'test_y*'", [Y]),
        # What runs nothing, or something else.
        (f"echo pytest {X}", []),
        (f"pytest --collect-only {X}", []),
        (f"pip install pytest {X}", []),
        (f"rm -rf /tmp/pytest {X}", []),
        (f"sudo mkdir -p /tmp/pytest {X}", []),
        (f"ls /tmp/pytest {X}", []),
        (f"python3 tools/read.py {X}", []),
        (f"python3 -m black {X}", []),
        (f"git commit -m 'run pytest {X}'", []),
        (f"pytest {X}::test_one", []),
        (f"pytest {X}::test_one {Y}", [Y]),
        (f"pytest {X} {Y}::test_one", [X]),
        ("pytest kernel/tests", []),
        ("python3 test/registered", []),
        (f"black {X}", []),
    ],
)
def test_what_a_command_runs_by_path(text, expected):
    assert run_of(find(text)) == expected


@pytest.mark.parametrize(
    ("more", "text", "expected"),
    [
        ("defaults: {run: {working-directory: test}}", "pytest registered/test_y.py", [Y]),
        (f"strategy: {{matrix: {{file: [{X}, {Y}]}}}}", "python3 ${{ matrix.file }}", [X, Y]),
        (
            "strategy: {matrix: {n: [x]}}",
            "pytest test/registered/a/test_${{ matrix.n }}.py",
            [X],
        ),
        (f"env: {{FILE: {X}}}", 'python3 "$FILE"', [X]),
        ("if: false", f"pytest {X}", []),
    ],
)
def test_folders_matrices_and_variables_of_a_job(more, text, expected):
    assert run_of(find(text, more)) == expected


@pytest.mark.parametrize(
    "text",
    ["bash ci/run.sh", "./ci/run.sh", "source ci/run.sh", "cd ci && ./run.sh", "sudo ci/run.sh"],
)
def test_a_list_in_a_script_that_a_workflow_calls(text):
    scripts = {
        "ci/run.sh": f"cd $GITHUB_WORKSPACE\nTESTS=(\n  {X}\n  {Y}\n)\npytest ${{TESTS[@]}}\n"
    }
    found = find(text, scripts=scripts)
    assert run_of(found) == [X, Y]
    assert {run.path for run in found.paths} == {"ci/run.sh"}
    assert not find("bash other.sh", scripts=scripts).paths


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("chmod +x ci/all.sh", []),
        ("sudo chmod +x ci/all.sh", []),
        ("cat ci/all.sh", []),
        ("shellcheck ci/all.sh", []),
        ("bash -n ci/all.sh", []),
        ("test -f ci/all.sh", []),
        ("[ -f ci/all.sh ]", []),
        ("cp ci/all.sh ci/other.sh", []),
        (f"which pytest {X}", []),
        (f"command -v pytest {X}", []),
        (f": pytest {X}", []),
        ("chmod +x ci/all.sh && ./ci/all.sh", [X]),
        ("test -f ci/all.sh && sudo bash ci/all.sh", [X]),
        (f"command pytest {X}", [X]),
    ],
)
def test_what_looks_at_a_script_does_not_run_it(text, runs):
    assert run_of(find(text, scripts={"ci/all.sh": f"pytest {X}\n"})) == runs


def test_a_script_gets_its_arguments_and_calls_others():
    scripts = {"ci/outer.sh": 'bash ci/inner.sh "$1"\n', "ci/inner.sh": 'python3 "$1"\n'}
    assert run_of(find(f"bash ci/outer.sh {Y}", scripts=scripts)) == [Y]


def test_a_suite_that_a_called_script_starts():
    found = find("bash ci/run.sh", scripts={"ci/run.sh": "\npython3 run_suite.py --suite a\n"})
    assert [(run.path, run.line, run.suite) for run in found.runs] == [("ci/run.sh", 2, "a")]


@pytest.mark.parametrize(
    ("command", "may"),
    [
        ("pytest tests", True),
        ("python3 -m pytest", True),
        ("pip3 install -r r.txt responses pytest scipy", False),
        ("/usr/bin/pip install --upgrade pytest", False),
        ("pip install pytest ${CUDA_PYTHON} ${MORE}", False),
        ("${PYTHON} ${MORE}", True),
        ("python -m pip install pytest", False),
        ("uv pip install pytest", False),
        ("uv tool install pytest", False),
        ("conda -q install pytest", False),
        ("poetry add pytest", False),
        ("uv run pytest", True),
        ("poetry run pytest --install", True),
        ("docker run image pytest", True),
        ("timeout 60 ./install pytest", True),
    ],
)
def test_what_installs_pytest_runs_no_tests(command: str, may: bool) -> None:
    assert may_run_tests(command.split(), ()) is may


def test_what_installs_and_then_runs_in_one_word() -> None:
    assert may_run_tests(["bash", "-c", "pip install x; true", "pytest"], ())


def test_a_part_and_what_is_not_known_are_not_the_whole():
    part = find(f"pytest -k two {X}").by_path(X)
    assert part is not None
    assert (part.line, part.part, part.whole) == (6, "-k two", False)
    perhaps = find("pytest test/registered/a/$(date).py").by_path(X)
    assert perhaps is not None
    assert not perhaps.whole
    assert find("pytest $(date)").by_path(X) is None


FIND = "find test/registered -name 'test_*.py'"


@pytest.mark.parametrize(
    ("text", "surely", "perhaps"),
    [
        (f"{FIND} | xargs python", [X, Y], []),
        (f"{FIND} -type f -print0 | sort -z | xargs -0 -n 1 -P4 timeout 60 pytest -q", [X, Y], []),
        ("find test/registered/a -name 'test_*.py' | xargs -I{} python {} -v", [X], []),
        ("find test/registered -name 'test_y*' -exec python {} \\;", [Y], []),
        (f"{FIND} -exec python -m pytest {{}} +", [X, Y], []),
        (f"for f in $({FIND}); do python $f; done", [X, Y], []),
        (f'{FIND} | sort | while read -r f; do python3 "$f"; done', [X, Y], []),
        (f"FILES=$({FIND})\npytest $FILES", [X, Y], []),
        ("cd test && ls registered/test_*.py | xargs -n1 python", [Y], []),
        (f"echo {X} | xargs python", [X], []),
        # What the list holds, or a part of it, only the run knows.
        (f"{FIND} -not -name '*slow*' | xargs python", [], [X, Y]),
        ("find test/registered/a -mtime 1 -exec python {} +", [], [X]),
        (f"{FIND} | grep -v slow | xargs python", [], [X, Y]),
        (f"pytest $({FIND} | head -1)", [], [X, Y]),
        ("git ls-files 'test/registered/a/*.py' | xargs python", [], [X]),
        ("for f in $(cat list.txt); do python3 $f; done", [], [X, Y]),
        ("cat list.txt | xargs -n1 pytest", [], [X, Y]),
        ("find test/registered/a -name 'test_*.py'\nxargs python < list", [], [X, Y]),
        ("xargs -n1 pytest < list.txt", [], [X, Y]),
        ('while read f; do python "$f"; done < list', [], [X, Y]),
        ('mapfile -t F < list\npytest "${F[@]}"', [], [X, Y]),
        ("pytest $(cat list)", [], [X, Y]),
        (f"{FIND} | sed s/a/b/ | xargs python", [], [X, Y]),
        # What runs no test, or nobody can take for a list.
        (f"{FIND} | xargs ruff check", [], []),
        (f"{FIND} | xargs pytest --collect-only", [], []),
        (f"{FIND} | wc -l; python $PROGRAM", [], []),
        ("find test/registered/b -name 'test_*.py' | xargs python", [], []),
        (f"{FIND} > list; python $(date)", [], []),
    ],
)
def test_lists_that_commands_print_and_read(
    text: str, surely: list[str], perhaps: list[str]
) -> None:
    runs = find(text)
    assert run_of(runs) == surely
    found = {path: runs.by_path(path) for path in (X, Y)}
    assert [path for path, run in found.items() if run and not run.certain] == perhaps
    assert set(surely + perhaps) == {path for path, run in found.items() if run}


def test_a_suite_in_a_file_still_counts_as_any() -> None:
    for given in ("$(cat suites)", "$(echo a | tr a b)", "$(find . -name a)"):
        (run,) = find(f"runci run --suite {given}").runs
        assert (run.suite, run.resolved) == ("*", False)


READS = 'while read -r t; do python3 test/registered/$t; done <<< "${{ inputs.t }}"'
LISTS = "for t in $(cat list); do python3 test/registered/$t; done"


@pytest.mark.parametrize(
    ("text", "events", "runs"),
    [
        (READS, "{workflow_dispatch: {inputs: {t: {required: true}}}}", False),
        ("pytest ${{ inputs.t }}", "{workflow_dispatch: {inputs: {t: {required: true}}}}", False),
        (f"pytest ${{{{ inputs.t }}}} {X}", "{workflow_dispatch: {inputs: {t: {}}}}", True),
        ("pytest ${{ inputs.t }}", "{push: {}, workflow_dispatch: {inputs: {t: {}}}}", True),
        (LISTS, "{push: {}, workflow_dispatch: {inputs: {t: {}}}}", True),
        (LISTS, "workflow_dispatch", True),
        (f"pytest -k ${{{{ inputs.t }}}} {X}", "{workflow_dispatch: {inputs: {t: {}}}}", True),
    ],
)
def test_what_somebody_types_runs_nothing_by_itself(text, events, runs):
    assert (find(text, on=events).by_path(X) is not None) is runs


def test_the_cache_keeps_paths():
    found = find("pytest test/registered --ignore test/registered/a -k two")
    assert found.paths == (
        PathRun(PATH, 6, "test/registered", "a", ("test_*.py", "*_test.py"), "-k two",
                ("test/registered/a",)),
    )  # fmt: skip
    assert SuiteRuns.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    ("library", "text", "expected"),
    [
        ("one() { pytest %s; }", ". ci/lib.sh", []),
        ("one() { pytest %s; }", ". ci/lib.sh; one", [X]),
        ("one() {\n  pytest %s\n}\none", ". ci/lib.sh", [X]),
        ("one ()\n{\n  pytest %s\n}", ". ci/lib.sh", []),
        ("function one {\n  pytest %s\n}", ". ci/lib.sh", []),
        ("function one() {\n  pytest %s\n}", "source ci/lib.sh", []),
        ("function one() {\n  pytest %s\n}", "source ci/lib.sh && one", [X]),
        ("one() {\n  { true; }\n  if a; then {\n  b\n  } fi\n  pytest %s\n}", ". ci/lib.sh", []),
        ("one() { true; }\npytest %s", ". ci/lib.sh", [X]),
        ("one() { x=$(one_more); pytest %s; }\n# one is for later", ". ci/lib.sh", []),
        ("one() { pytest %s; }\ntwo() { one; }\ntwo", ". ci/lib.sh", [X]),
        ("one() { pytest %s; }\ntrap one EXIT", ". ci/lib.sh", [X]),
        ('one() { pytest %s; }\n"$@"', "bash ci/lib.sh o''ne", [X]),
        ('one() { pytest %s; }\n"run_$1"', "bash ci/lib.sh x", [X]),
        ('one() { pytest %s; }\nfor f in o""ne; do $f; done', ". ci/lib.sh", [X]),
        ("one() { pytest %s; }\n$PYTHON -V", ". ci/lib.sh", []),
        ("one() ( pytest %s )", ". ci/lib.sh", [X]),  # in brackets: counts as called
        ("a::one() { pytest %s; }\na::one", ". ci/lib.sh", [X]),
    ],
)
def test_a_function_that_nothing_calls_runs_nothing(library, text, expected):
    assert run_of(find(text, scripts={"ci/lib.sh": library % X})) == expected


def test_a_function_that_starts_a_suite_and_is_not_called():
    library = {"ci/lib.sh": "one() {\n  runci run --suite a\n}\n"}
    assert not find(". ci/lib.sh", scripts=library).runs
    assert [run.suite for run in find(". ci/lib.sh\none", scripts=library).runs] == ["a"]


MAKE = """\
PY ?= python3
PYTEST := $(PY) -m pytest
T = test/registered

.PHONY: test all
all: lint
lint:
\truff check
test: build
\t@$(PYTEST) $(T)/test_a.py
build:
\t-for i in 1; do pytest test/registered/test_$$i.py; done
sub: ; @echo
\tcd test && \\
\tpytest registered/test_c.py
\tpytest test/registered/test_d.py
suite:
\trunci run --suite $(SUITE)
"""


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("make test", {"test/registered/test_a.py": 10, "test/registered/test_1.py": 12}),
        ("make -j2 build", {"test/registered/test_1.py": 12}),
        ("make sub lint", {"test/registered/test_c.py": 15, "test/registered/test_d.py": 16}),
        (
            "make test T=test/registered/x PY=pypy",
            {"test/registered/x/test_a.py": 10, "test/registered/test_1.py": 12},
        ),
        ("make", {}),
        ("make gone", {}),
        ("make -C test test", {}),
        ("cd test; make test", {}),
        ("cmake test", {}),
        ("echo make test", {}),
        ("pip install make test", {}),
    ],
)
def test_targets_of_the_makefile(text, lines):
    runs = find(text, scripts={"Makefile": MAKE})
    assert {run.target: run.line for run in runs.paths} == lines
    assert {run.path for run in runs.paths} <= {"Makefile"}


def test_a_variable_that_holds_itself_ends():
    makefile = f"A = {'$(A) ' * 20}\ntest:\n\t$(A)\n\tpytest {X}\n"
    assert run_of(find("make test", scripts={"Makefile": makefile})) == [X]


def test_a_target_that_is_not_in_the_makefile_may_run_all():
    found = find("true\nmake unit-test", scripts={"Makefile": MAKE + "include other.mk\n"})
    run = found.by_path(X)
    assert run is not None and (run.whole, run.path, run.line) == (False, PATH, 7)


def test_a_suite_that_a_target_starts():
    runs = find("make suite SUITE=a", scripts={"Makefile": MAKE})
    assert [(run.suite, run.path, run.line, run.resolved) for run in runs.runs] == [
        ("a", "Makefile", 18, True)
    ]


@pytest.mark.parametrize(
    ("data", "read"),
    [
        ("bash ./ci/a.sh; ./missing.sh; x.shape", ["ci/a.sh", "ci/b.sh"]),
        ("./ci/${SCRIPT}", ["ci/a.sh", "ci/b.sh"]),
        ("ci/${{ matrix.script }}", ["ci/a.sh", "ci/b.sh"]),
        ('"$GITHUB_WORKSPACE/ci/${A}"', ["ci/a.sh", "ci/b.sh"]),
        ("cd ci\n./b${X:-}.sh", ["ci/b.sh"]),
        ("c${X}.sh", ["c.sh"]),
        ("/box/ci/${X}", ["ci/a.sh", "ci/b.sh"]),
        ("$X; ./$X; $A/$X; ../$X; ci/$X.json; $X.sh", []),  # anything, or no script
    ],
)
def test_scripts_are_read_where_workflows_call_them(data, read, tmp_path):
    for path, text in {"ci/a.sh": "cd ci\n./b.sh", "ci/b.sh": "", "c.sh": "", "ci/c": ""}.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    assert sorted(read_scripts(tmp_path, {PATH: data.encode()})) == read


TOP = "cd $GITHUB_WORKSPACE && pytest"
PARTS = {"ci/part1.sh": f"{TOP} {X}\n", "ci/part2.sh": f"{TOP} {Y}\n", "ci/c.sh": "true\n"}


@pytest.mark.parametrize(
    ("text", "more", "may"),
    [
        ('"./ci/${SCRIPT}"', "env: {SCRIPT: '${{ needs.plan.outputs.script }}'}", [X, Y]),
        ("bash ci/${{ matrix.x }}", "strategy: {matrix: '${{ fromJSON(needs.a.b) }}'}", [X, Y]),
        ("docker run box /box/ci/$SCRIPT", "", [X, Y]),
        ("ci/part${N}.sh", "", [X, Y]),
        ("cd ci && ./part${N}.sh", "", [X, Y]),
        ("ci/part2${N}.sh", "", [Y]),
        ("ci/p${N}1.sh", "", [X]),
        ("bash -c 'ci/$SCRIPT'", "", [X, Y]),
        ("$SCRIPT; ./$SCRIPT; lib/$SCRIPT", "", []),
        ("echo ci/$SCRIPT", "", []),
        ("python3 ci/$SCRIPT", "", []),
    ],
)
def test_a_script_of_which_only_a_run_knows_the_name(text, more, may):
    """All that match may run; that any of them does is never said."""
    found = find(text, more, PARTS)
    assert [path for path in (X, Y) if found.by_path(path)] == may
    assert not run_of(found)
    for path in may:
        run = found.by_path(path)
        assert run.path == ("ci/part1.sh" if path == X else "ci/part2.sh")
        assert run.chosen.startswith(f"{PATH}:") and "*" in run.chosen


def test_a_suite_in_a_script_of_which_only_a_run_knows_the_name():
    scripts = {"ci/a.sh": "run_suite.py --suite a\n", "ci/b.sh": "bash ci/c.sh\n"}
    found = find("ci/$X.sh", "", {**scripts, "ci/c.sh": "run_suite.py --suite c\n"})
    assert {(run.suite, run.resolved) for run in found.runs} == {("a", False), ("c", False)}


def test_a_script_that_is_one_of_a_choice():
    """Each of them may be started by hand, and then runs whole."""
    inputs = "{workflow_dispatch: {inputs: {x: {type: choice, options: [part1, part2]}}}}"
    assert run_of(find("ci/${{ inputs.x }}.sh", scripts=PARTS, on=inputs)) == [X, Y]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
