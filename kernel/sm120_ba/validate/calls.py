"""The calls that an audit or a shadow looks at: a model at each M, eagerly and in CUDA graphs."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from sm120_ba.validate import implementations, models
from sm120_ba.validate.commands import UsageError

LARGEST_M = 2**20  # so that a slip of the hand does not take all memory
GRAPHS = ("layers", "model", "none")
Layers = dict[str, torch.nn.Linear]
Inputs = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Calls:
    """For each M of `rows`, `steps` passes of `seed`'s token ids (M, 1).

    On CUDA they are then repeated as replays of a graph that was captured once an M: of the chosen
    `layers` on what they got in the eager passes, of the whole `model`, or of `none`.
    """

    rows: tuple[int, ...]
    steps: int = 2
    graph: str = "layers"
    seed: int = 0


def add_arguments(parser: argparse.ArgumentParser, *, model_required: bool = True) -> None:
    """The options that say which model is called, where and how often."""
    parser.add_argument("--model", required=model_required, help=models.HELP)
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda or cuda:N")
    parser.add_argument(
        "--layers",
        action="append",
        metavar="GLOB",
        help=f"dotted names, may be repeated (default: {', '.join(implementations.LAYERS)})",
    )
    parser.add_argument(
        "--rows", type=rows, default=(1, 2, 4, 8), help="M as in 1,2-8 (default: 1,2,4,8)"
    )
    parser.add_argument("--steps", type=positive, default=2, help="passes an M (default: 2)")
    parser.add_argument("--seed", type=int, default=0, help="of the token ids (default: 0)")


def add_arms(parser: argparse.ArgumentParser) -> None:
    """The options that name two implementations, and how the dispatcher is warmed up."""
    parser.add_argument(
        "--baseline", default="torch", help=f"{implementations.HELP} (default: torch)"
    )
    parser.add_argument("--candidate", default="sm120_ba", help="likewise (default: sm120_ba)")
    parser.add_argument(
        "--mode", choices=("1", "proved"), default="1", help="of the warm-up (default: 1)"
    )


def add_graph(parser: argparse.ArgumentParser) -> None:
    """The option that says what is captured on CUDA."""
    parser.add_argument(
        "--graph",
        choices=GRAPHS,
        default=GRAPHS[0],
        help="what a CUDA graph has: the chosen layers (default), the whole model, or no graphs",
    )


def of(arguments: argparse.Namespace) -> Calls:
    """The calls that the options ask for."""
    return Calls(arguments.rows, arguments.steps, arguments.graph, arguments.seed)


def rows(text: str) -> tuple[int, ...]:
    """`1,2-4` as (1, 2, 3, 4), each once and in order."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        try:
            span = range(int(first), int(last if dash else first) + 1)
        except ValueError:
            span = range(0)
        if not span or span[0] < 1 or span[-1] > LARGEST_M:
            raise argparse.ArgumentTypeError(
                f"{text!r} is no list of M from 1 to {LARGEST_M}, such as 1,2-8"
            )
        found |= set(span)
    return tuple(sorted(found))


def positive(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def chosen(model: torch.nn.Module, patterns: Sequence[str] | None) -> Layers:
    """The layers that match, which are some. Raises UsageError."""
    wanted = tuple(patterns or implementations.LAYERS)
    layers = implementations.chosen_layers(model, wanted)
    if not layers:
        linears = [n for n, m in model.named_modules() if isinstance(m, torch.nn.Linear)]
        raise UsageError(
            f"--layers {' '.join(wanted)}: no nn.Linear of the model has such a name; it has "
            f"{', '.join(linears[:5]) or 'none at all'}"
        )
    return layers


def device_of(name: str) -> torch.device:
    """The device, which is there. Raises UsageError."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"--device {name}: {str(error).splitlines()[0]}") from None
    if device.type == "cuda":
        there = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= there:
            raise UsageError(f"--device {name}: this machine has {there} CUDA devices; try cpu")
    elif device.type != "cpu":
        raise UsageError(f"--device {name}: only cpu and cuda are compared")
    return device


def make(model: torch.nn.Module, layers: Layers, calls: Calls) -> dict[int, Counter[str]]:
    """Make the calls; the kernels in each M's graph by name, none where there are no graphs.

    Raises UsageError where the model cannot be captured.
    """
    device = next(iter(layers.values())).weight.device
    graphs: dict[int, Counter[str]] = {}
    with torch.no_grad(), current(device):
        for m in calls.rows:
            ids = [token_ids(model, m, calls.seed + step, device) for step in range(calls.steps)]
            inputs = [inputs_of(model, layers, one) for one in ids]
            if has_graphs(calls, device):
                graphs[m] = _replayed(
                    Captured(model, layers, calls.graph, ids[0], inputs[0]), ids, inputs
                )
    return graphs


def has_graphs(calls: Calls, device: torch.device) -> bool:
    """Whether the calls are repeated in graphs there."""
    return device.type == "cuda" and calls.graph != "none"


def token_ids(model: torch.nn.Module, m: int, seed: int, device: torch.device) -> torch.Tensor:
    """(M, 1) ids that the model's first embedding has. Raises UsageError."""
    embeddings = (one for one in model.modules() if isinstance(one, torch.nn.Embedding))
    first = next(embeddings, None)
    if first is None:
        raise UsageError("the model has no nn.Embedding, so it cannot be given token ids")
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(first.num_embeddings, (m, 1), generator=generator).to(device)


def inputs_of(model: torch.nn.Module, layers: Layers, ids: torch.Tensor) -> Inputs:
    """Call the model; a copy of what each layer got, the last time that it was called."""
    found: Inputs = {}

    def note(name: str) -> Callable[..., None]:
        return lambda _layer, given, named: found.update(
            {name: implementations.input_of(given, named).clone()}
        )

    hooks = [
        layer.register_forward_pre_hook(note(name), with_kwargs=True)
        for name, layer in layers.items()
    ]
    try:
        model(ids)
    finally:
        for hook in hooks:
            hook.remove()
    return found


class Captured:
    """A CUDA graph of the chosen layers, or of the whole model, whose inputs can be exchanged.

    Raises UsageError where the model cannot be captured.
    """

    def __init__(
        self, model: torch.nn.Module, layers: Layers, scope: str, ids: torch.Tensor, inputs: Inputs
    ) -> None:
        place, static = ids.clone(), {name: x.clone() for name, x in inputs.items()}

        def call() -> None:
            if scope == "model":
                model(place)
            else:
                for name, x in static.items():
                    layers[name](x)

        self._place, self._static = place, static
        self.graph = _graph_of(call, scope)

    def replay(self, ids: torch.Tensor, inputs: Inputs) -> None:
        """Queue one replay on these values."""
        self._place.copy_(ids)
        for name, x in self._static.items():
            x.copy_(inputs[name])
        self.graph.replay()


def _replayed(captured: Captured, ids: list[torch.Tensor], inputs: list[Inputs]) -> Counter[str]:
    """Replay on each step's values; the kernels of the graph by name."""
    from sm120_ba.graph_audit import kernel_names

    for one, values in zip(ids, inputs, strict=True):
        captured.replay(one, values)
    torch.cuda.synchronize()
    return Counter(kernel_names(captured.graph))


def _graph_of(call: Callable[[], None], scope: str) -> torch.cuda.CUDAGraph:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()  # a first call may allocate and load, which a capture does not allow
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    try:
        with torch.cuda.graph(graph, stream=stream):
            call()
    except RuntimeError as error:
        if scope != "model":
            raise
        raise UsageError(
            f"--graph model: this model cannot be captured ({str(error).splitlines()[0]}); "
            "--graph layers captures the chosen layers alone"
        ) from error
    return graph


@contextmanager
def current(device: torch.device) -> Iterator[None]:
    """Within it a CUDA device is the current one; at the end its work is done."""
    if device.type != "cuda":
        yield
        return
    with torch.cuda.device(device):
        yield
        torch.cuda.synchronize()
