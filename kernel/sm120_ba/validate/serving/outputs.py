"""Whether the arms said the same: token ids of the same request in every boot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sm120_ba.validate.serving.records import WARM_UP, Request

Ids = tuple[int, ...]


@dataclass(frozen=True)
class Flip:
    """A request that every boot of A answers alike, and B otherwise: first at `position`."""

    concurrency: int
    index: int
    position: int
    a: int | None
    b: int | None
    stable: bool  # whether every boot of B answers alike, too


@dataclass(frozen=True)
class Outputs:
    """The requests of one concurrency, as counts: each is in exactly one but `flips`.

    `equal` have one answer in all boots; `a_varies` differ between boots of A, which is noise that
    B has no part in; `flips` are the others. `not_compared` lack token ids in some boot.
    """

    concurrency: int
    equal: int
    a_varies: int
    flips: tuple[Flip, ...]
    not_compared: int


def compare_outputs(boots: Mapping[str, Sequence[Request]]) -> list[Outputs]:
    """Compare what the boots answered, by concurrency and index of the request."""
    answers: dict[tuple[int, int], dict[str, Ids | None]] = {}
    for name, requests in boots.items():
        for one in requests:
            if one.concurrency != WARM_UP:
                ids = one.ids if one.error is None else None
                answers.setdefault((one.concurrency, one.index), {})[name] = ids
    return [
        _outputs(concurrency, {i: of for (c, i), of in answers.items() if c == concurrency}, boots)
        for concurrency in dict.fromkeys(c for c, _ in answers)
    ]


def _outputs(
    concurrency: int, answers: Mapping[int, Mapping[str, Ids | None]], boots: Mapping[str, object]
) -> Outputs:
    equal = a_varies = not_compared = 0
    flips = []
    for index, by_boot in sorted(answers.items()):
        known = {name: ids for name, ids in by_boot.items() if ids is not None}
        a = {ids for name, ids in known.items() if name[0] == "A"}
        b = {ids for name, ids in known.items() if name[0] == "B"}
        if len(known) < len(boots) or not a or not b:
            not_compared += 1
        elif len(a) > 1:
            a_varies += 1
        elif a == b:
            equal += 1
        else:
            (of_a,) = a
            flips.append(_flip(concurrency, index, of_a, min(b - a), stable=len(b) == 1))
    return Outputs(concurrency, equal, a_varies, tuple(flips), not_compared)


def _flip(concurrency: int, index: int, a: Ids, b: Ids, *, stable: bool) -> Flip:
    shorter = min(len(a), len(b))
    position = next((i for i in range(shorter) if a[i] != b[i]), shorter)
    ends = [ids[position] if position < len(ids) else None for ids in (a, b)]
    return Flip(concurrency, index, position, ends[0], ends[1], stable)
