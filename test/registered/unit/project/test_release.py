"""A release: what must agree before it, and its workflow's own scripts on a copy of this tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from runci import register_cpu_ci

register_cpu_ci(est_time=25, stage="base-a", runner_config="cpu")

ROOT = Path(__file__).parents[4]
sys.path.insert(0, str(ROOT / "ci_scripts"))

import release  # noqa: E402
from release import ADDRESSES, Facts, Part, faults, files_of, parts_of  # noqa: E402

GOOD = Facts(
    tag="v1.2.3",
    repository="octo/runci",
    versions={"runci": "1.2.3", "sm120_ba": "1.2.3"},
    parts=(Part("1.2.3", "2026-12-01", "- x"), Part("1.2.2", "2026-11-01", "- y")),
    texts={
        "pyproject.toml": 'Repository = "https://github.com/octo/runci"\n',
        "mkdocs.yml": "site_url: https://octo.github.io/runci/\n# owner\n",
    },
)
DRY = replace(GOOD, tag="")
OTHER = {"runci": "1.2.3", "sm120_ba": "1.2.4"}
EMPTY, FULL = Part("Unreleased", "", ""), Part("Unreleased", "", "- z")

# The facts, and what of each fault must be said, one a line.
TABLE: dict[str, tuple[Facts, list[str]]] = {
    "a release": (GOOD, []),
    "with nothing unreleased": (replace(GOOD, parts=(EMPTY, *GOOD.parts)), []),
    "in other letters": (replace(GOOD, repository="Octo/RunCI"), []),
    "a dry run": (DRY, []),
    "a dry run before the version is chosen": (replace(DRY, parts=(FULL, *GOOD.parts[1:])), []),
    "a tag of another version": (
        replace(GOOD, tag="v1.2.4"),
        ["ci_scripts/runci/__init__.py", "kernel/pyproject.toml", "CHANGELOG.md"],
    ),
    "a tag without v": (
        replace(GOOD, tag="1.2.3"),
        ["ci_scripts/runci/__init__.py", "kernel/pyproject.toml", "CHANGELOG.md"],
    ),
    "a kernel of another version": (
        replace(GOOD, versions=OTHER),
        ["kernel/pyproject.toml", "runci 1.2.3 and sm120_ba 1.2.4"],
    ),
    "the same in a dry run": (replace(DRY, versions=OTHER), ["runci 1.2.3 and sm120_ba 1.2.4"]),
    "no version": (
        replace(DRY, versions={"runci": "", "sm120_ba": ""}),
        ["ci_scripts/runci/__init__.py", "kernel/pyproject.toml"],
    ),
    "a version of development": (
        replace(GOOD, tag="v1.2.3.dev0", versions=dict.fromkeys(GOOD.versions, "1.2.3.dev0")),
        ["NUMBER.NUMBER.NUMBER", "NUMBER.NUMBER.NUMBER", "its newest version is 1.2.3"],
    ),
    "what is unreleased": (replace(GOOD, parts=(FULL, *GOOD.parts)), ["[Unreleased] has entries"]),
    "an older newest heading": (
        replace(GOOD, parts=GOOD.parts[1:]),
        ["its newest version is 1.2.2"],
    ),
    "the version below another": (
        replace(GOOD, parts=GOOD.parts[::-1]),
        ["its newest version is 1.2.2"],
    ),
    "no date": (replace(GOOD, parts=(Part("1.2.3", "", "- x"),)), ["no date"]),
    "no text": (replace(GOOD, parts=(Part("1.2.3", "2026-12-01", ""),)), ["says nothing"]),
    "only what is unreleased": (replace(GOOD, parts=(EMPTY,)), ["no version"]),
    "no heading": (replace(GOOD, parts=()), ["no heading"]),
    "no heading in a dry run": (replace(DRY, parts=()), ["no heading"]),
    "the owner's place": (
        replace(DRY, texts={"a": "x\nhttps://github.com/OWNER/runci\n@OWNER/team\n"}),
        ["a:2: OWNER"],
    ),
    "its own, as git has it": (replace(GOOD, texts={"a": "https://github.com/octo/runci.git"}), []),
    "a name that has the word in it": (replace(GOOD, texts={"a": "CODEOWNERS OWNERS"}), []),
    "another repository": (
        replace(GOOD, texts={"a": '\n"https://github.com/octo/runcid/issues"\n'}),
        ["a:2: https://github.com/octo/runcid"],
    ),
    "a fork's own": (
        replace(GOOD, repository="fork/runci", texts={"a": "https://github.com/octo/runci.git"}),
        ["a:1: https://github.com/octo/runci.git"],
    ),
}


@pytest.mark.parametrize("case", TABLE)
def test_what_speaks_against_a_release(case: str) -> None:
    facts, wanted = TABLE[case]
    found = faults(facts)
    assert len(found) == len(wanted), found
    for line, says in zip(found, wanted, strict=True):
        assert says in line


def test_the_changelog_is_read_by_its_headings() -> None:
    text = "\n\n## [Unreleased]\n\n## [0.2.0] - 2026-12-01\n\n### Added\n\n- x\n\n## [0.1.0]\n- y"
    assert parts_of(f"# Changelog{text}") == [
        Part("Unreleased", "", ""),
        Part("0.2.0", "2026-12-01", "### Added\n\n- x"),
        Part("0.1.0", "", "- y"),
    ]
    assert parts_of("# Changelog\n\n## Old\n") == []


def test_this_tree_can_be_read() -> None:
    """A version or an address that stands elsewhere would be checked no more."""
    versions = release.read_versions()
    assert all(versions.values()) and files_of(versions) >= {f"runci-{versions['runci']}.tar.gz"}
    parts = parts_of((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert parts and [part.name for part in parts][1:] and parts[1].date


WORKFLOW: Mapping[str, Any] = yaml.safe_load(
    (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
)


def scripts(job: str) -> list[tuple[str, dict[str, str]]]:
    """What a job runs itself, each with its environment as the workflow has it."""
    steps = WORKFLOW["jobs"][job]["steps"]
    return [(step["run"], step.get("env", {})) for step in steps if "run" in step]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This tree as its owner releases it: with a name, and nothing unreleased."""
    root = tmp_path_factory.mktemp("release") / "tree"
    unbuilt = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "dist", "*.stamp")
    for folder in ("ci_scripts", "kernel"):
        shutil.copytree(ROOT / folder, root / folder, ignore=unbuilt)
    for path in {*ADDRESSES, "README.md", "LICENSE", "CHANGELOG.md"}:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / path).read_text(encoding="utf-8")
        (root / path).write_text(text.replace("OWNER", "octo"), encoding="utf-8")
    version = release.read_versions()["runci"]
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    released = f"## [{version}] - 2026-12-01\n\n- Added\n"
    changelog = changelog.replace("## [Unreleased]\n", released, 1)
    (root / "CHANGELOG.md").write_text(changelog, encoding="utf-8")
    return root


def run(
    tree: Path, script: str, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """A script as GitHub runs it; pip reaches no index, and what it would fetch is here already."""
    programs = tree.parent / "bin"
    programs.mkdir(exist_ok=True)
    # The real one brings a library of cryptography: only the workflow has it.
    (programs / "twine").write_text('#!/bin/sh\n[ "$1 $2" = "check --strict" ] && ls "$3"\n')
    (programs / "twine").chmod(0o755)
    path = [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=tree,
        env={**os.environ, "PATH": os.pathsep.join(path), "PIP_NO_INDEX": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def packages() -> str:
    """Where what runci needs is installed; runci itself is not there, but beside it."""
    import msgspec

    return os.pathsep.join({sysconfig.get_path("purelib"), str(Path(msgspec.__file__).parents[1])})


@pytest.mark.parametrize(("tag", "status"), [("", 0), ("RIGHT", 0), ("v9.9.9", 1)])
def test_the_tag_is_compared_by_the_workflow(tree: Path, tag: str, status: int) -> None:
    (script, given), _ = scripts("build")
    assert given == {
        "TAG": "${{ github.event_name == 'push' && github.ref_name || '' }}",
        "REPOSITORY": "${{ github.repository }}",
    }
    right = f"v{release.read_versions()['runci']}"
    environment = {"TAG": tag.replace("RIGHT", right), "REPOSITORY": "octo/runci"}
    done = run(tree, script, environment)
    assert done.returncode == status, done.stderr
    assert run(tree, script, {**environment, "REPOSITORY": "fork/runci"}).returncode == 1


def test_the_files_are_built_and_work_in_environments_of_their_own(tree: Path) -> None:
    """Each wheel from its sdist, so that the sdist is whole."""
    _, (build, _) = scripts("build")
    ((attempt, _),) = scripts("check")
    (tree / "release").mkdir(exist_ok=True)
    done = run(tree, build, {})
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in (tree / "release/dist").iterdir()} == files_of(
        release.read_versions()
    )
    assert "Added" in (tree / "release/notes.md").read_text(encoding="utf-8")
    environment = {"PIP_NO_DEPS": "1", "PYTHONPATH": packages()}
    done = run(tree, attempt, environment)
    assert done.returncode == 0, done.stderr
    # A wheel in which a command is broken, and a file too many.
    whole = tree / "ci_scripts/release.py"
    whole.write_text(whole.read_text(encoding="utf-8").replace('0, "RT101"', '0, "RT999"'))
    assert "RT999" not in (done := run(tree, attempt, environment)).stdout
    assert done.returncode == 1
    one = next((tree / "release/dist").iterdir())
    one.rename(one.with_name("other-1.0.tar.gz"))
    for command in ("files", "try"):
        said = run(tree, f"python ci_scripts/release.py {command} release/dist", {})
        assert said.returncode == 1
        assert f"{one.name} is missing" in said.stderr and "other-1.0.tar.gz is no" in said.stderr


@pytest.mark.parametrize("command", ["files", "try"])
@pytest.mark.parametrize("place", ["nowhere", "action.yml"])
def test_a_folder_that_is_none_is_told(command: str, place: str) -> None:
    done = subprocess.run(
        (sys.executable, ROOT / "ci_scripts/release.py", command, ROOT / place),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, f"{place}: no such folder" in done.stderr) == (2, True), done.stderr


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
