"""What the facts of a machine mean: each check gives one answer; pure.

`CARD_CHECKS` are asked of each GPU, the others of the machine. An answer that is SICK ends the
command with 2; one that is `lasting` takes its GPU out of service.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from runci.core.labels import shown_label
from runci.core.machine import declaration, differences, mismatch
from runci.core.registration import Backend
from runci.run.doctor.facts import Card, Disk, Facts, KernelLog, Need, Process, Running
from runci.run.gpu import SLOWDOWNS, SYSTEM_MB, TOLERANCE_MB
from runci.run.service import Service, put_back, taken_out
from runci.text.wording import plural, some

FREE_MB = 1024.0  # of each place that tests write to
INODES = 10_000
SHM_MB = 32.0
SHM_SEVERAL_MB = 1024.0  # collectives of several GPUs meet there; a container has 64 MiB by default
FILES = 1024
SLOW = 0.4  # of the highest clock, under load
# Xids that a faulty program causes on a sound GPU, https://docs.nvidia.com/deploy/xid-errors
OF_PROGRAMS = frozenset({13, 31, 43, 45, 68, 69})
MISMATCH = 18  # NVML_ERROR_LIB_RM_VERSION_MISMATCH
# What adopts processes whose parent has ended.
_ADOPTERS = frozenset(
    {"systemd", "init", "tini", "dumb-init", "docker-init", "catatonit", "containerd-shim"}
) | {"Runner.Worker", "Runner.Listener"}
RESET = "end what uses the GPU, then `nvidia-smi --gpu-reset -i {}`, or restart the machine"


class State(str, enum.Enum):
    """What a check says. NOTE and UNKNOWN stand beside, and change nothing."""

    WELL = "ok"
    NOTE = "note"
    UNKNOWN = "unknown"
    SICK = "SICK"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one check found. `gpu` is its index, None for the machine; `remedy` is of what is SICK.

    `lasting`: it stays until somebody looks at the GPU, which must not be handed out until then.
    """

    check: str
    state: State
    says: str
    remedy: str = ""
    gpu: int | None = None
    lasting: bool = False

    @property
    def sentence(self) -> str:
        """All of it, for whoever sees no table."""
        where = "" if self.gpu is None else f"GPU {self.gpu}: "
        return f"{where}{self.check}: {self.says}" + (f": {self.remedy}" if self.remedy else "")


def examine(facts: Facts, need: Need) -> list[Answer]:
    """All answers, the machine's first."""
    found = [check(facts, need) for check in NEED_CHECKS]
    found += [check(facts) for check in HOST_CHECKS]
    for card in facts.cards:
        found += [check(card) for check in CARD_CHECKS]
    return [answer for answer in found if answer is not None]


def unfit(answers: Sequence[Answer], cards: Sequence[Card], need: Need) -> tuple[str, ...]:
    """Why the tests cannot run here; nothing where they can.

    A suite runs where as many GPUs as it needs are well, whatever the others have.
    """
    sick = [answer for answer in answers if answer.state is State.SICK]
    bad = {answer.gpu for answer in sick if answer.gpu is not None}
    well = [card for card in fitting(cards, need) if card.gpu.index not in bad]
    enough = need.runner is not None and len(well) >= need.gpus
    return tuple(a.sentence for a in sick if a.gpu is None or not enough)


def fitting(cards: Sequence[Card], need: Need) -> list[Card]:
    """The GPUs that the suite may use: of CUDA's those that are declared, of others all."""
    if need.runner is None or need.backend is not Backend.CUDA:
        return list(cards)
    return [card for card in cards if not differences(need.runner, card.gpu)]


# Of the machine.


def declared(facts: Facts, need: Need) -> Answer:
    """Whether it is the declared one, as evidence compares it."""
    gpus = [card.gpu for card in facts.cards]
    shown = some([f"GPU {gpu.index}: {gpu.shown}" for gpu in gpus]) or "no GPU"
    if need.runner is None or not need.gpus:
        whose = f", and runner {need.runner.name} needs none" if need.runner else ""
        return Answer("machine", State.WELL, f"{shown}{whose if not gpus else ''}")
    if not gpus and facts.unasked and need.backend is not Backend.CUDA:
        says = f"not compared with what {need.runner.name} declares: {facts.unasked}"
        return Answer("machine", State.UNKNOWN, says)
    cuda = need.backend is Backend.CUDA
    wrong = mismatch(need.runner, gpus, cuda=cuda)
    if not wrong or (cuda and len(fitting(facts.cards, need)) >= need.gpus):
        return Answer("machine", State.WELL, f"{shown}, as {need.runner.name} declares")
    return Answer(
        "machine",
        State.SICK,
        f"{need.where}: runner {need.runner.name} is {declaration(need.runner)}, but here: {wrong}",
        f"use a machine with the label {shown_label(need.runner.label)} that has them, or correct "
        "the runner",
    )


def driver(facts: Facts, need: Need) -> Answer | None:
    """Whether NVIDIA's driver answers, and of which versions it is."""
    one = facts.driver
    if one is None:
        return None
    if one.code == MISMATCH:
        module = f" (the kernel has {one.module})" if one.module else ""
        says = f"Driver/library version mismatch{module}: it was updated and not loaded anew"
        return Answer("driver", State.SICK, says, "restart the machine, or reload NVIDIA's modules")
    if one.error:
        wanted = need.backend is Backend.CUDA and need.gpus > 0
        remedy = "install NVIDIA's driver or start it (`nvidia-smi`), or use a machine with GPUs"
        if not wanted and not one.module:  # a machine without GPUs
            return Answer("driver", State.NOTE, one.error)
        return Answer("driver", State.SICK, one.error, remedy)
    versions = [one.version or "of unknown version"]
    versions += [f"CUDA {one.cuda}"] if one.cuda else []
    versions += [f"toolkit {one.toolkit}" if one.toolkit else "no toolkit"]
    newer = bool(one.cuda and one.toolkit) and _major(one.toolkit) > _major(one.cuda)
    says = ", ".join(versions) + (", which is newer than the driver runs" if newer else "")
    return Answer("driver", State.NOTE if newer else State.WELL, says)


def asked(facts: Facts) -> Answer | None:
    """Who was asked for the GPUs, where that was not NVIDIA's driver alone."""
    return Answer("asked", State.NOTE, facts.unasked) if facts.unasked else None


def kernel_log(facts: Facts) -> Answer | None:
    """Whether anybody could look for the driver's errors."""
    if facts.driver is None or facts.driver.error or not facts.log.unreadable:
        return None
    return Answer("kernel log", State.UNKNOWN, f"no Xid can be seen: {facts.log.unreadable}")


def disk(facts: Facts) -> Answer:
    """Whether there is room where tests write."""
    full = [one for one in facts.disks if one.free_mb < FREE_MB]
    crowded = [one for one in facts.disks if one.inodes is not None and one.inodes < INODES]
    if full:
        remedy = f"free {FREE_MB:,.0f} MiB there"
        return Answer("disk", State.SICK, ", ".join(map(_room, full)), remedy)
    if crowded:
        says = ", ".join(f"{one.what} {one.path}: {one.inodes:,} inodes left" for one in crowded)
        return Answer("disk", State.SICK, says, f"remove files there until {INODES:,} are free")
    return Answer("disk", State.WELL, ", ".join(map(_room, facts.disks)))


def shared_memory(facts: Facts, need: Need) -> Answer:
    """Whether processes of a test can share memory."""
    one, wanted = facts.shm, SHM_SEVERAL_MB if need.gpus > 1 else SHM_MB
    if one is None:
        return Answer("shared memory", State.UNKNOWN, "there is no /dev/shm here")
    says = f"{_size(one.free_mb)} of {_size(one.total_mb)} free in {one.path}"
    if one.free_mb >= wanted:
        return Answer("shared memory", State.WELL, says)
    small = one.total_mb < wanted
    remedy = (
        "give the container more (`--shm-size=8g`)" if small else f"remove what is in {one.path}"
    )
    return Answer("shared memory", State.SICK, f"{says}, {_size(wanted)} needed", remedy)


def open_files(facts: Facts) -> Answer:
    """Whether a process may open as many files as tests do."""
    if facts.files is None:
        return Answer("open files", State.WELL, "no limit")
    if facts.files >= FILES:
        return Answer("open files", State.WELL, f"{facts.files:,} a process")
    says = f"a process may open {facts.files:,}, fewer than {FILES:,}"
    return Answer(
        "open files", State.SICK, says, f"`ulimit -n {FILES}` where the runner is started"
    )


def left(facts: Facts) -> Answer:
    """Whether processes of earlier runs are there, whose run has ended."""
    found = abandoned(facts.running)
    if not found:
        return Answer("left processes", State.WELL, "none of an earlier run")
    who = some([str(Process(one.pid, one.owner, one.name)) for one in found])
    pids = " ".join(str(one.pid) for one in found[:20])
    return Answer("left processes", State.SICK, f"of an earlier run: {who}", f"`kill -9 {pids}`")


def abandoned(running: Iterable[Running]) -> list[Running]:
    """The processes of tests above which no run is left."""
    by_pid = {one.pid: one for one in running}

    def of_a_run(one: Running) -> bool:
        seen: set[int] = set()
        while one.ours and one.pid not in seen and one.parent in by_pid:
            seen.add(one.pid)
            one = by_pid[one.parent]
        return not one.ours and one.name not in _ADOPTERS and one.pid > 1

    return [one for one in by_pid.values() if one.ours and not of_a_run(one)]


# Of a GPU.


def lease(card: Card) -> Answer | None:
    """Whether another has it, or a process that should not."""
    lock = card.locked
    if lock is None:
        return None
    if not lock.gone:
        says = f"{lock.said}: nothing was started on it"
        return Answer("lease", State.NOTE, says, gpu=card.gpu.index)
    heirs = some(list(map(str, lock.heirs)))
    says = f"{lock.said}, which has ended; {heirs} inherited its lock"
    remedy = "`kill -9 " + " ".join(str(one.pid) for one in lock.heirs) + "`"
    return Answer("lease", State.SICK, says, remedy, card.gpu.index)


def memory(card: Card) -> Answer:
    """Whether it is free."""
    index = card.gpu.index
    if card.used_mb is None:
        return Answer("memory", State.UNKNOWN, "the driver does not say", gpu=index)
    used = f"{card.used_mb:,.0f} MiB in use"
    if card.locked is not None or (not card.processes and card.used_mb <= SYSTEM_MB + TOLERANCE_MB):
        return Answer("memory", State.WELL, used, gpu=index)
    who = some(list(map(str, card.processes))) or "a process that the driver does not show here"
    remedy = "end it, or run its jobs through `runci run`, whose leases keep them apart"
    return Answer("memory", State.SICK, f"{used} by {who}", remedy, index)


def ecc(card: Card) -> Answer:
    """Whether its memory lost bits since the driver was loaded."""
    index = card.gpu.index
    if card.ecc is None:
        return Answer("ECC", State.UNKNOWN, "not counted by this GPU or driver", gpu=index)
    if not card.ecc:
        return Answer("ECC", State.WELL, "no uncorrected error", gpu=index)
    says = plural(card.ecc, "uncorrected errors")
    return Answer("ECC", State.SICK, says, RESET.format(index), index, lasting=True)


def rows(card: Card) -> Answer:
    """Whether bad rows or pages of its memory wait to be replaced, or cannot be."""
    index = card.gpu.index
    if card.remap_failed:
        says, remedy = "a bad row cannot be remapped", "have the GPU replaced"
        return Answer("bad memory", State.SICK, says, remedy, index, lasting=True)
    if card.retirement:
        says = "bad rows or pages wait to be taken out of use"
        return Answer("bad memory", State.SICK, says, RESET.format(index), index, lasting=True)
    if card.remap_failed is None and card.retirement is None:
        return Answer("bad memory", State.UNKNOWN, "this GPU or driver does not say", gpu=index)
    return Answer("bad memory", State.WELL, "none waits to be replaced", gpu=index)


def xid(card: Card) -> Answer | None:
    """Whether the kernel's log has errors of it."""
    index = card.gpu.index
    if card.xids is None:
        return None
    found = [one for one in card.xids if one.at > card.cleared]
    bad = [one for one in found if one.code not in OF_PROGRAMS]
    if bad:
        codes = ", ".join(sorted({str(one.code) for one in bad}, key=int))
        says = f"{codes} since boot, last: {bad[-1].text}"
        remedy = f"{RESET.format(index)}; then `runci doctor --clear {index}`"
        return Answer("Xid", State.SICK, says, remedy, index, lasting=True)
    if found:
        codes = ", ".join(sorted({str(one.code) for one in found}, key=int))
        says = f"{codes} since boot, which faulty programs cause"
        return Answer("Xid", State.NOTE, says, gpu=index)
    return Answer("Xid", State.WELL, "none since boot", gpu=index)


def slowdown(card: Card) -> Answer:
    """Whether something holds its clocks down that should not."""
    index = card.gpu.index
    if card.reasons is None:
        return Answer("slowdown", State.UNKNOWN, "the driver does not say", gpu=index)
    found = [reason for reason in card.reasons if reason in SLOWDOWNS]
    if not found:
        return Answer("slowdown", State.WELL, "none", gpu=index)
    remedy = "look at its cooling and its power supply"
    return Answer("slowdown", State.SICK, ", ".join(found), remedy, index, lasting=True)


def clock(card: Card) -> Answer | None:
    """Whether its clock rose under load. A limit that somebody set is no fault."""
    index = card.gpu.index
    if card.product is None or not card.product.rounds:
        return None
    if not card.clock or not card.clock_most:
        return Answer("clock", State.UNKNOWN, "the driver does not say", gpu=index)
    says = f"{card.clock:,} of {card.clock_most:,} MHz under load"
    if card.clock >= SLOW * card.clock_most:
        return Answer("clock", State.WELL, says, gpu=index)
    if "application clocks" in (card.reasons or ()):
        return Answer("clock", State.NOTE, f"{says}, as somebody set it", gpu=index)
    remedy = f"`nvidia-smi -rgc -i {index}`; where that does not help, restart the machine"
    return Answer("clock", State.SICK, f"stuck at {says}", remedy, index, lasting=True)


def link(card: Card) -> Answer:
    """Whether all lanes of its slot work."""
    index = card.gpu.index
    if not card.link or not card.link_most:
        return Answer("PCIe", State.UNKNOWN, "the driver does not say", gpu=index)
    if card.link >= card.link_most:
        return Answer("PCIe", State.WELL, f"{card.link} lanes", gpu=index)
    says = f"{card.link} of {card.link_most} lanes"
    remedy = "have the card seated anew; a slot with fewer lanes is not told apart from that"
    return Answer("PCIe", State.SICK, says, remedy, index, lasting=True)


def persistence(card: Card) -> Answer | None:
    """Whether the driver stays loaded between processes: without, each start takes seconds."""
    if card.persistence is None:
        return None
    if card.persistence:
        return Answer("persistence", State.WELL, "on", gpu=card.gpu.index)
    says = "off: each first use loads the driver (`nvidia-smi -pm 1`)"
    return Answer("persistence", State.NOTE, says, gpu=card.gpu.index)


def product(card: Card) -> Answer | None:
    """Whether it computes what it should."""
    index, one = card.gpu.index, card.product
    if one is None:
        return None
    if one.skipped:
        return Answer("product", State.UNKNOWN, f"skipped: {one.skipped}", gpu=index)
    if one.error:
        return Answer("product", State.SICK, one.error, RESET.format(index), index, lasting=True)
    if one.wrong:
        says = f"{plural(one.wrong, 'elements')} of a matrix product wrong in {one.rounds} rounds"
        return Answer("product", State.SICK, says, "have it replaced", index, lasting=True)
    return Answer("product", State.WELL, f"exact in {plural(one.rounds, 'rounds')}", gpu=index)


def service(card: Card) -> Answer | None:
    """Whether it is out of service, and nothing here shows that it is well again."""
    if not card.out or looked_at(card):
        return None
    remedy = f"once it was looked at: `runci doctor --clear {card.gpu.index}`"
    return Answer("service", State.SICK, card.out, remedy, card.gpu.index)


def updated(
    now: Service, cards: Iterable[Card], answers: Sequence[Answer], by: str, at: float
) -> Service:
    """What is out of service from now on: what has something lasting; not what computed well."""
    for card in cards:
        own = [a for a in answers if a.gpu == card.gpu.index and a.state is State.SICK]
        reasons = tuple(f"{a.check}: {a.says}" for a in own if a.lasting)
        if reasons:
            now = taken_out(now, card.gpu, reasons, by, at)
        elif looked_at(card):
            now = put_back(now, card.gpu.uuid)
    return now


def looked_at(card: Card) -> bool:
    """Whether the GPU computed here, so that what else is known of it can put it in service."""
    return card.product is not None and card.product.rounds > 0


NEED_CHECKS: tuple[Callable[[Facts, Need], Answer | None], ...] = (
    *(declared, driver, shared_memory),
)
HOST_CHECKS: tuple[Callable[[Facts], Answer | None], ...] = (
    *(asked, kernel_log, disk, open_files, left),
)
CARD_CHECKS: tuple[Callable[[Card], Answer | None], ...] = (
    *(lease, memory, ecc, rows, xid, slowdown, clock, link, persistence, product, service),
)


def with_xids(card: Card, log: KernelLog) -> Card:
    """The GPU with what the kernel's log says of it."""
    if log.unreadable or not card.bus:
        return card
    return replace(card, xids=tuple(one for one in log.xids if same_bus(one.bus, card.bus)))


def same_bus(one: str, other: str) -> bool:
    """Whether two PCI addresses are one slot: «0000:3B:00» of a log, «00000000:3B:00.0» of NVML."""
    return _slot(one) == _slot(other)


def _slot(bus: str) -> tuple[int, ...]:
    return tuple(int(part, 16) for part in bus.partition(".")[0].split(":"))


def _room(one: Disk) -> str:
    return f"{one.what} {one.path}: {_size(one.free_mb)} free"


def _size(mb: float) -> str:
    return f"{mb / 1024:,.1f} GiB" if mb >= 1024 else f"{mb:,.0f} MiB"


def _major(version: str | None) -> int:
    first = (version or "").partition(".")[0]
    return int(first) if first.isdecimal() else 0
