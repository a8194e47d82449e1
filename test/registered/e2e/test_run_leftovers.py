"""Shared memory and temporary files that a test leaves: named, removed, or not its own."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # for `python FILE`

from run_trees import FOLDER, SUITE, ended, make, registered, run, start

from runci import register_cpu_ci
from runci.run.leftovers import present

register_cpu_ci(est_time=10, stage="base-a", runner_config="cpu")


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


LEAVES = """
    import ctypes, pathlib, subprocess, tempfile
    def test_leaves(tmp_path):
        own = os.getpid()
        for name in ("NAME", f"NAME_{own}_1", f"NAME_{os.getppid()}_1", f"NAME_held_{own}"):
            pathlib.Path("/dev/shm", name).write_text("x")
        with open("/dev/shm/NAME-gone", "w"): pass
        os.unlink("/dev/shm/NAME-gone")
        segment = ctypes.CDLL(None).shmget(0, 4096, 0o1600)
        pathlib.Path("segment").write_text(str(segment))
        folder = tempfile.mkdtemp(prefix="left-")
        os.mkdir(folder + "/closed")
        open(folder + "/closed/file", "w").close()
        os.chmod(folder + "/closed", 0)
        (tmp_path / "x").touch()
        pathlib.Path("folder").write_text(folder)
        held = subprocess.Popen(["tail", "-f", f"/dev/shm/NAME_held_{os.getpid()}"])
        while os.readlink(f"/proc/{held.pid}/exe").endswith("python"): time.sleep(0.01)
"""


@pytest.mark.parametrize("mode", [(), ("--as-script",), ("--isolate", "spawn")], ids=repr)
def test_what_a_test_leaves_is_named_and_what_it_made_for_certain_is_removed(
    tmp_path: Path, mode: tuple[str, ...]
) -> None:
    name = f"runci-left-{os.getpid()}"
    root = make(tmp_path, {"test_a.py": registered(LEAVES.replace("NAME", name))})
    before = set(Path("/dev/shm").iterdir())
    try:
        ran = run(root, "--suite", SUITE, *mode)
        message = ran.result("test_a.py").message
        stay = {path.name for path in set(Path("/dev/shm").iterdir()) - before}
    finally:
        for path in Path("/dev/shm").glob(f"{name}*"):
            path.unlink()
    assert ran.status == 0, ran.output
    # The parent's number is no proof, nor is a name that is nobody's.
    assert len([one for one in stay if one.startswith(name)]) == 2
    assert name in stay
    removed, _, shared = message.partition("left in shared memory")
    segment, folder = ((root / one).read_text() for one in ("segment", "folder"))
    assert f"System V segment {segment}" in removed
    assert f"System V segment {segment}" not in present()
    assert folder in removed
    assert not Path(folder).exists()
    assert not Path(folder).parent.parent.exists()  # of the whole run
    assert f"/dev/shm/{name}_" in removed
    assert f"/dev/shm/{name}," in f"{shared},"
    assert "gone" not in message
    assert "pytest-of" not in message


def test_what_another_run_makes_meanwhile_stays(tmp_path: Path) -> None:
    made, seen = tmp_path / "made", tmp_path / "seen"
    waits = f"""
        import pathlib
        def test_waits():
            pathlib.Path("/dev/shm", f"runci-held_{{os.getpid()}}_1").write_text("x")
            pathlib.Path({str(seen)!r}).touch()
            while not os.path.exists({str(made)!r}): time.sleep(0.02)
    """
    root = make(tmp_path / "root", {"test_a.py": registered(waits)})
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    path = Path(f"/dev/shm/runci-other_{other.pid}_1")
    libc = ctypes.CDLL(None)
    try:
        with start(root, "--suite", SUITE) as process:
            until(seen.exists)
            path.write_text("x")
            (held,) = Path("/dev/shm").glob("runci-held_*")
            stream = held.open()
            segment = libc.shmget(0, 4096, 0o1600)
            other.kill()  # its pid is nobody's now, as after a shard that has ended
            other.wait()
            made.touch()
            ran = ended(process, root)
        assert (ran.status, path.exists(), held.exists()) == (0, True, True), ran.output
        assert f"System V segment {segment}" in present()
        assert str(path) in ran.result("test_a.py").message
    finally:
        other.kill()
        stream.close()
        held.unlink()
        path.unlink()
        libc.shmctl(segment, 0, None)


def test_what_runs_as_another_account_reaches_what_a_test_shares_with_it(tmp_path: Path) -> None:
    """As below /tmp: by its name, which nobody else can list."""
    body = """
        import tempfile
        def test_modes():
            from pathlib import Path
            own = Path(tempfile.gettempdir())
            modes = [oct(path.stat().st_mode & 0o777) for path in (own.parent, own)]
            assert modes == ["0o711", "0o711"]
    """
    root = make(tmp_path, {"test_a.py": registered(body)})
    ran = run(root, "--suite", SUITE, TMPDIR="/tmp")
    assert ran.status == 0, ran.output


def test_each_file_has_a_temporary_folder_and_caches_outlive_it(tmp_path: Path) -> None:
    body = """
        import tempfile
        def test_place():
            from pathlib import Path
            names = ("TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "RUNCI_LOCKS")
            Path(__file__).with_suffix(".place").write_text(
                "\\n".join([tempfile.gettempdir(), *(os.environ.get(n, "") for n in names)])
            )
            server = socket.socket(socket.AF_UNIX)
            server.bind(tempfile.gettempdir() + "/" + "x" * 40)
    """
    root = make(tmp_path, {"test_a.py": registered(body), "test_b.py": registered(body)})
    place = tmp_path / "t"
    place.mkdir()
    deep = tmp_path / "deep" / ("x" * 60)
    deep.mkdir(parents=True)
    short = Path(tempfile.mkdtemp(prefix="r"))
    try:
        ran = run(
            root, "--suite", SUITE, TMPDIR=str(short), RUNCI_LOCKS="", TORCHINDUCTOR_CACHE_DIR="/c"
        )
        assert ran.status == 0, ran.output
        found = [p.read_text().split("\n") for p in sorted((root / FOLDER).glob("*.place"))]
        assert [one[0] == one[1] for one in found] == [True, True]
        assert found[0][0] != found[1][0]
        assert all(Path(one[0]).is_relative_to(short) for one in found)
        assert [one[2:] for one in found] == [["/c", f"{short}/runci-locks"]] * 2
        assert [path.name for path in short.iterdir() if path.name != "runci-locks"] == []
    finally:
        shutil.rmtree(short)
    run(root, f"{FOLDER}/test_a.py", TMPDIR=str(deep))  # so deep that sockets would have no room
    assert (root / FOLDER / "test_a.place").read_text().split("\n")[0] == str(deep)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
