"""What is known of a machine before its tests, as plain values; None is what nobody could say."""

from __future__ import annotations

from dataclasses import dataclass

from runci.config.taxonomy import Runner
from runci.core.machine import Gpu
from runci.core.registration import Backend


@dataclass(frozen=True, slots=True)
class Need:
    """What is asked of the machine: a suite's runner, or with None whatever is here.

    `where` is the place in suites.yml that declares it.
    """

    backend: Backend | None = None
    runner: Runner | None = None
    where: str = ""

    @property
    def gpus(self) -> int:
        """How many GPUs the suite needs; 0 for none, and where no suite is named."""
        return self.runner.gpus if self.runner else 0


@dataclass(frozen=True, slots=True)
class Process:
    """A process of another, by its name: a command line may hold secrets. Memory in MiB."""

    pid: int
    owner: str
    name: str
    memory_mb: float | None = None

    def __str__(self) -> str:
        memory = "" if self.memory_mb is None else f", {self.memory_mb:,.0f} MiB"
        return f"{self.name} (pid {self.pid}, {self.owner}{memory})"


@dataclass(frozen=True, slots=True)
class Running:
    """A process of this machine: `ours` where it bears the signs of a test of `runci run`."""

    pid: int
    parent: int
    owner: str
    name: str
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product on a GPU: how many, and how many of their elements were wrong.

    `skipped` says why it was not asked for; `error` what it ended with in place of an answer.
    """

    rounds: int = 0
    wrong: int = 0
    skipped: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Lock:
    """Who has leased a GPU. `gone`: the process that took it has ended, and `heirs` hold it."""

    said: str
    gone: bool = False
    heirs: tuple[Process, ...] = ()


@dataclass(frozen=True, slots=True)
class Xid:
    """An error that the driver wrote into the kernel's log; `at` is Unix time."""

    bus: str
    code: int
    text: str
    at: float


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU. Clocks in MHz, the highest that was seen under load; memory in MiB.

    `ecc` are uncorrected errors since the driver was loaded; `remap_failed` is of rows, and
    `retirement` what waits for a reset, rows or pages. `slowdowns` were seen under load.
    `locked` is set where another holds its lease: then nothing was started on it. `out` says why it
    is out of service, `cleared` when somebody last put it back (Unix time).
    """

    gpu: Gpu
    bus: str = ""
    used_mb: float | None = None
    processes: tuple[Process, ...] = ()
    ecc: int | None = None
    retirement: bool | None = None
    remap_failed: bool | None = None
    link: int | None = None
    link_most: int | None = None
    clock: int | None = None
    clock_most: int | None = None
    reasons: tuple[str, ...] | None = None
    persistence: bool | None = None
    product: Product | None = None
    locked: Lock | None = None
    xids: tuple[Xid, ...] | None = None
    out: str = ""
    cleared: float = 0.0


@dataclass(frozen=True, slots=True)
class KernelLog:
    """The driver's errors since boot, or why nobody may look."""

    xids: tuple[Xid, ...] = ()
    unreadable: str = ""


@dataclass(frozen=True, slots=True)
class Driver:
    """NVIDIA's driver. `error` and NVML's `code` say why it answers nothing.

    `module` is the version of the kernel's part, `cuda` the newest that it runs, `toolkit` what is
    installed beside it.
    """

    version: str | None = None
    cuda: str | None = None
    toolkit: str | None = None
    module: str | None = None
    error: str = ""
    code: int | None = None


@dataclass(frozen=True, slots=True)
class Disk:
    """A place that tests write to. MiB; `inodes` are free ones, None where there is no number."""

    what: str
    path: str
    total_mb: float
    free_mb: float
    inodes: int | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """The machine. `driver` is None where its backend is not NVIDIA's.

    `unasked` says why GPUs were not looked at, or not as they should be. `files` is how many files
    a process may have open.
    """

    cards: tuple[Card, ...] = ()
    driver: Driver | None = None
    log: KernelLog = KernelLog()
    disks: tuple[Disk, ...] = ()
    shm: Disk | None = None
    files: int | None = None
    running: tuple[Running, ...] = ()
    unasked: str = ""
