"""Which repository, and its suites.yml through the cache."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from runci.core.errors import RunciError
from runci.core.paths import path_bytes, read_named
from runci.read.cache import Cache, digest, source_version

if TYPE_CHECKING:
    from runci.config.taxonomy import Taxonomy

CONFIG = Path("test", "suites.yml")
# At the root; read where it is there.
BASELINE = "runci-baseline.json"
_MISSING = (
    "no such file: it names the suites and folders of a repository; pass --config or --root, "
    "or start from the example in the README"
)
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

    data, path = read_named(config, missing=_MISSING), _shown(root, config)
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


def find_root(given: str | None, config: str | None = None) -> Path:
    """The repository: as given, else upwards from here the first with a taxonomy or a `.git`."""
    if given is not None:
        root = Path(given)
        if not root.is_dir():
            raise RunciError(f"--root {given}: no such folder")
        return root
    here = Path.cwd()
    above = (here, *here.parents)
    if config is None:
        for folder in above:
            if (folder / CONFIG).is_file():
                return folder
    return next((folder for folder in above if (folder / ".git").exists()), here)
