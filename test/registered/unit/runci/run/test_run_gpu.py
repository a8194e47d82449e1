"""GPU leases between real processes, and whose memory is not back, with a query in NVML's place."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import pytest

from runci import register_cpu_ci
from runci.core.errors import RunciError
from runci.core.machine import Gpu
from runci.core.registration import Backend
from runci.core.result import Outcome
from runci.run.files import jobs
from runci.run.gpu import PATIENCE, Lease, MemoryWatch, Usage, culprit, held, taken, visible
from runci.run.loop import Interrupt, Loop, Policy, Recorder, Slot
from runci.run.model import RunFile, Selection
from runci.run.pool import Pool, Settings
from runci.run.progress import Plain
from runci.run.store import Store
from runci.run.turns import Turn

register_cpu_ci(est_time=14, stage="base-a", runner_config="cpu")

GPUS = [Gpu(index, f"GPU-{index}a{index}", "Test GPU") for index in range(3)]

# Takes a lease, says which GPUs it got, and holds them until its input ends.
HOLDER = """
import sys
from pathlib import Path
from runci.core.machine import Gpu
from runci.run.gpu import Lease
gpus = [Gpu(i, f"GPU-{i}a{i}", "Test GPU") for i in range(3)]
with Lease(gpus, int(sys.argv[2]), patience=60, folder=Path(sys.argv[1])) as lease:
    print(*[gpu.index for gpu in lease.gpus], flush=True)
    sys.stdin.read()
"""


class Script:
    """Answers with the usages that it is given, the last one for ever."""

    def __init__(self, *usages: Usage) -> None:
        self._usages = deque(usages)

    def gpus(self) -> list[Gpu]:
        return GPUS

    def usage(self, uuid: str) -> Usage:
        return self._usages.popleft() if len(self._usages) > 1 else self._usages[0]

    def xids(self, uuids: Sequence[str]) -> dict[str, tuple[int, ...]]:
        return dict.fromkeys(uuids, ())


def hold(folder: Path, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder), str(count)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )


def got(process: subprocess.Popen[str]) -> list[int]:
    assert process.stdout is not None
    return [int(word) for word in process.stdout.readline().split()]


@pytest.mark.parametrize(
    ("variable", "indices"),
    [
        (None, [0, 1, 2]),
        ("2,0", [2, 0]),
        ("GPU-1a1", [1]),
        ("GPU-1", [1]),
        ("", []),
        ("-1", []),
        ("0,7,1", [0]),
        ("0,0", [0]),
    ],
)
def test_visible_gpus_are_those_of_the_driver(variable: str | None, indices: list[int]) -> None:
    assert [gpu.index for gpu in visible(GPUS, variable)] == indices


def test_leases_of_two_processes_are_disjoint(tmp_path: Path) -> None:
    with hold(tmp_path, 1) as one, hold(tmp_path, 1) as two:
        first, second = got(one), got(two)
        assert sorted(first + second) == [0, 1]
        with (
            pytest.raises(RunciError, match=r"no GPU was free within 0 s: held: GPU \d by process"),
            Lease(GPUS, 2, patience=0, folder=tmp_path),
        ):
            pass
        with Lease(GPUS, 1, patience=0, folder=tmp_path) as mine:
            assert [gpu.index for gpu in mine.gpus] == [2]
        for process in (one, two):
            process.communicate()


def test_who_waits_longest_is_served_first(tmp_path: Path) -> None:
    """One who needs two GPUs gets them, although one of them is always asked for."""
    code = """
import sys, time
from pathlib import Path
from runci.core.machine import Gpu
from runci.run.gpu import Lease
gpus = [Gpu(i, f"GPU-{i}", "x") for i in range(2)]
end = time.time() + 6
while time.time() < end:
    with Lease(gpus, 1, patience=60, folder=Path(sys.argv[1])):
        time.sleep(0.3)
"""
    gpus = [Gpu(i, f"GPU-{i}", "x") for i in range(2)]
    command = [sys.executable, "-c", code, str(tmp_path)]
    workers = [subprocess.Popen(command) for _ in range(3)]
    try:
        while len(list(tmp_path.glob("*.holder"))) < 2:
            time.sleep(0.02)
        with Lease(gpus, 2, patience=4, folder=tmp_path) as both:
            assert len(both.gpus) == 2
    finally:
        assert [worker.wait(60) for worker in workers] == [0, 0, 0]
    assert not list(tmp_path.glob("*.turn"))


def test_nobody_waits_for_one_that_is_gone_or_wants_other_gpus(tmp_path: Path) -> None:
    (tmp_path / f"{1:020}-1-1.turn").write_text('["a"]')
    with Turn(tmp_path, ["b"]), Turn(tmp_path, ["a"]) as mine:
        assert mine.ahead() == 0
        with Turn(tmp_path, ["a", "b"]) as last:
            assert last.ahead() == 2


def test_a_crashed_holder_frees_its_lease(tmp_path: Path) -> None:
    said: list[str] = []
    with hold(tmp_path, 3) as holder:
        assert got(holder) == [0, 1, 2]
        holder.send_signal(signal.SIGKILL)
        holder.wait(30)
        with Lease(GPUS, 3, patience=30, folder=tmp_path, waiting=said.append) as mine:
            assert [gpu.index for gpu in mine.gpus] == [0, 1, 2]


def test_who_waits_is_told_for_whom_and_gets_its_turn(tmp_path: Path) -> None:
    said: list[str] = []
    with hold(tmp_path, 3) as holder:
        got(holder)

        def waiting(text: str) -> None:
            said.append(text)
            assert holder.stdin is not None
            holder.stdin.close()  # it ends

        with Lease(GPUS, 2, patience=60, folder=tmp_path, waiting=waiting) as mine:
            assert len(mine.gpus) == 2
    assert len(said) == 1
    assert f"by process {holder.pid}" in said[0]


def test_who_waits_can_be_interrupted(tmp_path: Path) -> None:
    with hold(tmp_path, 3) as holder:
        got(holder)
        with pytest.raises(KeyboardInterrupt):
            Lease(GPUS, 1, patience=600, folder=tmp_path, stopped=lambda: True).__enter__()
        holder.communicate()


def test_all_or_nothing(tmp_path: Path) -> None:
    """Two that want two of three: one waits and holds nothing meanwhile."""
    with hold(tmp_path, 2) as holder:
        got(holder)
        with pytest.raises(RunciError, match="no GPU was free"):
            Lease(GPUS, 2, patience=0, folder=tmp_path).__enter__()
        with Lease(GPUS, 1, patience=0, folder=tmp_path) as mine:
            assert len(mine.gpus) == 1
        holder.communicate()


def test_more_gpus_than_there_are_is_said_at_once(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(RunciError, match="4 GPUs are needed and 3 are visible"):
        Lease(GPUS, 4, patience=600, folder=tmp_path).__enter__()
    assert time.monotonic() - began < 60


@pytest.mark.skipif(os.name != "posix", reason="modes")
def test_a_lock_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(RunciError, match="set RUNCI_LOCKS to a folder"):
        Lease(GPUS, 1, patience=0, folder=tmp_path / "file" / "locks").__enter__()


@pytest.mark.parametrize(
    ("before", "now", "extra"),
    [
        (Usage(500), Usage(500), None),
        (Usage(500), Usage(700), None),  # drivers come and go with less than the tolerance
        (Usage(500), Usage(5500), 5000),
        (Usage(500, {7: 400}), Usage(500, {7: 400}), None),  # was there before the run
        (Usage(500), Usage(600, {9: 100}), 100),
        (Usage(5500, {7: 5000}), Usage(500), None),
    ],
)
def test_memory_that_is_not_back(before: Usage, now: Usage, extra: float | None) -> None:
    found = held(GPUS[0], before, now)
    assert (found.extra_mb if found else None) == extra


def test_the_culprit_is_named_with_the_file_before_it() -> None:
    found = held(GPUS[1], Usage(500), Usage(20980, {42: 20480}))
    assert found is not None
    assert culprit(found, "t/test_a.py", {42: "pid 42 (python server.py)"}) == (
        "GPU 1 (Test GPU) still has 20,480 MiB more in use than before the run after t/test_a.py; "
        "held by pid 42 (python server.py): 20,480 MiB"
    )
    hidden = held(GPUS[1], Usage(500), Usage(2000))
    assert hidden is not None
    assert "a process that the driver does not show here" in culprit(hidden, None, {})


def test_the_next_file_waits_until_memory_is_as_it_was() -> None:
    # sglang#36589
    watch = MemoryWatch(Script(Usage(600), Usage(9000, {9: 8400}), Usage(600)), GPUS[:1])
    assert watch.ready(100.0) == (False, ())
    assert watch.ready(100.1) == (True, ())


def test_the_wait_is_bounded_and_ends_with_the_culprit() -> None:
    watch = MemoryWatch(Script(Usage(600), Usage(9000, {9: 8400})), GPUS[:1])
    assert watch.ready(100.0) == (False, ())
    assert watch.ready(100.0 + PATIENCE - 1) == (False, ())
    start, (found,) = watch.ready(100.0 + PATIENCE)
    assert (start, found.extra_mb, found.processes) == (True, 8400, ((9, 8400),))
    assert watch.ready(500.0) == (False, ())  # the file after it waits as long


@pytest.mark.skipif(sys.platform == "win32", reason="runs tests in forks")
@pytest.mark.parametrize("late", [1, 3])
def test_a_slot_whose_memory_is_late_runs_its_file_all_the_same(tmp_path: Path, late: int) -> None:
    (tmp_path / "test_a.py").write_text("def test_a(): pass\n")
    (tmp_path / "test_b.py").write_text("def test_b(): pass\n")
    usages = [Usage(600), *[Usage(9000, {9: 8400})] * late, Usage(600)]
    slot = Slot(memory=MemoryWatch(Script(*usages), GPUS[:1]))
    files = tuple(RunFile(path=name, predicted=1.0) for name in ("test_a.py", "test_b.py"))
    selection = Selection(Backend.CUDA, "s", "cuda-s-1of1", files)
    policy = Policy(suite_timeout=60)  # ends the run where the slot is lost
    progress = Plain(io.StringIO(), color=False, width=80)
    wake, end = os.pipe()
    try:
        with Store(tmp_path / "results", selection.shard) as store:
            recorder = Recorder(selection, policy, store, progress, lambda _: False, lambda _: 1)
            with Pool(Settings(tmp_path), wake) as pool:
                loop = Loop(selection, policy, [slot], pool, recorder, progress, Interrupt())
                summary = loop.run(jobs(files))
    finally:
        os.close(wake)
        os.close(end)
    assert (summary.missing, summary.why) == ((), "")
    assert [one.result.outcome for one in summary.finished] == [Outcome.PASSED] * 2


def test_a_leased_gpu_that_others_use_is_told_at_the_start() -> None:
    (found,) = MemoryWatch(Script(Usage(6141, {5: 5514})), GPUS[:1]).in_use()
    assert taken(found, {5: "pid 5 (python train.py)"}) == (
        "GPU 0 (Test GPU) is in use outside runci's leases: pid 5 (python train.py): 5,514 MiB: "
        "tests may run out of memory"
    )
    assert not MemoryWatch(Script(Usage(615)), GPUS[:1]).in_use()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
