"""Use the kernel in a Hugging Face model: `patch_model(model)` and `unpatch_model(model)`.

For models whose gated-delta-net layers have an `nn.Linear` named `in_proj_ba`, such as
`Qwen3NextForCausalLM`. Needs no transformers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812

from sm120_ba.dispatch import sm120_ba_linear, try_linear
from sm120_ba.gemm import K, N
from sm120_ba.guards import call_reason
from sm120_ba.linear_method import is_ba_layer


# Unused codes are allowed where they depend on torch, which is not there for `make lint`.
class BaLinear(torch.nn.Linear):  # type: ignore[misc, unused-ignore]
    """An `nn.Linear` whose forward tries the kernel; parameters, hooks and state are the same."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (..., 5120) times the weight's transpose, as `nn.Linear`; (..., 48) for BA weights."""
        weight, bias = self.weight, self.bias
        if call_reason(x, weight, bias) is not None or not _is_flattenable(x):
            return sm120_ba_linear(x, weight, bias)
        # The kernel is two-dimensional and models pass (batch, sequence, 5120).
        y = try_linear(x.flatten(0, 1), weight, bias)
        return F.linear(x, weight, bias) if y is None else y.view(*x.shape[:-1], N)


def _is_flattenable(x: torch.Tensor) -> bool:
    """Whether x is (batch, sequence, features) and its first two dimensions merge as a view.

    Asks a nested or sparse tensor nothing that it might refuse to answer.
    """
    return x.layout is torch.strided and not x.is_nested and x.dim() == 3 and x.is_contiguous()


@dataclass(frozen=True)
class PatchReport:
    """What `patch_model` did, by dotted module names."""

    patched: tuple[str, ...]
    skipped: dict[str, str]
    trainable: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"patched {name}" for name in self.patched]
        lines += [f"skipped {name}: {reason}" for name, reason in self.skipped.items()]
        lines += [
            f"{name} requires grad and so runs F.linear; model.requires_grad_(False) changes that"
            for name in self.trainable
        ]
        return "\n".join(lines) or "no layer is named in_proj_ba"


def patch_model(model: torch.nn.Module) -> PatchReport:
    """Replace the forward of each `in_proj_ba` Linear of 5120 inputs and 48 outputs, in place.

    Only modules whose type is exactly `nn.Linear` are touched: quantized, wrapped (LoRA) and
    already patched ones are reported as skipped. Every call still passes all the guards.
    """
    patched, skipped, trainable = [], {}, []
    for name, module in _ba_modules(model):
        reason = _why_not_patch(module)
        if reason is not None:
            skipped[name] = reason
            continue
        module.__class__ = BaLinear
        patched.append(name)
        if any(parameter.requires_grad for parameter in module.parameters()):
            trainable.append(name)
    return PatchReport(tuple(patched), skipped, tuple(trainable))


def unpatch_model(model: torch.nn.Module) -> tuple[str, ...]:
    """Give every patched Linear its own forward back; returns their names."""
    restored = []
    for name, module in model.named_modules():
        if type(module) is BaLinear:
            module.__class__ = torch.nn.Linear  # type: ignore[assignment, unused-ignore]
            restored.append(name)
    return tuple(restored)


def _ba_modules(model: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    return ((name, module) for name, module in model.named_modules() if is_ba_layer(name))


def _why_not_patch(module: torch.nn.Module) -> str | None:
    if type(module) is BaLinear:
        return "it is patched already"
    if type(module) is not torch.nn.Linear:
        return f"it is a {type(module).__name__}, not a plain nn.Linear"
    if "forward" in vars(module):
        return "its forward was already replaced by something else"
    if (module.in_features, module.out_features) != (K, N):
        return f"it maps {module.in_features} to {module.out_features}, not {K} to {N}"
    return None
