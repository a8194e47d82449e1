"""Every script that a workflow can run, and what its expressions can read and be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, replace

from runci.read.yamlpos import Node
from runci.workflows.evaluate import can_hold, render
from runci.workflows.expressions import Access, ExpressionError, Literal, Name, parse, split
from runci.workflows.model import (
    Bound,
    Document,
    Place,
    action_of,
    combinations,
    default_input,
    mapping_at,
    steps_of,
    text_of_node,
    typed_input,
    value_of,
)
from runci.workflows.runs import local_path
from runci.workflows.values import Partial, Unknown, Value, one, text_of

MAX_CALLS = 10  # GitHub's own bound on calls within calls
MAX_WALKS = 5_000  # of one workflow with different inputs
RUNS_ON = "runs-on()"  # where a scope keeps the runner of its job; no context can have the name


@dataclass(frozen=True, slots=True)
class Scope:
    """What expressions can read at one point: contexts, and where their values are written."""

    path: str
    job: str
    contexts: Mapping[str, Value]
    places: Mapping[str, Place]  # such as «inputs.suite»

    def place(self, node: Node) -> Place:
        """Where the value is written: of a lone reference, where what it refers to is written."""
        return self.origin(node.value) or Place(self.path, node.line, self.job)

    def origin(self, text: object) -> Place | None:
        """Where a lone `${{ context.key }}` gets its value from."""
        pieces = split(text) if isinstance(text, str) else ()
        if len(pieces) != 1 or not pieces[0].expression:
            return None
        try:
            found = parse(pieces[0].text)
        except ExpressionError:
            return None
        while isinstance(found, Access) and isinstance(found.of, Access):
            found = found.of  # of `matrix.config.suite` the entry `config`
        match found:
            case Access(Name(context), Literal(str(key))):
                return self.places.get(f"{context}.{key.lower()}")
        return None

    def binding(self, context: str, bound: Bound) -> Scope:
        """The scope with one context replaced."""
        places = {k: p for k, p in self.places.items() if not k.startswith(f"{context}.")}
        places |= {f"{context}.{key}": place for key, place in bound.places.items()}
        return replace(self, contexts={**self.contexts, context: bound.values}, places=places)

    def with_env(self, node: Node) -> Scope:
        """The scope below an `env:` of a workflow, job or step."""
        added = mapping_at(node, "env")
        if not added:
            return self
        known = self.contexts.get("env")
        values = Partial(known if isinstance(known, dict) else {})
        values.update({key: value_of(item, self.contexts) for key, item in added.items()})
        places = {f"env.{key.lower()}": self.place(item) for key, item in added.items()}
        contexts = {**self.contexts, "env": values}
        return replace(self, contexts=contexts, places={**self.places, **places})

    def on_runner(self, name: str, runs_on: Node | None) -> Scope:
        """The scope with what `runs-on` is, kept as `name`."""
        known = value_of(runs_on, self.contexts) if runs_on is not None else Unknown()
        return replace(self, contexts={**self.contexts, name: known})

    def may_run(self, node: Node) -> bool:
        """Whether the `if:` of a job or step can hold."""
        found = node.get("if")
        if found is None or isinstance(found.value, bool):
            return found is None or bool(found.value)
        return can_hold(text_of_node(found), self.contexts)


@dataclass(frozen=True, slots=True)
class Script:
    """A shell script that a step runs or hands on. `directory`: '' is the root, None unknown."""

    node: Node
    scope: Scope
    directory: str | None
    shell: str

    @property
    def text(self) -> str:
        """The script as the workflow has it, expressions included."""
        return text_of_node(self.node)


class Walker:
    """Walks workflows.

    `documents` are those that matter, `there` all files that exist; `wants` says of which texts
    the caller wants the scripts.
    """

    def __init__(
        self, documents: Mapping[str, Document], there: Set[str], wants: Callable[[str], bool]
    ) -> None:
        self._documents = documents
        self._there = there
        self._wants = wants
        self._steps_of: dict[int, tuple[Node, ...]] = {}
        self._seen: set[tuple[str, str]] = set()
        self.problems: set[tuple[str, int, str]] = set()  # path, line, what

    def scripts(self) -> Iterator[Script]:
        """The scripts of all workflows that an event starts."""
        for document in self._documents.values():
            if document.jobs and (started := _started(document)):
                yield from self._workflow(document, started, ())

    def _workflow(
        self, document: Document, scope: Scope, above: tuple[str, ...]
    ) -> Iterator[Script]:
        key = (document.path, repr((scope.contexts.get("inputs"), sorted(scope.places.items()))))
        if document.path in above or len(above) >= MAX_CALLS or key in self._seen:
            return
        if len(self._seen) >= MAX_WALKS:
            self.problems.add((document.path, 1, "called in too many ways to follow them all"))
            return
        self._seen.add(key)
        scope = scope.with_env(document.root)
        for job_id, job in document.jobs.items():
            yield from self._job(document, job, replace(scope, job=job_id), (*above, document.path))

    def _job(
        self, document: Document, job: Node, scope: Scope, above: tuple[str, ...]
    ) -> Iterator[Script]:
        steps = self._steps(job)
        if not (steps or self._calls(job)) or not scope.may_run(job):
            return
        for matrix in combinations(job, scope.contexts, document.path):
            places = {key: place._replace(job=scope.job) for key, place in matrix.places.items()}
            inside = scope.binding("matrix", Bound(matrix.values, places)).with_env(job)
            inside = inside.on_runner(RUNS_ON, job.get("runs-on"))
            if job.get("uses"):
                yield from self._call(job, inside, above)
            defaults = (job.get("defaults", "run"), document.root.get("defaults", "run"))
            for step in steps:
                yield from self._step(step, inside, defaults, above)

    def _calls(self, job: Node) -> bool:
        """Whether a job calls a workflow that matters, or hands a command to one."""
        uses = job.get("uses")
        path = local_path(text_of_node(uses))
        missing = path is not None and path not in self._there
        return uses is not None and (path in self._documents or missing or self._matters(job))

    def _call(self, job: Node, scope: Scope, above: tuple[str, ...]) -> Iterator[Script]:
        yield from self._handed_on(job, scope)
        uses = job.get("uses")
        path = local_path(text_of_node(uses))
        if uses is None or path is None:
            return
        called = self._documents.get(path)
        if path not in self._there:
            problem = f"calls {path}, which is not there: write the file or drop the job"
            self.problems.add((scope.path, uses.line, problem))
        if called is None:
            return
        inputs = _given(job, called, called.declared("on", "workflow_call", "inputs"), scope)
        contexts = {key: scope.contexts[key] for key in ("github",) if key in scope.contexts}
        empty = Scope(called.path, "", {**contexts, "env": Partial()}, {})
        yield from self._workflow(called, empty.binding("inputs", inputs), above)

    def _steps(self, node: Node) -> tuple[Node, ...]:
        """The steps that matter of a job or action."""
        if id(node) not in self._steps_of:
            self._steps_of[id(node)] = tuple(s for s in steps_of(node) if self._matters(s))
        return self._steps_of[id(node)]

    def _matters(self, step: Node) -> bool:
        if action_of(step, self._documents) is not None:
            return True
        return any(self._wants(text_of_node(node)) for node in _texts(step))

    def _step(
        self,
        step: Node,
        scope: Scope,
        defaults: tuple[Node | None, ...],
        above: tuple[str, ...],
    ) -> Iterator[Script]:
        scope = scope.with_env(step)
        if not scope.may_run(step):
            return
        yield from self._handed_on(step, scope)
        run = step.get("run")
        if run is not None and self._wants(text_of_node(run)):
            settings = (step, *(node for node in defaults if node))
            shell = next((text_of_node(s.get("shell")) for s in settings if s.get("shell")), "")
            yield Script(run, scope, _directory(settings, scope), shell)
        action = action_of(step, self._documents)
        if action is None or action.path in above:
            return
        inputs = _given(step, action, action.declared("inputs"), scope)
        inside = replace(scope.binding("inputs", inputs), path=action.path)
        for inner in self._steps(action.root.get("runs") or action.root):
            yield from self._step(inner, inside, (), (*above, action.path))

    def _handed_on(self, node: Node, scope: Scope) -> Iterator[Script]:
        """Commands that a step gives to an action («command:» of a retry action)."""
        for text in _texts(node):
            written = text_of_node(text)
            if text is not node.get("run") and self._wants(written) and not _is_list(written):
                yield Script(text, scope, None, "")


def _is_list(text: str) -> bool:
    """Whether a text is a list as YAML writes it, such as the paths that a filter asks for."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    items = [line for line in lines if line.startswith("- ")]
    others = (line for line in lines if line not in items)
    return bool(items) and all(line.startswith("#") or line.endswith(":") for line in others)


def _texts(node: Node) -> Iterator[Node]:
    """Where a step or call can carry a command."""
    run = node.get("run")
    if run is not None:
        yield run
    for name in ("with", "env"):
        yield from (item for item in mapping_at(node, name).values())


def _directory(settings: tuple[Node, ...], scope: Scope) -> str | None:
    found = (s.get("working-directory") for s in settings)
    node = next((n for n in found if n), None)
    if node is None:
        return ""
    values = render(text_of_node(node), scope.contexts)
    return text_of(values[0]) if len(values) == 1 else None


def _given(caller: Node, called: Document, declared: Mapping[str, Node], scope: Scope) -> Bound:
    """The `inputs` that a `with:` gives, over the defaults."""
    values: dict[str, Value] = {key: default_input(node) for key, node in declared.items()}
    defaults = ((key, node.get("default")) for key, node in declared.items())
    places = {key.lower(): Place(called.path, node.line) for key, node in defaults if node}
    for key, node in mapping_at(caller, "with").items():
        values[key] = value_of(node, scope.contexts)
        places[key.lower()] = scope.place(node)
    return Bound(values, places)


def _started(document: Document) -> Scope | None:
    """The scope of a workflow that an event starts; None where only others call it."""
    events = set(document.triggers) - {"workflow_call"}
    if document.triggers and not events:
        return None
    typed = document.declared("on", "workflow_dispatch", "inputs")
    values: dict[str, Value] = {}
    places: dict[str, Place] = {}
    for key, node in typed.items():
        choices = typed_input(node)
        # Any other event leaves the inputs empty.
        values[key] = one(choices if events == {"workflow_dispatch"} else (None, *choices))
        where = node.get("options") or node.get("default") or node
        places[key.lower()] = Place(document.path, where.line)
    github = Partial({"event": Partial({"inputs": values})})
    contexts: dict[str, Value] = {"inputs": values, "github": github, "env": Partial()}
    return Scope(document.path, "", contexts, {f"inputs.{k}": p for k, p in places.items()})
