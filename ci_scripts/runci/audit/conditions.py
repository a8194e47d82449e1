"""The `if:` of a job as an expression, with what GitHub adds to it, and what it reads."""

from __future__ import annotations

from collections.abc import Iterator

from runci.workflows import expressions as syntax
from runci.workflows.expressions import Expression, ExpressionError, Literal, parse, split
from runci.workflows.functions import STATUS
from runci.workflows.values import text_of
from runci.yamlpos import Node

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
    texts = [f"{{{i}}}" if p.expression else _escaped(p.text) for i, p in enumerate(pieces)]
    return syntax.Call("format", (Literal("".join(texts)), *(_piece(p) for p in pieces)))


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _piece(piece: syntax.Piece) -> Expression:
    return parse(piece.text) if piece.expression else Literal(piece.text)


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
