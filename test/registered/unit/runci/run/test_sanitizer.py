"""Which tools of compute-sanitizer a run is under, where the program is, how it is called."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from planning import SUITES, taxonomy

from runci import register_cpu_ci
from runci.core.errors import RunciError
from runci.core.registration import Backend
from runci.run.instrumented import length_of, own_descriptor
from runci.run.model import RunFile, Selection
from runci.run.sanitizer import Tool, asked, find, lanes

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

LANE = SUITES.replace(
    "{name: nightly-1-gpu,", "{name: nightly-1-gpu, under: [racecheck, memcheck],"
)
FILES = (RunFile("a.py", 3.0, "group"), RunFile("b.py", 5.0, only=("test_x",)))
NIGHTLY, BASE = "nightly-1-gpu", "base-b-test-1-gpu-small"


@pytest.mark.parametrize(
    ("text", "tools"),
    [
        ("compute-sanitizer", ("memcheck",)),
        ("compute-sanitizer=racecheck", ("racecheck",)),
        ("compute-sanitizer=initcheck,synccheck,initcheck", ("initcheck", "synccheck")),
    ],
)
def test_what_is_asked_for(text: str, tools: tuple[str, ...]) -> None:
    assert asked(text) == tools


@pytest.mark.parametrize(
    "text", ["", "memcheck", "compute-sanitizer=", "compute-sanitizer=a", "x=a"]
)
def test_what_nobody_can_ask_for(text: str) -> None:
    with pytest.raises(RunciError, match="compute-sanitizer"):
        asked(text)


def chosen(suite: str, plan: str | None = None, under: str | None = None) -> Selection:
    shard = f"cuda-{suite}" + ("-1of2" if plan else "")
    return Selection(Backend.CUDA, suite, shard, FILES, given=("x",), plan=plan, under=under)


# Suite, plan, what the shard is planned under, --under → tools and shards of what is run.
RUNS = {
    "plain": (BASE, None, None, None, [(None, f"cuda-{BASE}")]),
    "asked for": (
        BASE,
        None,
        None,
        "compute-sanitizer=memcheck,synccheck",
        [("memcheck", f"cuda-{BASE}-memcheck"), ("synccheck", f"cuda-{BASE}-synccheck")],
    ),
    "by the suite": (
        NIGHTLY,
        None,
        None,
        None,
        [("racecheck", f"cuda-{NIGHTLY}-racecheck"), ("memcheck", f"cuda-{NIGHTLY}-memcheck")],
    ),
    "another than the suite's": (
        NIGHTLY,
        None,
        None,
        "compute-sanitizer=initcheck",
        [("initcheck", f"cuda-{NIGHTLY}-initcheck")],
    ),
    "planned": (NIGHTLY, "d", "racecheck", None, [("racecheck", f"cuda-{NIGHTLY}-1of2")]),
    "planned without": (NIGHTLY, "d", None, None, [(None, f"cuda-{NIGHTLY}-1of2")]),
    "planned, and the same asked for": (
        NIGHTLY,
        "d",
        "racecheck",
        "compute-sanitizer=racecheck",
        [("racecheck", f"cuda-{NIGHTLY}-1of2")],
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_runs_of_a_selection(name: str) -> None:
    suite, plan, planned, given, expected = RUNS[name]
    found = lanes(chosen(suite, plan, planned), given, taxonomy(LANE))
    assert [(one.under, one.shard) for one in found] == expected
    for one in found:
        alone = {file.group for file in one.files} == ({None} if one.under else {"group", None})
        assert alone
        assert [file.only for file in one.files] == [(), ("test_x",)]
        seconds = [30.0, 50.0] if one.under and not plan else [3.0, 5.0]
        assert [file.predicted for file in one.files] == seconds
        repeat = ("--under", f"compute-sanitizer={one.under}") if one.under else ()
        assert one.given == ("x", *repeat)


@pytest.mark.parametrize(("planned", "given"), [(None, "memcheck"), ("racecheck", "memcheck")])
def test_a_planned_shard_runs_under_what_its_plan_says(planned: str | None, given: str) -> None:
    with pytest.raises(RunciError, match="planned under"):
        lanes(chosen(NIGHTLY, "d", planned), f"compute-sanitizer={given}", taxonomy(LANE))


def program(folder: Path, mode: int = 0o755) -> str:
    folder.mkdir(parents=True)
    path = folder / "compute-sanitizer"
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return str(path)


def test_where_the_program_is(tmp_path: Path) -> None:
    package = program(tmp_path / "nvidia" / "cu13" / "bin")
    toolkit = program(tmp_path / "cuda" / "bin")
    in_path = program(tmp_path / "bin")
    packages = [str(tmp_path / "nvidia")]
    variables = {"PATH": str(tmp_path / "bin"), "CUDA_HOME": str(tmp_path / "cuda")}
    assert find(variables, packages) == in_path
    assert find({**variables, "PATH": str(tmp_path)}, packages) == toolkit
    if not os.access("/usr/local/cuda/bin/compute-sanitizer", os.X_OK):
        assert find({"PATH": str(tmp_path)}, packages) == package
        Path(package).chmod(0o644)
        with pytest.raises(RunciError, match="pip install nvidia-cuda-sanitizer-api"):
            find({"PATH": str(tmp_path)}, packages)


def test_the_command(tmp_path: Path) -> None:
    log = tmp_path / "100%pure.log"
    command = Tool("racecheck", "/x/compute-sanitizer").command(log)
    assert command[:3] == ["/x/compute-sanitizer", "--tool", "racecheck"]
    assert command[-2:] == ["--log-file", str(tmp_path / "100%%pure.log")]
    assert "--report-api-errors" not in command
    assert "--report-api-errors" in Tool("memcheck", "x").command(log)


def test_a_descriptor_is_the_holders(tmp_path: Path) -> None:
    read, write = os.pipe()
    other = os.open(tmp_path / "other", os.O_CREAT | os.O_WRONLY)
    try:
        assert own_descriptor(write, os.getpid()) == write
        child = os.fork()
        if child == 0:
            os.dup2(other, write)  # a tool closed it, and it became something else
            os.write(own_descriptor(write, os.getppid()), b"said")
            os._exit(0)
        os.waitpid(child, 0)
        os.set_blocking(read, False)
        assert os.read(read, 9) == b"said"
    finally:
        for one in (read, write, other):
            os.close(one)


def test_the_length_of_a_log_that_is_not_there_yet(tmp_path: Path) -> None:
    log = tmp_path / "log"
    length = length_of(str(log))
    assert length() == 0
    log.write_text("abc")
    assert length() == 3


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
