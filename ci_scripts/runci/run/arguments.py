"""The options of `runci run`."""

from __future__ import annotations

import argparse
import re

from runci.registration import Backend

DEFAULT_RESULTS = ".runci/results"


def add(command: argparse.ArgumentParser) -> None:
    """Declare them."""
    command.set_defaults(command="run")
    command.add_argument(
        "paths", nargs="*", metavar="FILE", help="only these files, folders or tests (FILE::TEST)"
    )
    what = command.add_argument_group("what to run")
    what.add_argument("--suite", metavar="NAME", help="a suite, such as base-a-test-cpu")
    what.add_argument("--shard", metavar="I/N|ID", help="part I of N, or a shard of --plan by id")
    what.add_argument("--plan", metavar="FILE", help="plan.json, as `runci plan` wrote it")
    what.add_argument(
        "--hw", choices=[backend.value for backend in Backend], help="the backend of the suite"
    )
    what.add_argument("--last-failed", action="store_true", help="what is not green in --results")
    what.add_argument("--allow-empty", action="store_true", help="a suite may have no tests")
    what.add_argument("--list", action="store_true", help="print the files and end")
    what.add_argument("--dry-run", action="store_true", help="print what would be started and end")
    what.add_argument("--root", metavar="DIR", help="the repository (default: found upwards)")
    what.add_argument("--config", metavar="FILE", help="its taxonomy (default: test/suites.yml)")
    how = command.add_argument_group("how to run it")
    how.add_argument("--jobs", type=_jobs, metavar="N|auto", help="files at once (CPU: auto)")
    how.add_argument(
        "--isolate", choices=("fork", "spawn"), help="children are forks (default) or start anew"
    )
    how.add_argument("--as-script", action="store_true", help="`python FILE`, not pytest")
    how.add_argument("--preload", metavar="MODULES", help="imported once, before the forks")
    how.add_argument("--order", choices=("auto", "path", "longest", "random"), default="auto")
    how.add_argument("--seed", type=int, metavar="N", help="of --order random")
    how.add_argument("--repeat", type=_positive, default=1, metavar="N", help="stress: N times")
    how.add_argument("--retries", type=_natural, default=0, metavar="N", help="of failed files")
    how.add_argument("--flaky-fails", action="store_true", help="a pass on a retry is a failure")
    how.add_argument("--fail-fast", action="store_true", help="start nothing after a failure")
    limits = command.add_argument_group("limits, as 90, 90s, 15m or 2h")
    limits.add_argument(
        "--timeout-per-file", type=duration, metavar="TIME", help="then it is ended"
    )
    limits.add_argument(
        "--suite-timeout", type=duration, metavar="TIME", help="default: suites.yml"
    )
    limits.add_argument("--lease-timeout", type=duration, default=3600.0, metavar="TIME")
    limits.add_argument(
        "--grace", type=duration, default=5.0, metavar="TIME", help="between SIGTERM and SIGKILL"
    )
    out = command.add_argument_group("what comes of it")
    out.add_argument("--results", metavar="DIR", help=f"default: {DEFAULT_RESULTS}")
    out.add_argument("--junit", metavar="FILE", help="also write JUnit XML")
    out.add_argument("--format", choices=("auto", "text", "github"), default="auto")
    out.add_argument("--color", choices=("auto", "always", "never"), default="auto")


def duration(text: str) -> float:
    """Seconds of «90», «1.5h»."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    seconds = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]] if match else 0.0
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write 90, 90s, 15m or 2h")
    return seconds


def part(text: str) -> tuple[int, int] | None:
    """«2/4» as numbers; None where it has no such form. Raises ValueError for «0/4» or «5/4»."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None:
        return None
    index, count = int(match[1]), int(match[2])
    if not 1 <= index <= count:
        raise ValueError(text)
    return index, count


def _jobs(text: str) -> int | None:
    return None if text == "auto" else _positive(text)


def _positive(text: str) -> int:
    number = _natural(text)
    if not number:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return number


def _natural(text: str) -> int:
    if not text.isdecimal() or len(text) > 6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)
