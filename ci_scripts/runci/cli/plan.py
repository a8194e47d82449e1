"""The command lines of `runci plan`, `verify`, `needs`, `status` and `estimates`."""

from __future__ import annotations

import argparse

Parser = argparse.ArgumentParser


def plan(command: Parser) -> None:
    """Options of `runci plan`."""
    command.set_defaults(command="plan", paths=())
    what = command.add_argument_group("what changed (one of these)")
    one = what.add_mutually_exclusive_group()
    one.add_argument("--base", metavar="REV", help="since this commit, such as origin/main")
    one.add_argument(
        "--changed", nargs="+", metavar="PATH", help="these paths; @FILE lists them (@-: stdin)"
    )
    one.add_argument("--all", action="store_true", help="whatever changed: all suites")
    one.add_argument(
        "--test",
        metavar="PATH",
        help="whatever changed: this file, or PATH::TEST of it, in all its suites",
    )
    what.add_argument("--head", metavar="REV", default="HEAD", help="what is checked out")
    what.add_argument(
        "--changed-count", type=_natural, metavar="N", help="how many --changed should list"
    )
    kinds = ("per-commit", "extra", "nightly", "weekly", "stress")
    command.add_argument(
        "--kind", action="append", choices=kinds, help="repeatable (default: per-commit)"
    )
    command.add_argument(
        "--suite", action="append", default=[], metavar="GLOB", help="only these, of any kind"
    )
    command.add_argument(
        "--shards",
        action="append",
        type=_suite_shards,
        default=[],
        metavar="SUITE=N",
        help="as many shards, not the fewest",
    )
    command.add_argument(
        "--times", action="append", default=[], metavar="RESULTS", help="measured times"
    )
    command.add_argument(
        "--margin",
        type=_percent,
        default=20,
        metavar="PERCENT",
        help="of the timeout that stays unplanned (default: 20)",
    )
    command.add_argument("--max-parallel", type=_natural, metavar="N", help="for --format github")
    command.add_argument("--explain", metavar="PATH", help="say what a change of PATH starts")
    command.add_argument("--keep-going", action="store_true", help="plan despite unreadable tests")
    command.add_argument("--allow-empty", action="store_true", help="a plan without tests is right")
    command.add_argument("-o", "--output", metavar="FILE", help="write plan.json there as well")
    formats = ("table", "markdown", "json", "github")
    command.add_argument("--format", choices=formats, default="table")
    _repository(command)


def verify(command: Parser) -> None:
    """Options of `runci verify`."""
    command.set_defaults(command="verify")
    command.add_argument("plan", metavar="PLAN", help="plan.json")
    command.add_argument("results", nargs="+", metavar="RESULTS", help="files or folders")
    command.add_argument("--commit", metavar="SHA", help="the plan must be of this commit")
    command.add_argument("--flaky-fails", action="store_true", help="a pass on retry is a failure")
    command.add_argument("--allow-empty", action="store_true", help="a plan without tests is right")
    command.add_argument("--format", choices=("text", "markdown"), default="text")


def needs(command: Parser) -> None:
    """Options of `runci needs`."""
    command.set_defaults(command="needs")
    command.description = "Reads NEEDS, which a workflow sets to toJSON(needs)."
    command.add_argument(
        "--may-skip", metavar="JOBS", default="", help="jobs that may be skipped, with commas"
    )
    command.add_argument(
        "--may-fail", metavar="JOBS", default="", help="such as a gate, which denies by failing"
    )
    command.add_argument(
        "--one-of", metavar="JOBS", default="", help="of which the others may skip where one ran"
    )


def status(command: Parser) -> None:
    """Options of `runci status`."""
    command.set_defaults(command="status")
    command.add_argument(
        "results", nargs="+", metavar="RESULTS", help="files or folders; and one test, PATH.py"
    )


def estimates(command: Parser) -> None:
    """Options of `runci estimates`."""
    command.set_defaults(command="estimates", paths=())
    command.add_argument("action", choices=("check", "update"), help="report drift, or mend it")
    command.add_argument("results", nargs="+", metavar="RESULTS", help="files or folders")
    command.add_argument(
        "--tolerance",
        type=_percent,
        default=25,
        metavar="PERCENT",
        help="of the estimate that it may be off by (default: 25, and 2 s)",
    )
    command.add_argument(
        "--runs", type=_natural, default=3, metavar="N", help="runs that it takes (default: 3)"
    )
    _repository(command)


def _repository(command: Parser) -> None:
    command.add_argument("--root", metavar="DIR", help="the repository (default: found upwards)")
    command.add_argument(
        "--config", metavar="FILE", help="its taxonomy (default: test/suites.yml below the root)"
    )
    command.add_argument("--cache-dir", metavar="DIR", help="default: the user's cache folder")
    command.add_argument("--no-cache", action="store_true", help="read and write no cache")
    command.add_argument("--jobs", type=_natural, metavar="N", help="processes (default: all)")


def _natural(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def _percent(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) > 99:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 99")
    return int(text)


def _suite_shards(text: str) -> tuple[str, int]:
    name, equals, number = text.rpartition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not SUITE=N")
    return name, _natural(number)
