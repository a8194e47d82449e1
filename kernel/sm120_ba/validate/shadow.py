"""While one implementation drives the model, each call also computes another on the same input.

The second result goes into memory of its own, is compared bit by bit, and is dropped. What was
found is added up in counters on the device, so that replays of CUDA graphs count too.
"""

from __future__ import annotations

import argparse
import random
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import torch

from sm120_ba import dispatch, layers_seen
from sm120_ba.validate import calls as model_calls
from sm120_ba.validate import models
from sm120_ba.validate.calls import Calls, Layers
from sm120_ba.validate.implementations import Linear, driven_by, implementation
from sm120_ba.validate.ranks import gathered, world
from sm120_ba.validate.report import Failure, Report, Table, deliver, machine
from sm120_ba.validate.ulp import distance, one_step_off

SLOTS = 4096  # paths that the counters of one device have room for, 128 KiB
_CALLS, _ELEMENTS, _DIFFERING, _LARGEST = range(4)
_TIMED = 5
# A graph may be replayed when its Shadow is gone, and goes on writing.
_WRITTEN_BY_GRAPHS: list[torch.Tensor] = []

Add = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]


@dataclass(frozen=True, order=True)
class Live:
    """A live path: a layer's calls with M rows, eager ones or those in CUDA graphs."""

    layer: str
    m: int
    captured: bool

    def __str__(self) -> str:
        return f"{self.layer}, M={self.m}, {'graph' if self.captured else 'eager'}"


@dataclass(frozen=True)
class Compared:
    """What was compared on one path: calls, elements, those with other bits, the largest distance.

    The distance is `ulp.distance`, in steps from one value to the next.
    """

    calls: int
    elements: int
    differing: int
    largest: int


def add_differences(counters: torch.Tensor, y: torch.Tensor, other: torch.Tensor) -> None:
    """Add one call to `counters`: int64 calls, elements, differing and largest distance.

    Only queues work on the device, which a CUDA graph may record. Raises ValueError.
    """
    steps = distance(y, other)
    counters[_CALLS].add_(1)
    counters[_ELEMENTS].add_(steps.numel())
    if steps.numel():
        counters[_DIFFERING].add_((steps > 0).sum())
        torch.maximum(counters[_LARGEST], steps.max(), out=counters[_LARGEST])


class Shadow:
    """Compares results of layers with those of another implementation, and counts by path.

    Of each layer's calls a share of `sample` is compared, chosen by `seed`; a call that a CUDA
    graph holds is chosen once, when it is captured. `failures` are calls that could not be
    compared. Methods may be called from any thread. `prepare` a device before a graph is captured
    on it, or an eager call does.
    """

    def __init__(
        self,
        sample: float = 1.0,
        seed: int = 0,
        capturing: Callable[[], bool] = layers_seen.is_capturing,
        add: Add = add_differences,
    ) -> None:
        self.failures: dict[str, str] = {}
        self.called: Counter[Live] = Counter()  # of the chosen calls, each of a graph once
        self._sample = sample
        self._seed = seed
        self._capturing = capturing
        self._add = add
        self._chance: dict[str, random.Random] = {}
        self._counters: dict[torch.device, torch.Tensor] = {}
        self._slots: dict[Live, tuple[torch.device, int]] = {}
        self._lock = threading.Lock()

    def prepare(self, device: torch.device) -> None:
        """Make the counters of a device. What a graph captured would be zeroed by each replay."""
        with self._lock, torch.inference_mode(False):
            if device not in self._counters:
                self._counters[device] = torch.zeros(SLOTS, 4, dtype=torch.int64, device=device)
                if device.type == "cuda":
                    torch.cuda.synchronize(device)  # other streams add to them

    def observe(
        self, layer: str, x: torch.Tensor, y: torch.Tensor, other: Callable[[], torch.Tensor]
    ) -> None:
        """Compare y, what the model goes on with for x (..., K), with what `other` returns.

        Raises nothing: a call that cannot be compared is a failure of the report. While a graph is
        captured `other` must not wait for the device, as nothing there may.
        """
        if torch.compiler.is_compiling():
            return
        path = Live(layer, x.numel() // x.shape[-1] if x.dim() else 0, self._capturing())
        with self._lock:
            chance = self._chance.setdefault(layer, _chances(self._seed, layer))
            if chance.random() >= self._sample:
                return
            self.called[path] += 1
        before = _version(x)
        try:
            with torch.no_grad():
                self._compare(path, y, other())
        except Exception as error:  # noqa: BLE001 (whatever it raises: the model goes on)
            self._fail(path, f"{type(error).__name__}: {error}")
        if _version(x) != before:
            self._fail(path, "the shadow wrote into the input, which the model goes on with")

    def _compare(self, path: Live, y: torch.Tensor, other: torch.Tensor) -> None:
        if y.numel() and _same_memory(y, other):
            self._fail(path, "both results stand in the same memory, so one replaced the other")
        elif path.captured and y.device not in self._counters:
            self._fail(path, "captured before there were counters: call prepare(device) first")
        else:
            self.prepare(y.device)
            with self._lock:
                device, slot = self._slots.setdefault(path, (y.device, len(self._slots)))
            if slot >= SLOTS:
                self._fail(path, f"there are more than {SLOTS} paths; choose fewer layers")
                return
            counters = self._counters[device]
            if path.captured and not any(kept is counters for kept in _WRITTEN_BY_GRAPHS):
                _WRITTEN_BY_GRAPHS.append(counters)
            self._add(counters[slot], y, other)

    def _fail(self, path: Live, what: str) -> None:
        self.failures.setdefault(str(path), what)

    def compared(self) -> dict[Live, Compared]:
        """What was found so far, which waits for the devices."""
        with self._lock:
            slots = sorted(self._slots.items(), key=lambda item: item[0])
        for device in self._counters:
            if device.type == "cuda":
                torch.cuda.synchronize(device)
        read = {device: one.tolist() for device, one in list(self._counters.items())}
        return {
            path: Compared(*read[device][slot]) for path, (device, slot) in slots if slot < SLOTS
        }


def _chances(seed: int, layer: str) -> random.Random:
    return random.Random(f"{seed} {layer}")  # noqa: S311 (to choose calls)


def _version(x: torch.Tensor) -> int:
    """How often torch wrote into x; tensors of inference mode do not know it."""
    return 0 if x.is_inference() else int(x._version)


def _same_memory(y: torch.Tensor, other: torch.Tensor) -> bool:
    return bool(y.untyped_storage().data_ptr() == other.untyped_storage().data_ptr())


@contextmanager
def shadowed(layers: Layers, drive: Linear, other: Linear, watch: Shadow) -> Iterator[Shadow]:
    """Within, `drive` computes the layers and `other` their shadows, which `watch` compares."""

    def linear(name: str, _layer: torch.nn.Linear) -> Linear:
        def call(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
            y = drive(x, weight, bias)
            watch.observe(name, x, y, lambda: other(x, weight, bias))
            return y

        return call

    for device in {layer.weight.device for layer in layers.values()}:
        watch.prepare(device)
    with driven_by(layers, linear):
        yield watch


def shadow(
    model: torch.nn.Module,
    drive: str = "sm120_ba",
    other: str = "torch",
    *,
    layers: Sequence[str] | None = None,
    sample: float = 1.0,
    seed: int = 0,
) -> AbstractContextManager[Shadow]:
    """`with shadow(model, sample=0.01) as watch:` around what a server does; then `report(watch)`.

    `drive` and `other` are names of implementations, warmed up before; `layers` are globs. Graphs
    that are captured within keep their shadows. Raises UsageError.
    """
    chosen = model_calls.chosen(model, layers)
    pair = implementation(drive).linear, implementation(other).linear
    return shadowed(chosen, *pair, Shadow(sample, seed))


@dataclass(frozen=True)
class Outcome:
    """What one rank found; `void` says why its self-test lets nothing be concluded.

    `idle`: one of the two is the dispatcher, and it never took the kernel, so that nothing of it
    was compared.
    """

    rank: int
    compared: Mapping[Live, Compared]
    failures: Mapping[str, str]
    void: str | None = None
    note: str | None = None
    cost: tuple[tuple[Any, ...], ...] = ()
    self_tested: int = 0
    idle: bool = False


def report(
    outcomes: Sequence[Outcome] | Shadow,
    settings: Mapping[str, Any] | None = None,
    device: str = "cpu",
) -> Report:
    """The report of all ranks, or of a Shadow that watched a server; `compared` are elements."""
    if isinstance(outcomes, Shadow):
        outcomes = [Outcome(layers_seen.rank() or 0, outcomes.compared(), outcomes.failures)]
    notes = [f"Rank {one.rank}: {one.note}" for one in outcomes if one.note]
    tested = sum(one.self_tested for one in outcomes)
    notes.append(
        f"Self-test before the run: on each of {tested} live paths a clean shadow differed "
        "nowhere, and one element that was one step off was seen."
        if tested
        else "No self-test was run here."
    )
    voids = [f"rank {one.rank}: {one.void}" for one in outcomes if one.void]
    tables = [_table(outcomes)]
    if any(one.cost for one in outcomes):
        columns = ("rank", "M", "where", "without shadow, ms", "with, ms", "ratio")
        rows = ((one.rank, *row) for one in outcomes for row in one.cost)
        tables.append(Table("What the shadow costs", columns, tuple(rows)))
        notes.append(
            f"Times are medians of {_TIMED} interleaved pairs of a pass of this model, whose share "
            "of these layers is its own: they say nothing of another model."
        )
    return Report(
        "shadow",
        sum(found.elements for one in outcomes if not one.idle for found in one.compared.values()),
        settings or {},
        tables=tuple(tables),
        failures=tuple(_failures(outcomes)),
        notes=tuple(notes),
        void="; ".join(voids) or None,
        details={"ranks": [_as_json(one) for one in outcomes]},
        machine=machine(device),
    )


def _table(outcomes: Sequence[Outcome]) -> Table:
    columns = ("rank", "layer", "M", "where", "calls", "elements", "differing", "largest, steps")
    rows = (
        (one.rank, path.layer, path.m, "graph" if path.captured else "eager", *astuple(found))
        for one in outcomes
        for path, found in one.compared.items()
    )
    return Table("Paths", columns, tuple(rows))


def _failures(outcomes: Sequence[Outcome]) -> Iterator[Failure]:
    for one in outcomes:
        for path, found in one.compared.items():
            if found.differing:
                yield Failure(
                    f"rank {one.rank}: {path}",
                    f"{found.differing} of {found.elements} elements differ, by up to "
                    f"{found.largest} steps",
                )
        for where, what in one.failures.items():
            yield Failure(f"rank {one.rank}: {where}", what)


def _as_json(one: Outcome) -> dict[str, Any]:
    paths = [{**asdict(path), **asdict(found)} for path, found in one.compared.items()]
    return {"rank": one.rank, "paths": paths, "void": one.void, "self_tested": one.self_tested}


@dataclass(frozen=True)
class Tried:
    """One half of a self-test: what was called and what was counted, by path."""

    called: Mapping[Live, int]
    compared: Mapping[Live, Compared]
    failures: Mapping[str, str]


def void_reason(
    expected: Sequence[Live], replays: int, clean: Tried, corrupted: Tried
) -> str | None:
    """Why a run with such a self-test says nothing, None where it may.

    Every expected path must have been compared at each call (each captured one at each of
    `replays`), without a difference by the clean shadow, with one element in each by the other.
    """
    for name, half in (("clean", clean), ("corrupted", corrupted)):
        if half.failures:
            where, what = next(iter(half.failures.items()))
            return f"the {name} shadow could not be compared: {where}: {what}"
        for path in expected:
            wanted = half.called.get(path, 0) * (replays if path.captured else 1)
            found = half.compared.get(path, Compared(0, 0, 0, 0))
            if not wanted or found.calls != wanted:
                return f"the {name} shadow was compared in {found.calls} of {wanted} calls: {path}"
            if name == "clean" and found.differing:
                return (
                    f"a clean shadow differs in {found.differing} elements, so what drives the "
                    f"model does not repeat its own bits: {path}"
                )
            if name == "corrupted" and (found.differing != wanted or not found.largest):
                return (
                    f"one element a call was one step off, and {found.differing} of {wanted} were "
                    f"seen: {path}"
                )
    return None if expected else "no layer was called"


def one_off(linear: Linear) -> Linear:
    """The same with one element of each result one step off."""

    def off(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        return one_step_off(linear(x, weight, bias))

    return off


def self_test(
    model: torch.nn.Module, layers: Layers, calls: Calls, drive: Linear, add: Add = add_differences
) -> tuple[str | None, int]:
    """Why a run would be void, if it would, and the number of live paths that were tried."""
    halves = []
    for other in (drive, one_off(drive)):
        with shadowed(layers, drive, other, Shadow(add=add)) as watch:
            graphs = model_calls.make(model, layers, calls)
        halves.append(Tried(watch.called, watch.compared(), watch.failures))
    expected = [
        Live(name, m, captured)
        for name in layers
        for m in calls.rows
        for captured in ((False, True) if graphs else (False,))
    ]
    return void_reason(expected, calls.steps, *halves), len(expected)


def compare(
    model: torch.nn.Module,
    layers: Layers,
    calls: Calls,
    drive: Linear,
    other: Linear,
    sample: float = 1.0,
    rank: int = 0,
    kernel: bool = False,
) -> Outcome:
    """Test the shadow itself, then compare the calls and time what that costs.

    `kernel`: one of the two is the dispatcher, which must take the kernel for anything to be said.
    """
    void, tested = self_test(model, layers, calls, drive)
    if void is not None:
        return Outcome(rank, {}, {}, void)
    before = dispatch.stats()
    with shadowed(layers, drive, other, Shadow(sample, calls.seed)) as watch:
        graphs = model_calls.make(model, layers, calls)
    after = dispatch.stats()
    none = Compared(0, 0, 0, 0)  # a path of which the sample has no call
    found = {
        Live(name, m, captured): none
        for name in layers
        for m in calls.rows
        for captured in ((False, True) if graphs else (False,))
    } | watch.compared()
    cost = tuple(costs(model, layers, calls, drive, other, sample))
    idle = kernel and after.fast == before.fast
    note = kernel_note(before, after)
    return Outcome(rank, found, watch.failures, None, note, cost, tested, idle)


def kernel_note(before: dispatch.Stats, after: dispatch.Stats) -> str:
    """How many of the dispatcher's calls between two counts took the kernel, as a sentence."""
    fast = after.fast - before.fast
    fallback = {r.name: n - before.fallback.get(r, 0) for r, n in after.fallback.items()}
    others = ", ".join(f"{n} {name}" for name, n in fallback.items() if n)
    counts = f"sm120_ba took the kernel in {fast} calls, each of a graph counted once"
    rest = f"; F.linear in the others: {others}." if others else "."
    return counts + rest + ("" if fast else " So nothing here says anything about the kernel.")


def costs(
    model: torch.nn.Module,
    layers: Layers,
    calls: Calls,
    drive: Linear,
    other: Linear,
    sample: float,
) -> Iterator[tuple[Any, ...]]:
    """M, where, milliseconds of a pass without and with the shadow, and their ratio."""
    device = next(iter(layers.values())).weight.device
    m = calls.rows[-1]
    ids = model_calls.token_ids(model, m, calls.seed, device)
    watch = Shadow(sample, calls.seed)
    arms = (
        lambda: driven_by(layers, lambda _name, _layer: drive),
        lambda: shadowed(layers, drive, other, watch),
    )
    with torch.no_grad(), model_calls.current(device):
        yield (m, "eager", *_ratio([_eager(arm, model, ids) for arm in arms], device))
        if model_calls.has_graphs(calls, device):
            inputs = model_calls.inputs_of(model, layers, ids)
            graphs = []
            for arm in arms:
                with arm():
                    graphs.append(model_calls.Captured(model, layers, calls.graph, ids, inputs))
            yield (m, "graph", *_ratio([one.graph.replay for one in graphs], device))


def _eager(
    arm: Callable[[], AbstractContextManager[Any]], model: torch.nn.Module, ids: torch.Tensor
) -> Callable[[], None]:
    def call() -> None:
        with arm():
            model(ids)

    return call


def _ratio(arms: Sequence[Callable[[], None]], device: torch.device) -> tuple[float, float, float]:
    times: tuple[list[float], ...] = ([], [])
    for number in range(1 + _TIMED):
        for call, found in zip(arms, times, strict=True):
            start = time.perf_counter()
            call()
            if device.type == "cuda":
                torch.cuda.synchronize()
            if number:  # the first of each is not warm
                found.append(1000 * (time.perf_counter() - start))
    without, with_it = map(statistics.median, times)
    return without, with_it, with_it / without


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    model_calls.add_arguments(parser)
    model_calls.add_graph(parser)
    model_calls.add_arms(parser)
    parser.add_argument(
        "--drive",
        choices=("candidate", "baseline"),
        default="candidate",
        help="whose results the model goes on with (default: candidate)",
    )
    parser.add_argument(
        "--sample", type=share, default=1.0, help="share of the calls to compare (default: 1)"
    )
    parser.add_argument("--report", type=Path, metavar="FILE.json", help="write it, and FILE.md")


def share(text: str) -> float:
    """A number above 0 and up to 1."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share, above 0 and up to 1")
    return found


def run(arguments: argparse.Namespace) -> int:
    """Compare in each rank; 1 where a bit differs or the self-test fails."""
    here = world()
    device = str(model_calls.device_of(here.device(arguments.device)))
    model = models.load(arguments.model, device)
    layers = model_calls.chosen(model, arguments.layers)
    calls = model_calls.of(arguments)
    arms = {arm: implementation(getattr(arguments, arm)) for arm in ("baseline", "candidate")}
    for arm in arms.values():
        arm.prepare(layers, arguments.mode)
    kernel = any(arm.answers for arm in arms.values())
    drive = arms.pop(arguments.drive)
    (other,) = arms.values()
    outcome = compare(
        model, layers, calls, drive.linear, other.linear, arguments.sample, here.rank, kernel
    )
    settings = {
        "model": arguments.model,
        "baseline": arguments.baseline,
        "candidate": arguments.candidate,
        "drive": arguments.drive,
        "rows": list(calls.rows),
        "steps": calls.steps,
        "sample": arguments.sample,
        "seed": calls.seed,
        "mode": arguments.mode,
        "graph": calls.graph,
        "device": device,
        "ranks": here.size,
    }
    found = report(gathered(outcome, here), settings, device)
    return deliver(found, arguments.report) if here.rank == 0 else found.status
