"""Where .ci/install-chromium installs the browser of test_perf_page_chromium.py."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runci import register_cpu_ci

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

INSTALL = Path(__file__).parents[4] / ".ci" / "install-chromium"


@pytest.mark.parametrize(
    ("user", "ci", "programs", "candidate", "calls", "told"),
    [
        (0, "", ("chromium",), "1", [], False),
        (0, "", ("google-chrome",), "1", [], False),
        (0, "", ("apt-get",), "1", ["update -qq", "install"], False),
        (0, "", ("apt-get",), "(none)", ["update -qq"], True),
        (0, "true", (), "1", [], True),
        (1000, "", ("apt-get", "sudo"), "1", [], True),
        (1000, "true", ("apt-get",), "1", [], True),
        (1000, "true", ("apt-get", "sudo"), "1", ["update -qq", "install"], False),
    ],
)
def test_a_chromium_is_installed_only_where_it_may_be(
    tmp_path: Path,
    user: int,
    ci: str,
    programs: tuple[str, ...],
    candidate: str,
    calls: list[str],
    told: bool,
) -> None:
    fakes, log = tmp_path / "bin", tmp_path / "log"
    fakes.mkdir()
    bodies = {
        "id": f"echo {user}",
        # As long as the real one's answer, which goes on after the line that is looked for.
        "apt-cache": f"echo '  Candidate: {candidate}'; exec seq -f '%050g' 20000",
        "apt-get": f'echo "$*" >> {log}',
        "sudo": 'test "$1" = -n && shift && exec "$@"',
    }
    for name in ("id", "apt-cache", *programs):
        (fakes / name).write_text(f"#!/bin/sh\n{bodies.get(name, 'exit 9')}\n", encoding="utf-8")
        (fakes / name).chmod(0o755)
    for name in ("bash", "dirname", "env", "grep", "seq", "sh", "true"):
        (fakes / name).symlink_to(shutil.which(name) or name)
    ran = subprocess.run(
        [INSTALL], env={"PATH": str(fakes), "CI": ci}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    done = log.read_text("utf-8").splitlines() if log.exists() else []
    assert [call[: len(wanted)] for call, wanted in zip(done, calls, strict=True)] == calls
    if len(done) == 2:
        assert done[1] == "install -qq --yes --no-install-recommends chromium fonts-dejavu-core"
    assert ("No Chromium on PATH" in ran.stderr) is told


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
