"""The machines that workflows ask for: their labels, and what those seem to mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from runci.adopt.hardware import AMD, CPU, CUDA, GPU, has_model, words_mean
from runci.core.labels import Group, Label
from runci.core.registration import Backend
from runci.read.yamlpos import Node
from runci.text.yaml import quoted
from runci.workflows.model import Document, combinations, value_of
from runci.workflows.starts import is_hosted
from runci.workflows.values import Value, spread

_KINDS = {CUDA: Backend.CUDA, AMD: Backend.AMD, GPU: Backend.CUDA, CPU: Backend.CPU}
_COUNT = re.compile(r"(?<!\d)(\d{1,2})x?[-_]?gpus?\b|\bgpus?[-_]?(\d{1,2})(?!\d)", re.IGNORECASE)
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
        return re.sub(r"[^A-Za-z0-9._-]+", "-", self.label).strip("-._") or "gpu"


def machine_of(
    labels: tuple[str, ...], jobs: tuple[tuple[str, str], ...] = (), group: str = ""
) -> Machine:
    """What labels and a group seem to mean; a model or vendor tells more than «gpu»."""
    names = (*labels, *([group] if group else []))
    means = {name: words_mean(name) for name in names}
    kind = next((kind for kind in (CUDA, AMD, GPU, CPU) if kind in means.values()), None)
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
    for document in documents.values():
        for job, node in document.jobs.items():
            for runner in _self_hosted(node, document.path):
                jobs.setdefault(runner, set()).add((document.path, job))
    made = [machine_of(labels, tuple(sorted(on)), group) for (labels, group), on in jobs.items()]
    return tuple(sorted(made, key=lambda one: (-len(one.jobs), one.labels, one.group)))


def unknown_machines(documents: Mapping[str, Document]) -> tuple[tuple[str, str], ...]:
    """Jobs whose runner only a run knows, as (workflow, job)."""
    return tuple(
        (document.path, job)
        for document in documents.values()
        for job, node in document.jobs.items()
        if (on := node.get("runs-on")) is not None
        and not any(_lists(node, document.path))
        and not all(is_hosted(on, c, ()) for c in _contexts(node, document.path))
    )


def _contexts(job: Node, path: str) -> list[dict[str, Value]]:
    return [{"matrix": bound.values} for bound in combinations(job, {}, path)]


def _self_hosted(job: Node, path: str) -> Iterator[_Runner]:
    for contexts in _contexts(job, path):
        if not is_hosted(job.get("runs-on"), contexts, ()):
            yield from _known(job.get("runs-on"), contexts)


def _lists(job: Node, path: str) -> Iterator[_Runner]:
    for contexts in _contexts(job, path):
        yield from _known(job.get("runs-on"), contexts)


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
        items: Iterable[Value] = value if isinstance(value, tuple) else (value,)
        texts = [choice for item in items for choice in spread(item)]
        if texts and all(isinstance(text, str) and text for text in texts):
            found.append(tuple(map(str, texts)))
    return found
