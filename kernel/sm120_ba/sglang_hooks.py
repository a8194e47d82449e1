"""What the SGLang plugin hooks in: the projection, and the initialization that decides about it.

Importing this module imports torch, and no part of SGLang.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from sm120_ba import config, layers_seen
from sm120_ba.linear_method import is_ba_layer, try_apply

# The `observe` of a `validate.shadow.Shadow`, which a plugin of yours may set: each result of the
# kernel is then compared with SGLang's own, which nothing else sees.
observe: Callable[..., None] | None = None


def around_apply(
    original: Callable[..., torch.Tensor],
    method: Any,
    layer: torch.nn.Module,
    x: torch.Tensor,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """The kernel for an enabled `in_proj_ba` layer, else `original(method, layer, x, bias)`."""
    if torch.compiler.is_compiling() or not is_ba_layer(getattr(layer, "prefix", None)):
        return original(method, layer, x, bias)
    if config.current() is config.NOT_INITIALIZED:
        # Layers also run in programs that never call SGLang's initialization.
        after_initialize(None)
    y = try_apply(layer, x, bias)
    if config.current().enabled:
        name: Any = layer.prefix  # a Module's attributes have no types
        weight: Any = layer.weight
        layers_seen.current().count(name, x, weight, bias, y is not None)
    if y is None:
        return original(method, layer, x, bias)
    if observe is not None:
        observe(layer.prefix, x, y, lambda: original(method, layer, x, bias))
    return y


def after_loading(result: None, _method: Any, layer: torch.nn.Module, *_: Any, **__: Any) -> None:
    """Prove the kernel for an `in_proj_ba` layer's size once its weight is loaded."""
    if is_ba_layer(getattr(layer, "prefix", None)):
        if config.current() is config.NOT_INITIALIZED:
            after_initialize(None)
        if config.current().enabled:
            name: Any = layer.prefix  # a Module's attributes have no types
            weight: Any = layer.weight
            layers_seen.current().see(name, weight, None, warm=True)
    return result


def after_initialize(result: None, *_args: Any, **_kwargs: Any) -> None:
    """Decide with the server's options and log one line; `result` stays what SGLang returned.

    An SGLang whose options cannot be read, or name a backend that is new, stays as it is.
    """
    try:
        backend, deterministic = _server_options()
        config.initialize(backend=backend, deterministic=deterministic)
    except (ImportError, AttributeError, RuntimeError, ValueError) as error:
        config.disable(f"the options of this SGLang are not understood: {error}")
    layers_seen.start()
    return result


def _server_options() -> tuple[str, bool]:
    """SGLang's BF16 GEMM backend as chosen, and whether inference must be deterministic."""
    from sglang.srt.layers.quantization import unquant

    # 0.5.11 to 0.5.14 have one backend, and no choice of it.
    chosen = getattr(unquant, "get_bf16_gemm_backend", None)
    return "auto" if chosen is None else chosen().value, _deterministic()


def _deterministic() -> bool:
    """Whether inference must be deterministic; no server that was started asks for it."""
    try:
        from sglang.srt import runtime_context

        published = runtime_context.get_context().is_config_namespace_published
    except (ImportError, AttributeError):
        return _older_deterministic()
    if not published("exec"):
        return False
    return bool(runtime_context.get_exec().deterministic.enable_deterministic_inference)


def _older_deterministic() -> bool:
    """The same from the arguments of the server, where they are what options are read from."""
    from sglang.srt import server_args

    try:
        arguments = server_args.get_global_server_args()
    except ValueError:  # none was started
        return False
    return bool(arguments.enable_deterministic_inference)
