"""`runci init` by real processes: three people's repositories, and what is in its way."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # for `python FILE`

from places import FIXTURES, ROOT
from trees import files_by_suite, runci_process, track

from runci import register_cpu_ci
from runci.adopt import workflow_text

register_cpu_ci(est_time=28, stage="base-a", runner_config="cpu")

# What becomes of them in the hands of a reader of docs/start: test_docs_starts.py.
PEOPLE = ("kernels", "monorepo", "elsewhere")
WROTE = {
    "kernels": {
        *(".github/ci-permissions.yml", ".github/ci-status.yml", ".github/workflows/runci.yml"),
        *(".pre-commit-config.yaml", "runci.yml"),
    },
    "monorepo": {
        *(".github/ci-permissions.yml", ".github/ci-status.yml", ".github/workflows/runci.yml"),
        "runci.yml",
    },
    "elsewhere": {".github/workflows/runci.yml", "runci.yml"},
}


def runci_in(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """With the cache where neither git nor a check looks."""
    return runci_process(*arguments, cwd=cwd, XDG_CACHE_HOME=str(cwd / ".git" / "cache"))


def test_a_repository_that_another_service_runs_alone_gets_no_workflow(tmp_path: Path) -> None:
    root = tmp_path / "elsewhere"
    shutil.copytree(FIXTURES / "adopt" / "elsewhere", root)
    shutil.rmtree(root / ".github")
    shutil.rmtree(root / ".buildkite")
    track(root)
    done = runci_in("init", cwd=root)
    assert done.returncode == 0, done.stderr
    assert not (root / ".github").exists()
    assert "action" not in done.stdout + (root / "runci.yml").read_text(encoding="utf-8")
    assert runci_in("check", cwd=root).returncode == 0
    planned = runci_in("plan", "--all", "--format", "gitlab", "-o", "plan.json", cwd=root)
    assert planned.returncode == 0, planned.stderr
    suites = json.loads((root / "plan.json").read_text(encoding="utf-8"))["suites"]
    assert [suite["name"] for suite in suites] == ["cpu", "gitlab-a100"]


def contents(root: Path) -> dict[str, bytes]:
    paths = (path for path in root.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}


def repository(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return track(root)


def adopted(name: str, root: Path) -> Path:
    shutil.copytree(FIXTURES / "adopt" / name, root, dirs_exist_ok=True)
    return track(root)


def planned(root: Path, *kinds: str) -> dict[str, set[str]]:
    """Of the suites of some kinds, those of each commit where none is named."""
    asked = [f"--kind={kind}" for kind in kinds]
    done = runci_in("plan", "--all", *asked, "--format", "json", cwd=root)
    assert done.returncode == 0, done.stderr
    return {name: set(paths) for name, paths in files_by_suite(done.stdout).items()}


@pytest.mark.parametrize("name", PEOPLE)
def test_what_is_written_is_what_the_dry_run_shows(name: str, tmp_path: Path) -> None:
    (tmp_path / "dry").mkdir()
    root, dry = adopted(name, tmp_path / "wet"), adopted(name, tmp_path / "dry")
    before = contents(dry)
    done = runci_in("init", "--dry-run", cwd=dry)
    assert (done.returncode, contents(dry)) == (0, before)
    assert runci_in("init", cwd=root).returncode == 0
    after = contents(root)
    assert {path for path in after if after[path] != before.get(path)} == WROTE[name]
    assert len(after[".github/workflows/runci.yml"].splitlines()) <= 80
    patch = done.stdout.partition("\nFound:\n")[0] + "\n"
    subprocess.run(["git", "apply", "-"], cwd=dry, input=patch, text=True, check=True)
    assert contents(dry) == after
    again = runci_in("init", cwd=root)
    assert (again.returncode, contents(root)) == (0, after)
    assert "nothing was changed" in again.stdout


@pytest.mark.parametrize("name", PEOPLE)
def test_a_suite_loses_its_tests_where_a_job_is_taken_out(name: str, tmp_path: Path) -> None:
    """The lint still compares suites with the workflow that was written."""
    root = adopted(name, tmp_path)
    assert runci_in("init", cwd=root).returncode == 0
    workflow = root / ".github/workflows/runci.yml"
    for other in set(workflow.parent.iterdir()) - {workflow}:
        other.unlink()  # they run some of the tests by path, which is a note
    workflow.write_text(workflow.read_text().replace("command: run", "command: check"))
    found = runci_in("lint", "--format", "concise", cwd=root)
    assert (found.returncode, "RT205" in found.stdout) == (1, True)


def test_the_gate_stands_before_every_machine_of_ours(tmp_path: Path) -> None:
    root = adopted("monorepo", tmp_path)
    assert runci_in("init", cwd=root).returncode == 0
    workflow = root / ".github/workflows/runci.yml"
    open_ = workflow.read_text().replace("needs.call-gate.outputs.allowed == 'true' && ", "")
    workflow.write_text(open_)
    found = runci_in("audit", "--format", "concise", cwd=root)
    assert found.stdout.count("WF101") == 2, found.stdout


ATTENTION = {f"tests/attention/test_{name}.py" for name in ("flash", "paged")}
OF_LISTS = {
    "cpu": {"tests/test_plain.py", "tests/attention/test_slow.py", "tests/multi/test_ring.py"},
    "buildkite-h100": {*ATTENTION, "tests/gemm/test_gemm.py"},
    "buildkite-cuda-2gpu": {"tests/multi/test_reduce.py"},
    "l0_b200": {*ATTENTION, "tests/gemm/test_gemm.py"},
    "l0_b200-4gpu-nightly": {"tests/multi/test_reduce.py"},
    "server-1-gpu": {"tests/server/test_api.py"},
    "release_tests": {"tests/attention/test_slow.py", "tests/multi/test_reduce.py"},
    "amd-list": {"tests/gemm/test_gemm.py", "tests/attention/test_flash.py"},
}


def test_lists_that_stand_elsewhere_become_suites(tmp_path: Path) -> None:
    """Each entry that names a test is in a suite, each that does not is said with its line."""
    root = adopted("lists", tmp_path)
    done = runci_in("init", cwd=root)
    assert done.returncode == 0, done.stderr
    kinds = [f"--kind={kind}" for kind in ("per-commit", "nightly", "stress")]
    plan = runci_in("plan", "--all", *kinds, "--format", "json", cwd=root)
    assert {
        suite["name"]: {file["path"] for shard in suite["shards"] for file in shard["files"]}
        for suite in json.loads(plan.stdout)["suites"]
    } == OF_LISTS
    said = done.stdout.replace("\n      ", " ")  # sentences in one line
    left = said.partition("Not as in the lists:\n")[2].partition("\n\n")[0]
    assert {line.split()[0] for line in left.splitlines() if line.startswith("  ")} == {
        *(".buildkite/pipeline.yaml:1:", ".buildkite/pipeline.yaml:10:"),
        *(".buildkite/pipeline.yaml:15:", "ci/release_tests.txt:4:", "ci/waived_tests.txt:1:"),
        *(f"ci/test-db/l0_b200.yml:{line}:" for line in (8, 10, 11)),
        "tests/server/run_suite.py:16:",
    }
    for suite, source in {
        "l0_b200": "ci/test-db/l0_b200.yml:3",
        "server-1-gpu": "tests/server/run_suite.py:14",
        "amd-list": "scripts/amd.sh:4",
    }.items():
        assert re.search(rf"suite {suite}: .* from {source}\n", said), said
    checked = runci_in("check", cwd=root)
    assert checked.returncode == 0, checked.stdout


ODD = (
    "tests/test_a b.py",
    "tests/test_[x].py",
    "tests/test_*.py",
    "tests/test_é.py",
    "tests/test_'q'\".py",
    "tests/#c/test_#.py",
    "tests/test_-.py",
    "tests/yes/test_1.py",
    "!out/test_x.py",
    "tests/test_a:b.py",
    "test_top.py",
)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such names")
@pytest.mark.parametrize("on_gpu", range(len(ODD) + 1))
def test_odd_names(on_gpu: int, tmp_path: Path) -> None:
    test = "def test_x():\n    assert {}\n"
    files = {p: test.format("x.cuda()" if at == on_gpu else 1) for at, p in enumerate(ODD)}
    root = repository(tmp_path, files)
    assert runci_in("init", cwd=root).returncode == 0
    found = planned(root)
    assert found.get("cuda", set()) == set(ODD[on_gpu : on_gpu + 1])
    assert found["cpu"] == set(ODD) - found.get("cuda", set())


@pytest.mark.skipif(sys.platform != "linux", reason="names of any bytes are Linux's")
def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    root = repository(tmp_path, {"tests/test_a.py": "def test_x(): ...\n"})
    with open(os.fsencode(root / "tests") + b"/test_\xff.py", "w") as stream:  # noqa: PTH123
        stream.write("def test_x():\n    x.cuda()\n")
    done = runci_in("init", cwd=root)
    assert done.returncode == 0, done.stderr
    assert planned(root)["cuda"] == {"tests/test_\udcff.py"}


TEST = "def test_x():\n    assert 1\n"


@pytest.mark.parametrize(
    ("files", "status", "says"),
    [
        (
            {"pyproject.toml": "[tool.pytest\n", "tests/test_a.py": TEST},
            2,
            "pyproject.toml: .*line",
        ),
        ({"pytest.ini": "[pytest\n", "tests/test_a.py": TEST}, 2, "pytest.ini: .*line"),
        ({"README": "no test\n"}, 3, "no test file"),
        ({"tests/test_a.py": "x = 1\n"}, 3, "no test"),
        ({"setup.cfg": "[tool:pytest]\ntestpaths = t\n", "t/a.py": TEST}, 3, "no test file"),
        ({".github": "a file\n", "tests/test_a.py": TEST}, 2, "nothing was written"),
        (
            {"t/test_a.py": f"register_cpu_ci(est_time=1, suite=NAME)\n{TEST}"},
            2,
            "t/test_a.py: write the suites",
        ),
        (
            {"pyproject.toml": '[tool.runci]\nconfig = "ci/runci.yml"\n', "tests/test_a.py": TEST},
            2,
            "ci/runci.yml",
        ),
    ],
)
def test_what_is_refused(files: dict[str, str], status: int, says: str, tmp_path: Path) -> None:
    root = repository(tmp_path, files)
    before = contents(root)
    done = runci_in("init", cwd=root)
    assert (done.returncode, contents(root)) == (status, before), done.stderr
    assert re.search(says, done.stderr), done.stderr


def test_all_or_nothing_is_written(tmp_path: Path) -> None:
    """The gate's settings are written before the workflow, whose folder is a file here."""
    files = {".github/workflows": "a file\n", "tests/test_a.py": TEST.replace("1", "x.cuda()")}
    root = repository(tmp_path, files)
    before = contents(root)
    done = runci_in("init", "--gpu-runner", "self-hosted,gpu", cwd=root)
    assert (done.returncode, contents(root)) == (2, before)
    assert "nothing was written" in done.stderr


def test_no_repository(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(TEST)
    for arguments in ((), ("--root", str(tmp_path)), ("--root", str(tmp_path / "nowhere"))):
        done = runci_in("init", *arguments, cwd=tmp_path)
        assert (done.returncode, sorted(contents(tmp_path))) == (2, ["test_a.py"])


@pytest.mark.parametrize("path", ["test/suites.yml", ".github/runci.yml", "runci.yml"])
def test_a_taxonomy_that_is_there_stays(path: str, tmp_path: Path) -> None:
    root = repository(tmp_path, {path: "version: 1\n", "tests/test_a.py": TEST})
    before = contents(root)
    for arguments in ((), ("--dry-run",)):
        done = runci_in("init", *arguments, cwd=root)
        assert (done.returncode, contents(root)) == (0, before)
        assert path in done.stdout


def test_files_that_are_there_stay(tmp_path: Path) -> None:
    mine = {".github/workflows/runci.yml": "on: push\n", ".github/ci-status.yml": "# mine\n"}
    root = repository(tmp_path, {**mine, "tests/test_a.py": TEST.replace("1", "x.cuda()")})
    done = runci_in("init", "--gpu-runner", "self-hosted,gpu-box", cwd=root)
    assert done.returncode == 0, done.stderr
    assert {path: (root / path).read_text() for path in mine} == mine
    assert "gpu-box" in (root / "runci.yml").read_text()


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
@pytest.mark.parametrize("linked", [".github", ".github/workflows"])
def test_nothing_is_written_through_a_link(linked: str, tmp_path: Path) -> None:
    root = repository(tmp_path / "root", {"tests/test_a.py": TEST})
    (outside := tmp_path / "outside").mkdir()
    (outside / "hooks.yaml").write_text("repos:\n- repo: x\n  hooks: []\n")
    (root / linked).parent.mkdir(exist_ok=True)
    (root / linked).symlink_to(outside)
    (root / ".pre-commit-config.yaml").symlink_to(outside / "hooks.yaml")
    before = contents(outside)
    done = runci_in("init", cwd=root)
    assert (done.returncode, contents(outside)) == (0, before), done.stderr
    said = " ".join(done.stdout.split())  # lines are wrapped
    assert f"not .github/workflows/runci.yml: it would be written through the link {linked}" in said
    assert "not .pre-commit-config.yaml" in done.stdout
    assert (root / "runci.yml").exists()


def test_the_gates_files_may_stand_at_the_root(tmp_path: Path) -> None:
    root = adopted("kernels", tmp_path)
    (root / "ci-permissions.yml").write_text("version: 1\npeople: []\n")
    track(root)
    done = runci_in("init", cwd=root)
    assert done.returncode == 0, done.stderr
    assert not (root / ".github/ci-permissions.yml").exists()
    assert (root / ".github/ci-status.yml").exists()


def test_what_is_real_is_found_after_it(tmp_path: Path) -> None:
    """A test file that is no Python, and one whose call registers nothing, are not covered up."""
    call = "from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=1, suite=mine)\n\n\n"
    files = {"tests/test_a.py": TEST, "tests/test_b.py": "def (\n", "tests/test_c.py": call + TEST}
    root = repository(tmp_path, files)
    done = runci_in("init", cwd=root)
    assert done.returncode == 0, done.stderr
    found = runci_in("lint", "--format", "concise", cwd=root)
    assert found.returncode == 1
    assert {line.split(":")[0] for line in found.stdout.splitlines() if " RT" in line} == {
        "tests/test_b.py",
        "tests/test_c.py",
    }


REGISTERING = {
    "t/test_a.py": 'register_cuda_ci(est_time=1, stage="a", runner_config="1-gpu")\n',
    "t/test_b.py": 'register_cuda_ci(est_time=1, suite="b", nightly=True)\n',
    "t/test_c.py": 'register_cpu_ci(est_time=1, stage="a", runner_config="cpu")\n'
    'register_cuda_ci(est_time=1, stage="a", runner_config="1-gpu")\n',
}
RUNS_SUITES = """\
on: push
jobs:
  gpu:
    runs-on: [self-hosted, h100]
    timeout-minutes: 30
    steps: [run: python3 t/run_suite.py --hw cuda --suite a-test-1-gpu]
  build: {runs-on: [self-hosted, a100], steps: [run: make]}
  bench: {runs-on: [self-hosted, a100], steps: [run: make bench]}
"""


def test_the_suites_that_calls_name(tmp_path: Path) -> None:
    """Of a repository whose files all register themselves, with markers of its own."""
    top = "from t.ci_register import register_cpu_ci, register_cuda_ci\n\n"
    files = {path: f"{top}{calls}\n\n{TEST}" for path, calls in REGISTERING.items()}
    root = repository(tmp_path, {**files, ".github/workflows/pr.yml": RUNS_SUITES})
    done = runci_in("init", cwd=root)
    assert done.returncode == 0, done.stderr
    assert planned(root, "per-commit", "nightly") == {
        "a-test-1-gpu": {"t/test_a.py", "t/test_c.py"},
        "a-test-cpu": {"t/test_c.py"},
        "b": {"t/test_b.py"},
    }
    made = (root / "runci.yml").read_text()
    assert "marker_modules: [t.ci_register]\n" in made
    assert "  1-gpu: {label: h100, gpus: 1, " in made  # by the job that runs it
    assert "  b: {label: a100, gpus: 1, " in made  # no job does: the machine of most jobs
    assert "run_by" not in made  # the lint sees pr.yml itself
    workflow = (root / ".github/workflows/runci.yml").read_text()
    assert "suite: a-test-cpu" in workflow
    assert "a-test-1-gpu" not in workflow  # pr.yml runs it
    checked = runci_in("lint", cwd=root)
    assert checked.returncode == 0, checked.stdout


def test_a_runner_that_somebody_names(tmp_path: Path) -> None:
    """Also one whose labels say nothing of a GPU: who names it knows."""
    files = {"tests/test_a.py": TEST.replace("1", "x.cuda()")}
    for at, labels in enumerate(("self-hosted,big", "self-hosted,mi300", "h100")):
        root = repository(tmp_path / str(at), files)
        assert runci_in("init", "--gpu-runner", labels, cwd=root).returncode == 0
        assert runci_in("check", cwd=root).returncode == 0
        workflow = (root / ".github/workflows/runci.yml").read_text()
        assert all(f'"{label}"' in workflow for label in labels.split(","))
    done = runci_in("init", "--gpu-runner", ",", cwd=repository(tmp_path / "9", files))
    assert done.returncode == 2


@pytest.mark.parametrize(
    "runs_on",
    ["{group: gpus}", "{group: cuda, labels: [self-hosted]}", "{group: g, labels: [h100]}"],
)
def test_a_group_of_runners_is_declared_as_one(runs_on: str, tmp_path: Path) -> None:
    root = adopted("kernels", tmp_path)
    workflow = root / ".github/workflows/ci.yml"
    text = workflow.read_text()
    workflow.write_text(re.sub(r"runs-on: .*rtx-4090.*", f"runs-on: {runs_on}", text))
    done = runci_in("init", cwd=root)
    assert done.returncode == 0, done.stderr
    done = runci_in("check", cwd=root)
    assert done.returncode == 0, done.stdout


def test_the_action_is_the_one_that_is_named_or_none_that_is_there(tmp_path: Path) -> None:
    named = f"ci-team/runci@{'a1' * 20}"
    for at, arguments in enumerate((("--action", named), ())):
        root = adopted("kernels", tmp_path / str(at))
        done = runci_in("init", *arguments, cwd=root)
        assert done.returncode == 0, done.stderr
        workflow = (root / ".github/workflows/runci.yml").read_text()
        uses = set(re.findall(r"uses: (\S+/runci@\w+)", workflow))
        assert uses == {named if arguments else workflow_text.NO_ACTION}
        assert (f"action: {uses.pop().partition('@')[0]}") in (root / "runci.yml").read_text()
        assert ("runci init --action" in done.stdout) == (not arguments)
    adopted("kernels", tmp_path / "tag")
    for root in (tmp_path / "tag", tmp_path / "0"):  # adopted or not
        for wrong in ("ci-team/runci@v1", ""):
            before = contents(root)
            done = runci_in("init", "--action", wrong, cwd=root)
            assert (done.returncode, contents(root)) == (2, before)


def test_nothing_of_the_repository_runs(tmp_path: Path) -> None:
    trap = "open('ran', 'w').close()\n"
    names = ("conftest.py", "setup.py", "sitecustomize.py", "yaml.py", "tests/test_a.py")
    root = repository(tmp_path, dict.fromkeys(names, trap + TEST))
    done = subprocess.run(
        [Path(sys.executable).with_name("runci"), "init"], cwd=root, capture_output=True, check=True
    )
    assert b"1 test file" in done.stdout
    assert not (root / "ran").exists()


def test_actions_are_pinned_as_our_own_are() -> None:
    ours = "".join(path.read_text() for path in (ROOT / ".github").rglob("*.yml"))
    for action in (workflow_text.CHECKOUT, workflow_text.PYTHON):
        assert action in ours
