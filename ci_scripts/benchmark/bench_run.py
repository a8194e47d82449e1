"""Measures `runci run` against `python FILE` for files that each import torch; prints a table.

`python bench_run.py [--files 20]`: all lines in one run, one after another, on generated files.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from measure import Sample, machine, run

from runci.text.tables import render_markdown

RUNCI = (sys.executable, "-m", "runci", "run", "--suite", "base-a-test-cpu")
GOAL = 1 / 3
TAXONOMY = """\
version: 1
roots: [test/registered]
runners:
  cpu: {label: ubuntu-latest, execution: pytest}
suites:
  cpu:
    - {stage: base-a, runner_configs: [cpu], kind: per-commit, timeout_minutes: 30}
taxonomy:
  - {folder: "test/registered/**", allow: {cpu: ["*"]}, because: all may}
"""
TEST = """\
import sys

import pytest
import torch

from runci import register_cpu_ci

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")


@pytest.mark.parametrize("size", [2, 8])
def test_product_{number}(size):
    x = torch.randn(size, size)
    assert torch.allclose(x @ torch.eye(size), x)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
"""


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    name: str
    sample: Sample
    base: Sample

    @property
    def cells(self) -> list[str]:
        share = self.sample.wall / self.base.wall
        met = "" if self.sample is self.base else "yes" if share <= GOAL else "no"
        cpu = f"{self.sample.cpu:.1f}"
        return [self.name, f"{self.sample.wall:.1f}", cpu, f"{share:.2f}", met]


def make(root: Path, files: int) -> list[Path]:
    """A repository of `files` tests."""
    folder = root / "test" / "registered"
    folder.mkdir(parents=True)
    (root / "test" / "suites.yml").write_text(TAXONOMY, encoding="utf-8")
    paths = [folder / f"test_{number:03}.py" for number in range(files)]
    for number, path in enumerate(paths):
        path.write_text(TEST.format(number=number), encoding="utf-8")
    return paths


def one_by_one(commands: list[list[str]]) -> Sample:
    """Commands one after another: the sum of their times."""
    samples = [run(command) for command in commands]
    return Sample(
        sum(s.wall for s in samples), sum(s.cpu for s in samples), max(s.peak for s in samples)
    )


def rows(root: Path, paths: list[Path]) -> Iterator[Row]:
    """The lines; the first is what the others are divided by."""
    run([sys.executable, str(paths[0])])  # so that the first file does not pay for a cold disk
    base = one_by_one([[sys.executable, str(path)] for path in paths])
    yield Row("python FILE, one after another", base, base)
    for name, options in (
        ("runci run --jobs 1", ["--jobs", "1"]),
        ("runci run (one job a core)", []),
        ("runci run --as-script", ["--as-script"]),
        ("runci run --isolate spawn --jobs 1", ["--isolate", "spawn", "--jobs", "1"]),
        ("runci run --isolate spawn", ["--isolate", "spawn"]),
    ):
        sample = run([*RUNCI, f"--root={root}", f"--results={root}/results", *options])
        check(root, len(paths))
        yield Row(name, sample, base)
    everything = [sys.executable, "-m", "pytest", "-q", f"--rootdir={root}", str(root)]
    yield Row("pytest in one process, without isolation", run(everything), base)


def check(root: Path, files: int) -> None:
    """Each line of the table stands for files that passed."""
    found = [path.read_text(encoding="utf-8") for path in (root / "results").glob("*.json")]
    passed = sum('"outcome": "passed"' in text and '"tests": 2' in text for text in found)
    if passed != files:
        raise RuntimeError(f"{passed} of {files} files passed")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--files", type=int, default=20)
    count = options.parse_args().files
    versions = subprocess.run(
        [
            sys.executable,
            "-c",
            "import torch, pytest; print(torch.__version__, pytest.__version__)",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    facts = {**machine(), "torch": versions[0], "pytest": versions[1]}
    print(", ".join(f"{name}: {value}" for name, value in facts.items()) + "\n")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        found = [row.cells for row in rows(root, make(root, count))]
    headers = [f"{count} files that import torch", "wall s", "CPU s", "share of the first", "≤ 1/3"]
    print(render_markdown(headers, found, "<>>>>"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
