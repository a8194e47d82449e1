"""Time every shape of the table against F.linear and against its own chain of MMAs without loads.

python kernel/benchmark/shapes_over_chain.py [--device 0] [--repetitions 20]

Graphs of 100 calls, repetitions in shuffled order, medians in µs a call, weights warm in L2. Bits:
the kernel's against the frozen form's for every M, and the share of elements in which F.linear
differs from it on cancelling inputs. Exit codes: 0 measured; 1 other bits than the frozen form's;
3 no CUDA device.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import ba_kernels
import torch
import torch.nn.functional as F  # noqa: N812
from ba_providers import loaded

from sm120_ba.compiled import KernelForm
from sm120_ba.gemm import load
from sm120_ba.inputs import CANCELLING, proof_cases
from sm120_ba.proof import differing
from sm120_ba.reference import frozen_gemm
from sm120_ba.shapes import TABLE, Shape
from sm120_ba.timing import measure

CALLS = 100


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", type=int, default=0, help="CUDA device (0)")
    parser.add_argument("--repetitions", type=int, default=20, help="replays (20)")
    arguments = parser.parse_args()
    if not torch.cuda.is_available() or torch.version.cuda is None:
        print("No CUDA device: nothing to measure.", file=sys.stderr)
        return 3
    torch.cuda.set_device(arguments.device)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    print(
        f"{'N x K':<11}{'M':>3}{'F.linear':>10}{'kernel':>8}{'chain':>8}{'above':>7}"
        f"{'other bits':>12}"
    )
    wrong = [shape for shape in TABLE if not show(shape, arguments.device, arguments.repetitions)]
    print("\n".join(f"{shape}: other bits than the frozen form's" for shape in wrong))
    return 1 if wrong else 0


def show(shape: Shape, index: int, repetitions: int) -> bool:
    """Print a line for some M of a shape; whether all M have the frozen form's bits."""
    kernel = load(index, shape)
    chain_form = KernelForm(ba_kernels.chain_kernel, {"N": shape.n, "K": shape.k}, warps=1)
    chain = loaded(chain_form, shape.grid(2)[0], index)
    stream = torch._C._cuda_getCurrentRawStream
    cases = proof_cases(shape, shape.m_max, 1, torch.device("cuda", index))
    w = cases[0].w
    equal, share, calls = True, {}, {}
    for m in shape.rows:
        x = cases[0].x[:m]
        y, scratch = x.new_empty(m, shape.n), x.new_empty(m, shape.n)
        for case in cases:
            kernel.launch(case.x[:m], case.w, y, stream(index))
            equal &= not bool(differing(y, frozen_gemm(case.x[:m], case.w)).any())
            if case.kind == CANCELLING:
                share[m] = float(differing(y, F.linear(case.x[:m], case.w)).float().mean())
        calls["F.linear", m] = lambda _i, x=x: F.linear(x, w)
        calls["kernel", m] = lambda _i, x=x, y=y: kernel.launch(x, w, y, stream(index))
        calls["chain", m] = lambda _i, x=x, y=scratch: chain.launch(
            x.data_ptr(), w.data_ptr(), y.data_ptr(), len(x), stream(index)
        )
    shown = sorted({2, min(8, shape.m_max), shape.m_max})
    wanted: dict[tuple[str, int], tuple[Callable[[int], object], int]] = {
        key: (call, CALLS) for key, call in calls.items() if key[1] in shown
    }
    medians = {key: samples.median for key, samples in measure(wanted, repetitions).items()}
    for m in shown:
        linear, ours, floor = (medians[name, m] for name in ("F.linear", "kernel", "chain"))
        print(
            f"{shape!s:<11}{m:>3}{linear:>10.2f}{ours:>8.2f}{floor:>8.2f}{ours - floor:>7.2f}"
            f"{share[m]:>12.1%}",
            flush=True,
        )
    return equal


if __name__ == "__main__":
    sys.exit(main())
