"""A runtime without a GPU, so that tests see which branch the dispatcher took."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from sm120_ba.dispatch import Dispatcher


class RecordingGemm:
    """Stands in for the loaded kernel: y = x · wᵀ on any device, and a list of the launches."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.streams: list[int] = []

    def launch(self, x: torch.Tensor, w: torch.Tensor, y: torch.Tensor, stream: int) -> None:
        """Fill y and note the number of rows and the stream."""
        torch.mm(x.detach(), w.detach().t(), out=y)
        self.rows.append(x.shape[0])
        self.streams.append(stream)


@dataclass
class RecordingRuntime:
    """`capturing` plays a graph capture; `failure` is raised instead of loading the kernel."""

    capturing: bool = False
    failure: Exception | None = None
    stream: int = 7
    loads: list[int] = field(default_factory=list)
    gemm: RecordingGemm = field(default_factory=RecordingGemm)

    def is_capturing(self, index: int) -> bool:  # noqa: ARG002
        """Whatever the test set."""
        return self.capturing

    def current_stream(self, index: int) -> int:  # noqa: ARG002
        """Whatever the test set."""
        return self.stream

    def load(self, index: int) -> RecordingGemm:
        """Note the load, then fail or hand out the one RecordingGemm."""
        self.loads.append(index)
        if self.failure is not None:
            raise self.failure
        return self.gemm


def fake_dispatcher(
    capability: tuple[int, int] | None = (12, 0), runtime: RecordingRuntime | None = None
) -> tuple[Dispatcher, RecordingRuntime]:
    """A dispatcher that takes every device, the CPU too, for a GPU of `capability`."""
    runtime = runtime or RecordingRuntime()
    return Dispatcher(lambda _device: capability, runtime), runtime
