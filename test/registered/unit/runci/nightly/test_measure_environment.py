"""What `runci perf measure` runs on each side, and what the baseline imports."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_repository import Repository, made_repository

from runci import register_cpu_ci
from runci.core.errors import RunciError
from runci.nightly.measure import environment
from runci.nightly.measure.environment import (
    baseline_variables,
    head,
    package_folders,
    refuse_copies,
    refuse_shared,
    words,
)

register_cpu_ci(est_time=3, stage="base-a", runner_config="cpu")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    yield from made_repository(tmp_path, monkeypatch)


# What setuptools writes for an editable install that is no single folder, without its namespaces.
FINDER = """\
import sys
from importlib.util import spec_from_file_location

MAPPING = {mapping}
NAMESPACES = {{}}


class _EditableFinder:
    @classmethod
    def find_spec(cls, fullname, _path=None, _target=None):
        if fullname in MAPPING:
            return spec_from_file_location(fullname, MAPPING[fullname] + "/__init__.py")


def install():
    sys.meta_path.append(_EditableFinder)
"""

# What runs


def test_the_command_s_words() -> None:
    path = Path("/tmp/1.json")
    assert words(("python", "a.py", "--only=python", "--json={output}"), path) == (
        [sys.executable, "a.py", "--only=python", "--json=/tmp/1.json"],
        True,
    )
    assert words(("env", "A=1", "python", "a.py"), path) == (
        ["env", "A=1", sys.executable, "a.py"],
        False,
    )
    assert words(("./bench",), path) == (["./bench"], False)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("python", "{root}/a.py"), "names a file of the working tree"),
        (("python", "a.py", "--data={root}/data"), "names a file of the working tree"),
        (("python", "-I", "a.py"), "with -I Python ignores PYTHONPATH"),
        (("python", "-u", "-BES", "a.py"), "with -BES Python ignores PYTHONPATH"),
        (("python", "-u", "a.py", "-I"), None),
        (("python", "-c", "-I"), None),
        (("python", "a.py", "--json=/elsewhere/x"), None),
        (("./bench", "-I"), None),
    ],
)
def test_a_baseline_that_would_run_the_candidate_is_refused(
    command: tuple[str, ...], said: str | None, tmp_path: Path
) -> None:
    given = [word.format(root=tmp_path) for word in command]
    if said is None:
        refuse_shared(given, tmp_path, "perf.yml")
        return
    with pytest.raises(RunciError, match=said):
        refuse_shared(given, tmp_path, "perf.yml")


# Which commit


def test_the_commit_that_is_measured(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.invalid", *arguments]
        return subprocess.check_output(command, cwd=tmp_path, text=True).strip()

    git("init", "-q")
    with pytest.raises(RunciError, match="nothing was ever committed"):
        head(tmp_path)
    (tmp_path / "kernel.py").write_text("1")
    git("add", "-A")
    git("commit", "-q", "-m", "one")
    (tmp_path / "new.py").touch()  # of which git knows nothing
    assert head(tmp_path) == git("rev-parse", "HEAD")
    (tmp_path / "kernel.py").write_text("22")
    assert head(tmp_path) == git("rev-parse", "HEAD") + "-dirty"


# What the baseline imports


def test_the_folder_that_answers_is_none_of_the_candidates() -> None:
    measured = Path(environment.__file__).parent
    assert Path() not in package_folders(measured)


@pytest.mark.parametrize("form", ["path", "finder"])
def test_an_editable_install_does_not_leak_into_the_baseline(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In both forms that setuptools gives it, each in an environment of its own."""
    root, worktree, startup = (tmp_path / name for name in ("root", "worktree", "startup"))
    packages = {name: root / "kernel" / name for name in ("gemm", "tools")}
    for package in (*packages.values(), worktree / "kernel" / "gemm"):
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f"HERE = {str(package)!r}\n")
    startup.mkdir()
    venv.create(tmp_path / "env")
    (site,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    mapping = {name: str(path) for name, path in packages.items()}
    (site / "__editable___kernels_1_finder.py").write_text(FINDER.format(mapping=mapping))
    line = "import __editable___kernels_1_finder as f; f.install()"
    (site / "__editable__.kernels-1.pth").write_text(
        f"{root / 'kernel'}\n" if form == "path" else line
    )
    monkeypatch.setattr(sys, "executable", str(tmp_path / "env" / "bin" / "python"))
    ask = (
        "import gemm, importlib.util as u, os, subprocess, sys\n"
        "os.chdir('/')\n"
        "child = [sys.executable, '-c', 'import gemm; print(gemm.HERE)']\n"
        "child = subprocess.check_output(child, text=True).strip()\n"
        "print([gemm.HERE, child, u.find_spec('tools') is None])"
    )

    def imported(variables: Mapping[str, str]) -> object:
        done = subprocess.run(
            [sys.executable, "-c", ask],
            cwd=worktree,
            env={**os.environ, **variables},
            capture_output=True,
            check=True,
        )
        return ast.literal_eval(done.stdout.decode())

    assert package_folders(root) == [Path("kernel")]
    assert imported({}) == [str(root / "kernel" / "gemm")] * 2 + [False]
    # The baseline has no `tools`, and must not get the candidate's.
    there = str(worktree / "kernel" / "gemm")
    assert imported(baseline_variables(root, worktree, startup, {})) == [there, there, True]


def test_the_environment_s_own_sitecustomize_still_runs(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import os\nos.environ['EXTRA'] = os.environ['HOOK']\n")
    paths = [str(own), str(repository.folder / "packages")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.setenv("HOOK", "data['samples'][0]['values'].append(100.0)")
    assert repository.measure() == 0
    (a, _) = repository.record().measurements
    assert (a.candidate[0], a.baseline[0]) == ((6.0, 6.25, 100.0), (4.0, 4.25, 100.0))


def test_a_copy_of_the_candidate_that_both_would_import_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, root = tmp_path / "site", tmp_path / "root"
    info = site / "kernels-1.dist-info"
    info.mkdir(parents=True)
    (root / "packages" / "gemm").mkdir(parents=True)
    (root / "tools").mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kernels\nVersion: 1\n")
    (info / "RECORD").write_text("gemm/__init__.py,,\ngemm/data.txt,,\nkernels-1.dist-info/M,,\n")
    monkeypatch.syspath_prepend(str(site))
    url = info / "direct_url.json"
    url.write_text(json.dumps({"url": root.as_uri(), "dir_info": {"editable": True}}))
    refuse_copies(root)
    url.write_text(json.dumps({"url": root.as_uri(), "dir_info": {}}))
    with pytest.raises(RunciError, match="kernels: a copy is installed"):
        refuse_copies(root)
    # A folder of another distribution of the same repository has other packages.
    monkeypatch.setenv("PYTHONPATH", str(root / "tools"))
    with pytest.raises(RunciError, match="kernels: a copy is installed"):
        refuse_copies(root)
    monkeypatch.setenv("PYTHONPATH", str(root / "packages"))
    refuse_copies(root)
    (info / "RECORD").write_text("gemm/__init__.py,,\nmore.py,,\n")
    with pytest.raises(RunciError, match="kernels: a copy is installed"):
        refuse_copies(root)
    url.write_text(json.dumps({"url": (root / "kernel").as_uri(), "dir_info": {}}))
    with pytest.raises(RunciError, match="kernels: a copy is installed"):
        refuse_copies(root)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
