"""What a shell word can be: `$X`, `${X:-y}` and `${{ … }}` replaced by what is known.

`$env:X` is the same in PowerShell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from runci.workflows.evaluate import evaluate_text
from runci.workflows.expressions import split
from runci.workflows.shell import UNKNOWN_TEXT
from runci.workflows.values import (
    UNKNOWN,
    Choices,
    Contexts,
    bounded,
    flat,
    joined,
    spread,
    text_of,
    truth,
)

Variables = Mapping[str, Choices]

_SUBSTITUTION = re.compile(r"\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`")
_EXPANSION = re.compile(
    r"""\$\{(?P<braced>\w+)(?:(?P<operator>:?[-=])(?P<default>[^{}]*))?\}
    | \$(?:env:)?(?P<plain>\w+)
    | (?P<other>\$\{[^}]*\}|\$[@*\#?!$-]|\$\(\))""",
    re.VERBOSE,
)
_LONE = re.compile(r"\$\w+|\$\{[^}]*\}|\$[@*]|\$\{\{.*\}\}", re.DOTALL)


def resolve(text: str, contexts: Contexts, variables: Variables) -> Choices:
    """The possible values of a word. `variables` are those that the script has set so far."""
    if "$" not in text and "`" not in text:
        return (text,)
    parts: list[Choices] = []
    for piece in split(_SUBSTITUTION.sub(UNKNOWN_TEXT, text)):
        if piece.expression:
            parts.append(evaluate_text(piece.text, contexts))
        else:
            parts += _expanded(piece.text, contexts, variables)
    return joined(parts)


def is_lone(text: str) -> bool:
    """Whether a word is nothing but one variable or expression, which may hold several words."""
    return _LONE.fullmatch(text) is not None and (text.count("${{") < 2)


def _expanded(text: str, contexts: Contexts, variables: Variables) -> Iterator[Choices]:
    done = 0
    for match in _EXPANSION.finditer(text):
        yield (text[done : match.start()],)
        done = match.end()
        name = match["braced"] or match["plain"]
        default = match["default"] if match["operator"] else None
        yield _variable(name, default, contexts, variables) if name else UNKNOWN
    yield (text[done:],)


def _variable(name: str, default: str | None, contexts: Contexts, variables: Variables) -> Choices:
    env = contexts.get("env")
    known = list(variables.get(name, ()))
    if isinstance(env, dict) and name in env:
        known += spread(env[name])
    instead = () if default is None else resolve(default, contexts, {})
    if not known:
        return instead or UNKNOWN
    if default is None:
        return bounded(known)
    return flat((value,) if truth(text_of(value)) else instead for value in known)
