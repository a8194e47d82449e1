"""The folder of results: what stands beside the results."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from runci import register_cpu_ci
from runci.core.result import FileResult, Outcome
from runci.core.selected import Selected
from runci.run.store import Store

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


def test_results_are_no_part_of_the_repository(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    with Store(tmp_path / ".runci" / "results", "cpu-a-1of1"):
        pass
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=tmp_path, check=True, capture_output=True
    )
    assert status.stdout == b""


def test_another_folder_gets_nothing_beside_the_results(tmp_path: Path) -> None:
    with Store(tmp_path / "res", "cpu-a-1of1"):
        pass
    assert not (tmp_path / "res" / ".gitignore").exists()
    assert not (tmp_path / ".gitignore").exists()


def test_shards_begin_in_one_folder_at_once(tmp_path: Path) -> None:
    def begin(shard: int) -> None:
        for _ in range(50):
            with Store(tmp_path, f"cpu-a-{shard}of6"):
                pass

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(begin, range(1, 7))) == [None] * 6


def test_a_part_is_kept_beside_the_whole_and_found_with_it(tmp_path: Path) -> None:
    whole = FileResult("s", "cpu", "s-1", "t/test_x -y.py", Outcome.PASSED, 1, 0, (), 1.0, 0.0)
    parts = [
        replace(whole, only=("test_a",)),
        replace(whole, selected=Selected(keyword="a/b.c or -d")),
        replace(whole, selected=Selected(arguments=("--tb=short",)), only=("test_a",)),
    ]
    with Store(tmp_path, "s-1") as store:
        for one in (whole, *parts):
            store.write(one)
        assert len(store.of_file(whole.path)) == 4
        assert [store.earlier(one.title)[0] for one in (whole, *parts)] == [
            [whole],
            *([one] for one in parts),
        ]
        store.clear([parts[1].title])
        assert parts[1] not in store.of_file(whole.path)
        assert len(store.of_file(whole.path)) == 3


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
