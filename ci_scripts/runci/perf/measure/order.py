"""In which order the processes of a night run."""

from __future__ import annotations

import random

CANDIDATE, BASELINE = "candidate", "baseline"


def order(pairs: int, chance: random.Random, with_baseline: bool = True) -> tuple[str, ...]:
    """ "candidate" or "baseline" for each process, pair after pair.

    As many pairs begin with one as with the other, and one more where the number is odd, so that
    whatever favours the first of two does not favour one side.
    """
    if not with_baseline:
        return (CANDIDATE,) * pairs
    swapped = [pair % 2 == 1 for pair in range(pairs)]
    if pairs % 2 and chance.random() < 0.5:
        swapped = [not swap for swap in swapped]
    chance.shuffle(swapped)
    sides = ((BASELINE, CANDIDATE) if swap else (CANDIDATE, BASELINE) for swap in swapped)
    return tuple(side for pair in sides for side in pair)
