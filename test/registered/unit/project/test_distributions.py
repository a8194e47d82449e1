"""What the two distributions hold: wheels are built from a copy of this tree, without network."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Iterable
from configparser import ConfigParser
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path
from shutil import copy, copytree, ignore_patterns

import pytest
from packaging.requirements import Requirement

from runci import register_cpu_ci

if sys.version_info >= (3, 11):
    import tomllib
else:  # pytest brings it there
    import tomli as tomllib

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

ROOT = Path(__file__).parents[4]
NEW = "new_kernel_of_a_test"


@dataclass(frozen=True)
class Wheel:
    """`needs` is what is installed without an extra, by name and range."""

    files: frozenset[str]
    entry_points: dict[str, dict[str, str]]
    needs: frozenset[str]
    extras: frozenset[str]

    @property
    def packages(self) -> set[str]:
        return {path.partition("/")[0] for path in self.files if ".dist-info/" not in path}


def built(project: Path, hook: str = "build_wheel") -> Path:
    """The wheel that pip would let setuptools build."""
    done = subprocess.run(
        [sys.executable, "-c", f"import setuptools.build_meta as b; b.{hook}('dist')"],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = (project / "dist").iterdir()
    return wheel.rename(project / f"{hook}.whl")


def read(wheel: Path) -> Wheel:
    with zipfile.ZipFile(wheel) as archive:
        files = frozenset(archive.namelist())
        (info,) = {path.partition("/")[0] for path in files if ".dist-info/" in path}
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        points = ConfigParser()
        points.read_string(archive.read(f"{info}/entry_points.txt").decode())
    needed = map(Requirement, metadata.get_all("Requires-Dist", ()))
    return Wheel(
        files,
        {group: dict(points[group]) for group in points.sections()},
        frozenset(f"{one.name}{one.specifier}" for one in needed if "extra" not in str(one.marker)),
        frozenset(metadata.get_all("Provides-Extra", ())),
    )


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of this tree that wheels are built from."""
    root = tmp_path_factory.mktemp("tree")
    for folder in ("ci_scripts/runci", "kernel"):
        unbuilt = ignore_patterns("__pycache__", "*.egg-info", "build", "dist")
        copytree(ROOT / folder, root / folder, ignore=unbuilt)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        copy(ROOT / name, root / name)
    return root


@pytest.fixture(scope="module")
def runci(tree: Path) -> Wheel:
    return read(built(tree))


@pytest.fixture(scope="module")
def editable(tree: Path) -> Path:
    return built(tree / "kernel", "build_editable")


@pytest.fixture(scope="module")
def kernel(tree: Path, editable: Path) -> Wheel:
    """Built after the editable install, and after somebody wrote one more package."""
    (tree / "kernel" / NEW / "parts").mkdir(parents=True)
    for name in (f"{NEW}/__init__.py", f"{NEW}/py.typed", f"{NEW}/parts/__init__.py"):
        (tree / "kernel" / name).touch()
    (tree / "kernel" / "benchmark" / "__init__.py").touch()
    return read(built(tree / "kernel"))


def test_the_linter_brings_no_kernel(runci: Wheel) -> None:
    assert runci.packages == {"runci"}
    assert runci.entry_points == {"console_scripts": {"runci": "runci.cli:entry_point"}}
    needs = {"PyYAML>=6.0", "identify>=2.5", "msgspec<1,>=0.19", "platformdirs>=4"}
    assert runci.needs == {*needs, "tomli>=2"}  # the last for Python 3.10
    assert "kernel" not in runci.extras
    assert {"runci/py.typed", "runci/config/schemas/suites.schema.json"} <= runci.files


def test_the_kernel_brings_its_plugin_and_no_linter(kernel: Wheel) -> None:
    for group, module in {
        "sglang.srt.plugins": "sglang_plugin",
        "vllm.general_plugins": "vllm_plugin",
    }.items():
        assert kernel.entry_points[group]["sm120_ba"] == f"sm120_ba.{module}:register"
    needs = {Requirement(one).name for one in kernel.needs}
    assert needs >= {"numpy", "torch", "triton"}
    assert "runci" not in needs
    assert kernel.extras >= {"benchmark", "huggingface", "sglang"}
    assert any(path.endswith(".dist-info/licenses/LICENSE") for path in kernel.files)


def test_a_new_package_is_part_of_the_wheel(kernel: Wheel) -> None:
    assert kernel.files >= {"sm120_ba/py.typed", f"{NEW}/py.typed", f"{NEW}/parts/__init__.py"}
    assert kernel.packages >= {"sm120_ba", NEW}
    assert not kernel.packages & {"benchmark", "runci", "stubs"}


def test_a_new_package_is_found_by_an_editable_install_that_is_older(
    tree: Path, editable: Path, kernel: Wheel
) -> None:
    with zipfile.ZipFile(editable) as archive:
        (path,) = (name for name in archive.namelist() if name.endswith(".pth"))
        assert Path(archive.read(path).decode().strip()) == tree / "kernel"


def test_both_carry_the_same_licence() -> None:
    assert (ROOT / "kernel" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_what_holds_python_below_kernel_is_a_package() -> None:
    """Without an `__init__.py` it would be imported here, and be missing from the wheel."""
    kernel = ROOT / "kernel"
    folders = {path.parent for path in kernel.rglob("*.py")}
    packages = {path.parent for path in kernel.rglob("__init__.py")}
    outside = {path.relative_to(kernel).parts[0] for path in folders - packages}
    assert outside <= {"benchmark", "build"}


# What is installed here, of all that may be


def requirements(*projects: str) -> Iterable[Requirement]:
    for project in projects:
        stated = tomllib.loads((ROOT / project).read_text("utf-8"))["project"]
        yield from map(Requirement, stated["dependencies"])
        for extra in stated["optional-dependencies"].values():
            yield from map(Requirement, extra)


def test_the_constraints_are_pins_of_what_somebody_needs() -> None:
    ranges = {one.name: one.specifier for one in requirements("kernel/pyproject.toml")}
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    for pin in pins:
        (exact,) = pin.specifier
        assert exact.operator == "=="
        assert exact.version in ranges[pin.name], pin
    assert {"torch", "triton", "transformers"} <= {pin.name for pin in pins}


@pytest.mark.parametrize("name", ["torch", "triton", "transformers"])
def test_who_installs_the_kernel_keeps_the_versions_that_are_there(name: str) -> None:
    asked = [one for one in requirements("kernel/pyproject.toml") if one.name == name]
    assert asked
    for one in asked:
        assert not any(part.operator in ("==", "===", "~=") for part in one.specifier), one


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
