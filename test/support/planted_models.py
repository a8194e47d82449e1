"""Models and implementations for `validate`, by name: `planted_models:FUNCTION`.

The logits of `tiny` are the outputs of its BA layers, so that a shadow that leaks shows in them.
"""

from __future__ import annotations

import os
from unittest import mock

import torch
import torch.nn.functional as F  # noqa: N812

from sm120_ba import dispatch
from sm120_ba.dispatch import Dispatcher
from sm120_ba.proof import Prover, RowProof
from sm120_ba.proof_store import Store
from sm120_ba.testing import RecordingRuntime, trust
from sm120_ba.validate.ulp import one_step_off


class Tiny(torch.nn.Module):
    """An embedding and two layers named in_proj_ba."""

    def __init__(self, n: int = 48, k: int = 5120, bias: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(64, k)
        self.layers = torch.nn.ModuleList(
            torch.nn.ModuleDict({"in_proj_ba": torch.nn.Linear(k, n, bias)}) for _ in range(2)
        )

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        hidden, said = self.embedding(ids), []
        for layer in self.layers:
            y = layer["in_proj_ba"](hidden)
            hidden = hidden + F.pad(y, (0, hidden.shape[-1] - y.shape[-1]))
            said.append(y)
        return torch.cat(said, -1)


def tiny(device: str) -> torch.nn.Module:
    return Tiny().to(device, torch.bfloat16)


def tiny_with_a_bias_at_rank_1(device: str) -> torch.nn.Module:
    return Tiny(bias=os.environ["RANK"] == "1").to(device, torch.bfloat16)


def no_embedding(device: str) -> torch.nn.Module:
    return torch.nn.ModuleDict({"in_proj_ba": torch.nn.Linear(8, 8)}).to(device)


class Named(Tiny):
    """The same, whose layers get their input by name."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.layers[1]["in_proj_ba"](
            input=self.layers[0]["in_proj_ba"](input=self.embedding(ids))
        )


class Doubled(torch.nn.Linear):
    """A layer that is no F.linear of its weight."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 (as nn.Linear's)
        return 2 * super().forward(input)


def by_name(device: str) -> torch.nn.Module:
    return Named(8, 8).to(device, torch.bfloat16)


def own_forward(device: str) -> torch.nn.Module:
    model = Tiny(8, 8)
    model.layers[1]["in_proj_ba"] = Doubled(8, 8, bias=False)
    return model.to(device, torch.bfloat16)


def one_not_called(device: str) -> torch.nn.Module:
    model = Tiny(8, 8)
    model.add_module("draft", torch.nn.ModuleDict({"in_proj_ba": torch.nn.Linear(8, 8)}))
    return model.to(device, torch.bfloat16)


def no_model(device: str) -> str:
    return device


def equal(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return F.linear(x, weight, bias)


def off_at_four(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """One element a step off where there are four rows."""
    y = F.linear(x, weight, bias)
    return one_step_off(y) if y.numel() == 4 * len(weight) else y


def off_at_rank_1(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    y = F.linear(x, weight, bias)
    return one_step_off(y) if os.environ["RANK"] == "1" else y


_calls = [0]


def never_twice_the_same(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    _calls[0] += 1
    return F.linear(x, weight, bias) + _calls[0]


def refuses(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    raise RuntimeError("planted")


def refused_by(reason: str, rows: tuple[int, ...]) -> Prover:
    """A prover whose proof of `rows` says BITS_DIFFER, NOT_FASTER or NO_POWER."""
    refused = {
        "BITS_DIFFER": RowProof({"random": 1}, {"random": 2}, 1.0, 1.0, 2.0),
        "NOT_FASTER": RowProof({"random": 0}, {"random": 2}, 1.0, 2.0, 2.0),
        "NO_POWER": RowProof({"random": 0}, {"random": 2}, 0.0, 1.0, 2.0),
    }[reason]

    def prover(*arguments):
        return {m: refused if m in rows else row for m, row in trust(*arguments).items()}

    return prover


def play_sm120(test, prover: Prover = trust, capability: tuple[int, int] = (12, 0)) -> Dispatcher:
    """For one test the public functions take the CPU for a GPU, which nothing was proved on."""
    fake = Dispatcher(lambda _device: capability, RecordingRuntime(), prover, Store(None))
    for name in ("_capability", "_runtime", "_prover", "_store", "_devices"):
        patch = mock.patch.object(dispatch.DEFAULT, name, getattr(fake, name))
        patch.start()
        test.addCleanup(patch.stop)
    dispatch.reset_stats()
    return dispatch.DEFAULT
