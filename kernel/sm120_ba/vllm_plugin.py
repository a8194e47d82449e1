"""vLLM plugin (entry-point group `vllm.general_plugins`): enabled by the variable of SGLang's.

Written after vLLM's sources and tested on stand-ins: **not verified in vLLM**. With the flag off,
`register` does nothing: no hook, and no import beyond the standard library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sm120_ba import config

_FITS = "_sm120_ba_fits"


def register() -> None:
    """Wrap vLLM's unquantized linear layers if the flag is on; vLLM may call this several times.

    Raises ValueError, naming the variable, where its value is none of those that it may have.
    """
    if not config.flag_is_on():
        return
    from vllm.model_executor.layers.linear import UnquantizedLinearMethod

    if hasattr(UnquantizedLinearMethod, _FITS):
        return
    setattr(UnquantizedLinearMethod, _FITS, False)
    # Decided when a weight is loaded: here no process may touch CUDA, which vLLM forks after.
    config.reset()
    method: Any = UnquantizedLinearMethod
    method.process_weights_after_loading = _wrap_loaded(method.process_weights_after_loading)
    method.apply = _wrap_apply(method.apply)


def _wrap_loaded(original: Callable[..., None]) -> Callable[..., None]:
    def process_weights_after_loading(self: Any, layer: Any, *args: Any, **kwargs: Any) -> None:
        original(self, layer, *args, **kwargs)
        setattr(layer, _FITS, _fits(layer))

    return process_weights_after_loading


def _fits(layer: Any) -> bool:
    """Whether calls of the layer may take the kernel, which is then proved for its size."""
    from sm120_ba import layers_seen
    from sm120_ba.linear_method import is_ba_layer

    name: Any = getattr(layer, "prefix", None)
    if not is_ba_layer(name):
        return False
    if config.current() is config.NOT_INITIALIZED:
        from vllm import envs

        config.initialize(batch_invariant=getattr(envs, "VLLM_BATCH_INVARIANT", None) or None)
        layers_seen.start()
    seen = layers_seen.current()
    return config.current().enabled and seen.see(name, layer.weight, None, warm=True)


def _wrap_apply(original: Callable[..., Any]) -> Callable[..., Any]:
    from torch.compiler import is_compiling

    from sm120_ba.dispatch import try_linear
    from sm120_ba.op import compiled_linear

    def apply(self: Any, layer: Any, x: Any, bias: Any = None) -> Any:
        """The kernel's product for a layer that fits; else, and where a guard fails, vLLM's."""
        if not getattr(layer, _FITS, False):
            return original(self, layer, x, bias)
        if is_compiling():
            return compiled_linear(x, layer.weight, bias)
        y = try_linear(x, layer.weight, bias)
        return original(self, layer, x, bias) if y is None else y

    return apply
