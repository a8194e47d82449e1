"""What each fact of a machine means, and what of it takes a GPU out of service."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from runci import register_cpu_ci
from runci.config.taxonomy import Runner
from runci.core.machine import Gpu
from runci.core.registration import Backend
from runci.run.doctor import rules
from runci.run.doctor.facts import (
    Card,
    Disk,
    Driver,
    Facts,
    KernelLog,
    Lock,
    Need,
    Process,
    Product,
    Running,
    Xid,
)
from runci.run.doctor.gpus import answered, highest
from runci.run.doctor.host import lasting, xids_of
from runci.run.doctor.report import Report, as_github, as_text
from runci.run.doctor.rules import Answer, State, examine, unfit, updated, with_xids
from runci.run.service import Service, taken_out

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

WELL, NOTE, UNKNOWN, SICK = State
H100 = Gpu(0, "GPU-aa", "NVIDIA H100 80GB HBM3", "9.0", 81559.0)
RUNNER = Runner("large", "1-gpu-h100", 1, "H100", "9.0", 80.0, line=7)
NEED = Need(Backend.CUDA, RUNNER, "test/suites.yml:7")
CPU = Need(Backend.CPU, Runner("cpu", "ubuntu-latest"), "test/suites.yml:3")
SOMEBODY = Process(4711, "ann", "python", 9000.0)
CARD = Card(
    H100,
    bus="00000000:3B:00.0",
    used_mb=4.0,
    ecc=0,
    retirement=False,
    remap_failed=False,
    link=16,
    link_most=16,
    clock=1980,
    clock_most=1980,
    reasons=("power cap",),
    persistence=True,
    product=Product(40),
    xids=(),
)
DRIVER = Driver("580.95.05", "13.0", "12.9.1", "580.95.05")
ROOM = Disk("results", "/w", 1e6, 5e4, 10**6)
FACTS = Facts((CARD,), DRIVER, KernelLog(), (ROOM,), Disk("", "/dev/shm", 8192, 8000), 4096)


def told(answer: Answer | None) -> tuple[State, str] | None:
    return answer and (answer.state, answer.says)


def test_a_sound_machine_is_well_throughout() -> None:
    answers = examine(FACTS, NEED)
    assert {answer.state for answer in answers} == {WELL}
    assert unfit(answers, FACTS.cards, NEED) == ()
    assert {answer.check for answer in answers} == {
        *("machine", "driver", "shared memory", "disk", "open files", "left processes"),
        *("memory", "ECC", "bad memory", "Xid", "slowdown", "clock", "PCIe"),
        *("persistence", "product"),
    }


def xid(code: int, at: float = 100.0, bus: str = "0000:3b:00") -> Xid:
    return Xid(bus, code, f"Xid {code}, what it says", at)


# The card's fact, the check, what it says, a part of its text, and whether the GPU leaves service.
CARDS: list[tuple[dict[str, object], str, State | None, str, bool]] = [
    ({"used_mb": None}, "memory", UNKNOWN, "does not say", False),
    ({"used_mb": 1200.0}, "memory", WELL, "1,200 MiB", False),
    ({"used_mb": 1300.0}, "memory", SICK, "1,300 MiB in use by a process that", False),
    ({"processes": (SOMEBODY,)}, "memory", SICK, "python (pid 4711, ann, 9,000 MiB)", False),
    (
        {"used_mb": 9e3, "processes": (SOMEBODY,), "locked": Lock("leased"), "product": None},
        *("memory", WELL, "9,000 MiB", False),
    ),
    ({"locked": Lock("leased by process 7 in /w")}, "lease", NOTE, "process 7 in /w", False),
    (
        {"locked": Lock("leased by process 7 in /w", True, (SOMEBODY,))},
        *("lease", SICK, "process 7 in /w, which has ended; python (pid 4711", False),
    ),
    ({}, "lease", None, "", False),
    ({"ecc": None}, "ECC", UNKNOWN, "", False),
    ({"ecc": 1}, "ECC", SICK, "1 uncorrected error", True),
    ({"retirement": True}, "bad memory", SICK, "taken out of use", True),
    ({"remap_failed": True, "retirement": True}, "bad memory", SICK, "cannot be remapped", True),
    ({"retirement": None, "remap_failed": None}, "bad memory", UNKNOWN, "", False),
    ({"remap_failed": None}, "bad memory", WELL, "", False),  # older: pages only
    ({"xids": None}, "Xid", None, "", False),
    ({"xids": (xid(79), xid(31))}, "Xid", SICK, "79 since boot, last: Xid 79, what", True),
    ({"xids": (xid(48), xid(119))}, "Xid", SICK, "48, 119 since boot, last: Xid 119", True),
    ({"xids": (xid(13), xid(31), xid(43), xid(45))}, "Xid", NOTE, "13, 31, 43, 45", False),
    ({"xids": (xid(79),), "cleared": 100.0}, "Xid", WELL, "none", False),
    ({"xids": (xid(79),), "cleared": 99.0}, "Xid", SICK, "79", True),
    ({"reasons": None}, "slowdown", UNKNOWN, "", False),
    ({"reasons": ("application clocks", "sync boost")}, "slowdown", WELL, "none", False),
    ({"reasons": ("power cap", "power brake")}, "slowdown", SICK, "power brake", True),
    ({"reasons": ("thermal slowdown",)}, "slowdown", SICK, "thermal slowdown", True),
    ({"reasons": ("hardware slowdown",)}, "slowdown", SICK, "hardware slowdown", True),
    ({"clock": 792}, "clock", WELL, "792 of 1,980 MHz", False),
    ({"clock": 345}, "clock", SICK, "stuck at 345 of 1,980 MHz", True),
    ({"clock": 345, "reasons": ("application clocks",)}, "clock", NOTE, "345", False),
    ({"clock": 345, "product": Product(skipped="no libcuda")}, "clock", None, "", False),
    ({"clock": None}, "clock", UNKNOWN, "", False),
    ({"link": 8}, "PCIe", SICK, "8 of 16 lanes", True),
    ({"link_most": None}, "PCIe", UNKNOWN, "", False),
    ({"persistence": False}, "persistence", NOTE, "nvidia-smi -pm 1", False),
    ({"persistence": None}, "persistence", None, "", False),
    ({"product": Product(3, 1)}, "product", SICK, "1 element of a matrix product wrong", True),
    ({"product": Product(error="cuInit: no device")}, "product", SICK, "cuInit", True),
    ({"product": Product(skipped="no libcuda")}, "product", UNKNOWN, "no libcuda", False),
    ({"product": None}, "product", None, "", False),
    ({"out": "Xid: 79", "product": None}, "service", SICK, "Xid: 79", False),
    ({"out": "Xid: 79", "product": Product(skipped="x")}, "service", SICK, "Xid: 79", False),
    ({"out": "Xid: 79"}, "service", None, "", False),  # it computed, and nothing else is wrong
]


@pytest.mark.parametrize(("fact", "check", "state", "says", "leaves"), CARDS)
def test_what_a_fact_of_a_gpu_means(
    fact: dict[str, object], check: str, state: State | None, says: str, leaves: bool
) -> None:
    card = replace(CARD, **fact)  # type: ignore[arg-type]
    answers = examine(replace(FACTS, cards=(card,)), NEED)
    found = [answer for answer in answers if answer.check == check]
    assert [answer.state for answer in found] == ([] if state is None else [state])
    for answer in found:
        assert says in answer.says and answer.gpu == 0
        assert bool(answer.remedy) is (state is SICK)
    others = {a.check for a in answers if a.state is SICK} - {check}
    assert not others  # one fact, one finding
    assert bool(unfit(answers, (card,), NEED)) is (state is SICK)
    out = updated(Service(), (card,), answers, "me", 5.0).by_uuid()
    assert (H100.uuid in out) is leaves


def test_every_check_of_a_gpu_stands_in_the_table() -> None:
    assert len({check for _, check, _, _, _ in CARDS}) == len(rules.CARD_CHECKS)


def disk(**values: object) -> Facts:
    return replace(FACTS, disks=(ROOM, replace(ROOM, what="cache", path="/c", **values)))  # type: ignore[arg-type]


def shm(free: float, total: float = 8192) -> Facts:
    return replace(FACTS, shm=Disk("", "/dev/shm", total, free))


def with_driver(**values: object) -> Facts:
    return replace(FACTS, driver=replace(DRIVER, **values))  # type: ignore[arg-type]


def gone(code: int, error: str, module: str | None = None) -> Facts:
    return replace(FACTS, cards=(), driver=Driver(error=error, code=code, module=module))


TWO = replace(NEED, runner=replace(RUNNER, gpus=2))
PAIR = (CARD, replace(CARD, gpu=replace(H100, index=1, uuid="GPU-bb")))
HOSTS: list[tuple[Callable[..., Answer | None], Facts, Need, State | None, str]] = [
    (rules.disk, disk(free_mb=1023.0), CPU, SICK, "cache /c: 1,023 MiB free"),
    (rules.disk, disk(free_mb=1024.0), CPU, WELL, "cache /c: 1.0 GiB free"),
    (rules.disk, disk(inodes=9_999), CPU, SICK, "cache /c: 9,999 inodes left"),
    (rules.disk, disk(inodes=None), CPU, WELL, "/c"),
    (rules.shared_memory, shm(31), CPU, SICK, "31 MiB of 8.0 GiB free in /dev/shm"),
    (rules.shared_memory, shm(60, 64), NEED, WELL, "60 MiB"),
    (rules.shared_memory, shm(60, 64), TWO, SICK, "60 MiB of 64 MiB free"),
    (rules.shared_memory, shm(1024), TWO, WELL, ""),
    (rules.shared_memory, replace(FACTS, shm=None), TWO, UNKNOWN, ""),
    (rules.open_files, replace(FACTS, files=1023), CPU, SICK, "1,023"),
    (rules.open_files, replace(FACTS, files=1024), CPU, WELL, "1,024"),
    (rules.open_files, replace(FACTS, files=None), CPU, WELL, "no limit"),
    (rules.driver, FACTS, NEED, WELL, "580.95.05, CUDA 13.0, toolkit 12.9.1"),
    (rules.driver, with_driver(toolkit=None), NEED, WELL, "no toolkit"),
    (rules.driver, with_driver(toolkit="13.1"), NEED, WELL, "toolkit 13.1"),
    (rules.driver, with_driver(cuda="12.4", toolkit="13.1"), NEED, NOTE, "newer than the driver"),
    (rules.driver, with_driver(cuda="9.2", toolkit="12.1"), NEED, NOTE, "newer than the driver"),
    (
        *(rules.driver, gone(18, "Driver/library version mismatch", "570.1"), NEED, SICK),
        "Driver/library version mismatch (the kernel has 570.1)",
    ),
    (rules.driver, gone(18, "Driver/library version mismatch"), Need(), SICK, "mismatch"),
    (rules.driver, gone(12, "NVML Shared Library Not Found"), NEED, SICK, "Not Found"),
    (rules.driver, gone(12, "NVML Shared Library Not Found"), Need(), NOTE, "Not Found"),
    (rules.driver, gone(9, "Driver Not Loaded", "580.1"), Need(), SICK, "Not Loaded"),
    (rules.driver, gone(15, "GPU is lost"), NEED, SICK, "GPU is lost"),
    (rules.driver, replace(FACTS, driver=None), CPU, None, ""),
    (rules.kernel_log, FACTS, NEED, None, ""),
    (
        *(rules.kernel_log, replace(FACTS, log=KernelLog((), "not permitted")), NEED, UNKNOWN),
        "not permitted",
    ),
    (rules.kernel_log, replace(gone(12, "x"), log=KernelLog((), "n")), CPU, None, ""),
    (rules.declared, FACTS, NEED, WELL, "GPU 0: NVIDIA H100 80GB HBM3"),
    (rules.declared, FACTS, TWO, SICK, "1 GPU, not 2"),
    (rules.declared, replace(FACTS, cards=PAIR), TWO, WELL, "GPU 1"),
    (rules.declared, replace(FACTS, cards=()), NEED, SICK, "0 GPUs, not 1"),
    (rules.declared, replace(FACTS, cards=()), CPU, WELL, "runner cpu needs none"),
    (rules.declared, replace(FACTS, cards=()), Need(), WELL, "no GPU"),
    (
        rules.declared,
        replace(FACTS, cards=(replace(CARD, gpu=replace(H100, name="NVIDIA H100 NVL")),)),
        *(NEED, SICK, "it is no H100"),
    ),
    (
        rules.declared,  # the display's card is not used
        replace(FACTS, cards=(replace(CARD, gpu=Gpu(0, "d", "RTX 3060", "8.6", 12288.0)), PAIR[1])),
        *(NEED, WELL, "RTX 3060"),
    ),
    (
        rules.declared,
        Facts(unasked="amdsmi is not installed"),
        *(replace(NEED, backend=Backend.AMD), UNKNOWN, "amdsmi is not installed"),
    ),
    (rules.asked, Facts(unasked="amdsmi, not verified"), CPU, NOTE, "not verified"),
    (rules.asked, FACTS, CPU, None, ""),
]


@pytest.mark.parametrize(("check", "facts", "need", "state", "says"), HOSTS)
def test_what_a_fact_of_the_host_means(
    check: Callable[..., Answer | None], facts: Facts, need: Need, state: State | None, says: str
) -> None:
    asks_need = check in rules.NEED_CHECKS
    answer = check(facts, need) if asks_need else check(facts)
    assert (answer.state if answer else None) is state
    if answer is not None:
        assert says in answer.says and bool(answer.remedy) is (state is SICK)
        assert answer.gpu is None and not answer.lasting
        assert bool(unfit([answer], facts.cards, need)) is (state is SICK)


def run(*rows: tuple[int, int, str, bool]) -> list[int]:
    found = [Running(pid, parent, "ann", name, ours) for pid, parent, name, ours in rows]
    return [one.pid for one in rules.abandoned(found)]


def test_left_processes_are_tests_above_which_no_run_is() -> None:
    init = (1, 0, "systemd", False)
    worker = (5, 1, "Runner.Worker", False)
    alive = [(10, 5, "runci", False), (11, 10, "python", True), (12, 11, "test_a.py", True)]
    assert run(init, worker, *alive, (20, 5, "sshd", False)) == []
    # The run was killed: its server, or what a test started, went to whoever adopts.
    assert run(init, worker, (11, 1, "python", True), (12, 11, "test_a.py", True)) == [11, 12]
    assert run(init, worker, (12, 5, "test_a.py", True)) == [12]
    assert run(init, *alive[1:]) == [11, 12]  # a parent that is not visible is none
    assert run((1, 0, "runci", False), (11, 1, "python", True)) == [11]
    assert run((7, 7, "python", True)) == [7]  # no endless walk
    facts = replace(FACTS, running=(Running(12, 1, "ann", "test_a.py", True),))
    answer = rules.left(facts)
    assert (answer.state, answer.remedy) == (SICK, "`kill -9 12`")
    assert "test_a.py (pid 12, ann)" in answer.says


def test_what_is_about_to_end_is_not_left() -> None:
    left, other = Running(12, 1, "ann", "test_a.py", True), Running(20, 1, "ann", "sshd")
    for answers, asked in (([[left, other], [other]], 2), ([[left]] * 2, 2), ([[other]], 1)):
        given = iter(answers)
        found = lasting(lambda given=given: next(given), pause=0)  # type: ignore[misc]
        assert found == tuple(answers[-1])
        assert len(answers) - len(list(given)) == asked


@pytest.mark.parametrize(
    ("runner", "sick", "fit"),
    [
        (RUNNER, (0,), True),  # the other one is enough
        (RUNNER, (0, 1), False),
        (TWO.runner, (1,), False),
        (CPU.runner, (0, 1), True),
        (None, (0,), False),  # nobody said what is needed
    ],
)
def test_a_suite_needs_only_its_own_number_of_gpus(
    runner: Runner | None, sick: tuple[int, ...], fit: bool
) -> None:
    cards = tuple(replace(c, ecc=3) if c.gpu.index in sick else c for c in PAIR)
    need = Need(Backend.CUDA if runner else None, runner, "s:1")
    answers = examine(replace(FACTS, cards=cards), need)
    assert (unfit(answers, cards, need) == ()) is fit
    assert updated(Service(), cards, answers, "me", 1.0).by_uuid().keys() == {
        cards[index].gpu.uuid for index in sick
    }


def test_a_card_that_is_not_declared_makes_nobody_fit() -> None:
    other = replace(PAIR[1], gpu=Gpu(1, "GPU-d", "NVIDIA RTX 3060", "8.6", 12288.0))
    cards = (replace(CARD, ecc=1), other)
    answers = examine(replace(FACTS, cards=cards), NEED)
    assert unfit(answers, cards, NEED)


def test_only_what_computed_goes_back_in_service() -> None:
    before = taken_out(Service(), H100, ("Xid: 79",), "me", 1.0)
    for card, back in (
        (CARD, True),
        (replace(CARD, product=Product(skipped="x"), out="Xid: 79"), False),
        (replace(CARD, product=None, locked=Lock("x"), out="Xid: 79"), False),
        (replace(CARD, processes=(SOMEBODY,)), True),  # that passes by itself
    ):
        answers = examine(replace(FACTS, cards=(card,)), NEED)
        after = updated(before, (card,), answers, "me", 9.0)
        assert after == (Service() if back else before)


def test_the_table_says_the_same_of_several_gpus_once_and_obeys_nobody() -> None:
    named = replace(SOMEBODY, name="\x1b[2J ::error::x ##[error]")
    cards = (*PAIR, replace(CARD, gpu=replace(H100, index=2, uuid="GPU-cc"), processes=(named,)))
    answers = tuple(examine(replace(FACTS, cards=cards), NEED))
    report = Report(replace(FACTS, cards=cards), answers, (), 1.0)
    text = as_text(report, 80)
    assert "\x1b" not in text
    assert all(len(line) <= 80 for line in text.splitlines() if "##" not in line)
    rows = [line.split()[:3] for line in text.splitlines()]
    assert ["ok", "ECC", "all"] in rows
    assert ["ok", "memory", "0,"] in rows and ["SICK", "memory", "2"] in rows
    assert "this machine is fit in spite of 1 finding; 3 GPUs, 1.0 s" in text
    lines = as_github(report, 80).splitlines()
    commands = [line for line in lines if line.lstrip().startswith("::")]
    assert len(commands) == 1 and commands[0].startswith("::warning title=runci doctor::GPU 2")
    assert not any("##[" in line for line in lines if line not in commands)


LOG = [
    (1.5, "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus."),
    (2.5, "NVRM: Xid (PCI:0000:AF:00): 31, pid='<unknown>', name=<unknown>, Ch 00000008"),
    (3.5, "nvidia 0000:3b:00.0: a line about Xid 79"),
    (4.5, "usb 1-1: new device"),
    (5.5, "[  12.3] NVRM: Xid (PCI:0000:3b:00.0): 154"),
]


def test_xids_are_read_from_the_drivers_lines_and_belong_to_their_slot() -> None:
    found = xids_of(LOG)
    assert [(one.code, one.at) for one in found] == [(79, 1.5), (31, 2.5), (154, 5.5)]
    assert found[0].text.endswith("GPU has fallen off the bus.")
    log = KernelLog(found)
    mine = with_xids(replace(CARD, xids=None), log).xids
    assert mine is not None and [one.code for one in mine] == [79, 154]
    assert with_xids(replace(CARD, bus="", xids=None), log).xids is None
    assert with_xids(replace(CARD, xids=None), KernelLog(unreadable="no")).xids is None


@pytest.mark.parametrize(
    ("status", "output", "error", "wanted"),
    [
        (0, b'{"rounds": 3, "wrong": 0}\n', b"", Product(3)),
        (0, b'{"skipped": "no libcuda"}\n', b"", Product(skipped="no libcuda")),
        (-11, b"", b"", Product(error="the product ended by signal 11")),
        (1, b"", b"a\nMemoryError\n", Product(error="the product ended with 1: MemoryError")),
        (0, b'{"other": 1}', b"", Product(error="the product ended with 0")),
    ],
)
def test_what_the_product_said(status: int, output: bytes, error: bytes, wanted: Product) -> None:
    assert answered(status, output, error) == wanted


def test_of_what_was_seen_under_load_the_highest_counts() -> None:
    def seen(clock: int | None, link: int | None, *reasons: str) -> dict[str, object]:
        most = {"clock_most": 1980, "link_most": 16}
        return {"clock": clock, "link": link, "reasons": reasons, **most}

    assert highest(
        [seen(345, 4), seen(1980, 16, "power cap"), seen(None, None, "power brake")]
    ) == {
        "clock": 1980,
        "clock_most": 1980,
        "link": 16,
        "link_most": 16,
        "reasons": ("power cap", "power brake"),
    }
    assert highest([{**seen(None, None), "reasons": None}])["reasons"] is None
    assert highest([]) == {}


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
