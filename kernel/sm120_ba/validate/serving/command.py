"""`validate serve MANIFEST.toml`: boot two configurations of a server in turn, and compare."""

from __future__ import annotations

import argparse
import asyncio
import signal
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from types import FrameType

import msgspec
from filelock import FileLock, Timeout
from tqdm import tqdm

from sm120_ba.validate.commands import UsageError, say
from sm120_ba.validate.report import Report, as_markdown, machine, write, write_text
from sm120_ba.validate.serving import outcome, plot, processes, records
from sm120_ba.validate.serving.boots import run_boot
from sm120_ba.validate.serving.manifest import Plan, load_plan
from sm120_ba.validate.serving.records import Request

INTERRUPTED = 130
RUN = "run.json"


class Run(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What all boots of a folder have in common."""

    id: str
    manifest: str
    prompts: str
    machine: dict[str, str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("manifest", type=Path, help="a TOML file, see kernel/README.md")
    parser.add_argument(
        "--out", type=Path, help="where all is kept; default: the manifest's name, here"
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on with the boots that are not finished in --out"
    )
    parser.add_argument(
        "--device",
        default="cpu",
        help="cuda:0: name the GPU and driver in the report (default cpu)",
    )
    parser.add_argument(
        "--report", type=Path, help="the report (.json; .md and .svg beside); default: in --out"
    )


def run(arguments: argparse.Namespace) -> int:
    """0: no difference found; 1: slower, other answers, or a failure; 2: wrong use."""
    plan = load_plan(arguments.manifest)
    folder = arguments.out or Path(arguments.manifest.stem)
    path = arguments.report or folder / "report.json"
    try:
        with _alone(folder, resume=arguments.resume), _ended_by_signals():
            state = _begin(plan, folder, _machine(arguments.device), resume=arguments.resume)
            broken = _run_boots(plan, state.id, folder)
            report = _reported(plan, state, folder, broken, path)
    except KeyboardInterrupt:
        say(f"interrupted; the server was ended, and `--resume --out {folder}` goes on")
        return INTERRUPTED
    print(as_markdown(report))
    say(f"all of it: {path}")
    return report.status


@contextmanager
def _alone(folder: Path, *, resume: bool) -> Iterator[None]:
    """Keep a second run out of the folder, which would end this one's servers."""
    if resume and not (folder / RUN).is_file():
        raise UsageError(f"--resume: there is no {folder / RUN}; leave --resume out to begin")
    if not resume and folder.exists() and any(folder.iterdir()):
        raise UsageError(f"--out {folder} is not empty; --resume goes on with it, or name another")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / ".lock", timeout=0):
            yield
    except Timeout:
        raise UsageError(f"--out {folder}: another run is at work there; wait for it") from None


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """End the server on SIGTERM and SIGHUP as on Ctrl-C."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    # What is ignored stays so: `nohup` ignores SIGHUP.
    chosen = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in chosen}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _begin(plan: Plan, folder: Path, here: dict[str, str], *, resume: bool) -> Run:
    """What this folder is of; resumed, it must be of this manifest, prompts and machine."""
    now = Run(uuid.uuid4().hex, plan.sha256, plan.prompts_sha256, here)
    path = folder / RUN
    if not resume:
        write_text(path, msgspec.json.encode(now).decode() + "\n")
        return now
    try:
        begun = msgspec.json.decode(path.read_bytes(), type=Run)
    except msgspec.DecodeError as error:
        raise UsageError(f"{path}: {error}; begin anew with another --out") from None
    for name in ("manifest", "prompts", "machine"):
        before, after = getattr(begun, name), getattr(now, name)
        if before != after:
            raise UsageError(
                f"--resume: the {name} of {path} is {before}, now it is {after}; "
                "boots of both cannot be compared: restore it, or begin with another --out"
            )
    _, alive = processes.end(lambda: processes.tree(begun.id), plan.manifest.timeouts.stop)
    if alive:
        raise UsageError(f"--resume: {alive} processes of the broken boot live on; end them first")
    return begun


def _machine(device: str) -> dict[str, str]:
    """A GPU is looked at in a process of its own, so that this one does not hold it."""
    if device == "cpu":
        return machine()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            return pool.submit(machine, device).result()
        except (AssertionError, RuntimeError, ValueError) as error:  # of torch
            raise UsageError(f"--device {device}: {error}; name cpu or cuda:N") from None


def _run_boots(plan: Plan, run_id: str, folder: Path) -> list[str]:
    """Run what is not finished; gives the names of the folders that were begun and left."""
    for name in plan.manifest.boots:
        place = folder / name
        if records.finished(place):
            say(f"{name}: finished before")
            continue
        if place.exists():
            number = 1 + len(list(folder.glob(f"{name}.broken-*")))
            place.rename(folder / f"{name}.broken-{number}")
        _run_one(plan, run_id, name, place)
    return sorted(path.name for path in folder.glob("*.broken-*"))


def _run_one(plan: Plan, run_id: str, name: str, place: Path) -> None:
    load = plan.manifest.load
    total = load.requests * len(load.concurrencies)
    say(f"{name}: {plan.variable}={plan.manifest.arm(name).environment.get(plan.variable)}")
    failed = 0
    # `disable=None`: a bar on a terminal, and nothing off it.
    with tqdm(total=total, desc=name, unit="request", disable=None) as bar:

        def tick(request: Request) -> None:
            nonlocal failed
            failed += request.error is not None
            bar.set_postfix_str(f"{request.concurrency} at once, {failed} failed", refresh=False)
            bar.update()

        boot = asyncio.run(run_boot(plan, run_id, name, place, tick))
    healthy = boot.healthy_after_s
    waited = "never healthy" if healthy is None else f"healthy after {healthy:.1f} s"
    say(f"{name}: {waited}, {total} requests, {failed} failed")
    for failure in boot.failures:
        say(f"{name}: {failure}")


def _reported(plan: Plan, state: Run, folder: Path, broken: list[str], path: Path) -> Report:
    found = _found(plan, folder)
    report = outcome.report(plan, found, broken, state.machine)
    write(report, path)
    groups = outcome.compared(plan, found).groups
    if groups:
        write_text(path.with_suffix(".svg"), plot.svg(groups, f"A and B: {plan.variable}"))
    return report


def _found(plan: Plan, folder: Path) -> Mapping[str, tuple[records.Boot, tuple[Request, ...]]]:
    try:
        return {name: records.read_boot(folder / name) for name in plan.manifest.boots}
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{folder}: {error}; a record was changed after its boot") from None
