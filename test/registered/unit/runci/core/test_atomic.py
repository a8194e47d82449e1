"""Files are written whole or not at all, and what is no file stays what it is."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from runci import register_cpu_ci
from runci.core.atomic import replace_file
from runci.core.errors import RunciError

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX pipes, links and modes")


def test_a_file_is_written_and_replaced_with_nothing_beside_it(tmp_path: Path) -> None:
    place = tmp_path / "a"
    for text in (b"one", b""):
        replace_file(place, text)
        assert place.read_bytes() == text
    assert list(tmp_path.iterdir()) == [place]


@posix
def test_a_mode_and_a_link_stay(tmp_path: Path) -> None:
    place, link = tmp_path / "a", tmp_path / "link"
    place.write_bytes(b"old")
    place.chmod(0o640)
    link.symlink_to("a")
    replace_file(link, b"new")
    assert link.is_symlink()
    assert (place.read_bytes(), stat.S_IMODE(place.stat().st_mode)) == (b"new", 0o640)


@posix
@pytest.mark.parametrize("through_a_link", [False, True])
def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path, through_a_link: bool) -> None:
    """`--output /dev/null` replaced the device, for everybody on the machine."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    link = tmp_path / "link"
    link.symlink_to(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        replace_file(link if through_a_link else pipe, b"said")
        assert os.read(reader, 100) == b"said"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert {path.name for path in tmp_path.iterdir()} == {"pipe", "link"}


def test_a_folder_and_a_folder_that_is_not_there_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for place in (tmp_path / "folder", tmp_path / "nowhere" / "a"):
        with pytest.raises(RunciError, match="cannot write"):
            replace_file(place, b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__, "-v"]))
