"""What a command found, kept whole: as JSON for programs and Markdown for people."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

VERSION = 1
PACKAGES = ("torch", "triton", "transformers", "numpy", "sglang", "vllm", "sm120-ba")


@dataclass(frozen=True)
class Failure:
    """One thing that is not as it should be: where (a layer, request, gate, boot), and what."""

    where: str
    what: str


@dataclass(frozen=True)
class Table:
    """Rows under columns; each row has a cell, a number or text, for each column."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Report:
    """The outcome of one command. `compared` counts what was looked at: 0 is no success.

    `void` says why nothing may be concluded at all (a self-test that failed); `notes` are plain
    sentences of what may and may not be claimed; `settings` is what was asked for; `details` is
    all that was measured, for JSON alone.
    """

    command: str
    compared: int
    settings: Mapping[str, Any]
    tables: tuple[Table, ...] = ()
    failures: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()
    void: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)

    @property
    def status(self) -> int:
        """1: differences or void; 3: nothing compared; 0: compared, and nothing found."""
        if self.failures or self.void:
            return 1
        return 0 if self.compared else 3


def machine(device: str = "cpu") -> dict[str, str]:
    """The machine and the versions that a report is of; with a CUDA `device` its GPU and driver."""
    found = {"python": platform.python_version(), "processor": _processor()}
    found |= {name: text for name in PACKAGES if (text := _version(name))}
    if device.startswith("cuda"):
        import torch

        from sm120_ba.machine import identity

        found |= identity(torch.device(device).index or 0)
    return found


def as_json(report: Report) -> dict[str, Any]:
    """The report as JSON data, all of it."""
    return {
        "version": VERSION,
        "command": report.command,
        "status": report.status,
        "void": report.void,
        "compared": report.compared,
        "machine": dict(report.machine),
        "settings": dict(report.settings),
        "failures": [{"where": one.where, "what": one.what} for one in report.failures],
        "notes": list(report.notes),
        "tables": [
            {"title": table.title, "columns": list(table.columns), "rows": [*map(list, table.rows)]}
            for table in report.tables
        ],
        "details": dict(report.details),
    }


def as_markdown(report: Report) -> str:
    """The report for people: the answer, the failures, the tables, the machine."""
    lines = [f"# validate {report.command}: {_answer(report)}", ""]
    lines += [f"- **{_cell(one.where)}**: {_cell(one.what)}" for one in report.failures]
    lines += [""] * bool(report.failures)
    for table in report.tables:
        lines += [f"## {table.title}", "", _row(table.columns), "|" + "---|" * len(table.columns)]
        lines += [*map(_row, table.rows), ""]
    for note in report.notes:
        lines += [note, ""]
    for title, pairs in (("Settings", report.settings), ("Machine", report.machine)):
        if pairs:
            lines += [f"## {title}", "", *(f"- {key}: {_cell(pairs[key])}" for key in pairs), ""]
    return "\n".join(lines)


def write(report: Report, path: Path) -> None:
    """Write JSON to `path` and Markdown beside it (`.md`), each whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = json.dumps(_plain(as_json(report)), indent=1, allow_nan=False)
    write_text(path, document + "\n")
    write_text(path.with_suffix(".md"), as_markdown(report))


def deliver(report: Report, path: Path | None) -> int:
    """Print the report, write it where a path is given, and give its exit status."""
    print(as_markdown(report))
    if path is not None:
        write(report, path)
    return report.status


def write_text(path: Path, text: str) -> None:
    """Replace the file by `text`, whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _plain(value: Any) -> Any:
    """The same without NaN and infinities, for which JSON has no numbers: they become text."""
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _answer(report: Report) -> str:
    if report.void:
        return f"void: {report.void}"
    if report.failures:
        count = len(report.failures)
        return f"{count} failure{'s' * (count > 1)} in {report.compared} compared"
    return f"nothing found in {report.compared} compared" if report.compared else "nothing compared"


def _row(cells: Sequence[Any]) -> str:
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value).replace("|", "\\|").replace("\n", " ")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {len(names)} CPUs" if names else platform.machine()
