"""The scratch repository of `act_repository`, with a benchmark and a history of the nightly.

The benchmark prints samples that were recorded on an H200, times what the file `speed` of its
commit says: a slower commit is a change of that file.
"""

from __future__ import annotations

import datetime
import json
import random
import statistics
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from act_repository import ROOT
from act_workflows import Scratch

from runci.nightly.history.additions import Addition, Additions
from runci.nightly.history.lines import History, Night, Point, Series, SeriesHeader
from runci.nightly.history.store import Source, start_branch
from runci.nightly.measure.state import Host
from runci.nightly.record import EXACT, Direction, SeriesId

BENCHMARK = "sm120_ba_gemm"
BRANCH = "perf-history"
BITS = "bits of the frozen form"
NIGHTS = 14  # that the history has before tonight
RECORDED = ("this kernel M=4 warm", "F.linear M=4 warm")
MIDNIGHT = 300.0  # seconds before it in which no run should begin: it would end on another night

_PLAYED = """\
import json
import os
import random
import sys
from pathlib import Path

if os.environ.get("ACT_BROKEN") == "benchmark":
    sys.exit("the GPU has fallen off the bus")
here = Path(__file__).parent
speed = float((here / "speed").read_text())
samples = json.loads((here / "samples.json").read_text())
for sample in samples:
    factor = speed if sample["metric"].startswith("this kernel") else 1.0
    sample["values"] = [factor * value for value in random.sample(sample["values"], 10)]
checks = [{"name": "bits of the frozen form", "passed": True, "detail": "M = 4"}]
print(json.dumps({"schema": 1, "samples": samples, "checks": checks}))
"""

_PERF = """\
version: 1
first_night: FIRST
benchmarks:
  sm120_ba_gemm:
    version: "1"
    command: [python, kernel/benchmark/played.py]
    baseline: BASELINE
"""


def _today() -> datetime.date:
    """The night, UTC; shortly before the next one, that one."""
    now = datetime.datetime.now(datetime.timezone.utc)
    if (now + datetime.timedelta(seconds=MIDNIGHT)).date() != now.date():
        time.sleep(MIDNIGHT)
    return datetime.datetime.now(datetime.timezone.utc).date()


def recorded() -> list[dict[str, Any]]:
    """Real samples, in the form that benchmarks print."""
    text = (ROOT / "kernel" / "benchmark" / "records" / "h200.json").read_text(encoding="utf-8")
    found = [s for s in json.loads(text)["samples"] if s["metric"] in RECORDED]
    assert len(found) == len(RECORDED)
    return found


class Nightly(Scratch):
    """A scratch repository whose default branch pins its first commit as the baseline."""

    def __init__(self, folder: Path) -> None:
        perf = ROOT / ".venv-perf" / "bin" / "python"
        assert perf.exists(), f"{perf} is missing: make .venv-perf/stamp"
        super().__init__(folder)
        self.today = _today()
        self.pinned = self.base
        self.git("checkout", "-q", "main")
        config = _PERF.replace("FIRST", self.night(NIGHTS)).replace("BASELINE", self.pinned)
        self.base = self.commit("test/perf.yml", config)

    def _files(self) -> None:
        super()._files()
        folder = self.root / "kernel" / "benchmark"
        folder.mkdir(parents=True)
        files = {"played.py": _PLAYED, "samples.json": json.dumps(recorded()), "speed": "1.0\n"}
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")

    def night(self, back: int) -> str:
        """The date so many nights ago."""
        return (self.today - datetime.timedelta(days=back)).isoformat()

    def commit(self, path: str, text: str) -> str:
        """A commit on the default branch that writes one file."""
        self.git("checkout", "-q", "main")
        (self.root / path).write_text(text, encoding="utf-8")
        return self._commit(f"Change {path}")

    def remember(self, nights: Iterable[int] = range(NIGHTS, 0, -1)) -> None:
        """Start the history anew, with these nights, each so many days ago, all of them alike."""
        self.git("update-ref", "-d", f"refs/heads/{BRANCH}")
        start_branch(self.root, str(self.root), BRANCH)
        additions = Additions(tuple(self._series(list(nights))), tuple(self._lines(nights)))
        Source(self.root, str(self.root), BRANCH).append(lambda _: additions, "Some nights")

    def history(self) -> History:
        """What the branch holds now."""
        return Source(self.root, str(self.root), BRANCH).read()

    def series(self, metric: str) -> Series:
        """What the history has of one metric."""
        (found,) = (one for one in self.history().series.values() if one.id.metric == metric)
        return found

    def artifact(self, name: str) -> Path:
        """What the last run kept under this name."""
        return self.folder / "run" / "artifacts" / name

    def _lines(self, nights: Iterable[int]) -> Iterator[Night]:
        for back in nights:
            yield Night(**self._about(back), measured=True, machine=_id("").machine_key)

    def _series(self, nights: list[int]) -> Iterator[Addition]:
        for sample in recorded():
            points = tuple(self._point(back, sample["values"]) for back in nights)
            header = SeriesHeader(_id(sample["metric"]), sample["unit"], Direction.LOWER)
            yield Addition(header, points)
        bits = (Point(**self._about(back), passed=True, detail="M = 4") for back in nights)
        yield Addition(SeriesHeader(_id(BITS), EXACT, Direction.HIGHER), tuple(bits))

    def _point(self, back: int, values: list[float]) -> Point:
        chance = random.Random(f"{back} {values[0]}")
        ours, theirs = (
            tuple(statistics.median(chance.sample(values, 10)) for _ in range(5)) for _ in range(2)
        )
        about = self._about(back)
        return Point(**about, baseline_commit=self.pinned, candidate=ours, baseline=theirs)

    def _about(self, back: int) -> dict[str, Any]:
        return {
            "night": self.night(back),
            "at": f"{self.night(back)}T02:00:00Z",
            "run_id": str(1000 - back),
            "commit": self.git("rev-parse", "main"),
        }


def _id(metric: str) -> SeriesId:
    return SeriesId(metric, BENCHMARK, "1", Host().machine().gpu, 0)
