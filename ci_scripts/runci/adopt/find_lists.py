"""Finds the lists of tests that a repository has elsewhere, and reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from runci.adopt.list_commands import read_buildkite, read_scripts_alone
from runci.adopt.list_files import MAX_BYTES, RanSuite, Read, read_dicts, read_plain, read_test_db
from runci.adopt.list_gitlab import PIPELINE, local_includes, read_gitlab
from runci.adopt.lists import BUILDKITE, GITLAB, Left
from runci.adopt.machines import Machine
from runci.config.taxonomy import Workflows
from runci.read.decode import read
from runci.text.wording import plural
from runci.workflows.find import find_suite_runs
from runci.workflows.runs import local_files

_YAML = (".yml", ".yaml")
_DEPENDS = b"source_file_dependencies"
# By which bytes a file may be a list; the readers decide.
_TEST_DB, _STEPS, _TESTS = (b"condition:", b"tests:"), (b"steps:", b"command"), (b".py", b"test")


def read_lists(
    root: Path,
    paths: Sequence[str],
    workflows: Mapping[str, bytes],
    machines: Iterable[Machine],
    scripts: Mapping[str, bytes],
    alone: Iterable[str],
    others: Sequence[str],
) -> list[Read]:
    """All that lists have, and what of them cannot be read.

    `scripts` are shell scripts that call pytest, `alone` those that no workflow calls, `others` the
    services with settings here.
    """
    by = (
        " and ".join(one for one in others if one not in (BUILDKITE, GITLAB))
        or "what reads these lists"
    )
    found: list[Read] = []
    dependent: list[str] = []
    for path in paths:
        name = path.rpartition("/")[2]
        if path.startswith(".buildkite/") and path.endswith(_YAML):
            data = _with(root, path, _STEPS)
            found += read_buildkite(data, path, scripts) if data else ()
            dependent += [path] if _DEPENDS in data else []
        elif path.endswith(_YAML) and not path.startswith("."):
            data = _with(root, path, _TEST_DB)
            found += read_test_db(data, path, by) if data else ()
        elif path.endswith(".txt") and "test" in path:
            data = _with(root, path, _TESTS)
            found += read_plain(data, path) if data else ()
        elif path.endswith(".py") and "suite" in name and not name.startswith("test"):
            data = _with(root, path, _TESTS)
            found += read_dicts(data, path, suites_run(name, workflows, machines)) if data else ()
    for main, files in _gitlab(root, paths).items():
        found += read_gitlab(files, scripts, main)
    named = {item.path for one in found for item in getattr(one, "items", ())}
    found += read_scripts_alone(scripts, set(alone) - named)
    if dependent:
        said = f"{_DEPENDS.decode()} of {plural(len(dependent), 'pipelines')}"
        why = "write which paths start a suite as `components`"
        found.append(Left(dependent[0], 1, said, why))
    return found


def _gitlab(root: Path, paths: Sequence[str]) -> dict[str, dict[str, bytes]]:
    """GitLab's pipeline and its child pipelines, each with all files that it includes."""
    found: dict[str, dict[str, bytes]] = {}
    waiting = [PIPELINE] if PIPELINE in paths else []
    while waiting:
        main = waiting.pop()
        files = found[main] = {}
        open_ = [main]
        while open_:
            path = open_.pop()
            files[path] = _with(root, path, ())
            included, children = local_includes(
                files[path], [p for p in paths if p.endswith(_YAML)]
            )
            open_ += [one for one in included if one not in files]
            waiting += [one for one in children if one not in found]
    return found


def _with(root: Path, path: str, clues: Iterable[bytes]) -> bytes:
    """The bytes of a file that has these, b"" for any other."""
    data = read(root, path)
    wanted = isinstance(data, bytes) and len(data) <= MAX_BYTES and all(c in data for c in clues)
    return data if wanted and isinstance(data, bytes) else b""


def suites_run(
    command: str | None, workflows: Mapping[str, bytes], machines: Iterable[Machine]
) -> dict[str, RanSuite]:
    """What the workflows run of a command's suites, by name; None: of the usual commands.

    Of several jobs the first whose machine is known says it.
    """
    settings = Workflows(commands=(command,)) if command is not None else Workflows()
    of_job = {job: machine for machine in machines for job in machine.jobs}
    found: dict[str, RanSuite] = {}
    for path in workflows:
        for run in find_suite_runs(calls_of(path, workflows), settings).runs:
            known = found.get(run.suite)
            if run.resolved and (known is None or not known.label):
                found[run.suite] = _ran(path, of_job.get((path, run.job)))
    return found


def calls_of(path: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """A workflow, with all workflows and actions that it calls."""
    seen: dict[str, bytes] = {}
    waiting = [path]
    while waiting:
        name = waiting.pop()
        if name in files and name not in seen:
            seen[name] = files[name]
            waiting += local_files(files[name])
    return seen


def _ran(path: str, machine: Machine | None) -> RanSuite:
    if machine is None:
        return RanSuite(path)
    return RanSuite(path, machine.labels, machine.declared, machine.gpus)
