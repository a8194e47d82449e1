"""A night's figures, and how `measure` shows them: progress, and a table at the end."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

from runci.nightly.figures import medians, middle, night_value, ratios, spread
from runci.nightly.record import Measurement, Record, Summary
from runci.text.tables import render_table
from runci.text.terminal import printable, wrap

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID


WIDTH = 80


class Progress:
    """A bar on a terminal; in a log a line for each process that ended."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._done = self._total = 0
        self._began = time.monotonic()

    def expect(self, processes: int) -> None:
        """So many more processes will run."""
        self._total += processes
        if self._bar is None and self._stream.isatty():
            self._bar = _bar(self._stream)
        if self._bar is not None and self._task is None:
            self._bar.start()
            self._task = self._bar.add_task("", total=self._total)
        self._update("")

    def begin(self, name: str) -> None:
        """One starts."""
        self._began = time.monotonic()
        self._update(name)

    def end(self, name: str) -> None:
        """It has ended."""
        self._done += 1
        took = time.monotonic() - self._began
        self._update(name)
        if self._bar is None:
            self.note(f"{self._done}/{self._total} {name}: {took:.1f} s")

    def note(self, text: str) -> None:
        """Something worth knowing; above the bar."""
        line = f"runci: {printable(text)}"
        if self._bar is not None:
            self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            self._stream.write(f"{line}\n")
            self._stream.flush()

    def close(self) -> None:
        """Give the terminal back."""
        if self._bar is not None:
            self._bar.stop()

    def _update(self, name: str) -> None:
        if self._bar is not None and self._task is not None:
            shown = printable(name)
            self._bar.update(self._task, completed=self._done, total=self._total, description=shown)


def summarize(measurements: Iterable[Measurement]) -> tuple[Summary, ...]:
    """One summary a metric, in their order."""
    by_name = {one.metric: one for one in measurements}
    return tuple(_summary(one, by_name.get(one.reference or "")) for one in by_name.values())


def title(record: Record) -> str:
    """What was measured beside what, and where; a sentence."""
    beside = f" beside {record.baseline_commit[:12]}" if record.baseline_commit else ""
    commit = record.commit[:12] + ("-dirty" if record.commit.endswith("-dirty") else "")
    said = (
        f"{record.benchmark}, night {record.night}: {commit}{beside} on {record.machine.gpu}, "
        f"{len(record.order)} processes, seed {record.seed}"
    )
    return "".join(f"{line}\n" for line in wrap(printable(said), WIDTH))


def table(record: Record) -> str:
    """A row a metric: its medians, and how they compare."""
    arms = list(record.arms)
    rows = [[*_row(one), *(_ratio(one.arms.get(arm)) for arm in arms)] for one in record.summary]
    headers = ("metric", "candidate", "baseline", "ratio", "to ref.", "spread", *arms)
    return render_table(headers, rows, "<>>>>>" + ">" * len(arms), WIDTH)


def _summary(one: Measurement, reference: Measurement | None) -> Summary:
    candidate, baseline = medians(one.candidate), medians(one.baseline)
    ours = middle(candidate)
    against = middle(medians(reference.candidate)) if reference is not None else None
    pairs = ratios(candidate, baseline)
    return Summary(
        one.metric,
        one.unit,
        candidate=ours,
        baseline=middle(baseline),
        ratio=middle(pairs) if baseline else None,
        to_reference=ours / against if ours is not None and against else None,
        spread=spread(pairs) if len(pairs) > 1 else None,
        arms={
            name: found
            for name, runs in one.arms.items()
            if (found := night_value(candidate, medians(runs))) is not None
        },
    )


def _bar(stream: TextIO) -> Bar:
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.BarColumn(20),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.description}", markup=False),
        console=Console(file=stream),
        transient=True,
    )


def _row(one: Summary) -> list[str]:
    return [
        one.metric,
        _figure(one.candidate, one.unit),
        _figure(one.baseline, one.unit),
        _ratio(one.ratio),
        _ratio(one.to_reference),
        _percent(one.spread),
    ]


def _figure(figure: float | None, unit: str) -> str:
    return "-" if figure is None else f"{figure:.4g} {unit}"


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.3f}"


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{part:.1%}"
