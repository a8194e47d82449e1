"""The kernel behind the interface of SGLang's `UnquantizedLinearMethod`.

Wraps such an object, so that whatever the kernel does not take runs exactly as before: other
layers, explicit backends, other plugins' hooks. Needs no SGLang.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from sm120_ba import config
from sm120_ba.carriers import only_carries
from sm120_ba.dispatch import DEFAULT, Dispatcher
from sm120_ba.shapes import TABLE, Shape

LAYER_NAME = "in_proj_ba"


def is_ba_layer(prefix: object) -> bool:
    """Whether the last component of a dotted layer prefix is exactly `in_proj_ba`."""
    return isinstance(prefix, str) and prefix.rpartition(".")[2] == LAYER_NAME


def why_never(
    weight: torch.Tensor, bias: torch.Tensor | None, shapes: Iterable[Shape] = TABLE
) -> str | None:
    """Why no call of a layer can take one of the kernel's `shapes`, with what the layer has."""
    kind: type = type(weight)
    if kind is not torch.Tensor and kind is not torch.nn.Parameter and not only_carries(kind):
        return f"its weight is a {kind.__name__}, not a plain tensor"
    if bias is not None:
        return f"it has a bias of {tuple(bias.shape)}; the kernel adds none"
    size = tuple(weight.shape)
    if size in [(shape.n, shape.k) for shape in shapes]:
        return None
    has = f"it maps {size[1]} to {size[0]}" if len(size) == 2 else f"its weight is {size}"
    same_width = [str(shape.n) for shape in shapes if size[1:] == (shape.k,)]
    if same_width:
        return f"{has}; from {size[1]} the kernel maps to {', '.join(same_width)}"
    return f"{has}; the kernel maps from {', '.join(sorted({str(shape.k) for shape in shapes}))}"


def try_apply(
    layer: torch.nn.Module,
    x: torch.Tensor,
    bias: torch.Tensor | None,
    dispatcher: Dispatcher = DEFAULT,
) -> torch.Tensor | None:
    """The kernel's x · layer.weightᵀ for an enabled `in_proj_ba` layer, else None."""
    if not config.current().enabled or not is_ba_layer(getattr(layer, "prefix", None)):
        return None
    weight: Any = layer.weight  # a Module's attributes have no types
    return dispatcher.try_linear(x, weight, bias)


class BaLinearMethod:
    """A linear method that tries the kernel for `in_proj_ba` layers and else asks `base`.

    `base` has UnquantizedLinearMethod's `create_weights`, `process_weights_after_loading` and
    `apply(layer, x, bias=None)`; whatever else it has is passed through. `layer.prefix` is the
    dotted name, `layer.weight` BF16 (48, 5120) for the layers that are meant.
    """

    def __init__(self, base: Any, dispatcher: Dispatcher = DEFAULT) -> None:
        self._base = base
        self._dispatcher = dispatcher

    def __getattr__(self, name: str) -> Any:
        # Copying and unpickling look up attributes before __init__ has run.
        if name == "_base":
            raise AttributeError(name)
        return getattr(self._base, name)

    def create_weights(self, layer: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        """Let `base` register the layer's parameters."""
        self._base.create_weights(layer, *args, **kwargs)

    def process_weights_after_loading(self, layer: torch.nn.Module) -> None:
        """Let `base` finish the weights; the kernel converts nothing."""
        self._base.process_weights_after_loading(layer)

    def apply(
        self, layer: torch.nn.Module, x: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        """x · layer.weightᵀ + bias: what `base.apply` gives, through the kernel where allowed."""
        y = try_apply(layer, x, bias, self._dispatcher)
        return self._base.apply(layer, x, bias) if y is None else y
