"""Which GPUs of this host are out of service: one JSON file, beside the locks of its leases.

`runci doctor` writes it, every lease reads it. A GPU is back in service once a doctor finds it
well, or by `runci doctor --clear GPU`. What cannot be read lets nothing be leased.
"""

from __future__ import annotations

import datetime
import errno
import fcntl
import json
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from runci.core.decode import Count, UnixTime, build, parse
from runci.core.errors import RunciError
from runci.core.machine import Gpu, Text

FILE = "out-of-service.json"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Out:
    """One GPU that is not to be handed out; `by` is who found that, `since` Unix time."""

    uuid: Text
    index: Count
    name: Text
    reasons: tuple[Text, ...]
    by: Text
    since: UnixTime

    @property
    def sentence(self) -> str:
        """What whoever would lease it is told."""
        when = datetime.datetime.fromtimestamp(self.since, datetime.timezone.utc)
        return (
            f"GPU {self.index} ({self.name or self.uuid}) is out of service since "
            f"{when:%Y-%m-%d %H:%M} UTC, by {self.by}: {'; '.join(self.reasons)}"
        )


@dataclass(frozen=True, slots=True)
class Service:
    """The file. `cleared` is when somebody last put a GPU back, by UUID: older Xids are over."""

    out: tuple[Out, ...] = ()
    cleared: dict[str, UnixTime] = field(default_factory=dict)
    version: int = VERSION

    def by_uuid(self) -> Mapping[str, Out]:
        """Those that are out of service."""
        return {one.uuid: one for one in self.out}


def taken_out(now: Service, gpu: Gpu, reasons: tuple[str, ...], by: str, at: float) -> Service:
    """With this GPU out of service; since the first time, where it is already."""
    before = now.by_uuid().get(gpu.uuid)
    others = [one for one in now.out if one.uuid != gpu.uuid]
    since = before.since if before else at
    named = tuple(reason[:300] for reason in reasons)
    one = Out(gpu.uuid, gpu.index, gpu.name, named, before.by if before else by[:300], since)
    return replace(now, out=(*others, one))


def put_back(now: Service, uuid: str, cleared_at: float | None = None) -> Service:
    """With this GPU in service; `cleared_at` where a person says that what was found is over."""
    cleared = now.cleared if cleared_at is None else {**now.cleared, uuid: cleared_at}
    return replace(now, out=tuple(o for o in now.out if o.uuid != uuid), cleared=cleared)


def named(now: Service, wanted: str) -> Out:
    """The one that `wanted`, an index or the beginning of a UUID, means. Raises RunciError."""
    found = [o for o in now.out if wanted == str(o.index) or o.uuid.startswith(wanted)]
    if len(found) != 1 or not wanted:
        there = ", ".join(f"{o.index} ({o.uuid})" for o in now.out) or "none is"
        raise RunciError(f"--clear {wanted}: no such GPU is out of service here: {there}")
    return found[0]


def read(folder: Path) -> Service:
    """What is out of service; nothing where there is no file. Raises RunciError for a torn one."""
    path = folder / FILE
    try:
        with os.fdopen(_open(path, os.O_RDONLY), "rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH)
            return _parsed(path, stream.read())
    except FileNotFoundError:
        return Service()
    except OSError as error:
        raise _unreadable(path, error.strerror) from error


def change(folder: Path, how: Callable[[Service], Service]) -> Service:
    """Read, change and write it, while nobody else does. Raises RunciError where that fails."""
    path = folder / FILE
    try:
        handle = _open_to_write(path)
        with os.fdopen(handle, "r+b") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            before = stream.read()
            service = how(_parsed(path, before))
            data = (json.dumps(asdict(service), indent=2, sort_keys=True) + "\n").encode()
            stream.seek(0)  # in place: of another user's file in /tmp nobody may make a new one
            stream.write(data)
            stream.truncate()
            return service
    except OSError as error:
        raise RunciError(f"{path}: cannot write: {error.strerror}") from error


def _open_to_write(path: Path) -> int:
    try:
        return _open(path, os.O_RDWR)  # without O_CREAT: others' files in /tmp refuse that
    except FileNotFoundError:
        handle = _open(path, os.O_RDWR | os.O_CREAT)
        os.fchmod(handle, 0o666)  # jobs of other users look here too
        return handle


def _open(path: Path, flags: int) -> int:
    """A descriptor of a plain file: a pipe would be waited for, a link leads anywhere."""
    handle = os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no plain file")
    return handle


def _parsed(path: Path, data: bytes) -> Service:
    if not data:  # made a moment ago
        return Service()
    try:
        service = build(parse(data), Service)
    except ValueError as error:
        raise _unreadable(path, str(error)) from error
    if service.version != VERSION:
        why = f"it is of version {service.version}, and this runci knows {VERSION}"
        raise _unreadable(path, why)
    return service


def _unreadable(path: Path, why: str | None) -> RunciError:
    return RunciError(
        f"{path}: which GPUs are out of service cannot be read: {why}: no GPU is leased until "
        "somebody with access to this host removes the file; `runci doctor` then makes it anew"
    )
