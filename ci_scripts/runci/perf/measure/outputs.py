"""Reads what one run of a benchmark printed, or says what is wrong with it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from runci.errors import Exit, RunciError
from runci.perf.decode import build
from runci.perf.metric import EXACT
from runci.perf.samples import Output

_FORM = "see the documented form in runci/perf/samples.py"


def read_output(data: bytes, where: str) -> Output:
    """The object that a benchmark wrote; `where` names the run, for messages.

    Unlike JSON, it may hold NaN and infinities, so that they can be reported as figures that do
    not count. Raises RunciError: 2 for another form or schema, 3 where nothing was measured.
    """
    try:
        given = json.loads(data)
    except (ValueError, RecursionError) as error:
        shown = data[:60].decode("utf-8", "backslashreplace")
        raise RunciError(f"{where}: not JSON: {error}, in {shown!r}; {_FORM}") from error
    output = build(given, Output, where)
    if not output.samples:
        raise RunciError(f"{where}: no samples: nothing was measured", Exit.NOTHING)
    if problem := _problem(output):
        raise RunciError(f"{where}: {problem}; {_FORM}")
    return output


def _problem(output: Output) -> str:
    """What a schema cannot say; «» where all is well."""
    names = [one.metric for one in output.samples]
    checks = [one.name for one in output.checks]
    if twice := _twice(names):
        return f"metric {twice!r} is there twice"
    if twice := _twice(checks):
        return f"check {twice!r} is there twice"
    for name in (*names, *checks):
        if not name.strip() or not name.isprintable():
            return f"{name!r} is no name of a metric or check"
    for one in output.samples:
        if one.unit == EXACT or not one.unit.strip():
            return f"metric {one.metric!r} has the unit {one.unit!r}: give a unit such as us"
        if one.reference is not None and (
            one.reference not in names or one.reference == one.metric
        ):
            return f"metric {one.metric!r} has the reference {one.reference!r}, which is no other"
    return ""


def _twice(names: Sequence[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)
