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

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

ROOT = Path(__file__).parents[5]
SAMPLE = ROOT / "examples/nightly"
PYTHON = ROOT / ".venv-perf/bin/python"
SOURCE = ["--config", str(SAMPLE / "perf.yml"), "--history", str(SAMPLE / "history")]
NIGHTS = (21, 25, 26, 27, 29)
# All nights in one process, since Otava takes a second to import; ends with their exit statuses.
CHECKS = """\
import json, sys
from runci.cli import main
print(json.dumps([main(arguments) for arguments in json.load(sys.stdin)]))
"""


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Any]]:
    """What `runci perf check` says of each night, and its exit status."""
    assert PYTHON.exists(), "no environment with Otava: run `make .venv-perf/stamp`"
    folder = tmp_path_factory.mktemp("verdicts")
    outputs = {night: folder / f"{night}.json" for night in NIGHTS}
    commands = [
        ["perf", "check", *SOURCE, "--night", f"2026-11-{night}", "--output", str(output)]
        for night, output in outputs.items()
    ]
    done = subprocess.run(
        [PYTHON, "-c", CHECKS],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    statuses = json.loads(done.stdout.splitlines()[-1])
    return {
        night: json.loads(outputs[night].read_text()) | {"status": status}
        for night, status in zip(NIGHTS, statuses, strict=True)
    }


@pytest.mark.parametrize(
    ("night", "status", "expected"),
    [
        (21, 0, {"too little history": 30, "steady": 1}),
        (25, 0, {"steady": 31}),
        (26, 1, {"regression": 14, "steady": 17}),
        (27, 1, {"regression": 14, "steady": 17}),
        (29, 0, {"recovered": 14, "steady": 17}),
    ],
)
def test_the_sample_is_decided_as_its_readme_says(
    decided: dict[int, dict[str, Any]], night: int, status: int, expected: dict[str, int]
) -> None:
    found = decided[night]
    assert Counter(verdict["status"] for verdict in found["verdicts"]) == expected
    assert found["status"] == status
    for verdict in found["verdicts"]:
        if verdict["status"] == "regression":
            assert verdict["id"]["metric"].startswith("this kernel ")
            assert verdict["since"] == "2026-11-26"
            assert 0.12 < verdict["low"] < verdict["change"] < verdict["high"] < 0.18


def test_the_sample_page_and_its_verdicts_belong_together(
    decided: dict[int, dict[str, Any]],
) -> None:
    kept = json.loads((SAMPLE / "verdicts.json").read_text())
    assert kept["verdicts"] == decided[27]["verdicts"]
    text = html.unescape(re.sub(r"<[^>]+>", " ", (SAMPLE / "report.html").read_text()))
    for verdict in kept["verdicts"]:
        assert verdict["id"]["metric"] in text
        assert verdict["reason"] in text
    record = json.loads((SAMPLE / "record.json").read_text())
    assert (record["night"], record["commit"]) == (kept["night"], kept["verdicts"][0]["commit"])


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
