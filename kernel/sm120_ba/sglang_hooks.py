"""What the SGLang plugin hooks in: the projection, and the initialization that decides about it.

Importing this module imports torch, and no part of SGLang.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch

from sm120_ba import config
from sm120_ba.linear_method import is_ba_layer, try_apply

logger = logging.getLogger(__name__)


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
    return original(method, layer, x, bias) if y is None else y


def after_initialize(result: None, *_args: Any, **_kwargs: Any) -> None:
    """Decide with the server's options and log one line; `result` stays what SGLang returned.

    An SGLang whose options cannot be read, or name a backend that is new, stays as it is.
    """
    try:
        backend, deterministic = _server_options()
        decision = config.initialize(backend=backend, deterministic=deterministic)
    except (ImportError, AttributeError, ValueError) as error:
        decision = config.disable(f"the options of this SGLang are not understood: {error}")
    if decision.enabled:
        logger.info(
            "sm120_ba: enabled for layers named in_proj_ba with a BF16 weight of 48 x 5120 and 2 "
            "to 8 tokens; everything else runs as before (%s)",
            decision.reason,
        )
    else:
        logger.info("sm120_ba: not enabled for any layer: %s", decision.reason)
    return result


def _server_options() -> tuple[str, bool]:
    """SGLang's BF16 GEMM backend as chosen, and whether inference must be deterministic."""
    from sglang.srt import runtime_context
    from sglang.srt.layers.quantization import unquant

    backend = unquant.get_bf16_gemm_backend().value
    if not runtime_context.get_context().is_config_namespace_published("exec"):
        return backend, False
    execution = runtime_context.get_exec()
    return backend, bool(execution.deterministic.enable_deterministic_inference)
