"""Reads the gate's files: ci-permissions.yml, ci-status.yml and a host's host.yml."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from runci.config.schema import Problem
from runci.config.suites import load_checked
from runci.read.yamlpos import Node

RUN_LABEL = "run-ci"
# Or at the root, under the same name; never in two places.
PERMISSIONS = ".github/ci-permissions.yml"
STATUS = ".github/ci-status.yml"


@dataclass(frozen=True, slots=True)
class Status:
    """`ci-status.yml` on the default branch."""

    paused: bool
    reason: str = ""
    min_base_sha: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One person of `ci-permissions.yml` on the default branch."""

    login: str
    id: int
    cooldown_minutes: float


@dataclass(frozen=True, slots=True)
class Labels:
    """The names of the gate's labels, as GitHub shows them: no two differ in case alone."""

    run: str = RUN_LABEL
    extra: str = "run-ci-extra"
    bypass_maintenance: str = "bypass-maintenance"
    bypass_fastfail: str = "bypass-fastfail"


@dataclass(frozen=True, slots=True)
class Permissions:
    """`ci-permissions.yml` on the default branch. `protected`: globs beside the built-in ones;
    `merge_queue`: whether a merge queue may use GPUs."""

    people: tuple[Entry, ...] = ()
    protected: tuple[str, ...] = ()
    merge_queue: bool = False
    labels: Labels = Labels()


@dataclass(frozen=True, slots=True)
class HostWorkflow:
    """A workflow that may use the host, from which refs, and the labels it needs; None: the one
    that starts tests, as the repository's default branch names it."""

    path: str
    refs: tuple[str, ...]
    labels: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class HostRepository:
    """A repository that may use the host; `id` decides, for a name can change hands."""

    name: str
    id: int
    workflows: tuple[HostWorkflow, ...]


@dataclass(frozen=True, slots=True)
class Host:
    """What a GPU host accepts. `token_file` stands relative to the folder of host.yml.

    `append_only`: whether the log and its folder must be so (`chattr +a`) for a job to be allowed.
    """

    repositories: tuple[HostRepository, ...]
    api_url: str = "https://api.github.com"
    token_file: str = "token"  # noqa: S105 (a file's name)
    append_only: bool = True


def load_permissions(data: bytes | None, path: str = PERMISSIONS) -> Permissions:
    """ci-permissions.yml, the defaults without it. Raises RunciError with every fault."""
    if data is None:
        return Permissions()
    given = load_checked(data, path, "ci-permissions", _same_labels)
    people = given["people"]
    return Permissions(
        tuple(Entry(p["login"], int(p["id"]), float(p["cooldown_minutes"])) for p in people),
        tuple(given.get("protected", ())),
        given.get("merge_queue") == "allow",
        Labels(**given.get("labels", {})),
    )


def _same_labels(root: Node) -> Iterator[Problem]:
    """GitHub has one label for names that differ in case alone, so it would mean two things."""
    named = root.get("labels")
    nodes = named.mapping if named is not None else {}
    names = {field.name: str(field.default) for field in fields(Labels)}
    names |= {key: str(node.value) for key, node in nodes.items()}
    for key, node in nodes.items():
        for other, name in names.items():
            if other != key and name.lower() == names[key].lower():
                yield Problem(
                    node.line,
                    node.column,
                    f"labels.{key}: {names[key]!r} is also the name of labels.{other}: "
                    "give each its own name; case does not count",
                    ("labels", key),
                )


def load_status(data: bytes | None, path: str = STATUS) -> Status:
    """ci-status.yml, not paused without it. Raises RunciError with every fault."""
    if data is None:
        return Status(paused=False)
    given = load_checked(data, path, "ci-status")
    return Status(given["paused"], given.get("reason", ""), given.get("min_base_sha"))


def load_host(data: bytes, path: str) -> Host:
    """host.yml. Raises RunciError with every fault."""
    given = load_checked(data, path, "gate-host")
    optional = {k: given[k] for k in ("api_url", "token_file", "append_only") if k in given}
    return Host(tuple(map(_repository, given["repositories"])), **optional)


def _repository(given: dict[str, Any]) -> HostRepository:
    return HostRepository(
        given["name"],
        int(given["id"]),
        tuple(
            HostWorkflow(w["path"], tuple(w["refs"]), tuple(w["labels"]) if "labels" in w else None)
            for w in given["workflows"]
        ),
    )
