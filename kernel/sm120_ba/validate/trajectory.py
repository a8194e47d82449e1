"""Which batches a run computed. Two runs compare kernels only where these are the same.

A server writes them as JSONL, one object a batch in the order of execution, one file a rank:

    {"kind": "extend", "requests": ["q7", "q8"], "lengths": [40, 33], "new": [40, 1], "size": 2,
     "graph": false}

`kind` is the forward mode in small letters (extend, decode, mixed, idle, target_verify, ...);
`requests` the ids in the order of the batch; `lengths` their tokens after the batch, `new` those
that it computed (less than the length where a prefix was cached or the prompt came in chunks);
`size` the logical batch size, without the padding of a graph; `graph` whether a graph was replayed.
In SGLang's ForwardBatch these are `forward_mode.name.lower()`, `rids`, `seq_lens`,
`extend_seq_lens` (one each in a decode) and `batch_size` before padding; `graph` is the result's
`can_run_cuda_graph`. Clients must name the requests (`rid`), else servers invent other names.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from sm120_ba.validate.commands import UsageError
from sm120_ba.validate.prompts import read_rows
from sm120_ba.validate.report import Failure, Report, Table, deliver, machine, write_text


@dataclass(frozen=True)
class Batch:
    """One batch, as above."""

    kind: str
    requests: tuple[str, ...]
    lengths: tuple[int, ...]
    new: tuple[int, ...]
    size: int
    graph: bool


@dataclass
class Recorder:
    """The batches of a run in this process, in their order."""

    batches: list[Batch] = field(default_factory=list)

    def record(self, requests: Sequence[str], past: int, new: int, graph: bool = False) -> None:
        """Note a batch in which each request has `past` tokens already and gets `new` more.

        Without padding all are of one length. One new token behind others is a decode.
        """
        size = len(requests)
        kind = "decode" if past and new == 1 else "extend"
        lengths, added = (past + new,) * size, (new,) * size
        self.batches.append(Batch(kind, tuple(requests), lengths, added, size, graph))


@dataclass(frozen=True)
class Mismatch:
    """Where two runs part: the number of the batch from 0, what of it, and both values."""

    batch: int
    what: str
    first: Any
    second: Any

    def __str__(self) -> str:
        return f"batch {self.batch}: {self.what} is {self.first} and {self.second}"


def first_mismatch(first: Sequence[Batch], second: Sequence[Batch]) -> Mismatch | None:
    """The first batch that two runs do not share, or None where they are comparable."""
    for number, (one, other) in enumerate(zip(first, second, strict=False)):
        for name in (one_field.name for one_field in fields(Batch)):
            if getattr(one, name) != getattr(other, name):
                return Mismatch(number, name, getattr(one, name), getattr(other, name))
    if len(first) != len(second):
        shorter = min(len(first), len(second))
        return Mismatch(shorter, "the number of batches", len(first), len(second))
    return None


def mismatches(runs: Mapping[str, Sequence[Batch]]) -> tuple[Failure, ...]:
    """A failure for each run that is not comparable with the first one."""
    (first, batches), *others = runs.items()
    return tuple(
        Failure(f"trajectory {first} and {name}", f"not comparable: {found}")
        for name, other in others
        if (found := first_mismatch(batches, other)) is not None
    )


def as_rows(batches: Iterable[Batch]) -> list[dict[str, Any]]:
    """The batches as JSON data."""
    return [asdict(batch) for batch in batches]


def write(batches: Iterable[Batch], path: Path) -> None:
    """Write the batches as JSONL, whole or not at all."""
    write_text(path, "".join(json.dumps(row) + "\n" for row in as_rows(batches)))


def read(path: Path) -> list[Batch]:
    """The batches of a JSONL file. Raises UsageError with the file and the line."""
    return [_batch(place, row) for place, row in read_rows(path, "batch")]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `validate trajectory`."""
    parser.add_argument("--baseline", type=Path, required=True, help="batches of a run, as JSONL")
    parser.add_argument("--candidate", type=Path, required=True, help="those of the other run")
    parser.add_argument("--report", type=Path, help="write the report here (.json, and .md beside)")


def run(arguments: argparse.Namespace) -> int:
    """Compare two recorded runs; 1 names the first batch that they do not share."""
    runs = {"baseline": read(arguments.baseline), "candidate": read(arguments.candidate)}
    return deliver(
        Report(
            "trajectory",
            min(map(len, runs.values())),
            {"baseline": str(arguments.baseline), "candidate": str(arguments.candidate)},
            tables=(counts(runs),),
            failures=mismatches(runs),
            notes=("What two runs say is comparable only where their batches are the same.",),
            machine=machine(),
        ),
        arguments.report,
    )


def counts(runs: Mapping[str, Sequence[Batch]]) -> Table:
    """How many batches of each kind and logical size the runs had, with and without graphs."""
    keys = sorted({(b.kind, b.size, b.graph) for batches in runs.values() for b in batches})
    rows = tuple(
        (
            *key[:2],
            "graph" if key[2] else "eager",
            *(sum((b.kind, b.size, b.graph) == key for b in batches) for batches in runs.values()),
        )
        for key in keys
    )
    return Table("Batches", ("kind", "size", "as", *runs), rows)


def _batch(place: str, row: Mapping[str, Any]) -> Batch:
    names = [one.name for one in fields(Batch)]
    if sorted(row) != sorted(names):
        raise UsageError(f"{place} has {', '.join(row) or 'nothing'}; give {', '.join(names)}")
    for name, kind in (("kind", str), ("size", int), ("graph", bool)):
        if type(row[name]) is not kind:
            raise UsageError(f"{place}: {name} is {row[name]!r}, not a {kind.__name__}")
    for name, kind in (("requests", str), ("lengths", int), ("new", int)):
        values = row[name]
        if not isinstance(values, list) or any(type(value) is not kind for value in values):
            raise UsageError(f"{place}: {name} is {values!r}, not a list of {kind.__name__}")
        if len(values) != row["size"]:
            raise UsageError(f"{place}: {name} has {len(values)} values; size is {row['size']}")
    return Batch(**{name: _frozen(row[name]) for name in names})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
