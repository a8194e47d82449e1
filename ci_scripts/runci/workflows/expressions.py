"""GitHub's expression language, as a syntax tree: `${{ inputs.suite || 'nightly' }}`.

Grammar: https://docs.github.com/en/actions/reference/workflows-and-actions/expressions
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, NoReturn, TypeAlias

from runci.core.errors import RunciError
from runci.workflows.values import number

MAX_DEPTH = 50  # GitHub's own bound on nesting


@dataclass(frozen=True, slots=True)
class Literal:
    """null, a boolean, a number or a string."""

    value: None | bool | float | str


@dataclass(frozen=True, slots=True)
class Name:
    """A context (`inputs`), in lower case: names ignore case."""

    name: str


@dataclass(frozen=True, slots=True)
class Access:
    """`of.key` (the key a string literal) or `of[key]`."""

    of: Expression
    key: Expression


@dataclass(frozen=True, slots=True)
class Star:
    """`of.*`: all values of an object or array."""

    of: Expression


@dataclass(frozen=True, slots=True)
class Call:
    """A function, its name in lower case."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """`!operand`."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary:
    """`left operator right`, the operator one of || && == != < <= > >=."""

    operator: str
    left: Expression
    right: Expression


Expression: TypeAlias = Literal | Name | Access | Star | Call | Not | Binary


class ExpressionError(RunciError):
    """An expression that GitHub would refuse."""


class _Token(NamedTuple):
    kind: str
    text: str
    column: int


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>'(?:[^']|'')*')
    | (?P<number>[-+]?(?:0x[0-9a-fA-F]+|0o[0-7]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|Infinity\b))
    | (?P<word>[A-Za-z_][A-Za-z0-9_-]*)
    | (?P<operator>&&|\|\||==|!=|<=|>=|[<>!()\[\].,*])
    | (?P<end>$)
    )""",
    re.VERBOSE,
)
# How tightly each binds; all are left-associative.
_LEVELS = {"||": 0, "&&": 1, "==": 2, "!=": 2, "<": 3, "<=": 3, ">": 3, ">=": 3}
_WORDS: dict[str, None | bool | float] = {
    "null": None,
    "true": True,
    "false": False,
    "NaN": float("nan"),
    "Infinity": float("inf"),
}


@lru_cache(maxsize=4096)
def parse(text: str) -> Expression:
    """The syntax tree of what stands between `${{` and `}}`. Raises ExpressionError."""
    return _Parser(text).whole()


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while True:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise ExpressionError(f"cannot read {text!r} at column {position + 1}")
        yield _Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup) + 1)
        if match.lastgroup == "end":
            return
        position = match.end()


class _Parser:
    """Recursive descent; one token ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._rest = _tokens(text)
        self._next = next(self._rest)
        self._depth = 0

    def whole(self) -> Expression:
        found = self._binary(0)
        if self._next.kind != "end":
            self._fail("an operator or the end")
        return found

    def _fail(self, expected: str) -> NoReturn:
        token = self._next
        shown = repr(token.text) if token.text else "the end"
        problem = f"expected {expected}, found {shown} at column {token.column} of {self._text!r}"
        raise ExpressionError(problem)

    def _take(self) -> _Token:
        token = self._next
        if token.kind != "end":
            self._next = next(self._rest)
        return token

    def _takes(self, *operators: str) -> str | None:
        if self._next.kind == "operator" and self._next.text in operators:
            return self._take().text
        return None

    def _expect(self, operator: str) -> None:
        if not self._takes(operator):
            self._fail(repr(operator))

    def _binary(self, loosest: int) -> Expression:
        left = self._unary()
        while (level := _LEVELS.get(self._next.text, -1)) >= loosest:
            left = Binary(self._take().text, left, self._binary(level + 1))
        return left

    def _unary(self) -> Expression:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ExpressionError(f"nested more than {MAX_DEPTH} deep: {self._text[:40]!r}…")
        found = Not(self._unary()) if self._takes("!") else self._postfix(self._primary())
        self._depth -= 1
        return found

    def _primary(self) -> Expression:
        if self._takes("("):
            inner = self._binary(0)
            self._expect(")")
            return inner
        if self._next.kind == "string":
            return Literal(self._take().text[1:-1].replace("''", "'"))
        if self._next.kind == "number":
            return Literal(number(self._take().text))
        if self._next.kind != "word":
            self._fail("a value")
        word = self._take().text
        if word in _WORDS:
            return Literal(_WORDS[word])
        return self._call(word.lower()) if self._takes("(") else Name(word.lower())

    def _call(self, name: str) -> Call:
        arguments: list[Expression] = []
        if self._takes(")"):
            return Call(name, ())
        while True:
            arguments.append(self._binary(0))
            if self._takes(")"):
                return Call(name, tuple(arguments))
            self._expect(",")

    def _postfix(self, found: Expression) -> Expression:
        while opened := self._takes(".", "["):
            if self._takes("*"):
                found = Star(found)
            elif opened == "[":
                found = Access(found, self._binary(0))
            elif self._next.kind == "word":
                found = Access(found, Literal(self._take().text))
            else:
                self._fail("a property name")
            if opened == "[":
                self._expect("]")
        return found


class Piece(NamedTuple):
    """A part of a template: literal text, or the inside of `${{ }}`."""

    text: str
    expression: bool


_OPENING = "${{"
_INSIDE = re.compile(r"(?:'[^']*'|[^'}]|\}(?!\}))*\}\}")


def end_of_expression(text: str, start: int) -> int:
    """The index behind the `}}` that closes the `${{` at `start`; -1 where none does."""
    match = _INSIDE.match(text, start + len(_OPENING))
    return match.end() if match else -1


@lru_cache(maxsize=4096)
def split(text: str) -> tuple[Piece, ...]:
    """Literal text and expressions, in order; an unclosed `${{` stays text."""
    pieces: list[Piece] = []
    done = 0
    while (start := text.find(_OPENING, done)) >= 0:
        end = end_of_expression(text, start)
        if end < 0:
            break
        if start > done:
            pieces.append(Piece(text[done:start], False))
        pieces.append(Piece(text[start + len(_OPENING) : end - 2].strip(), True))
        done = end
    if done < len(text):
        pieces.append(Piece(text[done:], False))
    return tuple(pieces)
