"""What commands share: which repository, what to read of it, and how to write."""

from __future__ import annotations

import os
import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from runci.config.repository import BASELINE, CONFIGS, find_config, find_root
from runci.core import inputs
from runci.core.errors import Exit, RunciError
from runci.core.paths import read_named

if TYPE_CHECKING:
    from runci.checks.rule import Options
    from runci.config.taxonomy import Taxonomy


def root_argument(command: ArgumentParser) -> None:
    """`--root`."""
    command.add_argument("--root", metavar="DIR", help="the repository (default: found upwards)")


def config_argument(command: ArgumentParser) -> None:
    """`--config`."""
    command.add_argument(
        "--config", metavar="FILE", help=f"its taxonomy (default: {', '.join(CONFIGS)})"
    )


def tree_arguments(command: ArgumentParser) -> None:
    """Which repository, and how its tests are read."""
    root_argument(command)
    config_argument(command)
    cache_arguments(command)


def cache_arguments(command: ArgumentParser) -> None:
    """How tests are read."""
    command.add_argument("--cache-dir", metavar="DIR", help="default: the user's cache folder")
    command.add_argument("--no-cache", action="store_true", help="read and write no cache")
    command.add_argument("--jobs", type=positive, metavar="N", help="processes (default: all)")


def baseline_arguments(command: ArgumentParser) -> None:
    """Which findings are known, and stand."""
    one = command.add_mutually_exclusive_group()
    one.add_argument(
        "--baseline",
        metavar="FILE",
        help=f"accept what this file lists (default: {BASELINE} at the root, if there)",
    )
    one.add_argument("--no-baseline", action="store_true", help="accept nothing that it lists")


def repository_arguments(step: ArgumentParser) -> None:
    """Which repository's nightly."""
    root_argument(step)
    step.add_argument("--config", metavar="FILE", help="default: test/perf.yml below the root")


def history_arguments(step: ArgumentParser) -> None:
    """Which history of the nightly."""
    step.add_argument("--remote", metavar="NAME", default="origin", help="default: origin")
    step.add_argument(
        "--history", metavar="DIR", help="a checkout of the branch, used instead of the remote's"
    )


def natural(text: str) -> int:
    """The type of an option that takes a whole number."""
    return _whole(text, range(10**6), "")


def positive(text: str) -> int:
    """The type of an option that takes a whole number from 1."""
    return _whole(text, range(1, 10**6), " from 1")


def percent(text: str) -> int:
    """The type of an option that takes a whole number from 0 to 99."""
    return _whole(text, range(100), " from 0 to 99")


def _whole(text: str, allowed: range, which: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 6 or int(text) not in allowed:
        raise ArgumentTypeError(f"{text!r} is not a whole number{which}")
    return int(text)


def duration(text: str) -> float:
    """The type of an option that takes a time, as «90» or «1.5h»: seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    seconds = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]] if match else 0.0
    if not seconds:
        raise ArgumentTypeError(f"{text!r} is no time: write 90, 90s, 15m or 2h")
    return seconds


def tree_options(options: Namespace, active: frozenset[str] = frozenset()) -> Options:
    """What to read of a repository, for the options that name one."""
    from runci.checks.rule import Options
    from runci.read.cache import default_folder
    from runci.read.files import processors

    root = find_root(options.root, options.config)
    given = getattr(options, "baseline", None)
    known = root / BASELINE if given is None else Path(given)
    inputs.look(known)
    wanted = given is not None or os.path.lexists(known)  # what cannot be read is not passed over
    used = wanted and not getattr(options, "no_baseline", False)
    return Options(
        root=root,
        config=find_config(root, options.config),
        cwd=Path.cwd(),
        active=active,
        paths=tuple(options.paths),
        baseline=known if used else None,
        cache_folder=None if options.no_cache else Path(options.cache_dir or default_folder()),
        jobs=options.jobs or processors(),
        diff_base=getattr(options, "diff_base", None),
        markdown_breaks=getattr(options, "markdown_breaks", True),
        ruleset=Path(options.ruleset) if getattr(options, "ruleset", None) else None,
    )


def shown_root(root: Path) -> str:
    """The root as whoever opens the paths of a report sees it: from here, or from the checkout.

    GitHub resolves annotations from the checkout, whatever the working folder of the step is.
    """
    checkout = os.environ.get("GITHUB_WORKSPACE", "")
    if checkout and root.resolve().is_relative_to(Path(checkout).resolve()):
        return root.resolve().relative_to(Path(checkout).resolve()).as_posix()
    try:
        return Path(os.path.relpath(root)).as_posix()
    except ValueError:  # another drive
        return root.absolute().as_posix()


def shown_path(path: Path) -> str:
    """A path from the working folder where it is below that, else as it is given."""
    whole, here = path.absolute(), Path.cwd()
    return (whole.relative_to(here) if whole.is_relative_to(here) else path).as_posix()


def read_suites(options: Namespace) -> Taxonomy:
    """The repository's suites.yml, for the options that name one."""
    from runci.config.repository import load_taxonomy_file

    root = find_root(options.root, options.config)
    return load_taxonomy_file(root, find_config(root, options.config))


def pr_test_workflows(options: Namespace) -> Sequence[str]:
    """The PR Test workflows, from the checkout of the default branch that this job runs in."""
    from runci.config.suites import load_taxonomy

    path = find_config(find_root(options.root, options.config), options.config)
    taxonomy = load_taxonomy(read_named(path), str(path))
    if not taxonomy.workflows.pr_tests:
        raise RunciError(f"{path}: workflows.pr_tests lists no workflow", Exit.NOTHING)
    return taxonomy.workflows.pr_tests
