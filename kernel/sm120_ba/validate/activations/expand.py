"""Make seeded batches of the rows that were saved: for each snapshot one of each M."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from sm120_ba.validate import calls as model_calls
from sm120_ba.validate.activations.saved import (
    BATCHES,
    Batch,
    Saved,
    content,
    gather,
    read,
    write_batches,
)
from sm120_ba.validate.report import Report, Table, deliver


def batches_of(saved: Saved, rows: Sequence[int], seed: int) -> list[Batch]:
    """For each snapshot and M: a row of it, and M - 1 drawn from all of its layer.

    None is drawn twice for one batch while the layer has others.
    """
    pools: dict[str, list[tuple[int, int]]] = {}
    for number, (one, _) in enumerate(saved.snapshots):
        pools.setdefault(one.layer, []).extend((number, row) for row in range(one.rows))
    generator = torch.Generator().manual_seed(seed)
    found = []
    for number, (one, _) in enumerate(saved.snapshots):
        for m in rows:
            first = (number, int(torch.randint(one.rows, (1,), generator=generator)))
            others = _drawn([row for row in pools[one.layer] if row != first], m - 1, generator)
            batch = Batch(one.layer, (first, *(others if others else [first] * (m - 1))), "")
            found.append(Batch(batch.layer, batch.rows, content(gather(saved, batch))))
    return found


def _drawn(
    pool: list[tuple[int, int]], count: int, generator: torch.Generator
) -> list[tuple[int, int]]:
    """`count` of the pool in random order; again from its start where it has fewer."""
    order = torch.randperm(len(pool), generator=generator).tolist()
    return [pool[order[i % len(pool)]] for i in range(count)] if pool else []


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="what `validate capture` wrote")
    parser.add_argument(
        "--rows", type=model_calls.rows, default=tuple(range(1, 9)), help="M (default: 1-8)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the draws (default: 0)")
    parser.add_argument("--report", type=Path, metavar="FILE.json", help="write it, and FILE.md")


def run(arguments: argparse.Namespace) -> int:
    """Write the batches beside the snapshots, and say how many."""
    saved = read(arguments.folder)
    batches = batches_of(saved, arguments.rows, arguments.seed)
    write_batches(arguments.folder, saved, arguments.seed, batches)
    counts = tuple(
        (layer, m, sum(b.layer == layer and len(b.rows) == m for b in batches))
        for layer in saved.layers
        for m in arguments.rows
    )
    report = Report(
        "expand",
        len(batches),
        {"folder": str(arguments.folder), "rows": list(arguments.rows), "seed": arguments.seed},
        tables=(Table("Batches", ("layer", "M", "batches"), counts),),
        notes=(f"{len(saved.snapshots)} snapshots, {len(batches)} batches in {BATCHES}.",),
    )
    return deliver(report, arguments.report)
