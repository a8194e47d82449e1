"""What the requests of a comparison come to: plain functions of what was recorded.

The unit of a comparison is a boot, not a request: requests of one boot share its memory layout,
clocks and caches, and those of one group wait for each other, so they are no independent samples
of what an arm does. There is therefore no interval over the requests of a boot: it would be narrow
and say nothing about the next boot. Boots are compared in pairs (A1 with B1, and so on), as
logarithms of B / A; in the order A1 B1 B2 A2 A3 B3 a steady drift helps A in one pair, B in the
next.

Two intervals stand beside each other. The bootstrap over pairs is exact (every resample is
counted). With three pairs its ends are the smallest and the largest pair, since a resample of one
pair alone has 1 chance in 27, above the 2.5 % that would be cut off: it covers the median of what
pairs do in 3 of 4 runs at best, however it is called, and cannot decide. So Student's t over the
pairs decides, which assumes that their logarithms are about normal, at a level that is shared by
all comparisons of the report (Bonferroni): of reports on equal arms, 1 in 20 claims anything.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from statistics import fmean, stdev

import numpy as np

from sm120_ba.validate.serving.records import WARM_UP, Boot, Request

ERROR = 0.05  # the chance that a report on equal arms claims a difference
METRICS = {  # by name: the attribute of Group, and whether more is better
    "output tokens/s": ("tokens_per_s", True),
    "TTFT P50": ("ttft_p50_s", False),
    "TTFT P90": ("ttft_p90_s", False),
}


@dataclass(frozen=True)
class Group:
    """One group of one boot. Seconds; `cached` is a share of the prompt tokens.

    None is what cannot be said: no request had a first token, or the server gives no number.
    """

    boot: str
    concurrency: int
    requests: int
    failed: int
    tokens: int
    wall_s: float
    ttft_p50_s: float | None
    ttft_p90_s: float | None
    cached: float | None
    running_peak: int | None

    @property
    def tokens_per_s(self) -> float | None:
        """All tokens that came, over the time from the first admission to the last end."""
        return self.tokens / self.wall_s if self.tokens and self.wall_s > 0 else None


def groups(boot: Boot, requests: Iterable[Request]) -> list[Group]:
    """The groups of a boot in the order in which they ran, without the warm-up."""
    by_concurrency: dict[int, list[Request]] = {}
    for request in requests:
        by_concurrency.setdefault(request.concurrency, []).append(request)
    return [_group(boot, c, of) for c, of in by_concurrency.items() if c != WARM_UP]


def _group(boot: Boot, concurrency: int, requests: Sequence[Request]) -> Group:
    first = [one.ttft_s for one in requests if one.ttft_s is not None]
    p50, p90 = (float(x) for x in np.quantile(first, (0.5, 0.9))) if first else (None, None)
    running = boot.running.get(concurrency)
    return Group(
        boot=boot.name,
        concurrency=concurrency,
        requests=len(requests),
        failed=sum(one.error is not None for one in requests),
        tokens=sum(one.tokens for one in requests),
        wall_s=max(one.ended_s for one in requests) - min(one.admitted_s for one in requests),
        ttft_p50_s=p50,
        ttft_p90_s=p90,
        cached=_cached(requests),
        running_peak=None if running is None else running.peak,
    )


def _cached(requests: Sequence[Request]) -> float | None:
    cached = [one.cached_tokens for one in requests]
    prompts = [one.prompt_tokens for one in requests]
    hits = [hit for hit in cached if hit is not None]
    sizes = [size for size in prompts if size is not None]
    if len(hits) != len(cached) or len(sizes) != len(prompts) or not sum(sizes):
        return None
    return sum(hits) / sum(sizes)


@dataclass(frozen=True)
class Comparison:
    """B against A in one metric at one concurrency; each difference is B / A - 1.

    `pairs` are in the order of their numbers, `mean` is their geometric mean. `bootstrap` and
    `interval` are over the pairs, `interval` is None for a single one. `null` is the largest
    difference of two boots of A from each other, which no change of the variable explains.
    """

    metric: str
    concurrency: int
    pairs: tuple[float, ...]
    mean: float
    bootstrap: tuple[float, float]
    interval: tuple[float, float] | None
    null: float
    verdict: str


HIGHER, LOWER, WITHIN, UNDECIDED = "B is higher", "B is lower", "within the margin", "undecided"


def compare(found: Sequence[Group], margin: float) -> list[Comparison]:
    """Each metric at each concurrency for which a pair of boots has it."""
    concurrencies = list(dict.fromkeys(group.concurrency for group in found))
    error = ERROR / max(1, len(METRICS) * len(concurrencies))
    made = []
    for concurrency in concurrencies:
        for metric, (attribute, _) in METRICS.items():
            values = {
                group.boot: value
                for group in found
                if group.concurrency == concurrency
                and (value := getattr(group, attribute)) is not None
            }
            if any(f"B{name[1:]}" in values for name in values if name[0] == "A"):
                made.append(_compare(metric, concurrency, values, error, margin))
    return made


def _compare(
    metric: str, concurrency: int, values: Mapping[str, float], error: float, margin: float
) -> Comparison:
    numbers = sorted(int(name[1:]) for name in values if name[0] == "A")
    logs = [math.log(values[f"B{i}"] / values[f"A{i}"]) for i in numbers if f"B{i}" in values]
    of_a = [math.log(values[f"A{i}"]) for i in numbers]
    null = max((abs(x - y) for x, y in combinations(of_a, 2)), default=0.0)
    interval = t_interval(logs, 1 - error)
    low, high = bootstrap_interval(logs)
    return Comparison(
        metric=metric,
        concurrency=concurrency,
        pairs=tuple(map(math.expm1, logs)),
        mean=math.expm1(fmean(logs)),
        bootstrap=(math.expm1(low), math.expm1(high)),
        interval=None if interval is None else (_expm1(interval[0]), _expm1(interval[1])),
        null=math.expm1(null),
        verdict=verdict(fmean(logs), interval, null, margin),
    )


def _expm1(x: float) -> float:
    return math.expm1(min(x, 700.0))  # the ends of an interval may be beyond every number


def verdict(mean: float, interval: tuple[float, float] | None, null: float, margin: float) -> str:
    """What three or more pairs say; `mean`, `interval` and `null` are logarithms.

    A difference is one beyond the margin in the whole interval, and larger than what boots of A
    differ by; no difference is one within the margin in the whole interval. All else is undecided.
    """
    if interval is None:
        return UNDECIDED
    low, high = interval
    up, down = math.log1p(margin), math.log1p(-margin)
    if low > up and mean > null:
        return HIGHER
    if high < down and -mean > null:
        return LOWER
    return WITHIN if down <= low and high <= up else UNDECIDED


def bootstrap_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Percentile interval of the mean: every resample up to six values, then 20,000 seeded ones."""
    count = len(values)
    if count <= 6:
        means = [fmean(chosen) for chosen in product(values, repeat=count)]
    else:
        choose = random.Random(0).choices  # noqa: S311 (no secret)
        means = [fmean(choose(values, k=count)) for _ in range(20_000)]
    means.sort()
    cut = math.floor((1 - level) / 2 * len(means))
    return means[cut], means[-1 - cut]


def t_interval(values: Sequence[float], level: float) -> tuple[float, float] | None:
    """Student's interval of the mean; None for less than two values."""
    if len(values) < 2:
        return None
    half = t_quantile(len(values) - 1, level) * stdev(values) / math.sqrt(len(values))
    return fmean(values) - half, fmean(values) + half


def t_quantile(degrees: int, level: float) -> float:
    """The t with P(-t < T < t) = level, T Student's with so many degrees of freedom."""
    low, high = 0.0, 1.0
    while _t_probability(degrees, high) < level:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        below = _t_probability(degrees, middle) < level
        low, high = (middle, high) if below else (low, middle)
    return high


def _t_probability(degrees: int, t: float) -> float:
    """P(-t < T < t), by Abramowitz and Stegun 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(degrees))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = degrees % 2
    term, total = (cosine if odd else 1.0), 0.0
    for k in range(1 + odd, degrees, 2):
        total += term
        term *= cosine**2 * k / (k + 1)
    return (2 / math.pi * (angle + sine * total)) if odd else sine * total
