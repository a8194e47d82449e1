"""The edge to CUDA: what the dispatcher asks of a device, and how it gets the kernel there."""

from __future__ import annotations

from typing import Protocol

import torch

Capability = tuple[int, int]


class Gemm(Protocol):
    """A kernel that is loaded on one device."""

    def launch(self, x: torch.Tensor, w: torch.Tensor, y: torch.Tensor, stream: int) -> None:
        """Queue y[M,48] = x[M,5120] · w[48,5120]ᵀ, BF16, on the raw stream handle `stream`."""


class Runtime(Protocol):
    """What the dispatcher needs of the devices; `index` counts the process's CUDA devices."""

    def is_capturing(self, index: int) -> bool:
        """Whether the current stream of that device records a CUDA graph."""

    def current_stream(self, index: int) -> int:
        """The raw handle of that device's current stream."""

    def load(self, index: int) -> Gemm:
        """Compile and load the kernel there; raises RuntimeError, ImportError or OSError."""


def cuda_capability(device: torch.device) -> Capability | None:
    """The compute capability (major, minor) of an NVIDIA GPU, None for any other device.

    Asks CUDA only about CUDA devices. ROCm also calls its devices "cuda" and has a 12.0.
    """
    if device.type != "cuda" or torch.version.cuda is None:
        return None
    capability: Capability = torch.cuda.get_device_capability(device)
    return capability


class CudaRuntime:
    """The real one, on torch.cuda and `sm120_ba.gemm`."""

    def is_capturing(self, index: int) -> bool:
        """Whether the current stream of that device records a CUDA graph."""
        if not torch.cuda.is_available():
            return False
        with torch.cuda.device(index):
            return bool(torch.cuda.is_current_stream_capturing())

    def current_stream(self, index: int) -> int:
        """The raw handle of that device's current stream."""
        stream: int = torch._C._cuda_getCurrentRawStream(index)
        return stream

    def load(self, index: int) -> Gemm:
        """Compile and load the kernel there; raises GemmUnavailable."""
        from sm120_ba import gemm

        return gemm.load(index)
