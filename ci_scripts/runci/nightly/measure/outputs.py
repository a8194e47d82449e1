"""Reads what one run of a benchmark printed, or says what is wrong with it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence

from runci.core.errors import Exit, RunciError
from runci.nightly.record import EXACT, Output, build
from runci.text.terminal import COMMANDS

LONGEST_NAME = 200  # characters of a metric or check
LONGEST_UNIT = 40
_SURROGATE = re.compile("[\ud800-\udfff]")
_FORM = "see the documented form in runci/nightly/record.py"


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
    if both := next((name for name in names if name in checks), None):
        return f"{both!r} is both a metric and a check"
    for name in (*names, *checks):
        if not _is_plain(name) or len(name) > LONGEST_NAME:
            return f"{name[:60]!r} is no name of a metric or check"
    for one in output.samples:
        if one.unit == EXACT or not _is_plain(one.unit) or len(one.unit) > LONGEST_UNIT:
            return f"metric {one.metric!r} has the unit {one.unit[:60]!r}: give a unit such as us"
        if one.reference is not None and (
            one.reference not in names or one.reference == one.metric
        ):
            return f"metric {one.metric!r} has the reference {one.reference!r}, which is no other"
    if (text := _unwritable(output)) is not None:
        return f"{text[:60]!r} is no text"
    return ""


def _unwritable(output: Output) -> str | None:
    """A text that no file can hold: JSON's escapes can spell half of a pair of surrogates."""
    texts = [one.detail for one in output.checks]
    texts += [text for pair in output.versions.items() for text in pair]
    return next((text for text in texts if _SURROGATE.search(text)), None)


def _is_plain(text: str) -> bool:
    """What a person can read and write again: printable, and no space around it."""
    if text.startswith(COMMANDS):  # GitHub would take a line of the log for a command
        return False
    return text.isprintable() and bool(text) and text == text.strip()


def _twice(names: Sequence[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)
