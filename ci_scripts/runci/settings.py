"""What a lint reads besides test files, through its cache: suites.yml and the workflows."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

from runci.cache import Cache, digest, source_version
from runci.errors import RunciError
from runci.suites import Taxonomy
from runci.suites.row import from_json, to_json
from runci.workflows import SuiteRuns, find_suite_runs, read_workflows

# What the rows of the cache depend on, besides their keys: what reads, checks and writes them.
_SOURCES = (
    "parse",
    "workflows",
    "suites",
    "errors.py",
    "globs.py",
    "reading.py",
    "registration.py",
    "settings.py",
    "source.py",
    "yamlpos.py",
    "schemas/*.json",
)


def open_cache(root: Path, config: Path, folder: Path | None) -> Cache:
    """The cache of a repository and its configuration; without a folder, one that keeps nothing."""
    if folder is None:
        return Cache(None, "")
    name = hashlib.blake2b(
        _bytes(f"{root.absolute()}\0{config.absolute()}"), digest_size=8
    ).hexdigest()
    return Cache(folder / f"lint-{name}", source_version(*_SOURCES))


def load_taxonomy_file(root: Path, config: Path) -> Taxonomy:
    """Read suites.yml. Raises RunciError where it is missing or wrong."""
    return read_taxonomy(root, config, Cache(None, ""))[0]


def read_taxonomy(root: Path, config: Path, cache: Cache) -> tuple[Taxonomy, str]:
    """What suites.yml says, and its key in the cache. Raises RunciError where it is wrong."""
    data, path = _contents(config), _shown(root, config)
    key = digest(_bytes(f"{path}\0") + data)
    row = cache.get(key)
    if row is not None:
        with contextlib.suppress(TypeError, ValueError, KeyError, AttributeError, RecursionError):
            return from_json(row), key  # else it is not ours
    from runci.suites.load import load_taxonomy  # late: it needs YAML and the schema

    taxonomy = load_taxonomy(data, path)
    cache.put(key, to_json(taxonomy))
    return taxonomy, key


def _contents(config: Path) -> bytes:
    try:
        return config.read_bytes()
    except FileNotFoundError as error:
        raise RunciError(
            f"{config}: no such file: it names the suites and folders of a repository; "
            "pass --config or --root, or start from the example in the README"
        ) from error
    except OSError as error:
        raise RunciError(f"{config}: cannot read: {error.strerror}") from error


def _shown(root: Path, config: Path) -> str:
    path = config.absolute()
    inside = path.is_relative_to(root.absolute())
    return (path.relative_to(root.absolute()) if inside else config).as_posix()


def read_suite_runs(root: Path, taxonomy: Taxonomy, cache: Cache) -> tuple[SuiteRuns | None, str]:
    """What the workflows run, and its key in the cache; None where there are none."""
    files, broken = read_workflows(root, taxonomy.workflows)
    if not files and not broken:
        return None, ""
    hashed = [f"{path}:{digest(data)}" for path, data in sorted(files.items())]
    key = digest(_bytes("\0".join([*hashed, repr(broken), repr(taxonomy.workflows)])))
    row = cache.get(key)
    if row is not None:
        with contextlib.suppress(TypeError, ValueError, KeyError, RecursionError):  # not ours
            return SuiteRuns.from_json(row), key
    runs = find_suite_runs(files, taxonomy.workflows, broken)
    cache.put(key, runs.to_json())
    return runs, key


def _bytes(text: str) -> bytes:
    """A path's text as bytes, whatever its encoding."""
    return text.encode("utf-8", "surrogateescape")
