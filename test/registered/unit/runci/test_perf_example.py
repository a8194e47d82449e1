"""The sample of the nightly in examples/nightly: still what today's code makes of its history."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from runci import register_cpu_ci

register_cpu_ci(est_time=6, stage="base-a", runner_config="cpu")

ROOT = Path(__file__).parents[4]
SAMPLE = ROOT / "examples/nightly"
RUNCI = [str(ROOT / ".venv-perf/bin/python"), "-m", "runci", "perf"]
SOURCE = ["--config", str(SAMPLE / "perf.yml"), "--history", str(SAMPLE / "history")]


def check(night: int, output: Path) -> dict[str, Any]:
    assert Path(RUNCI[0]).exists(), "no environment with Otava: run `make .venv-perf/stamp`"
    command = [*RUNCI, "check", *SOURCE, "--night", f"2026-11-{night}", "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    verdicts: dict[str, Any] = json.loads(output.read_text())
    return verdicts | {"status": done.returncode}


@pytest.mark.parametrize(
    ("night", "status", "expected"),
    [
        (24, 0, {"too little history": 30, "steady": 1}),
        (25, 0, {"steady": 31}),
        (26, 1, {"regression": 12, "steady": 19}),
        (27, 1, {"regression": 14, "steady": 17}),
        (29, 0, {"recovered": 14, "steady": 17}),
    ],
)
def test_the_sample_is_decided_as_its_readme_says(
    night: int, status: int, expected: dict[str, int], tmp_path: Path
) -> None:
    found = check(night, tmp_path / "verdicts.json")
    assert Counter(verdict["status"] for verdict in found["verdicts"]) == expected
    assert found["status"] == status
    for verdict in found["verdicts"]:
        if verdict["status"] == "regression":
            assert verdict["id"]["metric"].startswith("this kernel ")
            assert verdict["since"] == "2026-11-26"
            assert 0.13 < verdict["low"] < verdict["change"] < verdict["high"] < 0.18


def test_the_sample_page_and_its_verdicts_belong_together(tmp_path: Path) -> None:
    kept = json.loads((SAMPLE / "verdicts.json").read_text())
    found = check(27, tmp_path / "verdicts.json")
    assert kept["verdicts"] == found["verdicts"]
    text = html.unescape(re.sub(r"<[^>]+>", " ", (SAMPLE / "report.html").read_text()))
    for verdict in kept["verdicts"]:
        assert verdict["id"]["metric"] in text
        assert verdict["reason"] in text
    record = json.loads((SAMPLE / "record.json").read_text())
    assert (record["night"], record["commit"]) == (kept["night"], kept["verdicts"][0]["commit"])


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
