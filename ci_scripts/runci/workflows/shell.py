"""The simple commands of a shell script, and what its words can be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from runci.workflows.evaluate import evaluate_text
from runci.workflows.expressions import end_of_expression, split
from runci.workflows.values import (
    MAX_CHOICES,
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

MAX_DEPTH = 20  # of substitutions within substitutions
UNKNOWN_TEXT = "$()"  # a value that only the running script knows
Variables = Mapping[str, Choices]

_KEYWORDS = frozenset(
    ("if", "then", "else", "elif", "do", "while", "until", "!", "time", "{", "}", "exec")
)
_DECLARES = frozenset({"export", "declare", "local", "readonly", "typeset"})
_SHELLS = frozenset({"bash", "sh", "dash", "zsh"})
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_ARRAY = re.compile(r"\A[A-Za-z_]\w*\+?=\Z")
_OPERATOR = re.compile(r"&&|\|[|&]?|;;?&?|[&()]")
_PLAIN = re.compile(r"[^\s'\"\\$`;&|()<>]+")
_QUOTED = re.compile(r"[^\"\\$`]+")

_SUBSTITUTION = re.compile(r"\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`")
_EXPANSION = re.compile(
    r"""\$\{(?P<braced>\w+)(?:\[[@*]\])?(?:(?P<operator>:?[-=])(?P<default>[^{}]*))?\}
    | \$(?:env:)?(?P<plain>\w+)
    | (?P<other>\$\{[^}]*\}|\$[@*\#?!$-]|\$\(\))""",
    re.VERBOSE,
)
_SEQ = re.compile(
    r"\$\(\s*seq((?:\s+-?\d{1,9}){1,3})\s*\)|`\s*seq((?:\s+-?\d{1,9}){1,3})\s*`", re.ASCII
)
_BRACES = re.compile(r"\{(-?\d{1,9})\.\.(-?\d{1,9})\}", re.ASCII)
_LONE = re.compile(r"\$\w+|\$\{[^}]*\}|\$[@*]|\$\{\{.*\}\}", re.DOTALL)


class Word(NamedTuple):
    """One word; `line` counts from 0 at the start of the script; `quoted` if any part was."""

    text: str
    line: int
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command without keywords and leading assignments.

    `assigned` are the variables that it may set, with every value that they may get; `written`
    and `read` the files that its output goes to and its input comes from, which also stand among
    the words; `keywords` stood before it; `after` is the operator behind it, "" at the end of the
    script. `depth` is not 0 in what a substitution holds, or a text that another shell reads.
    """

    words: tuple[Word, ...]
    assigned: tuple[tuple[str, str], ...] = ()
    written: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    after: str = ""
    depth: int = 0
    read: tuple[str, ...] = ()


@lru_cache(maxsize=1024)
def commands(script: str) -> tuple[Command, ...]:
    """The simple commands of a script, in order; those of a substitution before its own."""
    return tuple(_Lexer(script, 0, 0).commands())


def functions(found: Sequence[Command]) -> Iterator[tuple[str, range]]:
    """The functions that a script defines with braces: name, and the commands of the body."""
    for at, command in enumerate(found):
        name, opened = _defined(command)
        if not name:
            continue
        # A substitution in the body's first command stands before that command.
        following = next((c for c in found[at + 1 :] if c.depth == command.depth), None)
        if not (opened or (following and following.keywords[:1] == ("{",))):
            continue
        open_braces = int(opened)
        for end in range(at + 1, len(found)):
            if found[end].depth != command.depth:
                continue
            open_braces += found[end].keywords.count("{")
            open_braces -= found[end].keywords.count("}")
            if open_braces <= 0:
                yield name, range(at + 1, end)
                break


def _defined(command: Command) -> tuple[str, bool]:
    """The name of the function that begins here, and whether its brace is already open."""
    match [word.text for word in command.words]:
        case ["function", name, *rest]:
            return name, rest == ["{"]
        case [name] if command.after == "(":
            return name, False
    return "", False


def _command(words: list[Word], written: tuple[str, ...], after: str, depth: int) -> Command:
    """Take keywords and assignments off the front."""
    start = 0
    while start < len(words) and words[start].text in _KEYWORDS:
        start += 1
    keywords = tuple(word.text for word in words[:start])
    assigned: list[tuple[str, str]] = []
    while start < len(words) and (match := _ASSIGNMENT.fullmatch(words[start].text)):
        assigned.append(_assigned(match))
        start += 1
    rest = tuple(words[start:])
    declared = _declared([word.text for word in rest])
    return Command(rest, (*assigned, *declared), written, keywords, after, depth)


def _assigned(match: re.Match[str]) -> tuple[str, str]:
    name, appends, value = match.groups()
    return name, f"${{{name}}}{value}" if appends else value


def _declared(words: list[str]) -> Iterator[tuple[str, str]]:
    match words:
        case ["for", name, "in", *values]:
            yield from ((name, value) for value in values)
        case ["read", *names]:
            yield from ((name, UNKNOWN_TEXT) for name in names if not name.startswith("-"))
        case [first, *values] if first in _DECLARES:
            found = (_ASSIGNMENT.fullmatch(value) for value in values)
            yield from (_assigned(match) for match in found if match)


class _Lexer:
    """Reads a script once, from left to right."""

    def __init__(self, text: str, line: int, depth: int) -> None:
        self._text = text
        self._at = 0
        self._line = line
        self._depth = depth
        self._words: list[Word] = []
        self._found: list[Command] = []
        self._targets: set[int] = set()  # the words that name a file to write
        self._sources: set[int] = set()  # and one to read
        self._heredocs: list[tuple[str, bool]] = []  # delimiter, and whether a shell reads it
        # The word being read.
        self._parts: list[str] = []
        self._start = line
        self._quoted = False

    def commands(self) -> list[Command]:
        while self._at < len(self._text):
            self._step()
        self._end_command("")
        return self._found

    def _step(self) -> None:
        char = self._text[self._at]
        if char == "#" and not self._parts and not self._quoted:
            end = self._text.find("\n", self._at)
            self._at = len(self._text) if end < 0 else end
        elif char == "\n":
            self._newline()
        elif char.isspace():
            self._at += 1
            self._end_word()
        elif char in ";&|()<>":
            self._operator(char)
        elif not self._word_part(quoted=False):
            self._quote(char)

    def _word_part(self, *, quoted: bool) -> bool:
        """What means the same inside double quotes and outside. False where there is none here."""
        char = self._text[self._at]
        if char == "\\":
            self._escape(quoted=quoted)
        elif char == "$":
            self._dollar()
        elif char == "`":
            end = self._text.find("`", self._at + 1)
            end = len(self._text) if end < 0 else end
            self._substitution(self._at + 1, end)
        elif match := (_QUOTED if quoted else _PLAIN).match(self._text, self._at):
            self._add(match[0])
        else:
            return False
        return True

    def _add(self, text: str) -> None:
        """Take text as it stands into the word."""
        if not self._parts and not self._quoted:
            self._start = self._line
        self._parts.append(text)
        self._at += len(text)
        self._line += text.count("\n")

    def _escape(self, *, quoted: bool) -> None:
        following = self._text[self._at + 1 : self._at + 2]
        if following == "\n" and not quoted:
            self._at += 2
            self._line += 1
        elif quoted and (following == "\n" or following not in '"\\$`'):
            self._add("\\" + following)  # a nested script reads the continuation
        else:
            self._at += 1
            self._add(following)

    def _dollar(self) -> None:
        text, at = self._text, self._at
        if text.startswith("${{", at) and (end := end_of_expression(text, at)) > 0:
            self._add(text[at:end])
        elif text.startswith("$(", at):
            self._substitution(at + 2, _closing(text, at + 2, "(", ")"))
        elif text.startswith("${", at):
            self._add(text[at : _closing(text, at + 2, "{", "}") + 1])
        else:
            self._add("$")

    def _substitution(self, start: int, end: int) -> None:
        """Take `$(…)`, and the commands within as commands of their own."""
        if self._depth < MAX_DEPTH and not self._text.startswith("(", start):
            inner = _Lexer(self._text[start:end], self._line, self._depth + 1)
            self._found += inner.commands()
        self._add(self._text[self._at : end + 1])

    def _quote(self, char: str) -> None:
        """A quoted part of a word, at its opening quote."""
        if not self._parts and not self._quoted:
            self._start = self._line
        self._quoted = True
        self._at += 1
        if char == "'":
            self._single_quoted()
            return
        while self._at < len(self._text) and self._text[self._at] != '"':
            self._word_part(quoted=True)
        self._at += 1

    def _single_quoted(self) -> None:
        # GitHub replaces `${{ 'a' }}` before the shell sees a quote.
        while self._at < len(self._text) and self._text[self._at] != "'":
            if self._text.startswith("${{", self._at):
                self._dollar()
                continue
            ends = (self._text.find(mark, self._at + 1) for mark in ("'", "${{"))
            self._add(self._text[self._at : min((e for e in ends if e > 0), default=None)])
        self._at += 1

    def _operator(self, char: str) -> None:
        text = self._text
        if char == "(" and self._parts and _ARRAY.search(self._parts[-1]):
            self._array(_closing(text, self._at + 1, "(", ")"))
            return
        if char in "<>" or text.startswith("&>", self._at):
            self._redirection()
            return
        match = _OPERATOR.match(text, self._at)
        operator = match[0] if match else char
        self._at += len(operator)
        self._end_command(operator)

    def _array(self, end: int) -> None:
        """Take `NAME=(a b)` as the assignment of its words, with blanks between."""
        inner = _Lexer(self._text[self._at + 1 : end], self._line, self._depth + 1).commands()
        lines = self._text.count("\n", self._at, end)
        self._parts.append(" ".join(["", *(word.text for c in inner for word in c.words)]))
        self._at, self._line = end + 1, self._line + lines

    def _redirection(self) -> None:
        match = re.compile(r"<<-?(?!<)|[<>&|]+").match(self._text, self._at)
        operator = match[0] if match else "<"
        self._at += len(operator)
        self._end_word()
        if operator.startswith("<<") and operator != "<<<":
            name = re.compile(r"[ \t]*(['\"]?)([\w.-]+)\1").match(self._text, self._at)
            if name:
                self._at = name.end()
                shell = any(w.text.rpartition("/")[2] in _SHELLS for w in self._words)
                self._heredocs.append((name[2], shell))
        elif operator.endswith("&"):  # 2>&1
            self._at += len(re.compile(r"[\d-]*").match(self._text, self._at)[0])  # type: ignore[index]
        elif ">" in operator:
            self._targets.add(len(self._words))
        elif operator == "<":
            self._sources.add(len(self._words))

    def _newline(self) -> None:
        self._at += 1
        self._line += 1
        self._end_command("\n")
        for delimiter, shell in self._heredocs:
            end = re.compile(rf"^\t*{re.escape(delimiter)}$", re.MULTILINE).search(
                self._text, self._at
            )
            body = self._text[self._at : end.start() if end else None]
            if shell and self._depth < MAX_DEPTH:
                self._found += _Lexer(body, self._line, self._depth + 1).commands()
            self._at = end.end() if end else len(self._text)
            self._line += body.count("\n")
        self._heredocs.clear()

    def _end_word(self) -> None:
        if self._parts or self._quoted:
            self._words.append(Word("".join(self._parts), self._start, self._quoted))
        self._parts, self._quoted = [], False

    def _end_command(self, after: str) -> None:
        self._end_word()
        if self._words:
            written = tuple(w.text for i, w in enumerate(self._words) if i in self._targets)
            read = tuple(w.text for i, w in enumerate(self._words) if i in self._sources)
            command = _command(self._words, written, after, self._depth)
            self._found.append(replace(command, read=read) if read else command)
        elif self._found and self._found[-1].after == ")" and after != "\n":
            self._found[-1] = replace(self._found[-1], after=after)  # behind a subshell
        self._words = []
        self._targets.clear()
        self._sources.clear()


def _closing(text: str, start: int, opens: str, closes: str) -> int:
    """The index of the bracket that closes the one before `start`; quotes hide brackets."""
    depth = 1
    for match in re.compile(rf"\\.|'[^']*'|[{opens}{closes}]", re.DOTALL).finditer(text, start):
        depth += {opens: 1, closes: -1}.get(match[0], 0)
        if depth == 0:
            return match.start()
    return len(text)


def resolve(text: str, contexts: Contexts, variables: Variables) -> Choices:
    """The possible values of a word. `variables` are those that the script has set so far."""
    if "$" not in text and "`" not in text:
        return (text,)
    text = _SEQ.sub(lambda match: _seq(match[1] or match[2]) or UNKNOWN_TEXT, text)
    parts: list[Choices] = []
    for piece in split(_SUBSTITUTION.sub(UNKNOWN_TEXT, text)):
        if piece.expression:
            parts.append(evaluate_text(piece.text, contexts))
        else:
            parts += _expanded(piece.text, contexts, variables)
    return joined(parts)


def counted(word: str) -> tuple[str, ...]:
    """The numbers of `{0..3}`; empty for any other word, and for too many of them."""
    match = _BRACES.fullmatch(word)
    if match is None:
        return ()
    first, last = int(match[1]), int(match[2])
    return tuple(map(str, _range(first, 1 if first <= last else -1, last)))


def _seq(numbers: str) -> str:
    """What `seq` prints for one to three whole numbers, on one line; '' for too many."""
    given = [int(number) for number in numbers.split()]
    first, step, last = (given[0] if given[1:] else 1), (given[1] if given[2:] else 1), given[-1]
    return " ".join(map(str, _range(first, step, last)))


def _range(first: int, step: int, last: int) -> range:
    """The whole numbers from first to last, unless there are more than are followed."""
    found = range(first, last + (1 if step > 0 else -1), step) if step else range(0)
    return found if len(found) <= MAX_CHOICES else range(0)


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
