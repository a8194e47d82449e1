"""Where a job runs: on GitHub's own machines, or somewhere that cannot be known to be one."""

from __future__ import annotations

import re

from runci.workflows.model import value_of
from runci.workflows.values import Contexts, Value, spread, text_of
from runci.yamlpos import Node

_VERSION = r"(latest|\d+(\.\d+)?)"
_STANDARD = re.compile(
    rf"ubuntu-slim|ubuntu-{_VERSION}(-arm)?|windows-{_VERSION}(-arm|-vs\d+)?"
    rf"|macos-{_VERSION}(-large|-xlarge|-intel)?",
    re.IGNORECASE,
)


def is_hosted(node: Node | None, contexts: Contexts, hosted: tuple[str, ...]) -> bool:
    """Whether `runs-on` can only mean GitHub's own runners; a runner group never does."""
    if node is None or isinstance(node.value, dict):
        return False
    known = frozenset(label.lower() for label in hosted)
    return all(_all_hosted(value, known) for value in spread(value_of(node, contexts)))


def _all_hosted(value: Value, known: frozenset[str]) -> bool:
    if isinstance(value, tuple):
        # A job runs where all labels are: one that is not GitHub's is enough to leave GitHub.
        return bool(value) and all(_all_hosted(v, known) for item in value for v in spread(item))
    if not isinstance(value, str):
        return False
    return value.lower() in known or _STANDARD.fullmatch(value) is not None


def label_lists(value: Value) -> tuple[tuple[str, ...], ...]:
    """Every list of labels, in lower case, that `runs-on` can be; none where one is not known."""
    found: list[tuple[str, ...]] = []
    for choice in spread(value):
        items = choice if isinstance(choice, tuple) else (choice,)
        if not all(isinstance(item, str) for item in items):
            return ()
        found.append(tuple(text_of(item).lower() for item in items))
    return tuple(found)


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
