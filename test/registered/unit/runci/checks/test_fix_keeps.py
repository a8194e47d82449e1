"""`--fix` keeps what executes and what files say, for generated programs and files.

100 of each here, 5,000 in `make bench` (ci_scripts/benchmark/bench_fix.py), by the same generators.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from fix_files import check_files
from fix_programs import as_process, check_programs, execute, program
from trees import TAXONOMY

from runci import register_cpu_ci

register_cpu_ci(est_time=15, stage="base-a", runner_config="cpu")

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="runs programs in forks")


@forks
def test_what_executes_and_how_it_ends(tmp_path: Path) -> None:
    outcome = check_programs(tmp_path / "tree", TAXONOMY.read_bytes(), range(100))
    assert outcome.broken == []
    assert outcome.mended["RT304"] >= 5
    assert outcome.mended["RT301"] >= 5
    assert outcome.mended["RT302"] >= 1
    assert outcome.left["RT304"] >= 30  # in loops, helpers, `with`, `try`, with code after it


@forks
def test_a_fork_says_what_an_interpreter_of_its_own_says(tmp_path: Path) -> None:
    paths = [tmp_path / program(seed).path for seed in range(20)]
    for seed, path in enumerate(paths):
        path.parent.mkdir(parents=True)
        path.write_bytes(program(seed).source)
    forked = dict(zip(paths, execute([("script", path) for path in paths]), strict=True))
    red = [path for path, run in forked.items() if run.tests and run.status][:2]
    green = [path for path, run in forked.items() if run.tests and not run.status][:2]
    assert len(red) == len(green) == 2
    assert {path: as_process(path) for path in red + green} == {p: forked[p] for p in red + green}


def test_what_files_say(tmp_path: Path) -> None:
    outcome = check_files(tmp_path, range(100))
    assert outcome.broken == []
    assert set(outcome.mended) == {".py", ".yaml"}
    assert min(outcome.mended.values()) >= 10


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
