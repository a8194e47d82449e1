"""The machines that workflows ask for: their labels, and what those seem to mean."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from runci.adopt.hardware import BACKENDS, CPU, GPU, has_model, words_mean
from runci.adopt.lists import slug
from runci.core.labels import Group, Label
from runci.core.registration import Backend
from runci.read.yamlpos import Node
from runci.text.yaml import quoted
from runci.workflows.model import Document, combinations, mapping_at, value_of
from runci.workflows.runs import local_path
from runci.workflows.starts import is_hosted
from runci.workflows.values import Value, spread

_KINDS = {**BACKENDS, GPU: Backend.CUDA, CPU: Backend.CPU}
_COUNT = re.compile(r"(?<!\d)(\d{1,2})x?[-_]?gpus?\b|\bgpus?[-_]?(\d{1,2})(?!\d)", re.IGNORECASE)
# Inputs of a called workflow that say where it runs: `runner`, `runs-on`, `runner_label`.
_SAYS_WHERE = re.compile(r"(runs?[-_]?on|runner)([-_]?(labels?|names?|types?))?", re.IGNORECASE)
# Labels that every self-hosted runner has, and others that say nothing of a GPU.
_EVERY = frozenset(("self-hosted", "linux", "windows", "macos", "x64", "x86", "arm", "arm64"))


_Runner = tuple[tuple[str, ...], str]  # labels and group


@dataclass(frozen=True, slots=True)
class Machine:
    """A kind of runner that is not GitHub's. `backend` is None where no label tells.

    `label` is the one that tells most, of a runner group without labels its name; `labels` are all,
    `jobs` are the jobs on it as (workflow, job).
    """

    labels: tuple[str, ...]
    backend: Backend | None
    label: str
    gpus: int = 0
    jobs: tuple[tuple[str, str], ...] = ()
    group: str = ""

    @property
    def runs_on(self) -> str:
        """As a workflow writes it."""
        labels = f"[{', '.join(map(quoted, self.labels))}]"
        if not self.group:
            return labels
        more = f", labels: {labels}" if self.labels else ""
        return f"{{group: {quoted(self.group)}{more}}}"

    @property
    def declared(self) -> Label:
        """For `label:` of a runner: what tells it from the others, in its group if it has one."""
        if not self.group:
            return self.label
        return Group(self.group, (self.label,) if self.label in self.labels else ())

    @property
    def name(self) -> str:
        """For `runners:`."""
        return slug(self.label, "gpu")


def machine_of(
    labels: tuple[str, ...], jobs: tuple[tuple[str, str], ...] = (), group: str = ""
) -> Machine:
    """What labels and a group seem to mean; a model or vendor tells more than «gpu»."""
    names = (*labels, *([group] if group else []))
    means = {name: words_mean(name) for name in names}
    kind = next((kind for kind in _KINDS if kind in means.values()), None)
    of_kind = [name for name in names if kind is not None and means[name] == kind]
    # A model with a count tells most: `l40s-4gpu` more than `gpu-l40s`, and that than `nvidia`.
    told = max(of_kind, key=lambda name: (has_model(name), bool(_COUNT.search(name))), default=None)
    rest = [name for name in names if name.lower() not in _EVERY]
    label = told or (rest or list(names))[0]
    backend = _KINDS[means[told]] if told is not None else None
    counts = [int(m[1] or m[2]) for one in names for m in _COUNT.finditer(one)]
    gpus = max(counts, default=1) if backend not in (None, Backend.CPU) else 0
    return Machine(
        labels, backend, label, max(gpus, int(backend not in (None, Backend.CPU))), jobs, group
    )


def find_machines(documents: Mapping[str, Document]) -> tuple[Machine, ...]:
    """The runners that are not GitHub's, those of most jobs first."""
    jobs: dict[_Runner, set[tuple[str, str]]] = {}
    for document, job, node in _jobs(documents):
        for runner in _self_hosted(node, _contexts(node, document, documents)):
            jobs.setdefault(runner, set()).add((document.path, job))
    made = [machine_of(labels, tuple(sorted(on)), group) for (labels, group), on in jobs.items()]
    return tuple(sorted(made, key=lambda one: (-len(one.jobs), one.labels, one.group)))


def unknown_machines(documents: Mapping[str, Document]) -> tuple[tuple[str, str], ...]:
    """Jobs whose runner only a run knows, as (workflow, job)."""
    return tuple(
        (document.path, job)
        for document, job, node in _jobs(documents)
        for contexts in [_contexts(node, document, documents)]
        for said in _says(node)
        if not any(found for each in contexts for found in _known(said, each))
        and not all(is_hosted(said, each, ()) for each in contexts)
    )


def known_jobs(documents: Mapping[str, Document]) -> frozenset[tuple[str, str]]:
    """The jobs that say where they run; a call of a workflow mostly leaves that to it."""
    return frozenset(
        (document.path, job) for document, job, node in _jobs(documents) if _says(node)
    )


def _jobs(documents: Mapping[str, Document]) -> Iterator[tuple[Document, str, Node]]:
    for document in documents.values():
        for job, node in document.jobs.items():
            yield document, job, node


def _says(job: Node) -> list[Node]:
    """What says where a job runs: its `runs-on`, or inputs of a workflow that is not read."""
    on, called = job.get("runs-on"), job.get("uses")
    if on is not None:
        return [on]
    if called is None or local_path(str(called.value)) is not None:
        return []  # the jobs of a workflow of this repository say it themselves
    given = mapping_at(job, "with").items()
    return [node for name, node in given if _SAYS_WHERE.fullmatch(name)]


def _contexts(
    job: Node, document: Document, documents: Mapping[str, Document]
) -> list[dict[str, Value]]:
    """What `matrix` is, and `inputs` by every call of the workflow in this repository."""
    given = _inputs(document, documents) or [{}]
    return [
        {**inputs, "matrix": bound.values}
        for inputs in given
        for bound in combinations(job, inputs, document.path)
    ]


def _inputs(document: Document, documents: Mapping[str, Document]) -> list[dict[str, Value]]:
    declared = document.declared("on", "workflow_call", "inputs")
    usual = {name: one for name, node in declared.items() if (one := node.get("default"))}
    return [
        {"inputs": {name: value_of(node, {"matrix": bound.values}) for name, node in given.items()}}
        for caller, _, job in _jobs(documents)
        if (called := job.get("uses")) is not None
        and local_path(str(called.value)) == document.path
        for given in [{**usual, **mapping_at(job, "with")}]
        for bound in combinations(job, {}, caller.path)
    ]


def _self_hosted(job: Node, matrices: Iterable[Mapping[str, Value]]) -> Iterator[_Runner]:
    for contexts in matrices:
        for node in _says(job):
            if not is_hosted(node, contexts, ()):
                yield from _known(node, contexts)


def _known(node: Node | None, contexts: Mapping[str, Value]) -> Iterator[_Runner]:
    """The labels and groups that `runs-on` can be, as far as they are known."""
    if node is None:
        return
    written = node.get("group")
    groups = _texts(written, contexts) if written is not None else [("",)]
    wanted = node.get("labels") if node.mapping else node
    for labels in _texts(wanted, contexts) if wanted is not None else [()]:
        for group in groups:
            yield tuple(dict.fromkeys(labels)), group[0]


def _texts(node: Node | None, contexts: Mapping[str, Value]) -> list[tuple[str, ...]]:
    """The lists of texts that a value can be; a text alone is one."""
    found = []
    for value in spread(value_of(node, contexts)) if node is not None else ():
        items: Iterable[Value] = value if isinstance(value, tuple) else _listed(value)
        texts = [choice for item in items for choice in spread(item)]
        if texts and all(isinstance(text, str) and text for text in texts):
            found.append(tuple(map(str, texts)))
    return found


def _listed(value: Value) -> list[Value]:
    """The items of a list that is written as JSON, as inputs have them; else the value alone."""
    try:
        read = json.loads(value) if isinstance(value, str) and value.startswith("[") else None
    except ValueError:
        read = None
    return list(read) if isinstance(read, list) and read else [value]
