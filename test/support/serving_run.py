"""Runs `validate serve` against the test server, with real processes and sockets."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from places import ROOT

SERVER = ROOT / "test" / "support" / "model_server.py"
PAIR = ("A1", "B1")


def manifest(
    fault: str = "none",
    *,
    server: tuple[str, ...] = (),
    boots: tuple[str, ...] = PAIR,
    load: str = "requests = 4\nconcurrencies = [1, 2]",
    tokens: int = 4,
    more: str = "",
    endpoint: str = "generate",
    request_s: float = 5.0,
    start_s: float = 30.0,
) -> str:
    """A comparison whose B has the fault; without one, the arms differ in what nobody reads."""
    other = "y" if fault == "none" else "x"
    command = json.dumps(["{python}", str(SERVER), "--port", "{port}", *server])
    return f"""
version = 1
endpoint = "{endpoint}"
boots = {json.dumps(boots)}
margin = 0.5
sample_every = 0.01
{more}
[a]
command = {command}
environment = {{ MODEL_SERVER_FAULT = "none", OTHER = "x" }}
[b]
command = {command}
environment = {{ MODEL_SERVER_FAULT = "{fault}", OTHER = "{other}" }}
[prompts]
seed = 3
count = 8
length = 10
prefix = 6
vocabulary = 64
[load]
output_tokens = {tokens}
{load}
[timeouts]
start = {start_s}
request = {request_s}
stop = 1.0
"""


def command(path: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "sm120_ba", "validate", "serve", str(path), *options]


def serve(folder: Path, text: str, *options: str) -> tuple[int, dict[str, Any], str]:
    """The exit status, the report and what was said; everything is kept in `folder`/out."""
    path = folder / "manifest.toml"
    path.write_text(text)
    words = command(path, "--out", str(folder / "out"), *options)
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    report = folder / "out" / "report.json"
    return (
        done.returncode,
        json.loads(report.read_text()) if report.exists() else {},
        done.stderr,
    )


def table(report: dict[str, Any], title: str) -> list[dict[str, Any]]:
    """The rows of the table whose title begins so, by column."""
    (found,) = (one for one in report["tables"] if one["title"].startswith(title))
    return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]


def requests(folder: Path, boot: str) -> list[dict[str, Any]]:
    lines = (folder / "out" / boot / "requests.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def servers(folder: Path) -> list[int]:
    """The pids of all processes of the run's servers that are alive, as the kernel lists them."""
    mark = json.loads((folder / "out" / "run.json").read_text())["id"].encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is not ours; a zombie has no environment
            if b"SM120_BA_VALIDATE_BOOT=" + mark in (process / "environ").read_bytes():
                found.append(int(process.name))
    return found


def wait_for(what: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)
