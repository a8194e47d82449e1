"""SGLang plugin (entry-point group `sglang.srt.plugins`): one environment variable enables it.

With SGLANG_ENABLE_SM120_BA_GEMM off, `register` does nothing: no hook, and no import beyond the
standard library. With it on, it registers what is in `sglang_hooks`.
"""

from __future__ import annotations

from sm120_ba import config

_UNQUANT = "sglang.srt.layers.quantization.unquant"
APPLY = f"{_UNQUANT}.UnquantizedLinearMethod.apply"
LOADED = f"{_UNQUANT}.UnquantizedLinearMethod.process_weights_after_loading"
INITIALIZE = f"{_UNQUANT}.initialize_bf16_gemm_config"


def register() -> None:
    """Register the hooks if the flag is on; SGLang calls this once in each of its processes.

    Raises ValueError, naming the variable, where its value is neither true nor false.
    """
    if not config.flag_is_on():
        return
    from sglang.srt.plugins import hook_registry

    from sm120_ba import sglang_hooks

    # The server's options are not known yet, so an earlier decision is void.
    config.reset()
    registry, kinds = hook_registry.HookRegistry, hook_registry.HookType
    registry.register(APPLY, sglang_hooks.around_apply, kinds.AROUND)
    registry.register(LOADED, sglang_hooks.after_loading, kinds.AFTER)
    if _exists(INITIALIZE):
        registry.register(INITIALIZE, sglang_hooks.after_initialize, kinds.AFTER)


def _exists(target: str) -> bool:
    """Whether SGLang has it; before 0.5.15 it has no initialization, and a layer's call decides."""
    from pkgutil import resolve_name

    try:
        resolve_name(target)
    except (ImportError, AttributeError):
        return False
    return True
