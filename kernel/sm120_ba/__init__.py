"""Opt-in BF16 projection y[M,N] = x[M,K] · w[N,K]ᵀ, used where it was proved to be `F.linear`.

Importing this package imports neither torch nor Triton; its names load them when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sm120_ba.config import Mode, initialize
    from sm120_ba.dispatch import (
        Stats,
        proof,
        reset_stats,
        sm120_ba_linear,
        stats,
        warmup,
        why_not,
    )
    from sm120_ba.huggingface import PatchReport, patch_model, unpatch_model
    from sm120_ba.reasons import Reason

__all__ = [
    "Mode",
    "PatchReport",
    "Reason",
    "Stats",
    "initialize",
    "patch_model",
    "proof",
    "reset_stats",
    "sm120_ba_linear",
    "stats",
    "unpatch_model",
    "warmup",
    "why_not",
]

_MODULES = {
    "Mode": "config",
    "PatchReport": "huggingface",
    "Reason": "reasons",
    "initialize": "config",
    "patch_model": "huggingface",
    "unpatch_model": "huggingface",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'dispatch')}"), name)
