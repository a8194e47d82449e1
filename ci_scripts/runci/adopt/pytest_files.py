"""Which files pytest takes for tests, by its settings: read by their parsers, never imported."""

from __future__ import annotations

import configparser
import fnmatch
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runci.config.repository import tomllib
from runci.core.errors import RunciError
from runci.core.paths import is_below

DEFAULT_FILES = ("test_*.py", "*_test.py")
_NEVER_ENTERED = ("*.egg", ".*", "_darcs", "build", "CVS", "dist", "node_modules", "venv")


@dataclass(frozen=True, slots=True)
class PytestSettings:
    """What decides which files are tests. `source` is the file that says so, "" for none.

    `markers` are the names of the marks that the settings declare.
    """

    source: str = ""
    testpaths: tuple[str, ...] = ()
    python_files: tuple[str, ...] = DEFAULT_FILES
    norecursedirs: tuple[str, ...] = _NEVER_ENTERED
    markers: tuple[str, ...] = ()


_Section = Mapping[str, Any]


def _toml(*keys: str) -> Callable[[str], _Section | None]:
    def section(text: str) -> _Section | None:
        found = tomllib().loads(text)
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else None

    return section


def _ini(name: str, always: bool = False) -> Callable[[str], _Section | None]:
    def section(text: str) -> _Section | None:
        parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
        parser.read_string(text)
        return dict(parser[name]) if name in parser else {} if always else None

    return section


# In the order in which pytest looks; the first that has its section decides, alone.
SOURCES: tuple[tuple[str, Callable[[str], _Section | None]], ...] = (
    ("pytest.toml", _toml("pytest")),
    (".pytest.toml", _toml("pytest")),
    ("pytest.ini", _ini("pytest", always=True)),
    (".pytest.ini", _ini("pytest", always=True)),
    ("pyproject.toml", _toml("tool", "pytest", "ini_options")),
    ("pyproject.toml", _toml("tool", "pytest")),
    ("tox.ini", _ini("pytest")),
    ("setup.cfg", _ini("tool:pytest")),
)


def read_settings(files: Mapping[str, bytes]) -> PytestSettings:
    """The settings of the repository. `files` are those of `SOURCES` that it has.

    Raises RunciError, with file and line, for one that cannot be read, also below the deciding one.
    """
    found: PytestSettings | None = None
    for name, section in SOURCES:
        if name not in files:
            continue
        try:
            given = section(files[name].decode("utf-8-sig"))
        except (ValueError, configparser.Error) as error:
            said = " ".join(str(error).split())
            raise RunciError(f"{name}: {said}: mend it, then run init again") from error
        if given is not None and found is None:
            found = _settings(name, given)
    return found or PytestSettings()


def _settings(source: str, given: _Section) -> PytestSettings:
    marks = _lines(given.get("markers"))
    return PytestSettings(
        source,
        _words(given.get("testpaths")),
        _words(given.get("python_files")) or DEFAULT_FILES,
        _words(given.get("norecursedirs")) or _NEVER_ENTERED,
        tuple(name for mark in marks if (name := mark.partition(":")[0].partition("(")[0].strip())),
    )


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)):
        return tuple(map(str, value))
    try:
        return tuple(shlex.split(value)) if isinstance(value, str) else ()
    except ValueError:  # a quote that nothing closes: pytest itself splits at blanks
        return tuple(str(value).split())


def _lines(value: object) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)):
        return tuple(map(str, value))
    return tuple(value.split("\n")) if isinstance(value, str) else ()


@dataclass(frozen=True, slots=True)
class Collected:
    """`tests` are what pytest takes; `skipped` have such a name, with why pytest leaves them."""

    tests: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...] = ()


def choose(paths: Sequence[str], settings: PytestSettings) -> Collected:
    """Sort the files that have a test's name. `paths` are all files, from the root."""
    tests: list[str] = []
    skipped: list[tuple[str, str]] = []
    folders = {path.rpartition("/")[0] for path in paths}
    every = {folder[:at] for folder in folders for at in _ends(folder)}
    roots = {
        folder
        for folder in (*every, *paths)
        for wanted in settings.testpaths
        if folder == (plain := wanted.strip("/").removeprefix("./"))
        or fnmatch.fnmatch(folder, plain)
    }
    tops = ("",) if not roots or "." in settings.testpaths else tuple(roots)
    for path in paths:
        if not path.endswith(".py") or not is_named(path, settings.python_files):
            continue
        below = [path[len(top) :].strip("/") for top in tops if is_below(path, (top,))]
        never = [_never_entered(one, settings.norecursedirs) for one in below]
        if "" in never:
            tests.append(path)
        elif never:
            skipped.append((path, f"norecursedirs has {never[0]}"))
        else:
            skipped.append((path, f"outside testpaths of {settings.source}"))
    return Collected(tuple(tests), tuple(skipped))


def without_empty(files: Collected, empty: Sequence[str]) -> Collected:
    """The same without files that have the name of a test, and none in them."""
    none = frozenset(empty)
    tests = tuple(path for path in files.tests if path not in none)
    more = [(path, "no test is in it") for path in empty]
    return Collected(tests, tuple(sorted([*files.skipped, *more])))


def is_named(path: str, patterns: Sequence[str]) -> bool:
    """Whether a file has a test's name: a pattern with a slash means the whole path."""
    name = path.rpartition("/")[2]
    return any(
        fnmatch.fnmatchcase(f"/{path}" if "/" in one else name, f"*/{one}" if "/" in one else one)
        for one in patterns
    )


def _ends(folder: str) -> list[int]:
    return [at for at, char in enumerate(folder) if char == "/"] + [len(folder)]


def _never_entered(path: str, patterns: Sequence[str]) -> str:
    """The pattern of a folder that pytest does not enter, "" where it gets to the file."""
    parts = path.split("/")[:-1]
    whole = ["/".join(parts[: count + 1]) for count in range(len(parts))]
    for name, folder in zip(parts, whole, strict=True):
        for one in patterns:
            is_path = "/" in one
            if fnmatch.fnmatchcase(
                f"/{folder}" if is_path else name, f"*{one}" if is_path else one
            ):
                return one
    return ""
