"""Measures `runci lint` as whole processes, and prints a table.

`python bench_lint.py [--root CHECKOUT [--config FILE]]`: on a generated tree, or on a copy of the
tests and workflows of a checkout. docs/design.md says how to read the table.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from measure import Sample, machine, median, run
from tree import write_tree

from runci.config.repository import load_taxonomy_file
from runci.read.discover import discover

RUNCI = (str(Path(sys.executable).with_name("runci")),)
# Seconds after which a file is no longer too young for an answer about it to be kept.
YOUNG = 2.5
FLOOR = "floor: ast.parse of all files, one process, collector on"


@dataclass(frozen=True)
class Row:
    """A line of the table.

    `goal` is CPU time divided by the floor's, `goal_seconds` CPU time alone, `goal_memory` MB of
    all processes together.
    """

    name: str
    sample: Sample
    floor: float  # seconds of CPU of the floor for the same tree
    goal: float | None = None
    goal_memory: float | None = None
    goal_seconds: float | None = None

    @property
    def ratio(self) -> float:
        return self.sample.cpu / self.floor

    @property
    def goals(self) -> str:
        texts = (
            "" if self.goal is None else f"{self.goal:.3f}",
            "" if self.goal_seconds is None else f"{self.goal_seconds:.2f} s",
            "" if self.goal_memory is None else f"{self.goal_memory:.0f} MB",
        )
        return ", ".join(filter(None, texts))

    @property
    def met(self) -> str:
        memory = self.sample.total or self.sample.peak
        pairs = (
            (self.ratio, self.goal),
            (self.sample.cpu, self.goal_seconds),
            (memory, self.goal_memory),
        )
        known = [is_now <= goal for is_now, goal in pairs if goal is not None]
        return "" if not known else "yes" if all(known) else "no"


@dataclass(frozen=True)
class Subject:
    """A tree to lint, and the files of its tests."""

    root: Path
    config: Path
    tests: tuple[str, ...]

    @classmethod
    def at(cls, root: Path, config: Path | None = None) -> Subject:
        config = config or root / "test" / "suites.yml"
        return cls(root, config, discover(root, load_taxonomy_file(root, config)).tests)

    def lint(self, *options: str) -> list[str]:
        return [*RUNCI, "lint", f"--root={self.root}", f"--config={self.config}", *options]

    def floor(self, memory: bool = False) -> Sample:
        names = "\0".join(str(self.root / path) for path in self.tests)
        script = Path(__file__).with_name("floor.py")
        return run([sys.executable, str(script)], stdin=names.encode(), memory=memory)


def real_size(subject: Subject, cache: Path, runs: int) -> Iterator[Row]:
    """The lines about one tree of real size."""
    parsed = median(runs, lambda _: subject.floor(), "floor")
    yield Row(FLOOR, parsed, parsed.cpu)

    lint = subject.lint("--no-cache")
    cold = median(runs, lambda _: run(lint), "cold")
    watched = run(lint, memory=True)  # watching costs time
    yield Row("cold, no cache", dataclasses.replace(cold, total=watched.total), parsed.cpu, 1.2)
    single = median(runs, lambda _: run([*lint, "--jobs=1"]), "cold, one process")
    yield Row("cold, no cache, one process", single, parsed.cpu)

    cached = f"--cache-dir={cache}"
    run(subject.lint(cached))
    warm = median(runs, lambda _: run(subject.lint(cached)), "warm")
    yield Row("warm", warm, parsed.cpu, 0.035)
    known = f"--baseline={cache / 'known.json'}"
    run(subject.lint(cached, known, "--write-baseline"))
    time.sleep(YOUNG)
    run(subject.lint(cached, known))
    accepted = median(runs, lambda _: run(subject.lint(cached, known)), "warm, accepted")
    yield Row("warm, all findings in the baseline", accepted, parsed.cpu, 0.035)

    # Of middle size, so that parsing it is neither nothing nor the longest file's time.
    by_size = sorted(subject.tests, key=lambda path: (subject.root / path).stat().st_size)
    changed = subject.root / by_size[len(by_size) // 2]

    def change(number: int) -> Sample:
        with changed.open("a") as stream:
            stream.write(f"# changed {number}\n")
        return run(subject.lint(cached, known, str(changed)))

    yield Row("one changed file", median(runs, change, "one file"), parsed.cpu, 0.045)
    version = median(runs, lambda _: run([*RUNCI, "--version"]), "--version")
    yield Row("runci --version", version, parsed.cpu, goal_seconds=0.04)
    nothing = median(runs, lambda _: run([sys.executable, "-c", ""]), "python")
    yield Row("python -c '', for comparison", nothing, parsed.cpu)


def many_times(subject: Subject, cold: Row, scale: int) -> Iterator[Row]:
    """The lines about a tree many times as large, whose goal follows from `cold`."""
    parsed = median(1, lambda _: subject.floor(memory=True), f"floor, {scale} times the tree")
    yield Row(f"{scale} times the tree: floor", parsed, parsed.cpu)
    lint = subject.lint("--no-cache")
    large = median(1, lambda _: run(lint, memory=True), f"{scale} times the tree")
    yield Row(f"{scale} times the tree: cold", large, parsed.cpu, cold.ratio * 1.1, 400)


def copy_checkout(root: Path, config: Path, to: Path) -> Subject:
    """The tests and workflows of a checkout, where files may be changed."""
    for name in {*load_taxonomy_file(root, config).roots, ".github"}:
        if (root / name).is_dir():
            shutil.copytree(root / name, to / name, symlinks=True)
    subprocess.run(["git", "init", "--quiet"], cwd=to, check=True)
    subprocess.run(["git", "add", "--all", "--force"], cwd=to, check=True)
    return Subject.at(to, config.absolute())


def table(rows: list[Row]) -> str:
    """The rows in Markdown."""
    lines = [
        "| | wall s | CPU s | CPU / floor | MB, all | goal | met |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for row in rows:
        memory = f"{row.sample.total:.0f}" if row.sample.total else ""
        lines.append(
            f"| {row.name} | {row.sample.wall:.2f} | {row.sample.cpu:.2f} "
            f"| {row.ratio:.3f} | {memory} | {row.goals} | {row.met} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, help="a checkout (default: a generated tree)")
    parser.add_argument("--config", type=Path, help="its suites.yml")
    parser.add_argument("--runs", type=int, default=5, help="of which the median (default: 5)")
    parser.add_argument("--scale", type=int, default=10, help="0: no larger tree (default: 10)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    options = parser.parse_args()
    about = machine()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.root:
            config = options.config or options.root / "test" / "suites.yml"
            subject = copy_checkout(options.root, config, folder / "tree")
        else:
            write_tree(folder / "tree")
            subject = Subject.at(folder / "tree")
        size = sum((subject.root / path).stat().st_size for path in subject.tests)
        about["tree"] = f"{len(subject.tests):,} test files, {size / 1e6:.1f} MB"
        rows = list(real_size(subject, folder / "cache", options.runs))
        if options.scale and not options.root:
            write_tree(folder / "large", options.scale)
            large = Subject.at(folder / "large")
            rows += many_times(large, rows[1], options.scale)
    print("\n".join(f"- {key}: {value}" for key, value in about.items()))
    print(f"\n{table(rows)}")
    if options.json:
        figures = [dataclasses.asdict(row) | {"met": row.met} for row in rows]
        options.json.write_text(json.dumps({"machine": about, "rows": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
