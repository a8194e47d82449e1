"""Reads the gate's files: ci-permissions.yml, ci-status.yml and a host's host.yml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runci.config.suites import load_checked

RUN_LABEL = "run-ci"
PERMISSIONS = ".github/ci-permissions.yml"
STATUS = ".github/ci-status.yml"


@dataclass(frozen=True, slots=True)
class Status:
    """`.github/ci-status.yml` on the default branch."""

    paused: bool
    reason: str = ""
    min_base_sha: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One person of `.github/ci-permissions.yml` on the default branch."""

    login: str
    id: int
    cooldown_minutes: float


@dataclass(frozen=True, slots=True)
class HostWorkflow:
    """A workflow that may use the host, from which refs, and the labels it needs."""

    path: str
    refs: tuple[str, ...]
    labels: tuple[str, ...] = (RUN_LABEL,)


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


def load_people(data: bytes | None) -> tuple[Entry, ...]:
    """The people of ci-permissions.yml, none without it. Raises RunciError with every fault."""
    if data is None:
        return ()
    people = load_checked(data, PERMISSIONS, "ci-permissions")["people"]
    return tuple(Entry(p["login"], int(p["id"]), float(p["cooldown_minutes"])) for p in people)


def load_protected(data: bytes | None) -> tuple[str, ...]:
    """The globs that ci-permissions.yml adds to the protected paths. Raises RunciError."""
    if data is None:
        return ()
    return tuple(load_checked(data, PERMISSIONS, "ci-permissions").get("protected", ()))


def load_merge_queue(data: bytes | None) -> bool:
    """Whether ci-permissions.yml lets a merge queue use GPUs. Raises RunciError."""
    if data is None:
        return False
    return bool(load_checked(data, PERMISSIONS, "ci-permissions").get("merge_queue") == "allow")


def load_status(data: bytes | None) -> Status:
    """ci-status.yml, not paused without it. Raises RunciError with every fault."""
    if data is None:
        return Status(paused=False)
    given = load_checked(data, STATUS, "ci-status")
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
            HostWorkflow(w["path"], tuple(w["refs"]), tuple(w.get("labels", (RUN_LABEL,))))
            for w in given["workflows"]
        ),
    )
