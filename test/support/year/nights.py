"""What happens in the simulated year: which night brings what. Nights are counted from 0."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

FIRST = datetime.date(2025, 1, 1)
NIGHTS = 365
NOISE = 0.01  # of one process; a night takes the median of five pairs

METRICS = {  # name: unit, direction, level, noise, second mode
    "gemm": ("us", "lower", 6.0, NOISE, 0),
    "attention": ("us", "lower", 40.0, NOISE, 0),
    "norm": ("us", "lower", 3.0, NOISE, 0),
    "tokens": ("1/s", "higher", 900.0, NOISE, 0),
    "copy": ("us", "lower", 2.0, NOISE, 0),
    "sort": ("us", "lower", 12.0, 0.004, 0.08),  # a machine with two modes
    "scale": ("us", "lower", 5.0, NOISE, 0),
}


@dataclass(frozen=True)
class Night:
    """One night: what was committed before it, and how the machine is.

    `factors` multiply the level of a metric from this night's commit on; `earlier` and `later` are
    what the day's other commits say, which change nothing.
    """

    number: int
    commit: str = ""
    earlier: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    factors: Mapping[str, float] = field(default_factory=dict)
    bits: bool = True
    host: float = 1.0
    spike: str = ""
    dead: bool = False
    unusable: str = ""
    driver: str = "580.159.04"
    accept: tuple[str, str] | None = None

    @property
    def date(self) -> str:
        """As the commands write it."""
        return (FIRST + datetime.timedelta(days=self.number)).isoformat()


# Changes of the code, in the order of the year: night, what the commit says, factors, bits.
COMMITS = (
    (60, "Share one buffer in gemm", {"gemm": 1.06}, True),
    (120, "Fuse the mask into attention", {"attention": 1.08}, True),
    (150, "Take the mask out of attention again", {"attention": 1 / 1.08}, True),
    *((180 + 8 * i, f"Clean norm up, part {i + 1}", {"norm": 1.005}, True) for i in range(14)),
    (210, "Batch tokens by length", {"tokens": 1.08}, True),
    (280, "Sort tokens no longer", {"tokens": 1 / 1.08}, True),
    (300, "Sum in another order", {}, False),
    (302, "Sum in order again", {}, True),
    (310, "Sort tokens twice", {"tokens": 1 / 1.1}, True),  # while the step before is open
    (330, "Widen scale", {"scale": 1.2}, True),  # on the night of the new driver
)
BUSY = 120  # a day of many commits, so that the night alone does not say which it was
EARLIER = ("Write a note", "Mend the note", "Shorten the note")
LATER = ("Write another note", "Spell it right")
BISECTED = 122  # the night on which that is a confirmed regression
ACCEPTED = {75: ("gemm", "the buffer saves 2 GiB, agreed in #12")}
HOT = range(40, 51)  # the machine is 4 % slower, in both
SPIKES = {12: "copy", 33: "attention", 90: "copy", 171: "tokens", 240: "copy", 312: "gemm"}
DEAD = range(220, 225)  # the host was off
UNUSABLE = {100: "another process was on the GPU: 4242 (train.py)"}
NEW_DRIVER = 330


def nights() -> Iterator[Night]:
    """The year, night by night."""
    commits = {number: rest for number, *rest in COMMITS}
    bits = True
    for number in range(NIGHTS):
        night = Night(number, accept=ACCEPTED.get(number), unusable=UNUSABLE.get(number, ""))
        if number in commits:
            commit, factors, bits = commits[number]
            night = replace(night, commit=commit, factors=factors)
        if number == BUSY:
            night = replace(night, earlier=EARLIER, later=LATER)
        if number in SPIKES:
            worse = 0.9 if METRICS[SPIKES[number]][1] == "higher" else 1.1
            night = replace(night, spike=f"{SPIKES[number]}={worse}")
        yield replace(
            night,
            bits=bits,
            host=1.04 if number in HOT else 1.0,
            dead=number in DEAD,
            driver="590.10" if number >= NEW_DRIVER else night.driver,
        )
