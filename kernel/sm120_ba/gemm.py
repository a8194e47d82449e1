"""y[M,48] = x[M,5120] · w[48,5120]ᵀ in BF16, FP32 sums over K in ascending order, M = 2..8.

When it is chosen: `sm120_ba.dispatch` decides. Here are the loader and the ungated launcher: they
check nothing about the device beyond whether Triton compiles for it. Importing this module needs
neither torch nor Triton.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from sm120_ba.cuda_driver import DriverError, Function, load_function

if TYPE_CHECKING:
    import torch

N = 48
K = 5120
M_MIN = 2
M_MAX = 8


class GemmUnavailable(RuntimeError):  # noqa: N818 (a state, not a mistake)
    """The kernel cannot be compiled or loaded on this machine; the message says why."""


@dataclass(frozen=True)
class LoadedGemm:
    """The compiled kernel, loaded on one CUDA device and kept for the life of the process."""

    device_index: int
    function: Function
    current_device: Callable[[], int]

    def launch(self, x: torch.Tensor, w: torch.Tensor, y: torch.Tensor, stream: int) -> None:
        """Queue y = x · wᵀ on `stream` (a raw handle) of this device; checks no argument.

        x BF16 (M, 5120) with 2 <= M <= 8, w BF16 (48, 5120), y BF16 (M, 48): contiguous, 16-byte
        aligned, on this device. The current device stays as it was. Raises DriverError.
        """
        if self.current_device() == self.device_index:
            self.function.launch(x.data_ptr(), w.data_ptr(), y.data_ptr(), x.shape[0], stream)
            return
        import torch

        with torch.cuda.device(self.device_index):
            self.function.launch(x.data_ptr(), w.data_ptr(), y.data_ptr(), x.shape[0], stream)


def load(device_index: int) -> LoadedGemm:
    """Compile for CUDA device `device_index` and load there, without launching.

    Allocates no tensor and leaves the current device as it was. Raises GemmUnavailable where torch
    has no CUDA, Triton is missing or too old, or the compiler or the driver refuses.
    """
    try:
        import torch
    except ImportError as error:
        raise GemmUnavailable(f"torch cannot be imported: {error}") from error
    if torch.version.cuda is None or not torch.cuda.is_available():
        raise GemmUnavailable("torch has no usable CUDA device")
    torch.cuda.init()
    major, minor = torch.cuda.get_device_capability(device_index)
    try:
        from sm120_ba.compiled import FAST, compile_form
    except Exception as error:  # a broken or very old installation raises more than ImportError
        raise GemmUnavailable(f"Triton is missing or too old: {error}") from error
    try:
        kernel = compile_form(FAST, 10 * major + minor)
    except Exception as error:  # the compiler raises many kinds
        raise GemmUnavailable(f"Triton cannot compile for sm_{major}{minor}: {error}") from error
    try:
        function = load_function(
            kernel.asm["cubin"],
            kernel.metadata.name,
            device_index,
            grid=FAST.grid,
            threads=32 * kernel.metadata.num_warps,
            shared=kernel.metadata.shared,
        )
    except (DriverError, OSError, AttributeError) as error:  # an old driver lacks functions
        raise GemmUnavailable(f"the CUDA driver cannot load the kernel: {error}") from error
    return LoadedGemm(device_index, function, torch._C._cuda_getDevice)


_load_once = cache(load)


def ba_gemm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """x · wᵀ through the kernel on any CUDA GPU that Triton compiles for; for tests, ungated.

    x BF16 (M, 5120) with 2 <= M <= 8, w BF16 (48, 5120), both contiguous and 16-byte aligned on
    one CUDA device; returns BF16 (M, 48). Raises ValueError on other inputs and GemmUnavailable.
    """
    import torch

    if not M_MIN <= x.shape[0] <= M_MAX or x.shape[1:] != (K,) or w.shape != (N, K):
        raise ValueError(
            f"shapes {tuple(x.shape)} and {tuple(w.shape)} are not (2..8, 5120), (48, 5120)"
        )
    for tensor in (x, w):
        if tensor.dtype != torch.bfloat16 or not tensor.is_contiguous() or tensor.data_ptr() % 16:
            raise ValueError("x and w must be contiguous, 16-byte aligned BF16 tensors")
    if x.device.type != "cuda" or x.device != w.device:
        raise ValueError("x and w must be on the same CUDA device")
    y = x.new_empty((x.shape[0], N))
    stream = torch.cuda.current_stream(x.device).cuda_stream
    _load_once(x.device.index).launch(x, w, y, stream)
    return y
