"""The files by which maintainers steer the gate, as the default branch has them."""

from __future__ import annotations

from dataclasses import dataclass

from runci.gate.api import ApiError
from runci.gate.trees import Commits, Entry


@dataclass(frozen=True, slots=True)
class Setting:
    """A file of settings and where it stands; without `data` there is none, and that is usual."""

    path: str
    data: bytes | None


def read_setting(commits: Commits, branch: str, path: str) -> Setting:
    """A file of the branch's newest commit, at FOLDER/NAME or, as NAME, at the root.

    A file that GitHub does not find proves nothing, for it says the same of what a token may not
    read: it is absent where that commit's listings lack it. Raises ApiError, with the path, where
    anything cannot be read, or the file stands in both places.
    """
    try:
        found = _standing(commits, branch, path)
        return Setting(path, None) if found is None else Setting(found[0], _read(commits, *found))
    except ApiError as error:
        raise ApiError(f"{path} on {branch} cannot be read: {error}", error.status) from error


def _standing(commits: Commits, branch: str, path: str) -> tuple[str, Entry] | None:
    """The file in the one of its two places where it stands."""
    folder, _, name = path.rpartition("/")
    root = commits.entries(commits.branch(branch).tree)
    below = root.get(folder)
    if below is not None and below.kind != "tree":
        raise ApiError(f"{folder} is no folder but a {_what(below)}: put a folder in its place")
    listed = commits.entries(below.sha) if below is not None else {}
    places = ((path, listed.get(name)), (name, root.get(name)))
    found = [(where, entry) for where, entry in places if entry is not None]
    if len(found) > 1:
        raise ApiError(f"{path} and {name} are both there: delete one")
    return found[0] if found else None


def _read(commits: Commits, path: str, entry: Entry) -> bytes:
    if not entry.is_file:
        raise ApiError(f"{path} is no file but a {_what(entry)}: put a file in its place")
    return commits.blob(entry.sha)


def _what(entry: Entry) -> str:
    kinds = {"tree": "folder", "commit": "submodule"}
    return kinds.get(entry.kind) or ("file" if entry.is_file else "link")
