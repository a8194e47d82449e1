"""Reads a repository for `init`: files, settings, workflows. Nothing of it is imported or run."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from runci.adopt.cover import roots_of
from runci.adopt.find_lists import calls_of, read_lists, suites_run
from runci.adopt.hardware import code_clues, wants_several
from runci.adopt.list_gitlab import PIPELINE
from runci.adopt.lists import BUILDKITE, GITLAB, Left, ListOfTests
from runci.adopt.machines import find_machines, known_jobs, unknown_machines
from runci.adopt.propose import Facts, FileFact, Ran
from runci.adopt.pytest_files import SOURCES, choose, read_settings, without_empty
from runci.config.taxonomy import Workflows
from runci.core.errors import Exit, RunciError
from runci.core.git import GitMissingError, ask_git, list_files
from runci.core.paths import read_named, walk
from runci.read.cases import FUNCTIONS
from runci.read.decode import read
from runci.read.marks import NO_MARKS, find_marks
from runci.read.module import Module
from runci.read.parse import parse, tree_of_bytes
from runci.read.registrations import registrations
from runci.read.tests import find_tests
from runci.workflows.by_path import may_run_tests
from runci.workflows.find import find_suite_runs, read_document
from runci.workflows.model import Document
from runci.workflows.runs import read_scripts, read_workflows
from runci.workflows.shell import commands

_REGISTERS = re.compile(r"^register_[a-z]+_ci\(", re.MULTILINE)
# Settings of other services that run tests, by the path or folder that they have.
OTHERS = {
    ".buildkite/": BUILDKITE,
    PIPELINE: GITLAB,
    "Jenkinsfile": "Jenkins",
    "jenkins/": "Jenkins",
    "azure-pipelines.yml": "Azure Pipelines",
    ".circleci/": "CircleCI",
}
_MAX_SCRIPT = 500_000  # bytes of a shell script that is read


def look(root: Path) -> Facts:
    """Everything that `init` wants to know. Raises RunciError, with 3 where there is no test."""
    paths = _paths(root)
    there = {name: read_named(root / name) for name, _ in SOURCES if (root / name).is_file()}
    settings = read_settings(there)
    chosen = choose(paths, settings)
    read_ = [_test(root, path) for path in chosen.tests]
    tests = tuple(test for test in read_ if not test.empty)
    chosen = without_empty(chosen, [test.path for test in read_ if test.empty])
    if not tests:
        names = ", ".join(settings.python_files)
        asked = f"; {settings.source} sets testpaths" if settings.testpaths else ""
        raise RunciError(f"no test file ({names}) in {root.as_posix()}{asked}", Exit.NOTHING)
    usual = Workflows()
    files, _ = read_workflows(root, usual)
    documents = _documents(files)
    roots = roots_of(chosen.tests)
    runs = tuple(ran for path in documents for ran in _runs(root, path, files, roots))
    machines, others = find_machines(documents), _others(paths)
    calling = _scripts(root, paths)
    alone = set(calling) - {ran.run.path for ran in runs}
    lists = read_lists(root, paths, files, machines, calling, alone, others)
    return Facts(
        settings=settings,
        files=chosen,
        tests=tests,
        machines=machines,
        unknown=unknown_machines(documents),
        runs=runs,
        jobs=known_jobs(documents),
        others=others,
        scripts=tuple(calling),
        branch=_branch(root),
        workflows=len(documents),
        lists=tuple(one for one in lists if isinstance(one, ListOfTests)),
        left=tuple(one for one in lists if isinstance(one, Left)),
        beside=frozenset(path for path in paths if path.endswith(".py"))
        - {test.path for test in tests},
        started=suites_run(None, files, machines) if any(test.registers for test in tests) else {},
    )


def _paths(root: Path) -> list[str]:
    listed = list_files(root)
    return walk(root, [""]) if listed is None else listed


def _runs(root: Path, path: str, files: Mapping[str, bytes], roots: tuple[str, ...]) -> list[Ran]:
    """What one workflow runs by path, with all that it calls.

    In `pytest $OPTIONS tests` what nobody knows is options, rather than more paths.
    """
    seen = calls_of(path, files)
    found = find_suite_runs(seen, Workflows(), (), read_scripts(root, seen), roots).paths
    sure = {(run.path, run.line) for run in found if run.certain}
    return [
        Ran(path, run)
        for run in found
        if run.certain
        or (run.path, run.line) not in sure
        or run.target.rpartition("/")[2].strip("*")
    ]


def _documents(files: Mapping[str, bytes]) -> dict[str, Document]:
    read_ = (read_document(data, path) for path, data in sorted(files.items()))
    return {one.path: one for one in read_ if isinstance(one, Document)}


def _test(root: Path, path: str) -> FileFact:
    data = read(root, path)
    if isinstance(data, str):
        return FileFact(path, unread=data)
    found = tree_of_bytes(data)
    if found is None:
        return FileFact(path, unread="no Python that can be parsed")
    text, tree = found
    module = Module(text, tree)
    marks = find_marks(module)
    file = parse(path, data) if _REGISTERS.search(text) else None
    return FileFact(
        path,
        code_clues(module),
        marks if marks else NO_MARKS,
        wants_several(marks, text),
        file is not None,
        empty=not find_tests(module) and not any(name.startswith("*") for name in module.names),
        names=_names(module),
        calls=registrations(file) if file is not None else (),
        modules=frozenset(one.module for one in file.calls if one.module) if file else frozenset(),
        script="__main__" in text,
    )


def _names(module: Module) -> frozenset[str]:
    """The tests that may be in a file; `Class::*` and `*` where only a run knows all."""
    found: set[str] = {name.partition(".")[0] for name in module.names}
    for node in module.imported:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{one.name}" for one in node.body if isinstance(one, FUNCTIONS)}
            found |= {f"{node.name}::*"} if node.bases or node.decorator_list else set()
        if isinstance(node, (ast.ClassDef, *FUNCTIONS)):
            found.add(node.name)
    return frozenset(found)


def _others(paths: Iterable[str]) -> tuple[str, ...]:
    found = {
        name
        for path in paths
        for at, name in OTHERS.items()
        if (path.startswith(at) if at.endswith("/") else path.rpartition("/")[2] == at)
    }
    return tuple(sorted(found))


def _scripts(root: Path, paths: Iterable[str]) -> dict[str, bytes]:
    """The shell scripts that may run tests by pytest."""
    read_ = ((path, read(root, path)) for path in paths if path.endswith(".sh"))
    return {
        path: data
        for path, data in read_
        if isinstance(data, bytes)
        and len(data) <= _MAX_SCRIPT
        and b"pytest" in data
        and any(
            may_run_tests([word.text for word in one.words], ())
            for one in commands(data.decode("utf-8", "replace"))
        )
    }


def _branch(root: Path) -> str:
    """The default branch as the clone has it, else the one that is checked out."""
    for name in ("refs/remotes/origin/HEAD", "HEAD"):
        try:
            answer = ask_git(root, "symbolic-ref", "--short", "--quiet", name)
        except GitMissingError:
            break
        if answer.status == 0:
            return os.fsdecode(answer.out).strip().removeprefix("origin/") or "main"
    return "main"
