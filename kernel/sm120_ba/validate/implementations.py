"""Implementations of a linear layer by name, and models whose layers run one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from sm120_ba.validate.commands import UsageError
from sm120_ba.validate.models import named_function

HELP = (
    "torch (F.linear), split_k (two halves of K, each rounded before they are added: what other "
    "bits look like), sm120_ba (the dispatcher, warmed up), or MODULE:FUNCTION(x, weight, bias)"
)
LAYERS = ("*.in_proj_ba", "*.in_proj_b", "*.in_proj_a")

Linear = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None], torch.Tensor]


@dataclass(frozen=True)
class Implementation:
    """A function of x (..., K), weight (N, K) and bias (N) or None, and what it is called.

    `prepare(layers, mode)` is called once after the weights are there and before anything runs.
    `answers()` counts who answered the calls of this process so far, where more than one may: the
    `kernel`, or a fallback by its reason.
    """

    name: str
    linear: Linear
    prepare: Callable[[dict[str, torch.nn.Linear], str], None] = lambda _layers, _mode: None
    answers: Callable[[], Counter[str]] | None = None


def implementation(name: str) -> Implementation:
    """The implementation of that name. Raises UsageError."""
    if name == "torch":
        return Implementation(name, F.linear)
    if name == "split_k":
        return Implementation(name, _split_k)
    if name == "sm120_ba":
        from sm120_ba.huggingface import flattened_linear

        return Implementation(name, flattened_linear, _warm_up, answers=_answers)
    if ":" in name:
        return Implementation(name, named_function(name))
    raise UsageError(f"{name!r} is no implementation: {HELP}")


def chosen_layers(
    model: torch.nn.Module, patterns: tuple[str, ...] = LAYERS
) -> dict[str, torch.nn.Linear]:
    """The plain `nn.Linear` modules whose dotted name matches one of the patterns.

    Raises UsageError for one that computes something else than x · weightᵀ + bias.
    """
    found = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear)
        and any(fnmatchcase(name, pattern) for pattern in patterns)
    }
    for name, layer in found.items():
        if type(layer).forward is not torch.nn.Linear.forward:
            raise UsageError(
                f"{name}: {type(layer).__name__} has a forward of its own, which no implementation "
                "here replaces; leave it out by --layers"
            )
    return found


def input_of(given: tuple[Any, ...], named: Mapping[str, Any]) -> torch.Tensor:
    """What a layer was called with, as a hook gets it."""
    found: torch.Tensor = given[0] if given else named["input"]
    return found


@contextmanager
def driven_by(
    layers: dict[str, torch.nn.Linear], linear: Callable[[str, torch.nn.Linear], Linear]
) -> Iterator[None]:
    """Within, each layer's forward is what `linear(name, layer)` gives; afterwards as before."""
    for name, layer in layers.items():
        if "forward" in vars(layer):
            raise UsageError(f"{name}: its forward was already replaced by something else")
    try:
        for name, layer in layers.items():
            vars(layer)["forward"] = _bound(layer, linear(name, layer))
        yield
    finally:
        for layer in layers.values():
            vars(layer).pop("forward", None)


def _split_k(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    half = weight.shape[1] // 2
    first = F.linear(x[..., :half], weight[:, :half], bias)
    return first + F.linear(x[..., half:], weight[:, half:])


def _bound(layer: torch.nn.Linear, linear: Linear) -> Callable[[torch.Tensor], torch.Tensor]:
    def forward(input: torch.Tensor) -> torch.Tensor:  # noqa: A002 (as nn.Linear's)
        return linear(input, layer.weight, layer.bias)

    return forward


def _warm_up(layers: dict[str, torch.nn.Linear], mode: str) -> None:
    """Prove the kernel for the sizes of the layers, on each device that they are on."""
    from sm120_ba.dispatch import warmup

    sizes: dict[torch.device, set[tuple[int, ...]]] = {}
    for layer in layers.values():
        sizes.setdefault(layer.weight.device, set()).add(tuple(layer.weight.shape))
    for device, shapes in sizes.items():
        warmup(device, shapes=sorted(shapes), mode=mode)


def _answers() -> Counter[str]:
    from sm120_ba.dispatch import stats

    found = stats()
    fallback = {reason.name: count for reason, count in found.fallback.items()}
    return Counter({"kernel": found.fast}) + Counter(fallback)
