"""The edge to CUDA: what the dispatcher asks of a device, and how it gets the kernel there."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Protocol

import torch

from sm120_ba.shapes import Shape

Capability = tuple[int, int]
Call = Callable[[], object]
Times = tuple[float, float]  # microseconds a call of two calls that were compared

_GRAPH_CALLS = 40
_PAIRS = 9


class Gemm(Protocol):
    """The kernel of one shape, loaded on one device; `digest` names its machine code."""

    @property
    def digest(self) -> str:
        """Of the machine code."""

    def launch(self, x: torch.Tensor, w: torch.Tensor, y: torch.Tensor, stream: int) -> None:
        """Queue y[M,N] = x[M,K] · w[N,K]ᵀ, BF16, on the raw stream handle `stream`."""


class Runtime(Protocol):
    """What the dispatcher needs of the devices; `index` counts the process's CUDA devices."""

    def is_capturing(self, index: int) -> bool:
        """Whether the current stream of that device records a CUDA graph."""

    def current_stream(self, index: int) -> int:
        """The raw handle of that device's current stream."""

    def load(self, index: int, shape: Shape) -> Gemm:
        """Compile and load the kernel there; raises RuntimeError, ImportError or OSError."""

    def identity(self, index: int) -> dict[str, str]:
        """The device and the libraries, as far as either side's bits may depend on them."""

    def undisturbed(self, index: int) -> AbstractContextManager[None]:
        """Within it that device is current; after it memory is as it was before."""

    def time_pair(self, index: int, first: Call, second: Call) -> Times | None:
        """The medians of interleaved graph replays, None where there are no graphs."""


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

    def load(self, index: int, shape: Shape) -> Gemm:
        """Compile and load the kernel there; raises GemmUnavailable."""
        from sm120_ba import gemm

        return gemm.load(index, shape)

    def identity(self, index: int) -> dict[str, str]:
        """The device and the libraries, as far as either side's bits may depend on them."""
        from sm120_ba.machine import identity

        return identity(index)

    @contextmanager
    def undisturbed(self, index: int) -> Iterator[None]:
        """Within it that device is current; after it memory is as it was before.

        cuBLAS gets a workspace (8 to 32 MiB) for each stream that it runs on, which torch keeps.
        Those are given back unless a graph that was captured earlier may still use one.
        """
        if not torch.cuda.is_available():
            yield
            return
        with torch.cuda.device(index):
            torch.cuda.empty_cache()  # else pools of graphs that are gone would count
            before = torch.cuda.memory_allocated(), _graph_pools()
            try:
                yield
            finally:
                torch.cuda.synchronize()
                if torch.cuda.memory_allocated() > before[0] and not before[1]:
                    torch._C._cuda_clearCublasWorkspaces()
                torch.cuda.empty_cache()

    def time_pair(self, index: int, first: Call, second: Call) -> Times | None:
        """The medians of interleaved graph replays of 40 calls, in microseconds a call."""
        with torch.cuda.device(index):
            graphs = [_graph_of(call) for call in (first, second)]
            times: tuple[list[float], list[float]] = ([], [])
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            for number in range(1 + _PAIRS):
                for graph, found in zip(graphs, times, strict=True):
                    start.record()
                    graph.replay()
                    end.record()
                    end.synchronize()
                    # The first replay of each also uploads the graph.
                    if number:
                        found.append(1000 * start.elapsed_time(end) / _GRAPH_CALLS)
            return statistics.median(times[0]), statistics.median(times[1])


def _graph_of(call: Call) -> torch.cuda.CUDAGraph:
    """A graph of many calls, captured on a stream of its own; other threads may go on working."""
    stream = _capture_stream(torch.cuda.current_device())
    stream.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        call()  # a first call may allocate and load, which a capture does not allow
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            for _ in range(_GRAPH_CALLS):
                call()
        finally:
            graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return graph


@cache
def _capture_stream(index: int) -> torch.cuda.Stream:
    """One for all captures: cuBLAS gets a workspace for each stream."""
    return torch.cuda.Stream(index)


def _graph_pools() -> bool:
    """Whether some captured graph holds memory of its own."""
    return any(segment["segment_pool_id"] != (0, 0) for segment in torch.cuda.memory_snapshot())
