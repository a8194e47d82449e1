"""Patterns of tests, `PATH::Class::test[parameters]`: `*` and `?` stand for others everywhere.

What stands before the first `::` is matched with the path alone, and what follows with the test:
`t/*_gpu*` means files, and no test of another file that is called so; `**` at the end of a path
reaches over classes, too. Only a path has `[ab]` for one character of several: after `::` the first
`[` begins the parameters. In them `*` is any text and `?` any character, and a backslash before
`*`, `?` or a backslash makes that one plain. All else is as pytest prints it: `[`, `::`, `/`,
spaces, `\\xe9`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from runci.core.globs import compile_glob, matcher

_BETWEEN = "\0"  # in no path, test or pattern
_SIGN = re.compile(r"\\[\\*?]|\*+|\?")


class Pattern(NamedTuple):
    """A pattern, taken apart: of the path and the names, and of the parameters (None: any)."""

    name: str
    parameters: str | None


def split(test: str) -> Pattern:
    """Take apart a test, or a pattern of tests that `check_pattern` let pass."""
    path, mark, rest = test.partition("::")
    name, bracket, parameters = rest.partition("[")
    return Pattern(path + mark + name, parameters.removesuffix("]") if bracket else None)


def check_pattern(pattern: str) -> None:
    """Raise re.error for a pattern that cannot match a test."""
    compile_glob(split(pattern).name)
    _, _, test = pattern.partition("::")
    if "[" in test and not test.endswith("]"):
        raise re.error("after :: a [ begins parameters, which end with ] at the end")
    if test.startswith("["):
        raise re.error("parameters need a test before them")


def pattern_matcher(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Whether any of these patterns matches a test; a path alone matches all of the file.

    A pattern without parameters matches a test with any. A subtest, `test (i=1)`, counts as its
    test, and `setUpClass (module.Class)` as setUpClass, too.
    """
    apart = list(map(split, patterns))
    files = matcher(tuple(one.name for one in apart if "::" not in one.name))
    of_tests = [(glob, parameters) for name, parameters in apart for glob in _globs(name)]
    plain = matcher(tuple(glob for glob, parameters in of_tests if parameters is None))
    named: dict[str, list[str]] = {}
    for name, parameters in of_tests:
        if parameters is not None:
            named.setdefault(name, []).append(parameters)
    some = [(compile_glob(name), _parameters(of)) for name, of in named.items()]

    def matches(test: str) -> bool:
        name, parameters = split(test)
        path, mark, inner = name.partition("::")
        of_path = path + _BETWEEN * bool(mark)
        name = of_path + inner
        part_of = of_path + inner.partition(" (")[0] if parameters is None else name
        if files(path) or plain(name) or plain(part_of):
            return True
        return parameters is not None and any(
            glob.fullmatch(name) and has(parameters) for glob, has in some
        )

    return matches


def _globs(name: str) -> Iterator[str]:
    """A pattern of tests with what no wildcard takes between path and test; none for a path."""
    path, mark, test = name.partition("::")
    if mark:
        yield path + _BETWEEN + test
    if mark and path.endswith("**"):
        yield f"{path}{_BETWEEN}**::{test}"  # ** reaches over classes, too


def escaped_parameters(text: str) -> str:
    """The pattern of these parameters alone; a character that no file can hold is any one."""
    out = []
    for char, following in zip(text, [*text[1:], ""], strict=False):
        sign = following in ("*", "?", "\\") or not following.isprintable()
        if not char.isprintable():
            out.append("?")
        else:
            out.append(f"\\{char}" if char in "*?" or (char == "\\" and sign) else char)
    return "".join(out)


def _parameters(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Whether any pattern is these parameters; thousands that are plain cost no more than one."""
    every = set(patterns)
    wild = [one for one in every if any(m[0][0] != "\\" for m in _SIGN.finditer(one))]
    plain = {_SIGN.sub(lambda m: m[0][1:], one) for one in every.difference(wild)}
    either = re.compile("|".join(map(_expression, sorted(wild))) or "(?!)", re.DOTALL)
    return lambda text: text in plain or either.fullmatch(text) is not None


def _expression(pattern: str) -> str:
    out, end = [], 0
    for sign in _SIGN.finditer(pattern):
        out.append(re.escape(pattern[end : sign.start()]))
        out.append({"*": ".*", "?": "."}.get(sign[0][0]) or re.escape(sign[0][1:]))
        end = sign.end()
    return "".join([*out, re.escape(pattern[end:])])
