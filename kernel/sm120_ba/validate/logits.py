"""Teacher-forced logits of two arms on the same token ids, at every position, whole vocabulary.

Each batch is computed as a server does: the first tokens of each prompt at once (extend), then one
token of each prompt at a time (decode), where the layers get as many rows as the batch has prompts.
The next token is always the prompt's own, so that both arms have the same history.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sm120_ba.validate import arms, gates, trajectory
from sm120_ba.validate.arms import PAIRS
from sm120_ba.validate.commands import UsageError
from sm120_ba.validate.gates import Measured
from sm120_ba.validate.prompts import Prompt, batches
from sm120_ba.validate.report import Failure, Report, Table, deliver, machine

METRICS = ("max_abs", "kl_mean", "kl_p99", "kl_max", "nll_mean", "nll_max", "top1_flips")
WORST = 10  # positions that are listed
_AT_ONCE = 64  # positions whose probabilities are held in FP64


@dataclass(frozen=True)
class Distances:
    """From some logits to others, a value for each position: 1-D tensors on the CPU.

    `max_abs`, `kl` (nats) and `nll` (the target's, second minus first; NaN where there is none) are
    FP64; `first` and `second` are the ids of the top tokens, -1 where a logit is NaN.
    """

    max_abs: torch.Tensor
    kl: torch.Tensor
    nll: torch.Tensor
    has_target: torch.Tensor
    first: torch.Tensor
    second: torch.Tensor

    @property
    def different(self) -> torch.Tensor:
        """Where any logit differs, or is NaN in one or both."""
        return (self.max_abs != 0) | (self.first != self.second)

    def where(self, chosen: torch.Tensor) -> Distances:
        """Those of the chosen positions."""
        return Distances(*(value[chosen] for value in vars(self).values()))

    def metrics(self) -> dict[str, float]:
        """The values of METRICS; a NaN anywhere makes all that depend on it NaN."""
        nll = self.nll[self.has_target]
        return {
            "max_abs": _largest(self.max_abs),
            "kl_mean": self.kl.mean().item(),
            "kl_p99": _percentile(self.kl, 99),
            "kl_max": _largest(self.kl),
            "nll_mean": nll.mean().abs().item() if len(nll) else 0.0,
            "nll_max": _largest(nll.abs()),
            "top1_flips": float((self.first != self.second).sum()),
        }


def compare(first: torch.Tensor, second: torch.Tensor, targets: torch.Tensor) -> Distances:
    """Distances from logits (positions, vocabulary) to others; a target below 0 is none."""
    parts = [
        _compare(*part)
        for part in zip(*(t.split(_AT_ONCE) for t in (first, second, targets)), strict=True)
    ]
    return join(parts)


def join(parts: Sequence[Distances]) -> Distances:
    """Distances of several batches behind each other."""
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    return Distances(*(torch.cat(column) for column in columns))


def kl_divergence(log_p: torch.Tensor, log_q: torch.Tensor) -> torch.Tensor:
    """KL(p || q) in nats over the last dimension, of FP64 logarithms of probabilities.

    Summed are p(d - 1) + q with d = log p - log q, which are never negative, so that nothing
    cancels between the tokens; for small d as p(d + (exp(-d) - 1)), so that little does within one.
    """
    p, q = log_p.exp(), log_q.exp()
    d = log_p - log_q
    terms = p * d + torch.where(d.abs() < 1, p * torch.expm1(-d), q - p)
    terms = torch.where(p == 0, q, terms)  # there 0 · log 0 is 0
    return terms.clamp_min(0).sum(-1)


def top_token(logits: torch.Tensor) -> torch.Tensor:
    """The lowest id among the largest logits (..., vocabulary); -1 where one is NaN."""
    ids = torch.arange(logits.shape[-1], device=logits.device)
    largest = logits == logits.amax(-1, keepdim=True)
    lowest = torch.where(largest, ids, logits.shape[-1]).amin(-1)
    return torch.where(lowest == logits.shape[-1], -1, lowest)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `validate logits`."""
    arms.add_arguments(parser)
    parser.add_argument("--gates", type=Path, required=True, help=gates.HELP)
    parser.add_argument(
        "--prefill", type=int, default=8, help="first tokens at once, others singly (default: 8)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Compare, judge, report; 0 where every gate is passed and the runs are comparable."""
    limits = gates.read(arguments.gates, {"logits": METRICS})
    if arguments.prefill < 1:
        raise UsageError(f"--prefill {arguments.prefill}: give at least 1")
    both, prompts = arms.prepare(arguments)
    runs = {name: arms.Run(name) for name in arms.ORDER}
    positions, distances = measure(both, runs, prompts, arguments.batch, arguments.prefill)
    found = {pair: distances[pair].metrics() for pair in PAIRS}
    measured = [
        Measured(name, found[PAIRS[0]][name], tuple(found[pair][name] for pair in PAIRS[1:]))
        for name in METRICS
    ]
    verdicts = gates.judge(limits, measured)
    recorded = {name: one.recorder.batches for name, one in runs.items()}
    return deliver(
        Report(
            "logits",
            0 if both.idle(runs) else len(positions),
            arms.settings(arguments, both, prompts)
            | {"prefill": arguments.prefill, **limits.settings()},
            tables=(
                gates.table(verdicts, "Differences"),
                by_kind(positions, distances),
                worst(positions, distances),
                arms.calls(both, [*runs.values()]),
                trajectory.counts(recorded),
            ),
            failures=(
                *both.not_called(runs),
                *trajectory.mismatches(recorded),
                *not_numbers(positions, distances),
                *gates.failures(verdicts),
            ),
            notes=(*_notes(distances), *arms.remarks(both, [*runs.values()])),
            details={
                "positions": [list(position) for position in positions],
                "distances": {
                    " to ".join(pair): {k: v.tolist() for k, v in vars(distances[pair]).items()}
                    for pair in PAIRS
                },
                "trajectory": trajectory.as_rows(recorded["A1"]),
            },
            machine=machine(arguments.device),
        ),
        arguments.report,
    )


Position = tuple[str, int, str]  # prompt, position from 0, kind of batch
ByPair = Mapping[tuple[str, str], Distances]


def measure(
    both: arms.Arms,
    runs: Mapping[str, arms.Run],
    prompts: Sequence[Prompt],
    size: int,
    prefill: int,
) -> tuple[list[Position], dict[tuple[str, str], Distances]]:
    """Every position with its distances between the runs, which take turns batch by batch."""
    positions: list[Position] = []
    parts: dict[tuple[str, str], list[Distances]] = {pair: [] for pair in PAIRS}
    for batch in batches(prompts, size):
        ids = torch.tensor([prompt.ids for prompt in batch], device=both.device)
        logits = {
            name: forced(both, one, [prompt.name for prompt in batch], ids, prefill)
            for name, one in runs.items()
        }
        targets = torch.cat((ids[:, 1:], torch.full_like(ids[:, :1], -1)), 1).flatten()
        for pair in PAIRS:
            parts[pair].append(compare(logits[pair[0]], logits[pair[1]], targets))
        positions += [
            (prompt.name, i, "extend" if i < prefill else "decode")
            for prompt in batch
            for i in range(len(prompt.ids))
        ]
    return positions, {pair: join(found) for pair, found in parts.items()}


def forced(
    both: arms.Arms, one: arms.Run, names: Sequence[str], ids: torch.Tensor, prefill: int
) -> torch.Tensor:
    """Logits (batch · length, vocabulary) at every position of ids (batch, length)."""
    sequences = arms.Sequences(both.model, names, one.recorder)
    with both.driving(one):
        pieces = [sequences.forward(ids[:, :prefill])]
        pieces += [sequences.forward(ids[:, i : i + 1]) for i in range(prefill, ids.shape[1])]
    return torch.cat(pieces, 1).flatten(0, 1)


def by_kind(positions: Sequence[Position], distances: ByPair) -> Table:
    """Noise and difference of each kind of batch."""
    rows = []
    for kind in ("extend", "decode"):
        chosen = torch.tensor([position[2] == kind for position in positions])
        if not chosen.any():
            continue
        noise, found = (distances[pair].where(chosen) for pair in PAIRS[:2])
        repeat, metrics = noise.metrics(), found.metrics()
        rows.append(
            (
                kind,
                int(chosen.sum()),
                int(noise.different.sum()),
                int(found.different.sum()),
                *(one[name] for name in ("max_abs", "kl_max") for one in (repeat, metrics)),
            )
        )
    columns = ("positions", "differ A1 to A2", "differ A1 to B1", "max_abs A1 to A2")
    more = ("max_abs A1 to B1", "kl_max A1 to A2", "kl_max A1 to B1")
    return Table("By kind of batch", ("kind", *columns, *more), tuple(rows))


def worst(positions: Sequence[Position], distances: ByPair) -> Table:
    """The positions where A1 and B1 differ most, with the noise there."""
    noise, found = distances[PAIRS[0]], distances[PAIRS[1]]
    score = torch.where(found.kl.isnan() | found.max_abs.isnan(), torch.inf, found.kl)
    order = [i for i in score.argsort(descending=True, stable=True).tolist() if found.different[i]]
    columns = ("prompt", "position", "kind", "max_abs A1 to A2", "max_abs A1 to B1")
    more = ("KL A1 to A2", "KL A1 to B1", "top token A1", "top token B1")
    rows = tuple(
        (
            *positions[i],
            *(float(one[i]) for one in (noise.max_abs, found.max_abs, noise.kl, found.kl)),
            *(int(one[i]) for one in (found.first, found.second)),
        )
        for i in order[:WORST]
    )
    return Table(f"Positions that differ most ({len(order)} differ)", (*columns, *more), rows)


def not_numbers(positions: Sequence[Position], distances: ByPair) -> tuple[Failure, ...]:
    """A failure for each run that has a NaN among its logits."""
    noise, found = distances[PAIRS[0]], distances[PAIRS[1]]
    tops = {"A1": noise.first, "B1": found.second, "A2": noise.second}
    failures = []
    for name, top in tops.items():
        where = (top < 0).nonzero().flatten().tolist()
        if where:
            prompt, position, kind = positions[where[0]]
            text = f"NaN among the logits of {len(where)} positions, first of {prompt}, position "
            failures.append(Failure(name, f"{text}{position} ({kind})"))
    return tuple(failures)


def _notes(distances: ByPair) -> tuple[str, ...]:
    same = [not distances[pair].different.any() for pair in PAIRS]
    notes = [
        "KL is KL(first || second) in nats, in FP64 from the log-softmax; nll is the negative "
        "log-likelihood of the prompt's next token, second minus first: nll_mean the absolute "
        "value of its mean, nll_max its largest absolute value. kl_p99 is the lowest value that "
        "99 % of the positions are not above. The top token is the lowest id among the largest."
    ]
    if all(same):
        notes.append("No difference: every logit is the same number in all three runs.")
    elif same[0]:
        notes.append("The baseline repeated itself exactly; B1 does not.")
    elif not any(same):
        notes.append("The baseline does not repeat itself: judge the difference beside that noise.")
    return tuple(notes)


def _compare(first: torch.Tensor, second: torch.Tensor, targets: torch.Tensor) -> Distances:
    a, b = first.double(), second.double()
    log_p, log_q = a.log_softmax(-1), b.log_softmax(-1)
    has_target = targets >= 0
    index = targets.clamp_min(0)[:, None]
    nll = _difference(-log_q.gather(1, index), -log_p.gather(1, index))[:, 0]
    values: tuple[Any, ...] = (
        _difference(a, b).abs().amax(-1),
        kl_divergence(log_p, log_q),
        torch.where(has_target, nll, torch.nan),
        has_target,
        top_token(a),
        top_token(b),
    )
    return Distances(*(value.cpu() for value in values))


def _difference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a - b, and 0 for two equal infinities."""
    return torch.where(a == b, 0.0, a - b)


def _percentile(values: torch.Tensor, percent: int) -> float:
    """The lowest value that so many percent are not above; NaN where any is."""
    if values.isnan().any():
        return math.nan
    rank = -(-percent * len(values) // 100)  # rounded up, from 1
    return float(values.sort().values[rank - 1])


def _largest(values: torch.Tensor) -> float:
    return values.max().item() if len(values) else 0.0
