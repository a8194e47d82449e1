"""What a gated-delta-net layer says when its state is handed over at other places, and rounded.

A server computes a prompt in pieces (chunks of a prefill, a cached prefix, single tokens) and keeps
the recurrent state between them, often in BF16. Where it cuts depends on load, so the same request
is rounded in other places from run to run. This replays one input with several cuts, through the
gated delta rule (arXiv 2412.06464), token by token in FP32:

    S <- exp(g_t) S;   S <- S + k_t (b_t (v_t - S^T k_t))^T;   o_t = S^T q_t

with q and k of length 1, q divided by the root of its size, and only the state that is handed over
rounded. With an FP32 state the cuts change no bit, with a BF16 state they do.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812

from sm120_ba.validate import ulp
from sm120_ba.validate.calls import device_of
from sm120_ba.validate.commands import UsageError
from sm120_ba.validate.report import Failure, Report, Table, deliver, machine

DTYPES = {"FP32": torch.float32, "BF16": torch.bfloat16}


NOTES = (
    "One kernel, one input, one process: only where the state is handed over differs. Kept as FP32 "
    "it gives the same bits wherever that is; kept as BF16 it is rounded there, and what follows "
    "differs. So two runs of one server that cut a request differently, by load or by what its "
    "prefix cache holds, may differ without any change of a kernel.",
    "The recurrence here is sequential. Kernels that compute chunks of tokens at once add up in an "
    "order that depends on where a chunk begins: there an FP32 state may not be enough. The input "
    "is random: the size of the differences is not that of any model. ULP are counted where an "
    "output is not smaller than the root mean square of all: near zero they say nothing.",
)


@dataclass(frozen=True)
class Inputs:
    """What reaches the recurrence, as BF16 but for the decay, which is FP32.

    q, k (length, heads, key size), v (length, heads, value size), b (length, heads) from 0 to 1,
    g (length, heads) the logarithm of the decay, at most 0.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    b: torch.Tensor
    g: torch.Tensor

    def piece(self, start: int, end: int) -> Inputs:
        """Those of some tokens."""
        return Inputs(*(value[start:end] for value in vars(self).values()))


@dataclass(frozen=True)
class Outcome:
    """The outputs as BF16 (length, heads, value size), as a layer hands them on, and the state."""

    outputs: torch.Tensor
    state: torch.Tensor


def seeded(
    length: int, heads: int = 4, size: int = 128, seed: int = 0, device: str = "cpu"
) -> Inputs:
    """Random inputs, distributed as in a new Qwen3-Next layer: decays from nearly 1 to nearly 0."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    q, k, v = (F.silu(normal(length, heads, size)).bfloat16() for _ in range(3))
    b = normal(length, heads).sigmoid().bfloat16()
    rate = torch.rand(heads, generator=generator) * 16  # as A of the checkpoints is initialized
    g = -rate * F.softplus(normal(length, heads) - 4)
    return Inputs(*(value.to(device) for value in (q, k, v, b, g)))


def recurrence(inputs: Inputs, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """FP32 outputs and state (heads, key size, value size) behind `state`, token after token.

    Each operation is on one token, so that its bits cannot depend on how many there are.
    """
    outputs = torch.empty_like(inputs.v, dtype=torch.float32)
    for t in range(len(outputs)):
        q, k, v, b, g = (value[t].float() for value in vars(inputs).values())
        q, k = (x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6) for x in (q, k))
        state = state * g.exp()[:, None, None]
        remembered = (state * k[:, :, None]).sum(1)
        state = state + k[:, :, None] * ((v - remembered) * b[:, None])[:, None, :]
        outputs[t] = (state * (q / q.shape[-1] ** 0.5)[:, :, None]).sum(1)
    return outputs, state


def replay(inputs: Inputs, cuts: Sequence[int], dtype: torch.dtype) -> Outcome:
    """The whole input, its state kept as `dtype` at each of the ascending cuts and at the end."""
    length, heads, size = inputs.v.shape
    state = torch.zeros(heads, inputs.k.shape[-1], size, dtype=dtype, device=inputs.v.device)
    outputs = []
    for start, end in zip((0, *cuts), (*cuts, length), strict=True):
        found, after = recurrence(inputs.piece(start, end), state.float())
        outputs.append(found.bfloat16())
        state = after.to(dtype)
    return Outcome(torch.cat(outputs), state)


def plans(length: int, given: Sequence[Sequence[int]] = ()) -> dict[str, tuple[int, ...]]:
    """Where an input of so many tokens is cut, by a name; `given` in place of five usual ways."""
    own = {f"at {', '.join(map(str, cuts))}": tuple(cuts) for cuts in given}
    for name, cuts in own.items():
        if not cuts or list(cuts) != sorted(set(cuts)) or not all(0 < c < length for c in cuts):
            raise UsageError(f"--cuts {name}: give ascending positions from 1 to {length - 1}")
    usual = {
        "in halves": (length // 2,),
        "chunks of 16": tuple(range(16, length, 16)),
        "chunks of 24": tuple(range(24, length, 24)),
        "last 16 singly": tuple(range(max(length - 16, 1), length)),
        "all singly": tuple(range(1, length)),
    }
    return own or {name: cuts for name, cuts in usual.items() if cuts}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `validate state`."""
    parser.add_argument("--length", type=int, default=64, help="tokens (default: 64)")
    parser.add_argument("--heads", type=int, default=4, help="value heads (default: 4)")
    parser.add_argument("--size", type=int, default=128, help="of a head (default: 128)")
    parser.add_argument("--seed", type=int, default=0, help="of the input (default: 0)")
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda or cuda:N")
    parser.add_argument(
        "--cuts",
        type=_cuts,
        action="append",
        default=[],
        metavar="N,N",
        help="where the state is handed over, may be repeated (default: five ways)",
    )
    parser.add_argument("--report", type=Path, help="write the report here (.json, and .md beside)")


def run(arguments: argparse.Namespace) -> int:
    """Replay and compare; 1 where cuts change bits with an FP32 state, or none with a BF16 one."""
    if min(arguments.length - 1, arguments.heads, arguments.size) < 1:
        raise UsageError(
            f"--length {arguments.length} --heads {arguments.heads} --size {arguments.size}: give "
            "at least two tokens, one head and one element"
        )
    device_of(arguments.device)
    cuts = plans(arguments.length, arguments.cuts)
    inputs = seeded(
        arguments.length, arguments.heads, arguments.size, arguments.seed, arguments.device
    )
    found = []
    with torch.no_grad():
        for name, dtype in DTYPES.items():
            whole = replay(inputs, (), dtype)
            found += [
                differences(name, plan, where, whole, replay(inputs, where, dtype))
                for plan, where in cuts.items()
            ]
    return deliver(report(arguments, found), arguments.report)


@dataclass(frozen=True)
class Difference:
    """How far a replay with cuts is from the one without, by the dtype of the state between."""

    state: str
    plan: str
    cuts: int
    max_abs: float
    percent: float  # of the outputs, as BF16
    largest_ulp: int  # of the outputs that are not smaller than their root mean square
    state_max_abs: float
    before: int  # outputs that differ before the first cut

    @property
    def failure(self) -> Failure | None:
        """What must not be: other bits before a cut, or at all where the state is FP32."""
        if self.before:
            return Failure(f"{self.state} state, {self.plan}", "bits differ before the first cut")
        if self.state == "FP32" and (self.percent or self.state_max_abs):
            return Failure(f"FP32 state, {self.plan}", f"{self.percent:.3g} % of outputs differ")
        return None


def differences(
    name: str, plan: str, cuts: Sequence[int], whole: Outcome, cut: Outcome
) -> Difference:
    """Compare two replays of one input."""
    steps = ulp.distance(whole.outputs, cut.outputs)
    sizes = whole.outputs.double().abs()
    large = sizes >= sizes.square().mean().sqrt()
    return Difference(
        name,
        plan,
        len(cuts),
        (whole.outputs.double() - cut.outputs.double()).abs().max().item(),
        100 * (steps != 0).double().mean().item(),
        int(steps[large].max()),
        (whole.state.double() - cut.state.double()).abs().max().item(),
        int((steps[: cuts[0]] != 0).sum()),
    )


def report(arguments: argparse.Namespace, found: Sequence[Difference]) -> Report:
    """The table of differences, and whether they are where they should be and only there."""
    shown = any(one.percent for one in found if one.state == "BF16")
    columns = ("max abs", "other outputs, %", "largest ULP", "state max abs", "before the cut")
    return Report(
        "state",
        len(found),
        {name: getattr(arguments, name) for name in ("length", "heads", "size", "seed", "device")},
        tables=(
            Table(
                "Outputs (as BF16) against those of the same input without a cut",
                ("state kept as", "handed over", "times", *columns),
                tuple(tuple(vars(one).values()) for one in found),
            ),
        ),
        failures=tuple(one.failure for one in found if one.failure),
        void=None if shown else "no cut changed an output with a BF16 state: it shows nothing",
        notes=NOTES,
        machine=machine(arguments.device),
    )


def _cuts(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))
