"""What jobs with a token install: every package by its hash, and nothing that is not named."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from runci import register_cpu_ci

if sys.version_info >= (3, 11):
    import tomllib
else:  # pytest brings it there
    import tomli as tomllib

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

ROOT = Path(__file__).parents[4]
PINNED = ROOT / "ci_scripts" / "pinned"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
FILES = sorted(path.stem for path in PINNED.glob("*.txt"))
_HASH = re.compile(r" *--hash=sha256:[0-9a-f]{64}")


def pins(extras: str) -> dict[str, list[Requirement]]:
    """The requirements of a file by name; every line must be one, with hashes, or an option."""
    text = (PINNED / f"{extras}.txt").read_text("utf-8")
    found: dict[str, list[Requirement]] = {}
    for line in text.replace("\\\n", "").splitlines():
        if line.startswith("#") or line == "--only-binary :all:":
            continue
        stated, *hashes = re.split(r"(?= --hash=)", line)
        assert hashes, line
        assert all(_HASH.fullmatch(one.rstrip()) for one in hashes), line
        requirement = Requirement(stated.strip())
        assert re.fullmatch(r"==[^,*]+", str(requirement.specifier)), line
        found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


def wanted(extras: str) -> list[Requirement]:
    """What pyproject.toml asks for with these extras; extras of its own are followed."""
    project = PROJECT["project"]
    found = [*map(Requirement, project["dependencies"])]
    for extra in extras.split(","):
        for requirement in map(Requirement, project["optional-dependencies"][extra]):
            if requirement.name == project["name"]:
                found += wanted(",".join(sorted(requirement.extras)))
            else:
                found.append(requirement)
    return found


@pytest.mark.parametrize("extras", FILES)
def test_a_file_has_all_that_is_asked_for(extras: str) -> None:
    there = pins(extras)
    build = [*map(Requirement, PROJECT["build-system"]["requires"])]
    python = {
        "python_version": "3.10" if extras.startswith("github") else "3.12"
    }  # as update.sh has it
    for requirement in [*wanted(extras), *build]:
        if requirement.marker is not None and not requirement.marker.evaluate(python):
            continue
        for pin in there[canonicalize_name(requirement.name)]:
            (version,) = (one.version for one in pin.specifier)
            assert requirement.specifier.contains(version, prereleases=True), (requirement, pin)
    assert "--only-binary :all:" in (PINNED / f"{extras}.txt").read_text("utf-8")


def test_what_builds_runci_is_what_pyproject_says() -> None:
    assert (PINNED / "build.in").read_text("utf-8").split() == PROJECT["build-system"]["requires"]


@pytest.mark.parametrize("path", sorted(PINNED.iterdir()), ids=lambda path: path.name)
def test_no_file_names_a_place_to_fetch_from(path: Path) -> None:
    assert "://" not in path.read_text("utf-8")


def installed(folder: Path, extras: str, editable: str = "", kernel: str = "") -> list[str]:
    """What the action would let pip do."""
    action = yaml.safe_load((ROOT / ".github/actions/setup-runci/action.yml").read_text("utf-8"))
    (step,) = (s for s in action["runs"]["steps"] if s.get("name") == "Install")
    pip = folder / "pip"
    pip.write_text('#!/bin/sh\necho "$*"\n', encoding="utf-8")
    pip.chmod(0o755)
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
        cwd=ROOT,
        env={
            "PATH": f"{folder}:/usr/bin:/bin",
            "EXTRAS": extras,
            "EDITABLE": editable,
            "KERNEL": kernel,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_the_action_takes_the_hashes_where_there_are_some(tmp_path: Path) -> None:
    for extras in FILES:
        assert installed(tmp_path, extras) == [
            f"install --require-hashes -r ci_scripts/pinned/{extras}.txt",
            "install --no-deps --no-build-isolation .",
        ]
    assert installed(tmp_path, "github", "--editable")[1] == (
        "install --no-deps --no-build-isolation --editable ."
    )


def test_without_hashes_the_action_takes_what_the_constraints_say(tmp_path: Path) -> None:
    kernel = "./kernel[huggingface]"
    assert installed(tmp_path, "dev,test") == ["install -c constraints.txt .[dev,test]"]
    assert installed(tmp_path, "test", kernel=kernel) == [
        "install -c constraints.txt .[test] ./kernel[huggingface]"
    ]
    assert installed(tmp_path, "run", "--editable", "./kernel") == [
        "install -c constraints.txt --editable .[run] --editable ./kernel"
    ]
    # No hash names what a kernel stands on.
    assert installed(tmp_path, "github", kernel="./kernel") == [
        "install -c constraints.txt .[github] ./kernel"
    ]


def test_jobs_that_hold_a_token_worth_having_install_by_hash() -> None:
    """Those that may write, and the gate, whose word the GPUs depend on."""
    default = yaml.safe_load((ROOT / ".github/actions/setup-runci/action.yml").read_text("utf-8"))
    usual = default["inputs"]["extras"]["default"]
    seen = set()
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        for name, job in yaml.safe_load(path.read_text("utf-8"))["jobs"].items():
            writes = "write" in (job.get("permissions") or {}).values()
            for step in job.get("steps", ()) if writes or name == "gate" else ():
                if step.get("uses") == "./.github/actions/setup-runci":
                    extras = step.get("with", {}).get("extras", usual)
                    assert extras in FILES, f"{path.name}: {name}: no hashes for {extras}"
                    assert "kernel" not in step.get("with", {}), f"{path.name}: {name}: no hashes"
                    seen.add(name)
                assert "pip install" not in step.get("run", ""), f"{path.name}: {name}"
    assert {"gate", "slash-command", "pr-states"} <= seen


def test_the_administrator_is_told_the_same() -> None:
    text = (ROOT / "docs" / "host.md").read_text("utf-8")
    assert re.findall(r"venv/bin/pip (.+)", text) == [
        "install --require-hashes -r /opt/runci/src/ci_scripts/pinned/github.txt",
        "install --no-deps --no-build-isolation /opt/runci/src",
    ]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
