"""Planted faults on a real GPU, found by compute-sanitizer through `runci run --under`.

`python -m pytest -v test/registered/gpu/test_gpu_sanitizer.py` on any machine with a free CUDA GPU
and compute-sanitizer. The kernels are PTX, which the driver compiles: no toolkit, no torch.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # for `python FILE`

from run_trees import Ran, run

from runci import register_cuda_ci
from runci.core.errors import RunciError
from runci.core.result import FileResult, Outcome
from runci.run.sanitizer import find

register_cuda_ci(est_time=120, stage="base-b", runner_config="1-gpu-small")

SUITES = """\
version: 1
roots: [test/t]
runners:
  gpu: {label: gpu, gpu: any, gpus: 1, execution: pytest}
suites:
  cuda:
    - {stage: a, runner_configs: [gpu], kind: per-commit, timeout_minutes: 9}
"""
# store: to[tid + 64 * past] = tid. race: what another warp wrote into shared memory, with a barrier
# between unless `racy`. read: to[tid] += 1. All with one block of 64 threads.
HEAD = r'''
import ctypes
from runci import register_cuda_ci
register_cuda_ci(est_time=9, stage="a", runner_config="gpu")
PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry store(.param .u64 to, .param .u32 past) {
  .reg .b64 %a<4>; .reg .b32 %r<4>;
  ld.param.u64 %a0, [to];
  cvta.to.global.u64 %a1, %a0;
  ld.param.u32 %r0, [past];
  mov.u32 %r1, %tid.x;
  mad.lo.u32 %r2, %r0, 64, %r1;
  mul.wide.u32 %a2, %r2, 4;
  add.u64 %a3, %a1, %a2;
  st.global.u32 [%a3], %r1;
  ret;
}
.visible .entry race(.param .u64 to, .param .u32 racy) {
  .reg .pred %p; .reg .b64 %a<4>; .reg .b32 %r<7>;
  .shared .align 4 .b32 box[64];
  ld.param.u64 %a0, [to];
  cvta.to.global.u64 %a1, %a0;
  ld.param.u32 %r0, [racy];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, box;
  mad.lo.u32 %r3, %r1, 4, %r2;
  st.shared.u32 [%r3], 0;
  bar.sync 0;
  st.shared.u32 [%r3], %r1;
  setp.ne.u32 %p, %r0, 0;
  @%p bra READ;
  bar.sync 0;
READ:
  xor.b32 %r4, %r1, 32;
  mad.lo.u32 %r5, %r4, 4, %r2;
  ld.shared.u32 %r6, [%r5];
  mul.wide.u32 %a2, %r1, 4;
  add.u64 %a3, %a1, %a2;
  st.global.u32 [%a3], %r6;
  ret;
}
.visible .entry read(.param .u64 to, .param .u32 by) {
  .reg .b64 %a<4>; .reg .b32 %r<4>;
  ld.param.u64 %a0, [to];
  cvta.to.global.u64 %a1, %a0;
  ld.param.u32 %r0, [by];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %a2, %r1, 4;
  add.u64 %a3, %a1, %a2;
  ld.global.u32 %r2, [%a3];
  add.u32 %r3, %r2, %r0;
  st.global.u32 [%a3], %r3;
  ret;
}
"""

def gpu():
    cuda, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
    module = ctypes.c_void_p()
    for status in (
        cuda.cuInit(0),
        cuda.cuDeviceGet(ctypes.byref(device), 0),
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
        cuda.cuCtxSetCurrent(context),
        cuda.cuModuleLoadData(ctypes.byref(module), PTX),
    ):
        assert status == 0, status
    return cuda, module

def launch(name, argument, wait=True):
    """64 threads over 256 bytes that nobody has written; without `wait` nobody looks at the end."""
    cuda, module = gpu()
    function, memory = ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode()) == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(256)) == 0
    number = ctypes.c_uint(argument)
    values = (ctypes.c_void_p * 2)(*(ctypes.addressof(one) for one in (memory, number)))
    assert cuda.cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, None, values, None) == 0
    if wait:
        cuda.cuCtxSynchronize()
'''
FILES = {
    "test_write.py": """
def test_before(): launch("store", 0)
def test_writes_past_the_end(): launch("store", 1, wait=False)
def test_after(): launch("store", 0)
""",
    "test_race.py": """
def test_with_a_barrier(): launch("race", 0)
def test_without_a_barrier(): launch("race", 1, wait=False)
def test_after(): launch("race", 0)
""",
    "test_unwritten.py": """
def test_writes(): launch("store", 0)
def test_reads_what_nobody_wrote(): launch("read", 1, wait=False)
def test_after(): launch("store", 0)
""",
    "test_talks.py": """
def test_prints_what_the_tool_prints():
    launch("store", 0)
    print("========= Invalid __global__ write of size 4 bytes")
    print("========= ERROR SUMMARY: 3 errors")
""",
    "test_idle.py": """
def test_uses_no_gpu(): assert ctypes
""",
}
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
# The file and the test in which a tool finds the planted fault, and the kernel.
PLANTED = {
    ("test_write.py", "memcheck"): ("test_writes_past_the_end", "store"),
    ("test_race.py", "racecheck"): ("test_without_a_barrier", "race"),
    ("test_unwritten.py", "initcheck"): ("test_reads_what_nobody_wrote", "read"),
}


def why_not() -> str:
    """Why nothing can be run under the tool here; "" where it can."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return f"needs a CUDA GPU: {error}"
    if (status := driver.cuInit(0)) != 0:
        return f"needs a CUDA GPU: cuInit gives {status}"
    try:
        find(os.environ)
    except RunciError as error:
        return str(error)
    return ""


WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "it can")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """All files under all tools; the logs stay below pytest's --basetemp."""
    root = tmp_path_factory.mktemp("lane")
    (root / "test" / "t").mkdir(parents=True)
    (root / "test" / "suites.yml").write_text(SUITES, encoding="utf-8")
    for name, text in FILES.items():
        (root / "test" / "t" / name).write_text(HEAD + text, encoding="utf-8")
    tools = f"compute-sanitizer={','.join(TOOLS)}"
    return run(root, "--suite", "a-test-gpu", "--under", tools, RUNCI_LOCKS=str(root / "locks"))


def result(ran: Ran, name: str, tool: str) -> FileResult:
    found = [one for one in ran.results()[name] if one.under == tool]
    assert len(found) == 1, ran.output + ran.error
    return found[0]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("name", [name for name in FILES if name != "test_idle.py"])
def test_a_tool_finds_its_own_fault_and_no_other(ran: Ran, name: str, tool: str) -> None:
    one = result(ran, name, tool)
    if (name, tool) not in PLANTED:
        assert (one.outcome, one.errors) == (Outcome.PASSED, ()), ran.output
        return
    test, kernel = PLANTED[name, tool]
    assert one.outcome is Outcome.FAILED, one.message
    assert {error.test.rpartition("::")[2] for error in one.errors} == {test}, one.errors
    assert {error.kernel.partition("(")[0] for error in one.errors} == {kernel}, one.errors
    assert [name.rpartition("::")[2] for name in one.failed_tests] == [test]
    assert (one.tests, one.failed) == (3, 1)


@pytest.mark.parametrize("tool", TOOLS)
def test_what_used_no_gpu_is_red(ran: Ran, tool: str) -> None:
    assert result(ran, "test_idle.py", tool).outcome is Outcome.NO_TESTS


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
