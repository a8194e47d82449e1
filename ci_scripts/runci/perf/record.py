"""One night's record: raw samples of every repetition, and the machine before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runci.perf.metric import SCHEMA, Direction, SeriesId
from runci.perf.samples import Check


@dataclass(frozen=True, slots=True)
class MachineState:
    """What NVML and the system said at one moment; None is what could not be asked.

    Clocks in MHz, temperature in °C, power in W, memory in MiB. `processes` are those of others on
    the GPU, `throttled` the reasons that hold its clocks down.
    """

    at: str  # ISO 8601, UTC
    sm_clock: int | None = None
    memory_clock: int | None = None
    temperature: int | None = None
    power: float | None = None
    memory_used: int | None = None
    throttled: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    load: float | None = None  # of the host, one minute


@dataclass(frozen=True, slots=True)
class Machine:
    """The GPU and the host. `driver` is its whole version, such as 580.159.04."""

    gpu: str
    driver: str
    host: str = ""
    cpu: str = ""
    capability: str | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """One metric: the raw values of each repetition's process, in the order they were run.

    `candidate[i]` and `baseline[i]` are pair i. The `again_` ones are the immediate paired re-run
    of a night that looked suspicious; empty without one.
    """

    metric: str
    unit: str
    direction: Direction
    candidate: tuple[tuple[float, ...], ...]
    baseline: tuple[tuple[float, ...], ...]
    reference: str | None = None
    again_candidate: tuple[tuple[float, ...], ...] = ()
    again_baseline: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """One metric of the night in figures, as computed from its measurement; None where it has none.

    `candidate` and `baseline` are medians over the repetitions, `ratio` is the median over the
    pairs of the first to the second, `to_reference` the candidate's median over that of its
    reference metric, and `spread` lies between the quartiles of the pairs, relative to `ratio`.
    """

    metric: str
    unit: str
    candidate: float | None
    baseline: float | None = None
    ratio: float | None = None
    to_reference: float | None = None
    spread: float | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """Everything that one run of `runci perf measure` found.

    `night` is a date (UTC). `order` has "candidate" or "baseline" for each process that ran.
    `unusable` has the reasons why these figures must not enter a series; empty where they may.
    `checks` are the candidate's, a failed one of any repetition first. `during` has, for each
    process of `order`, the highest figures and all reasons that were seen while it ran; none for
    what has no GPU.
    """

    night: str
    started: str
    finished: str
    benchmark: str
    version: str
    command: tuple[str, ...]
    commit: str
    baseline_commit: str
    seed: int
    order: tuple[str, ...]
    machine: Machine
    before: MachineState
    after: MachineState
    measurements: tuple[Measurement, ...]
    summary: tuple[Summary, ...] = ()  # for readers; other steps compute from the measurements
    checks: tuple[Check, ...] = ()
    unusable: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    run_id: str = ""
    run_url: str = ""
    during: tuple[MachineState, ...] = ()
    schema: int = SCHEMA

    def series_id(self, metric: str) -> SeriesId:
        """Where a metric of this record is remembered. The driver's major number is its first."""
        major = int(self.machine.driver.split(".")[0])
        return SeriesId(metric, self.benchmark, self.version, self.machine.gpu, major)
