"""The models that are compared: a small random one made here, a checkpoint, or one of yours."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from sm120_ba.validate.commands import UsageError

HELP = (
    "small: a random Qwen3-Next with the real projection of 48 x 5120; small-2048: with 64 x 2048; "
    "a folder with a checkpoint; or MODULE:FUNCTION, called with the device, which returns a model"
)
SMALL = {"small": (5120, 24), "small-2048": (2048, 32)}  # hidden size, value heads


def load(name: str, device: str = "cpu") -> torch.nn.Module:
    """The model in BF16 on `device`, in eval mode without gradients. Raises UsageError."""
    model: torch.nn.Module
    if name in SMALL:
        model = small_model(device, *SMALL[name])
        return model
    if ":" in name:
        model = named_function(name)(device)
        if not isinstance(model, torch.nn.Module):
            raise UsageError(f"--model {name} returned a {type(model).__name__}, no nn.Module")
        return model.eval().requires_grad_(False)
    folder = Path(name)
    if not (folder / "config.json").is_file():
        raise UsageError(f"--model {name}: there is no {folder / 'config.json'}; name {HELP}")
    from transformers import AutoModelForCausalLM

    loaded: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    model = loaded.to(device).eval().requires_grad_(False)
    return model


def small_model(device: str = "cpu", hidden: int = 5120, heads: int = 24) -> Any:
    """A Qwen3-Next in BF16 on `device` with seeded weights, whose BA layers have their real size.

    They are 2 · `heads` x `hidden`, in three layers of linear attention; all else is tiny. One
    layer of full attention follows them: generation with a cache needs it.
    """
    from transformers import Qwen3NextConfig, Qwen3NextForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        configuration = Qwen3NextConfig(
            vocab_size=64,
            hidden_size=hidden,
            num_hidden_layers=4,
            linear_num_value_heads=heads,
            linear_num_key_heads=4,
            linear_key_head_dim=8,
            linear_value_head_dim=8,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=8,
            intermediate_size=16,
            moe_intermediate_size=8,
            shared_expert_intermediate_size=8,
            num_experts=2,
            num_experts_per_tok=1,
            tie_word_embeddings=True,
        )
        model = Qwen3NextForCausalLM(configuration)
    placed: Any = model  # whose `to` is typed as taking no device
    return placed.to(device, torch.bfloat16).eval().requires_grad_(False)


def named_function(name: str) -> Callable[..., Any]:
    """The function of `MODULE:FUNCTION`, found as Python finds modules. Raises UsageError."""
    module, _, function = name.partition(":")
    try:
        found = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"{name}: {error}; MODULE:FUNCTION needs a module on PYTHONPATH") from None
    if not callable(found):
        raise UsageError(f"{name} is a {type(found).__name__}, not a function")
    result: Callable[..., Any] = found
    return result
