"""Reads suites.yml: bytes become a validated `Taxonomy`, or an error that lists every fault."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from runci.config.schema import (
    Pointer,
    Problem,
    check,
    place,
    read_schema,
    remedy,
    shown,
)
from runci.config.taxonomy import (
    OUT,
    VERSION,
    Component,
    Execution,
    FolderPolicy,
    FolderRules,
    Kind,
    Members,
    RunBy,
    Runner,
    Skip,
    Suite,
    Taxonomy,
    Workflows,
)
from runci.core.errors import RunciError
from runci.core.globs import compile_glob, matches
from runci.core.invocation import Invocation, env_problem, text_problem
from runci.core.labels import read_label
from runci.core.marks import compiled
from runci.core.registration import Backend, pair_suite
from runci.core.targets import read_target
from runci.read.condition import FACTS, condition_problem
from runci.read.yamlpos import Node, YamlError, load

_GITHUB = ("github", "githubaction", "githubactions", "githubworkflow", "githubworkflows")
_BACKENDS = frozenset(backend.value for backend in Backend)


@dataclass(frozen=True, slots=True)
class Declared:
    """One suite of one backend; `node` is the value that names it, `entry` holds its settings."""

    backend: str
    name: str
    node: Node
    entry: Node
    pointer: Pointer  # of the entry
    stage: str | None = None
    runner_config: str | None = None


def declared(root: Node) -> Iterator[Declared]:
    """The suites in the order of the file."""
    for backend, entries in children(root, "suites"):
        for index, entry in enumerate(entries.items):
            at = ("suites", backend, index)
            stage = entry.get("stage")
            for node in one_or_more(entry.get("name")) if stage is None else ():
                yield Declared(backend, str(node.value), node, entry, at)
            for node in one_or_more(entry.get("runner_configs")) if stage is not None else ():
                pair = str(stage.value if stage else ""), str(node.value)
                yield Declared(backend, pair_suite(*pair), node, entry, at, *pair)


def disagreements(root: Node, broken: set[str]) -> Iterator[Problem]:
    """Every fault across sections; a section that is broken itself is not compared with others."""
    suites = list(declared(root)) if "suites" not in broken else []
    entries = list({id(suite.entry): suite for suite in suites}.values())
    if "runners" not in broken:
        yield from _unknown_runners(root, suites, entries)
    yield from _declared_twice(suites)
    yield from _timeouts_of_others(entries)
    if "suites" not in broken:
        yield from _matching_nothing(root, suites)
        yield from _unusable_members(entries)
        yield from _unusable_invocations(root, entries)
    yield from _run_by_github(root, entries)
    yield from _never_reached(root)
    yield from _roots_twice(root)
    for name, node in children(root, "conditions"):
        problem = condition_problem(node.value) if isinstance(node.value, str) else None
        if problem is not None:
            text = f"{shown(node)} {problem}; allowed: an expression of {', '.join(FACTS)}"
            yield _problem(node, ("conditions", name), text)


def _unknown_runners(
    root: Node, suites: list[Declared], entries: list[Declared]
) -> Iterator[Problem]:
    known = [name for name, _ in children(root, "runners")]
    uses = [((*s.pointer, "runner_configs"), s.node) for s in suites if s.stage is not None]
    for entry in entries:
        uses += [((*entry.pointer, "runner"), n) for n in one_or_more(entry.entry.get("runner"))]
    for index, skip in enumerate(one_or_more(root.get("skips"))):
        uses += [(("skips", index, "runners"), n) for n in one_or_more(skip.get("runners"))]
    for at, node in uses:
        if isinstance(node.value, str) and node.value not in known:
            text = f"{shown(node)} is not declared under runners; {remedy(node.value, known)}"
            yield _problem(node, at, text)


def _declared_twice(suites: list[Declared]) -> Iterator[Problem]:
    first: dict[tuple[str, str], Declared] = {}
    for suite in suites:
        known = first.setdefault((suite.backend, suite.name), suite)
        if known is not suite:
            text = f"{suite.backend} has suite {suite.name!r} already (line {known.node.line}); "
            yield _problem(suite.node, suite.pointer, text + "allowed: each suite once")


def _timeouts_of_others(entries: list[Declared]) -> Iterator[Problem]:
    """A timeout for a runner config that the stage does not have."""
    for entry in entries:
        configs = [str(node.value) for node in one_or_more(entry.entry.get("runner_configs"))]
        timeouts = entry.entry.get("timeout_minutes")
        for name, (line, column) in timeouts.keys.items() if timeouts else ():
            if name not in configs:
                text = f"{name!r} is no runner config of this stage; {remedy(name, configs)}"
                key = Node(name, line, column, {})
                yield _problem(key, (*entry.pointer, "timeout_minutes"), text)


def _matching_nothing(root: Node, suites: list[Declared]) -> Iterator[Problem]:
    """Globs of suite names that no declared suite matches."""
    for at, nodes, backend in _suite_globs(root):
        names = [s.name for s in suites if backend in (None, s.backend)]
        for node in one_or_more(nodes):
            glob = _readable(node)
            if glob is not None and not any(matches(name, (glob,)) for name in names):
                what = f"{backend} suite" if backend else "suite"
                text = f"{shown(node)} matches no {what}; {remedy(glob, names)}"
                yield _problem(node, at, text)


def _unusable_members(entries: list[Declared]) -> Iterator[Problem]:
    """Entries of `tests` that take nothing out, or name no test or marks that there can be."""
    for entry in entries:
        nodes = one_or_more(entry.entry.get("tests"))
        for index, node in enumerate(nodes):
            text = _unusable(node, index)
            if text is not None:
                yield _problem(node, (*entry.pointer, "tests", index), text)


def _run_by_github(root: Node, entries: list[Declared]) -> Iterator[Problem]:
    """What says GitHub alone: its plan leaves out whatever has a run_by, so nobody runs that."""
    said = [((*one.pointer, "run_by"), one.entry.get("run_by")) for one in entries]
    files = enumerate(one_or_more(root.get("run_by")))
    said += [(("run_by", at, "by"), node.get("by")) for at, node in files]
    for at, node in said:
        if node is not None and re.sub(r"[\W_]", "", str(node.value)).lower() in _GITHUB:
            text = "what GitHub runs here has none; leave it out, or say which workflow elsewhere"
            yield _problem(node, at, f"{shown(node)}: {text}")


def _unusable_invocations(root: Node, entries: list[Declared]) -> Iterator[Problem]:
    """Variables, options and commands that a suite cannot have."""
    runners = dict(children(root, "runners"))
    for entry in entries:
        for name, node in children(entry.entry, "env"):
            text = env_problem(name) or text_problem(str(node.value))
            if text is not None:
                yield _problem(node, (*entry.pointer, "env"), text)
        for key in ("pytest_args", "setup"):
            for index, node in enumerate(one_or_more(entry.entry.get(key))):
                text = text_problem(str(node.value))
                if text is not None:
                    yield _problem(node, (*entry.pointer, key, index), text)
        options = entry.entry.get("pytest_args")
        for name in _runners_of(entry.entry) if options is not None else ():
            execution = runners[name].get("execution") if name in runners else None
            if execution is None or execution.value != Execution.PYTEST.value:
                text = f"runner {name!r} runs scripts, which take none; "
                text += "give it `execution: pytest`, or leave them out"
                yield _problem(options or entry.entry, (*entry.pointer, "pytest_args"), text)


def _runners_of(entry: Node) -> list[str]:
    """The runners of an entry's suites; one that nobody names runs scripts."""
    nodes = one_or_more(entry.get("runner_configs")) or one_or_more(entry.get("runner"))
    return [str(node.value) for node in nodes] or ["none"]


def _unusable(node: Node, index: int) -> str | None:
    if node.mapping:
        try:
            compiled(str(node.mapping["marked"].value))
        except ValueError as error:
            return f"marked: {error}"
        out = [one for one in one_or_more(node.get("files")) if str(one.value).startswith(OUT)]
        return f"files: {shown(out[0])} takes files out: it stands alone" if out else None
    text = str(node.value)
    path, mark, _ = text.removeprefix(OUT).partition("::")
    try:
        compile_glob(path)
        read_target(text.removeprefix(OUT))
    except (re.error, RunciError) as error:
        return f"{shown(node)} is wrong: {error}"
    if text.startswith(OUT) and (mark or not index):
        return f"{shown(node)} takes nothing out; allowed: a glob, below what it takes files from"
    return None


def _suite_globs(root: Node) -> Iterator[tuple[Pointer, Node | None, str | None]]:
    for name, component in children(root, "components"):
        yield ("components", name, "suites"), component.get("suites"), None
    workflows = root.get("workflows")
    for name, globs in children(workflows, "jobs") if workflows else ():
        yield ("workflows", "jobs", name), globs, None
    for index, policy in enumerate(one_or_more(root.get("taxonomy"))):
        for backend, node in children(policy, "allow"):
            if backend in _BACKENDS:  # the schema reports any other
                yield ("taxonomy", index, "allow", backend), node, backend


def _never_reached(root: Node) -> Iterator[Problem]:
    """A folder below one that an earlier entry decides."""
    earlier: list[tuple[str, int]] = []
    for index, policy in enumerate(one_or_more(root.get("taxonomy"))):
        for node in one_or_more(policy.get("folder")):
            folder = _readable(node)
            if folder is None:
                continue
            for wide, line in earlier:
                if matches(folder, (wide,)):
                    text = f"{folder!r} is never reached: {wide!r} on line {line} decides first; "
                    text += "allowed: narrow folders above wide ones"
                    yield _problem(node, ("taxonomy", index, "folder"), text)
                    break
            earlier.append((folder, node.line))


def _path_of(node: Node) -> Node:
    """Where the path of a root stands: alone, or with globs of its own."""
    return node.get("path") or node


def _roots_twice(root: Node) -> Iterator[Problem]:
    """A root with globs of its own that stands there again."""
    nodes = one_or_more(root.get("roots"))
    names = [_path_of(node).value for node in nodes]
    for index, node in enumerate(nodes):
        others = [other for at, other in enumerate(nodes) if at != index]
        if names[index] in names[:index] and any(one.mapping for one in (node, *others)):
            text = f"{shown(_path_of(node))} stands there already; allowed: each root once"
            yield _problem(_path_of(node), ("roots", index), text)


def _readable(node: Node) -> str | None:
    """The glob that stands there; None where the schema has reported that none does."""
    if not isinstance(node.value, str):
        return None
    try:
        compile_glob(node.value)
    except re.error:
        return None
    return node.value


def children(node: Node, key: str) -> list[tuple[str, Node]]:
    """The entries of the mapping below a key; none where there is no mapping."""
    below = node.get(key)
    return list(below.mapping.items()) if below else []


def one_or_more(node: Node | None) -> tuple[Node, ...]:
    """The items of a list; a value that is no list alone; nothing where the key is missing."""
    if node is None:
        return ()
    return node.items if isinstance(node.value, tuple) else (node,)


def _problem(node: Node, at: Pointer, text: str) -> Problem:
    return Problem(node.line, node.column, f"{place(at)}: {text}", at)


class ConfigError(RunciError):
    """Everything that is wrong in a configuration file; the message has one line for each fault."""

    def __init__(self, path: str, problems: Iterable[Problem]) -> None:
        self.path = path
        self.problems = tuple(sorted(problems, key=lambda p: (p.line, p.column)))
        super().__init__("\n".join(f"{path}:{p.line}:{p.column}: {p.text}" for p in self.problems))


def load_taxonomy(data: bytes, path: str) -> Taxonomy:
    """Read suites.yml. `path` is for messages. Raises ConfigError with every fault found."""
    root = _read(data, path)
    problems = _another_version(root)
    if not problems:
        problems = check(root, read_schema("suites"))
        broken = {str(problem.pointer[0]) for problem in problems if problem.pointer}
        problems += disagreements(root, broken)
    if problems:
        raise ConfigError(path, problems)
    return _taxonomy(root, path)


def load_checked(
    data: bytes,
    path: str,
    schema: str,
    beyond: Callable[[Node], Iterable[Problem]] = lambda _: (),
) -> dict[str, Any]:
    """A configuration file as plain data, checked against our schema of that name, and what is in
    order by that with `beyond`, for what no schema can say.

    Raises ConfigError with every fault found.
    """
    node = _read(data, path)
    problems = check(node, read_schema(schema)) or list(beyond(node))
    if problems:
        raise ConfigError(path, problems)
    plain = node.plain()
    assert isinstance(plain, dict)  # noqa: S101 (the schema says so)
    return plain


def _read(data: bytes, path: str) -> Node:
    try:
        return load(data, path, strict=True)
    except YamlError as error:
        raise ConfigError(path, [Problem(error.line, error.column, error.problem)]) from error


def _another_version(root: Node) -> list[Problem]:
    """The one fault that would make every other a guess."""
    node = root.get("version")
    if node is None or not isinstance(node.value, (int, float)) or node.value == VERSION:
        return []
    text = f"version: this runci does not read version {shown(node)}; allowed: {VERSION}; "
    return [Problem(node.line, node.column, text + "rewrite the file, or use the runci it is for")]


# From here on the document is known to be right: keys of the file are fields of the dataclasses.

_PLAIN = (
    "exclude",
    "test_files",
    "benchmarks",
    "marker_modules",
    "entry_points",
    "disabled_reason",
    "ignore",
    "conditions",
)


def _taxonomy(root: Node, path: str) -> Taxonomy:
    workflows = root.get("workflows")
    suites = list(declared(root))
    entries = {id(suite.entry): suite.entry for suite in suites}  # one entry can be many suites
    given = {key: _fields(entry) for key, entry in entries.items()}
    plain = {key: _frozen(root.mapping[key]) for key in _PLAIN if key in root.mapping}
    roots = {str(_path_of(node).value): node for node in one_or_more(root.get("roots"))}
    usual = Taxonomy(path, (), **plain).globs("")
    return Taxonomy(
        path=path,
        roots=tuple(roots),
        own_globs={
            name: usual._replace(**{k: v for k, v in _fields(node).items() if k != "path"})
            for name, node in roots.items()
            if len(node.mapping) > 1
        },
        runners=dict(_runners(root)),
        suites={(Backend(s.backend), s.name): _suite(s, given[id(s.entry)]) for s in suites},
        folders=tuple(map(_policy, one_or_more(root.get("taxonomy")))),
        skips=tuple(_skips(root)),
        run_by=tuple(RunBy(**_fields(node)) for node in one_or_more(root.get("run_by"))),
        components=tuple(_components(root)),
        folder_rules=tuple(
            FolderRules(**_fields(node), line=node.line)
            for node in one_or_more(root.get("folder_rules"))
        ),
        workflows=Workflows(**_fields(workflows)) if workflows else Workflows(),
        **plain,
    )


def _runners(root: Node) -> Iterator[tuple[str, Runner]]:
    for name, below in children(root, "runners"):
        given = _fields(below)
        execution = Execution(given.pop("execution", Execution.SCRIPT))
        label = read_label(given.pop("label"))
        assert label is not None  # noqa: S101 (the schema says so)
        line, _ = root.mapping["runners"].keys[name]
        yield name, Runner(name, label, execution=execution, line=line, **given)


def _suite(one: Declared, given: dict[str, Any]) -> Suite:
    optional = ("default_est_time", "max_deselected", "pair_required", "run_by", "under_factor")
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
        under=tuple(dict.fromkeys(given.get("under", ()))),
        tests=tuple(map(_members, one_or_more(one.entry.get("tests")))),
        invocation=Invocation(**{key: given[key] for key in _INVOCATION if key in given}),
        line=one.node.line,
        **{key: given[key] for key in optional if key in given},
    )


_INVOCATION = ("env", "pytest_args", "setup")


def _members(node: Node) -> Members:
    if node.mapping:
        files = tuple(str(one.value) for one in one_or_more(node.get("files")))
        return Members(files, marked=str(node.mapping["marked"].value), line=node.line)
    path, _, test = str(node.value).partition("::")
    return Members((path,), test, line=node.line)


def _skips(root: Node) -> Iterator[Skip]:
    for node in one_or_more(root.get("skips")):
        given = _fields(node)
        for test in one_or_more(node.get("test")):
            yield Skip(**{**given, "test": test.value}, line=test.line)


def _components(root: Node) -> Iterator[Component]:
    section = root.get("components")
    for name, below in children(root, "components"):
        assert section is not None  # noqa: S101 (it has children)
        line, _ = section.keys[name]
        yield Component(name=name, **_fields(below), line=line)


def _policy(node: Node) -> FolderPolicy:
    given = _fields(node)
    allow = {Backend(backend): globs for backend, globs in given.pop("allow").items()}
    return FolderPolicy(**given, allow=allow)


def _fields(node: Node) -> dict[str, Any]:
    return {key: _frozen(below) for key, below in node.mapping.items()}


def _frozen(node: Node) -> Any:
    if isinstance(node.value, dict):
        return _fields(node)
    return tuple(map(_frozen, node.items)) if isinstance(node.value, tuple) else node.value
