"""`runci run` on another machine than declared: nothing starts. NVML and amdsmi are played."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import types
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from played_nvml import CARD, OTHER, nvml
from run_trees import Ran, run

from runci import register_cpu_ci
from runci.config.taxonomy import Runner
from runci.core.devices import EVERY
from runci.core.errors import UnfitMachine
from runci.core.machine import Gpu, Machine
from runci.core.registration import Backend
from runci.run import service
from runci.run.machine import amd_gpus, find

register_cpu_ci(est_time=55, stage="base-a", runner_config="cpu")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs tests in forks")

SUITES = """\
version: 1
roots: [test/t]
runners:
  gpu:
    {label: gpu-h100, RUNNER, execution: pytest}
suites:
  BACKEND:
    - {stage: a, runner_configs: [gpu], kind: per-commit, timeout_minutes: 5}
"""
TEST = """\
import os
from runci import register_BACKEND_ci
register_BACKEND_ci(est_time=2, stage="a", runner_config="gpu")
def test_a(): open("ran", "w").write(os.environ.get("CUDA_VISIBLE_DEVICES", ""))
"""
H100 = "gpu: H100, compute_capability: '9.0', gpus: 1, memory_gb: 80"
NO_NVML = 'class NVMLError(Exception): pass\ndef nvmlInit(): raise NVMLError("not here")\n'
SMI = """
class AmdSmiException(Exception): pass
def amdsmi_init():
    if ROWS is None: raise AmdSmiException("no driver")
def amdsmi_get_processor_handles(): return list(range(len(ROWS)))
def amdsmi_get_gpu_device_uuid(handle): return f"amd-uuid-{handle}"
def amdsmi_get_gpu_asic_info(handle): return {"market_name": ROWS[handle][0]}
def amdsmi_get_gpu_vram_info(handle): return {"vram_size": ROWS[handle][1]}
def amdsmi_get_gpu_driver_info(handle): return {"driver_version": "6.12.12"}
"""


def machine(root: Path, runner: str, backend: str = "cuda", **modules: str) -> Path:
    """A repository with one test, and modules in place of the drivers' libraries."""
    files = {
        "test/suites.yml": SUITES.replace("RUNNER", runner),
        "test/t/test_a.py": TEST,
        **{f"fake/{name}.py": textwrap.dedent(text) for name, text in modules.items()},
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("BACKEND", backend))
    return root


def started(root: Path, *arguments: str, **more: str) -> Ran:
    more = {"PYTHONPATH": "fake", "RUNCI_LOCKS": str(root / "locks"), **more}
    return run(root, *(arguments or ("--suite", "a-test-gpu")), **more)


@pytest.mark.parametrize(
    ("runner", "rows", "said"),
    [
        (H100, [CARD], ""),
        (H100, [OTHER, CARD], ""),  # the display's card is not used
        ("gpus: 1", [OTHER], ""),
        ("gpu: any, gpus: 1", [OTHER], ""),
        (H100, [OTHER], "it is no H100"),
        (H100, [("NVIDIA H100 NVL", *CARD[1:])], "GPU 0, NVIDIA H100 NVL"),
        (H100, [(None, *CARD[1:])], "it says no name"),
        (H100, [(CARD[0], (8, 9), CARD[2])], "its compute capability is 8.9, not 9.0"),
        (H100, [(CARD[0], None, CARD[2])], "its compute capability is unknown, not 9.0"),
        (H100, [(*CARD[:2], 95830)], "its memory is 94 GiB, not 80 GB"),
        (H100, [], "0 GPUs, not 1"),
        (H100.replace("gpus: 1", "gpus: 2"), [CARD], "1 GPU, not 2"),
        (H100.replace("gpus: 1", "gpus: 2"), [CARD, OTHER], "GPU 1, NVIDIA GeForce RTX 3060"),
        (H100.replace("H100", "any"), [OTHER], "its compute capability is 8.6, not 9.0"),
    ],
)
def test_the_machine_is_compared_before_a_test_starts(
    tmp_path: Path, runner: str, rows: list[object], said: str
) -> None:
    ran = started(machine(tmp_path, runner, pynvml=nvml(*rows)))
    assert ran.status == (2 if said else 0), ran.output + ran.error
    assert (tmp_path / "ran").exists() is not bool(said)
    assert bool(ran.results()) is not bool(said)
    if said:
        assert said in ran.error
        assert "test/suites.yml:4: runner gpu is declared as " in ran.error
        assert "gpu-h100" in ran.error
        (kept,) = ran.unfit()
        assert (kept.shard, said in kept.unfit[0]) == ("cuda-a-test-gpu", True)


def test_a_result_carries_the_machine_of_its_own_gpus(tmp_path: Path) -> None:
    ran = started(machine(tmp_path, H100, pynvml=nvml(OTHER, CARD, CARD)))
    card = Gpu(1, "GPU-1", "NVIDIA H100 80GB HBM3", "9.0", 81559)
    assert ran.result("test_a.py").machine == Machine((card,), "580.159.04")
    assert (tmp_path / "ran").read_text() == "GPU-1"


@pytest.mark.parametrize(
    ("variable", "uuid"), [("2", "GPU-2"), ("GPU-2,1", "GPU-2"), ("0,2", "GPU-2"), ("0", "")]
)
def test_of_the_gpus_that_it_may_use(tmp_path: Path, variable: str, uuid: str) -> None:
    root = machine(tmp_path, H100, pynvml=nvml(OTHER, CARD, CARD))
    ran = started(root, CUDA_VISIBLE_DEVICES=variable)
    assert ran.status == (0 if uuid else 2), ran.error
    assert ("CUDA_VISIBLE_DEVICES is '0'" in ran.error) is not bool(uuid)
    if uuid:
        assert (tmp_path / "ran").read_text() == uuid


def test_a_driver_that_lost_its_gpu_is_named(tmp_path: Path) -> None:
    lost = "def nvmlDeviceGetUUID(handle): raise NVMLError('GPU is lost')\n"
    ran = started(machine(tmp_path, H100, pynvml=nvml(CARD) + lost))
    assert ran.status == 2
    assert "GPU is lost" in ran.error
    assert "GPU is lost" in ran.unfit()[0].unfit[0]


MI300X = "gpu: MI300X, gpus: 1, memory_gb: 192"


@pytest.mark.parametrize(
    ("backend", "amdsmi", "status", "said"),
    [
        ("amd", None, 0, "amdsmi is not installed"),
        ("xpu", None, 0, "asks no driver for xpu GPUs"),
        ("npu", [("AMD Instinct MI300X", 196592)], 0, "asks no driver for npu GPUs"),
        ("amd", [("AMD Instinct MI300X", 196592)], 0, ""),
        ("amd", [("AMD Instinct MI300A", 131072)], 2, "it is no MI300X"),
        ("amd", [("AMD Instinct MI300X", "N/A")], 2, "its memory is unknown"),
        ("amd", [("AMD Instinct MI300X", 196592), ("AMD W7900", 49152)], 2, "GPU 1, AMD W7900"),
        ("amd", [], 2, "0 GPUs, not 1"),
    ],
)
def test_other_backends_do_not_ask_nvml(
    tmp_path: Path, backend: str, amdsmi: list[object] | None, status: int, said: str
) -> None:
    smi = {} if amdsmi is None else {"amdsmi": f"ROWS = {amdsmi!r}{SMI}"}
    ran = started(machine(tmp_path, MI300X, backend, pynvml=NO_NVML, **smi))
    assert ran.status == status, ran.error
    assert (tmp_path / "ran").exists() is (status == 0)
    if status:
        assert said in ran.error
        return
    shown = ran.result("test_a.py").machine
    assert shown is not None
    if said:
        assert (shown.gpus, said in shown.not_compared) == ((), True)
        assert (ran.output + ran.error).count(said) == 1
    else:
        card = Gpu(0, "amd-uuid-0", "AMD Instinct MI300X", None, 196592)
        assert shown == Machine((card,), "6.12.12")


TOLD = """\
import os, time
from runci import register_BACKEND_ci
register_BACKEND_ci(est_time=2, stage="a", runner_config="gpu")
def test_a():
    names = [name for name in os.environ if "VISIBLE_DEVICES" in name or "AFFINITY_MASK" in name]
    text = ";".join(f"{name}={os.environ[name]}" for name in sorted(names))
    open(__file__ + ".told", "w").write(text)
    time.sleep(1)
"""


def told(root: Path, backend: str, files: int, *arguments: str, **more: str) -> list[str]:
    """What each of these files is told, all of them at once; the run is green."""
    for n in range(files):
        (root / f"test/t/test_{n}.py").write_text(TOLD.replace("BACKEND", backend))
    ran = started(root, "--suite", "a-test-gpu", "--jobs", str(files), *arguments, **more)
    assert ran.status == 0, ran.output + ran.error
    return sorted(path.read_text() for path in (root / "test/t").glob("*.told"))


@pytest.mark.parametrize(
    ("backend", "given", "expected"),
    [
        ("amd", {}, ["HIP_VISIBLE_DEVICES=0"]),
        ("amd", {"HIP_VISIBLE_DEVICES": "3"}, ["HIP_VISIBLE_DEVICES=3"]),
        (
            "amd",
            {"CUDA_VISIBLE_DEVICES": "3,1"},
            ["CUDA_VISIBLE_DEVICES=1", "CUDA_VISIBLE_DEVICES=3"],
        ),
        (
            "amd",
            {"ROCR_VISIBLE_DEVICES": "2,3", "HIP_VISIBLE_DEVICES": "1"},
            ["HIP_VISIBLE_DEVICES=1;ROCR_VISIBLE_DEVICES=2,3"],
        ),
        ("xpu", {}, ["ZE_AFFINITY_MASK=0"]),
        ("xpu", {"ZE_AFFINITY_MASK": "0.0,0.1"}, ["ZE_AFFINITY_MASK=0.0", "ZE_AFFINITY_MASK=0.1"]),
        ("npu", {}, ["ASCEND_RT_VISIBLE_DEVICES=0"]),
        ("npu", {"ASCEND_RT_VISIBLE_DEVICES": "7"}, ["ASCEND_RT_VISIBLE_DEVICES=7"]),
        ("musa", {}, ["MUSA_VISIBLE_DEVICES=0"]),
        (
            "musa",
            {"MUSA_VISIBLE_DEVICES": "4,5"},
            ["MUSA_VISIBLE_DEVICES=4", "MUSA_VISIBLE_DEVICES=5"],
        ),
        ("ppu", {}, ["CUDA_VISIBLE_DEVICES=0"]),
        ("mlx", {}, [""]),
        ("mps", {}, [""]),
    ],
)
def test_each_job_of_another_backend_is_told_its_own_devices(
    tmp_path: Path, backend: str, given: dict[str, str], expected: list[str]
) -> None:
    root = machine(tmp_path, "gpus: 1", backend, pynvml=NO_NVML)
    (root / "test/t/test_a.py").unlink()
    assert told(root, backend, len(expected), **given) == expected


def test_jobs_on_amds_gpus_are_told_their_own_by_hips_numbers(tmp_path: Path) -> None:
    rows = [("AMD Instinct MI300X", 196592)] * 2
    hip = "\ndef amdsmi_get_gpu_enumeration_info(handle): return {'hip_id': 1 - handle}\n"
    root = machine(tmp_path, MI300X, "amd", pynvml=NO_NVML, amdsmi=f"ROWS = {rows!r}{SMI}{hip}")
    (root / "test/t/test_a.py").unlink()
    assert told(root, "amd", 2) == ["HIP_VISIBLE_DEVICES=0", "HIP_VISIBLE_DEVICES=1"]
    (root / "test/t/test_1.py").unlink()
    (root / "test/t/test_1.py.told").unlink()
    assert told(root, "amd", 1, ROCR_VISIBLE_DEVICES="1") == ["ROCR_VISIBLE_DEVICES=1"]
    ran = started(root, ROCR_VISIBLE_DEVICES="1")
    shown = ran.result("test_0.py").machine
    assert shown is not None
    assert [gpu.uuid for gpu in shown.gpus] == ["amd-uuid-0"]  # which HIP knows as 1


OF_BACKENDS = {
    Backend.AMD: "HIP_VISIBLE_DEVICES",
    Backend.XPU: "ZE_AFFINITY_MASK",
    Backend.NPU: "ASCEND_RT_VISIBLE_DEVICES",
    Backend.MUSA: "MUSA_VISIBLE_DEVICES",
    Backend.PPU: "CUDA_VISIBLE_DEVICES",
}


@pytest.mark.parametrize(
    ("given", "files", "expected"),
    [
        (None, 1, ["0,1"]),
        ("2,3", 1, ["2,3"]),
        ("3,2", 1, ["3,2"]),
        ("7,5,3,2", 2, ["7,5", "3,2"]),
        (None, 2, None),
        ("2,3", 2, None),
        ("2", 1, None),
        ("2,-1,3", 1, None),
        ("", 1, None),
    ],
)
@pytest.mark.parametrize("backend", OF_BACKENDS)
def test_a_job_has_as_many_devices_as_its_runner_declares(
    backend: Backend,
    given: str | None,
    files: int,
    expected: list[str] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    variable = OF_BACKENDS[backend]
    monkeypatch.setitem(sys.modules, "amdsmi", None)  # it is not installed
    for name in EVERY:
        monkeypatch.delenv(name, raising=False)
    if given is not None:
        monkeypatch.setenv(variable, given)
    runner = Runner("gpu", "gpus", gpus=2)
    if expected is None:
        with pytest.raises(UnfitMachine, match=f"{2 * files} GPUs are needed at once"):
            find(backend, runner, "s.yml", 2 * files)
        return
    here = find(backend, runner, "s.yml", 2 * files)
    assert len({gpu.uuid for gpu in here.usable}) == 2 * files
    shares = [here.usable[n : n + 2] for n in range(0, 2 * files, 2)]
    assert [here.slot(share).env for share in shares] == [{variable: one} for one in expected]


@pytest.mark.parametrize(
    ("ids", "uuids", "expected"),
    [
        ([1, 0], ["a", "b"], [(1, "a"), (0, "b")]),
        ([1, 1], ["a", "b"], [(0, "a"), (1, "b")]),  # it cannot be, so the places count
        ([1, "N/A"], ["a", "b"], [(0, "a"), (1, "b")]),
        ([1, None, 0], ["a", "b", "c"], [(0, "a"), (1, "b"), (2, "c")]),
        ([2, 1, 0], ["a", "b", "a"], [(2, "a.2"), (1, "b"), (0, "a.0")]),
    ],
)
def test_amds_gpus_are_told_apart(
    ids: list[object],
    uuids: list[str],
    expected: list[tuple[int, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    smi = types.ModuleType("amdsmi")
    more = f"def amdsmi_get_gpu_device_uuid(handle): return {uuids!r}[handle]\n"
    more += f"def amdsmi_get_gpu_enumeration_info(handle): return {{'hip_id': {ids!r}[handle]}}\n"
    exec(f"ROWS = {[('AMD', 1)] * len(ids)!r}{SMI}{more}", vars(smi))
    monkeypatch.setitem(sys.modules, "amdsmi", smi)
    found = amd_gpus()
    assert found is not None
    assert [(gpu.index, gpu.uuid) for gpu in found.gpus] == expected


def test_two_of_amds_gpus_that_the_environment_leaves_are_leased_and_told(tmp_path: Path) -> None:
    rows = [("AMD W7900", 49152)] * 2 + [("AMD Instinct MI300X", 196592)] * 2
    # As amdsmi has it of partitions and of cards without a serial number: one UUID for all.
    same = "\ndef amdsmi_get_gpu_device_uuid(handle): return 'ff'\n"
    mute = "def amdsmi_get_gpu_enumeration_info(handle): raise AmdSmiException('not supported')\n"
    smi = f"ROWS = {rows!r}{SMI}{same}{mute}"
    runner = MI300X.replace("gpus: 1", "gpus: 2")
    root = machine(tmp_path, runner, "amd", pynvml=NO_NVML, amdsmi=smi)
    (root / "test/t/test_a.py").unlink()
    assert told(root, "amd", 1, HIP_VISIBLE_DEVICES="2,3") == ["HIP_VISIBLE_DEVICES=2,3"]
    ran = started(root, HIP_VISIBLE_DEVICES="2,3")
    shown = ran.result("test_0.py").machine
    assert shown is not None
    assert [(gpu.index, gpu.name) for gpu in shown.gpus] == [(n, rows[n][0]) for n in (2, 3)]
    assert len({gpu.uuid for gpu in shown.gpus}) == 2


@pytest.mark.parametrize(
    ("backend", "given", "said"),
    [
        ("xpu", {}, "runner gpu has 1"),
        ("xpu", {"ZE_AFFINITY_MASK": "3"}, "ZE_AFFINITY_MASK is '3'"),
        ("npu", {"ASCEND_RT_VISIBLE_DEVICES": ""}, "ASCEND_RT_VISIBLE_DEVICES is ''"),
        ("musa", {"MUSA_VISIBLE_DEVICES": "1,1"}, "MUSA_VISIBLE_DEVICES is '1,1'"),
        ("mps", {}, "runner gpu has 1"),
    ],
)
def test_no_more_jobs_at_once_than_there_are_devices(
    tmp_path: Path, backend: str, given: dict[str, str], said: str
) -> None:
    root = machine(tmp_path, "gpus: 1", backend, pynvml=NO_NVML)
    ran = started(root, "--suite", "a-test-gpu", "--jobs", "2", **given)
    assert (ran.status, said in ran.error) == (2, True), ran.error
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ({"HIP_VISIBLE_DEVICES": "1"}, "GPU 1, AMD W7900"),
        ({"HIP_VISIBLE_DEVICES": "0"}, ""),
        ({"ROCR_VISIBLE_DEVICES": "1,0", "HIP_VISIBLE_DEVICES": "1"}, ""),
        ({"ROCR_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "1"}, "0 GPUs, not 1"),
        ({"ROCR_VISIBLE_DEVICES": "GPU-DEADBEEFDEADBEEF"}, "write numbers"),
    ],
)
def test_of_amds_gpus_those_that_the_environment_leaves_are_compared(
    tmp_path: Path, variable: dict[str, str], said: str
) -> None:
    rows = [("AMD Instinct MI300X", 196592), ("AMD W7900", 49152)]
    root = machine(tmp_path, MI300X, "amd", pynvml=NO_NVML, amdsmi=f"ROWS = {rows!r}{SMI}")
    ran = started(root, **variable)
    assert (ran.status, said in ran.error) == (2 if said else 0, True), ran.error


def test_amdsmi_without_a_driver_is_no_machine(tmp_path: Path) -> None:
    ran = started(machine(tmp_path, MI300X, "amd", amdsmi=f"ROWS = None{SMI}"))
    assert ran.status == 2
    assert "no driver" in ran.error
    assert not (tmp_path / "ran").exists()


def command(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "runci", *arguments],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )


def test_from_the_plan_to_the_verdict(tmp_path: Path) -> None:
    """What the plan says of the machine is what verify compares."""
    root = machine(tmp_path, H100, pynvml=nvml(CARD))
    (root / ".gitignore").write_text("/ran\n/locks\n/.runci\n/.cache\n__pycache__\n/plan.json\n")
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for arguments in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "one")):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    planned = command(root, "plan", "--all", "-o", "plan.json")
    assert planned.returncode == 0, planned.stderr
    ran = started(root, "--plan", "plan.json")
    assert ran.status == 0, ran.error
    verdict = command(root, "verify", "plan.json", ".runci/results")
    assert verdict.returncode == 0, verdict.stdout
    (path,) = (root / ".runci" / "results").glob("*.json")
    whole = path.read_text()
    for own, another in (("80GB HBM3", "NVL"), ('"9.0"', '"9.1"'), ("81559", "95830")):
        path.write_text(whole.replace(own, another))
        verdict = command(root, "verify", "plan.json", ".runci/results")
        assert (verdict.returncode, "on another machine" in verdict.stdout) == (1, True), another


def test_a_gpu_that_is_out_of_service_runs_nothing_and_blames_no_test(tmp_path: Path) -> None:
    root = machine(tmp_path, H100, pynvml=nvml(OTHER, CARD))
    (root / ".gitignore").write_text("/ran\n/locks\n/.runci\n/.cache\n__pycache__\n/plan.json\n")
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for arguments in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "one")):
        subprocess.run(["git", *arguments], cwd=root, check=True)
    assert command(root, "plan", "--all", "-o", "plan.json").returncode == 0
    (root / "locks").mkdir()
    sick = Gpu(1, "GPU-1", CARD[0])
    service.change(
        root / "locks", lambda now: service.taken_out(now, sick, ("Xid: 79",), "a doctor", 1.0)
    )
    ran = started(root, "--plan", "plan.json")
    assert (ran.status, ran.results()) == (2, {}), ran.error
    assert "Xid: 79" in ran.error and "--clear" in ran.error
    verdict = command(root, "verify", "plan.json", ".runci/results")
    assert verdict.returncode == 1
    assert "no test is to blame" in verdict.stdout and "Xid: 79" in verdict.stdout
    assert "Planned, but without a result" not in verdict.stdout
    service.change(root / "locks", lambda now: service.put_back(now, "GPU-1"))
    assert started(root, "--plan", "plan.json").status == 0
    assert command(root, "verify", "plan.json", ".runci/results").returncode == 0
    assert not list((root / ".runci" / "results").glob("machine.*"))


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
