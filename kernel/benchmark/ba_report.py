"""The benchmark's results: as data, as text and as an SVG plot; `ba_json` writes them as JSON."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import triton

from sm120_ba.timing import Samples

GOALS = {"frozen form": (0.58, 0.70), "MMA chain, no loads": (1.10, 1.10)}  # M = 2..7, M = 8


@dataclass(frozen=True)
class Numerics:
    """One provider at one M: equal bits, ULP distance to the frozen form, error against FP64."""

    equals_linear: bool
    equals_frozen: bool
    ulp: int
    relative_error: float


@dataclass
class Results:
    """Samples by (provider, rows, "warm" or "cold"), numerics by (provider, rows)."""

    machine: dict[str, Any]
    samples: dict[tuple[str, int, str], Samples] = field(default_factory=dict)
    numerics: dict[tuple[str, int], Numerics] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    cpu_cost: dict[str, float] = field(default_factory=dict)


def _output(*command: str) -> str | None:
    """What a command prints, run where this file lies; None where it fails."""
    folder = Path(__file__).parent
    try:
        result = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=True, timeout=20
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip()


def _nvidia_smi(device_index: int, fields: str) -> str | None:
    """One device's fields; by UUID, since CUDA_VISIBLE_DEVICES renumbers CUDA's devices only."""
    uuid = f"GPU-{torch.cuda.get_device_properties(device_index).uuid}"
    return _output("nvidia-smi", f"--id={uuid}", f"--query-gpu={fields}", "--format=csv,noheader")


def clocks(device_index: int) -> str | None:
    """SM clock, memory clock and temperature as nvidia-smi reads them; None where it cannot."""
    return _nvidia_smi(device_index, "clocks.sm,clocks.mem,temperature.gpu")


def machine(device_index: int) -> dict[str, Any]:
    """What the figures were measured on; `commit` ends in -dirty with uncommitted changes.

    What cannot be found out is None: the commit outside a git checkout, the driver and the clocks
    without nvidia-smi.
    """
    properties = torch.cuda.get_device_properties(device_index)
    return {
        "gpu": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "is_sm120": (properties.major, properties.minor) == (12, 0),
        "l2_bytes": properties.L2_cache_size,
        "driver": _nvidia_smi(device_index, "driver_version"),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": triton.__version__,
        "python": platform.python_version(),
        "commit": _output(
            *["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        ),
        "clocks_before": clocks(device_index),
    }


def headline(results: Results) -> str:
    """The machine in a line, and what it is not."""
    m = results.machine
    where = (
        f"{m['gpu']}, compute capability {m['capability']}, driver {m['driver']}, "
        f"torch {m['torch']}, Triton {m['triton']}"
    )
    if m["is_sm120"]:
        return where
    return f"{where}\nThis is not SM120: these figures say nothing about an RTX 5090."


def _row(name: str, cells: Iterable[str]) -> str:
    """A line of a table over M = 1..8: 80 columns, for a plain terminal."""
    return f"{name:<24}" + "".join(f"{cell:>7}" for cell in cells)


def time_table(results: Results, cache: str) -> str:
    """Medians in µs, providers by M, and below how far apart the deciles of the samples are.

    `cache` is "warm" or "cold". Empty without samples.
    """
    samples = {key[:2]: value for key, value in results.samples.items() if key[2] == cache}
    rows = sorted({rows for _, rows in samples})
    names = list(dict.fromkeys(name for name, _ in samples))

    def table(title: str, figure: Callable[[Samples], float]) -> list[str]:
        lines = [_row(f"{cache} L2, {title}", (f"M={r}" for r in rows))]
        for name in names:
            found = (samples.get((name, r)) for r in rows)
            lines.append(_row(name, ("-" if s is None else f"{figure(s):.2f}" for s in found)))
        return lines

    medians = table("µs a call", lambda s: s.median)
    spreads = table("spread", lambda s: s.spread[1] - s.spread[0])
    return "\n".join([*medians, "", *spreads]) if samples else ""


def numerics_table(results: Results) -> str:
    """The worst over M for each provider; empty without numerics."""
    lines = [f"{'bits':<24}{'= F.linear':>12}{'= frozen':>10}{'max ULP':>9}{'rel. error':>12}"]
    for name in dict.fromkeys(name for name, _ in results.numerics):
        found = [n for (provider, _), n in results.numerics.items() if provider == name]
        equal = [sum(n.equals_linear for n in found), sum(n.equals_frozen for n in found)]
        cells = [f"{n}/{len(found)} M" for n in equal]
        worst = max(n.relative_error for n in found)
        ulp = max(n.ulp for n in found)
        lines.append(f"{name:<24}{cells[0]:>12}{cells[1]:>10}{ulp:>9}{worst:>12.2e}")
    return "\n".join(lines) if results.numerics else ""


def goal_lines(results: Results) -> list[str]:
    """This kernel's warm median over that of the frozen form and of the chain, with the goal."""
    lines = []
    for base, (goal, goal_8) in GOALS.items():
        for rows in range(2, 9):
            ours = results.samples.get(("this kernel", rows, "warm"))
            theirs = results.samples.get((base, rows, "warm"))
            if ours and theirs:
                ratio, limit = ours.median / theirs.median, goal_8 if rows == 8 else goal
                verdict = "met" if ratio <= limit else "MISSED"
                lines.append(f"M={rows}: {ratio:.3f} x {base} (goal {limit:.2f}: {verdict})")
    return lines


def text(results: Results) -> str:
    """The whole report for a terminal."""
    parts = [headline(results), time_table(results, "warm"), time_table(results, "cold")]
    parts += [numerics_table(results), "\n".join(goal_lines(results))]
    costs = [f"  {name}: {cost:.1f}" for name, cost in results.cpu_cost.items()]
    parts.append("\n".join(["CPU µs a call, eager, M=4:", *costs]) if costs else "")
    skipped = [f"  {name}: {reason}" for name, reason in results.skipped.items()]
    parts.append("\n".join(["skipped:", *skipped]) if skipped else "")
    clock = f"SM, memory, °C before: {results.machine['clocks_before']}; "
    parts.append(clock + f"after: {results.machine.get('clocks_after')}")
    return "\n\n".join(part for part in parts if part)


def write_plot(results: Results, path: Path) -> None:
    """Medians over M, warm, with the spread as a band. Raises ImportError without matplotlib."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    for name in dict.fromkeys(key[0] for key in results.samples):
        points = sorted(
            (rows, samples)
            for (provider, rows, cache), samples in results.samples.items()
            if (provider, cache) == (name, "warm")
        )
        rows = [r for r, _ in points]
        axes.plot(rows, [s.median for _, s in points], marker="o", label=name)
        spreads = [s.spread for _, s in points]
        axes.fill_between(rows, [s[0] for s in spreads], [s[1] for s in spreads], alpha=0.2)
    axes.set(xlabel="rows of x (M)", ylabel="µs a call", title=results.machine["gpu"], ylim=0)
    axes.legend(fontsize="small")
    figure.savefig(path, format="svg")
