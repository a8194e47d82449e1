"""What a proof is about beside the kernel: the GPU and the libraries, named for its keys."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from sm120_ba.guards import library_state

# Read by cuBLAS and by torch when they make a workspace, which can change the algorithm.
VARIABLES = ("CUBLAS_WORKSPACE_CONFIG", "CUBLASLT_WORKSPACE_SIZE")


def identity(index: int) -> dict[str, str]:
    """CUDA device `index`, its driver, torch, cuBLAS and Triton, and their settings, as text."""
    return _installed(index) | library_settings()


@cache
def _installed(index: int) -> dict[str, str]:
    properties = torch.cuda.get_device_properties(index)
    return {
        "device": properties.name,
        "uuid": str(properties.uuid),
        "multiprocessors": str(properties.multi_processor_count),
        "driver": _driver(),
        "torch": str(torch.__version__),
        "cublas": cublas_version(),
        "triton": _package("triton"),
    }


def library_settings() -> dict[str, str]:
    """What can be set in torch and in the environment, and may change the bits of `F.linear`."""
    (reduced, split_k), tunable_op = library_state()
    settings = {
        "allow_bf16_reduced_precision_reduction": str(reduced),
        "allow_bf16_reduced_precision_reduction_split_k": str(split_k),
        "tunable_op": str(tunable_op),
        "preferred_blas_library": str(torch._C._get_blas_preferred_backend()),
    }
    return settings | {name: os.environ.get(name, "unset") for name in VARIABLES}


def _package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _driver() -> str:
    """The kernel driver's version."""
    try:
        return Path("/sys/module/nvidia/version").read_text().strip()
    except OSError:
        return f"unknown, torch for CUDA {torch.version.cuda}"


def cublas_version(maps: Path = Path("/proc/self/maps")) -> str:
    """The versions of the cuBLAS libraries that this process has loaded, else torch's CUDA version.

    The package's metadata would name what is installed, not what LD_LIBRARY_PATH chose.
    """
    try:
        lines = maps.read_text().splitlines()
    except OSError:
        lines = []
    loaded = {line.split(maxsplit=5)[-1] for line in lines if "/libcublas" in line}
    found = [text for path in sorted(loaded) if (text := _library_version(path))]
    return ", ".join(found) or f"of torch for CUDA {torch.version.cuda}"


def _library_version(path: str) -> str | None:
    """`libcublas 13.1.0` or `libcublasLt 13.1.0`, by the library's own answer."""
    name = Path(path).name.partition(".so")[0]
    function = {"libcublas": "cublasGetProperty", "libcublasLt": "cublasLtGetProperty"}.get(name)
    if function is None:
        return None
    try:
        ask = getattr(ctypes.CDLL(path), function)
    except (OSError, AttributeError):
        return None
    numbers = []
    for part in range(3):  # major, minor, patch: libraryPropertyType
        value = ctypes.c_int()
        if ask(part, ctypes.byref(value)):
            return None
        numbers.append(str(value.value))
    return f"{name} {'.'.join(numbers)}"
