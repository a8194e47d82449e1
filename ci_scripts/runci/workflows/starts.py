"""Which jobs can start, on an event that a stranger can cause, while no gate said yes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from runci.core.labels import Label, read_label
from runci.read.yamlpos import Node
from runci.workflows.conditions import (
    ANY_END,
    FAILURE,
    IDLE,
    SUCCESS,
    Outcome,
    Outcomes,
    condition,
    ends,
    one_of,
    stranger_context,
    stranger_events,
)
from runci.workflows.gates import Gates, steering
from runci.workflows.model import (
    Document,
    called_by,
    combinations,
    mapping_at,
    needs_of,
    text_of_node,
    value_of,
)
from runci.workflows.outputs import as_texts, given_inputs, job_outputs
from runci.workflows.search import CANCELLED_RUN, EARLIER_ATTEMPT, Before, Job, reaching
from runci.workflows.trust import doubts
from runci.workflows.values import Contexts, Value, bounded, one, spread, truth
from runci.workflows.walk import MAX_CALLS

_VERSION = r"(latest|\d+(\.\d+)?)"
_STANDARD = re.compile(
    rf"ubuntu-slim|ubuntu-{_VERSION}(-arm)?|windows-{_VERSION}(-arm|-vs\d+)?"
    rf"|macos-{_VERSION}(-large|-xlarge|-intel)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Start:
    """A job away from GitHub's machines that can start. `why` is the assignment, callers first.

    `runs_on` is None where the job calls a workflow that cannot be read.
    """

    document: Document
    job: str
    node: Node
    event: str
    runs_on: Node | None
    why: tuple[str, ...]
    callers: tuple[str, ...] = ()  # the workflow that the event starts, then the calling jobs

    @property
    def needs_cancelling(self) -> bool:
        """Whether only a run that is cancelled gets there."""
        return any(text.startswith(CANCELLED_RUN) for text in self.why)

    @property
    def needs_rerun(self) -> bool:
        """Whether it takes a re-run, by somebody with write access, of an attempt that was."""
        return any(text.startswith(EARLIER_ATTEMPT) for text in self.why)


def starts(
    documents: Mapping[str, Document], gates: Gates, hosted: tuple[str, ...]
) -> Iterator[Start]:
    """Every such job of every workflow, once an event; the first way to it."""
    for document in documents.values():
        for event in stranger_events(document) if document.jobs else ():
            explorer = _Explorer(documents, gates, hosted, event)
            contexts = {"github": stranger_context(document, event), "inputs": {}}
            explorer.workflow(document, contexts, _Way())
            yield from explorer.found


@dataclass(frozen=True, slots=True)
class _Way:
    """The callers above a workflow: their files, their jobs, and why each of them starts."""

    paths: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    why: tuple[str, ...] = ()


@dataclass
class _Workflow:
    """One workflow with its inputs bound; `known` fills up job by job."""

    document: Document
    contexts: Contexts
    way: _Way
    jobs: Mapping[str, Node]
    known: dict[str, Job] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)

    def needs(self, job: str) -> tuple[str, ...]:
        """The ids of the jobs that a job needs; ids ignore case."""
        wanted = [name.lower() for name in needs_of(self.jobs[job])]
        return tuple(known for known in self.jobs if known.lower() in wanted)


class _Explorer:
    def __init__(
        self,
        documents: Mapping[str, Document],
        gates: Gates,
        hosted: tuple[str, ...],
        event: str,
    ) -> None:
        self._documents, self._gates = documents, gates
        self._hosted, self._event = hosted, event
        self._known: dict[tuple[str, str], dict[str, Outcomes]] = {}
        self.found: list[Start] = []

    def workflow(self, document: Document, contexts: Contexts, way: _Way) -> dict[str, Outcomes]:
        """The ends of all jobs of a workflow; adds what can start to `found`."""
        key = (document.path, repr(contexts["inputs"]))
        if key not in self._known:
            way = _Way((*way.paths, document.path), way.jobs, way.why)
            here = _Workflow(document, contexts, way, document.jobs)
            for job in here.jobs:
                self._job(here, job)
            self._known[key] = {job: known.ends for job, known in here.known.items()}
        return self._known[key]

    def _job(self, here: _Workflow, job: str) -> None:
        """Add what is known of a job, after all that it waits for."""
        if job in here.known:
            return
        if job in here.waiting:
            here.known[job] = Job(ANY_END)  # jobs in a circle: GitHub refuses the workflow
            return
        here.waiting.append(job)
        needs = here.needs(job)
        for name in needs:
            self._job(here, name)
        here.waiting.pop()
        if job in here.known:
            return  # it waits for itself
        node = here.jobs[job]
        before = Before(needs, here.known)
        holds = condition(node.get("if"))
        why = reaching(holds, before, here.contexts)
        found = IDLE if why is None else self._started(here, job, before, why)
        here.known[job] = Job(found, holds, needs, self._may_be_empty(node))

    def _may_be_empty(self, node: Node) -> bool:
        """Whether a job can be skipped although its condition holds."""
        if node.get("strategy", "matrix") is not None or node.get("uses") is None:
            return node.get("strategy", "matrix") is not None
        called = called_by(node, self._documents)
        if called is None:
            return True
        jobs = called.jobs.values()
        return not any(job.get("if") is None and job.get("needs") is None for job in jobs)

    def _started(self, here: _Workflow, job: str, before: Before, why: list[str]) -> Outcomes:
        node = here.jobs[job]
        needs = {name: one_of(here.known[name].ends) for name in before.needs}
        contexts = {**here.contexts, "needs": needs}
        way = _Way(here.way.paths, (*here.way.jobs, job), (*here.way.why, *_of(job, why, here.way)))
        if node.get("uses") is not None:
            return self._called(here, job, contexts, way)
        matrices = [
            {**contexts, "matrix": bound.values}
            for bound in combinations(node, contexts, here.document.path)
        ] or [contexts]
        runs_on = node.get("runs-on")
        held = self._gates.is_environment(node)
        if not held and not all(is_hosted(runs_on, each, self._hosted) for each in matrices):
            self._add(here, job, runs_on or node, way)
        if held:
            return (*IDLE, Outcome(FAILURE))  # nobody approved it
        outputs = job_outputs(node, matrices, self._documents, self._counting(here, node, contexts))
        tolerant = node.get("continue-on-error")
        may_fail = tolerant is not None and truth(value_of(tolerant, contexts)) is not False
        return ends(outputs, may_fail)

    def _counting(self, here: _Workflow, node: Node, contexts: Contexts) -> Gates:
        """What counts as a gate in a job: nothing where another program may answer."""
        steered = steering(here.document.root) or steering(node)
        if steered or doubts(here.document, node, contexts, self._documents, self._gates):
            return replace(self._gates, patterns=(), actions=frozenset())
        return self._gates

    def _called(self, here: _Workflow, job: str, contexts: Contexts, way: _Way) -> Outcomes:
        node = here.jobs[job]
        is_gate = self._gates.is_call(text_of_node(node.get("uses")))
        called = called_by(node, self._documents)
        if called is None or called.path in here.way.paths or len(here.way.paths) >= MAX_CALLS:
            if not is_gate:
                self._add(here, job, None, way)
            found = ANY_END
        else:
            outputs: dict[str, list[Value]] = {}
            for bound in combinations(node, contexts, here.document.path):
                inside = {**contexts, "matrix": bound.values}
                inputs = given_inputs(node, called, inside)
                scope = {"github": here.contexts["github"], "inputs": inputs}
                jobs = self.workflow(called, scope, way)
                for name, values in _declared_outputs(called, scope, jobs).items():
                    outputs.setdefault(name, []).extend(spread(values))
            found = ends({name: one(bounded(v)) for name, v in outputs.items()}, tolerant=True)
        return tuple(o for o in found if not (is_gate and o.result == SUCCESS))

    def _add(self, here: _Workflow, job: str, runs_on: Node | None, way: _Way) -> None:
        node, callers = here.jobs[job], (way.paths[0], *way.jobs[:-1]) if way.jobs[1:] else ()
        self.found.append(Start(here.document, job, node, self._event, runs_on, way.why, callers))


def _of(job: str, why: list[str], way: _Way) -> list[str]:
    """The assignment of one job; behind callers, with the job it belongs to."""
    return [f"{text} ({job})" if way.jobs else text for text in why]


def _declared_outputs(
    called: Document, scope: Contexts, jobs: Mapping[str, Outcomes]
) -> dict[str, Value]:
    """What the `outputs` of a called workflow can be."""
    inner: dict[str, Value] = {name: one_of(found) for name, found in jobs.items()}
    declared = mapping_at(called.root, "on", "workflow_call", "outputs")
    known = {**scope, "jobs": inner}
    return {
        name: one(as_texts(spread(value_of(value, known))))
        for name, node in declared.items()
        if (value := node.get("value")) is not None
    }


def is_hosted(node: Node | None, contexts: Contexts, hosted: tuple[str, ...]) -> bool:
    """Whether `runs-on` can only mean GitHub's own runners; a runner group never does.

    The `false` that `a && 'x' || b && 'y'` also can be is no label: such a job starts nowhere.
    """
    if node is None or isinstance(node.value, dict):
        return False
    known = frozenset(label.lower() for label in hosted)
    labels = [value for value in spread(value_of(node, contexts)) if value is not False]
    return bool(labels) and all(_all_hosted(value, known) for value in labels)


def _all_hosted(value: Value, known: frozenset[str]) -> bool:
    if isinstance(value, tuple):
        # A job runs where all labels are: one that is not GitHub's is enough to leave GitHub.
        return bool(value) and all(_all_hosted(v, known) for item in value for v in spread(item))
    if not isinstance(value, str):
        return False
    return value.lower() in known or _STANDARD.fullmatch(value) is not None


def only_hosted(job: Node, document: Document, hosted: tuple[str, ...]) -> bool:
    """Whether every job that a matrix makes of this one runs on GitHub's own runners."""
    matrices = [{"matrix": bound.values} for bound in combinations(job, {}, document.path)]
    return all(is_hosted(job.get("runs-on"), each, hosted) for each in matrices)


def asked_labels(value: Value) -> tuple[Label, ...]:
    """Everything that `runs-on` can be; none where one is not known."""
    found = [read_label(choice) for choice in spread(value)]
    known = [label for label in found if label is not None]
    return tuple(known) if len(known) == len(found) else ()


def shown(node: Node | None) -> str:
    """`runs-on` as a message quotes it."""
    if node is None:
        return "none"
    plain = node.plain()
    if isinstance(plain, list):
        return "[" + ", ".join(map(str, plain)) + "]"
    if isinstance(plain, dict):
        return "{" + ", ".join(f"{key}: {value}" for key, value in plain.items()) + "}"
    return " ".join(str(plain).split())
