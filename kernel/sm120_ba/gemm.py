"""y[M,N] = x[M,K] · w[N,K]ᵀ in BF16, FP32 sums over K in ascending order, for the table's shapes.

When it is chosen: `sm120_ba.dispatch` decides. Here are the loader and the ungated launcher: they
check nothing about the device beyond whether Triton compiles for it. Importing this module needs
neither torch nor Triton.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING

from sm120_ba.cuda_driver import DriverError, Function, load_function
from sm120_ba.shapes import ALIGNMENT, BY_SIZE, COLUMNS, SM120_SHAPE, Shape

if TYPE_CHECKING:
    import torch

# Of the one shape that the proposal has.
N, K = SM120_SHAPE.n, SM120_SHAPE.k
M_MIN, M_MAX = SM120_SHAPE.rows[0], SM120_SHAPE.rows[-1]


class GemmUnavailable(RuntimeError):  # noqa: N818 (a state, not a mistake)
    """The kernel cannot be compiled or loaded on this machine; the message says why."""


@dataclass(frozen=True)
class LoadedGemm:
    """The kernel of one shape, loaded on one CUDA device and kept for the life of the process.

    `digest` is the SHA-256 of its machine code.
    """

    device_index: int
    function: Function
    current_device: Callable[[], int]
    digest: str

    def launch(self, x: torch.Tensor, w: torch.Tensor, y: torch.Tensor, stream: int) -> None:
        """Queue y = x · wᵀ on `stream` (a raw handle) of this device; checks no argument.

        x BF16 (M, K), M >= 2, w BF16 (N, K), y BF16 (M, N): contiguous, 16-byte aligned, on this
        device. The current device stays as it was. Raises DriverError.
        """
        if self.current_device() == self.device_index:
            self.function.launch(x.data_ptr(), w.data_ptr(), y.data_ptr(), x.shape[0], stream)
            return
        import torch

        with torch.cuda.device(self.device_index):
            self.function.launch(x.data_ptr(), w.data_ptr(), y.data_ptr(), x.shape[0], stream)


def load(device_index: int, shape: Shape = SM120_SHAPE) -> LoadedGemm:
    """Compile for CUDA device `device_index` and load there, without launching.

    Allocates no tensor and leaves the current device as it was. Raises GemmUnavailable where torch
    has no CUDA, Triton is missing or of another release, or the compiler or the driver refuses.
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
        from sm120_ba.compiled import compile_form, kernel_form
    except Exception as error:  # a broken or very old installation raises more than ImportError
        raise GemmUnavailable(f"Triton is missing or too old: {_sentence(error)}") from error
    try:
        kernel = compile_form(kernel_form(shape), 10 * major + minor)
    except Exception as error:  # the compiler raises many kinds
        why = f"Triton cannot compile {shape} for sm_{major}{minor}: {_sentence(error)}"
        raise GemmUnavailable(why) from error
    try:
        function = load_function(
            kernel.asm["cubin"],
            kernel.metadata.name,
            device_index,
            grid=-(-shape.n // COLUMNS),
            threads=32 * kernel.metadata.num_warps,
            shared=kernel.metadata.shared,
        )
    except (DriverError, OSError, AttributeError) as error:  # an old driver lacks functions
        raise GemmUnavailable(f"the CUDA driver cannot load the kernel: {error}") from error
    digest = sha256(kernel.asm["cubin"]).hexdigest()
    return LoadedGemm(device_index, function, torch._C._cuda_getDevice, digest)


def _sentence(error: BaseException) -> str:
    """What went wrong at the bottom, in one line: the compiler's errors quote its source at length.

    Names the installed Triton, since what another release lacks is the usual cause.
    """
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"{lines[-1].strip()} (Triton {_triton_version()}; 3.6 to 3.9 are known to work)"


def _triton_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("triton")
    except PackageNotFoundError:
        return "is not installed"


_load_once = cache(load)


def ba_gemm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """x · wᵀ through the kernel on any CUDA GPU that Triton compiles for; for tests, ungated.

    x BF16 (M, K) and w BF16 (N, K) of the table of shapes, both contiguous and 16-byte aligned on
    one CUDA device; returns BF16 (M, N). Raises ValueError on other inputs and GemmUnavailable.
    """
    import torch

    sizes = f"x is {tuple(x.shape)} and w is {tuple(w.shape)}"
    shape = BY_SIZE.get((w.shape[0], x.shape[1])) if x.dim() == w.dim() == 2 else None
    if shape is None or w.shape[1] != x.shape[1]:
        raise ValueError(f"{sizes}: there is no kernel for that; sm120_ba.shapes has the table")
    if x.shape[0] not in shape.rows:
        raise ValueError(f"{sizes}: the kernel is for {M_MIN} to {shape.m_max} rows of x")
    for tensor in (x, w):
        aligned = tensor.is_contiguous() and not tensor.data_ptr() % ALIGNMENT
        if tensor.dtype != torch.bfloat16 or not aligned:
            raise ValueError("x and w must be contiguous, 16-byte aligned BF16 tensors")
    if x.device.type != "cuda" or x.device != w.device:
        raise ValueError("x and w must be on the same CUDA device")
    y = x.new_empty((x.shape[0], shape.n))
    stream = torch.cuda.current_stream(x.device).cuda_stream
    _load_once(x.device.index, shape).launch(x, w, y, stream)
    return y
