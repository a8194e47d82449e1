"""Which hardware a test file asks for, by its code, its marks, its path and today's jobs."""

from __future__ import annotations

import ast

import pytest

from runci import register_cpu_ci
from runci.adopt.hardware import code_clues, decide, mark_means, words_mean
from runci.core.registration import Backend
from runci.read.marks import find_marks
from runci.read.module import Module

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

CPU, CUDA, AMD = (Backend.CPU,), (Backend.CUDA,), (Backend.AMD,)
NPU, XPU, MUSA = (Backend.NPU,), (Backend.XPU,), (Backend.MUSA,)


def guess(path: str, source: str = "", ran_on: tuple[Backend, ...] = (), *machines: Backend):  # type: ignore[no-untyped-def]
    module = Module(source, ast.parse(source))
    return decide(path, code_clues(module), find_marks(module), ran_on, machines)


@pytest.mark.parametrize(
    ("source", "backends", "why"),
    [
        ("", CPU, "no sign of a GPU"),
        ("x = 1\ny = torch.ones(2, device='cuda')", CUDA, 'line 2: device "cuda"'),
        ("x = torch.device(f'cuda:{i}')", CUDA, 'line 1: device "cuda:"'),
        ("x = a.to('cuda:1')", CUDA, 'line 1: device "cuda:1"'),
        ("x = torch.ones(2).cuda()", CUDA, "line 1: .cuda()"),
        ("torch.cuda.synchronize()", CUDA, "line 1: torch.cuda"),
        ("import triton.language as tl", CUDA, "line 1: imports triton"),
        ("from numba import cuda", CUDA, "line 1: imports numba.cuda"),
        ("t = pytest.importorskip('triton')", CUDA, "line 1: imports triton"),
        ("import aiter", AMD, "line 1: imports aiter"),
        (
            "@pytest.mark.skipif(not torch.cuda.is_available(), reason='')\ndef test_a(): ...",
            CUDA,
            "line 1: asks torch.cuda whether a GPU is there",
        ),
        ("import torch_npu", NPU, "line 1: imports torch_npu"),
        ("x = a.npu()", NPU, "line 1: .npu()"),
        ("x = torch.ones(2, device='xpu:0')", XPU, 'line 1: device "xpu:0"'),
        ("torch.musa.synchronize()", MUSA, "line 1: torch.musa"),
        (
            "torch.npu.is_available()\nimport triton",
            NPU,
            "line 1: asks torch.npu whether a GPU is there",
        ),
        ("d = 'xpu' if torch.xpu.is_available() else 'cuda'", CUDA, 'line 1: device "cuda"'),
        ("a.xpu()\na.cuda()", CUDA, "line 2: .cuda()"),
        ("import cupy\na.npu()", CUDA, "line 1: imports cupy"),
        # What only looks like it.
        ("x = 'an npu'", CPU, "no sign of a GPU"),
        ("# device='cuda'", CPU, "no sign of a GPU"),
        ("x = 'a cuda device'", CPU, "no sign of a GPU"),
        ("import tritonclient", CPU, "no sign of a GPU"),
        ("cuda = 1\nprint(cuda)", CPU, "no sign of a GPU"),
        ("from .triton import x", CPU, "no sign of a GPU"),
    ],
)
def test_what_code_asks_for(source: str, backends: tuple[Backend, ...], why: str) -> None:
    found = guess("tests/test_x.py", source)
    assert (found.backends, found.why) == (backends, why)


@pytest.mark.parametrize(
    ("path", "backends"),
    [
        ("tests/test_x.py", CPU),
        ("tests/gpu/test_x.py", CUDA),
        ("tests/cuda/test_x.py", CUDA),
        ("tests/kernels/test_x.py", CUDA),
        ("tests/sm90/test_x.py", CUDA),
        ("tests/rocm/test_x.py", AMD),
        ("tests/gfx942/test_x.py", AMD),
        ("tests/gpu/cpu/test_x.py", CPU),
        ("tests/test_cuda_graph.py", CUDA),
        ("tests/test_kernel_names.py", CPU),  # a subject, not a machine
        ("tests/gpus_and_hips/ship/test_chips.py", CUDA),
        ("ships/test_x.py", CPU),
    ],
)
def test_what_a_path_says(path: str, backends: tuple[Backend, ...]) -> None:
    assert guess(path).backends == backends


@pytest.mark.parametrize(
    ("mark", "means"),
    [
        ("gpu", "gpu"),
        ("gpus(2)", "gpu"),
        ("requires_cuda", "cuda"),
        ("needs_rocm", "amd"),
        ("sm90", "cuda"),
        ("cpu", "cpu"),
        ("slow", ""),
        ("kernel", ""),
        ("triton", ""),
    ],
)
def test_what_a_mark_says(mark: str, means: str) -> None:
    assert mark_means(mark) == means


@pytest.mark.parametrize(
    ("label", "means"),
    [
        ("h100", "cuda"),
        ("1-gpu-5090", "cuda"),
        ("linux.rocm.gpu.2", "amd"),
        ("linux-mi300-4", "amd"),
        ("a10g", ""),
        ("gpu", "gpu"),
        ("arm64", ""),
        ("self-hosted", ""),
        ("cpu", "cpu"),
    ],
)
def test_what_a_label_says(label: str, means: str) -> None:
    assert words_mean(label) == means


MARKED = "import pytest\n@pytest.mark.{}\ndef test_a(): ...\ndef test_b(): ...\n"


@pytest.mark.parametrize(
    ("mark", "mixed"),
    [("gpu", ("gpu",)), ("requires_cuda", ("requires_cuda",)), ("sm90", ()), ("multi_gpu", ())],
)
def test_only_a_mark_that_says_gpu_and_no_more_parts_a_file(
    mark: str, mixed: tuple[str, ...]
) -> None:
    found = guess("tests/test_x.py", MARKED.format(mark))
    assert (found.backends, found.mixed) == (CUDA, mixed)


def test_a_file_all_of_whose_tests_have_the_mark_is_whole() -> None:
    assert (
        guess("tests/test_x.py", MARKED.format("gpu") + "pytestmark = pytest.mark.gpu\n").mixed
        == ()
    )


GPU = "x.cuda()"


@pytest.mark.parametrize(
    ("path", "source", "ran_on", "machines", "backends"),
    [
        # Without a clue a file stays where it runs today.
        ("tests/test_x.py", "", (Backend.CUDA,), (Backend.CUDA,), CUDA),
        ("tests/test_x.py", "", (Backend.CUDA, Backend.CPU), (Backend.CUDA,), CPU),
        ("tests/test_x.py", "", (), (Backend.CUDA,), CPU),
        # With one it goes where it runs, else to the first machine, else to CUDA.
        ("tests/test_x.py", GPU, (Backend.AMD,), (Backend.CUDA, Backend.AMD), AMD),
        (
            "tests/test_x.py",
            GPU,
            (Backend.AMD, Backend.CUDA),
            (Backend.CUDA, Backend.AMD),
            (Backend.CUDA, Backend.AMD),
        ),
        ("tests/test_x.py", GPU, (Backend.CPU,), (Backend.AMD,), AMD),
        ("tests/test_x.py", GPU, (), (), CUDA),
        # A vendor's name is stronger than a machine.
        ("tests/rocm/test_x.py", GPU, (), (Backend.CUDA,), AMD),
    ],
)
def test_where_a_file_goes(
    path: str,
    source: str,
    ran_on: tuple[Backend, ...],
    machines: tuple[Backend, ...],
    backends: tuple[Backend, ...],
) -> None:
    assert guess(path, source, ran_on, *machines).backends == backends
