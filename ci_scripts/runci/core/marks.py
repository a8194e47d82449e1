"""Expressions of pytest marks, such as `gpu and not gpus(2)`: which tests of a file a suite takes.

A mark is text: its name, then constants as Python writes them, `gpus(2)` or `gpus(n=2)`. Arguments
that only a run knows are `gpus(...)`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Sequence
from functools import cache

# What stands before an expression where tests of a file are named: FILE::@EXPRESSION.
SIGN = "@"
UNKNOWN = "..."
Evaluate = Callable[[Collection[str]], "bool | None"]


def mark_text(name: str, args: Sequence[object], kwargs: dict[str, object]) -> str:
    """A mark as text; keyword arguments in the order of their names."""
    given = [*map(repr, args), *(f"{key}={kwargs[key]!r}" for key in sorted(kwargs))]
    return f"{name}({', '.join(given)})" if given else name


@cache
def compiled(expression: str) -> Evaluate:
    """Whether tests with some marks are meant; None where unknown arguments decide.

    `gpu` is every mark of this name, `gpus(2)` the one with these arguments. Raises ValueError,
    which says what is wrong.
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"{expression!r} is no expression of marks") from None
    return _compiled(tree)


def _compiled(node: ast.expr) -> Evaluate:
    if isinstance(node, ast.BoolOp):
        parts = [_compiled(value) for value in node.values]
        return _all(parts) if isinstance(node.op, ast.And) else _any(parts)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _not(_compiled(node.operand))
    if isinstance(node, ast.Name):
        return _named(node.id)
    text = call_text(node)
    if text is None or UNKNOWN in text:
        raise ValueError(
            f"{ast.unparse(node)!r} is neither a mark, such as gpu or gpus(2), nor marks joined by "
            "and, or, not"
        )
    return _exactly(text)


def call_text(node: ast.expr, name: str | None = None) -> str | None:
    """A call as the text of a mark, under another name where one is given; None for no call."""
    if not isinstance(node, ast.Call):
        return None
    called = name or (node.func.id if isinstance(node.func, ast.Name) else None)
    if called is None:
        return None
    try:
        args = [ast.literal_eval(argument) for argument in node.args]
        kwargs = {str(k.arg): ast.literal_eval(k.value) for k in node.keywords if k.arg}
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return f"{called}({UNKNOWN})"
    if len(kwargs) < len(node.keywords):
        return f"{called}({UNKNOWN})"
    return mark_text(called, args, kwargs)


def _named(name: str) -> Evaluate:
    start = f"{name}("
    return lambda marks: any(mark == name or mark.startswith(start) for mark in marks)


def _exactly(text: str) -> Evaluate:
    unknown = f"{text.partition('(')[0]}({UNKNOWN})"
    return lambda marks: True if text in marks else None if unknown in marks else False


def _not(part: Evaluate) -> Evaluate:
    def evaluate(marks: Collection[str]) -> bool | None:
        value = part(marks)
        return None if value is None else not value

    return evaluate


def _all(parts: Sequence[Evaluate]) -> Evaluate:
    def evaluate(marks: Collection[str]) -> bool | None:
        values = [part(marks) for part in parts]
        return False if False in values else None if None in values else True

    return evaluate


def _any(parts: Sequence[Evaluate]) -> Evaluate:
    def evaluate(marks: Collection[str]) -> bool | None:
        values = [part(marks) for part in parts]
        return True if True in values else None if None in values else False

    return evaluate
