"""Compare the kernel with what else computes the same product, same shape, bits beside times.

python kernel/benchmark/compare_alternatives.py [--device 0] [--repetitions 20] [--json FILE]

Graphs of 100 calls back to back, repetitions in shuffled order, medians in µs a call, weights warm
in L2; M = 2, 4, 8. Other bits: the share of elements that differ on eight draws of cancelling
inputs (M=8). FP64: the relative error on normal inputs. What cannot run is named with its reason.
Exit codes: 0 measured; 3 no CUDA device.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812
from ba_cublaslt import Algorithm, CublasLt
from ba_foreign import Bound, flashinfer_tinygemm, sglang_tiny_gemm

from sm120_ba.gemm import load
from sm120_ba.inputs import CANCELLING, proof_cases
from sm120_ba.proof import differing
from sm120_ba.reference import float64_gemm, frozen_gemm
from sm120_ba.shapes import BY_SIZE, Shape
from sm120_ba.timing import capture, measure

CALLS = 100
ROWS = (2, 4, 8)
SIZES = ((48, 5120), (64, 2048))
PADDED = 9  # rows: the fewest with which 48 x 5120 is past 2²¹

Linear = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Line:
    """What was seen of one alternative; shares and times by M of `ROWS`."""

    name: str
    us: tuple[float, ...]
    from_linear: tuple[float, ...]  # share of elements with other bits
    from_frozen: tuple[float, ...]
    error: float
    rows_agree: bool

    def markdown(self) -> str:
        """One line of the table; a share is a range over M where it varies."""
        us = ", ".join(f"{value:.2f}" for value in self.us)
        shares = " | ".join(map(_share, (self.from_linear, self.from_frozen)))
        depends = "no" if self.rows_agree else "**yes**"
        return f"| {self.name} | {us} | {shares} | {1000 * self.error:.2f}e-3 | {depends} |"


def _share(shares: tuple[float, ...]) -> str:
    low, high = min(shares), max(shares)
    if high == 0:
        return "0"
    texts = dict.fromkeys(f"{100 * value:.3g}" for value in (low, high))
    return " to ".join(texts) + " %"


def fastest(times: dict[int, float], equal: set[int]) -> tuple[int | None, int | None]:
    """The fastest of all candidates, and of those in `equal`; the first of equals, None if none."""
    of_all, of_equal = (
        min(numbers, key=times.__getitem__, default=None)
        for numbers in (times, [number for number in times if number in equal])
    )
    return of_all, of_equal


def _bound(linear: Linear) -> Callable[[Shape, int], Bound]:
    return lambda _shape, _index: lambda w: lambda x: linear(x, w)


def _this_kernel(shape: Shape, index: int) -> Bound:
    kernel = load(index, shape)

    def linear(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = x.new_empty(len(x), shape.n)
        kernel.launch(x, w, y, torch._C._cuda_getCurrentRawStream(index))
        return y

    return lambda w: lambda x: linear(x, w)


def _padded(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.linear(F.pad(x, (0, 0, 0, PADDED - len(x))), w)[: len(x)]


def _padded_before(_shape: Shape, _index: int) -> Bound:
    """As if the layer before had written into a buffer of nine rows: no copy is timed."""
    buffers: dict[int, torch.Tensor] = {}

    def linear(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        if x.data_ptr() not in buffers:
            buffers[x.data_ptr()] = F.pad(x, (0, 0, 0, PADDED - len(x)))
        return F.linear(buffers[x.data_ptr()], w)[: len(x)]

    return lambda w: lambda x: linear(x, w)


def _transposed(_shape: Shape, _index: int) -> Bound:
    def bind(w: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
        wt = w.t().contiguous()
        return lambda x: x @ wt

    return bind


def _max_autotune(_shape: Shape, _index: int) -> Bound:
    torch._dynamo.reset()

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.linear(x, w)

    tuned = torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False)
    return lambda w: lambda x: tuned(x, w)


ALTERNATIVES: dict[str, Callable[[Shape, int], Bound]] = {
    "F.linear": _bound(F.linear),
    "frozen form": _bound(frozen_gemm),
    "this kernel": _this_kernel,
    "F.linear, x padded to 9 rows": _bound(_padded),
    "the same, x in a buffer of 9 rows already": _padded_before,
    "weight transposed beforehand, x @ wt": _transposed,
    "torch.compile, max-autotune": _max_autotune,
    "FlashInfer tinygemm": flashinfer_tinygemm(pdl=False),
    "FlashInfer tinygemm, PDL": flashinfer_tinygemm(pdl=True),
    "SGLang tiny_gemm_bf16 without PDL": sglang_tiny_gemm(pdl=False),
    "SGLang tiny_gemm_bf16 (PDL)": sglang_tiny_gemm(pdl=True),
}


@dataclass(frozen=True)
class Case:
    """Operands with eight rows of x; fewer are a copy of the first ones."""

    x: dict[int, torch.Tensor]
    w: torch.Tensor


class Comparison:
    """The operands of one shape, their references, and what was timed."""

    def __init__(self, shape: Shape, index: int, repetitions: int) -> None:
        self.shape, self.index, self.repetitions = shape, index, repetitions
        cases = proof_cases(shape, max(ROWS), 1, torch.device("cuda", index))
        made = [
            (case.kind, Case({m: case.x[:m].clone() for m in ROWS}, case.w.clone()))
            for case in cases
        ]
        self.cancelling = [case for kind, case in made if kind == CANCELLING]
        self.normal = next(case for kind, case in made if kind == "random")

    def lines(self, bound: dict[str, Bound], own: dict[str, dict[int, Linear]]) -> list[Line]:
        """A line for each; `own` has another function for each M."""
        calls: dict[str, Callable[[int, torch.Tensor], Callable[[torch.Tensor], torch.Tensor]]]
        calls = {name: (lambda _m, w, b=bind: b(w)) for name, bind in bound.items()}
        for name, by_rows in own.items():
            calls[name] = lambda m, w, f=by_rows: lambda x: f[m](x, w)
        timed = {
            (name, m): (self._one(call(m, self.normal.w), self.normal.x[m]), CALLS)
            for name, call in calls.items()
            for m in ROWS
        }
        medians = {key: found.median for key, found in measure(timed, self.repetitions).items()}
        return [self._line(name, call, medians) for name, call in calls.items()]

    def algorithms(self, library: CublasLt) -> tuple[dict[str, dict[int, Linear]], str]:
        """The fastest offer of cuBLASLt for each M, of all and of those with the frozen bits."""
        fast, equal, said = {}, {}, []
        for m in ROWS:
            offers = library.algorithms(m, self.shape.n, self.shape.k)
            runs, refused = self._runs(offers, m)
            timed = {
                number: (
                    self._one(lambda x, f=runs[number]: f(x, self.normal.w), self.normal.x[m]),
                    CALLS,
                )
                for number in runs
            }
            times = {n: found.median for n, found in measure(timed, self.repetitions).items()}
            same = {n for n, run in runs.items() if not self._other(run, m, frozen_gemm)}
            linear = {n for n, run in runs.items() if not self._other(run, m, F.linear)}
            best, ours = fastest(times, same)
            if best is None:
                raise RuntimeError(f"nothing is offered for M={m}")
            fast[m] = runs[best]
            said.append(
                f"M={m}: {len(offers)} offered, {refused} refused, {len(same)} with the frozen bits"
                f", {len(linear)} with F.linear's; fastest {offers[best]}: {times[best]:.2f}"
            )
            if ours is not None:
                equal[m] = runs[ours]
                said[-1] += f"; with the frozen bits {offers[ours]}: {times[ours]:.2f}"
        own = {"cuBLASLt, fastest offer": fast}
        if len(equal) == len(ROWS):
            own["cuBLASLt, fastest offer with our bits"] = equal
        return own, "\n".join(said)

    def _runs(self, offers: list[Algorithm], m: int) -> tuple[dict[int, Linear], int]:
        runs = {}
        for number, offer in enumerate(offers):
            try:
                offer.call(self.normal.x[m], self.normal.w)
            except RuntimeError:
                continue
            runs[number] = offer.call
        torch.cuda.synchronize()
        return runs, len(offers) - len(runs)

    @staticmethod
    def _one(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor):
        return lambda _number: function(x)

    def _other(self, run: Linear, m: int, reference: Linear) -> float:
        pairs = [(run(c.x[m], c.w), reference(c.x[m], c.w)) for c in self.cancelling]
        return float(torch.stack([differing(*pair) for pair in pairs]).float().mean())

    def _line(self, name: str, call, medians: dict[tuple[str, int], float]) -> Line:
        shares = [
            tuple(self._other(lambda x, w, m=m: call(m, w)(x), m, reference) for m in ROWS)
            for reference in (F.linear, frozen_gemm)
        ]
        exact = float64_gemm(self.normal.x[8], self.normal.w)
        found = call(8, self.normal.w)(self.normal.x[8])
        error = float((found.double() - exact).norm() / exact.norm())
        firsts = [[call(m, case.w)(case.x[m])[:2] for m in ROWS] for case in self.cancelling]
        agree = not any(bool(differing(y, ys[0]).any()) for ys in firsts for y in ys[1:])
        us = tuple(medians[name, m] for m in ROWS)
        return Line(name, us, shares[0], shares[1], error, agree)


def _tried(
    make: Callable[[Shape, int], Bound], shape: Shape, index: int, case: Case
) -> Bound | str:
    """An alternative that runs for every M, in a graph too, or why it does not."""
    try:
        bound = make(shape, index)
        linear = bound(case.w)
        for m in ROWS:
            capture(lambda _number, x=case.x[m]: linear(x), 1).replay()
        torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001 (whatever a third party raises is the reason)
        return (str(error) or type(error).__name__).splitlines()[0]
    return bound


def compare(shape: Shape, index: int, repetitions: int) -> list[Line]:
    """Measure one shape and print its table, then what could not run and why."""
    comparison = Comparison(shape, index, repetitions)
    bound, skipped, own = {}, {}, {}
    for name, make in ALTERNATIVES.items():
        found = _tried(make, shape, index, comparison.normal)
        if isinstance(found, str):
            skipped[name] = found
        else:
            bound[name] = found
    said = ""
    try:
        library = CublasLt(index)
        own, said = comparison.algorithms(library)
        said = f"cuBLASLt {library.version}\n{said}"
    except (OSError, RuntimeError) as error:
        skipped["cuBLASLt"] = str(error)
    lines = comparison.lines(bound, own)
    print(
        f"\n| {shape} | µs, M = {', '.join(map(str, ROWS))} | other bits than F.linear |"
        " than the frozen form | error to FP64 | row's bits depend on M |"
    )
    print("|---|--:|--:|--:|--:|---|")
    print("\n".join(line.markdown() for line in lines))
    print(
        "\n".join([said, *(f"not run: {name}: {why}" for name, why in skipped.items())]), flush=True
    )
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", type=int, default=0, help="CUDA device (0)")
    parser.add_argument("--repetitions", type=int, default=20, help="replays (20)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure")
    arguments = parser.parse_args()
    if not torch.cuda.is_available() or torch.version.cuda is None:
        print("No CUDA device: nothing to measure.", file=sys.stderr)
        return 3
    torch.cuda.set_device(arguments.device)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    found = {
        str(BY_SIZE[size]): compare(BY_SIZE[size], arguments.device, arguments.repetitions)
        for size in SIZES
    }
    if arguments.json:
        data = {shape: [asdict(line) for line in lines] for shape, lines in found.items()}
        arguments.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
