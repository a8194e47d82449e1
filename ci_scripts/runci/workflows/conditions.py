"""The `if:` of a job, what it reads, and how the jobs before it can have ended."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from runci.read.yamlpos import Node
from runci.workflows import expressions as syntax
from runci.workflows.evaluate import STATUS
from runci.workflows.expressions import Expression, ExpressionError, Literal, parse, split
from runci.workflows.model import Document, text_of_node
from runci.workflows.values import OneOf, Partial, Unknown, Value, one, spread, text_of

# Events that need write access to the repository, or a token of somebody who has it. Any other
# event, also one that is not known here, is one that a stranger can cause.
TRUSTED = frozenset(
    {
        "branch_protection_rule",
        "create",
        "delete",
        "deployment",
        "deployment_status",
        "label",
        "merge_group",
        "milestone",
        "page_build",
        "public",
        "push",
        "registry_package",
        "release",
        "repository_dispatch",
        "schedule",
        "workflow_dispatch",
    }
)
PULL_REQUEST = ("pull_request", "pull_request_review", "pull_request_review_comment")
_DEFAULT_TYPES = ("opened", "synchronize", "reopened")
MAX_VARIANTS = 8  # combinations of outputs that are looked at one by one
SUCCESS, FAILURE, CANCELLED, SKIPPED = "success", "failure", "cancelled", "skipped"

_SUCCESS = syntax.Call("success", ())


def condition(node: Node | None) -> Expression | None:
    """What decides whether a job or step runs; None where the text is no expression.

    GitHub adds `success() &&` unless a status function stands anywhere in the text.
    """
    if node is None or node.value is None or node.value == "":
        return _SUCCESS
    try:
        found = _written(node)
    except (ExpressionError, RecursionError):
        return None
    if any(isinstance(part, syntax.Call) and part.name in STATUS for part in parts(found)):
        return found
    return syntax.Binary("&&", _SUCCESS, found)


def _written(node: Node) -> Expression:
    if not isinstance(node.value, str):
        if isinstance(node.value, (bool, int, float)):
            return Literal(node.value)
        raise ExpressionError("a list or mapping is no condition")
    pieces = split(node.value)
    if len(pieces) == 1:
        return parse(pieces[0].text)
    # Text around an expression, be it a line end, makes one text of it all, which is always true.
    template = ""
    values: list[Expression] = []
    for index, (text, is_expression) in enumerate(pieces):
        template += f"{{{index}}}" if is_expression else text.replace("{", "{{").replace("}", "}}")
        values.append(parse(text) if is_expression else Literal(text))
    return syntax.Call("format", (Literal(template), *values))


def parts(expression: Expression) -> Iterator[Expression]:
    """The expression and everything in it."""
    yield expression
    for part in below(expression):
        yield from parts(part)


def below(expression: Expression) -> tuple[Expression, ...]:
    """What an expression consists of."""
    match expression:
        case syntax.Access(of, key):
            return (of, key)
        case syntax.Star(of):
            return (of,)
        case syntax.Call(_, arguments):
            return arguments
        case syntax.Not(operand):
            return (operand,)
        case syntax.Binary(_, left, right):
            return (left, right)
    return ()


def references(expression: Expression) -> Iterator[Expression]:
    """What the expression reads by name: whole `context.key.key` chains, and status functions."""
    match expression:
        case syntax.Access(of, Literal()) if _is_chain(of):
            yield expression
        case syntax.Call(name, ()) if name in STATUS and name != "always":
            yield expression
        case _:
            for part in below(expression):
                yield from references(part)


def _is_chain(expression: Expression) -> bool:
    while isinstance(expression, syntax.Access) and isinstance(expression.key, Literal):
        expression = expression.of
    return isinstance(expression, syntax.Name)


def needs_read(expression: Expression) -> frozenset[str] | None:
    """The jobs, in lower case, whose `needs.JOB` is read; None where it can be any of them."""
    whole = sum(part == syntax.Name("needs") for part in parts(expression))
    named = [
        text_of(part.key.value).lower()
        for part in parts(expression)
        if isinstance(part, syntax.Access)
        and part.of == syntax.Name("needs")
        and isinstance(part.key, Literal)
    ]
    return frozenset(named) if whole == len(named) else None


def asks_status(expression: Expression) -> bool:
    """Whether the ends of all jobs before decide, by `success()` or `failure()`."""
    calls = (part for part in parts(expression) if isinstance(part, syntax.Call))
    return any(call.name in ("success", "failure") for call in calls)


def shown(expression: Expression) -> str:
    """The expression as text."""
    match expression:
        case Literal(value):
            if isinstance(value, str):
                return "'" + value.replace("'", "''") + "'"
            return "null" if value is None else text_of(value)
        case syntax.Name(name):
            return name
        case syntax.Access(of, Literal(str(key))):
            return f"{shown(of)}.{key}"
        case syntax.Access(of, key):
            return f"{shown(of)}[{shown(key)}]"
        case syntax.Star(of):
            return f"{shown(of)}.*"
        case syntax.Call(name, arguments):
            return f"{name}({', '.join(map(shown, arguments))})"
        case syntax.Not(operand):
            return f"!{_grouped(operand)}"
        case syntax.Binary(symbol, left, right):
            return f"{_grouped(left)} {symbol} {_grouped(right)}"


def _grouped(expression: Expression) -> str:
    text = shown(expression)
    return f"({text})" if isinstance(expression, syntax.Binary) else text


def stranger_events(document: Document) -> tuple[str, ...]:
    """The events of a workflow that need no write access."""
    return tuple(e for e in document.triggers if e not in TRUSTED and e != "workflow_call")


def github_context(document: Document, event: str) -> Partial:
    """`github` as far as the event alone decides it."""
    types = _types(document, event)
    payload = Partial({"inputs": None})
    if types:
        payload["action"] = one(types)
    known: dict[str, Value] = {"event_name": event, "event": payload}
    if event in PULL_REQUEST and types and "closed" not in types:
        # Once merged, a closed pull request runs on the base branch.
        known |= {"ref": Unknown("refs/pull/*"), "ref_name": Unknown("*/merge")}
    return Partial(known)


def stranger_context(document: Document, event: str) -> Partial:
    """`github` while somebody without write access causes the event with code of their own.

    A branch of this repository, and a pull request that was merged, are code of those with write
    access: what only happens for them is left out.
    """
    ours, theirs = Unknown(of="this repository"), Unknown(of="another repository")
    names = ("full_name", "id", "node_id", "url", "html_url", "clone_url", "ssh_url", "git_url")
    here, fork = (Partial(dict.fromkeys(names, value)) for value in (ours, theirs))
    payload = Partial({"inputs": None, "repository": here})
    if event in PULL_REQUEST or event == "pull_request_target":
        merged: dict[str, Value] = {"merged": False, "merged_at": None, "merged_by": None}
        sides = {"head": Partial({"repo": fork}), "base": Partial({"repo": here})}
        payload["pull_request"] = Partial({**merged, **sides})
    if event == "workflow_run":
        payload["workflow_run"] = Partial({"head_repository": fork, "repository": here})
    known = github_context(document, event)
    before = known["event"]
    payload.update(before if isinstance(before, dict) else {})
    return Partial({**known, "event": payload, "repository": ours, "repository_id": ours})


def _types(document: Document, event: str) -> tuple[str, ...]:
    node = document.triggers.get(event)
    given = node.get("types") if node is not None else None
    if given is None:
        return _DEFAULT_TYPES if event == "pull_request" else ()
    items = given.items or (given,)
    return tuple(text_of_node(item) for item in items)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One way in which a job can end. `outputs` is empty where the job did not run."""

    result: str
    outputs: Value = field(default_factory=dict)

    def context(self) -> dict[str, Value]:
        """What `needs.JOB` or `jobs.JOB` is."""
        return {"result": self.result, "outputs": self.outputs}


Outcomes = tuple[Outcome, ...]

# A job that does not start; a run that is cancelled ends waiting jobs, too.
IDLE: Outcomes = (Outcome(SKIPPED), Outcome(CANCELLED))
ANY_END: Outcomes = (
    *IDLE,
    *(Outcome(result, Unknown()) for result in (SUCCESS, FAILURE, CANCELLED)),
)


def one_of(found: Outcomes) -> Value:
    """The ends that a job can have had, as `needs` or `jobs` holds it."""
    return one(tuple(end.context() for end in found))


def ends(outputs: Value, tolerant: bool = False) -> Outcomes:
    """The ways in which a job that may start can end: of one that broke off, outputs may lack.

    `tolerant`: with `continue-on-error`, one that broke off counts as a success.
    """
    broken: Value = outputs
    if isinstance(outputs, dict):
        broken = {key: one(_or_empty(value)) for key, value in outputs.items()}
    whole = broken if tolerant else outputs
    return (Outcome(SUCCESS, whole), Outcome(FAILURE, broken), Outcome(CANCELLED, broken), *IDLE)


def _or_empty(value: Value) -> tuple[Value, ...]:
    values = value.values if isinstance(value, OneOf) else (value,)
    return values if "" in values else (*values, "")


def variants(end: Outcome) -> Outcomes:
    """The same end once for each value of its outputs, where those are few."""
    if not isinstance(end.outputs, dict):
        return (end,)
    choices = [spread(value) for value in end.outputs.values()]
    if math.prod(map(len, choices)) > MAX_VARIANTS:
        return (end,)
    return tuple(
        Outcome(end.result, dict(zip(end.outputs, values, strict=True)))
        for values in itertools.product(*choices)
    )
