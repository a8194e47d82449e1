"""`runci doctor` as a process: what it prints, keeps and takes out of service. NVML is played."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from run_trees import environment

from runci import register_cpu_ci
from runci.config.taxonomy import Runner
from runci.core.errors import RunciError
from runci.core.machine import Gpu
from runci.core.registration import Backend
from runci.results.read import read_results
from runci.run import service
from runci.run.doctor import host
from runci.run.doctor.facts import Facts, Need
from runci.run.doctor.gpus import silent, within
from runci.run.doctor.rules import State, examine
from runci.run.gpu import Lease
from runci.text.terminal import display_width

register_cpu_ci(est_time=20, stage="base-a", runner_config="cpu")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="takes leases")

SUITES = """\
version: 1
roots: [test/t]
runners:
  cpu: {label: ubuntu-latest, execution: pytest}
  gpu: {label: gpu-h100, gpu: H100, compute_capability: "9.0", gpus: 1, execution: pytest}
  two: {label: gpu-h100, gpu: H100, compute_capability: "9.0", gpus: 2, execution: pytest}
  mi: {label: gpu-mi300, gpu: MI300X, gpus: 1, execution: pytest}
suites:
  cpu:
    - {stage: a, runner_configs: [cpu], kind: per-commit}
  cuda:
    - {stage: a, runner_configs: [gpu, two], kind: per-commit}
  amd:
    - {stage: a, runner_configs: [mi], kind: per-commit}
  npu:
    - {stage: b, runner_configs: [mi], kind: per-commit}
"""
TEST = """\
from runci import register_cuda_ci
register_cuda_ci(est_time=2, stage="a", runner_config="gpu")
def test_a(): pass
"""
# A row a GPU: its uncorrected errors, and whether rows wait for a reset. LOST: NVML's own code.
NVML = """
class NVMLError(Exception):
    def __init__(self, value, text): super().__init__(text); self.value = value
class Named:
    def __init__(self, **said): self.__dict__.update(said)
NVML_MEMORY_ERROR_TYPE_UNCORRECTED = NVML_VOLATILE_ECC = NVML_CLOCK_SM = 1
def nvmlInit():
    if LOST: raise NVMLError(*LOST)
def nvmlSystemGetDriverVersion(): return "580.159.04"
def nvmlSystemGetCudaDriverVersion(): return 13000
def nvmlDeviceGetCount(): return len(ROWS)
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetHandleByUUID(uuid): return int(uuid[-1])
def nvmlDeviceGetUUID(handle): return f"GPU-{handle}"
def nvmlDeviceGetName(handle): return "NVIDIA H100 80GB HBM3"
def nvmlDeviceGetCudaComputeCapability(handle): return 9, 0
def nvmlDeviceGetMemoryInfo(handle): return Named(used=4 << 20, total=81559 << 20)
def nvmlDeviceGetPciInfo(handle): return Named(busId=f"00000000:{handle:02X}:00.0")
def nvmlDeviceGetComputeRunningProcesses(handle): return []
def nvmlDeviceGetMPSComputeRunningProcesses(handle): raise NVMLError(3, "Not Supported")
def nvmlDeviceGetTotalEccErrors(handle, kind, since): return ROWS[handle][0]
def nvmlDeviceGetRemappedRows(handle): return 1, 0, ROWS[handle][1], 0
def nvmlDeviceGetRetiredPagesPendingStatus(handle): raise NVMLError(3, "Not Supported")
def nvmlDeviceGetCurrentClocksThrottleReasons(handle): return 1
def nvmlDeviceGetClockInfo(handle, which): return 345
def nvmlDeviceGetMaxClockInfo(handle, which): return 1980
def nvmlDeviceGetCurrPcieLinkWidth(handle): return 16
def nvmlDeviceGetMaxPcieLinkWidth(handle): return 16
def nvmlDeviceGetPersistenceMode(handle): return 1
nvmlEventTypeXidCriticalError = 8
def nvmlEventSetCreate(): raise NVMLError(3, "Not Supported")
"""
SMI = """
class AmdSmiException(Exception): pass
def amdsmi_init(): pass
def amdsmi_get_processor_handles(): return [0]
def amdsmi_get_gpu_device_uuid(handle): return "amd-uuid-0"
def amdsmi_get_gpu_asic_info(handle): return {"market_name": "AMD Instinct MI300X"}
def amdsmi_get_gpu_vram_info(handle): return {"vram_size": 196592}
def amdsmi_get_gpu_driver_info(handle): return {"driver_version": "6.12.12"}
def amdsmi_get_gpu_vram_usage(handle): return {"vram_total": 196592, "vram_used": 283}
def amdsmi_get_gpu_total_ecc_count(handle): return {"uncorrectable_count": ECC}
def amdsmi_get_gpu_bad_page_info(handle): raise AmdSmiException("not supported")
def amdsmi_get_pcie_info(handle): return {"pcie_metric": {"pcie_width": "N/A"}}
"""
WELL, ECC = (0, 0), (3, 0)
GPUS = [Gpu(index, f"GPU-{index}", "NVIDIA H100 80GB HBM3") for index in range(2)]


def tree(root: Path, *rows: tuple[int, int], lost: object = None, **modules: str) -> Path:
    """A repository with one test, and modules in place of the drivers' libraries."""
    files = {
        "test/suites.yml": SUITES,
        "test/t/test_a.py": TEST,
        "fake/pynvml.py": f"ROWS, LOST = {list(rows)!r}, {lost!r}\n{NVML}",
        **{f"fake/{name}.py": textwrap.dedent(text) for name, text in modules.items()},
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "locks").mkdir(exist_ok=True)
    return root


def runci(root: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    known = environment(root, PYTHONPATH="fake", RUNCI_LOCKS=str(root / "locks"), **more)
    known.pop("CUDA_VISIBLE_DEVICES", None)
    return subprocess.run(
        [sys.executable, "-m", "runci", *arguments],
        cwd=root,
        # Python knows bytecode of `fake` by its second and size, which may be those of the last.
        env={**known, "PYTHONDONTWRITEBYTECODE": "1", **more},
        capture_output=True,
        text=True,
        check=False,
    )


def doctor(root: Path, *arguments: str, **more: str) -> tuple[int, str]:
    done = runci(root, "doctor", *arguments, **more)
    assert all(display_width(line) <= 80 for line in done.stdout.splitlines() if "::" not in line)
    return done.returncode, done.stdout + done.stderr


def states(root: Path, *arguments: str, **more: str) -> tuple[int, dict[str, str]]:
    """The status, and by check and GPU what it says."""
    done = runci(root, "doctor", "--format", "json", *arguments, **more)
    found = json.loads(done.stdout)
    assert (found["unfit"] == []) is (done.returncode == 0)
    return done.returncode, {
        a["check"] + ("" if a["gpu"] is None else f" {a['gpu']}"): a["state"]
        for a in found["answers"]
    }


def test_a_machine_whose_suite_needs_no_gpu_is_asked_for_none(tmp_path: Path) -> None:
    root = tree(tmp_path, lost=(9, "Driver Not Loaded"))
    status, said = doctor(root, "--suite", "a-test-cpu")
    assert status == 0 and "this machine is fit" in said
    status, found = states(root, "--suite", "a-test-cpu")
    assert (status, found.keys()) == (
        0,
        {"machine", "shared memory", "disk", "open files", "left processes"},
    )


@pytest.mark.parametrize(
    ("suite", "lost", "status", "state"),
    [
        ("a-test-gpu", (12, "NVML Shared Library Not Found"), 2, "SICK"),
        ("", (12, "NVML Shared Library Not Found"), 0, "note"),
        ("a-test-gpu", (18, "Driver/library version mismatch"), 2, "SICK"),
        ("", (18, "Driver/library version mismatch"), 2, "SICK"),
    ],
)
def test_a_driver_that_does_not_answer(
    tmp_path: Path, suite: str, lost: tuple[int, str], status: int, state: str
) -> None:
    root = tree(tmp_path, lost=lost)
    given = ("--suite", suite) if suite else ()
    found, said = states(root, *given)
    assert (found, said["driver"]) == (status, state)
    assert said["machine"] == ("SICK" if suite else "ok")
    code, shown = doctor(root, *given)
    assert code == status and lost[1] in shown
    assert ("restart the machine" in " ".join(shown.split())) is (lost[0] == 18)


def test_without_nvidia_ml_py_a_gpu_suite_says_how_to_get_it(tmp_path: Path) -> None:
    root = tree(tmp_path, pynvml="raise ImportError")
    status, said = doctor(root, "--suite", "a-test-gpu")
    assert status == 2 and "nvidia-ml-py" in said and "pip install" in said
    assert doctor(root)[0] == 0


def test_a_sick_gpu_leaves_service_until_somebody_puts_it_back(tmp_path: Path) -> None:
    root = tree(tmp_path, ECC)
    given = ("--suite", "a-test-gpu", "--shard", "cuda-a-test-gpu-1of1", "--results", "r")
    status, said = doctor(root, *given)
    assert status == 2
    assert "GPU 0: ECC: 3 uncorrected errors" in " ".join(said.split())
    (kept,) = read_results([str(root / "r")]).unfit
    assert kept.shard == "cuda-a-test-gpu-1of1" and "ECC" in kept.unfit[0]
    (out,) = service.read(root / "locks").out
    assert (out.uuid, out.reasons) == ("GPU-0", ("ECC: 3 uncorrected errors",))

    tree(root, WELL)  # as after a restart; but nothing computed here, so nobody knows
    status, found = states(root, "--suite", "a-test-gpu")
    assert (status, found["service 0"], found["ECC 0"]) == (2, "SICK", "ok")
    assert "product 0" in found  # it is asked to compute all the same
    ran = runci(root, "run", "--suite", "a-test-gpu")
    assert ran.returncode == 2 and "ECC: 3 uncorrected errors" in ran.stderr

    assert runci(root, "doctor", "--clear", "1").returncode == 2
    done = runci(root, "doctor", "--clear", "0")
    assert (done.returncode, "GPU 0" in done.stdout) == (0, True)
    assert states(root, "--suite", "a-test-gpu")[0] == 0
    ran = runci(root, "run", "--suite", "a-test-gpu")
    assert ran.returncode == 0, ran.stderr


def test_with_enough_others_a_sick_gpu_stops_nobody(tmp_path: Path) -> None:
    root = tree(tmp_path, ECC, WELL)
    status, said = doctor(root, "--suite", "a-test-gpu", "--format", "github")
    assert status == 0 and "in spite of 1 finding" in said
    assert "::warning title=runci doctor::GPU 0" in said
    assert service.read(root / "locks").by_uuid().keys() == {"GPU-0"}
    status, said = doctor(root, "--suite", "a-test-two", "--format", "github")
    assert status == 2 and "::error title=runci doctor::GPU 0" in said
    ran = runci(root, "run", "--suite", "a-test-gpu")
    assert ran.returncode == 0 and "out of service" in ran.stdout + ran.stderr


@pytest.mark.parametrize("text", ["{", "[]", '{"out": [], "cleared": {}, "version": 2}'])
@pytest.mark.parametrize("given", [(), ("--suite", "a-test-gpu")], ids=["whatever", "suite"])
def test_gpus_are_shown_where_nobody_knows_which_are_out_of_service(
    tmp_path: Path, text: str, given: tuple[str, ...]
) -> None:
    root = tree(tmp_path, WELL)
    (root / "locks" / service.FILE).write_text(text)
    more = ("--results", "r", "--shard", "s", "--format", "github")
    done = runci(root, "doctor", *given, *more)
    said = " ".join(done.stdout.split())
    assert done.returncode == 2 and "NVIDIA H100" in said
    assert "1 finding" in said and "::error title=runci doctor::" in said
    assert said.count("removes the file") == 2  # the text and the annotation
    (kept,) = read_results([str(root / "r")]).unfit
    assert service.FILE in kept.unfit[0]
    assert (root / "locks" / service.FILE).read_text() == text


def test_a_toolkit_is_found_by_its_compiler(tmp_path: Path) -> None:
    root = tree(tmp_path, WELL)
    compiler = root / "cuda/bin/nvcc"
    compiler.parent.mkdir(parents=True)
    compiler.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.9, V12.9.86'\n")
    compiler.chmod(0o755)
    path = f"{compiler.parent}:{os.environ['PATH']}"
    for known in ({"PATH": path, "CUDA_HOME": ""}, {"CUDA_HOME": str(root / "cuda")}):
        assert "CUDA 13.0, toolkit 12.9.86" in doctor(root, **known)[1]
    (root / "cuda/version.json").write_text('{"cuda": {"version": "12.9.1"}}')
    assert "toolkit 12.9.1" in doctor(root, CUDA_HOME=str(root / "cuda"))[1]


def test_only_the_gpus_that_are_named_or_visible_are_looked_at(tmp_path: Path) -> None:
    root = tree(tmp_path, WELL, ECC)
    assert "ECC 1" not in states(root, "--gpus", "0")[1]
    assert states(root, "--gpus", "GPU-1")[1]["ECC 1"] == "SICK"
    assert states(root, CUDA_VISIBLE_DEVICES="0")[0] == 0
    assert states(tree(tmp_path / "a", lost=(12, "no library")))[0] == 0
    status, said = doctor(tmp_path / "a", "--gpus", "0")
    assert status == 2 and "--gpus 0: no GPU can be asked: no library" in said
    for wrong in ("2", "0,0", "", "GPU-"):
        status, said = doctor(root, "--gpus", wrong)
        assert status == 2 and "1 (GPU-1)" in said


def test_a_gpu_that_somebody_leased_is_left_alone(tmp_path: Path) -> None:
    root = tree(tmp_path, WELL)
    with Lease(GPUS[:1], 1, patience=0, folder=root / "locks"):
        status, found = states(root, "--suite", "a-test-gpu")
    assert (status, found["lease 0"], "product 0" in found) == (0, "note", False)
    assert "lease 0" not in states(root)[1]


# A lock of the system outlives its taker where that forked: filelock lets go of it in forks of
# Python, but not in those of a library.
HEIR = """
import fcntl, json, os, sys, time
from pathlib import Path
lock = os.open(Path(sys.argv[1], "GPU-0.lock"), os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
Path(sys.argv[1], "GPU-0.holder").write_text(json.dumps({"pid": os.getpid(), "cwd": "/w"}))
if os.fork() == 0:
    print(os.getpid(), flush=True)
    time.sleep(120)
os._exit(0)
"""


@contextmanager
def heir(locks: Path) -> Iterator[int]:
    """A process that has the lock of one that is gone."""
    with subprocess.Popen(
        [sys.executable, "-c", HEIR, str(locks)], stdout=subprocess.PIPE, text=True
    ) as taker:
        assert taker.stdout is not None
        pid = int(taker.stdout.readline())
        taker.wait(30)
        try:
            yield pid
        finally:
            os.kill(pid, 9)


def test_a_lease_that_its_dead_process_left_to_another_is_found(tmp_path: Path) -> None:
    root = tree(tmp_path, WELL)
    with heir(root / "locks") as pid:
        done = runci(root, "doctor", "--suite", "a-test-gpu", "--format", "json")
    (found,) = (a for a in json.loads(done.stdout)["answers"] if a["check"] == "lease")
    assert (done.returncode, found["state"]) == (2, "SICK")
    assert found["remedy"] == f"`kill -9 {pid}`"


@pytest.mark.parametrize(("ecc", "status"), [(0, 0), (2, 2)])
def test_amd_is_asked_and_said_not_to_be_verified(tmp_path: Path, ecc: int, status: int) -> None:
    root = tree(tmp_path, amdsmi=f"ECC = {ecc}{SMI}")
    found, said = states(root, "--suite", "a-test-mi")
    assert (found, said["ECC 0"]) == (status, "SICK" if ecc else "ok")
    assert (said["machine"], said["PCIe 0"], said["bad memory 0"]) == ("ok", "unknown", "unknown")
    assert "not verified on AMD hardware" in " ".join(
        doctor(root, "--suite", "a-test-mi")[1].split()
    )
    assert states(root, "--suite", "b-test-mi")[1]["machine"] == "unknown"


def test_an_amd_gpu_out_of_service_is_used_by_nobody(tmp_path: Path) -> None:
    """Nobody tells a test of AMD's which GPUs are its own, so it may use all of them."""
    root = tree(tmp_path, amdsmi=f"ECC = 2{SMI}")
    (root / "test/t/test_a.py").write_text(TEST.replace("cuda", "amd").replace('"gpu"', '"mi"'))
    assert states(root, "--suite", "a-test-mi")[0] == 2
    (root / "fake/amdsmi.py").write_text(f"ECC = 0{SMI}")
    status, found = states(root, "--suite", "a-test-mi")
    assert (status, found["service 0"], found["ECC 0"]) == (2, "SICK", "ok")
    ran = runci(root, "run", "--suite", "a-test-mi")
    assert ran.returncode == 2 and "2 uncorrected errors" in ran.stderr
    assert runci(root, "doctor", "--clear", "amd-uuid-0").returncode == 0
    assert runci(root, "run", "--suite", "a-test-mi").returncode == 0


def test_a_driver_that_hangs_is_not_waited_for() -> None:
    never = threading.Event()
    assert within(30, lambda: 1, lambda: 2) == 1
    assert within(0.05, lambda: int(never.wait()), lambda: 2) == 2
    with pytest.raises(RunciError, match="no such GPU"):
        within(30, refuse, lambda: 2)
    asked = silent()
    facts = Facts(asked.cards, asked.driver)
    need = Need(Backend.CUDA, Runner("gpu", "x", 1), "s:1")
    answers = examine(facts, need)
    assert [a.check for a in answers if a.state is State.SICK] == ["machine", "driver"]
    never.set()


def refuse() -> int:
    raise RunciError("no such GPU")


def test_what_cannot_be_kept_is_no_success(tmp_path: Path) -> None:
    root = tree(tmp_path, WELL)
    (root / "file").touch()
    status, said = doctor(root, "--suite", "a-test-cpu", "--results", "file/r")
    assert status == 2 and "file/r" in said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--suite", "a-test-gp"), "did you mean 'a-test-gpu'"),
        (("--suite", "a-test-gpu", "--hw", "npu"), "is a suite of cuda"),
        (("--config", "none.yml"), "none.yml"),
        (("--clear", "0"), "none is"),
    ],
)
def test_wrong_use(tmp_path: Path, given: tuple[str, ...], said: str) -> None:
    status, shown = doctor(tree(tmp_path, WELL), *given)
    assert status == 2 and said in shown


def test_outside_a_repository_the_machine_is_looked_at(tmp_path: Path) -> None:
    assert doctor(tmp_path)[0] == 0


def test_a_test_is_known_by_its_folder_for_temporary_files() -> None:
    code = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "TMPDIR": "/tmp/runci-abc/7"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        found = {one.pid: one for one in host.running()}
        child.communicate()
    assert found[child.pid].ours and found[child.pid].parent == os.getpid()


def test_the_kernels_log_is_read_or_said_to_be_unreadable() -> None:
    log = host.kernel_log()
    assert log.unreadable == "" or log.xids == ()


def test_rooms_are_of_the_folder_or_the_next_one_above(tmp_path: Path) -> None:
    found = host.disks(tmp_path / "not" / "yet")
    assert found[0].path == str(tmp_path) and found[0].free_mb > 0
    asked = os.statvfs(tmp_path)
    assert found[0].total_mb == asked.f_blocks * asked.f_frsize / (1 << 20)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
