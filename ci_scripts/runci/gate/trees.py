"""Commits, their trees and files, by number: no push between two questions can swap them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from runci.gate.api import Api, ApiError
from runci.gate.events import at, number, sha, text


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit: its number, that of its tree, and its parents in order."""

    sha: str
    tree: str
    parents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """What a tree says of one path, in git's words; `kind` is blob, tree or commit."""

    mode: str
    kind: str
    sha: str

    @property
    def is_file(self) -> bool:
        """Whether it is a file with bytes of its own, so no link, folder or submodule."""
        return self.kind == "blob" and self.mode.startswith("100")


class Commits:
    """Reads one repository (`/repos/OWNER/NAME`). Every method raises ApiError."""

    def __init__(self, api: Api, repo: str) -> None:
        self._api, self._repo = api, repo
        self._branches: dict[str, Commit] = {}
        self._known: dict[str, Commit] = {}
        self._folders: dict[str, dict[str, Entry]] = {}

    def branch(self, name: str) -> Commit:
        """The newest commit of a branch, asked once, so that all facts are of the same."""
        if name not in self._branches:
            path = f"{self._repo}/branches/{quote(name, safe='')}"
            found = self._api.get(path)
            if text(found, "name") != name:
                raise ApiError(f"GET {path}: another branch")
            self._branches[name] = self._listed(at(found, "commit"), path)
        return self._branches[name]

    def commit(self, ident: str) -> Commit:
        """A commit by its number."""
        if ident not in self._known:
            path = f"{self._repo}/git/commits/{ident}"
            found = self._api.get(path)
            if self._kept(found, at(found, "tree"), path).sha != ident:
                raise ApiError(f"GET {path}: another commit")
        return self._known[ident]

    def contains(self, commit: str, ancestor: str) -> bool:
        """Whether a commit is another one, or descends from it."""
        if commit == ancestor:
            return True
        status, base = self._compared(ancestor, commit)
        return status in ("ahead", "identical") and base.sha == ancestor

    def merge_base(self, base: str, head: str) -> Commit:
        """The commit at which `head` left the history of `base`."""
        return self._compared(base, head)[1]

    def entries(self, tree: str, *, recursive: bool = False) -> dict[str, Entry]:
        """A folder by its number: path to entry; `recursive` with everything below it."""
        if not recursive and tree in self._folders:
            return self._folders[tree]
        path = f"{self._repo}/git/trees/{tree}"
        found = self._api.get(path, recursive="1") if recursive else self._api.get(path)
        if at(found, "truncated") is True:
            raise ApiError(f"GET {path}: it has more entries than GitHub lists (100,000, or 7 MB)")
        listed = at(found, "tree")
        if at(found, "truncated") is not False or not isinstance(listed, list):
            raise ApiError(f"GET {path}: no whole listing")
        if sha(found, "sha") != tree:
            raise ApiError(f"GET {path}: another tree")
        entries: dict[str, Entry] = {}
        for item in listed:
            name, mode, kind = text(item, "path"), text(item, "mode"), text(item, "type")
            ident = sha(item, "sha")
            if name is None or mode is None or kind is None or ident is None:
                raise ApiError(f"GET {path}: an entry without path, mode, type or sha")
            # Names that are no UTF-8 are answered with replacements, so that two can look alike.
            if name in entries or kind not in ("blob", "tree", "commit"):
                raise ApiError(f"GET {path}: {name!r} stands there twice, or is a {kind}")
            entries[name] = Entry(mode, kind, ident)
        if not recursive:
            self._folders[tree] = entries
        return entries

    def blob(self, ident: str) -> bytes:
        """A file's bytes by its number."""
        path = f"{self._repo}/git/blobs/{ident}"
        found = self._api.get(path)
        content = at(found, "content")
        if text(found, "encoding") != "base64" or not isinstance(content, str):
            raise ApiError(f"GET {path}: not in base64")
        try:
            data = base64.b64decode(content)
        except ValueError as error:  # binascii.Error, and what is not ASCII
            raise ApiError(f"GET {path}: not in base64") from error
        if sha(found, "sha") != ident or len(data) != (number(found, "size") or 0):
            raise ApiError(f"GET {path}: another file, or not all of it")
        return data

    def _compared(self, base: str, head: str) -> tuple[str, Commit]:
        path = f"{self._repo}/compare/{base}...{head}"
        found = self._api.get(path, per_page="1")
        status = text(found, "status")
        if status not in ("ahead", "identical", "behind", "diverged"):
            raise ApiError(f"GET {path}: no status")
        return status, self._listed(at(found, "merge_base_commit"), path)

    def _listed(self, found: object, path: str) -> Commit:
        """A commit in the form of lists and branches, which keeps git's own part apart."""
        return self._kept(found, at(found, "commit", "tree"), path)

    def _kept(self, found: object, tree: object, path: str) -> Commit:
        ident, root, parents = sha(found, "sha"), sha(tree, "sha"), at(found, "parents")
        if ident is None or root is None or not isinstance(parents, list):
            raise ApiError(f"GET {path}: a commit without sha, tree or parents")
        merged = [sha(parent, "sha") for parent in parents]
        if None in merged:
            raise ApiError(f"GET {path}: a parent without its sha")
        self._known[ident] = Commit(ident, root, tuple(parent for parent in merged if parent))
        return self._known[ident]


def changed_paths(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> tuple[str, ...]:
    """The paths that differ between two recursive listings; folders count by what is in them.

    What became a link or a submodule ends with a slash: no listing says what lies behind it.
    """
    old, new = _without_folders(before), _without_folders(after)
    paths = sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))
    return tuple(path if path not in new or new[path].is_file else f"{path}/" for path in paths)


def _without_folders(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    return {path: entry for path, entry in entries.items() if entry.kind != "tree"}
