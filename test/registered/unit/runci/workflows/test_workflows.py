"""Which suites workflows run: commands, matrices, called workflows, actions, unknown names."""

from __future__ import annotations

import json
import os
import sys
import textwrap

import pytest

from runci import register_cpu_ci
from runci.config.taxonomy import Workflows
from runci.core.registration import Backend
from runci.workflows.find import find_suite_runs
from runci.workflows.runs import Broken, SuiteRun, SuiteRuns, read_scripts, read_workflows

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

PATH = ".github/workflows/ci.yml"
SETTINGS = Workflows()


def find(text: str, others: dict[str, str] | None = None, settings: Workflows = SETTINGS):
    files = {PATH: text, **(others or {})}
    return find_suite_runs({p: textwrap.dedent(t).encode() for p, t in files.items()}, settings)


def script(text: str, *, more: str = "", settings: Workflows = SETTINGS) -> SuiteRuns:
    """One job with one step that runs `text`; `more` are lines of the job."""
    lines = ["on: push", "jobs:", "  a:", "    runs-on: ubuntu-latest"]
    lines += [f"    {line}" for line in textwrap.dedent(more).splitlines()]
    lines += ["    steps:", "      - run: |"]
    lines += [f"          {line}" for line in textwrap.dedent(text).splitlines()]
    return find("\n".join(lines) + "\n", settings=settings)


def names(runs: SuiteRuns) -> list[str]:
    return [run.suite for run in runs.runs]


@pytest.mark.parametrize(
    ("listed", "indices"),
    [
        ("0 1", {0, 1}),
        ("$(seq 0 1)", {0, 1}),
        ("`seq 0 1`", {0, 1}),
        ("$(seq 2)", {1, 2}),
        ("$(seq 0 2 4)", {0, 2, 4}),
        ("$(seq 2 -1 1)", {1, 2}),
        ("{0..2}", {0, 1, 2}),
        ("{2..1}", {1, 2}),
        ("$(seq 0 0 4)", {-1}),  # seq refuses it
        ("$(seq 0 999999999)", {-1}),
        ('$(seq 0 "$LAST")', {-1}),
        ("$(seq -w 0 4)", {-1}),
    ],
)
@pytest.mark.parametrize(
    ("option", "first"), [("--auto-partition-id", 0), ("--shard-index", -1), ("--shard", 1)]
)
def test_parts_that_a_loop_starts(listed, indices, option, first):
    slash = "/3" if option == "--shard" else " --num-shards 3"
    runs = script(
        "for i in 7 8; do echo $i; done\n"
        f"for i in {listed}; do runci run --suite a {option} ${{i}}{slash}; done"
    )
    assert {(part.count, part.index, part.first) for part in runs.parts} == {
        (3, index, first) for index in indices
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("runci run --suite a", ["a"]),
        ("runci run --suite=a", ["a"]),
        ("runci run --suite 'a'", ["a"]),
        ('runci run --suite "a"', ["a"]),
        ('runci run "--suite=a"', ["a"]),
        ("runci run --suite a --suite b", ["a", "b"]),
        (".venv/bin/runci --root . run --suite a", ["a"]),
        ("python -m runci run --suite a", ["a"]),
        ("python3 run_suite.py --suite a", ["a"]),
        ("cd test && python3 run_suite.py --suite a || true", ["a"]),
        ("if [ -f x ]; then runci run --suite a; fi", ["a"]),
        ("if ! runci run --suite a; then exit 1; fi", ["a"]),
        ("runci run \\\n  --hw cpu \\\n  --suite a \\\n  # end", ["a"]),
        ("runci run --suite a > log 2>&1; runci run --suite b |& tee log", ["a", "b"]),
        ("(runci run --suite a) & wait", ["a"]),
        ("OUT=$(runci run --suite a)", ["a"]),
        ("X=1 runci run --suite a", ["a"]),
        ("bash x.sh -w /src/test -e A=b python3 run_suite.py --suite a", ["a"]),
        ('docker exec c bash -c "source v && cd test && python3 run_suite.py --suite a"', ["a"]),
        ("docker exec c bash -c 'runci run \\\n --suite a'", ["a"]),
        ("bash <<'EOF'\nruncii run\nrunci run --suite a\nEOF", ["a"]),
        ("for s in a b; do runci run --suite $s; done", ["a", "b"]),
        ("ARGS='--suite a --hw cpu'\nrunci run $ARGS", ["a"]),
        ('args="--hw cpu"\nargs+=" --suite a"\nrunci run $args', ["a"]),
        ("S=a; runci run --suite $S-x", ["a-x"]),
        ("runci run --suite ${S:-a}", ["a"]),
        ("S=\nrunci run --suite ${S:-a}", ["a"]),
        ("export S=a T=b; runci run --suite $T", ["b"]),
        ("runci run --suite ''", []),
        ("# runci run --suite a", []),
        ("true # runci run --suite a", []),
        ("echo runci run --suite a", []),
        ("cat > f <<EOF\nrunci run --suite a\nEOF", []),
        ("runci run --help", []),
        ("runci lint --suite a", []),
        ("pkill -f 'run_suite.py' --suite a", []),
        ("python3 my_run_suite.py --suite a", []),
        ("python3 run_suite.py.bak --suite a", []),
    ],
)
def test_commands(text, expected):
    found = script(text)
    assert names(found) == expected
    assert not found.unresolved
    assert not found.broken
    assert all(run.resolved for run in found.runs)


@pytest.mark.parametrize(
    ("options", "backend"),
    [
        ("", None),
        ("--hw cuda", Backend.CUDA),
        ("--hw=cuda", Backend.CUDA),
        ("--hw rocm", Backend.AMD),
        ("--backend npu", Backend.NPU),
        ("--hw ${{ github.x }}", None),
        ("--hw toaster", None),
    ],
)
def test_backend(options, backend):
    assert [run.backend for run in script(f"runci run {options} --suite a").runs] == [backend]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("python3 test/run_suite.py --suite a", True),
        ("python3 ./test/run_suite.py --suite a", True),
        ("cd test\npython3 run_suite.py --suite a", True),
        ("cd x\ncd ../test/\npython3 run_suite.py --suite a", True),
        ("cd $GITHUB_WORKSPACE/test\npython3 run_suite.py --suite a", True),
        ("python3 ${{ github.workspace }}/test/run_suite.py --suite a", True),
        ("bash x.sh -w /src/test python3 run_suite.py --suite a", True),
        ("bash x.sh python3 run_suite.py --suite a", True),
        ("docker run -w /src c bash -c 'cd test; python3 run_suite.py --suite a'", True),
        ("cd $SOMEWHERE\npython3 run_suite.py --suite a", True),
        ("python3 $SOMEWHERE/run_suite.py --suite a", True),
        ("cd tools\npython3 run_suite.py --suite a", False),
        ("python3 lib/gen/test/run_suite.py --suite a", False),
        ("cd lib/gen/test\npython3 run_suite.py --suite a", False),
        ("cd lib\npython3 gen/test/run_suite.py --suite a", False),
        ("bash x.sh -w /src/lib python3 gen/test/run_suite.py --suite a", False),
        ("bash x.sh -w /root/other python3 tests/ci/run_suite.py --suite a", False),
        ("python3 ${{ github.workspace }}/lib/gen/test/run_suite.py --suite a", False),
    ],
)
def test_a_script_with_its_folder_is_no_other_script(text, found):
    runs = script(text, settings=Workflows(commands=("test/run_suite.py",)))
    assert names(runs) == ["a"] * found


def test_working_directory():
    settings = Workflows(commands=("test/run_suite.py",))
    for where, expected in (("test", ["a"]), ("tools", [])):
        more = f"defaults: {{run: {{working-directory: {where}}}}}"
        assert names(script("python3 run_suite.py --suite a", more=more, settings=settings)) == (
            expected
        )


@pytest.mark.parametrize(
    ("suite", "more", "expected"),
    [
        ("${{ matrix.s }}", "strategy: {matrix: {s: [a, b]}}", ["a", "b"]),
        ("x-${{ matrix.s }}", "strategy: {matrix: {s: [a, b], n: [1, 2]}}", ["x-a", "x-b"]),
        ("${{ matrix.s.n }}", "strategy: {matrix: {s: [{n: a}, {n: b}]}}", ["a", "b"]),
        ("${{ matrix.s }}", "strategy: {matrix: {include: [{s: a}, {s: b}]}}", ["a", "b"]),
        ("${{ matrix.s }}", "strategy: {matrix: {s: [a], include: [{s: b}]}}", ["a", "b"]),
        (
            "${{ matrix.s }}-${{ matrix.t }}",
            "strategy: {matrix: {s: [a, b], include: [{s: a, t: x}, {t: y}]}}",
            ["a-y", "b-y"],
        ),
        (
            "${{ matrix.s }}-${{ matrix.n }}",
            "strategy: {matrix: {s: [a, b], n: [1, 2], exclude: [{s: a, n: 2}, {s: b}]}}",
            ["a-1"],
        ),
        ("${{ matrix.s }}", 'strategy: {matrix: {s: "${{ fromJSON(\'[\\"a\\"]\') }}"}}', ["a"]),
        ("$S", "env: {S: a}", ["a"]),
        ("${S}-x", "env: {S: a}", ["a-x"]),
        ("${S:-b}", "env: {S: ''}", ["b"]),
        ("${{ env.S }}", "env: {S: a}", ["a"]),
        ("$S", "env: {S: '${{ matrix.s }}'}\nstrategy: {matrix: {s: [a, b]}}", ["a", "b"]),
        ("${{ 'a' }}", "", ["a"]),
        ("${{ format('{0}-{1}', 'a', 2) }}", "", ["a-2"]),
        ("${{ github.x && 'a' || 'b' }}", "", ["a", "b"]),
        ("${{ github.x == 'y' && 'a' || 'b' }}", "", ["a", "b"]),
        ("${{ inputs.nothing || 'a' }}", "", ["a"]),
        ("a-${{ github.x && 'b' || 'c' }}", "", ["a-b", "a-c"]),
    ],
)
def test_names_are_resolved(suite, more, expected):
    found = script(f'runci run --suite "{suite}"', more=more)
    assert sorted(names(found)) == expected
    assert not found.unresolved


@pytest.mark.parametrize(
    ("suite", "more", "expected"),
    [
        ("nightly-${{ github.x }}", "", "nightly-*"),
        ("${{ needs.plan.outputs.suite }}", "", "*"),
        ("${{ not valid }}", "", "*"),
        ("$UNKNOWN-gpu", "", "*-gpu"),
        ("$(compute)-gpu", "", "*-gpu"),
        ("${X%-a}", "", "*"),
        ("${{ matrix.s }}", "strategy: {matrix: {s: '${{ fromJSON(needs.a.outputs.b) }}'}}", "*"),
        ("${{ matrix.s }}", "strategy: {matrix: '${{ fromJSON(needs.a.outputs.b) }}'}", "*"),
        ("a-${{ matrix.s }}", "strategy: {matrix: {include: '${{ fromJSON(vars.b) }}'}}", "a-*"),
    ],
)
def test_what_is_unknown_becomes_a_glob_and_is_said_once(suite, more, expected):
    found = script(f"true\nruncii\nrunci run \\\n  --suite {suite}", more=more)
    assert [(run.suite, run.resolved) for run in found.runs] == [(expected, False)]
    (place,) = found.unresolved
    assert (place.path, place.expression, place.typed) == (PATH, suite, False)
    assert place.line == 10 + len(more.splitlines())


@pytest.mark.parametrize("text", ['runci run "$@"', "runci run $ARGS", "runci run ${{ vars.A }}"])
def test_a_variable_that_may_hide_the_suite_is_said(text):
    found = script(text)
    assert names(found) == ["*"]
    assert len(found.unresolved) == 1


def test_a_known_flag_hides_no_suite():
    assert script("runci run $FLAG --help", more="env: {FLAG: --verbose}") == SuiteRuns()


CALLER = """
    on: push
    jobs:
      one:
        uses: ./.github/workflows/_stage.yml
        with:
          suite: a
      two:
        strategy: {matrix: {s: [b, c]}}
        uses: ./.github/workflows/_middle.yml
        with:
          name: ${{ matrix.s }}
      three:
        uses: ./.github/workflows/_stage.yml
    """
MIDDLE = """
    on: {workflow_call: {inputs: {name: {type: string, required: true}}}}
    jobs:
      inner:
        uses: ./.github/workflows/_stage.yml
        with:
          suite: ${{ inputs.name }}
          hw: amd
    """
STAGE = """
    on:
      workflow_call:
        inputs:
          suite:
            type: string
            default: d
          hw: {type: string, default: cuda}
    jobs:
      run:
        runs-on: gpu
        steps:
          - run: runci run --hw ${{ inputs.hw }} --suite ${{ inputs.suite }}
    """
CALLED = {".github/workflows/_stage.yml": STAGE, ".github/workflows/_middle.yml": MIDDLE}


def test_called_workflows_are_inlined_and_named_where_the_name_is_written():
    found = find(CALLER, CALLED)
    assert not found.unresolved
    assert [(r.suite, r.backend, r.path, r.line, r.job) for r in found.runs] == [
        ("d", Backend.CUDA, ".github/workflows/_stage.yml", 7, "run"),
        ("a", Backend.CUDA, PATH, 7, "one"),
        ("b", Backend.AMD, PATH, 9, "two"),
        ("c", Backend.AMD, PATH, 9, "two"),
    ]


def test_a_workflow_that_nobody_calls_runs_nothing():
    assert find(STAGE).runs == ()


def test_an_unknown_name_is_said_once_for_all_callers():
    jobs = "".join(
        f"  j{i}: {{uses: ./.github/workflows/_stage.yml, with: {{suite: '${{{{ vars.x }}}}'}}}}\n"
        for i in range(3)
    )
    found = find(f"on: push\njobs:\n{jobs}", CALLED)
    assert [(u.path, u.line) for u in found.unresolved] == [(".github/workflows/_stage.yml", 13)]
    assert names(found) == ["*"]


def test_workflows_that_call_each_other_end():
    call = "on: [push, workflow_call]\njobs: {{x: {{uses: ./.github/workflows/{}}}, y: {}}}\n"
    run = "{steps: [{run: runci run --suite a}]}"
    found = find(call.format("b.yml", run), {".github/workflows/b.yml": call.format("ci.yml", run)})
    assert set(names(found)) == {"a"}


def test_a_called_workflow_that_is_missing_is_said():
    found = find("on: push\njobs: {x: {uses: ./.github/workflows/gone.yml}}\n")
    (broken,) = found.broken
    assert (broken.path, broken.line) == (PATH, 2)
    assert "gone.yml" in broken.message


@pytest.mark.parametrize(
    ("on", "suite", "expected", "typed"),
    [
        ("{type: choice, options: [a, b]}", "${{ inputs.s }}", ["a", "b"], False),
        ("{type: choice, options: [a, b]}", "${{ github.event.inputs.s }}", ["a", "b"], False),
        ("{type: string, default: a}", "${{ inputs.s }}", ["a"], True),
        ("{type: boolean}", "${{ inputs.s && 'a' || 'b' }}", ["a", "b"], False),
    ],
)
def test_inputs_of_a_dispatch(on, suite, expected, typed):
    found = find(
        f"on: {{push: , workflow_dispatch: {{inputs: {{s: {on}}}}}}}\n"
        f"jobs: {{x: {{steps: [{{run: \"runci run --suite '{suite}'\"}}]}}}}\n"
    )
    assert sorted(names(found)) == expected
    assert [place.typed for place in found.unresolved] == [True] * typed


ACTION = """
    inputs:
      suite: {default: d}
    runs:
      using: composite
      steps:
        - shell: bash
          run: |
            runci run --suite ${{ inputs.suite }}
        - uses: ./.github/actions/inner
          with: {args: --suite inner}
    """
INNER = """
    runs: {using: composite, steps: [{shell: bash, run: "runci run ${{ inputs.args }}"}]}
    """
ACTIONS = {".github/actions/x/action.yml": ACTION, ".github/actions/inner/action.yaml": INNER}


def test_composite_actions_are_inlined():
    steps = "[{uses: ./.github/actions/x, with: {suite: a}}, {uses: ./.github/actions/x}]"
    found = find(f"on: push\njobs: {{j: {{steps: {steps}}}}}\n", ACTIONS)
    assert {(r.suite, r.path, r.line) for r in found.runs} == {
        ("a", PATH, 2),
        ("d", ".github/actions/x/action.yml", 3),
        ("inner", ".github/actions/inner/action.yaml", 2),
    }


def test_a_command_given_to_an_action_counts():
    step = "{uses: org/retry@v1, with: {command: runci run --suite a}}"
    assert names(find(f"on: push\njobs: {{j: {{steps: [{step}]}}}}\n")) == ["a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("src:\n  - 'runci run --suite a'\n  - b/**\n", []),
        ("# those\n- runci run --suite a", []),
        ("src:\n  - b/**\nrunci run --suite a", ["a"]),
        ("runci run \\\n  --suite a", ["a"]),
    ],
)
def test_a_list_given_to_an_action_is_no_command(text, expected):
    step = f"{{uses: org/filter@v1, with: {{filters: {json.dumps(text)}}}}}"
    assert names(find(f"on: push\njobs: {{j: {{steps: [{step}]}}}}\n")) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("false", []),
        ("${{ false }}", []),
        ("inputs.x == 'y'", []),
        ("always() && false", []),
        ("true", ["a"]),
        ("github.event_name == 'push'", ["a"]),
        ("!false", ["a"]),
        ("(((", ["a"]),
    ],
)
def test_conditions_that_cannot_hold(condition, expected):
    run = "run: runci run --suite a"
    job = f'{{if: "{condition}", steps: [{{{run}}}]}}'
    step = f'{{steps: [{{if: "{condition}", {run}}}]}}'
    assert names(find(f"on: push\njobs: {{j: {job}}}\n")) == expected
    assert names(find(f"on: push\njobs: {{j: {step}}}\n")) == expected


def test_lines():
    found = find("""\
        on: push
        jobs:
          a:
            steps:
              - run: runci run --suite one
              - run: |

                  # runci run
                  runci run \\
                    --suite two
              - run: >-
                  runci run
                  --suite three
              - name: x
                run: |
                  bash -c "true &&
                    runci run --suite four"
        """)
    assert [(run.suite, run.line) for run in found.runs] == [
        ("one", 5),
        ("two", 10),
        ("three", 13),
        ("four", 17),
    ]


def test_a_script_in_another_language_is_said():
    found = find(
        "on: push\njobs: {a: {steps: [{shell: python, run: 'x(\"run_suite.py --suite a\")'}]}}\n"
    )
    assert [place.expression for place in found.unresolved] == ["shell: python"]


def test_powershell():
    more = "defaults: {run: {shell: pwsh}}\nenv: {S: a}"
    assert names(script("runci run `\n  --suite $env:S", more=more)) == ["a"]


def test_a_broken_file_hides_no_other():
    broken = {
        ".github/workflows/b.yml": "jobs: [runci run\n",
        ".github/workflows/c.yml": "runci run: 1\nruns: 1\nruns: 2\n",
        ".github/workflows/odd.yml": "- runci run\n",
        ".github/workflows/odd2.yml": "{on: [push], jobs: {a: 1, b: {steps: runci run}}}\n",
    }
    found = find("on: push\njobs: {a: {steps: [{run: runci run --suite a}]}}\n", broken)
    assert names(found) == ["a"]
    assert [(b.path, b.line) for b in found.broken] == [
        (".github/workflows/b.yml", 2),
        (".github/workflows/c.yml", 3),
    ]
    assert "twice" in found.broken[1].message


def test_files_without_commands_are_not_read():
    assert find("{ broken\n") == SuiteRuns()


def test_json_round_trip():
    found = find(CALLER, {**CALLED, ".github/workflows/x.yml": "[runci run"})
    found = SuiteRuns(found.runs, script("runci run --suite $X").unresolved, found.broken)
    assert found.runs
    assert found.unresolved
    assert found.broken
    assert SuiteRuns.from_json(found.to_json()) == found


def test_starts():
    runs = SuiteRuns((SuiteRun(PATH, 1, "night-*", Backend.CUDA, "j", False),))
    assert runs.starts(Backend.CUDA, "night-x")
    assert not runs.starts(Backend.AMD, "night-x")
    assert not runs.starts(Backend.CUDA, "day-x")
    exact = SuiteRuns((SuiteRun(PATH, 1, "night-*", None, "j"),))
    assert not exact.starts(Backend.CUDA, "night-x")
    assert exact.starts(Backend.CUDA, "night-*")


def test_reading(tmp_path):
    for path, text in {PATH: CALLER, **CALLED, **ACTIONS}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(textwrap.dedent(text))
    (tmp_path / ".github/workflows/z.yaml").write_text(
        "on: push\njobs: {j: {steps: [{uses: ./.github/actions/x}, {uses: ./../out},"
        " {uses: ./gone}]}}\n"
    )
    (tmp_path / ".github/workflows/notes.txt").write_text("uses: ./nothing")
    (tmp_path / ".github/workflows/folder.yml").mkdir()
    (tmp_path / ".github/workflows/pipe.yml").symlink_to(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe")  # reading it would never end, as of a link to /dev/zero
    (tmp_path / "pipe.sh").symlink_to("pipe")
    files, broken = read_workflows(tmp_path, SETTINGS)
    assert sorted(files) == sorted([PATH, *CALLED, *ACTIONS, ".github/workflows/z.yaml"])
    assert [b.path for b in broken] == [f".github/workflows/{n}.yml" for n in ("folder", "pipe")]
    assert read_scripts(tmp_path, {PATH: b"run: bash pipe.sh"}) == {}
    found = find_suite_runs(files, SETTINGS, broken)
    assert {"a", "b", "c", "d", "inner"} == set(names(found))
    assert found.broken == broken


def test_no_workflows(tmp_path):
    assert read_workflows(tmp_path, SETTINGS) == ({}, ())
    assert find_suite_runs({}, SETTINGS) == SuiteRuns()


def test_a_huge_file_is_refused():
    assert find("# runci run\n" + "#" * 2_000_001).broken == (
        Broken(PATH, 1, "larger than 2000000 bytes: split it"),
    )


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
