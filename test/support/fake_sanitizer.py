"""A program in the place of compute-sanitizer: it starts the target and writes a log as that does.

What the GPU does, the target says through the file that FAKE_GPU names: a line a kernel launch,
empty or the tool that finds an error in it; `crashes` ends the tool by SIGSEGV, `cuts` ends it
without a summary. With FAKE_CLOSES the target inherits nothing beyond the standard streams.
"""

from __future__ import annotations

import argparse
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

RECORDS = {
    "memcheck": (
        "Invalid __global__ write of size 4 bytes",
        "    at scale(float *, int)+0x90 in scale.cu:7",
        "    by thread (3,0,0) in block (0,0,0)",
        "    Address 0x7f1200000400 is out of bounds",
        "    and is 1 bytes after the nearest allocation at 0x7f1200000000 of size 1,024 bytes",
        "    Saved host backtrace up to driver entry point at kernel launch time",
        "        Host Frame: cuLaunchKernel [0x1234] in libcuda.so.1",
    ),
    "racecheck": (
        "Error: Race reported between Write access at scale(float *, int)+0x90 in scale.cu:7",
        "    and Read access at scale(float *, int)+0x100 in scale.cu:9 [508 hazards]",
    ),
}


def main() -> int:
    options, rest = _options()
    log = Path(options.log_file.replace("%%", "%"))
    launches = log.with_name(f"{log.name}.gpu")
    environment = {**os.environ, "FAKE_GPU": str(launches)}
    command = [*rest]
    with log.open("w", encoding="utf-8") as out:
        said = Said(out, options.tool)
        said.line("COMPUTE-SANITIZER")
        closes = bool(os.environ.get("FAKE_CLOSES"))
        with subprocess.Popen(command, close_fds=closes, env=environment) as target:
            watch = threading.Thread(target=said.follow, args=(launches, target), daemon=True)
            watch.start()
            status = target.wait()
            watch.join()
        return said.end(status)


def _options() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--tool", choices=("memcheck", "racecheck", "synccheck", "initcheck"))
    parser.add_argument("--log-file", required=True)
    parser.add_argument("--target-processes", choices=("all",))
    parser.add_argument("--check-exit-code", choices=("no",))
    parser.add_argument("--report-api-errors", choices=("no",))
    parser.add_argument("--destroy-on-device-error", choices=("kernel",))
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    return options, options.command


class Said:
    """The log. What the target wrote into the file of launches is read while it runs."""

    def __init__(self, out, tool):
        self.out, self.tool, self.errors, self.launches = out, tool, 0, 0
        self.cut = False

    def line(self, text=""):
        self.out.write(f"========= {text}".rstrip() + "\n")
        self.out.flush()

    def follow(self, launches, target):
        at = 0
        while True:
            over = target.poll() is not None
            done = launches.read_text().splitlines() if launches.exists() else []
            for kind in done[at:]:
                self.launch(kind)
            at = len(done)
            if over:
                return
            time.sleep(0.005)

    def launch(self, kind):
        self.launches += 1
        if kind == "crashes":
            os.kill(os.getpid(), signal.SIGSEGV)
        self.cut = self.cut or kind == "cuts"
        if kind == self.tool:
            self.errors += 1
            for text in RECORDS[kind]:
                self.line(text)
            self.line()

    def end(self, status):
        if status < 0:
            self.line("Error: process didn't terminate successfully")
            status = 255
        if not self.launches:
            self.line("Error: Target application terminated before first instrumented API call")
            return status or 255
        if not self.cut:
            count = f"{self.errors} error{'s' * (self.errors != 1)}"
            hazards = f"{count.replace('error', 'hazard')} displayed ({count}, 0 warnings)"
            race = self.tool == "racecheck"
            self.line(f"RACECHECK SUMMARY: {hazards}" if race else f"ERROR SUMMARY: {count}")
        return status


def install(folder: Path) -> dict[str, str]:
    """The program in a folder; the variables that a run needs to find it."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "compute-sanitizer"
    program.write_text(f"#!{sys.executable}\n{Path(__file__).read_text(encoding='utf-8')}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


if __name__ == "__main__":
    sys.exit(main())
