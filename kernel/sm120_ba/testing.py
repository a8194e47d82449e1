"""A runtime without a GPU, so that tests see which branch the dispatcher took.

And a proof that looks at nothing, for tests of launches on GPUs where `F.linear` has other bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch

from sm120_ba.dispatch import Dispatcher
from sm120_ba.proof import RowProof, prove
from sm120_ba.proof_store import Store
from sm120_ba.runtime import Call, Gemm, Runtime, Times
from sm120_ba.shapes import Shape


class RecordingGemm:
    """Stands in for the loaded kernel: y = x · wᵀ on any device, and a list of the launches."""

    digest = "torch.mm"

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
    """`capturing` plays a graph capture; `failure` is raised instead of loading the kernel.

    `times` are those of the kernel and of F.linear in a proof, None where there are no graphs.
    """

    capturing: bool = False
    failure: Exception | None = None
    stream: int = 7
    loads: list[int] = field(default_factory=list)
    gemm: RecordingGemm = field(default_factory=RecordingGemm)
    times: Times | None = (1.0, 2.0)
    settings: dict[str, str] = field(default_factory=dict)

    def is_capturing(self, index: int) -> bool:  # noqa: ARG002
        """Whatever the test set."""
        return self.capturing

    def current_stream(self, index: int) -> int:  # noqa: ARG002
        """Whatever the test set."""
        return self.stream

    def load(self, index: int, shape: Shape) -> RecordingGemm:  # noqa: ARG002
        """Note the load, then fail or hand out the one RecordingGemm."""
        self.loads.append(index)
        if self.failure is not None:
            raise self.failure
        return self.gemm

    def identity(self, index: int) -> dict[str, str]:
        """A played device, and whatever the test set."""
        return {"device": f"played {index}", **self.settings}

    def undisturbed(self, index: int) -> AbstractContextManager[None]:  # noqa: ARG002
        """Nothing is to be restored."""
        return nullcontext()

    def time_pair(self, index: int, first: Call, second: Call) -> Times | None:  # noqa: ARG002
        """Whatever the test set."""
        return self.times


def trust(
    runtime: Runtime,  # noqa: ARG001
    device: torch.device,  # noqa: ARG001
    index: int,  # noqa: ARG001
    shape: Shape,  # noqa: ARG001
    gemm: Gemm,  # noqa: ARG001
    rows: Iterable[int],
) -> dict[int, RowProof]:
    """A prover that takes every M for proved."""
    return dict.fromkeys(rows, RowProof({"unseen": 0}, {"unseen": 1}, 1.0, 1.0, 2.0))


def trusting_dispatcher(runtime: Runtime | None = None) -> Dispatcher:
    """A dispatcher that takes every device for a 12.0, and its kernel for proved."""
    return Dispatcher(lambda _device: (12, 0), runtime, trust, Store(None))


_proved: dict[tuple[Shape, int], RowProof] = {}


def prove_once(
    runtime: Runtime,
    device: torch.device,
    index: int,
    shape: Shape,
    gemm: Gemm,
    rows: Iterable[int],
) -> dict[int, RowProof]:
    """`prove`, whose answers about an ordinary RecordingGemm on the CPU serve all dispatchers."""
    wanted = list(rows)
    if type(gemm) is not RecordingGemm or device.type != "cpu":
        return prove(runtime, device, index, shape, gemm, wanted)
    missing = [m for m in wanted if (shape, m) not in _proved]
    if missing:
        found = prove(RecordingRuntime(), device, index, shape, RecordingGemm(), missing)
        _proved.update({(shape, m): row for m, row in found.items()})
    return {m: _proved[shape, m] for m in wanted}


def fake_dispatcher(
    capability: tuple[int, int] | None = (12, 0),
    runtime: RecordingRuntime | None = None,
    *,
    warm: bool = True,
) -> tuple[Dispatcher, RecordingRuntime]:
    """A dispatcher that takes every device, the CPU too, for a GPU of `capability`.

    Where `warm`, it has been warmed up for the CPU, and the runtime has forgotten that.
    """
    runtime = runtime or RecordingRuntime()
    dispatcher = Dispatcher(lambda _device: capability, runtime, prove_once, Store(None))
    if warm:
        dispatcher.warmup("cpu")
        runtime.loads.clear()
        runtime.gemm.rows.clear()
        runtime.gemm.streams.clear()
    return dispatcher, runtime
