"""Which of several commits made a metric worse, from noisy paired measurements; pure.

Commit i of n (from 1, oldest first) is measured in pairs with the last good one: what it is worse
by is about 0 before the culprit, and about the whole change from it on. The posterior over the
culprit says which commit to measure next, and when enough is known: git's own bisection believes
every answer, and one wrong one leads it astray.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from runci.nightly.decide.values import Value
from runci.nightly.figures import ratio
from runci.nightly.record import SCHEMA, Direction, SeriesId, worse_by
from runci.text.wording import plural

ENOUGH = 0.99  # of the posterior: then the culprit is named
TWICE = 2  # pairs of the commits on both sides of an answer: one alone may be far off
ENDS = 3  # pairs of the bad commit, which say whether the change is seen on this machine
SIZES = tuple(0.5 * 2 ** (i / 3) for i in range(10))  # what the change may be here, of what it was
NOISE = 0.01  # relative, of one pair, where the history does not say
KNOWN = 20  # deviations of one search that weigh as much as what was known before it
LEAST_NOISE = 0.002  # relative, of one pair; a few equal pairs are no proof of none
_TAIL = 4.0  # degrees of freedom: one pair far off weighs little
_MAD = 1.4826  # of a normal distribution, sigma over the median of absolute deviations

Pairs = Mapping[int, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Pair:
    """One commit beside the good one, both by their medians in the metric's unit."""

    commit: str
    candidate: float
    baseline: float


@dataclass(frozen=True, slots=True)
class Searched:
    """`runci perf bisect --output`: what was asked, all that was measured, and the answer.

    `commits` are those after `good` up to `bad`, oldest first; `change` is relative, above 0.
    `suspects` are the commits that are left, one where the culprit is known, none where the change
    was not seen or nothing is known yet; `said` is a sentence on it, `author` and `subject` are the
    culprit's.
    """

    series: SeriesId
    direction: Direction
    good: str
    bad: str
    change: float
    commits: tuple[str, ...]
    pairs: tuple[Pair, ...] = ()
    broken: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()
    confidence: float = 0.0
    author: str = ""
    subject: str = ""
    said: str = ""
    schema: int = SCHEMA

    @property
    def culprit(self) -> str:
        """The one commit that is left, where that is sure."""
        return self.suspects[0] if len(self.suspects) == 1 and self.confidence else ""


def known_of(searched: Searched, noise: float) -> Bisection:
    """What was measured, by the number of a commit."""
    numbers = {commit: i for i, commit in enumerate(searched.commits, 1)}
    pairs: dict[int, list[float]] = {}
    for pair in searched.pairs:
        worse = worse_by(ratio(pair.candidate, pair.baseline), searched.direction)
        pairs.setdefault(numbers[pair.commit], []).append(worse)
    broken = {numbers[commit] for commit in searched.broken}
    return Bisection(len(numbers), searched.change, noise, pairs, broken)


def answered(searched: Searched, noise: float) -> Searched:
    """With the answer, or with what is left of the commits where it is not sure."""
    known = known_of(searched, noise)
    answer = found(known)
    after = f"after {plural(len(searched.pairs), 'pairs')}"
    if answer is None:
        left = tuple(searched.commits[c - 1] for c in candidates(known))
        said = f"not sure {after}: {plural(len(left), 'commits')} are left"
        return replace(searched, suspects=left, confidence=0.0, said=said)
    if answer.last == 0:
        said = f"the change is not seen on this machine, {after}"
        return replace(searched, suspects=(), confidence=answer.confidence, said=said)
    left = searched.commits[answer.first - 1 : answer.last]
    said = f"found {after}, with {answer.confidence:.1%} confidence"
    if len(left) > 1:
        said = f"one of {plural(len(left), 'commits')}, {after}; only the last can be measured"
    return replace(searched, suspects=left, confidence=answer.confidence, said=said)


@dataclass(frozen=True, slots=True)
class Bisection:
    """What is known: n commits, by which part the bad one is worse, and what was measured.

    `change` is relative, above 0; `noise` the relative sigma of one pair; `pairs` has by commit
    what each of its pairs was worse by; `broken` are those that cannot be measured.
    """

    commits: int
    change: float
    noise: float
    pairs: Pairs
    broken: Collection[int] = ()


@dataclass(frozen=True, slots=True)
class Found:
    """The commits among which the culprit is, from `first` to `last`, and how sure that is.

    More than one where those before the last cannot be measured; (0, 0) says that none of them is:
    the change is not seen on this machine.
    """

    first: int
    last: int
    confidence: float


def posterior(known: Bisection) -> tuple[float, ...]:
    """How likely each commit is the culprit; the last figure is that none is.

    How large the change is on this machine is not known either: each of `SIZES` is as likely.
    """
    noise = _noise(known)

    def fits(size: float) -> dict[int, float]:
        return {
            commit: sum(_log_likelihood((value - size) / noise) for value in values)
            for commit, values in known.pairs.items()
        }

    good, bad = fits(0.0), [fits(known.change * size) for size in SIZES]
    logs = [
        _log_mean([sum((b if c >= culprit else good)[c] for c in known.pairs) for b in bad])
        for culprit in range(1, known.commits + 1)
    ]
    logs.append(sum(good.values()))
    top = max(logs)
    weights = [math.exp(each - top) for each in logs]
    return tuple(weight / sum(weights) for weight in weights)


def groups(known: Bisection) -> list[range]:
    """Culprits that no measurement can tell apart: only a broken commit lies between them."""
    found: list[range] = []
    first = 1
    for culprit in range(1, known.commits + 1):
        if culprit not in known.broken:  # measuring it tells it from the next
            found.append(range(first, culprit + 1))
            first = culprit + 1
    return found


def found(known: Bisection) -> Found | None:
    """The answer, once it is sure enough, and each commit that it stands on was measured twice."""
    answer = _likeliest(known)
    if answer.confidence < ENOUGH or _doubtful(known, answer):
        return None
    return answer


def next_commit(known: Bisection) -> int | None:
    """The commit whose next pair tells most; None where nothing can be measured.

    The bad one first; then the one that is as likely before the culprit as not, since one pair says
    as much about any. Of equals the one that was measured least.
    """
    able = [c for c in range(1, known.commits + 1) if c not in known.broken]
    if not able:
        return None
    if len(known.pairs.get(known.commits, ())) < ENDS and known.commits in able:
        return known.commits
    answer = _likeliest(known)
    doubtful = _doubtful(known, answer)
    if answer.confidence >= ENOUGH and doubtful:
        return doubtful[0]
    likely = posterior(known)

    def doubt(commit: int) -> tuple[float, int]:
        is_bad = sum(likely[:commit])
        return round(abs(is_bad - 0.5), 6), len(known.pairs.get(commit, ()))

    return min(able, key=doubt)


def _likeliest(known: Bisection) -> Found:
    likely = posterior(known)
    sure = [Found(each[0], each[-1], sum(likely[c - 1] for c in each)) for each in groups(known)]
    return max(Found(0, 0, likely[-1]), *sure, key=lambda one: one.confidence)


def _doubtful(known: Bisection, answer: Found) -> list[int]:
    """The commits on both sides of an answer that were measured less than `TWICE`."""
    if answer.last == 0:
        return [known.commits] if len(known.pairs.get(known.commits, ())) < ENDS else []
    sides = (answer.first - 1, answer.last)
    return [c for c in sides if c > 0 and len(known.pairs.get(c, ())) < TWICE]


def candidates(known: Bisection, share: float = 0.95) -> list[int]:
    """The likeliest commits that together have this share of what is likely, oldest first."""
    likely = posterior(known)[:-1]
    whole = sum(likely)
    chosen: list[int] = []
    for commit in sorted(range(1, known.commits + 1), key=lambda c: -likely[c - 1]):
        chosen.append(commit)
        if sum(likely[c - 1] for c in chosen) >= share * whole:
            break
    return sorted(chosen)


def pair_noise(nights: Iterable[Value]) -> float:
    """The relative sigma of one pair, as the pairs of these nights show it."""
    off = [
        abs(one - other) / night.value * (1 if night.base else math.sqrt(2))
        for night in nights
        for one, other in itertools.combinations(night.pairs, 2)
    ]
    return _sigma(off) if len(off) >= KNOWN else NOISE


def _noise(known: Bisection) -> float:
    """Of one pair: by commits that were measured twice or more, with what was known before."""
    off = [
        abs(one - other)
        for values in known.pairs.values()
        for one, other in itertools.combinations(values, 2)
    ]
    if not off:
        return max(known.noise, LEAST_NOISE)
    count = sum(len(values) - 1 for values in known.pairs.values())
    weight = count / (count + KNOWN)
    return max(
        math.hypot(weight**0.5 * _sigma(off), (1 - weight) ** 0.5 * known.noise), LEAST_NOISE
    )


def _sigma(off: Sequence[float]) -> float:
    """Of one figure, by the differences of two."""
    return _MAD * median(off) / math.sqrt(2)


def _log_mean(logs: Sequence[float]) -> float:
    top = max(logs)
    return top + math.log(sum(math.exp(each - top) for each in logs) / len(logs))


def _log_likelihood(off: float) -> float:
    """Of a deviation in sigmas, by Student's t but for a constant."""
    return -(_TAIL + 1) / 2 * math.log1p(off * off / _TAIL)
