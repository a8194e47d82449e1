"""Which repository, where its taxonomy stands, and what that says, through the cache."""

from __future__ import annotations

import contextlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runci.core import inputs
from runci.core.errors import RunciError
from runci.core.paths import path_bytes, read_named
from runci.read.cache import Cache, digest, source_version

if TYPE_CHECKING:
    from runci.config.taxonomy import Taxonomy

# Where a taxonomy may stand, below the root; `init` writes the first.
CONFIGS = ("runci.yml", ".github/runci.yml", "test/suites.yml")
CONFIG_NAMES = ("runci.yml", "suites.yml")  # what the gate protects, in any folder
# At the root; read where it is there.
BASELINE = "runci-baseline.json"
PYPROJECT = "pyproject.toml"
_MISSING = (
    "it names the suites and folders of a repository; pass --config or --root, "
    "or start from the example in the README"
)
# `[tool.runci]`, and the rare `[tool]` or `tool.runci =`.
_MAY_HAVE_TABLE = re.compile(rb"""(?m)^\s*(\[\s*["']?tool["']?\s*(\]|\.\s*["']?runci)|tool\b)""")
# What the rows of the cache depend on, besides their keys: what reads, checks and writes them.
_SOURCES = ("core", "read", "config", "workflows", "config/schemas/*.json", "text/wording.py")


def open_cache(root: Path, config: Path, folder: Path | None) -> Cache:
    """The cache of a repository and its configuration; without a folder, one that keeps nothing."""
    if folder is None:
        return Cache(None, "")
    import hashlib

    name = hashlib.blake2b(
        path_bytes(f"{root.absolute()}\0{config.absolute()}"), digest_size=8
    ).hexdigest()
    return Cache(folder / f"lint-{name}", source_version(*_SOURCES))


def load_taxonomy_file(root: Path, config: Path) -> Taxonomy:
    """Read suites.yml. Raises RunciError where it is missing or wrong."""
    return read_taxonomy(root, config, Cache(None, ""))[0]


def read_taxonomy(root: Path, config: Path, cache: Cache) -> tuple[Taxonomy, str]:
    """What suites.yml says, and its key in the cache. Raises RunciError where it is wrong."""
    from runci.config.taxonomy import from_json, to_json  # late: whole answers need none

    others = f"nor {' or '.join(CONFIGS[1:])}: " if config == root / CONFIGS[0] else ""
    missing = f"no such file, {others}{_MISSING}" if others else f"no such file: {_MISSING}"
    data, path = read_named(config, missing=missing), _shown(root, config)
    key = digest(path_bytes(f"{path}\0") + data)
    row = cache.get(key)
    if row is not None:
        with contextlib.suppress(TypeError, ValueError, KeyError, AttributeError, RecursionError):
            return from_json(row), key  # else it is not ours
    from runci.config.suites import load_taxonomy  # late: it needs YAML and the schema

    taxonomy = load_taxonomy(data, path)
    cache.put(key, to_json(taxonomy))
    return taxonomy, key


def _shown(root: Path, config: Path) -> str:
    path = config.absolute()
    inside = path.is_relative_to(root.absolute())
    return (path.relative_to(root.absolute()) if inside else config).as_posix()


def find_config(root: Path, given: str | Path | None = None) -> Path:
    """The taxonomy: as given, as pyproject.toml says, else where it stands of `CONFIGS`.

    Where none stands it is the first of them. Raises RunciError where two do, or where
    `[tool.runci]` names no file that the gate protects.
    """
    if given:
        return Path(given)
    named = _named_in_pyproject(root)
    if named is not None:
        return root / named
    standing = [name for name in CONFIGS if _stands(root / name)]
    if len(standing) > 1:
        raise RunciError(
            f"{standing[1]}: {standing[0]} stands there too, and which one decides? Delete one, "
            "or name it: `config` of [tool.runci] in pyproject.toml, or --config"
        )
    return root / (standing[0] if standing else CONFIGS[0])


def has_config(folder: Path) -> bool:
    """Whether a taxonomy stands in one of the usual places below, or pyproject.toml names it."""
    return any(_stands(folder / name) for name in CONFIGS) or (
        _tool_runci(folder / PYPROJECT) is not None
    )


def _stands(path: Path) -> bool:
    """Whether there is such a file; what is kept of a run depends on that it is not, too."""
    inputs.look(path)
    return path.is_file()


def _named_in_pyproject(root: Path) -> str | None:
    """What `config` of `[tool.runci]` says."""
    path = root / PYPROJECT
    table = _tool_runci(path)
    if table is None:
        return None
    named = table.get("config")
    where = f"{path.name}: [tool.runci]"
    unknown = sorted(set(table) - {"config"})
    if unknown:
        raise RunciError(f"{where} has no {unknown[0]!r}; it has `config`, the taxonomy's path")
    if not isinstance(named, str) or not _is_inside(named):
        raise RunciError(f"{where} config = {named!r} is no path below the repository's root")
    if named.rpartition("/")[2] not in CONFIG_NAMES:
        raise RunciError(
            f"{where} config = {named!r}: call the file {' or '.join(CONFIG_NAMES)}, in any "
            "folder: these the gate protects"
        )
    return named


def _is_inside(path: str) -> bool:
    return not path.startswith("/") and ".." not in path.split("/") and "\\" not in path


def _tool_runci(path: Path) -> dict[str, Any] | None:
    """The table of pyproject.toml that is ours; None where there is none."""
    inputs.look(path)
    try:
        return runci_table(path.read_bytes(), path.name) if path.is_file() else None
    except OSError:
        return None


def runci_table(data: bytes | None, name: str) -> dict[str, Any] | None:
    """`[tool.runci]` of a TOML file; None where it, or the file, is not there.

    Raises RunciError where the file is no TOML or `tool.runci` no table.
    """
    if data is None or not _MAY_HAVE_TABLE.search(data):  # reading TOML costs every start 5 ms
        return None
    try:
        table = tomllib().loads(data.decode()).get("tool", {}).get("runci")
    except ValueError as error:
        raise RunciError(f"{name}: {error}") from error
    if table is not None and not isinstance(table, dict):
        raise RunciError(f"{name}: [tool.runci] is no table, but {table!r}")
    return table


def tomllib() -> Any:
    """Python's reader of TOML, or the same from PyPI for Python 3.10."""
    import importlib

    return importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


def find_root(given: str | None, config: str | None = None) -> Path:
    """The repository: as given, else upwards from here the first with a taxonomy or a `.git`."""
    if given is not None:
        root = Path(given)
        if not root.is_dir():
            raise RunciError(f"--root {given}: no such folder")
        return root
    here = Path.cwd()
    above = (here, *here.parents)
    known = (f for f in above if (f / ".git").exists() or (config is None and has_config(f)))
    return next(known, here)
