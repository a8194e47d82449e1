"""Everything that computes y = x · wᵀ here, by name; each is skipped with a reason if it cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import ba_kernels
import torch
import torch.nn.functional as F  # noqa: N812

from sm120_ba.compiled import KernelForm, compile_form
from sm120_ba.cuda_driver import Function, load_function
from sm120_ba.dispatch import Dispatcher
from sm120_ba.gemm import M_MAX, M_MIN, K, N, load
from sm120_ba.reference import frozen_gemm

Linear = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class SkipProvider(Exception):  # noqa: N818 (not an error)
    """This provider cannot run here; the message says why."""


@dataclass(frozen=True)
class Provider:
    """`make(device_index)` gives the function; the values of a floor mean nothing."""

    name: str
    make: Callable[[int], Linear]
    first_rows: int = 1
    is_floor: bool = False


def _raw(function: Function) -> Linear:
    def linear(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = torch.empty((x.shape[0], N), dtype=torch.bfloat16, device=x.device)
        stream = torch._C._cuda_getCurrentRawStream(x.device.index)
        function.launch(x.data_ptr(), w.data_ptr(), y.data_ptr(), x.shape[0], stream)
        return y

    return linear


def compiled(form: KernelForm, grid: int = 3) -> Callable[[int], Linear]:
    """A provider of a kernel over (x, w, y, rows) in `grid` programs, by its compiled handle."""

    return lambda device_index: _raw(loaded(form, grid, device_index))


def loaded(form: KernelForm, grid: int, device_index: int) -> Function:
    """A kernel over (x, w, y, rows), compiled for that device and loaded there."""
    major, minor = torch.cuda.get_device_capability(device_index)
    kernel = compile_form(form, 10 * major + minor)
    threads, shared = 32 * kernel.metadata.num_warps, kernel.metadata.shared
    name, cubin = kernel.metadata.name, kernel.asm["cubin"]
    return load_function(cubin, name, device_index, grid, threads, shared)


def _this_kernel(device_index: int) -> Linear:
    return _raw(load(device_index).function)


def _dispatched(device_index: int) -> Linear:
    device = torch.device("cuda", device_index)
    dispatcher = Dispatcher()
    if reason := dispatcher.warmup(device):
        raise SkipProvider(reason.sentence)
    return dispatcher.linear


def _split_k(_device_index: int) -> Linear:
    split = 128

    def linear(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        sums = torch.zeros((x.shape[0], N), dtype=torch.float32, device=x.device)
        grid = (N // 16, K // split)
        ba_kernels.split_k_kernel[grid](x, w, sums, x.shape[0], N, K, split, num_warps=4)
        return sums.bfloat16()

    return linear


def _torch_compile(_device_index: int) -> Linear:
    return torch.compile(F.linear, dynamic=False)


def _flashinfer(_device_index: int) -> Linear:
    if find_spec("flashinfer") is None:
        raise SkipProvider("flashinfer is not installed")
    import flashinfer

    if not hasattr(flashinfer, "mm_bf16"):
        raise SkipProvider(f"flashinfer {flashinfer.__version__} has no mm_bf16")
    return lambda x, w: flashinfer.mm_bf16(x, w.t())


def _quack(_device_index: int) -> Linear:
    if find_spec("quack") is None:
        raise SkipProvider("quack is not installed")
    from quack.gemm_interface import gemm

    return lambda x, w: gemm(x, w.t())


SHAPE = {"N": N, "K": K}


def _form(kernel: Any, warps: int, constants: dict[str, int] = SHAPE) -> KernelForm:
    return KernelForm(kernel, constants, warps)


PROVIDERS = (
    Provider("F.linear", lambda _index: F.linear),
    Provider("frozen form", lambda _index: frozen_gemm),
    Provider("this kernel", _this_kernel, first_rows=M_MIN),
    Provider("this kernel, dispatched", _dispatched, first_rows=M_MIN),
    Provider(
        "plain Triton, same sum", compiled(_form(ba_kernels.plain_kernel, 2)), first_rows=M_MIN
    ),
    Provider("split-K, FP32 atomics", _split_k),
    Provider("row-wise reduction", compiled(_form(ba_kernels.row_wise_kernel, 4), N), first_rows=1),
    Provider("torch.compile", _torch_compile),
    Provider("flashinfer mm_bf16", _flashinfer),
    Provider("quack gemm", _quack),
    Provider("MMA chain, no loads", compiled(_form(ba_kernels.chain_kernel, 1)), is_floor=True),
    Provider("empty kernel", compiled(_form(ba_kernels.empty_kernel, 1, {})), is_floor=True),
)
ROWS = range(1, M_MAX + 1)
