"""What outlives its processes: files in /dev/shm, System V segments (Linux), temporary files.

Removed is only what provably came from the processes of one job: it was not there before, nobody
uses it, and it is below a folder that was made for that job, or the kernel or its own name says
that one of them made it. All else is named.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from runci.run.gpu import FOLDER_VARIABLE, LOCKS

SHM = Path("/dev/shm")  # noqa: S108  the place itself, nothing is made there
SEGMENTS = Path("/proc/sysvipc/shm")
MOUNTS = Path("/proc/self/mountinfo")
LONGEST = 60  # bytes of the temporary folder's path below which jobs get folders of their own
MOST = 20  # names that are told
_SEGMENT = "System V segment "
_IPC_RMID = 0
# The kernel's numbers of the first namespaces: of the machine, not of a container.
_FIRST = {"pid": 4026531836, "ipc": 4026531839}
# Kept on purpose for a while, or removed by who made it; no fault of a test.
_EXPECTED = ("pytest-of-", "runci-cache-")


def present(folder: Path = SHM, segments: Path = SEGMENTS) -> frozenset[str]:
    """What of this user's shared memory is there, by the names under which it is told."""
    found = set()
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            with contextlib.suppress(OSError):
                if entry.stat(follow_symlinks=False).st_uid == os.getuid():
                    found.add(f"{folder}/{entry.name}")
    return frozenset(found | segments_of(_text(segments), os.getuid()).keys())


def segments_of(table: str, user: int) -> dict[str, tuple[int, int]]:
    """Who made each segment of this user in the kernel's table, and how many use it; pure."""
    head, *rows = [line.split() for line in table.splitlines()] or [[]]
    entries = [dict(zip(head, row, strict=False)) for row in rows]
    return {
        f"{_SEGMENT}{e['shmid']}": (int(e["cpid"]), int(e["nattch"]))
        for e in entries
        if e.get("cuid") == str(user)
    }


def made_by(name: str, makers: dict[str, tuple[int, int]], pids: Collection[int]) -> bool:
    """Whether one of these processes made it: the kernel says so, or a number in its name; pure.

    `torch_1234_56` was made by process 1234.
    """
    if name.startswith(_SEGMENT):
        return makers.get(name, (0, 0))[0] in pids
    numbers = re.findall(r"(?<![0-9A-Za-z])[0-9]+(?![0-9A-Za-z])", name.replace("_", "-"))
    return any(int(number) in pids for number in numbers)


def clear(before: Collection[str], pids: Collection[int]) -> tuple[list[str], list[str]]:
    """Remove the shared memory that came since `before`, that these processes made (they have
    ended) and nobody uses. What was removed, and what is left of others or of unknown origin.
    """
    new = sorted(present() - set(before))
    used = _used() if new else set()
    makers = segments_of(_text(SEGMENTS), os.getuid())
    idle = [name for name in new if name not in used and makers.get(name, (0, 0))[1] == 0]
    ours = pids if _pids_are_ours() else ()
    removed = [name for name in idle if made_by(name, makers, ours) and _remove(name)]
    return _few(removed), _few([name for name in idle if name not in removed])


# Nobody else lists it, but whoever was told a name reaches it, as below /tmp: a test that runs
# something as another account shares files with it.
PASSED = 0o711


def make_folder() -> Path | None:
    """A folder for the temporary folders of a run's jobs; None where they stay where they are.

    A socket's path may have 108 bytes, on macOS 104: where temporary files are far down already,
    nothing is put before their names.
    """
    if len(tempfile.gettempdir()) > LONGEST:
        return None
    with contextlib.suppress(OSError):
        folder = Path(tempfile.mkdtemp(prefix="runci-"))
        folder.chmod(PASSED)
        return folder
    return None


def kept_elsewhere(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables for what by default stands in the temporary folder, but is meant to last."""
    place = tempfile.gettempdir()
    try:
        user = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
    except (KeyError, OSError):  # as torch does for a user without a name
        user = str(os.getuid())
    lasting = {
        "TORCHINDUCTOR_CACHE_DIR": f"{place}/torchinductor_{user}",
        FOLDER_VARIABLE: f"{place}/{LOCKS}",
    }
    return {name: path for name, path in lasting.items() if not environment.get(name)}


def temporary(folder: Path, mounts: str | None = None) -> tuple[list[str], list[str]]:
    """Remove a job's own temporary folder. What a test left in it, and what cannot be removed.

    A folder in which something is mounted is left alone: below it are not the job's own files.
    """
    with contextlib.suppress(OSError):
        names = sorted(os.listdir(folder))  # noqa: PTH208  names alone
        told = [f"{folder}/{name}" for name in names if not name.startswith(_EXPECTED)]
        if is_mounted_below(str(folder), _text(MOUNTS) if mounts is None else mounts):
            return [], _few(told)
        for top, folders, _ in os.walk(folder):
            for name in folders:
                with contextlib.suppress(OSError):  # that one may not be read or written
                    if not Path(top, name).is_symlink():
                        Path(top, name).chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)
        stays = [name for name in told if os.path.lexists(name)]
        return _few([name for name in told if name not in stays]), _few(stays)
    return [], []


def is_mounted_below(folder: str, mounts: str) -> bool:
    """Whether the kernel's table has a mount at the folder or below it; pure."""
    points = (line.split()[4] for line in mounts.splitlines() if len(line.split()) > 4)
    plain = (re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), point) for point in points)
    return any(point == folder or point.startswith(f"{folder}/") for point in plain)


def _remove(name: str) -> bool:
    if not name.startswith(_SEGMENT):
        with contextlib.suppress(OSError):
            Path(name).unlink()
            return True
        return False
    import ctypes

    number = int(name.removeprefix(_SEGMENT))
    return int(ctypes.CDLL(None).shmctl(number, _IPC_RMID, None)) == 0


def _pids_are_ours() -> bool:
    """Not in a container that has numbers of its own for processes, but the machine's memory."""
    with contextlib.suppress(OSError):
        first = {kind: os.stat(f"/proc/self/ns/{kind}").st_ino == n for kind, n in _FIRST.items()}  # noqa: PTH116
        return first["pid"] == first["ipc"]
    return False


def _few(names: Sequence[str]) -> list[str]:
    more = [f"{len(names) - MOST} more"] if len(names) > MOST else []
    return [*names[:MOST], *more]


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    return ""


def _used() -> set[str]:
    """Files of /dev/shm that a process has open or mapped, as far as this one may look."""
    found: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            lines = (process / "maps").read_bytes().splitlines()
            found |= {os.fsdecode(b"/" + line.partition(b"/")[2]) for line in lines if b"/" in line}
        with contextlib.suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    found.add(str(descriptor.readlink()))
    return found
