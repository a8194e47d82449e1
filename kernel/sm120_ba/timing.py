"""Time small kernels by replaying CUDA graphs, all cases interleaved in shuffled order.

A graph of many calls leaves the launch gaps of the GPU in and those of the CPU out. Shuffling
spreads a clock change over every case instead of giving it to one.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import torch

Key = TypeVar("Key", bound=Hashable)
Call = Callable[[int], object]  # gets the number of the call within the graph


@dataclass(frozen=True)
class Samples:
    """Microseconds a call, one value a graph replay, in the order in which they were measured."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle value."""
        return statistics.median(self.values)

    @property
    def spread(self) -> tuple[float, float]:
        """The 10th and 90th percentile, linearly interpolated."""
        deciles = statistics.quantiles(self.values, n=10, method="inclusive")
        return deciles[0], deciles[-1]


def capture(call: Call, calls: int) -> torch.cuda.CUDAGraph:
    """A graph of `call(0) ... call(calls - 1)`, which runs once eagerly before the capture."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call(0)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for number in range(calls):
            call(number)
    return graph


def measure(
    cases: Mapping[Key, tuple[Call, int]],
    repetitions: int = 20,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> dict[Key, Samples]:
    """Samples of each case, a callable and its calls a graph, on the current device.

    Every graph is replayed once untimed, then `repetitions` times timed with CUDA events.
    """
    graphs = {name: (capture(call, calls), calls) for name, (call, calls) in cases.items()}
    for graph, _ in graphs.values():
        graph.replay()
    torch.cuda.synchronize()
    order = list(graphs) * repetitions
    random.Random(seed).shuffle(order)  # noqa: S311
    values: dict[Key, list[float]] = {name: [] for name in graphs}
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for done, name in enumerate(order):
        graph, calls = graphs[name]
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        values[name].append(1000 * start.elapsed_time(end) / calls)
        progress(done + 1, len(order))
    return {name: Samples(tuple(samples)) for name, samples in values.items()}


def cpu_cost(call: Callable[[], object], calls: int = 300, repetitions: int = 9) -> float:
    """Microseconds of CPU time that one asynchronous call takes: the median of repetitions."""
    costs = []
    for _ in range(repetitions):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        costs.append(1e6 * (time.perf_counter() - start) / calls)
    torch.cuda.synchronize()
    return statistics.median(costs)
