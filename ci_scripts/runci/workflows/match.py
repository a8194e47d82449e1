"""Whether a command starts a suite, and with which options."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from runci.workflows.shell import Word

SUITE = ("--suite",)
HARDWARE = ("--hw", "--backend")
_DIRECTORY = ("-w", "--workdir")

# Programs that only talk about a command.
_SAYS = frozenset({"echo", "grep", "pgrep", "pkill", "printf"})
_WORKSPACE = re.compile(
    r"(?:\$GITHUB_WORKSPACE|\$\{GITHUB_WORKSPACE\}|\$\{\{\s*github\.workspace\s*\}\})/?"
)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A command as `suites.yml` names it: «runci run», or a script.

    A script with its folder («test/run_suite.py», from the root of the repository) tells it from
    others of the same file name; a bare file name means it in any folder.
    """

    words: tuple[str, ...]
    clues: tuple[str, ...]  # texts that stand in every script with this command

    @classmethod
    def of(cls, command: str) -> Pattern:
        """The pattern that a command text means."""
        words = tuple(command.split())
        return cls(words, tuple(word.rpartition("/")[2] for word in words))

    def end(self, words: Sequence[Word], directory: str | None) -> int | None:
        """The index behind the command among the words; None where it is another command."""
        if not self.words or (words and words[0].text in _SAYS):
            return None
        before = ""
        for start, word in enumerate(words):
            if before in _DIRECTORY:
                directory = below("", word.text)
            before = word.text
            if word.text.endswith(self.clues[0]) and _names(word.text, self.words[0], directory):
                return self._rest(words, start + 1)
        return None

    def _rest(self, words: Sequence[Word], end: int) -> int | None:
        """The index behind the other words; options may stand between: `runci --root . run`."""
        for wanted in self.words[1:]:
            later = (i + 1 for i in range(end, len(words)) if words[i].text == wanted)
            end = next(later, 0)
            if not end:
                return None
        return end


def working_directory(words: Sequence[Word], directory: str | None) -> str | None:
    """The folder that a wrapper (`docker exec -w DIR`) switches to, else the one it starts in."""
    for option, value in itertools.pairwise(words):
        if option.text in _DIRECTORY:
            return below("", value.text)
    return directory


def below(directory: str | None, path: str) -> str | None:
    """The folder after `cd path`; None where it cannot be known. '' is the repository's root."""
    if workspace := _WORKSPACE.match(path):
        directory, path = "", path[workspace.end() :]
    if path == "-" or (path.startswith("$") and "/" not in path):
        return None
    if _is_absolute(path):
        return path
    if directory is None:
        return None
    joined = posixpath.normpath(posixpath.join(directory, path))
    return None if joined.startswith("..") else "" if joined == "." else joined


def options(words: Sequence[Word], names: tuple[str, ...]) -> Iterator[Word]:
    """The values of an option, as `--name VALUE` and `--name=VALUE`."""
    for index, word in enumerate(words):
        name, equals, value = word.text.partition("=")
        if name not in names:
            continue
        if equals:
            yield word._replace(text=value)
        elif index + 1 < len(words):
            yield words[index + 1]


def _names(word: str, wanted: str, directory: str | None) -> bool:
    """Whether a word, in a folder, names the wanted program or script."""
    if "/" not in wanted:
        return word.rpartition("/")[2] == wanted
    if workspace := _WORKSPACE.match(word):
        word, directory = word[workspace.end() :], ""
    if _is_absolute(word):
        # `$DIR/run_suite.py`: what stands behind the variable is all that is known.
        known = word.partition("/")[2] if word.startswith("$") else word
        return f"/{wanted}".endswith(f"/{known}") or word.endswith(f"/{wanted}")
    word = posixpath.normpath(word)
    # A wrapper may change to a folder that nobody sees: from the root, and from an unknown
    # folder, the end of the wanted path is enough.
    if not f"/{wanted}".endswith(f"/{word}"):
        return False
    inside = below(directory, word) if directory else word
    if inside is None:
        return True
    return (
        inside.endswith(f"/{wanted}")
        if _is_absolute(inside)
        else f"/{wanted}".endswith(f"/{inside}")
    )


def _is_absolute(path: str) -> bool:
    return path.startswith(("/", "~", "$"))
