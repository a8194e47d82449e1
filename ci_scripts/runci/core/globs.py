"""Path patterns: `*` and `?` within a folder, `**` across folders."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

UNHELD = frozenset("\\:")  # what the schemas refuse in globs, besides what is not printable
_RANGE = r"\[(?:![^/]|[^!/])[^\]/]*\]"


@functools.cache
def compile_glob(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression for a whole path with forward slashes.

    `a/**` matches everything below `a`; a pattern without a slash matches a file name anywhere.
    Raises re.error for a range that goes backwards, such as `[z-a]`.
    """
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    # Repeated stars say nothing more and would make a search that fails take for ever.
    pattern = re.sub(r"(?:\*\*/)+", "**/", re.sub(r"\*{2,}", "**", pattern))
    out: list[str] = []
    for part in re.findall(rf"\*\*/|\*\*|\*|\?|{_RANGE}|[^*?\[]+|\[", pattern):
        if part == "**/":
            out.append(r"(?:[^/]+/)*")
        elif part == "**":
            out.append(r".*")
        elif part == "*":
            out.append(r"[^/]*")
        elif part == "?":
            out.append(r"[^/]")
        elif part.startswith("[") and len(part) > 1:
            out.append(_one_of(part))
        else:
            out.append(re.escape(part))
    return re.compile("".join(out), re.DOTALL)


def _one_of(part: str) -> str:
    """`[abc]`, `[a-z]` and `[!abc]` as a regular expression; never a slash."""
    negated = part.startswith("[!")
    body = re.sub(r"([\\\[\]^&~|])", r"\\\1", part[1 + negated : -1])
    body = re.sub(r"--+", r"\\-", body)  # a hyphen, not the difference of two sets
    return f"(?!/)[{'^' if negated else ''}{body}]"


def check_glob(pattern: str) -> None:
    """Raise re.error where `compile_glob` would; only a range can be wrong."""
    if "[" in pattern:
        compile_glob(pattern)


def escaped(path: str) -> str:
    """A glob for this path; a character that no glob can hold is any one."""
    out = []
    for at, char in enumerate(path):
        if char in "*?[":
            out.append(f"[{char}]")
        elif char in UNHELD or not char.isprintable() or (char == "!" and not at):
            out.append("?")
        else:
            out.append(char)
    return "".join(out)


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Whether any pattern matches the whole path."""
    return matcher(tuple(patterns))(path)


@functools.cache
def matcher(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    """`matches` for these patterns, to be asked about many paths."""
    if len(patterns) > _FEW:
        return _Index(patterns).matches
    whole = _compile_all(patterns).fullmatch
    return lambda path: whole(path) is not None


# So many are fastest as one expression; the time of that grows with their number.
_FEW = 50
_WILD = re.compile(rf"\*+|\?|{_RANGE}")
_Trait = tuple[str, str]  # kind and text: what a path must have for a pattern to match


class FileGlobs(NamedTuple):
    """Which files below a root are tests, and which are left out."""

    test_files: tuple[str, ...]
    exclude: tuple[str, ...]


class _Index:
    """Many patterns, each by the rarest text that a folder or name must be, begin or end with."""

    def __init__(self, patterns: Iterable[str]) -> None:
        traits = {pattern: tuple(_traits(pattern)) for pattern in patterns}
        usual = Counter(trait for found in traits.values() for trait in found)
        self._by_trait: dict[_Trait, list[str]] = {}
        for pattern, found in traits.items():
            rarest = min(found, key=lambda trait: (usual[trait], -len(trait[1])), default=_NONE)
            self._by_trait.setdefault(rarest, []).append(pattern)
        self._lengths = {(kind, len(text)) for kind, text in self._by_trait if kind in _ENDS}

    def matches(self, path: str) -> bool:
        """Whether any pattern matches the whole path."""
        return any(
            _compile_all(tuple(self._by_trait[trait])).fullmatch(path)
            for trait in {_NONE, *self._traits_of(path)}
            if trait in self._by_trait
        )

    def _traits_of(self, path: str) -> Iterator[_Trait]:
        for part in path.split("/"):
            yield "is", part
            for kind, length in self._lengths:
                yield kind, part[:length] if kind == "begins" else part[-length:]


_NONE = ("", "")
_ENDS = ("begins", "ends")


def _traits(pattern: str) -> Iterator[_Trait]:
    """What a path that the pattern matches must have in one of its parts."""
    for part in pattern.split("/"):
        first, *others = _WILD.split(part)
        if not others:
            yield "is", part
            continue
        if first:
            yield "begins", first
        if others[-1]:
            yield "ends", others[-1]


@functools.cache
def _compile_all(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """One expression for all patterns: every file is matched, and this is what costs least."""
    either = "|".join(f"(?:{compile_glob(pattern).pattern})" for pattern in patterns)
    return re.compile(either or "(?!)", re.DOTALL)
