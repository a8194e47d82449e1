"""What a command runs by path: `pytest tests/x.py`, `python3 registered/y.py`, a folder, a list."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from runci.read.exits import COLLECTS
from runci.workflows.shell import Word, is_lone
from runci.workflows.values import Choices, Unknown, text_of

PYTEST_FILES = ("test_*.py", "*_test.py")
MAX_PIECES = 5_000  # words that the variables of one command can hold

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?")
_PYTEST = frozenset({"pytest", "py.test"})
_LAUNCHES = frozenset({"torchrun", "accelerate", "deepspeed", "mpirun"})
_LAUNCH_MODULES = ("torch.distributed.", "accelerate.")
_READS_TEXT = frozenset({"bash", "sh", "dash", "zsh", "eval", "ssh", "su", "srun"})
_MAY_BE_PYTHON = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?|\$\{?\w*(?:python|PYTHON|PY)\w*\}?")
_INSTALLS = re.compile(
    r"(?:^|[ /])(?:pip[\d.]*|pipx|conda|mamba|uv|poetry|pdm)(?: tool| -\S+)* (?:install|add)"
    r"(?: [^ ;&|]+)*$"
)
EXPRESSION = re.compile(r"\$\{\{.*?\}\}", re.DOTALL)
# pytest's options whose value is the next word.
_VALUED = frozenset(
    {"-c", "-k", "-m", "-n", "-o", "-p", "-W", "--basetemp", "--confcutdir", "--deselect"}
    | {"--dist", "--durations", "--ignore", "--ignore-glob", "--import-mode", "--junit-xml"}
    | {"--junitxml", "--log-file", "--maxfail", "--numprocesses", "--override-ini", "--reruns"}
    | {"--reruns-delay", "--rootdir", "--tb", "--timeout"}
)
_SELECTS = frozenset({"-k", "-m", "--lf", "--last-failed", "--deselect"})
_IGNORES = ("--ignore", "--ignore-glob")


class Piece(NamedTuple):
    """One word as the shell hands it on; `word` is the one it stands in, the `place`-th.

    `typed`: somebody types it when starting the workflow, so it runs nothing by itself.
    """

    text: str
    known: bool
    word: Word
    place: int
    typed: bool = False


@dataclass(frozen=True, slots=True)
class TestCall:
    """What one command runs.

    `targets` are files, or folders where `names` says which files of a folder run; none: the
    folder that the command stands in. `tests` are the ones that targets name, "" for all of them;
    `part` says what selects a part of all targets, `without` are paths that are left out.
    `launcher` is what starts the command in several processes, or "".
    """

    targets: tuple[Piece, ...]
    names: tuple[str, ...] = ()
    part: str = ""
    without: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    launcher: str = ""

    def parts(self) -> tuple[str, ...]:
        """What selects a part of each target, as the shell reads it."""
        tests = self.tests or ("",) * len(self.targets)
        return tuple(" ".join(filter(None, (test, self.part))) for test in tests)


def pieces_of(
    words: Sequence[Word], choices: Callable[[Word], Choices], by_hand: bool = False
) -> list[Piece]:
    """The words with what their variables can hold: every value, one after the other.

    `by_hand`: somebody types inputs each time; a word that may name any file holds one of them.
    """
    found: list[Piece] = []
    for index, word in enumerate(words):
        if "$" not in word.text and "`" not in word.text:
            found.append(Piece(word.text, True, word, index))
            continue
        several = not word.quoted or "[@]" in word.text or word.text == "$@"
        for value in choices(word):
            if isinstance(value, Unknown):
                typed = by_hand and not value.glob.rpartition("/")[2].strip("*")
                if typed or not value.typed:  # else it is empty when another event starts this
                    found.append(Piece(value.glob, False, word, index, typed))
            else:
                text = text_of(value)
                parts = text.split() if several else [text]
                found += [Piece(part, True, word, index) for part in parts]
        if len(found) > MAX_PIECES:
            return []
    return found


def test_call(pieces: Sequence[Piece]) -> TestCall | None:
    """The tests that a command runs by path; None where it runs none."""
    for at, piece in enumerate(pieces):
        name = piece.text.rpartition("/")[2]
        rest = pieces[at + 1 :]
        if name in _PYTEST:
            return _pytest(rest)
        if _PYTHON.fullmatch(name):
            return _python(rest)
        if name in _LAUNCHES:
            return _launched(_first_script(rest), name)
        if name == "coverage" and (run := _behind(rest, "run")) is not None:
            return _python(run)
        if at == 0 and name.endswith(".py"):
            return TestCall((piece,))
    return None


def may_run_tests(words: Sequence[str], clues: Sequence[str]) -> bool:
    """Whether a command may run tests by path, by its words alone. `clues` stand in such paths."""
    if any(word.rpartition("/")[2] == "xargs" or word.startswith("-exec") for word in words):
        return any(_MAY_BE_PYTHON.fullmatch(w.rpartition("/")[2]) or "test" in w for w in words)
    text = " ".join(words)
    named = any(clue in f" {text}" for clue in clues)
    for at, word in enumerate(words):
        name = word.rpartition("/")[2]
        if _INSTALLS.search(" ".join(words[:at])):
            return False  # the words from here on are packages
        if name in _PYTEST or (named and (name in _LAUNCHES or name in ("coverage", "unittest"))):
            return True
        if _MAY_BE_PYTHON.fullmatch(name):
            return _may_run(words[at + 1 :], clues)
        if named and at == 0 and name.endswith(".py"):
            return True
        if named and is_script_at(words, at):
            return True
    return False


def _may_run(words: Sequence[str], clues: Sequence[str]) -> bool:
    """Whether `python WORDS` may run tests."""
    for at, word in enumerate(words):
        if word == "-m":
            module = "".join(words[at + 1 : at + 2])
            tests = module in _PYTEST or module in ("coverage", "unittest")
            return tests or module.startswith(_LAUNCH_MODULES)
        if word in ("-", "-c"):
            return False
        if not word.startswith("-"):
            return is_lone(word) or any(clue in f" {word}" for clue in clues)
    return False


def is_script(words: Sequence[Word], index: int) -> bool:
    """Whether a word is a script that a shell before it reads: `bash -c "…"`."""
    return is_script_at([word.text for word in words], index)


def is_script_at(words: Sequence[str], index: int) -> bool:
    """As `is_script`, of texts."""
    inside = EXPRESSION.sub("", words[index]).split()
    return len(inside) > 1 and any(w.rpartition("/")[2] in _READS_TEXT for w in words[:index])


def _behind(pieces: Sequence[Piece], text: str) -> Sequence[Piece] | None:
    return next((pieces[at + 1 :] for at, p in enumerate(pieces) if p.text == text), None)


def _python(pieces: Sequence[Piece]) -> TestCall | None:
    """What `python ARGUMENTS` runs."""
    skip = False
    for at, piece in enumerate(pieces):
        text, rest = piece.text, pieces[at + 1 :]
        if skip or text in ("-W", "-X"):
            skip = not skip
        elif text == "-m":
            return _module(rest[0].text, rest[1:]) if rest else None
        elif text in ("-c", "-"):
            return None
        elif text in ("-p", "--source", "--rcfile", "--data-file"):  # of `coverage run`
            skip = text != "-p"
        elif not text.startswith("-"):
            return TestCall(tuple(p for p in pieces if p.place == piece.place))
    return None


def _module(name: str, rest: Sequence[Piece]) -> TestCall | None:
    if name in _PYTEST:
        return _pytest(rest)
    if name == "unittest":
        return _unittest(rest)
    if name == "coverage" and (run := _behind(rest, "run")) is not None:
        return _python(run)
    return _launched(_first_script(rest), name) if name.startswith(_LAUNCH_MODULES) else None


def _launched(call: TestCall | None, launcher: str) -> TestCall | None:
    return None if call is None else replace(call, launcher=launcher)


def _first_script(pieces: Sequence[Piece]) -> TestCall | None:
    """What a launcher of processes runs: the first word that is a script, or a module."""
    for at, piece in enumerate(pieces):
        if piece.text == "-m" and len(pieces) > at + 1:
            return _module(pieces[at + 1].text, pieces[at + 2 :])
        if piece.text.endswith(".py"):
            return TestCall(tuple(p for p in pieces if p.place == piece.place))
    return None


def _pytest(pieces: Sequence[Piece]) -> TestCall | None:
    targets: list[Piece] = []
    without: list[str] = []
    tests: list[str] = []
    parts: dict[str, str] = {}
    option = ""
    for piece in pieces:
        name, equals, value = piece.text.partition("=")
        if option:
            name, value, option = option, piece.text, ""
        elif piece.text.startswith("-") and piece.text != "-":
            if name in COLLECTS:
                return None
            if name in _VALUED and not equals:
                option = name
                continue
        else:
            path, selects, _ = piece.text.partition("::")
            targets.append(piece._replace(text=path))
            tests.append(shlex.quote(piece.text) if selects else "")
            continue
        if name in _SELECTS:
            parts[name] = f"{name} {shlex.quote(value)}" if value else name
        elif name in _IGNORES:
            without.append(value)
    part = " ".join(parts.values())
    return TestCall(tuple(targets), PYTEST_FILES, part, tuple(without), tuple(tests))


def _unittest(pieces: Sequence[Piece]) -> TestCall | None:
    """`discover -s FOLDER -p PATTERN`, files, and names such as `tests.test_x.TestA.test_b`."""
    texts = [piece.text for piece in pieces]
    if {"-h", "--help"} & set(texts):
        return None
    plain = [p for p in pieces if not p.text.startswith("-")]
    if texts[:1] == ["discover"] or not plain:
        return _discover(pieces[1:])
    found, part = [], ""
    for piece in plain:
        if not piece.text.endswith(".py") and "/" not in piece.text:
            module, *inside = re.split(r"\.(?=[A-Z])", piece.text, maxsplit=1)
            found.append(piece._replace(text=module.replace(".", "/") + ".py"))
            part = inside[0] if inside else part
        else:
            found.append(piece)
    return TestCall(tuple(found), (), part)


def _discover(pieces: Sequence[Piece]) -> TestCall:
    names, start, option, plain = "test*.py", None, "", 0
    for piece in pieces:
        if option in ("-p", "--pattern"):
            names = piece.text
        elif option in ("-s", "--start-directory"):
            start = piece
        elif not option and not piece.text.startswith("-"):
            plain += 1
            start, names = (piece, names) if plain == 1 else (start, piece.text)
        valued = ("-p", "--pattern", "-s", "--start-directory", "-t", "--top-level-directory")
        option = piece.text if not option and piece.text in valued else ""
    return TestCall((start,) if start else (), (names,))


def literal_folder(target: str) -> str:
    """The folder of a glob up to its first wildcard."""
    return re.split(r"[*?\[]", target, maxsplit=1)[0].rpartition("/")[0]


def suffixes(path: str) -> Iterator[str]:
    """The ends of a path, the longest first: where `/checkout/test/x.py` may lie below the root."""
    parts = path.strip("/").split("/")
    yield from ("/".join(parts[at:]) for at in range(len(parts)))
