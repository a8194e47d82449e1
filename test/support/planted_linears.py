"""Implementations of a linear layer with a planted fault, and the small model that they go into.

Each is named to `python -m sm120_ba validate` as `planted_linears:FUNCTION`. Their calls are
counted from `reset()` on, so that a test says which call is wrong.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping

import torch
import torch.nn.functional as F  # noqa: N812

from sm120_ba.validate.models import small_model

LAYERS = 3  # so many calls are one step of the small model
_calls = itertools.count()
_faults: dict[str, int] = {"call": -1, "row": 0}


def reset(call: int = -1, row: int = 0) -> None:
    """Start counting; the fault comes in that call, in that row of the layer's output."""
    global _calls  # noqa: PLW0603 (as a server's state, it outlives a call)
    _calls = itertools.count()
    _faults.update(call=call, row=row)


@functools.cache
def model(device: str) -> torch.nn.Module:
    """The small model, smaller still, made once for all tests of a file.

    Its linear attention weighs a hundred times more, so that a fault in it decides tokens.
    """
    made: torch.nn.Module = small_model(device, hidden=64, heads=8)
    for name, weight in made.named_parameters():
        if name.endswith("linear_attn.out_proj.weight"):
            weight.mul_(100)
    return made


def one_not_called(device: str) -> torch.nn.Module:
    """The same with one more layer of that name, which no forward calls."""
    made: torch.nn.Module = small_model(device, hidden=64, heads=8)
    draft = torch.nn.Linear(64, 16, device=device, dtype=torch.bfloat16)
    made.add_module("draft", torch.nn.ModuleDict({"in_proj_ba": draft}))
    return made


def never_loaded(device: str) -> torch.nn.Module:
    """A model for tests of what is refused before one is loaded."""
    raise AssertionError(device)


def no_language_model(device: str) -> torch.nn.Module:
    """A model that has a layer of the right name, and no logits."""
    return torch.nn.ModuleDict({"x": torch.nn.ModuleDict({"in_proj_ba": torch.nn.Linear(2, 2)})})


def equal(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """`F.linear` by another name."""
    return F.linear(x, weight, bias)


def wrong(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """`F.linear`, but for one row in one call."""
    return _with(x, weight, bias, 4.0)


def nan(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """`F.linear`, but for a row of NaN in one call."""
    return _with(x, weight, bias, float("nan"))


def noisy(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """`F.linear` and some noise, another one in each call."""
    y = F.linear(x, weight, bias)
    generator = torch.Generator().manual_seed(next(_calls))
    noise = torch.randn(y.shape, generator=generator).to(y.device, y.dtype)
    return y + 0.02 * noise


def _with(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, fault: float
) -> torch.Tensor:
    y = F.linear(x, weight, bias)
    if next(_calls) == _faults["call"]:
        y.view(-1, y.shape[-1])[_faults["row"]] += fault
    return y


def is_expected(row: Mapping[str, object], answer: str) -> bool:
    """A checker: whether the answer is the one that the prompt's row has."""
    return row["expected"] == answer


def always_wrong(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """`F.linear` with the other sign."""
    return -F.linear(x, weight, bias)
