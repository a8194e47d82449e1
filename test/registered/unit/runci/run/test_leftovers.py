"""Who made what is left, and what lies below a folder, as tables."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from runci import register_cpu_ci
from runci.run.leftovers import is_mounted_below, made_by, segments_of, temporary

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

TABLE = """\
key shmid perms size cpid lpid nattch uid gid cuid cgid
0 7 1600 9 11 2 0 5 5 5 5
0 8 1600 9 12 2 1 5 5 5 5
0 9 1600 9 13 2 0 6 6 6 6
"""


def test_segments_of_a_user() -> None:
    found = {"System V segment 7": (11, 0), "System V segment 8": (12, 1)}
    assert segments_of(TABLE, 5) == found
    assert segments_of("", 5) == {}


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("System V segment 7", True),
        ("System V segment 8", False),
        ("System V segment 11", False),  # its own number is no process
        ("/dev/shm/torch_11_3812_0", True),
        ("/dev/shm/torch_1100_3812_0", False),
        ("/dev/shm/sem.x-11", True),
        ("/dev/shm/psm_a11b", False),
        ("/dev/shm/nccl-Ab11", False),
        ("/dev/shm/plain", False),
    ],
)
def test_who_made_shared_memory(name: str, ours: bool) -> None:
    assert made_by(name, segments_of(TABLE, 5), {11}) is ours


@pytest.mark.parametrize(
    ("folder", "mounted"),
    [("/tmp/r", True), ("/tmp/r/1", True), ("/tmp/r/1/m x", True), ("/tmp/r/10", False)],
)
def test_a_mount_below_a_folder(folder: str, mounted: bool) -> None:
    table = "22 1 0:20 / / rw - ext4 a rw\n36 22 98:0 / /tmp/r/1/m\\040x rw - tmpfs b rw\n"
    assert is_mounted_below(folder, table) is mounted


def test_a_folder_with_a_mount_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "own" / "kept").mkdir(parents=True)
    mounts = f"36 22 98:0 / {tmp_path}/own/kept rw - tmpfs b rw\n"
    kept = [f"{tmp_path}/own/kept"]
    assert temporary(tmp_path / "own", mounts) == ([], kept)
    assert temporary(tmp_path / "own", "") == (kept, [])
    assert temporary(tmp_path / "own", "") == ([], [])


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
