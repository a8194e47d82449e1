"""What this repository's workflows run, and that nothing in them lets red turn green."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from runci import register_cpu_ci
from runci.config.repository import BASELINE, find_config
from runci.config.suites import load_taxonomy
from runci.core.registration import Backend
from runci.gate.rules import is_protected
from runci.read.yamlpos import Node, load
from runci.workflows.find import read_document
from runci.workflows.model import Document, steps_of, text_of_node

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

ROOT = Path(__file__).parents[4]
FILES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted((ROOT / ".github").rglob("*.yml"))
    if path.parent != ROOT / ".github"
}
WORKFLOWS = sorted(path for path in FILES if "/workflows/" in path)
BASE_TEST = ".github/workflows/pr-test.yml"
EXTRA_TEST = ".github/workflows/pr-test-extra.yml"
KERNEL = ".github/workflows/pr-test-jit-kernel.yml"
GATE = ".github/workflows/pr-gate.yml"
LINT = ".github/workflows/lint.yml"
SLASH = ".github/workflows/slash-command.yml"
STATES = ".github/workflows/pr-states.yml"
NIGHTLY = ".github/workflows/nightly-sm120.yml"
WATCH = ".github/workflows/nightly-watch.yml"
DOCS = ".github/workflows/docs.yml"
RELEASE = ".github/workflows/release.yml"
FINISH = ".github/actions/finish/action.yml"
PLAN = ".github/actions/plan/action.yml"


def workflow(path: str) -> Document:
    document = read_document(FILES[path].encode(), path)
    assert isinstance(document, Document)
    return document


# What starts each workflow. With fewer types a label after the last push would start nothing.
TYPES = {
    "types": [
        *("opened", "synchronize", "reopened", "ready_for_review", "labeled", "unlabeled", "edited")
    ]
}
TRIGGERS = {
    BASE_TEST: {"pull_request": TYPES, "merge_group": 1, "schedule": 1, "workflow_dispatch": 1},
    EXTRA_TEST: {"pull_request": TYPES, "schedule": 1, "workflow_dispatch": 1},
    KERNEL: {"workflow_call": 1},
    GATE: {"workflow_call": 1},
    LINT: {"push": {"branches": ["main"]}, "workflow_call": 1},
    SLASH: {"issue_comment": {"types": ["created"]}},
    STATES: {
        "workflow_run": {
            "workflows": ["PR Test (Base)", "PR Test (Extra)"],
            "types": ["requested", "in_progress", "completed"],
        }
    },
    NIGHTLY: {"schedule": 1, "workflow_dispatch": 1},
    WATCH: {"schedule": 1, "workflow_dispatch": 1},
    DOCS: {"push": {"branches": ["main"]}, "pull_request": 1},
    RELEASE: {"push": {"tags": ["v*"]}, "workflow_dispatch": 1},
}
# What they test.
TESTED = {BASE_TEST: "${{ inputs.head_sha || github.sha }}", EXTRA_TEST: "${{ github.sha }}"}


def test_what_starts_them() -> None:
    assert sorted(TRIGGERS) == WORKFLOWS
    for path, wanted in TRIGGERS.items():
        document = workflow(path)
        found = document.root.plain()["on"]
        assert {k: found[k] if isinstance(v, dict) else 1 for k, v in wanted.items()} == wanted
        assert found.keys() == wanted.keys()


@pytest.mark.parametrize("path", sorted(FILES))
def test_no_failure_is_tolerated(path: str) -> None:
    """Nothing goes on after a failure, and a pipe ends with the worst of its ends."""
    document = load(FILES[path].encode(), path)
    assert "continue-on-error" not in FILES[path]
    for step in steps_below(document):
        if "run" not in step:
            continue
        is_action = "/actions/" in path
        assert step.get("shell") == ("bash" if is_action else None)  # in an action with pipefail
        run = step["run"].replace("\\\n", " ")
        assert not re.search(r"\|\||;(?! then)|&|\bset \+|\btrap\b", run.replace("&&", "")), run
        assert is_action or "|" not in run, run
        if "runci " in run:  # a condition of the shell, or a last word, would take its place
            assert not re.search(r"\b(if|while|until|!) runci|\b(true|exit)\b", run), run


def steps_below(node: Node) -> list[dict[str, Any]]:
    """Every step of a workflow or action."""
    found = [step.plain() for step in steps_of(node)]
    for item in node.mapping.values():
        found += steps_below(item)
    return found


def test_the_last_job_compares_and_asks() -> None:
    """By these two commands, without a condition that a pull request could be red under."""
    action = load(FILES[FINISH].encode(), FINISH)
    ran = [step for step in steps_below(action) if "runci" in step.get("run", "")]
    conditions = [(step["run"].split()[:2], step.get("if")) for step in ran]
    assert conditions[0] == (["runci", "needs"], None)
    assert ran[0]["env"] == {
        "NEEDS": "${{ inputs.needs }}",
        "MAY_SKIP": "${{ inputs.may-skip }}",
        "MAY_FAIL": "${{ inputs.may-fail }}",
        "ONE_OF": "${{ inputs.one-of }}",
    }
    for option, name in (("may-skip", "MAY_SKIP"), ("may-fail", "MAY_FAIL"), ("one-of", "ONE_OF")):
        assert f'--{option} "${name}" ' in ran[0]["run"]
    verify = "runci verify plan.json results --run-jobs github --allow-empty --format markdown"
    said = " ".join(ran[1]["run"].split())
    assert said == f'mkdir -p results {verify} | tee -a "$GITHUB_STEP_SUMMARY"'
    assert (ran[1]["if"], len(ran)) == ("${{ !cancelled() }}", 2)


def test_the_plan_is_of_all_that_the_pull_request_changes() -> None:
    """Against the first parent of its merge; nothing but a dispatch asks for less."""
    plan = load(FILES[PLAN].encode(), PLAN)
    (step,) = (step for step in steps_below(plan) if "runci plan" in step.get("run", ""))
    assert " ".join(step["env"]["WHAT"].split()) == (
        "${{ inputs.test != '' && format('--test={0}', inputs.test)"
        " || github.event_name == 'pull_request' && '--base=HEAD^1' || '--all' }}"
    )
    assert step["env"]["SUITE"].endswith(" || '--allow-empty' }}")
    given = {path: given_to("plan", workflow(path), "check-changes") for path in TESTED}
    assert given == {
        BASE_TEST: {"ref": TESTED[BASE_TEST], "test": "${{ inputs.test }}"},
        EXTRA_TEST: {"ref": TESTED[EXTRA_TEST], "only": "--suite=base-a-test-cpu --suite=extra-*"},
    }


def given_to(action: str, document: Document, job: str) -> dict[str, str]:
    """What a step of this job gives to an action of this repository."""
    (found,) = (
        step.plain()["with"]
        for step in steps_of(document.jobs[job])
        if text_of_node(step.get("uses")) == f"./.github/actions/{action}"
    )
    return dict(found)


@pytest.mark.parametrize(
    ("path", "planning"),
    [(BASE_TEST, "check-changes"), (EXTRA_TEST, "check-changes"), (NIGHTLY, "plan")],
)
def test_the_last_job_plans_what_was_planned(path: str, planning: str) -> None:
    """With the same inputs, by the same action, beginning at the same commit."""
    document = workflow(path)
    last = list(document.jobs)[-1]
    planned, again = given_to("plan", document, planning), given_to("finish", document, last)
    assert planned == {key: again[key] for key in planned}
    assert again["allowed"] == "${{ needs.call-gate.outputs.allowed }}"
    assert again.keys() - planned <= {"allowed", "needs", "may-skip", "may-fail", "one-of"}
    plan, finish = (load(FILES[name].encode(), name).plain() for name in (PLAN, FINISH))
    first = finish["runs"]["steps"][0]
    assert first["uses"] == "./.github/actions/plan"
    passed = {key: f"${{{{ inputs.{key} }}}}" for key in ("ref", "only", "suite", "test")}
    assert first["with"] == {**passed, "allowed": "${{ inputs.allowed }}", "keep": "false"}
    assert "default" not in finish["inputs"]["allowed"]
    for key in passed:
        assert finish["inputs"][key].get("default") == plan["inputs"][key].get("default")
    begins = [
        next(
            step["with"]["ref"]
            for step in map(Node.plain, steps_of(document.jobs[job]))
            if "with" in step
        )
        for job in (planning, last)
    ]
    assert begins[0] == begins[1]


def test_the_bases_runci_plans_unless_it_is_changed() -> None:
    """It is installed before the commit is checked out, and again only where the files differ."""
    steps = load(FILES[PLAN].encode(), PLAN).plain()["runs"]["steps"]
    order = [step.get("uses", step.get("id", "")).partition("@")[0] for step in steps]
    setup = "./.github/actions/setup-runci"
    assert order[:7] == [setup, "base", "actions/checkout", "own", "", setup, "plan"]
    own = "steps.own.outputs.own == 'true'"
    assert [step.get("if") for step in steps[:7]] == [
        *[None] * 4,
        f"{own} && inputs.allowed != 'true'",
        "steps.own.outputs.again == 'true'",
        None,
    ]
    assert steps[4]["run"].endswith("exit 1\n")
    asked = "git ls-tree HEAD $RUNCI | git hash-object --stdin"
    assert all(asked in steps[place]["run"] for place in (1, 3))
    assert steps[3]["env"]["BASE"] == "${{ steps.base.outputs.runci }}"
    into = "${{ github.event_name == 'pull_request' && 'HEAD^1' || '' }}"
    assert steps[3]["env"]["INTO"] == into  # elsewhere nobody but its author says what is before it


def test_whatever_decides_the_plan_counts_as_runci() -> None:
    """Else a commit could take its own tests out of the plan, which nobody allowed to read."""
    own = find_config(ROOT).relative_to(ROOT).as_posix()
    given = load(FILES[PLAN].encode(), PLAN).plain()["inputs"]["runci"]["default"].split()
    assert {"ci_scripts", ".github/actions", own, BASELINE} <= set(given)
    assert all(is_protected(path) for path in given)


def test_suites_yml_names_the_job_of_each_suite() -> None:
    """As GitHub shows it: the last job looks for these names in GitHub's list."""
    found = {}
    for path in (BASE_TEST, EXTRA_TEST, NIGHTLY):
        for name, node in workflow(path).jobs.items():
            called = text_of_node(node.get("uses")).removeprefix("./")
            inner = workflow(called).jobs if called in FILES else {}
            for below, job in {"": node, **inner}.items():
                suite = suite_of(job)
                if suite is not None:
                    titles = [name, below] if below else [name]
                    nodes = [node, job] if below else [node]
                    assert [text_of_node(one.get("name")) for one in nodes] == titles
                    assert job.plain()["strategy"]["matrix"].keys() == {"shard"}
                    found[" / ".join(titles)] = (suite,)
    assert TAXONOMY.workflows.jobs == found


def suite_of(job: Node) -> str | None:
    """The suite that a job's steps run, through our actions."""
    for step in steps_of(job):
        action = text_of_node(step.get("uses")).removeprefix("./") + "/action.yml"
        given = step.plain().get("with", {}).get("suite")
        if action.endswith("/run-shard/action.yml"):
            return str(given)
        if action in FILES and "run-shard" in FILES[action]:
            (inner,) = (
                one["with"]["suite"]
                for one in steps_below(load(FILES[action].encode(), action))
                if one.get("uses", "").endswith("/run-shard")
            )
            return str(given if inner == "${{ inputs.suite }}" else inner)
    return None


TAXONOMY = load_taxonomy((ROOT / "test/suites.yml").read_bytes(), "test/suites.yml")
DOCTOR = "    - name: Is this machine fit for it\n"
MEASURING = "      - name: Is this machine fit for it\n"
RUN_SHARD = ".github/actions/run-shard/action.yml"


def commands(
    files: dict[str, str],
    steps: list[dict[str, Any]],
    given: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[dict[str, Any]]:
    """The steps with a command, those of our actions in their place; but of the one that installs.

    `given` is what the action that they stand in is given, which is put in place of its inputs.
    """

    def filled(match: re.Match[str]) -> str:
        return str(given.get(match[1], match[0]))

    for step in steps:
        action = str(step.get("uses", "")).removeprefix("./") + "/action.yml"
        if action in files and not action.endswith("/setup-runci/action.yml"):
            inner = load(files[action].encode(), action).plain()["runs"]["steps"]
            yield from commands(files, inner, step.get("with", {}))
        elif "run" in step:
            env = {
                name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", filled, value)
                for name, value in step.get("env", {}).items()
            }
            yield {**step, "env": env}


def unexamined(files: dict[str, str]) -> set[str]:
    """The jobs on a GPU whose first command after the gate's is no doctor of their machine."""
    return {
        name
        for path in (BASE_TEST, EXTRA_TEST, KERNEL, NIGHTLY)
        for name, job in load(files[path].encode(), path).plain()["jobs"].items()
        if "gpu" in str(job.get("runs-on")) and not is_examined(files, job)
    }


def is_examined(files: dict[str, str], job: dict[str, Any]) -> bool:
    gate, doctor, *others = commands(files, job["steps"])
    assert gate["run"].startswith("runci gate")
    asked = options(doctor, "runci doctor ")
    suite = TAXONOMY.suite(Backend.CUDA, asked.get("--suite", ""))
    if suite is None or TAXONOMY.runners[suite.runner or ""].label != job["runs-on"]:
        return False
    kept = ("--suite", "--shard", "--results")
    return doctor.keys() <= {"name", "run", "env", "shell"} and all(
        [asked.get(name) for name in kept] == [run[name] for name in kept]
        for run in (options(other, "runci run ") for other in others)
        if run
    )


def options(step: dict[str, Any], command: str) -> dict[str, str]:
    """The options of a command, each with a value, and variables by what they are; else none."""
    if not step["run"].startswith(command):
        return {}
    words = [step["env"].get(word.strip('"$'), word) for word in step["run"].split()[2:]]
    return dict(zip(words[::2], words[1::2], strict=True))


def test_each_gpu_job_looks_at_its_machine_first() -> None:
    """What is the machine's is then no test's."""
    assert unexamined(FILES) == set()


SHARDS = {
    *("base-b-test-1-gpu-small", "extra-a-test-1-gpu-small", "nightly-kernel-5090"),
    *("jit-kernel-unit-test-5090", "jit-kernel-benchmark-5090", "jit-kernel-unit-test-h100"),
}
STEP = FILES[RUN_SHARD].partition(DOCTOR)[2].partition("    - uses")[0]
LOOK = "run: runci doctor"


@pytest.mark.parametrize(
    ("path", "old", "new", "jobs"),
    [
        (RUN_SHARD, DOCTOR + STEP, "", SHARDS),
        (RUN_SHARD, DOCTOR, f"{DOCTOR}      if: runner.debug\n", SHARDS),
        (RUN_SHARD, LOOK, "run: echo runci doctor", SHARDS),
        (RUN_SHARD, DOCTOR, "    - run: ls\n      shell: bash\n" + DOCTOR, SHARDS),
        (RUN_SHARD, 'doctor --suite "$SUITE"', 'doctor --suite "$SHARD"', SHARDS),
        (RUN_SHARD, 'doctor --suite "$SUITE" ', "doctor ", SHARDS),
        (RUN_SHARD, "--results results --format", "--results others --format", SHARDS),
        (
            *(RUN_SHARD, 'doctor --suite "$SUITE"', "doctor --suite base-b-test-1-gpu-small"),
            SHARDS - {"base-b-test-1-gpu-small"},
        ),
        (NIGHTLY, MEASURING, f"{MEASURING}        if: always()\n", {"measure-5090", "bisect-5090"}),
        (NIGHTLY, LOOK, "run: echo", {"measure-5090", "bisect-5090"}),
        (
            *(NIGHTLY, "--suite nightly-kernel-1-gpu-small --format", "--format"),
            {"measure-5090", "bisect-5090"},
        ),
        (
            *(NIGHTLY, "doctor --suite nightly-kernel-1", "doctor --suite by-hand-kernel-2"),
            {"measure-5090", "bisect-5090"},
        ),
    ],
)
def test_a_job_that_does_not_is_found(path: str, old: str, new: str, jobs: set[str]) -> None:
    assert old in FILES[path], "the mutant changes nothing"
    assert unexamined({**FILES, path: FILES[path].replace(old, new)}) == jobs


@pytest.mark.parametrize("path", sorted(FILES))
def test_shards_plan_and_results_are_of_this_run(path: str) -> None:
    document = load(FILES[path].encode(), path)
    for step in steps_below(document):
        if step.get("uses", "").startswith("actions/download-artifact@"):
            assert step["with"].keys() <= {"name", "pattern", "path"}
    plan = r"(needs\.(check-changes|plan)\.outputs|inputs)\.suites"
    suite = rf"\$\{{\{{ fromJSON\(fromJSON\({plan}\)\['[\w-]+'\]\)\.shards \}}\}}"
    for shard in re.findall(r"^ {8}shard: (.*)$", FILES[path], re.MULTILINE):
        assert "/actions/" in path or re.fullmatch(suite, shard)


def test_lint_checks_everything_of_the_commit() -> None:
    document = workflow(LINT)
    (job,) = (node.plain() for node in document.jobs.values())
    assert "if" not in job
    assert job["steps"][0]["with"]["ref"] == "${{ inputs.ref || github.sha }}"
    assert job["steps"][-1].keys() == {"name", "run"}
    assert job["steps"][-1]["run"] == "make lint"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = makefile.partition("\nlint: ")[2].partition("\n\n")[0]
    assert recipe.startswith("$(VENV)/lint.stamp $(VENV)/workflows.stamp\n")
    assert "\t$(BIN)/runci check\n" in recipe  # registered tests, workflows, whitespace
    assert not re.search(r"^\t-|\|\|", makefile, re.MULTILINE)


@pytest.mark.parametrize("path", [BASE_TEST, EXTRA_TEST, KERNEL])
def test_every_job_tests_the_commit_that_was_asked_for(path: str) -> None:
    """Only the gate's own checkout, and the base's for the plan, are others and come first."""
    document = workflow(path)
    wanted = {**TESTED, KERNEL: "${{ inputs.ref }}"}[path]
    for name, job in document.jobs.items():
        plain = job.plain()
        refs = [
            step["with"]["ref"]
            for step in plain.get("steps", ())
            if step.get("uses", "").startswith("actions/checkout@")
        ]
        given = plain.get("with", {}).get("ref")
        assert given in (None, wanted)
        if name == "check-changes" or name.endswith("-finish"):
            queue = "github.event.merge_group.base_sha || " if path == BASE_TEST else ""
            base = f"github.event.pull_request.base.sha || {queue}github.sha"
            assert refs == [f"${{{{ {base} }}}}"]
            assert plain["steps"][1]["with"]["ref"] == wanted
            continue
        assert not refs or refs[-1] == wanted
        assert refs[:-1] in ([], ["${{ github.event.repository.default_branch }}"])


@pytest.mark.parametrize("path", [BASE_TEST, EXTRA_TEST, NIGHTLY])
def test_the_gate_is_asked_for_the_workflows_labels(path: str) -> None:
    document = workflow(path)
    gate = document.jobs["call-gate"].plain()
    assert gate["uses"] == "./.github/workflows/pr-gate.yml"
    assert gate.get("with") == ({"extra": True} if path == EXTRA_TEST else None)


def test_the_gates_answers_are_the_gates() -> None:
    """With another one, such as «ignore», the last job would look at nothing."""
    document = workflow(GATE)
    plain = document.root.plain()
    asked = plain["on"]["workflow_call"]["outputs"]
    said = plain["jobs"]["gate"]["outputs"]
    assert asked.keys() == said.keys() == {"allowed", "outcome", "bypass_fastfail"}
    for name in asked:
        assert asked[name]["value"] == f"${{{{ jobs.gate.outputs.{name} }}}}"
        assert said[name] == f"${{{{ steps.gate.outputs.{name} }}}}"


@pytest.mark.parametrize("path", [BASE_TEST, EXTRA_TEST])
def test_the_last_job_excuses_only_what_is_verified(path: str) -> None:
    """Of a skipped suite `runci verify` misses the results; of lint, plan and gate nobody would."""
    document = workflow(path)
    *before, last = document.jobs
    checkout, finish = (step.plain() for step in steps_of(document.jobs[last]))
    # With `!cancelled()` whoever cancels the run would have it skipped, which counts as green.
    assert document.jobs[last].plain()["if"] == "always()"
    assert "if" not in checkout
    assert finish["if"] == "needs.call-gate.outputs.outcome != 'ignore'"
    assert finish["with"]["needs"] == "${{ toJSON(needs) }}"
    assert sorted(document.jobs[last].plain()["needs"]) == sorted(before)
    skipped = set(finish["with"]["may-skip"].split(","))
    assert skipped == set(before) - {"check-changes", "call-gate", "lint", "lint-beside"}
    assert finish["with"]["one-of"] == "lint,lint-beside"
    assert finish["with"].get("may-fail", "") == ("call-gate" if path == BASE_TEST else "")


@pytest.mark.parametrize("path", [BASE_TEST, EXTRA_TEST])
def test_the_bypass_lifts_the_wait(path: str) -> None:
    """GPU jobs wait for lint and base-a, which are skipped where others stand in for them."""
    document = workflow(path)
    for name in ("lint", "base-a"):
        job, beside = (document.jobs[one].plain() for one in (name, f"{name}-beside"))
        asked = "needs.call-gate.outputs.bypass_fastfail"
        assert f"{asked} != 'true'" in job["if"]
        assert f"{asked} == 'true'" in beside["if"]
        assert job["needs"] == beside["needs"]
        same = {"if", "name"}
        assert {k: v for k, v in job.items() if k not in same} == {
            k: v for k, v in beside.items() if k not in same
        }
    *others, last = document.jobs
    waiting = {job for job in others if "-beside" in str(document.jobs[job].plain().get("needs"))}
    assert waiting == set()
    gpus = [document.jobs[job].plain() for job in others if "gpu" in job or "jit" in job]
    assert gpus and all({"lint", "base-a"} <= set(job["needs"]) for job in gpus)
    assert {"lint-beside", "base-a-beside"} <= set(document.jobs[last].plain()["needs"])


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
