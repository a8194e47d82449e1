"""Reads suites.yml: bytes become a validated `Taxonomy`, or an error that lists every fault."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from runci.errors import RunciError
from runci.registration import Backend
from runci.suites import (
    VERSION,
    Component,
    Execution,
    FolderPolicy,
    FolderRules,
    Kind,
    Runner,
    Skip,
    Suite,
    Taxonomy,
    Workflows,
)
from runci.suites.check import Declared, children, declared, disagreements, one_or_more
from runci.suites.schema import read_schema, suites_schema
from runci.suites.schema_check import Problem, check, shown
from runci.yamlpos import Node, YamlError, load


class ConfigError(RunciError):
    """Everything that is wrong in a configuration file; the message has one line for each fault."""

    def __init__(self, path: str, problems: Iterable[Problem]) -> None:
        self.path = path
        self.problems = tuple(sorted(problems, key=lambda p: (p.line, p.column)))
        super().__init__("\n".join(f"{path}:{p.line}:{p.column}: {p.text}" for p in self.problems))


def load_taxonomy(data: bytes, path: str) -> Taxonomy:
    """Read suites.yml. `path` is for messages. Raises ConfigError with every fault found."""
    try:
        root = load(data, path)
    except YamlError as error:
        raise ConfigError(path, [Problem(error.line, error.column, error.problem)]) from error
    problems = _another_version(root)
    if not problems:
        problems = check(root, suites_schema())
        broken = {str(problem.pointer[0]) for problem in problems if problem.pointer}
        problems += disagreements(root, broken)
    if problems:
        raise ConfigError(path, problems)
    return _taxonomy(root, path)


def load_checked(data: bytes, path: str, schema: str) -> dict[str, Any]:
    """A configuration file as plain data, checked against our schema of that name.

    Raises ConfigError with every fault found.
    """
    try:
        node = load(data, path)
    except YamlError as error:
        raise ConfigError(path, [Problem(error.line, error.column, error.problem)]) from error
    problems = check(node, read_schema(schema))
    if problems:
        raise ConfigError(path, problems)
    plain = node.plain()
    assert isinstance(plain, dict)  # noqa: S101 (the schema says so)
    return plain


def _another_version(root: Node) -> list[Problem]:
    """The one fault that would make every other a guess."""
    node = root.get("version")
    if node is None or not isinstance(node.value, (int, float)) or node.value == VERSION:
        return []
    text = f"version: this runci does not read version {shown(node)}; allowed: {VERSION}; "
    return [Problem(node.line, node.column, text + "rewrite the file, or use the runci it is for")]


# From here on the document is known to be right: keys of the file are fields of the dataclasses.

_PLAIN = (
    "roots",
    "exclude",
    "test_files",
    "benchmarks",
    "marker_modules",
    "entry_points",
    "disabled_reason",
)


def _taxonomy(root: Node, path: str) -> Taxonomy:
    workflows = root.get("workflows")
    suites = list(declared(root))
    entries = {id(suite.entry): suite.entry for suite in suites}  # one entry can be many suites
    given = {key: _fields(entry) for key, entry in entries.items()}
    return Taxonomy(
        path=path,
        runners={name: _runner(name, node) for name, node in children(root, "runners")},
        suites={(Backend(s.backend), s.name): _suite(s, given[id(s.entry)]) for s in suites},
        folders=tuple(map(_policy, one_or_more(root.get("taxonomy")))),
        skips=tuple(
            Skip(**_fields(node), line=node.line) for node in one_or_more(root.get("skips"))
        ),
        components=_components(root.get("components")),
        folder_rules=tuple(
            FolderRules(**_fields(node), line=node.line)
            for node in one_or_more(root.get("folder_rules"))
        ),
        workflows=Workflows(**_fields(workflows)) if workflows else Workflows(),
        **{key: _frozen(root.mapping[key]) for key in _PLAIN if key in root.mapping},
    )


def _runner(name: str, node: Node) -> Runner:
    given = _fields(node)
    execution = Execution(given.pop("execution", Execution.SCRIPT))
    return Runner(name=name, execution=execution, **given)


def _suite(one: Declared, given: dict[str, Any]) -> Suite:
    optional = ("default_est_time", "pair_required", "run_by")
    timeout = given.get("timeout_minutes")
    if isinstance(timeout, dict):
        timeout = timeout.get(one.runner_config)
    return Suite(
        name=one.name,
        backend=Backend(one.backend),
        kind=Kind(given["kind"]),
        runner=one.runner_config or given.get("runner"),
        timeout_minutes=timeout,
        stage=one.stage,
        runner_config=one.runner_config,
        line=one.node.line,
        **{key: given[key] for key in optional if key in given},
    )


def _policy(node: Node) -> FolderPolicy:
    given = _fields(node)
    allow = {Backend(backend): globs for backend, globs in given.pop("allow").items()}
    return FolderPolicy(**given, allow=allow, line=node.line)


def _components(node: Node | None) -> tuple[Component, ...]:
    if node is None:
        return ()
    return tuple(
        Component(name=name, **_fields(below), line=node.keys[name][0])
        for name, below in node.mapping.items()
    )


def _fields(node: Node) -> dict[str, Any]:
    return {key: _frozen(below) for key, below in node.mapping.items()}


def _frozen(node: Node) -> Any:
    if isinstance(node.value, dict):
        return _fields(node)
    return tuple(map(_frozen, node.items)) if isinstance(node.value, tuple) else node.value
