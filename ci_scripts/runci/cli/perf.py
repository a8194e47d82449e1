"""The command line of `runci perf`, steps in the order of a night."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser, _SubParsersAction


def add_perf(commands: _SubParsersAction[ArgumentParser]) -> None:
    """Add `perf` and its steps."""
    perf = commands.add_parser("perf", help="measure every night and say whether it got worse")
    perf.set_defaults(command="perf", parser=perf)
    steps = perf.add_subparsers(title="steps", metavar="STEP", dest="step")
    _measure(steps.add_parser("measure", help="run a benchmark against its pinned baseline"))
    _record(steps.add_parser("record", help="append a night to the history"))
    _history(steps.add_parser("history", help="list, show, start or export the history"))
    _check(steps.add_parser("check", help="say of each metric whether it got worse"))
    _accept(steps.add_parser("accept", help="take a changed level as the new normal"))
    _report(steps.add_parser("report", help="write the page, the summary and the badge"))
    _notify(steps.add_parser("notify", help="open, update and close the issues"))


def _repository(step: ArgumentParser) -> None:
    step.add_argument("--root", metavar="DIR", help="the repository (default: found upwards)")
    step.add_argument("--config", metavar="FILE", help="default: test/perf.yml below the root")


def _source(step: ArgumentParser) -> None:
    step.add_argument("--remote", metavar="NAME", default="origin", help="default: origin")
    step.add_argument(
        "--history", metavar="DIR", help="a checkout of the branch, used instead of the remote's"
    )


def _measure(step: ArgumentParser) -> None:
    _repository(step)
    step.add_argument("benchmark", metavar="BENCHMARK", help="its name in perf.yml")
    step.add_argument("--output", metavar="FILE", required=True, help="the record, as JSON")
    step.add_argument("--repetitions", type=int, default=5, metavar="N", help="pairs (5)")
    step.add_argument("--seed", type=int, metavar="N", help="of the order (default: random)")
    step.add_argument("--baseline", metavar="COMMIT", help="instead of the pinned one")
    step.add_argument("--night", metavar="DATE", help="default: today, UTC")
    step.add_argument("--device", type=int, default=0, metavar="INDEX", help="GPU (0)")
    step.add_argument(
        "--history", metavar="DIR", help="measure again at once where a metric left its level"
    )


def _record(step: ArgumentParser) -> None:
    _repository(step)
    _source(step)
    step.add_argument(
        "records", nargs="*", metavar="RECORD", help="of `runci perf measure`, or a folder of them"
    )
    step.add_argument("--plan", metavar="FILE", help="the plan of the nightly suites")
    step.add_argument("--results", metavar="DIR", help="their results")
    step.add_argument("--night", metavar="DATE", help="where no record came (default: today)")


def _history(step: ArgumentParser) -> None:
    _repository(step)
    _source(step)
    what = step.add_mutually_exclusive_group()
    what.add_argument("--init", action="store_true", help="start the branch; it must not exist")
    what.add_argument("--csv", metavar="FILE", help="export every point")
    what.add_argument("--checkout", metavar="DIR", help="write the branch's files there")
    step.add_argument("metric", nargs="?", metavar="METRIC", help="show this one, night by night")


def _check(step: ArgumentParser) -> None:
    _repository(step)
    _source(step)
    step.add_argument("--output", metavar="FILE", help="the verdicts, as JSON")
    step.add_argument("--night", metavar="DATE", help="decide as of this night (default: today)")
    step.add_argument("--push", action="store_true", help="write confirmed changes to the history")


def _accept(step: ArgumentParser) -> None:
    _repository(step)
    _source(step)
    step.add_argument("metric", metavar="METRIC")
    step.add_argument("--reason", required=True, metavar="TEXT", help="why this is right")
    step.add_argument("--by", metavar="NAME", help="default: git's user.name")
    step.add_argument("--night", metavar="DATE", help="the first at this level (default: since)")
    step.add_argument("--machine", metavar="KEY", help="only there, such as 'NVIDIA H200/580/…'")


def _report(step: ArgumentParser) -> None:
    _repository(step)
    _source(step)
    step.add_argument("verdicts", metavar="VERDICTS.json")
    step.add_argument(
        "--record", action="append", default=[], metavar="FILE", help="of that night, or a folder"
    )
    step.add_argument("--html", metavar="FILE")
    step.add_argument("--markdown", metavar="FILE")
    step.add_argument("--badge", metavar="FILE.svg")
    step.add_argument("--page", metavar="URL", help="where the page will be, for the summary")


def _notify(step: ArgumentParser) -> None:
    _repository(step)
    step.add_argument("verdicts", metavar="VERDICTS.json")
    step.add_argument("--page", metavar="URL", help="the report, to link to")
    step.add_argument(
        "--dry-run",
        action=argparse.BooleanOptionalAction,
        help="say what would be done (default outside CI)",
    )
