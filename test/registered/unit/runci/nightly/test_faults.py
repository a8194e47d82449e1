"""The faults that users of such systems reported, each as a small series, through Otava and scipy.

All of them are metrics of one history, decided by `runci perf check` in the environment of the
extra `perf`, as the nightly runs it; and a small form of the benchmark's replay.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

import perf_series as sim
from places import ROOT

from runci import register_cpu_ci
from runci.nightly.history.additions import Additions
from runci.nightly.history.lines import Point, Series, Turn
from runci.nightly.history.store import append_folder, read_folder, start_folder
from runci.nightly.record import Direction, decode
from runci.nightly.verdict import Confirmed, Status, Verdict, Verdicts

register_cpu_ci(est_time=19, stage="base-a", runner_config="cpu")

PYTHON = ROOT / ".venv-perf" / "bin" / "python"
BENCHMARK = ROOT / "ci_scripts" / "benchmark" / "bench_nightly.py"
CONFIG = """\
version: 1
first_night: 2026-12-01
benchmarks:
  gemm: {version: "1", command: ["true"]}
renames: [{from: before, to: after}]
"""
NIGHTS = 60
LAST = NIGHTS - 1  # decided first; two more nights follow
ALL = NIGHTS + 2
DEAD = 45  # nobody ran it


@dataclass(frozen=True)
class Fault:
    """A series of `ALL` nights, and its verdict on night `LAST`, without any event yet."""

    series: Series
    status: Status
    since: int | None = None
    by: Confirmed = Confirmed.NOT_YET
    watch: bool = False


def noisy(ratio: object, sigma: float = 0.006, seed: int = 11) -> list[Point]:
    """All nights, each at `ratio(n)`, off by chance as a night's median of five pairs is."""
    source = random.Random(seed)
    level = ratio if callable(ratio) else lambda _: ratio
    return [sim.point(n, level(n) * (1 + source.gauss(0, sigma))) for n in range(ALL)]


def step(at: int, ratio: float, **more: int) -> list[Point]:
    return noisy(lambda n: ratio if n >= at else 1.0, **more)


def fast_runner() -> list[Point]:
    return [sim.scaled(p, 0.7) if n == LAST - 1 else p for n, p in enumerate(noisy(1.0))]


def two_modes() -> list[Point]:
    source = random.Random(4)
    return noisy(lambda _: source.choice((1.0, 1.06)))


def hotter(at: int) -> list[Point]:
    return [sim.scaled(p, 1.08) if n >= at else p for n, p in enumerate(noisy(1.0))]


def base_first() -> list[Point]:
    """The second of every pair runs on a warmer chip; in half of the pairs that is the baseline."""
    one = noisy(1.0)
    warm = (1.01, 1.0, 1.01, 1.0, 1.01)
    cold = (1.0, 1.01, 1.0, 1.01, 1.0)
    return [
        replace(
            p,
            candidate=tuple(
                c * w for c, w in zip(p.candidate, warm if n % 2 else cold, strict=True)
            ),
            baseline=tuple(b * w for b, w in zip(p.baseline, cold if n % 2 else warm, strict=True)),
        )
        for n, p in enumerate(one)
    ]


def alarms() -> list[Point]:
    """What gave one user 43 alerts: a loud series, each night another figure, nothing wrong."""
    return noisy(1.0, sigma=0.009, seed=5)


def missing(points: list[Point], *nights: int) -> list[Point]:
    return [p for n, p in enumerate(points) if n not in nights]


def faults() -> dict[str, Fault]:
    lower, higher = Direction.LOWER, Direction.HIGHER
    creep = noisy(lambda n: 1 + 0.0012 * max(n - 20, 0))
    spiked = [sim.point(n, 1.1) if n in (17, 30, 44) else p for n, p in enumerate(noisy(1.0))]
    spiked_last = [sim.point(n, 1.1) if n == LAST else p for n, p in enumerate(noisy(1.0))]
    among = [
        sim.point(n, 1.1) if n in (15, 22, 30, 38, 46) else p
        for n, p in enumerate(step(LAST - 4, 1.05))  # so many spikes ask for more than two nights
    ]
    confirmed = [sim.rerun(p, 1.05) if n == LAST else p for n, p in enumerate(step(LAST, 1.05))]
    unusable = sim.point(LAST, 3.0, unusable=("throttled before (thermal slowdown)",))
    broken = sim.point(LAST, candidate=(6.0, float(-1), 6.0, 6.0, 6.0))
    once = sim.point(LAST, candidate=(6.0,), baseline=(6.0,))
    regression, steady, better = Status.REGRESSION, Status.STEADY, Status.IMPROVEMENT
    second, paired = Confirmed.SECOND_NIGHT, Confirmed.PAIRED
    gap = missing(step(40, 1.05), *range(38, 52))

    def of(name: str, points: list[Point], direction: Direction = lower) -> Series:
        return sim.series(points, name, direction)

    return {
        one.series.id.metric: one
        for one in (
            Fault(of("nothing", noisy(1.0)), steady),
            Fault(of("43 alerts", alarms()), steady),
            Fault(of("a fast runner the night before", fast_runner()), steady),
            Fault(of("higher is better and falls", step(50, 0.95), higher), regression, 50, second),
            Fault(of("higher is better and rises", step(50, 1.05), higher), better, 50, second),
            Fault(of("lower is better and falls", step(50, 0.95)), better, 50, second),
            Fault(of("two modes of one machine", two_modes()), Status.NOISY),
            Fault(of("a hotter box", hotter(LAST)), steady),
            Fault(of("another CPU", hotter(30)), steady),
            Fault(of("always base first", base_first()), steady),
            Fault(of("a regression becomes the baseline", step(15, 1.05)), regression, 15, second),
            Fault(of("a step two nights ago", step(LAST - 1, 1.05)), regression, LAST - 1, second),
            Fault(of("a step tonight", step(LAST, 1.05)), steady, watch=True),
            Fault(of("a step tonight, measured again", confirmed), regression, LAST, paired),
            Fault(of("a step among spikes", among), regression, LAST - 4, second),
            Fault(of("a step of 2 %", step(30, 1.02)), steady),
            Fault(of("a step in a gap", gap), regression, 52, second),
            Fault(of("a slow creep", creep), regression, None, Confirmed.BASELINE),
            Fault(of("spikes", spiked), steady),
            Fault(of("a spike tonight", spiked_last), steady, watch=True),
            Fault(of("constant", [sim.point(n) for n in range(ALL)]), steady),
            Fault(of("constant, then another constant",
                     [sim.point(n, 1.1 if n >= 50 else 1.0) for n in range(ALL)]),
                  regression, 50, second),
            Fault(of("too short", noisy(1.0)[LAST - 5 :]), Status.TOO_LITTLE),
            Fault(of("unusable tonight", [*noisy(1.0)[:LAST], unusable]), Status.MISSING),
            Fault(of("a negative time", [*noisy(1.0)[:LAST], broken]), Status.MISSING),
            Fault(of("one repetition", [*noisy(1.0)[:LAST], once]), Status.MISSING),
            Fault(of("gone", noisy(1.0)[:40]), Status.MISSING),
            Fault(sim.exact([n != LAST for n in range(ALL)]), regression, LAST, Confirmed.EXACT),
        )
    }  # fmt: skip


FAULTS = faults()


def check(root: Path, night: int, *more: str) -> tuple[int, Verdicts, str]:
    """One real `runci perf check --push` on the folder."""
    if not PYTHON.exists():
        pytest.fail(f"{PYTHON} is not there: run `make .venv-perf/stamp`")
    out = root / f"verdicts-{night}.json"
    command = [
        *(str(PYTHON), "-m", "runci", "perf", "check", "--root", str(root), "--output", str(out)),
        *("--history", str(root / "history"), "--night", sim.night(night), "--push", *more),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, cwd=root,
        env={"COLUMNS": "80", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, decode(out.read_bytes(), Verdicts, out.name), done.stdout


@dataclass(frozen=True)
class Nights:
    """Three nights, decided one after another, with the events of those before."""

    root: Path
    found: tuple[dict[str, Verdict], ...]
    text: str


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    root = tmp_path_factory.mktemp("faults")
    (root / "test").mkdir()
    (root / "test" / "perf.yml").write_text(CONFIG)
    start_folder(root / "history")
    renamed = [sim.series(noisy(1.0)[:40], "before"), sim.series(step(50, 1.05)[40:], "after")]
    world = sim.World(
        [*(fault.series for fault in FAULTS.values()), *renamed],
        [sim.ran(n) for n in range(ALL) if n != DEAD],
    )
    append_folder(root / "history", lambda _: Additions(world.additions(), tuple(world.nights)))
    decided = [check(root, night) for night in (LAST, LAST + 1, LAST + 2)]
    assert {status for status, _, _ in decided} == {1}
    assert [v.missing for _, v, _ in decided] == [(sim.night(DEAD),)] * 3
    by_metric = tuple({v.id.metric: v for v in verdicts.verdicts} for _, verdicts, _ in decided)
    return Nights(root, by_metric, decided[0][2])


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_each_fault_gets_its_verdict(nights: Nights, name: str) -> None:
    fault, verdict = FAULTS[name], nights.found[0][name]
    assert (verdict.status, verdict.watch) == (fault.status, fault.watch), verdict.reason
    assert verdict.confirmed_by is fault.by
    if fault.since is not None:
        assert verdict.since == sim.night(fault.since)
        assert verdict.since_commit == sim.commit(fault.since)
    if fault.status in (Status.REGRESSION, Status.IMPROVEMENT) and name != "bits":
        assert verdict.low is not None and verdict.high is not None and verdict.change is not None
        assert verdict.low <= verdict.change <= verdict.high
        assert (verdict.change > 0) == (fault.status is Status.REGRESSION)


def test_a_renamed_metric_keeps_its_history(nights: Nights) -> None:
    verdict = nights.found[0]["after"]
    assert "before" not in nights.found[0]
    assert (verdict.points, verdict.status, verdict.since) == (
        NIGHTS,
        Status.REGRESSION,
        sim.night(50),
    )


def test_the_creep_s_beginning_is_estimated(nights: Nights) -> None:
    since = nights.found[0]["a slow creep"].since
    assert since is not None and sim.night(24) <= since <= sim.night(48)


def test_a_hotter_box_is_told_and_no_regression(nights: Nights) -> None:
    assert "the machine changed" in nights.found[0]["a hotter box"].reason
    assert "machine" not in nights.found[0]["another CPU"].reason  # thirty nights ago


def test_the_next_nights_confirm_forget_or_recover(nights: Nights) -> None:
    _, second, third = nights.found
    assert second["a step tonight"].status is Status.REGRESSION
    assert second["a step tonight"].since == sim.night(LAST)
    assert third["a step tonight"].status is Status.REGRESSION
    assert summary(second["a spike tonight"]) == (Status.STEADY, False)
    assert second["bits"].status is third["bits"].status is Status.RECOVERED
    for name in ("a regression becomes the baseline", "a slow creep", "a step in a gap"):
        assert second[name].status is third[name].status is Status.REGRESSION
        assert second[name].since == third[name].since == nights.found[0][name].since
    for name in ("nothing", "43 alerts", "spikes", "always base first", "another CPU"):
        assert summary(second[name]) == summary(third[name]) == (Status.STEADY, False)
    assert third["two modes of one machine"].status is Status.NOISY


def summary(verdict: Verdict) -> tuple[Status, bool]:
    return verdict.status, verdict.watch


def test_the_record_has_each_change_once(nights: Nights) -> None:
    events = {
        series.id.metric: [event.turn for event in series.events]
        for series in read_folder(nights.root / "history", {"before": "after"}).series.values()
    }
    changed = {name for name, turns in events.items() if turns}
    expected = {
        name for name, f in FAULTS.items() if f.status in (Status.REGRESSION, Status.IMPROVEMENT)
    }
    assert changed == expected | {"after", "a step tonight"}
    assert events["bits"] == [Turn.REGRESSION, Turn.RECOVERED]
    assert all(len(turns) == 1 for name, turns in events.items() if name in changed - {"bits"})


def test_the_same_night_again_says_the_same_and_writes_nothing(nights: Nights) -> None:
    history = nights.root / "history"
    before = {p: p.read_bytes() for p in history.rglob("*.jsonl")}
    _, verdicts, _ = check(nights.root, LAST + 2)
    assert {v.id.metric: v for v in verdicts.verdicts} == nights.found[2]
    assert {p: p.read_bytes() for p in history.rglob("*.jsonl")} == before


def test_the_table_is_80_columns_wide_and_worst_first(nights: Nights) -> None:
    table = nights.text.partition("\n\n")[2].partition("\n\n")[0].splitlines()
    assert max(map(len, table)) <= 80
    order = [status.value.split()[0] for status in Status]
    ranks = [order.index(row.split()[0].rstrip(",")) for row in table[2:]]
    assert ranks == sorted(ranks)
    assert f"missing night: {sim.night(DEAD)}" in nights.text


def test_a_small_replay_reaches_the_goals() -> None:
    """Six series of each kind, night by night: no alarm for nothing, every step within a week."""
    if not PYTHON.exists():
        pytest.fail(f"{PYTHON} is not there: run `make .venv-perf/stamp`")
    command = [
        *(str(PYTHON), str(BENCHMARK), "--series", "6", "--seed", "20", "--rule", "runci"),
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    rows = {row["kind"]: row for row in json.loads(done.stdout)}
    assert {kind: row["series"] for kind, row in rows.items()} == dict.fromkeys(rows, 6)
    for kind in ("none", "machine change", "step", "gap", "direction", "driver change"):
        assert rows[kind]["false"] == 0, kind
    for kind in ("step", "gap", "direction", "driver change", "second step", "after a gain"):
        assert (rows[kind]["planted"], rows[kind]["within"]) == (6, 6), kind
        assert sorted(rows[kind]["delays"])[3] <= 2, kind
    assert len(rows["creep"]["delays"]) == len(rows["improvement"]["delays"]) == 6


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
