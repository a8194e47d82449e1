"""Whose a value is: the repository's own, or chosen by whoever causes the event."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from runci.read.yamlpos import Node
from runci.workflows.conditions import parts, references, shown
from runci.workflows.evaluate import evaluate
from runci.workflows.expressions import Call, ExpressionError, Name, parse, split
from runci.workflows.model import mapping_at, text_of_node, value_of
from runci.workflows.values import (
    UNKNOWN,
    Choices,
    Contexts,
    OneOf,
    Partial,
    Unknown,
    Value,
    is_known,
    spread,
    text_of,
)

OURS = "ours"  # stands for a value that is not known, but not a stranger's

# What nobody outside chooses. The commit and the ref of an event are the pull request's.
_OWN = re.compile(
    r"(secrets|vars|runner)\..+|github\.(token|repository(_id|_owner|_owner_id)?|workflow|job"
    r"|run_(id|number|attempt)|(server|api|graphql)_url|workspace|action_path|base_ref|event_name"
    r"|event\.(action|number|(repository|organization|installation)\..+"
    r"|(pull_request|issue)\.(number|id|base\..+)))"
)
_COMMIT = re.compile(r"github\.(sha|ref|ref_name)")
# Without a choice of its own a job gets the default branch's commit on these.
_ON_DEFAULT = frozenset(
    {
        "check_run",
        "check_suite",
        "discussion",
        "discussion_comment",
        "fork",
        "gollum",
        "issue_comment",
        "issues",
        "pull_request_target",
        "status",
        "watch",
        "workflow_run",
    }
)
# A variable that nobody set; and what GitHub has, but neither act nor GitHub Enterprise Server.
_ABSENT = re.compile(r"(vars|secrets)\.[^.]+|job\.workflow_[a-z]+")
_FOREIGN_VARIABLES = frozenset(
    {"GITHUB_EVENT_PATH", "GITHUB_HEAD_REF", "GITHUB_REF", "GITHUB_REF_NAME", "GITHUB_SHA"}
)


def runs_own_commit(contexts: Contexts) -> bool:
    """Whether the event's commit is one of the repository's own branches."""
    return _event(contexts) in _ON_DEFAULT


def _event(contexts: Contexts) -> str:
    github = contexts.get("github")
    return text_of(github.get("event_name")) if isinstance(github, dict) else ""


def is_ours(text: str, contexts: Contexts) -> bool:
    """Whether no part of a template is chosen by whoever causes the event."""
    return all(_is_own(p.text, contexts) for p in split(text) if p.expression)


def _is_own(text: str, contexts: Contexts) -> bool:
    try:
        expression = parse(text)
    except (ExpressionError, RecursionError):
        return False
    if all(map(is_known, evaluate(expression, contexts))):
        return True
    named = [shown(part).lower() for part in references(expression) if not isinstance(part, Call)]
    if len(named) != sum(isinstance(part, Name) for part in parts(expression)):
        return False  # a whole context, or a key that is computed
    return all(_is_own_name(name, contexts) for name in named)


def _is_own_name(name: str, contexts: Contexts) -> bool:
    if _OWN.fullmatch(name) or (_COMMIT.fullmatch(name) and runs_own_commit(contexts)):
        return True
    return all(map(is_known, evaluate(parse(name), contexts)))


def perhaps_empty(node: Node, contexts: Contexts) -> Choices:
    """The values of a node, with '' among them where what it names may not be there.

    Without blanks around them, which no action is given.
    """
    known: Value = Partial(contexts)
    for piece in split(text_of_node(node)):
        try:
            named = [*map(shown, references(parse(piece.text)))] if piece.expression else []
        except (ExpressionError, RecursionError):
            named = []
        for name in (name.lower() for name in named):
            if _ABSENT.fullmatch(name):
                known = _with(known, name.split("."), OneOf(("", Unknown())))
            elif name.startswith("github.") and evaluate(parse(name), contexts) == UNKNOWN:
                known = _with(known, name.split("."), Unknown("?*"))  # an event has its parts
    values = spread(value_of(node, known if isinstance(known, dict) else contexts))
    return tuple(value.strip() if isinstance(value, str) else value for value in values)


def _with(known: Value, path: Sequence[str], value: Value) -> Value:
    """An object with another value below a path of keys."""
    if not path:
        return value
    there = known if isinstance(known, dict) else Partial()
    return Partial({**there, path[0]: _with(there.get(path[0]), path[1:], value)})


def own_inputs(
    inputs: Mapping[str, Value], given: Mapping[str, Node], contexts: Contexts
) -> dict[str, Value]:
    """Inputs of an action; one that is not known, but ours, becomes `OURS`."""
    texts = {name.lower(): text_of_node(node) for name, node in given.items()}
    return {
        name: OURS
        if not all(map(is_known, spread(value)))
        and is_ours(texts.get(name.lower(), "${{}}"), contexts)
        else value
        for name, value in inputs.items()
    }


def foreign_variables(nodes: Iterable[Node], contexts: Contexts) -> frozenset[str]:
    """The environment variables whose text a stranger chooses. `nodes` have an `env:`."""
    found = set() if runs_own_commit(contexts) else set(_FOREIGN_VARIABLES)
    found |= {"GITHUB_EVENT_PATH", "GITHUB_HEAD_REF"}
    for node in nodes:
        for name, value in mapping_at(node, "env").items():
            if is_ours(text_of_node(value), contexts):
                found.discard(name)
            else:
                found.add(name)
    return frozenset(found)


def mentions(text: str, variables: Iterable[str]) -> bool:
    """Whether a text of a script reads one of the variables."""
    return any(re.search(rf"\$\{{?(env:)?{re.escape(name)}\b", text) for name in variables)
