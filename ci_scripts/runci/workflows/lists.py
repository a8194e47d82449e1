"""Lists of paths that commands print: `find`, `ls`, `cat`, and what passes them on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

ANY = "**"
"""The path of a list of which nothing is known."""

_SAME = frozenset({"sort", "uniq", "shuf", "tac", "tee"})
_FEWER = frozenset({"grep", "egrep", "fgrep", "head", "tail"})
_OTHERS = frozenset({"sed", "awk", "tr", "cut", "xargs", "cat"})
_PRINTS = frozenset({"-print", "-print0"})


class Listed(NamedTuple):
    """A path or glob, and whether the list surely has all that it matches; ANY for unknown."""

    path: str
    known: bool = True


UNKNOWN_LIST = (Listed(ANY, False),)


def listed(words: Sequence[str], fed: Sequence[Listed] | None = None) -> tuple[Listed, ...] | None:
    """The paths that a command prints, `fed` by the one before it; None where it prints none."""
    name, arguments = (words[0].rpartition("/")[2] if words else ""), list(words[1:])
    plain = [word for word in arguments if not word.startswith("-")]
    if name == "find":
        return _found(arguments)
    if name == "ls" and plain:
        return tuple(Listed(word, word.endswith(".py")) for word in plain)
    if name == "git" and "ls-files" in plain[:1]:
        return tuple(Listed(word, False) for word in plain[1:]) or UNKNOWN_LIST
    if name in ("echo", "printf"):
        return tuple(Listed(word) for word in plain if "%" not in word)
    if fed is not None and (name in _SAME or (name == "cat" and not plain)):
        return tuple(fed)
    if fed is not None and name in _FEWER:
        # In what is not certain, `*` crosses folders.
        return tuple(Listed(one.path.replace("/**/", "/*"), False) for one in fed)
    return UNKNOWN_LIST if name in _OTHERS or name in _FEWER else None


def _found(arguments: Sequence[str]) -> tuple[Listed, ...]:
    """What `find FOLDER... TESTS` prints."""
    begins = (at for at, word in enumerate(arguments) if word[:1] in ("-", "(", "!"))
    first = next(begins, len(arguments))
    tests = list(arguments[first:])
    name, known, deep = "*", True, True
    while tests:
        test = tests.pop(0)
        if test == "-name" and tests and name == "*":
            name = tests.pop(0)
        elif test == "-type" and tests:
            known = known and tests.pop(0) == "f"
        elif test == "-maxdepth" and tests[:1] == ["1"]:
            deep = tests.pop(0) != "1"
        elif test not in _PRINTS:
            known = False
    folders = [folder.rstrip("/") for folder in arguments[:first]] or ["."]
    below = f"{'**/' if deep else ''}{name}" if known else f"*{name}"
    return tuple(Listed(f"{folder}/{below}", known) for folder in folders)


def handed(
    words: Sequence[str], fed: Sequence[Listed] | None
) -> tuple[int, tuple[Listed, ...]] | None:
    """The index of the command that `xargs` or `find -exec` runs with paths, and these paths."""
    names = [word.rpartition("/")[2] for word in words]
    if "xargs" in names:
        return names.index("xargs") + 1, tuple(fed) if fed is not None else UNKNOWN_LIST
    for option in ("-exec", "-execdir"):
        if names[:1] == ["find"] and option in words:
            at = words.index(option)
            found = _found(words[1:at])
            return at + 1, found if option == "-exec" else UNKNOWN_LIST
    return None
