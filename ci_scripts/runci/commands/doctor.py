"""`runci doctor`: whether this machine is fit for tests; what is not leaves service."""

from __future__ import annotations

import argparse
import getpass
import os
import platform
import time
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from runci.commands.shared import config_argument, read_suites, root_argument
from runci.core.errors import Exit, RunciError, UnfitMachine, with_extra
from runci.core.registration import Backend
from runci.text.terminal import terminal_width, write

if TYPE_CHECKING:
    from runci.run.doctor.facts import Facts, Need
    from runci.run.doctor.gpus import Asked
    from runci.run.doctor.report import Report
    from runci.run.doctor.rules import Answer

RESULTS = ".runci/results"  # where `runci run` writes, if it is told nothing else
FILE = "doctor.json"
_NEEDS = ("psutil", "filelock")


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    command.description = (
        "Says whether this machine can run tests: its GPUs and driver, disks, limits and what "
        "earlier runs left. A GPU that needs somebody to look at it is taken out of service."
    )
    command.add_argument("--suite", metavar="NAME", help="whose runner the machine must be")
    command.add_argument(
        "--hw", choices=[backend.value for backend in Backend], help="the backend of the suite"
    )
    command.add_argument("--gpus", metavar="IDS", help="indices or UUIDs (default: the visible)")
    command.add_argument("--clear", metavar="GPU", help="put this GPU back in service, and end")
    command.add_argument("--results", metavar="DIR", help=f"keep what was found there, as {FILE}")
    command.add_argument("--shard", metavar="ID", default="", help="whose results those are")
    command.add_argument("--format", choices=("text", "json", "github"), default="text")
    root_argument(command)
    config_argument(command)


def run(options: Namespace) -> int:
    """The command."""
    _require()
    if options.clear is not None:
        return _clear(options.clear)
    from runci.run.doctor.report import as_github, as_json, as_text

    report = _look(options)
    if options.results is not None:
        report = _kept(Path(options.results), report)
    if options.format == "json":
        write(as_json(report))
    else:
        write((as_github if options.format == "github" else as_text)(report, terminal_width()))
    return Exit.USAGE if report.unfit else Exit.OK


def _require() -> None:
    """Say what is missing before anything is asked."""
    if os.name != "posix":
        raise RunciError("`runci doctor` needs Linux or macOS")
    from importlib.util import find_spec

    missing = [name for name in _NEEDS if find_spec(name) is None]
    if missing:
        raise RunciError(f"`runci doctor` needs {', '.join(missing)}: {with_extra('run')}")


def _clear(wanted: str) -> int:
    from runci.run import service
    from runci.run.gpu import lock_folder

    folder, at = lock_folder(), time.time()
    gpu = service.named(service.read(folder), wanted)
    service.change(folder, lambda now: service.put_back(now, gpu.uuid, at))
    write(f"GPU {gpu.index} ({gpu.name or gpu.uuid}) is in service again\n")
    return Exit.OK


def _look(options: Namespace) -> Report:
    from runci.run.doctor.report import Report
    from runci.run.doctor.rules import examine, unfit

    began = time.monotonic()
    need = _need(options)
    facts = _facts(options, need)
    answers = tuple(examine(facts, need))
    wrong, notes = _served(facts, answers)
    why = (*unfit(answers, facts.cards, need), *wrong)
    return Report(facts, answers, why, time.monotonic() - began, options.shard, notes)


def _need(options: Namespace) -> Need:
    from runci.run.doctor.facts import Need

    if options.suite is None:
        if options.config is not None:
            read_suites(options)  # what is named must be there, and right
        return Need()
    from runci.run.files import backend_of

    taxonomy = read_suites(options)
    backend = backend_of(taxonomy, options.suite, Backend(options.hw) if options.hw else None)
    suite = taxonomy.suite(backend, options.suite)
    runner = taxonomy.runners.get(suite.runner) if suite and suite.runner else None
    where = f"{taxonomy.path}:{runner.line}" if runner else taxonomy.path
    return Need(backend, runner, where)


def _facts(options: Namespace, need: Need) -> Facts:
    from runci.run.doctor import gpus, host
    from runci.run.doctor.facts import Facts
    from runci.run.doctor.rules import with_xids

    asked = gpus.within(gpus.ANSWER, lambda: _asked(options, need), gpus.silent)
    log = host.kernel_log()
    return Facts(
        tuple(with_xids(card, log) for card in asked.cards),
        asked.driver,
        log,
        host.disks(Path(options.results or RESULTS)),
        host.shared_memory(),
        host.open_files(),
        host.lasting(host.running),
        asked.unasked,
    )


def _asked(options: Namespace, need: Need) -> Asked:
    """The GPUs: those of the suite's backend; without a suite whatever is here."""
    from runci.run.doctor import gpus
    from runci.run.gpu import lock_folder

    if need.backend is None:
        return _whatever(options)
    if need.backend is Backend.CPU or not need.gpus:
        return gpus.Asked(())
    if need.backend is Backend.CUDA:
        return gpus.nvidia(options.gpus, lock_folder())
    if need.backend is Backend.AMD:
        return gpus.amd(lock_folder()) or gpus.Asked((), unasked="amdsmi is not installed")
    return gpus.Asked((), unasked=f"runci asks no driver for {need.backend.value} GPUs")


def _whatever(options: Namespace) -> Asked:
    from runci.run.doctor import gpus
    from runci.run.gpu import lock_folder

    try:
        asked = gpus.nvidia(options.gpus, lock_folder())
    except RunciError as error:
        if options.gpus is not None:
            raise
        asked = gpus.Asked((), unasked=str(error))
    if asked.cards:
        return asked
    if options.gpus is not None and asked.driver is not None:
        raise RunciError(f"--gpus {options.gpus}: no GPU can be asked: {asked.driver.error}")
    try:
        return gpus.amd(lock_folder()) or asked
    except UnfitMachine as error:  # the library alone is no AMD machine
        return replace(asked, unasked=str(error))


def _served(facts: Facts, answers: tuple[Answer, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Take out of service what must not be handed out, put back what is well.

    What is wrong where that cannot be written, and what changed.
    """
    from runci.run import service
    from runci.run.doctor.rules import updated
    from runci.run.gpu import lock_folder

    def how(now: service.Service) -> service.Service:
        return updated(now, facts.cards, answers, _who(), at)

    at = time.time()
    if not facts.cards:
        return (), ()
    try:
        before = service.read(lock_folder())
        after = before if how(before) == before else service.change(lock_folder(), how)
    except RunciError as error:
        return (str(error),), ()
    new = [o for uuid, o in after.by_uuid().items() if uuid not in before.by_uuid()]
    old = [o for uuid, o in before.by_uuid().items() if uuid not in after.by_uuid()]
    back = (f"GPU {one.index} ({one.name or one.uuid}) is in service again" for one in old)
    return (), (*(one.sentence for one in new), *back)


def _who() -> str:
    """Who looked: the account and host, and in a job its run."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        user = str(os.getuid())
    repository, number = (os.environ.get(f"GITHUB_{name}") for name in ("REPOSITORY", "RUN_ID"))
    job = f", {repository}/actions/runs/{number}" if repository and number else ""
    return f"runci doctor ({user} on {platform.node()}{job})"


def _kept(folder: Path, report: Report) -> Report:
    """Keep it among the results; where that cannot be, say so: the disk may be what is sick."""
    from runci.core.atomic import replace_file
    from runci.run.doctor.report import as_json

    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / FILE, as_json(report).encode())
    except (OSError, RunciError) as error:
        why = f"--results {folder} cannot be written: {error}: name a folder that can be"
        return replace(report, unfit=(*report.unfit, why))
    return report
