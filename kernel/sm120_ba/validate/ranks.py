"""Several processes that validate the same, as torchrun starts them: RANK, WORLD_SIZE, LOCAL_RANK.

Each rank has a copy of the model of its own; what they found is gathered over gloo.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch

from sm120_ba.validate.commands import UsageError

T = TypeVar("T")
_PATIENCE = timedelta(minutes=10)


@dataclass(frozen=True)
class World:
    """This process's number of how many, and its number on this machine."""

    rank: int = 0
    size: int = 1
    local: int = 0

    def device(self, name: str) -> str:
        """`cuda` is one GPU for each rank of this machine; any other device is as it was named."""
        return f"cuda:{self.local}" if name == "cuda" else name


def world(environ: Mapping[str, str] | None = None) -> World:
    """What torchrun says, one process without it. Raises UsageError."""
    found = os.environ if environ is None else environ
    if "WORLD_SIZE" not in found:
        return World()
    try:
        rank, size, local = (int(found[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    except (KeyError, ValueError) as error:
        raise UsageError(
            f"WORLD_SIZE={found['WORLD_SIZE']}, but RANK or LOCAL_RANK is missing or no number "
            f"({error}); start with torchrun, or unset WORLD_SIZE"
        ) from None
    return World(rank, size, local)


def gathered(value: T, here: World) -> list[T]:
    """What each rank gives, in their order, on all of them; waits ten minutes for the others."""
    if here.size == 1:
        return [value]
    distributed = torch.distributed
    mine = not distributed.is_initialized()
    if mine:
        distributed.init_process_group("gloo", timeout=_PATIENCE)
    group = distributed.new_group(backend="gloo", timeout=_PATIENCE)
    values: list[T] = [value] * here.size
    distributed.all_gather_object(values, value, group=group)
    if mine:
        distributed.destroy_process_group()
    return values
