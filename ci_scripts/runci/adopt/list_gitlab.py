"""Lists in GitLab's pipelines: the jobs of `.gitlab-ci.yml` and of what it includes. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from runci.adopt.list_commands import item_of, lines_of, may_be_test, path_runs, text_of
from runci.adopt.list_files import Read
from runci.adopt.lists import GITLAB, Item, Left, ListOfTests, kind_of
from runci.adopt.machines import machine_of
from runci.config.taxonomy import Kind
from runci.core.globs import matches
from runci.core.registration import Backend
from runci.read.yamlpos import Node, YamlError, load

PIPELINE = ".gitlab-ci.yml"
_REFERENCE = "!reference"
_NO_JOBS = frozenset(("default", "include", "spec", "stages", "variables", "workflow"))
_NO_JOBS |= {"after_script", "before_script", "cache", "image", "services"}  # as `default` has them
_MAX_DEPTH = 11  # of `extends`, as on GitLab
_MAX_JOBS = 200  # of one matrix, as on GitLab
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_Line = tuple[str, str, int]  # text, file, line
_Layers = list[tuple[str, Node]]  # what a job is made of, with its file: the strongest last


def local_includes(data: bytes, paths: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files of this repository that a pipeline includes, and those of its child pipelines."""
    try:
        root = _load(data, PIPELINE)
    except YamlError:
        return (), ()
    there = tuple(paths)
    children = [job.get("trigger", "include") for job in root.mapping.values()]
    found = [path for node in children if node is not None for path in _locals(node, there)]
    included = root.get("include")
    return tuple(_locals(included, there)) if included is not None else (), tuple(found)


def read_gitlab(
    files: Mapping[str, bytes], scripts: Mapping[str, bytes], main: str = PIPELINE
) -> Iterator[Read]:
    """The jobs of a pipeline whose scripts run tests, each with the machine that its tags name.

    `files` are the file `main` and all that it includes.
    """
    read_ = [_document(files[path], path) for path in _in_order(files, main)]
    yield from (one for one in read_ if isinstance(one, Left))
    pipeline = _Pipeline([one for one in read_ if not isinstance(one, Left)])
    jobs = list(pipeline.jobs())
    texts = [("\n".join(text for text, _, _ in job.lines), "") for job in jobs]
    for job, runs in zip(jobs, path_runs(texts, scripts), strict=True):
        items = []
        for run in runs:
            _, path, line = job.lines[run.line - 1] if run.path not in scripts else ("", "", 0)
            made = item_of(run, line or run.line, scripts, path if path != job.path else "")
            items += [made] if may_be_test(made) else []
        if items:
            yield _list(job, tuple(items))


@dataclass(frozen=True, slots=True)
class _Job:
    """One job, of a matrix one of its variants."""

    path: str
    line: int
    lines: tuple[_Line, ...]
    tags: tuple[str, ...]
    kind: Kind


def _list(job: _Job, items: tuple[Item, ...]) -> ListOfTests:
    machine = machine_of(job.tags) if job.tags else None
    label = machine.label if machine is not None else ""
    gpus = (machine.gpus or None) if machine is not None else None
    on_cpu = machine is not None and machine.backend is Backend.CPU
    several = f"{gpus}gpu" if (gpus or 0) > 1 else ""
    name = "-".join(filter(None, ("gitlab", "cpu" if on_cpu else label, several)))
    more = job.tags if len(job.tags) > 1 else ()
    return ListOfTests(
        job.path, job.line, name, items, GITLAB, job.tags, label, gpus, job.kind, more
    )


class _Pipeline:
    """The jobs of documents; a later one says more than those before it."""

    def __init__(self, documents: _Layers) -> None:
        self._documents = documents
        self._named: dict[str, list[tuple[str, Node, int]]] = {}
        for path, root in documents:
            for name, node in root.mapping.items():
                self._named.setdefault(name, []).append((path, node, root.keys[name][0]))

    def jobs(self) -> Iterator[_Job]:
        for name, own in self._named.items():
            if name in _NO_JOBS or name.startswith("."):
                continue
            layers = self._layers(name, ())
            path, _, line = own[-1]
            for variables in _variants(_last(layers, "parallel"), self._variables(layers)):
                before, script, tags = (
                    [
                        (_expanded(text, variables), at, on)
                        for text, at, on in self._flat(layers, key)
                    ]
                    for key in ("before_script", "script", "tags")
                )
                known = tuple(dict.fromkeys(tag for tag, _, _ in tags if tag and "$" not in tag))
                yield _Job(path, line, (*before, *script), known, self._kind(name, layers))

    def _layers(self, name: str, above: tuple[str, ...]) -> _Layers:
        own = [(path, node) for path, node, _ in self._named.get(name, ())]
        extended = _last(own, "extends")
        names = _texts(extended[1]) if extended is not None else []
        parents = [one for one in names if one not in above and len(above) < _MAX_DEPTH]
        return [*(one for name_ in parents for one in self._layers(name_, (*above, name))), *own]

    def _variables(self, layers: _Layers) -> dict[str, str]:
        found = {"CI_PROJECT_DIR": "."}
        for _, node in (*self._documents, *layers):
            for key, value in getattr(node.get("variables"), "mapping", {}).items():
                found[key] = text_of(value.get("value") or value)
        return found

    def _flat(self, layers: _Layers, key: str) -> list[_Line]:
        """The lines of a job's script, or its tags: of `default` where it has none of its own."""
        found = _last(layers, key)
        if found is None and _inherits(layers, key):
            defaults = [(path, node) for path, node, _ in self._named.get("default", ())]
            found = _last([*self._documents, *defaults], key)
        return self._lines(*found, 0) if found is not None else []

    def _lines(self, path: str, node: Node, depth: int) -> list[_Line]:
        asked = node.get(_REFERENCE)
        if asked is not None:
            name, *keys = (text_of(one) for one in asked.items)
            found = _last(self._layers(name, ()), *keys) if depth < _MAX_DEPTH and keys else None
            return self._lines(*found, depth + 1) if found is not None else []
        if node.items:
            return [line for one in node.items for line in self._lines(path, one, depth)]
        return [(text, path, line) for text, line in lines_of(node)]

    def _kind(self, name: str, layers: _Layers) -> Kind:
        """Nightly is what only a schedule or somebody's hand starts."""
        rules, only, when = (_last(layers, key) for key in ("rules", "only", "when"))
        starts = (
            [one for one in rules[1].items if text_of(one.get("when")) != "never"] if rules else []
        )
        if starts and all(map(_is_asked_for, starts)):
            return Kind.NIGHTLY
        if only is not None and _texts(only[1].get("refs") or only[1]) == ["schedules"]:
            return Kind.NIGHTLY
        manual = when is not None and not starts and text_of(when[1]) == "manual"
        return Kind.NIGHTLY if manual else kind_of([name])


def _is_asked_for(rule: Node) -> bool:
    scheduled = re.search(r"CI_PIPELINE_SOURCE\s*==\s*[\"']schedule[\"']", text_of(rule.get("if")))
    return scheduled is not None or text_of(rule.get("when")) == "manual"


def _inherits(layers: _Layers, key: str) -> bool:
    found = _last(layers, "inherit", "default")
    if found is None:
        return True
    return key in _texts(found[1]) if found[1].items else found[1].value is not False


def _variants(
    parallel: tuple[str, Node] | None, variables: dict[str, str]
) -> Iterator[dict[str, str]]:
    """The variables of each job of a matrix; those of the job itself where there is none."""
    matrix = parallel[1].get("matrix") if parallel is not None else None
    if matrix is None:
        yield variables
        return
    every = (
        dict(zip(one.mapping, values, strict=True))
        for one in matrix.items
        for values in itertools.product(*(_texts(node) for node in one.mapping.values()))
    )
    for given in itertools.islice(every, _MAX_JOBS):
        yield {**variables, **given}


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    for _ in range(3):  # a value may name another variable
        text = _VARIABLE.sub(lambda m: variables.get(m[1] or m[2], m[0]), text)
    return text


def _last(layers: Sequence[tuple[str, Node]], *keys: str) -> tuple[str, Node] | None:
    found = ((path, node.get(*keys)) for path, node in reversed(layers))
    return next(((path, node) for path, node in found if node is not None), None)


def _texts(node: Node) -> list[str]:
    return [text_of(one) for one in (node.items or (node,))]


def _document(data: bytes, path: str) -> tuple[str, Node] | Left:
    try:
        return path, _load(data, path)
    except YamlError as error:
        return Left(path, error.line, path, f"cannot be read: {error.problem}")


def _load(data: bytes, path: str) -> Node:
    return load(data, path, tags=(_REFERENCE,))


def _in_order(files: Mapping[str, bytes], main: str) -> list[str]:
    """Each file after those that it includes, as the includer says more."""
    found: list[str] = []

    def visit(path: str, above: tuple[str, ...]) -> None:
        if path in above or path in found:
            return
        for one in local_includes(files[path], files)[0]:
            visit(one, (*above, path))
        found.append(path)

    visit(main, ())
    return found


def _locals(node: Node, paths: Sequence[str]) -> Iterator[str]:
    for one in node.items or (node,):
        text = text_of(one.get("local") or one).lstrip("/")
        if "://" not in text:
            yield from (path for path in paths if path == text or matches(path, (text,)))
