"""Time the BA projection against its alternatives, with the numerics beside every time.

python kernel/benchmark/benchmark_sm120_ba_gemm.py --device 0 [--json FILE] [--plot FILE.svg]

Graphs of 100 calls, 20 repetitions in shuffled order. Warm: one weight, in L2. Cold: as many
weights as twice the L2 holds, in turn, so that each call reads its own from device memory; x stays
warm, as after the layer before. The JSON is in the form that `runci perf measure` reads.
Exit codes: 0 measured; 2 wrong use, or not the device that was asked for; 3 nothing to measure.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812

GRAPH_CALLS = 100


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line; ends the process with code 2 on wrong use, before anything is measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", type=int, default=0, metavar="INDEX", help="CUDA device (0)")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write every sample, for `runci perf measure`"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="plot the warm medians")
    parser.add_argument("--repetitions", type=int, default=20, metavar="N", help="replays (20)")
    parser.add_argument("--only", action="append", metavar="NAME", help="providers (all)")
    parser.add_argument("--expect-sm120", action="store_true", help="fail on any other device")
    arguments = parser.parse_args(argv)
    if arguments.repetitions < 2:
        parser.error("--repetitions must be at least 2: one sample has no spread")
    for path in (arguments.json, arguments.plot):
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            parser.error(f"cannot write {path}: it is a folder, or in none")
    if arguments.plot and find_spec("matplotlib") is None:
        parser.error("--plot needs matplotlib, which is not installed")
    return arguments


def progress(done: int, total: int) -> None:
    """A bar on the terminal, none in a log."""
    if sys.stderr.isatty():
        bar = "#" * (40 * done // total)
        end = "\n" if done == total else ""
        print(f"\r[{bar:<40}] {done}/{total}", end=end, file=sys.stderr, flush=True)


def make_providers(device_index: int, only: list[str] | None, skipped: dict[str, str]):
    """Yield (provider, function), and note why the others cannot run."""
    from ba_providers import PROVIDERS

    from sm120_ba.inputs import random_operands

    for provider in PROVIDERS:
        if only and provider.name not in only:
            continue
        try:
            function = provider.make(device_index)
            function(*random_operands(max(2, provider.first_rows), 0, "cuda"))
            torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001 (whatever a third party raises is the reason)
            skipped[provider.name] = (str(error) or type(error).__name__).splitlines()[0]
        else:
            yield provider, function


def compare(function, x: torch.Tensor, w: torch.Tensor):
    """One provider's result against F.linear, the frozen form and FP64."""
    from ba_report import Numerics

    from sm120_ba.reference import float64_gemm, frozen_gemm, same_bits, ulp_distance

    y, exact, frozen = function(x, w), float64_gemm(x, w), frozen_gemm(x, w)
    error = float((y.double() - exact).norm() / exact.norm())
    equal = same_bits(y, F.linear(x, w)), same_bits(y, frozen)
    return Numerics(*equal, ulp_distance(y, frozen), error)


def run(arguments: argparse.Namespace):
    """Measure everything; returns the Results."""
    from ba_providers import ROWS
    from ba_report import Results, clocks, machine

    from sm120_ba.gemm import K, N
    from sm120_ba.inputs import random_operands
    from sm120_ba.timing import cpu_cost, measure

    results = Results(machine(arguments.device))
    w = random_operands(8, 0, "cuda")[1]
    copies = max(GRAPH_CALLS, -(-2 * results.machine["l2_bytes"] // (2 * N * K)))
    weights = w.repeat(copies, 1, 1)
    cases = {}
    for provider, function in make_providers(arguments.device, arguments.only, results.skipped):
        for rows in ROWS:
            if rows < provider.first_rows:
                continue
            x = random_operands(rows, rows, "cuda")[0]
            if not provider.is_floor:
                results.numerics[provider.name, rows] = compare(function, x, w)
                cold = lambda i, f=function, x=x: f(x, weights[i])  # noqa: E731
                cases[provider.name, rows, "cold"] = (cold, copies)
            warm = lambda _i, f=function, x=x: f(x, w)  # noqa: E731
            cases[provider.name, rows, "warm"] = (warm, GRAPH_CALLS)
        if provider.name in ("F.linear", "this kernel", "this kernel, dispatched"):
            x = random_operands(4, 4, "cuda")[0]
            results.cpu_cost[provider.name] = cpu_cost(lambda f=function, x=x: f(x, w))
    results.samples = measure(cases, arguments.repetitions, progress=progress)
    results.machine["clocks_after"] = clocks(arguments.device)
    return results


def main(argv: list[str] | None = None) -> int:
    """Measure and report; returns the exit code."""
    arguments = parse(argv)
    if not torch.cuda.is_available() or torch.version.cuda is None:
        print("No CUDA device: nothing to measure.", file=sys.stderr)
        return 3
    if not 0 <= arguments.device < torch.cuda.device_count():
        print(f"There is no CUDA device {arguments.device}.", file=sys.stderr)
        return 2
    if find_spec("triton") is None:
        print("Triton is not installed: nothing to measure.", file=sys.stderr)
        return 3
    torch.cuda.set_device(arguments.device)
    capability = torch.cuda.get_device_capability()
    if arguments.expect_sm120 and capability != (12, 0):
        print(f"Device {arguments.device} is {capability}, not SM120 (12, 0).", file=sys.stderr)
        return 2
    import ba_json
    import ba_providers
    import ba_report

    names = [provider.name for provider in ba_providers.PROVIDERS]
    if unknown := sorted(set(arguments.only or ()) - set(names)):
        print(
            f"Not a provider: {', '.join(unknown)}. There are: {', '.join(names)}.", file=sys.stderr
        )
        return 2
    results = run(arguments)
    if not results.samples:
        print(f"No provider runs here: {results.skipped}", file=sys.stderr)
        return 3
    print(ba_report.text(results))
    if arguments.json:
        ba_json.write_json(results, arguments.json)
    if arguments.plot:
        ba_report.write_plot(results, arguments.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
