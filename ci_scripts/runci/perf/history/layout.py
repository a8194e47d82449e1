"""Which files the branch has, and what stands in those that never change; pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from runci.perf.metric import SCHEMA, SeriesId, slug

README = "README.md"
FORMAT = "format.json"
NIGHTS = "nights.jsonl"
METRICS = "metrics/"
SUFFIX = ".jsonl"
LONGEST_SLUG = 80

_README_TEXT = """\
# What the nightly measured

`runci perf record` appends to this branch every night; `runci perf check` and `runci perf accept`
append what was decided. Nobody edits it by hand, nothing is ever taken away, and nothing else
pushes here. To read it: `runci perf history`, or `runci perf history --csv FILE`.

- `format.json`: the version of these files.
- `nights.jsonl`: one line for each run of the nightly, whatever came of it.
- `metrics/MACHINE/METRIC-HASH.jsonl`: one series. The first line says which; then come its points
  (`point`), acceptances (`accept`) and confirmed changes (`event`), one JSON object a line.
"""


def path_of(series: SeriesId) -> str:
    """The series' file. The digest of the whole id keeps apart what the readable part does not."""
    machine, metric = (slug(text)[:LONGEST_SLUG] for text in (series.machine_key, series.metric))
    return f"{METRICS}{machine}/{metric}-{series.digest[:10]}{SUFFIX}"


def is_series(path: str) -> bool:
    """Whether a path has the shape of a series' file."""
    return path.startswith(METRICS) and path.endswith(SUFFIX) and path.count("/") == 2


def first_files() -> Mapping[str, bytes]:
    """What a new branch holds."""
    return {
        README: _README_TEXT.encode(),
        FORMAT: json.dumps({"schema": SCHEMA}).encode() + b"\n",
        NIGHTS: b"",
    }
