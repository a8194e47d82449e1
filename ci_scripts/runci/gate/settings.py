"""The files under `.github` by which maintainers steer the gate, as the default branch has them."""

from __future__ import annotations

from runci.gate.api import ApiError
from runci.gate.trees import Commits, Entry

_FOLDER = ".github"


def read_settings(commits: Commits, branch: str, *paths: str) -> tuple[bytes | None, ...]:
    """Files of `.github` at one commit; None where that commit's listing lacks them.

    A file that GitHub does not find proves nothing, for it says the same of what a token may not
    read. Raises ApiError, with the names of the files, where anything cannot be read.
    """
    try:
        listed = _listed(commits, branch)
        return tuple(_read(commits, path, listed.get(path)) for path in paths)
    except ApiError as error:
        which = " and ".join(paths)
        raise ApiError(f"{which} on {branch} cannot be read: {error}", error.status) from error


def _listed(commits: Commits, branch: str) -> dict[str, Entry]:
    folder = commits.entries(commits.branch(branch).tree).get(_FOLDER)
    if folder is None:
        return {}
    if folder.kind != "tree":
        raise ApiError(f"{_FOLDER} is no folder but a {_what(folder)}: put a folder in its place")
    return {f"{_FOLDER}/{name}": entry for name, entry in commits.entries(folder.sha).items()}


def _read(commits: Commits, path: str, entry: Entry | None) -> bytes | None:
    if entry is None:
        return None
    if not entry.is_file:
        raise ApiError(f"{path} is no file but a {_what(entry)}: put a file in its place")
    return commits.blob(entry.sha)


def _what(entry: Entry) -> str:
    kinds = {"tree": "folder", "commit": "submodule"}
    return kinds.get(entry.kind) or ("file" if entry.is_file else "link")
