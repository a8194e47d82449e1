"""Puts runci into an environment of its own, for the published action (action.yml).

Nothing of the workflow's own checkout is read, and nothing of its environment is changed: the
environment stands below RUNNER_TEMP, what it gets is held by hashes, and this script needs nothing
but Python. Exit status: 0 and `python=PATH` in GITHUB_OUTPUT; 2 with what is wrong.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

COMMANDS = ("check", "gate", "plan", "run", "finish")
CHECKS_OUT = ("check", "plan", "finish")
# Where pip takes files from is the machine's to say: their hashes hold them.
_PLACES = re.compile(
    r"PIP_(INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|TRUSTED_HOST|(CLIENT_)?CERT|PROXY|DEFAULT_TIMEOUT)"
)
_PIN = re.compile(r"(?m)^([\w.-]+)==.*(?:\n[ \t]+.*)*\n?")
_SITES = (
    "import json, site; own = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []; "
    "print(json.dumps(site.getsitepackages() + own))"
)


def problem(given: Mapping[str, str], ref: str, commit: str) -> str | None:
    """What is wrong with the inputs, by their names; `ref` and `commit` are the event's."""
    command = given.get("command", "")
    if command not in COMMANDS:
        return f"command: {command!r} is none: write {', '.join(COMMANDS)}"
    if command in CHECKS_OUT and not given.get("ref", "").strip():
        return (
            "ref: is empty, and actions/checkout would take another commit for it: hand over an "
            "expression that is never empty, or leave `ref` out for github.sha"
        )
    if command in ("plan", "finish") and given["ref"] != commit:
        if ref.startswith("refs/pull/"):
            return (
                f"ref: {given['ref']!r} is not github.sha, the merge commit of the pull request, "
                "whose first parent is what the plan compares with: leave `ref` out"
            )
        if command == "finish" and given.get("allowed") != "true":
            return f"ref: the gate did not allow {given['ref']!r}, which is not the event's commit"
    for name in {"run": ("suite", "shard"), "finish": ("needs",)}.get(command, ()):
        if not given.get(name, "").strip():
            remedy = "${{ toJSON(needs) }}" if name == "needs" else f"the {name} of the plan"
            return f"{name}: is empty, and `command: {command}` needs it: hand over {remedy}"
    return None


def for_pip(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of pip: where files come from stays, what else steers does not."""
    steers = re.compile(r"PIP_.*|PYTHON.*|XDG_CONFIG_HOME|VIRTUAL_ENV")
    return {
        name: value
        for name, value in environ.items()
        if _PLACES.fullmatch(name) or not steers.fullmatch(name)
    }


def missing(lock: str, asked: Iterable[Any], build: Iterable[str], there: Mapping[str, str]) -> str:
    """The entries of a lock that an environment lacks: those not there, or not as they are asked.

    `asked` are requirements of `packaging`, `there` the versions by normalised name. What only
    builds runci is left out.
    """
    ranges = {_name(each.name): each.specifier for each in asked}
    skipped = {_name(each) for each in build}
    head, kept = lock[: next(_PIN.finditer(lock)).start()], []
    for pin in _PIN.finditer(lock):
        name = _name(pin[1])
        allowed = ranges.get(name)
        fits = name in there and (
            allowed is None or allowed.contains(there[name], prereleases=True)
        )
        if name not in skipped and not fits:
            kept.append(pin[0])
    return head + "".join(kept)


def _name(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()


def main(argv: list[str]) -> int:
    """Look at the inputs, make the environment, and say where its Python is."""
    if argv:
        sys.stdout.write(_missing_here(*map(Path, argv)))
        return 0
    given = json.loads(os.environ["INPUTS"])
    said = problem(given, os.environ["GITHUB_REF"], os.environ["GITHUB_SHA"])
    if said is None:
        try:
            python = _environment(given["command"])
        except (OSError, subprocess.CalledProcessError) as error:
            said = f"{error}: set up a Python from 3.10 with venv before (actions/setup-python)"
    if said is not None:
        sys.stderr.write(f"::error title=runci::{said}\n")
        return 2
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as stream:
        stream.write(f"python={python}\n")
    return 0


def _environment(command: str) -> Path:
    """The Python of an environment with runci; of tests it sees what the machine's Python has."""
    extras = "github,run" if command == "run" else "github"
    folder = Path(os.environ["RUNNER_TEMP"], f"runci-{extras}")
    python = folder / "bin" / "python"
    ready = folder / "ready"
    # Code of a commit may have run since: what decides is made anew.
    if ready.exists() and command in ("check", "run"):
        return python
    shutil.rmtree(folder, ignore_errors=True)
    action = Path(os.environ["ACTION_PATH"])
    environ = for_pip(os.environ)

    def ask(*words: str) -> str:
        ran = subprocess.run(  # noqa: S603
            words, cwd=folder.parent, env=environ, stdout=subprocess.PIPE, text=True, check=True
        )
        return ran.stdout

    # Without pip: the one that comes with Python works from its wheel, and brings no setuptools.
    ask(sys.executable, "-I", "-m", "venv", "--without-pip", str(folder))
    own = Path(json.loads(ask(str(python), "-I", "-c", _SITES))[0])
    if command == "run":
        sites = json.loads(ask(sys.executable, "-c", _SITES))
        lines = (f"import site; site.addsitedir({site!r})\n" for site in sites)
        (own / "zz_tests.pth").write_text("".join(lines), encoding="utf-8")
    _install(ask, python, folder, action, extras)
    # A copy, since a build would run code and leave its files in the action's folder.
    shutil.copytree(
        action / "ci_scripts" / "runci", own / "runci", ignore=shutil.ignore_patterns("__pycache__")
    )
    ready.touch()
    return python


def _install(
    ask: Callable[..., str], python: Path, folder: Path, action: Path, extras: str
) -> None:
    """Install what is missing; all of it where the two do not go together."""
    wheel = _pip_wheel()
    lock, part = action / "ci_scripts" / "pinned" / f"{extras}.txt", folder / "missing.txt"
    found = ask(str(python), "-I", __file__, str(wheel), str(lock), str(action))
    part.write_text(found, encoding="utf-8")
    if not _PIN.search(found):
        return
    # A job imports few of its modules, and compiles those.
    quick = ("--quiet", "--disable-pip-version-check", "--no-compile")
    pip = (str(python), "-I", f"{wheel}/pip", "install", *quick)
    try:
        ask(*pip, "--require-hashes", "-r", str(part))
    except subprocess.CalledProcessError:
        if extras == "github":
            raise
        sys.stderr.write("runci: some of it is too old for the rest: all of runci's own then\n")
        ask(*pip, "--ignore-installed", "--require-hashes", "-r", str(lock))


def _pip_wheel() -> Path:
    """The pip that comes with Python. Raises OSError where a distribution left it out."""
    folders = [Path(sysconfig.get_config_var("WHEEL_PKG_DIR") or sys.prefix)]
    with contextlib.suppress(ImportError):
        import ensurepip

        folders.append(Path(ensurepip.__file__).parent / "_bundled")
    for folder in folders:
        for wheel in folder.glob("pip-*.whl"):
            return wheel
    raise OSError(f"{sys.executable} comes without pip (on Debian: apt install python3-venv)")


def _missing_here(wheel: Path, lock: Path, action: Path) -> str:
    """In the new environment's Python: what of a lock it does not see."""
    sys.path.insert(0, str(wheel))
    from pip._vendor.packaging.requirements import Requirement  # what pip itself compares with

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        from pip._vendor import tomli as tomllib
    settings = tomllib.loads((action / "pyproject.toml").read_text(encoding="utf-8"))
    project = settings["project"]
    stated = [*project["dependencies"]]
    for extra in lock.stem.split(","):
        stated += project["optional-dependencies"][extra]
    found = [*importlib.metadata.distributions(path=sys.path[1:])]
    there = {_name(one.metadata["Name"]): one.version for one in found[::-1]}
    build = [Requirement(text).name for text in settings["build-system"]["requires"]]
    return missing(lock.read_text(encoding="utf-8"), map(Requirement, stated), build, there)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
