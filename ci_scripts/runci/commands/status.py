"""`runci status`: when each test last really ran."""

from __future__ import annotations

import argparse
from argparse import Namespace

from runci.core.errors import Exit, RunciError
from runci.results.read import note_broken, read_results
from runci.text.terminal import terminal_width, write


def add_options(command: argparse.ArgumentParser) -> None:
    """Declare the options."""
    command.add_argument(
        "results", nargs="+", metavar="RESULTS", help="files or folders; and one test, PATH.py"
    )


def run(options: Namespace) -> int:
    """`runci status`: when each test last really ran."""
    from runci.results.status import as_table, as_text, statuses

    tests = [given for given in options.results if given.endswith(".py")]
    places = [given for given in options.results if not given.endswith(".py")]
    if len(tests) > 1 or not places:
        raise RunciError("name folders or files of results, and at most one test (PATH.py)")
    found = read_results(places)
    note_broken(found)
    wanted = tests[0].replace("\\", "/").removeprefix("./") if tests else None
    listed = statuses((result for _, result in found.results), wanted)
    if not listed:
        what = f"no result of {wanted}" if wanted else "no result"
        raise RunciError(f"{what} in {', '.join(places)}", Exit.NOTHING)
    if wanted is None:
        write(as_table(listed, terminal_width()))
    else:
        write("".join(map(as_text, listed)))
    return Exit.OK
