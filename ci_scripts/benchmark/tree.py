"""Writes a repository like a large public one: 1,550 test files, 13 MB, 2,030 registrations.

`python tree.py FOLDER [--scale 10] [--faults] [--seed 0]`. The same arguments give the same bytes.
With `--faults` the tree has those of faults.py, and standard output gets the list of [path, line,
rule] as JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import settings
from faults import Fault, faults
from settings import Group
from sources import test_file

FILES, BYTES, REGISTRATIONS = 1_550, 13_000_000, 2_030

# Bytes of a test file at each tenth of the public tree's files, then of its largest hundredth.
_TENTHS = (600, 1400, 2200, 2800, 3500, 4700, 5900, 7800, 10_500, 16_700, 56_000)
_LARGEST = (56_000, 275_000)
_DISABLED = 0.05  # of the registrations


@dataclass(frozen=True)
class Folder:
    """A folder of tests, how many of a hundred files it holds, and the groups they register in."""

    path: str
    share: int
    first: Group
    others: tuple[Group, ...] = ()
    prefix: str = "test"

    @property
    def room(self) -> int:
        """How many more registrations than one a file can have, each in another suite."""
        return sum(len(group.configs) for group in (self.first, *self.others)) - 1


_FOLDERS = (
    Folder("unit/layers", 14, settings.UNIT),
    Folder("unit/server", 12, settings.UNIT, (settings.MLX,)),
    Folder("kernel/gemm", 6, settings.KERNEL, (settings.AMD, settings.NPU)),
    Folder("kernel/attention", 6, settings.KERNEL, (settings.AMD, settings.XPU)),
    Folder("kernel/benchmark", 5, settings.BENCH, (settings.AMD,), "bench"),
    Folder("models", 15, settings.CUDA, (settings.AMD, settings.NPU, settings.XPU)),
    Folder("distributed", 8, settings.LARGE, (settings.AMD, settings.NPU)),
    Folder("openai server", 10, settings.EXTRA, (settings.AMD, settings.NPU)),
    Folder("nightly", 14, settings.NIGHTLY, (settings.AMD_NIGHTLY,)),
    Folder("npu", 10, settings.NPU_NIGHTLY),
)


def write_tree(root: Path, scale: int = 1, seeded: bool = False, seed: int = 0) -> list[Fault]:
    """Write the tree, with git, into an empty folder; gives the seeded faults."""
    extra = [fault for fault in faults() if seeded]
    tests = [fault for fault in extra if fault.path.endswith(".py")]
    # The registrations of a broken file do not count, and those of the others are about as many.
    count = FILES * scale - len(tests)
    sources = test_sources(random.Random(seed), scale, count, REGISTRATIONS * scale - len(tests))
    files = {**dict(sources), "test/suites.yml": settings.suites_yml()}
    files |= settings.workflows(empty=False)
    for path, text in files.items():
        _write(root / path, text)
    for fault in extra:
        _write(root / fault.path, fault.source)
    git = ("git", "-c", "core.compression=0", "-c", "core.autocrlf=false")
    subprocess.run([*git, "init", "--quiet"], cwd=root, check=True)
    subprocess.run([*git, "add", "--all"], cwd=root, check=True)
    return extra


def _write(path: Path, text: str | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if text is None:
        path.symlink_to("no-such-file")
    else:
        path.write_text(text, encoding="utf-8", newline="\n")


def test_sources(
    rng: random.Random, scale: int, count: int, registrations: int
) -> Iterator[tuple[str, str]]:
    """Path and source of each test file."""
    folders = rng.choices(_FOLDERS, [folder.share for folder in _FOLDERS], k=count)
    # Enough files of each folder for every suite to have a test.
    for place, folder in enumerate(_FOLDERS * 6):
        folders[place] = folder
    more = _several(rng, [folder.room for folder in folders], registrations - count)
    sizes = _sizes(rng, count, BYTES * scale)
    for number, folder in enumerate(folders):
        calls = list(_registrations(rng, folder, number, more[number]))
        name = f"test/registered/{folder.path}/{folder.prefix}_case_{number:05}.py"
        yield name, test_file(rng, sizes[number], calls, functions=folder.first is settings.UNIT)


def _sizes(rng: random.Random, count: int, total: int) -> list[int]:
    sizes: list[float] = []
    for number in range(count):
        if number % 100 == 99:
            low, high = _LARGEST
        else:
            tenth = rng.randrange(10)
            low, high = _TENTHS[tenth], _TENTHS[tenth + 1]
            high = high if tenth < 9 else 30_000
        sizes.append(low * (high / low) ** rng.random())
    factor = total / sum(sizes)
    return [round(size * factor) for size in sizes]


def _several(rng: random.Random, room: list[int], surplus: int) -> list[int]:
    """How many registrations each file has beyond its first; `room` says how many it can."""
    more = [0] * len(room)
    while surplus:
        place = rng.randrange(len(room))
        if more[place] < room[place]:
            more[place] += 1
            surplus -= 1
    return more


def _registrations(rng: random.Random, folder: Folder, number: int, more: int) -> Iterator[str]:
    """The calls of one file, in different suites."""
    first = [(folder.first, call) for call in folder.first.calls()]
    others = [(group, call) for group in folder.others for call in group.calls()]
    turn = number % len(first)
    rng.shuffle(others)
    choices = [*first[turn:], *first[:turn]]
    chosen = [choices[0], *(others + choices[1:])[:more]]
    for group, call in chosen:
        disabled = number >= 60 and rng.random() < _DISABLED
        reason = f', disabled="flaky since the last driver, #{number}"' if disabled else ""
        yield f"register_{group.backend}_ci(est_time={rng.randrange(4, 600)}, {call}{reason})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=int, default=1, help="times the size (default: 1)")
    parser.add_argument("--faults", action="store_true", help="seed the faults of faults.py")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = write_tree(options.folder, options.scale, options.faults, options.seed)
    if options.faults:
        print(json.dumps(sorted([f.path, f.line, f.rule] for f in found if f.rule)))


if __name__ == "__main__":
    main()
