"""`runci run`: options in, tests run, results written, exit status out."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from runci import targets
from runci.errors import Exit, RunciError
from runci.plan.changes import head_commit
from runci.registration import Backend
from runci.run.arguments import DEFAULT_RESULTS, part
from runci.run.files import Wanted, choose, jobs, refuse_parts, take_shard
from runci.run.model import Selection
from runci.suites import Taxonomy

if TYPE_CHECKING:
    from runci.run.loop import Interrupt

# A rerun of a job in GitHub Actions starts its attempts at 11, 21, …: no two are the same.
_ATTEMPTS_A_RUN = 10
_HEAVY = ("torch", "numpy", "triton")
_NEEDS = ("pytest", "psutil", "filelock")


@dataclass(frozen=True, slots=True)
class Request:
    """A run that is fully decided: what, where, in which order."""

    options: Namespace
    root: Path
    taxonomy: Taxonomy
    selection: Selection
    results: Path


def run(options: Namespace) -> int:
    """The command."""
    _check(options)
    request = _request(options)
    chosen = request.selection
    if not chosen.files and not chosen.broken:
        return _empty(options, chosen)
    seed = secrets.randbelow(1 << 31) if options.seed is None else options.seed
    from runci.run.session import Session

    session = Session(request, seed)
    if options.list or options.dry_run:
        session.only_due()
        sys.stdout.write(session.paths() if options.list else session.describe())
        return Exit.OK
    require_posix()
    with catch_signals() as (interrupt, wake):
        return session.run(interrupt, wake)


def _check(options: Namespace) -> None:
    """Options that contradict each other."""
    if options.repeat > 1 and (options.plan or options.retries):
        other = "--plan" if options.plan else "--retries"
        raise RunciError(f"--repeat is for stress by hand: leave {other} out")
    if options.retries >= _ATTEMPTS_A_RUN:
        raise RunciError(f"--retries {options.retries}: at most {_ATTEMPTS_A_RUN - 1}")


def require_posix() -> None:
    """Say what is missing before anything starts."""
    if os.name != "posix":
        raise RunciError("`runci run` needs Linux or macOS (process groups, forks)")
    from importlib.util import find_spec

    missing = [name for name in _NEEDS if find_spec(name) is None]
    if missing:
        raise RunciError(f"`runci run` needs {', '.join(missing)}: pip install 'runci[run]'")


def _request(options: Namespace) -> Request:
    from runci.commands.shared import CONFIG, find_root
    from runci.settings import load_taxonomy_file

    root = find_root(options.root, options.config)
    config = Path(options.config) if options.config else root / CONFIG
    if options.plan:
        taxonomy = load_taxonomy_file(root, config)
        selection = _planned(options, root, taxonomy)
    else:
        taxonomy, selection = _chosen(options, root, config)
    given = [*selection.given]
    for name in ("root", "config"):
        if getattr(options, name):
            given += [f"--{name}", getattr(options, name)]
    selection = replace(selection, given=tuple(given))
    results = Path(options.results) if options.results else root / DEFAULT_RESULTS
    return Request(options, root, taxonomy, selection, results)


def _planned(options: Namespace, root: Path, taxonomy: Taxonomy) -> Selection:
    from runci.plan import model as plan_model
    from runci.run.planned import from_plan, named

    try:
        data = Path(options.plan).read_bytes()
    except OSError as error:
        hint = "download it from the job that planned, or make it with `runci plan --output FILE`"
        raise RunciError(f"--plan {options.plan}: cannot read: {error.strerror}: {hint}") from error
    plan = plan_model.from_json(data, options.plan)
    selection = from_plan(
        plan,
        options.plan,
        options.shard,
        taxonomy,
        head_commit(root),
        lambda path: (root / path).is_file(),
        Wanted(options.suite, Backend(options.hw) if options.hw else None),
    )
    if not options.paths:
        return selection
    wanted = targets.wanted(root, options.paths, Path.cwd())
    kept = named(selection, wanted, options.plan)
    refuse_parts(wanted.only, taxonomy, [file.path for file in kept.files])
    return kept


def _chosen(options: Namespace, root: Path, config: Path) -> tuple[Taxonomy, Selection]:
    from runci import lint as linting
    from runci.cache import default_folder
    from runci.reading import processors

    named = targets.wanted(root, options.paths, Path.cwd())
    request = linting.Options(
        root,
        config,
        Path.cwd(),
        frozenset(),
        tuple(targets.read_target(text).path for text in options.paths),
        cache_folder=default_folder(),
        jobs=processors(),
    )
    tree = linting.load_tree(request)
    wanted = Wanted(
        options.suite,
        Backend(options.hw) if options.hw else None,
        linting.wanted_paths(request, tree),
        only=named.only,
    )
    selection = replace(choose(tree, wanted), commit=head_commit(root) or "")
    if options.shard is None:
        return tree.taxonomy, selection
    shard = _part(options.shard)
    if selection.files and shard[0] > len(jobs(selection.files)):
        note = f"shard {options.shard} is empty: the suite has {len(selection.files)} files"
        selection = replace(selection, notes=(note,))
    return tree.taxonomy, take_shard(selection, *shard)


def _part(text: str) -> tuple[int, int]:
    try:
        found = part(text)
    except ValueError:
        found = None
    if found is None:
        raise RunciError(f"--shard {text}: write I/N with I from 1 to N, or pass --plan too")
    return found


def _empty(options: Namespace, chosen: Selection) -> int:
    """No files: an empty shard of a suite that has files is fine, an empty suite is not."""
    fine = bool(chosen.notes) or options.allow_empty
    for note in chosen.notes:
        sys.stdout.write(f"{note}\n")
    if not fine:
        hint = f"; {len(chosen.disabled)} are disabled" if chosen.disabled else ""
        raise RunciError(
            f"{chosen.shard}: no test is registered for it{hint}: an empty suite is no success "
            "(--allow-empty says that it is meant)",
            Exit.NOTHING,
        )
    sys.stdout.write("0 passed, 0 failed, 0 skipped\n")
    return Exit.OK


def heavy_modules(root: Path, selection: Selection, given: str | None) -> tuple[str, ...]:
    """What to import before forking: as asked, else the heavy modules that the files name."""
    if given is not None:
        return tuple(name.strip() for name in given.split(",") if name.strip())
    from importlib.util import find_spec

    texts = []
    for file in selection.files:
        with contextlib.suppress(OSError):
            texts.append((root / file.path).read_bytes())
    named = [
        name
        for name in _HEAVY
        if any(re.search(rb"\b" + name.encode() + rb"\b", text) for text in texts)
    ]
    return tuple(name for name in named if find_spec(name) is not None)


def run_attempt() -> int:
    """Which rerun of a job this is, from 1."""
    given = os.environ.get("GITHUB_RUN_ATTEMPT", "1")
    return max(int(given), 1) if given.isdecimal() else 1


def first_attempt() -> int:
    """The number of the first attempt in this run of the job."""
    return (run_attempt() - 1) * _ATTEMPTS_A_RUN + 1


@contextlib.contextmanager
def catch_signals() -> Iterator[tuple[Interrupt, int]]:
    """Note SIGINT and SIGTERM, and wake whoever waits on the descriptor that is given."""
    from runci.run.loop import Interrupt

    interrupt = Interrupt()

    def noted(number: int, _frame: object) -> None:
        interrupt.number = interrupt.number or number
        interrupt.count += 1

    read, write = os.pipe()
    for end in (read, write):
        os.set_blocking(end, False)
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, noted) for number in numbers]
    old = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    try:
        yield interrupt, read
    finally:
        signal.set_wakeup_fd(old)
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        os.close(read)
        os.close(write)
