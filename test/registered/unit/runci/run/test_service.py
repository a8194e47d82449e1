"""Which GPUs are out of service: one file a host, that many write and every lease reads."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runci import register_cpu_ci
from runci.core.errors import RunciError, UnfitMachine
from runci.core.machine import Gpu
from runci.run import service
from runci.run.gpu import Lease
from runci.run.service import FILE, Out, Service, named, put_back, taken_out

register_cpu_ci(est_time=4, stage="base-a", runner_config="cpu")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="locks files")

GPUS = [Gpu(index, f"GPU-{index}a{index}", "Test GPU") for index in range(3)]
WHY = ("ECC: 3 uncorrected errors",)


def out(*indices: int, at: float = 1_000.0, now: Service = Service()) -> Service:  # noqa: B008
    for index in indices:
        now = taken_out(now, GPUS[index], WHY, "a doctor", at)
    return now


def test_a_gpu_is_out_since_the_first_time_for_the_newest_reasons() -> None:
    twice = taken_out(out(1, 2), GPUS[1], ("Xid: 79",), "another", 2_000.0)
    assert twice.by_uuid()["GPU-1a1"] == Out(
        "GPU-1a1", 1, "Test GPU", ("Xid: 79",), "a doctor", 1_000.0
    )
    assert twice.by_uuid().keys() == {"GPU-1a1", "GPU-2a2"}
    assert put_back(twice, "GPU-1a1") == Service(out(2).out)
    assert put_back(out(1), "GPU-1a1", 5.0) == Service((), {"GPU-1a1": 5.0})
    assert put_back(out(1), "GPU-0a0") == out(1)


def test_the_sentence_says_which_since_when_who_and_why() -> None:
    (one,) = out(1, at=1_800_000_000.0).out
    for said in ("GPU 1 (Test GPU)", "2027-01-15 08:00 UTC", "a doctor", *WHY):
        assert said in one.sentence


@pytest.mark.parametrize(
    ("wanted", "index"),
    [("1", 1), ("GPU-2a", 2), ("GPU-2a2", 2), ("0", None), ("GPU-", None), ("", None)],
)
def test_a_gpu_is_named_by_index_or_uuid(wanted: str, index: int | None) -> None:
    if index is None:
        with pytest.raises(RunciError, match=r"1 \(GPU-1a1\), 2 \(GPU-2a2\)"):
            named(out(1, 2), wanted)
    else:
        assert named(out(1, 2), wanted).index == index


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert service.read(tmp_path) == Service()
    service.change(tmp_path, lambda now: put_back(out(1, 2, now=now), "GPU-1a1", 7.5))
    assert service.read(tmp_path) == Service(out(2).out, {"GPU-1a1": 7.5})
    shorter = service.change(tmp_path, lambda _: Service())
    assert service.read(tmp_path) == shorter == Service()
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o666  # for other accounts' jobs


ADDS = """
import sys
from pathlib import Path
from runci.core.machine import Gpu
from runci.run.service import change, taken_out
for number in range(25):
    gpu = Gpu(number, f"GPU-{sys.argv[2]}-{number}", "x")
    change(Path(sys.argv[1]), lambda now: taken_out(now, gpu, ("why",), "me", 1.0))
"""


def test_what_several_write_at_once_is_all_there(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", ADDS, str(tmp_path), str(n)]) for n in range(3)
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert len(service.read(tmp_path).out) == 75


@pytest.mark.parametrize(
    "text", ["{", '{"version": 1}', '{"out": [1], "cleared": {}, "version": 1}']
)
def test_what_cannot_be_read_lets_nothing_be_leased(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with (
        pytest.raises(RunciError, match=rf"{FILE}: .*no GPU is leased"),
        Lease(GPUS, 1, patience=0, folder=tmp_path),
    ):
        pass


def link(path: Path) -> None:
    path.with_name("elsewhere").touch()
    path.symlink_to(path.with_name("elsewhere"))


@pytest.mark.parametrize("make", [os.mkfifo, link, Path.mkdir])
def test_nor_what_is_no_file(tmp_path: Path, make: object) -> None:
    assert callable(make)
    make(tmp_path / FILE)
    began = time.monotonic()
    for way in (service.read, lambda folder: service.change(folder, lambda now: now)):
        with pytest.raises(RunciError, match=FILE):
            way(tmp_path)
    assert time.monotonic() - began < 5


def test_a_lease_takes_none_that_is_out_of_service_and_says_why(tmp_path: Path) -> None:
    service.change(tmp_path, lambda now: out(0, 2, now=now))
    said: list[str] = []
    with Lease(GPUS, 1, patience=0, folder=tmp_path, waiting=said.append) as lease:
        assert [gpu.index for gpu in lease.gpus] == [1]
    assert len(said) == 2 and all(WHY[0] in line for line in said)
    with (
        pytest.raises(UnfitMachine, match=r"2 GPUs needed and 1 in service: GPU 0 .*; GPU 2 .*ECC"),
        Lease(GPUS, 2, patience=60, folder=tmp_path),
    ):
        pass
    with Lease(GPUS, 3, patience=0, folder=tmp_path, sick=True) as lease:
        assert len(lease.gpus) == 3


def test_who_waits_is_told_when_the_last_one_goes_out(tmp_path: Path) -> None:
    """Waiting an hour for a GPU that nobody will give out helps nobody."""

    def goes_out(_: str) -> None:
        service.change(tmp_path, lambda now: out(0, now=now))

    with (
        Lease(GPUS[:1], 1, patience=0, folder=tmp_path),
        pytest.raises(UnfitMachine, match="1 GPU needed and 0 in service"),
        Lease(GPUS[:1], 1, patience=60, folder=tmp_path, waiting=goes_out),
    ):
        pass


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
