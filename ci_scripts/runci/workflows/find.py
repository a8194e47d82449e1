"""The commands in workflows that start a suite, and with which options."""

from __future__ import annotations

import codecs
import itertools
import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from runci.config.taxonomy import Workflows
from runci.core.globs import matches
from runci.core.paths import is_below
from runci.core.registration import Backend
from runci.read.yamlpos import Node, YamlError, load
from runci.workflows.by_path import (
    Piece,
    TestCall,
    is_script,
    literal_folder,
    may_run_tests,
    pieces_of,
    suffixes,
    test_call,
)
from runci.workflows.lists import ANY, UNKNOWN_LIST, Listed, handed, listed
from runci.workflows.makefile import MAKEFILE, NAMED, recipes, shell_lines
from runci.workflows.model import Document, Place
from runci.workflows.published import as_commands
from runci.workflows.runs import (
    ACTION_FILES,
    Broken,
    PartRun,
    PathRun,
    SuiteRun,
    SuiteRuns,
    Unresolved,
    chosen_scripts,
    local_files,
    names_some,
)
from runci.workflows.shell import Command, Word, commands, counted, functions, is_lone, resolve
from runci.workflows.values import Choices, OneOf, Unknown, Value, bounded, text_of
from runci.workflows.walk import Scope, Script, Walker

RUN = "runci run"
SUITE = ("--suite",)
HARDWARE = ("--hw", "--backend")
_FILE_TIMEOUT = ("--timeout-per-file",)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
NIGHTLY = "--nightly"
PART_INDEX = ("--auto-partition-id", "--partition-id", "--shard-index", "--shard-id")
SHARD = ("--shard",)  # runci's own, I/N
_FROM_ZERO = ("--auto-partition-id",)  # SGLang's; what others mean, only their code knows
PART_COUNT = ("--auto-partition-size", "--total-partitions", "--num-shards", "--shard-count")
_DIRECTORY = ("-w", "--workdir")

BACKENDS = {backend.value: backend for backend in Backend} | {"rocm": Backend.AMD}
MAX_BYTES = 2_000_000  # a larger workflow is a mistake, and slow to read
MAX_SPLICED = 100  # ways in which variables can hold the arguments of one command
# `python3 $file`: what it runs is known only where the variable is.
_RUNS_VARIABLE = re.compile(
    r"""(?:ython|YTHON|pytest|unittest)\S*[ \t]+(?:-\S+[ \t]+)*["']?(?:\$\w+|\$\{[^}/]*\}|\$\{\{)"""
)
_ENTERS = frozenset({"cd", "pushd"})
_MAKE = "make"
_READS = frozenset({"read", "mapfile", "readarray"})
_LONE = re.compile(r"\$\{?(\w+)(?:\[[@*]\])?\}?")
_PRINTED = re.compile(r"\$\((?!\()(.*)\)|`(.*)`", re.DOTALL)
# What runs paths of a list. By bytes: a file that has it may hold a path of tests.
_RUNS_LIST = re.compile(
    rb"\bxargs\b|\bwhile\b.*\bread\b|\$\(\s*(?:cat|find|ls|git)\b|-exec\b|\bmapfile\b"
)
_COMMENT = re.compile(rb"(?m)^\s*#.*$")
# A command whose name is a parameter, a variable in small letters or partly one: any function.
_DISPATCHES = re.compile(
    r"""(?m)(?:^|&&|\|\||[;{]|\b(?:do|then|else))[ \t]*(?:-\ )?(?:run:\ *)?(?:eval\b|
    "?\$(?:[1-9@*a-z]|\{[1-9@*a-z])|"?\w+_\$(?![^\s]*=))""",
    re.VERBOSE,
)
_NAME = re.compile(r"[\w.-]+")
_DEFINED = re.compile(r"\bfunction\s+([\w.-]+)|(?<![\w.-])([\w.-]+)\s*\(\s*\)")
MAX_NESTING = 5  # of `bash -c` within `bash -c`

# Programs that talk about a command, or look at a file: what they name they do not run.
_SAYS = frozenset(
    {
        *("echo", "grep", "pgrep", "pkill", "printf", ":", "true", "false", "sleep", "kill"),
        *("cat", "head", "tail", "wc", "diff", "file", "stat", "ls", "sed", "test", "[", "[["),
        *("chmod", "chown", "cp", "mv", "rm", "mkdir", "touch", "which", "type", "hash"),
        *("du", "ln", "tar"),
        *("shellcheck", "shfmt", "dos2unix"),
    }
)
_SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh"})
_WORKSPACE = re.compile(
    r"(?:\$GITHUB_WORKSPACE|\$\{GITHUB_WORKSPACE\}|\$\{\{\s*github\.workspace\s*\}\})/?"
)


def find_suite_runs(
    files: Mapping[str, bytes],
    settings: Workflows,
    unreadable: tuple[Broken, ...] = (),
    scripts: Mapping[str, bytes] | None = None,
    roots: Sequence[str] = (),
) -> SuiteRuns:
    """Which suites the workflows run, and what below `roots` they run by path.

    `files` are workflows and local actions by path, `scripts` the shell scripts that they call.
    """
    finder = _Finder(settings, files, scripts or {}, roots)
    relevant = sorted(_relevant(files, finder))
    read = [read_document(files[path], path, settings.action) for path in relevant]
    broken = {*unreadable, *(file for file in read if isinstance(file, Broken))}
    documents = {file.path: file for file in read if isinstance(file, Document)}
    there = {*files, *(file.path for file in broken)}
    walker = Walker(documents, there, finder.wants)
    for script in walker.scripts():
        finder.read(script)
    broken |= {Broken(*problem) for problem in walker.problems}
    return SuiteRuns(
        tuple(sorted(finder.runs, key=lambda run: (run.path, run.line, repr(run)))),
        tuple(sorted(finder.unresolved)),
        tuple(sorted(broken)),
        tuple(sorted(finder.paths)),
        tuple(sorted(finder.parts, key=repr)),
    )


def suite_scripts(
    files: Mapping[str, bytes], documents: Mapping[str, Document], settings: Workflows
) -> Iterator[tuple[Script, tuple[SuiteRun, ...]]]:
    """Every script that starts suites, with those suites. `documents` are the files, read."""
    finder = _Finder(settings, files)
    relevant = {path: documents[path] for path in sorted(_relevant(files, finder) & set(documents))}
    for script in Walker(relevant, set(files), finder.wants).scripts():
        finder.runs.clear()
        finder.read(script)
        if finder.runs:
            yield script, tuple(sorted(finder.runs, key=repr))


def read_document(data: bytes, path: str, action: str = "") -> Document | Broken:
    """One workflow or action; what is wrong with it where it cannot be used.

    Steps that use the published `action` are read as the commands that it runs.
    """
    if len(data) > MAX_BYTES:
        return Broken(path, 1, f"larger than {MAX_BYTES} bytes: split it")
    if not _COMMENT.sub(b"", data.removeprefix(codecs.BOM_UTF8)).strip():
        return Document(path, Node({}, 1, 1, {}))  # it starts nothing
    try:
        return Document(path, as_commands(load(data, path), action))
    except YamlError as error:
        return Broken(path, error.line, error.problem)


def _relevant(files: Mapping[str, bytes], finder: _Finder) -> set[str]:
    """The files that hold a command, and those that call them, however indirectly."""
    found = {path for path, data in files.items() if finder.wants_file(data)}
    callers: dict[str, set[str]] = {}
    for path, data in files.items():
        for used in local_files(data):
            callers.setdefault(used, set()).add(path)
            if used not in files and used.rpartition("/")[2] not in ACTION_FILES:
                found.add(path)  # calls a workflow that is not there
    for path in [path for path in found if finder.wants_path(files[path])]:
        # A called workflow may run a path that it is handed.
        called = (used for used in local_files(files[path]) if used in files)
        found |= {
            used for used in called if _RUNS_VARIABLE.search(files[used].decode("utf-8", "replace"))
        }
    waiting = list(found)
    while waiting:
        new = callers.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def _only_says(words: Sequence[str]) -> bool:
    """Whether a command runs nothing of what it names, as `chmod` and `bash -n` do not."""
    first, second = (*words[:2], "", "")[:2]
    if first in ("sudo", "command", "time") and second:
        return _only_says(words[1:]) or (first == "command" and second in ("-v", "-V"))
    return first in _SAYS or (first in _SHELLS and second == "-n")


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
        if not self.words or _only_says([word.text for word in words]):
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


def _lines_with(clue: bytes, data: bytes) -> Iterator[bytes]:
    at = data.find(clue)
    while at >= 0:
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        yield data[data.rfind(b"\n", 0, at) + 1 : end]
        at = data.find(clue, end)


def _path_clues(roots: Set[str]) -> tuple[str, ...]:
    """Texts of which one stands in nearly every script that runs tests below these by path."""
    names = (root.rpartition("/")[2] for root in sorted(roots))
    return (
        ("pytest", "unittest", "/test_", " test_", *(n for n in names if n != ".")) if roots else ()
    )


def _is_absolute(path: str) -> bool:
    return path.startswith(("/", "~", "$"))


@dataclass
class _Reading:
    """What is known at one point of a script: where it is, and which variables it has set."""

    script: Script
    directory: str | None
    variables: dict[str, Choices] = field(default_factory=dict)
    file: str = ""  # the called script that is being read
    lists: dict[str, tuple[Listed, ...]] = field(default_factory=dict)  # variables of paths
    chosen: str = ""  # where only a run knows that it is this script: as in PathRun

    def choices(self, word: Word) -> Choices:
        return resolve(word.text, self.script.scope.contexts, self.variables)

    def paths(self, word: Word) -> Choices:
        """As `choices`, and what is known of a list of paths that commands print or read."""
        lone = _LONE.fullmatch(word.text)
        found = self.lists.get(lone[1], ()) if lone else self._printed(word.text) or ()
        known = (
            value for value in self.choices(word) if not (found and isinstance(value, Unknown))
        )
        return (*known, *(one.path if one.known else Unknown(one.path) for one in found))

    def _printed(self, text: str) -> tuple[Listed, ...] | None:
        """The paths that `$(…)` gives."""
        inner = _PRINTED.fullmatch(text)
        fed: tuple[Listed, ...] | None = None
        for command in commands(inner[1] or inner[2] or "") if inner else ():
            fed = self.listed(command, fed)
        return fed

    def listed(self, command: Command, fed: tuple[Listed, ...] | None) -> tuple[Listed, ...] | None:
        """The paths that a command prints."""
        values = (self.choices(word) for word in command.words)
        return listed([text_of(value) for known in values for value in known[:1]], fed)

    def follow(self, command: Command, fed: tuple[Listed, ...] | None = None) -> None:
        """Take assignments and `cd` into account; `fed` is what `read` reads."""
        if command.words and command.words[0].text in _READS:
            names = [word.text for word in command.words[1:] if word.text.isidentifier()]
            self.lists |= dict.fromkeys(names, UNKNOWN_LIST if fed is None else fed)
        for name, text in command.assigned:
            if (printed := self._printed(text)) is not None:
                self.lists[name] = printed
        loops = bool(command.words) and command.words[0].text == "for"
        for name, _ in command.assigned if loops else ():
            self.variables.pop(name, None)  # in a loop it has the loop's values alone
        for name, text in command.assigned:
            value = resolve(text, self.script.scope.contexts, self.variables)
            if loops:
                value = tuple(_items(value))
            # Control flow is not followed: an earlier value stays possible.
            self.variables[name] = bounded((*self.variables.get(name, ()), *value))
        if len(command.words) > 1 and command.words[0].text in _ENTERS:
            self.directory = below(self.directory, command.words[1].text)


def _file_timeout(words: Sequence[Word], reading: _Reading) -> float | None:
    """The seconds that a command gives one file, the most that it can be; None if unknown."""
    values = [value for word in options(words, _FILE_TIMEOUT) for value in reading.choices(word)]
    read = [re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smh]?)", text_of(value)) for value in values]
    return (
        max((float(m[1]) * _SECONDS[m[2]] for m in read if m), default=None) if all(read) else None
    )


def _says_nightly(words: Sequence[Word], reading: _Reading) -> bool | None:
    """Whether a command says `--nightly`; None where a variable may hold it."""
    if any(word.text == NIGHTLY for word in words):
        return True
    values = (value for word in words if is_lone(word.text) for value in reading.choices(word))
    hidden = any(isinstance(v, Unknown) or NIGHTLY in text_of(v).split() for v in values)
    return None if hidden else False


def _parts(words: tuple[Word, ...], reading: _Reading) -> Iterator[tuple[int, int, int]]:
    """The parts that a command can ask for: how many there are, which one, and the first."""
    counts = [v for word in options(words, PART_COUNT) for v in reading.choices(word)]
    parts = _whole_number(counts[0]) if len(counts) == 1 else -1
    for option in PART_INDEX:
        first = 0 if option in _FROM_ZERO else -1
        for index in (v for word in options(words, (option,)) for v in reading.choices(word)):
            yield parts, _whole_number(index), first
    for shard in (v for word in options(words, SHARD) for v in reading.choices(word)):
        known, slash, count = text_of(shard).partition("/")
        if slash:  # else the name of a planned shard
            yield _whole_number(count), _whole_number(known), 1


def _whole_number(value: Value) -> int:
    """A number from 0, or -1 where it is not known."""
    text = text_of(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1


def _by_hand(scope: Scope) -> bool:
    """Whether somebody types inputs whenever this runs: no other event starts it."""
    inputs = scope.contexts.get("inputs")
    given = inputs.values() if isinstance(inputs, dict) else ()
    choices = [value.values for value in given if isinstance(value, OneOf)]
    typed = any(isinstance(c, Unknown) and c.typed for values in choices for c in values)
    return typed and not any(None in values for values in choices)


def _items(values: Choices) -> Iterator[Value]:
    """What the variable of a `for` gets: each word of a list."""
    for value in values:
        for word in value.split() if isinstance(value, str) else ():
            yield from counted(word) or (word,)
        if not isinstance(value, str):
            yield value


class _Finder:
    """Collects runs from scripts."""

    def __init__(
        self,
        settings: Workflows,
        files: Mapping[str, bytes],
        scripts: Mapping[str, bytes] = MappingProxyType({}),
        roots: Sequence[str] = (),
    ) -> None:
        ours = (RUN,) if settings.action else ()
        self._patterns = tuple(map(Pattern.of, dict.fromkeys((*settings.commands, *ours))))
        self._action = settings.action.lower().encode()
        self._files = files
        self._roots = frozenset(root.strip("/").removeprefix("./") for root in roots)
        self._path_clues = _path_clues(self._roots)
        self._lines: dict[str, list[str]] = {}
        self._texts: dict[str, list[tuple[Command, bool]]] = {}
        every = b"\n".join((*files.values(), *scripts.values()))
        self._all = _COMMENT.sub(b"", every).decode("utf-8", "replace")
        self._dispatches = bool(_DISPATCHES.search(self._all))
        self._named: Counter[str] = Counter()
        self._defined: Counter[str] = Counter()
        self.runs: set[SuiteRun] = set()
        self.unresolved: set[Unresolved] = set()
        self.paths: set[PathRun] = set()
        self.parts: set[PartRun] = set()
        self._scripts: dict[str, str] = {}
        self._script_names: frozenset[str] = frozenset()
        self._chosen = frozenset(chosen_scripts(every)) if scripts else frozenset()
        texts = {path: data.decode("utf-8", "replace") for path, data in scripts.items()}
        self._makefile = texts.pop(MAKEFILE, "")
        if self._makefile:
            texts[_MAKE] = NAMED.sub(r"${\1}", self._makefile)  # whether any of it matters
        self._add_scripts(texts)

    def _add_scripts(self, texts: Mapping[str, str]) -> None:
        """Keep the scripts that start anything, and then those that call these."""
        while new := {p: t for p, t in texts.items() if p not in self._scripts and self.wants(t)}:
            self._scripts |= new
            names = {path.rpartition("/")[2] for path in self._scripts}
            by_glob = {text for text, glob in self._chosen if self._scripts_of(glob)}
            self._script_names = frozenset(names | by_glob)
            self._texts.clear()

    def wants(self, text: str) -> bool:
        """Whether a script can hold a command, or tests by path."""
        return self._has_command(text) or (
            self._has_path(text) and any(matters for _, matters in self._of(text))
        )

    def _has_command(self, text: str) -> bool:
        for pattern in self._patterns:
            for clue in pattern.clues:
                if clue not in text:
                    break
            else:
                return True
        return False

    def _has_path(self, text: str) -> bool:
        clues = (*self._path_clues, *self._script_names)
        if any(clue in text for clue in clues):
            lines = [line for line in text.splitlines() if "install" not in line]
            if any(clue in line for line in lines for clue in clues):
                return True
        if not self._path_clues:
            return False
        return bool(_RUNS_VARIABLE.search(text) or _RUNS_LIST.search(text.encode()))

    def _matters(self, command: Command) -> bool:
        """Whether a command can start a suite, or tests by path."""
        words = [word.text for word in command.words]
        text = " ".join(words)
        if self._has_command(text):
            return True
        if not self._path_clues or "install" in words or _only_says(words):
            return False
        if words[0] in _ENTERS:
            return any(clue in text for clue in self._path_clues)
        if any(word.rpartition("/")[2] in self._script_names for word in words):
            return True
        if any("$" in name and name in text for name in self._script_names):
            return True
        return may_run_tests(words, self._path_clues)

    def wants_file(self, data: bytes) -> bool:
        """Whether a file can hold a command."""
        if self._action and self._action in data.lower():
            return True
        commands = any(all(clue.encode() in data for clue in p.clues) for p in self._patterns)
        return commands or self.wants_path(data)

    def wants_path(self, data: bytes) -> bool:
        """Whether a file can hold a path of tests."""
        clues = (*(c for c in self._path_clues if "test_" not in c), *self._script_names)
        if self._path_clues and _RUNS_LIST.search(data):
            return True
        return any(
            b" install " not in line and not line.lstrip().startswith(b"#")
            for clue in clues
            for line in _lines_with(clue.encode(), data)
        )

    def read(self, script: Script) -> None:
        """Add what one script starts."""
        if script.shell.startswith(("python", "node")):
            if not any(all(c in script.text for c in p.clues) for p in self._patterns):
                return
            place = self._place(_Reading(script, None), Word(self._patterns[0].clues[0], 0))
            self.unresolved.add(Unresolved(place.path, place.line, f"shell: {script.shell}"))
            return
        text = script.text
        if script.shell.startswith(("pwsh", "powershell")):
            text = text.replace("`\n", "\\\n")  # its line continuation
        self._commands(text, 0, _Reading(script, script.directory), 0)

    def _commands(self, text: str, line: int, reading: _Reading, depth: int) -> None:
        fed: tuple[Listed, ...] | None = None
        for command, matters in self._of(text):
            given, fed = fed, reading.listed(command, fed) if command.after == "|" else None
            reading.follow(command, given)
            words = command.words
            inside = (
                reading.directory and self._path_clues and is_below(reading.directory, self._roots)
            )
            if not matters and not (inside and any(w.text.endswith(".py") for w in words)):
                continue
            if line:
                words = tuple(word._replace(line=word.line + line) for word in words)
            ends = ((p, p.end(words, reading.directory)) for p in self._patterns)
            started = next(((" ".join(p.words), end) for p, end in ends if end is not None), None)
            if started is not None:
                self._suites(started[0], words[started[1] :], reading)
                continue
            if self._path_clues and words and not _only_says([word.text for word in words]):
                self._by_path(words, reading, depth, given, command.read)
            if depth < MAX_NESTING:
                self._nested(words, reading, depth)

    def _by_path(
        self,
        words: tuple[Word, ...],
        reading: _Reading,
        depth: int,
        fed: tuple[Listed, ...] | None = None,
        read: tuple[str, ...] = (),
    ) -> None:
        """The tests that a command runs by path, itself or through a script that it calls."""
        pieces = pieces_of(words, reading.paths, _by_hand(reading.script.scope))
        given = handed([piece.text for piece in pieces], fed)
        if given is not None and given[0] < len(pieces):
            begin, paths = given
            own = [p for p in pieces[begin:] if p.text not in ("{}", ";", "+", *read)]
            last = pieces[-1]
            pieces = [*own, *(Piece(one.path, one.known, last.word, len(pieces)) for one in paths)]
        directory = working_directory(words, reading.directory)
        call = test_call(pieces)
        if call is not None:
            self._add_paths(call, directory, reading, words[0])
        elif depth < MAX_NESTING and self._scripts:
            called = [(at, self._called_scripts(p, directory)) for at, p in enumerate(pieces)]
            first = next((pieces[at].place for at, found in called if found), None)
            for at, found in called:
                if pieces[at].place == first:  # one word, with each value that it may have
                    self._call(pieces[at:], found, replace(reading, directory=directory), depth + 1)

    def _call(
        self, pieces: Sequence[Piece], scripts: Sequence[str], reading: _Reading, depth: int
    ) -> None:
        """What these scripts run, of which the first piece names one."""
        handed_on = {str(at): (p.text,) for at, p in enumerate(pieces) if at and p.known}
        chosen = reading.chosen
        if not pieces[0].known:
            place = self._place(reading, pieces[0].word)
            glob = pieces[0].text.removeprefix("./")
            chosen = chosen or f"{place.path}:{place.line} runs {glob}"
        for script in scripts:
            variables = {**reading.variables, **handed_on}
            inner = replace(reading, variables=variables, file=script, chosen=chosen)
            if script == _MAKE:
                self._make(pieces, inner, depth)
            else:
                self._commands(self._scripts[script], 0, inner, depth)

    def _called_scripts(self, piece: Piece, directory: str | None) -> list[str]:
        """The scripts that a word may name: more than one where only a run knows it."""
        places = self._places(piece.text, directory)
        if piece.known:
            return [path for path in places if path in self._scripts][:1]
        globs = [] if piece.typed else [path for path in places if names_some(path)]
        return next(filter(None, map(self._scripts_of, globs)), [])

    def _scripts_of(self, glob: str) -> list[str]:
        """The scripts that match a glob, of a bare name in any folder."""
        return [path for path in self._scripts if matches(path, (glob,))]

    def _make(self, pieces: Sequence[Piece], inner: _Reading, depth: int) -> None:
        """What `make` runs at the root; in other folders and files, what it runs is not known."""
        arguments = [piece.text for piece in pieces[1:]]
        if any(word in ("-C", "-f") or word.startswith(("--", "-C", "-f")) for word in arguments):
            return
        goals = [word for word in arguments if "=" not in word and not word.startswith("-")]
        given = (word.partition("=") for word in arguments if "=" in word)
        text = recipes(self._makefile, goals, {name: value for name, _, value in given})
        if text is None and any("test" in goal for goal in goals):
            place = self._place(replace(inner, file=""), pieces[0].word)
            job = place.job or inner.script.scope.job
            self.paths.add(PathRun(place.path, place.line, ANY, job, certain=False))
        for line, recipe in shell_lines(text or ""):
            own = replace(inner, file=MAKEFILE, variables=dict(inner.variables))
            self._commands(recipe, line, own, depth)

    def _add_paths(
        self, call: TestCall, directory: str | None, reading: _Reading, first: Word
    ) -> None:
        here = (Piece(".", directory not in ("", None), first, 0),)  # the root may have testpaths
        without = tuple(p for text in call.without for p in self._places(text, directory)[:1])
        parts = call.parts() or (call.part,)
        for piece, part in zip(call.targets or here, parts, strict=True):
            target = next(filter(None, self._targets(piece, directory, call.names)), None)
            if target is None or piece.typed:
                continue
            written = reading.script.scope.origin(piece.word.text)
            place = written or self._place(reading, piece.word)
            self.paths.add(
                PathRun(
                    place.path,
                    place.line,
                    target[0],
                    place.job or reading.script.scope.job,
                    call.names,
                    part,
                    without,
                    piece.known and target[1] and not reading.chosen,
                    reading.chosen,
                    call.launcher,
                )
            )

    def _targets(
        self, piece: Piece, directory: str | None, names: tuple[str, ...]
    ) -> Iterator[tuple[str, bool] | None]:
        """The path of a target from the root, if tests lie there, and whether that is certain."""
        sure = (
            directory is not None or _is_absolute(piece.text) or bool(_WORKSPACE.match(piece.text))
        )
        if piece.text == ANY and not piece.known:
            yield ANY, False  # a list of which nothing is known
        for path in self._places(piece.text, directory):
            wild = any(sign in path for sign in "*?[")
            folder = literal_folder(path) if wild else path
            inside = is_below(folder, self._roots) or "." in self._roots
            above = bool(names or wild) and any(is_below(root, (folder,)) for root in self._roots)
            if inside or (above and (piece.known or not wild)):
                yield path, sure

    def _places(self, text: str, directory: str | None) -> list[str]:
        """Where a path may lie below the root: of one that is absolute elsewhere, its ends."""
        path = below("" if directory is None else directory, text)
        if path is None:
            return []
        return list(suffixes(path)) if _is_absolute(path) else [path]

    def _of(self, text: str) -> list[tuple[Command, bool]]:
        """The commands of a script, and which of them can start a suite; read once a text."""
        if text not in self._texts:
            found = commands(text)
            bodies = [body for name, body in functions(found) if not self._is_called(name)]
            self._texts[text] = [
                (command, bool(command.words) and self._matters(command))
                for at, command in enumerate(found)
                if not any(at in body for body in bodies)
            ]
        return self._texts[text]

    def _is_called(self, function: str) -> bool:
        """Whether anything names a function but its definition, or calls one by a variable."""
        if self._dispatches or not _NAME.fullmatch(function):
            return True
        if not self._named:  # once for all functions: the texts may be long
            self._named = Counter(_NAME.findall(self._all))
            self._defined = Counter(a or b for a, b in _DEFINED.findall(self._all))
        return self._named[function] > self._defined[function]

    def _nested(self, words: tuple[Word, ...], reading: _Reading, depth: int) -> None:
        """`bash -c "cd test && …"`: a word that is a script of its own."""
        for index, word in enumerate(words):
            if len(word.text.split()) < 2:
                continue
            if self._has_command(word.text) or (is_script(words, index) and self.wants(word.text)):
                inside = working_directory(words[:index], reading.directory)
                self._commands(word.text, word.line, replace(reading, directory=inside), depth + 1)

    def _suites(self, command: str, words: tuple[Word, ...], reading: _Reading) -> None:
        named = False
        for arguments in itertools.islice(self._spliced(words, reading), MAX_SPLICED):
            for name in options(arguments, SUITE):
                named = True
                self._suite(command, name, arguments, reading)
                self._part(name, self._backends(arguments, reading), arguments, reading)
        hidden = None if named else self._hidden(words, reading)
        if hidden is not None:
            self._suite(command, hidden, words, reading)

    def _part(
        self,
        name: Word,
        backends: set[Backend | None],
        arguments: tuple[Word, ...],
        reading: _Reading,
    ) -> None:
        """Add the part of a suite that the command asks for, if it does."""
        found = set(_parts(arguments, reading))
        place = self._place(reading, name)
        suites = [text_of(v) for v in reading.choices(name) if not isinstance(v, Unknown)]
        for suite, backend, part in itertools.product(suites, backends, found):
            self.parts.add(PartRun(place.path, place.line, suite, backend, *part))

    def _backends(self, words: tuple[Word, ...], reading: _Reading) -> set[Backend | None]:
        values = [value for word in options(words, HARDWARE) for value in reading.choices(word)]
        return {BACKENDS.get(text_of(value).lower()) for value in values} or {None}

    def _hidden(self, words: tuple[Word, ...], reading: _Reading) -> Word | None:
        """A word that may hold `--suite` but cannot be known, such as `"$@"`."""
        for index, word in enumerate(words):
            if not is_lone(word.text) or (word.quoted and "@" not in word.text):
                continue
            is_value = index > 0 and words[index - 1].text.startswith("--")
            if not is_value and any(isinstance(v, Unknown) for v in reading.choices(word)):
                return word
        return None

    def _spliced(self, words: tuple[Word, ...], reading: _Reading) -> Iterator[tuple[Word, ...]]:
        """The arguments, where a variable holds several (`$ARGS`) once for each value."""
        yield words
        plain = all(any(options(words, names)) for names in (SUITE, HARDWARE))
        plain = plain and not any(_FILE_TIMEOUT[0] in w.text for w in words if is_lone(w.text))
        for index, word in enumerate(words):
            if plain or word.quoted or not is_lone(word.text):
                continue
            for value in reading.choices(word):
                if isinstance(value, str) and "--" in value and " " in value:
                    split = (word._replace(text=part) for part in value.split())
                    yield (*words[:index], *split, *words[index + 1 :])

    def _suite(
        self, command: str, name: Word, arguments: tuple[Word, ...], reading: _Reading
    ) -> None:
        script = reading.script
        backends, limit = self._backends(arguments, reading), _file_timeout(arguments, reading)
        nightly = _says_nightly(arguments, reading)
        here = self._place(reading, name)
        written = script.scope.origin(name.text) or here
        for value in reading.choices(name):
            if isinstance(value, Unknown):
                entry = Unresolved(here.path, here.line, name.text, value.typed)
                self.unresolved.add(entry)
                if value.typed:
                    continue  # what somebody may type by hand runs nothing by itself
            place = here if isinstance(value, Unknown) else written
            job, suite = place.job or script.scope.job, text_of(value)
            for backend in backends if suite else ():
                known = not isinstance(value, Unknown) and not reading.chosen
                given = job, known, limit, nightly, command
                self.runs.add(SuiteRun(place.path, place.line, suite, backend, *given))

    def _place(self, reading: _Reading, word: Word) -> Place:
        """The line of a word. Folded YAML loses line ends: look for the word near by."""
        script = reading.script
        scope, node = script.scope, script.node
        if reading.file:
            return Place(reading.file, word.line + 1, scope.job)
        if scope.path not in self._lines:
            text = self._files[scope.path].decode("utf-8-sig", "replace")
            self._lines[scope.path] = text.splitlines()
        lines = self._lines[scope.path]
        block = lines[node.line - 1][node.column - 1 : node.column] in ("|", ">")
        guess = node.line + block + word.line
        near = (guess, *range(node.line, node.line + script.text.count("\n") + 20))
        clue = word.text.split("\n")[0]
        found = (at for at in near if at <= len(lines) and clue in lines[at - 1])
        return Place(scope.path, next(found, guess), scope.job)
