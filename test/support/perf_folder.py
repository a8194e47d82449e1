"""A history in a folder, for tests of the commands `runci perf record` and `history`."""

from __future__ import annotations

from pathlib import Path

import pytest
from perf_records import write_config

from runci.cli import main
from runci.nightly.history.store import start_folder


def started_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A started history; the current folder has perf.yml."""
    write_config(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_RUN_ID", "GITHUB_SHA", "GITHUB_REPOSITORY", "GITHUB_SERVER_URL"):
        monkeypatch.delenv(name, raising=False)
    start_folder(tmp_path / "h")
    return tmp_path / "h"


def perf(step: str, *arguments: object) -> int:
    return main(["perf", step, "--root", ".", "--history", "h", *map(str, arguments)])
