"""`runci perf history`: what the nightly remembers, shown, started, exported or checked out."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from runci.commands.shared import history_arguments, repository_arguments
from runci.config.perf import Config, settings
from runci.core.atomic import replace_file
from runci.core.errors import Exit, RunciError
from runci.nightly.history.lines import Series
from runci.nightly.history.store import source_of, start_branch, start_folder, write_files
from runci.text.terminal import note, terminal_width, write
from runci.text.wording import plural


def add_options(step: ArgumentParser) -> None:
    """Declare the options."""
    repository_arguments(step)
    history_arguments(step)
    what = step.add_mutually_exclusive_group()
    what.add_argument("--init", action="store_true", help="start the branch; it must not exist")
    what.add_argument("--csv", metavar="FILE", help="export every point")
    what.add_argument("--checkout", metavar="DIR", help="write the branch's files there")
    step.add_argument("metric", nargs="?", metavar="METRIC", help="show this one, night by night")


def run(options: Namespace) -> int:
    """List, show, start, export or check out."""
    root, config = settings(options)
    if options.init:
        return _start(options, root, config)
    if options.checkout is not None:
        return _check_out(options, root, config)
    return _show(options, root, config)


def _start(options: Namespace, root: Path, config: Config) -> int:
    if options.metric is not None:
        raise RunciError("--init starts an empty history: it takes no METRIC")
    if options.history is not None:
        start_folder(Path(options.history))
        write(f"started in {options.history}\n")
    else:
        commit = start_branch(root, options.remote, config.branch)
        write(f"started {config.branch} on {options.remote} with {commit[:12]}\n")
    return Exit.OK


def _check_out(options: Namespace, root: Path, config: Config) -> int:
    if options.metric is not None:
        raise RunciError("--checkout writes the whole history: it takes no METRIC")
    target = Path(options.checkout)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise RunciError(f"{options.checkout}: not an empty folder: name another")
    files, commit = source_of(options, root, config).files()
    write_files(target, files)
    write(f"{plural(len(files), 'files')} written{f' of {commit[:12]}' if commit else ''}\n")
    return Exit.OK


def _show(options: Namespace, root: Path, config: Config) -> int:
    from runci.nightly.history.show import as_csv, by_night, listing

    found = source_of(options, root, config).read()
    for message in found.messages:
        note(message)
    if not found.series:
        raise RunciError("the history has no series yet", Exit.NOTHING)
    series = _of_metric(list(found.series.values()), options.metric)
    if options.csv is not None:
        replace_file(Path(options.csv), as_csv(series).encode())
        points = sum(len(one.points) for one in series)
        write(f"{plural(points, 'points')} written to {options.csv}\n")
    elif options.metric is not None:
        write("\n".join(by_night(one, terminal_width()) for one in series))
    else:
        write(listing(series, terminal_width()))
    return Exit.OK


def _of_metric(series: Sequence[Series], metric: str | None) -> Sequence[Series]:
    """Those of one metric, on each machine; all without one."""
    if metric is None:
        return series
    chosen = sorted((one for one in series if one.id.metric == metric), key=lambda one: one.id)
    if not chosen:
        from difflib import get_close_matches

        close = get_close_matches(metric, {one.id.metric for one in series}, 3, 0.4)
        hint = f": did you mean {', '.join(map(repr, sorted(close)))}?" if close else ""
        raise RunciError(f"no metric {metric!r} in the history{hint}")
    return chosen
