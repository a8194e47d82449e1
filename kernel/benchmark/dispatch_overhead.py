"""What the dispatcher costs on the CPU a call, in microseconds.

`python kernel/benchmark/dispatch_overhead.py` needs no GPU: it times the guards of every kind of
fallback with F.linear replaced by an empty function, so that only what is added is left.
`--device 0` also times eager calls on that GPU: F.linear, the kernel behind the dispatcher (whose
capability query is told that the GPU is a 12.0), and the two interleaved with a fallback.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import torch
import torch.nn.functional as F  # noqa: N812

from sm120_ba.dispatch import Dispatcher
from sm120_ba.gemm import K, N
from sm120_ba.testing import RecordingRuntime, trusting_dispatcher

CALLS = 500
REPETITIONS = 100

Call = Callable[[], object]


class NoLaunch:
    """Stands in for the kernel where only the dispatcher is timed."""

    digest = "none"

    def launch(self, x: torch.Tensor, w: torch.Tensor, y: torch.Tensor, stream: int) -> None:
        pass


def microseconds(call: Call, device: torch.device) -> float:
    """One sample: this thread's CPU time to issue CALLS calls, the GPU idle before.

    Other processes on the machine do not count, and a full launch queue does: CALLS stays below it.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.thread_time()
    for _ in range(CALLS):
        call()
    return (time.thread_time() - start) / CALLS * 1e6


def measure(calls: dict[str, Call], device: torch.device) -> dict[str, list[float]]:
    """REPETITIONS samples of each call, in shuffled order."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        microseconds(call, device)
    order = list(calls) * REPETITIONS
    random.Random(0).shuffle(order)
    for name in order:
        samples[name].append(microseconds(calls[name], device))
    return samples


def guard_calls(device: torch.device) -> dict[str, Call]:
    """One call for each depth in the chain of guards, and the call that passes them all."""
    runtime = RecordingRuntime(gemm=NoLaunch())
    sm120 = trusting_dispatcher(runtime)
    sm120.warmup(device)
    hopper = Dispatcher(lambda _device: (9, 0), runtime)

    def tensor(*shape: int) -> torch.Tensor:
        return torch.zeros(shape, dtype=torch.bfloat16, device=device)

    x, one, many, weight, bias = tensor(4, K), tensor(1, K), tensor(64, K), tensor(N, K), tensor(N)
    strided, grad = tensor(4, K + 8)[:, :K], tensor(N, K).requires_grad_(True)
    misaligned, negated = tensor(4 * K + 1)[1:].view(4, K), torch._neg_view(x)
    return {
        "F.linear alone (empty)": lambda: F.linear(x, weight),
        "bias": lambda: sm120.linear(x, weight, bias),
        "another GPU": lambda: hopper.linear(x, weight),
        "one row": lambda: sm120.linear(one, weight),
        "64 rows": lambda: sm120.linear(many, weight),
        "requires grad": lambda: sm120.linear(x, grad),
        "strides": lambda: sm120.linear(strided, weight),
        "alignment": lambda: sm120.linear(misaligned, weight),
        "wrapped": lambda: sm120.linear(negated, weight),
        "all guards, no launch": lambda: sm120.linear(x, weight),
    }


def measure_guards(device: torch.device) -> dict[str, list[float]]:
    """Samples with F.linear replaced by an empty function."""
    calls = guard_calls(device)
    passing = calls["all guards, no launch"]
    with mock.patch.object(F, "linear", lambda _x, _weight, _bias=None: None):
        samples = measure(calls, device)
        torch.use_deterministic_algorithms(True)
        samples |= measure({"deterministic algorithms": passing}, device)
        torch.use_deterministic_algorithms(False)
        torch.set_autocast_enabled("cuda", True)
        samples |= measure({"autocast": passing}, device)
        torch.set_autocast_enabled("cuda", False)
    return samples


def measure_gpu(device: torch.device) -> dict[str, list[float]]:
    """Samples of real eager calls on a GPU."""
    dispatcher = trusting_dispatcher()
    x = torch.zeros((4, K), dtype=torch.bfloat16, device=device)
    one, weight = x[:1], torch.zeros((N, K), dtype=torch.bfloat16, device=device)
    reason = dispatcher.warmup(device) or dispatcher.why_not(x, weight)
    if reason is not None:
        raise SystemExit(f"the kernel does not run here: {reason.sentence}")
    return measure(
        {
            "F.linear, M=4": lambda: F.linear(x, weight),
            "kernel through the dispatcher, M=4": lambda: dispatcher.linear(x, weight),
            "F.linear, M=1": lambda: F.linear(one, weight),
            "fallback through the dispatcher, M=1": lambda: dispatcher.linear(one, weight),
        },
        device,
    )


def show(title: str, samples: dict[str, list[float]], base: str) -> None:
    """Print median, fastest and difference of the medians to `base`."""
    print(f"\n{title}\n{'':<38}{'median':>9}{'fastest':>9}{'added':>9}")
    zero = statistics.median(samples[base])
    for name, values in samples.items():
        median = statistics.median(values)
        print(f"{name:<38}{median:>9.2f}{min(values):>9.2f}{median - zero:>9.2f}")


def main() -> int:
    """Measure, print, and write every sample to --json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", type=int, help="also time eager calls on this CUDA device")
    parser.add_argument("--json", type=Path, help="write every sample here")
    arguments = parser.parse_args()
    if arguments.device is not None and arguments.device not in range(torch.cuda.device_count()):
        parser.error(f"there is no CUDA device {arguments.device}")
    torch.set_num_threads(1)
    cpu = torch.device("cpu")
    results = {"guards": measure_guards(cpu)}
    show("CPU time a call, us, F.linear empty", results["guards"], "F.linear alone (empty)")
    if arguments.device is not None:
        device = torch.device("cuda", arguments.device)
        results["gpu"] = measure_gpu(device)
        name = torch.cuda.get_device_name(device)
        show(f"CPU time to issue an eager call, us, {name}", results["gpu"], "F.linear, M=4")
    if arguments.json:
        arguments.json.write_text(json.dumps({"torch": torch.__version__, "us": results}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
