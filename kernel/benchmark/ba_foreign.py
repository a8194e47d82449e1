"""Small-N kernels of FlashInfer and SGLang, built with nvcc from the sources in their packages.

Neither package is imported: what is needed is its folder on the path, `apache-tvm-ffi` and nvcc.
FlashInfer: flashinfer/data/csrc/tinygemm2.cu and data/include. SGLang: sglang/kernels/jit. Both
are built with programmatic dependent launch (`pdl`) and without: between calls back to back it
hides a part of each launch that it does not hide in a model (NOTES.md, steps 20 and 21).
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp

import torch

from sm120_ba.shapes import Shape

Bound = Callable[[torch.Tensor], Callable[[torch.Tensor], torch.Tensor]]

SGLANG_MAX_M = 16  # the default of its tiny_gemm_bf16


class Missing(Exception):  # noqa: N818 (not an error)
    """Something that a foreign kernel needs is not here; the message says what."""


def n_split(n: int, k: int, sm_count: int, max_m: int = SGLANG_MAX_M) -> int:
    """The columns a block that SGLang's tiny_gemm_bf16 takes by default, for N < K.

    The fewest that divide N and put all blocks on the GPU at once, else the most.
    """
    fitting = [d for d in range(1, min(n, k // 16 // max_m) + 1) if n % d == 0]
    return next((d for d in fitting if n // d <= sm_count), fitting[-1])


def flashinfer_tinygemm(pdl: bool) -> Callable[[Shape, int], Bound]:
    """FlashInfer's tinygemm_bf16 without a bias (N a multiple of 16)."""

    def make(_shape: Shape, index: int) -> Bound:
        data = _folder("flashinfer") / "data"
        source = f'#include "{data}/csrc/tinygemm2.cu"\n'
        module = _built(source, index, (data / "csrc", data / "include"))

        def linear(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            y = x.new_empty(len(x), len(w))
            module.tinygemm2_nobias_op(x, w, y, pdl)
            return y

        return lambda w: lambda x: linear(x, w)

    return make


def sglang_tiny_gemm(pdl: bool) -> Callable[[Shape, int], Bound]:
    """SGLang's tiny_gemm_bf16 with its default split of N; SGLang itself builds it with PDL."""

    def make(shape: Shape, index: int) -> Bound:
        jit = _folder("sglang") / "kernels" / "jit"
        split = n_split(
            shape.n, shape.k, torch.cuda.get_device_properties(index).multi_processor_count
        )
        sizes = f"{shape.n}, {shape.k}, {SGLANG_MAX_M}, {split}"
        kernel = f"sglang::TinyNGemmKernel<{sizes}, sglang::bf16_t, {str(pdl).lower()}>::run"
        source = (
            f'#include "{jit}/csrc/gemm/tiny_gemm.cuh"\n#include <tvm/ffi/function.h>\n'
            f"TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, ({kernel}));\n"
        )
        module = _built(source, index, (jit / "include",))

        def linear(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            y = x.new_empty(len(x), len(w))
            module.run(x, w, y)
            return y

        return lambda w: lambda x: linear(x, w)

    return make


def _folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise Missing(f"{package} is not on the path")
    return Path(next(iter(spec.submodule_search_locations)))


@cache
def _built(source: str, index: int, includes: tuple[Path, ...]):
    """The module of a CUDA source, compiled for that device. Raises Missing with nvcc's words."""
    try:
        import tvm_ffi
        from tvm_ffi import libinfo
    except ImportError as error:
        raise Missing(f"apache-tvm-ffi: {error}") from error
    major, minor = torch.cuda.get_device_capability(index)
    folder = Path(mkdtemp(prefix="sm120_ba_"))
    file, library = folder / "kernel.cu", folder / "kernel.so"
    file.write_text(source)
    paths = [
        *includes,
        Path(libinfo.find_include_path()),
        Path(libinfo.find_dlpack_include_path()),
    ]
    command = [
        "nvcc",
        "-O3",
        "-std=c++20",
        "-shared",
        "-Xcompiler",
        "-fPIC",
        "--expt-relaxed-constexpr",
    ]
    target = f"{major}{minor}" + "a" * (major >= 9)  # older GPUs have no such targets
    command += [f"-gencode=arch=compute_{target},code=sm_{target}"]
    command += [f"-DSGL_CUDA_ARCH={100 * major + 10 * minor}"]
    command += [f"-I{path}" for path in paths] + [str(file), "-o", str(library)]
    core = Path(libinfo.find_libtvm_ffi())
    command += [f"-L{core.parent}", "-ltvm_ffi", f"-Xlinker=-rpath={core.parent}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Missing(f"nvcc cannot be started: {error}") from error
    if done.returncode:
        raise Missing(f"nvcc refuses: {(done.stderr or done.stdout).strip().splitlines()[0]}")
    # The libraries name no driver, which has no fixed place to link against.
    ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
    return tvm_ffi.load_module(str(library))
