"""The part of the played GitHub that keeps commits, trees and files, all derived from one world.

`contents` are the files of the default branch, whose newest commit is BASE. A pull request's head
is BASE with the changes that `files` lists, or for another head `pushed`; its merge commit has the
same tree. `trees` (commit: path: [mode, type, sha], or None) changes what follows from that.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import unquote

BASE = "b" * 40
OLDER = "c" * 40  # where the histories of two unrelated commits meet

Tree: TypeAlias = dict[str, tuple[str, str, str]]  # path: mode, type, sha


def answer(world: dict[str, Any], path: str, query: Mapping[str, str]) -> Any:
    """The answer to a GET below the repository; None where it is not about git."""
    for pattern, give in _ROUTES:
        found = re.fullmatch(pattern, path)
        if found:
            return give(world, query, *map(unquote, found.groups()))
    return None


def blob_sha(data: bytes) -> str:
    """As git numbers a file."""
    return _hash(f"blob {len(data)}\0".encode() + data)


def _hash(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


def _parents(world: Mapping[str, Any], sha: str) -> list[str] | None:
    """None: there is no such commit. Without `merges` any unknown one merges the head."""
    merges, head = world["merges"], world["pull"]["head"]
    if merges is not None and sha in merges:
        found: list[str] = merges[sha]
        return found
    if sha in (BASE, OLDER):
        return []
    if sha == head or sha in world["pushed"]:
        return [BASE]
    return [BASE, head] if merges is None else None


def _tree(world: Mapping[str, Any], sha: str) -> Tree:
    """What is in a commit."""
    lists = [world["files"], *world["pushed"].values()]
    given = [f if isinstance(f, dict) else {"filename": f} for files in lists for f in files]
    tree = {
        f.get("previous_filename", f["filename"]): _file(f["filename"])
        for f in given
        if f.get("status") != "added"
    }
    texts = {path: text for path, text in world["contents"].items() if text is not None}
    tree |= {path: ("100644", "blob", blob_sha(text.encode())) for path, text in texts.items()}
    # Of a merge the second parent brings the changes, whatever that is.
    changer = [sha, *(_parents(world, sha) or [])[1:]][-1]
    changes = world["pushed"].get(changer)
    if changes is None and changer == world["pull"]["head"]:
        changes = world["files"]
    for each in changes or ():
        change = each if isinstance(each, dict) else {"filename": each}
        if change.get("status") in ("renamed", "removed"):
            tree.pop(change.get("previous_filename", change["filename"]))
        if change.get("status") != "removed":
            tree[change["filename"]] = _file(f"{change['filename']} as {changer}")
    for path, entry in world["trees"].get(sha, {}).items():
        tree.pop(path, None)
        if entry is not None:
            tree[path] = tuple(entry)
    return tree


def _file(text: str) -> tuple[str, str, str]:
    return "100644", "blob", _hash(text.encode())


def _folders(tree: Tree) -> dict[str, Tree]:
    """Every folder, the root as "", with all that is below it."""
    folders: dict[str, Tree] = {"": tree}
    for path, entry in tree.items():
        parts = path.split("/")
        for depth in range(1, len(parts)):
            below = folders.setdefault("/".join(parts[:depth]), {})
            below["/".join(parts[depth:])] = entry
    return folders


def _number(tree: Tree) -> str:
    return _hash(repr(sorted(tree.items())).encode())


def _commits(world: Mapping[str, Any]) -> list[str]:
    """Those that can have a tree of their own."""
    merges = world["merges"] or ("f" * 40,)  # as saved events write it
    return [BASE, OLDER, world["pull"]["head"], *world["pushed"], *merges, *world["trees"]]


def _git_tree(world: dict[str, Any], query: Mapping[str, str], sha: str) -> Any:
    every = [t for commit in _commits(world) for t in _folders(_tree(world, commit)).values()]
    found = next((tree for tree in every if _number(tree) == sha), None)
    if found is None:
        return None
    below = {path: tree for path, tree in _folders(found).items() if path}
    listed: Tree = {path: ("040000", "tree", _number(tree)) for path, tree in below.items()}
    listed |= found
    items = [
        {"path": path, "mode": mode, "type": kind, "sha": ident}
        for path, (mode, kind, ident) in sorted(listed.items())
        if "recursive" in query or "/" not in path
    ]
    return {"sha": sha, "tree": items, "truncated": world["truncated"]}


def _blob(world: dict[str, Any], _query: Mapping[str, str], sha: str) -> Any:
    for text in filter(None, world["contents"].values()):
        data = text.encode()
        if blob_sha(data) == sha:
            content = base64.encodebytes(data).decode()
            return {"sha": sha, "size": len(data), "encoding": "base64", "content": content}
    return None


def _git_commit(world: dict[str, Any], _query: Mapping[str, str], sha: str) -> Any:
    """In git's own form."""
    parents = _parents(world, sha)
    if parents is None:
        return None
    tree = {"sha": _number(_tree(world, sha))}
    return {"sha": sha, "tree": tree, "parents": [{"sha": parent} for parent in parents]}


def _commit(world: dict[str, Any], sha: str) -> Any:
    """In the form of lists, branches and comparisons."""
    found = _git_commit(world, {}, sha) or {"tree": {"sha": _number({})}, "parents": []}
    return {"sha": sha, "commit": {"tree": found["tree"]}, "parents": found["parents"]}


def _branch(world: dict[str, Any], _query: Mapping[str, str], name: str) -> Any:
    if name not in (world["repository"]["default_branch"], world["pull"]["base_ref"]):
        return None
    return {"name": name, "commit": _commit(world, BASE), "protected": True}


def _compare(world: dict[str, Any], _query: Mapping[str, str], base: str, head: str) -> Any:
    heads = (world["pull"]["head"], *world["pushed"])
    status = world["compare"].get(f"{base}...{head}")
    if status is None and base == head:
        status = "identical"
    elif status is None and BASE in (base, head) and (base in heads or head in heads):
        status = "ahead" if base == BASE else "behind"
    meet = {"ahead": base, "identical": base, "behind": head}.get(status, OLDER)
    commits = {"base_commit": _commit(world, base), "merge_base_commit": _commit(world, meet)}
    return {"status": status or "diverged", **commits, "total_commits": 0, "commits": []}


_ROUTES: tuple[tuple[str, Callable[..., Any]], ...] = (
    (r"/branches/([^/]+)", _branch),
    (r"/git/commits/([0-9a-f]{40})", _git_commit),
    (r"/git/trees/([0-9a-f]{40})", _git_tree),
    (r"/git/blobs/([0-9a-f]{40})", _blob),
    (r"/compare/([0-9a-f]{40})\.\.\.([0-9a-f]{40})", _compare),
)
