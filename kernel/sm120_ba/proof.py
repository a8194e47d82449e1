"""The proof, on the device at hand, that the kernel gives the bits of `F.linear` for one shape.

Equality depends on the GPU and on the cuBLAS that is installed, so it is looked at where the kernel
is to run, for each M that is asked for. A proof carries its own control: the same inputs, summed in
another order, have to give other bits, or else equality would say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from sm120_ba.config import Mode
from sm120_ba.inputs import CANCELLING, ProofCase, proof_cases
from sm120_ba.reasons import Reason
from sm120_ba.runtime import Gemm, Runtime
from sm120_ba.shapes import Shape

CONTROL_SHARE = 0.5  # of the elements of cancelling cases must show another order of the sum
FASTER = 0.95  # of F.linear's time, at most, is worth another kernel
_SEED = 1


@dataclass(frozen=True)
class RowProof:
    """What was found for one M; `different` and `compared` count elements by kind of input.

    `control` is the share of the cancelling cases' elements in which K summed in two halves differs
    from F.linear. Times are microseconds a call inside CUDA graphs, medians of interleaved pairs,
    None where they could not be measured.
    """

    different: dict[str, int]
    compared: dict[str, int]
    control: float
    kernel_us: float | None = None
    linear_us: float | None = None

    def share(self, kind: str) -> float:
        """The share of elements of one kind of input in which the kernel differs from F.linear."""
        return self.different[kind] / self.compared[kind]

    @property
    def is_faster(self) -> bool:
        """Whether the measured time, which is never measured again, is worth it."""
        if self.kernel_us is None or self.linear_us is None:
            return False
        return self.kernel_us <= FASTER * self.linear_us

    def refusal(self, mode: Mode) -> Reason | None:
        """Why this M stays with F.linear; a difference that was seen needs no control."""
        if any(self.different.values()):
            return Reason.BITS_DIFFER
        if self.control < CONTROL_SHARE:
            return Reason.NO_POWER
        if mode is Mode.PROVED and not self.is_faster:
            return Reason.NOT_FASTER
        return None


def row_of(data: Mapping[str, Any]) -> RowProof:
    """A row as it was written to JSON. Raises KeyError, TypeError, ValueError or AttributeError."""
    times = (data[name] for name in ("kernel_us", "linear_us"))
    return RowProof(
        {str(kind): int(count) for kind, count in data["different"].items()},
        {str(kind): int(count) for kind, count in data["compared"].items()},
        float(data["control"]),
        *(None if time is None else float(time) for time in times),
    )


Prover = Callable[[Runtime, torch.device, int, Shape, Gemm, Iterable[int]], dict[int, RowProof]]


def prove(
    runtime: Runtime,
    device: torch.device,
    index: int,
    shape: Shape,
    gemm: Gemm,
    rows: Iterable[int],
) -> dict[int, RowProof]:
    """Compare `gemm` with F.linear for each M of `rows`, and time both.

    Runs on the device's current stream, in a few milliseconds an M; leaves no tensor behind and
    draws from no generator but its own. Raises what a launch raises.
    """
    wanted = sorted(set(rows))
    with torch.no_grad(), torch.autocast(device.type, enabled=False):
        cases = proof_cases(shape, wanted[-1], _SEED, device)
        other_order = _in_two_halves([case for case in cases if case.kind == CANCELLING])
        return {m: _prove_rows(runtime, index, gemm, cases, other_order, m) for m in wanted}


def _in_two_halves(cases: list[ProofCase]) -> torch.Tensor:
    """x · wᵀ of each case with K in two FP32 sums that are then added, in BF16 (case, row, N)."""
    x = torch.stack([case.x for case in cases]).float()
    w = torch.stack([case.w for case in cases]).float().transpose(1, 2)
    middle = x.shape[2] // 2
    first = torch.bmm(x[..., :middle], w[:, :middle])
    return (first + torch.bmm(x[..., middle:], w[:, middle:])).bfloat16()


def _prove_rows(
    runtime: Runtime,
    index: int,
    gemm: Gemm,
    cases: list[ProofCase],
    other_order: torch.Tensor,
    m: int,
) -> RowProof:
    stream = runtime.current_stream(index)
    expected = torch.stack([F.linear(case.x[:m], case.w) for case in cases])
    # What the kernel leaves unwritten stays NaN.
    actual = torch.full_like(expected, torch.nan)
    for case, y in zip(cases, actual, strict=True):
        gemm.launch(case.x[:m], case.w, y, stream)
    counts = differing(actual, expected).sum(dim=(1, 2)).tolist()
    cancelling = [case.kind == CANCELLING for case in cases]
    control = differing(other_order[:, :m], expected[cancelling]).float().mean()
    different = dict.fromkeys((case.kind for case in cases), 0)
    compared = dict(different)
    for case, count in zip(cases, counts, strict=True):
        different[case.kind] += count
        compared[case.kind] += expected[0].numel()
    timed = next(case for case in cases if case.kind == "random")
    x, w, y = timed.x[:m], timed.w, actual[0]
    times = runtime.time_pair(
        index,
        lambda: gemm.launch(x, w, y, runtime.current_stream(index)),
        lambda: F.linear(x, w),
    )
    return RowProof(different, compared, control.item(), *(times or (None, None)))


def differing(actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Where two BF16 tensors of one shape differ in a bit; a NaN equals any NaN."""
    same = actual.view(torch.int16) == expected.view(torch.int16)
    return ~(same | (actual.isnan() & expected.isnan()))
