"""Use the kernel in a Hugging Face model: `patch_model(model)` and `unpatch_model(model)`.

For models whose gated-delta-net layers have an `nn.Linear` named `in_proj_ba` (Qwen3-Next), or two
named `in_proj_b` and `in_proj_a` (Qwen3.5). Needs no transformers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch._jit_internal import is_scripting

from sm120_ba.dispatch import DEFAULT, sm120_ba_linear, try_linear
from sm120_ba.guards import call_reason
from sm120_ba.linear_method import why_never
from sm120_ba.reasons import Reason

LAYER_NAMES = ("in_proj_ba", "in_proj_b", "in_proj_a")


# Unused codes are allowed where they depend on torch, which is not there for `make lint`.
class BaLinear(torch.nn.Linear):  # type: ignore[misc, unused-ignore]
    """An `nn.Linear` whose forward tries the kernel; parameters, hooks and state are the same."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 (as nn.Linear's)
        """input (..., K) times the weight's transpose, (..., N), as `nn.Linear`."""
        if is_scripting():
            return F.linear(input, self.weight, self.bias)
        return flattened_linear(input, self.weight, self.bias)


def flattened_linear(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    """`sm120_ba_linear` of x (batch, sequence, K) too, whose rows are batch x sequence."""
    if call_reason(x, weight, bias) is not None or not _is_flattenable(x):
        return sm120_ba_linear(x, weight, bias)
    # The kernel is two-dimensional and models pass (batch, sequence, K).
    y = try_linear(x.flatten(0, 1), weight, bias)
    return F.linear(x, weight, bias) if y is None else y.view(*x.shape[:-1], y.shape[-1])


def _is_flattenable(x: torch.Tensor) -> bool:
    """Whether x is (batch, sequence, features) and its first two dimensions merge as a view.

    Asks a nested or sparse tensor nothing that it might refuse to answer.
    """
    return x.layout is torch.strided and not x.is_nested and x.dim() == 3 and x.is_contiguous()


@dataclass(frozen=True)
class PatchReport:
    """What `patch_model` did, by dotted module names.

    `patched` try the kernel at every call, once it is proved for the `sizes` (N, K) that they have;
    of those, `waiting` says what else now sends every call to `F.linear` and what changes that.
    `skipped` are as they were, each with the reason.
    """

    patched: tuple[str, ...]
    skipped: dict[str, str]
    waiting: dict[str, tuple[str, ...]]
    sizes: tuple[tuple[int, ...], ...]

    @property
    def ready(self) -> tuple[str, ...]:
        """The patched layers that nothing said here keeps from the kernel."""
        return tuple(name for name in self.patched if name not in self.waiting)

    def __str__(self) -> str:
        lines = [f"patched {name}" for name in self.ready]
        lines += [
            f"patched {name}, which runs F.linear for now: {'; '.join(reasons)}"
            for name, reasons in self.waiting.items()
        ]
        lines += [f"skipped {name}: {reason}" for name, reason in self.skipped.items()]
        if self.sizes:
            lines.append(
                f"then: sm120_ba.warmup(shapes={list(self.sizes)}), with the weights there"
            )
        return "\n".join(lines) or f"no layer is named {', '.join(LAYER_NAMES)}"


def patch_model(model: torch.nn.Module) -> PatchReport:
    """Replace the forward of each Linear that has a name and a shape of the kernel's, in place.

    Names end in `in_proj_ba`, `in_proj_b` or `in_proj_a`; shapes are those of `sm120_ba.shapes`.
    Only modules whose type is exactly `nn.Linear` are touched: quantized, wrapped (LoRA) and
    already patched ones are reported as skipped. Every call still passes all the guards.
    """
    patched, skipped, waiting = [], {}, {}
    sizes: set[tuple[int, ...]] = set()
    for name, module in _ba_modules(model):
        reason = _why_not_patch(module)
        if reason is not None:
            skipped[name] = reason
            continue
        module.__class__ = BaLinear
        patched.append(name)
        weight: Any = module.weight  # a Module's attributes have no types
        sizes.add(tuple(weight.shape))
        reasons = tuple(_why_waiting(weight))
        if reasons:
            waiting[name] = reasons
    return PatchReport(tuple(patched), skipped, waiting, tuple(sorted(sizes)))


def unpatch_model(model: torch.nn.Module) -> tuple[str, ...]:
    """Give every patched Linear its own forward back; returns their names."""
    restored = []
    for name, module in model.named_modules():
        if type(module) is BaLinear:
            module.__class__ = torch.nn.Linear  # type: ignore[assignment, unused-ignore]
            restored.append(name)
    return tuple(restored)


def _ba_modules(model: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Module]]:
    for name, module in model.named_modules():
        if name.rpartition(".")[2] in LAYER_NAMES:
            yield name, module


def _why_not_patch(module: torch.nn.Module) -> str | None:
    if type(module) is BaLinear:
        return "it is patched already"
    if type(module) is not torch.nn.Linear:
        return f"it is a {type(module).__name__}, not a plain nn.Linear"
    if "forward" in vars(module):
        return "its forward was already replaced by something else"
    return why_never(module.weight, module.bias)


def _why_waiting(weight: torch.Tensor) -> Iterator[str]:
    """What sends every call to F.linear and may still change, with what changes it."""
    if weight.requires_grad:
        yield "its weight requires grad (model.requires_grad_(False) changes that)"
    if weight.dtype is not torch.bfloat16:
        yield f"its weight is {weight.dtype} (model.to(torch.bfloat16) changes that)"
    if not weight.is_contiguous():
        yield f"its weight has gaps, with strides {weight.stride()} (.contiguous() has none)"
    refusal = DEFAULT.refusal(weight.device)
    if refusal is Reason.NOT_CUDA:
        yield f"its weight is on {weight.device} (model.to('cuda') changes that)"
    elif refusal is not None:
        yield f"its weight is on {weight.device}, and {refusal.name}: {refusal.sentence}"
    elif tuple(weight.shape) not in DEFAULT.sizes(weight.device):
        size = " x ".join(map(str, weight.shape))
        yield f"{size} is not enabled there (sm120_ba.warmup(mode='proved') changes that)"
