"""Tests that workflows run by path: commands, folders, lists, variables, called scripts."""

from __future__ import annotations

import sys
import textwrap

import pytest

from runci import register_cpu_ci
from runci.config.taxonomy import Workflows
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
        (f"python3 tools/read.py {X}", []),
        (f"python3 -m black {X}", []),
        (f"git commit -m 'run pytest {X}'", []),
        (f"pytest {X}::test_one", []),
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


def test_a_script_gets_its_arguments_and_calls_others():
    scripts = {"ci/outer.sh": 'bash ci/inner.sh "$1"\n', "ci/inner.sh": 'python3 "$1"\n'}
    assert run_of(find(f"bash ci/outer.sh {Y}", scripts=scripts)) == [Y]


def test_a_suite_that_a_called_script_starts():
    found = find("bash ci/run.sh", scripts={"ci/run.sh": "\npython3 run_suite.py --suite a\n"})
    assert [(run.path, run.line, run.suite) for run in found.runs] == [("ci/run.sh", 2, "a")]


def test_a_part_and_what_is_not_known_are_not_the_whole():
    part = find(f"pytest -k two {X}").by_path(X)
    assert part is not None
    assert (part.line, part.part, part.whole) == (6, "-k two", False)
    perhaps = find("pytest test/registered/a/$(date).py").by_path(X)
    assert perhaps is not None
    assert not perhaps.whole
    assert find("pytest $(cat list)").by_path(X) is None


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


def test_scripts_are_read_where_workflows_call_them(tmp_path):
    for path, text in {"ci/a.sh": "cd ci\n./b.sh", "ci/b.sh": "", "c.sh": ""}.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    data = b"run: bash ./ci/a.sh; ./missing.sh; x.shape"
    assert sorted(read_scripts(tmp_path, {PATH: data})) == ["ci/a.sh", "ci/b.sh"]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
