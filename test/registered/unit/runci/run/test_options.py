"""Which options of pytest a run may be given, and what they mean for files, as tables."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from runci import register_cpu_ci
from runci.core.errors import RunciError
from runci.core.registration import Backend
from runci.core.selected import Selected
from runci.run.model import RunFile, Selection
from runci.run.options import checked, narrowed, refused

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

SELECTION = Selection(Backend.CPU, "s", "cpu-s", (RunFile("t/test_x.py", 1.0),))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("-k add", "before `--`"),
        ("-kadd", "before `--`"),
        ("-vvk add", "before `--`"),
        ("-vx", "before `--`"),
        ("--exitfirst", "before `--`"),
        ("--tb=short --co", "runs no test"),
        ("--collect-only", "runs no test"),
        ("--setup-plan", "runs no test"),
        ("--version", "runs no test"),
        ("-h", "runs no test"),
        ("-n 4", "--jobs"),
        ("-n4", "--jobs"),
        ("--numprocesses=auto", "--jobs"),
        ("--dist loadfile", "--jobs"),
        ("--lf", "own results"),
        ("--stepwise", "own results"),
        ("--pdb", "before `--`"),
        ("--trace", "--pdb FILE"),
        ("--rootdir=/", "other names"),
        ("--junitxml=out.xml", "--junit FILE"),
        ("--junit-xml out.xml", "--junit FILE"),
        ("--basetemp=/tmp/x", "write over"),
        ("-p no:terminal", "takes away"),
        ("-pno:python", "takes away"),
        ("-v -p no:unittest", "takes away"),
        ("test/test_other.py", "name files and tests before it"),
        ("--tb=short test/test_other.py", "name files and tests before it"),
        ("-v --device cpu test/test_other.py", "name files and tests before it"),
        ("-W error test/test_other.py", "name files and tests before it"),
    ],
)
def test_what_would_break_the_count_is_refused(given: str, why: str) -> None:
    said = refused(given.split())
    assert said is not None
    assert why in said


@pytest.mark.parametrize(
    "given",
    [
        "",
        "--tb=short",
        "--tb short",
        "-vv -rA",
        "-rx",  # the letters after -r are its value
        "-W error::DeprecationWarning",
        "-o xfail_strict=true",
        "-c other.ini",
        "-p pytest_timeout",
        "-p no",
        "--maxfail=3",
        "--deselect t/test_x.py::test_a",
        "--device cpu --shapes=small",
        "-W -x",  # a value, whatever it looks like
    ],
)
def test_other_options_are_handed_on(given: str) -> None:
    assert refused(given.split()) is None


@pytest.mark.parametrize(
    ("selected", "benchmark", "script", "why"),
    [
        (Selected(arguments=("--co",)), False, False, "-- --co: "),
        (Selected(arguments=("--tb=short",)), False, True, "run as scripts"),
        (Selected(keyword="a"), True, False, "is a benchmark"),
        (Selected(marks="a"), True, True, "is a benchmark"),
        (Selected(arguments=("--tb=short",)), True, False, "is a benchmark"),
        (Selected(keyword="a"), False, True, None),
        (Selected(first=True), True, True, None),
        (Selected(arguments=("--tb=short",)), False, False, None),
    ],
)
def test_what_files_can_be_given(
    selected: Selected, benchmark: bool, script: bool, why: str | None
) -> None:
    (file,) = SELECTION.files
    files = (replace(file, benchmark=benchmark),)
    selection = replace(SELECTION, files=files)
    if why is not None:
        with pytest.raises(RunciError) as caught:
            narrowed(selection, selected, script=script)
        assert why in str(caught.value)
        return
    chosen = narrowed(selection, selected, script=script)
    assert chosen.selected == selected
    assert chosen.files == (replace(files[0], selected=selected),)
    assert chosen.files[0].title == f"t/test_x.py {selected.shown}"


@pytest.mark.parametrize(
    ("selected", "wrong"),
    [
        (Selected(), None),
        (Selected("add and not (mul or div)", "gpu(n=2)"), None),
        (Selected(keyword="add and"), "-k 'add and'"),
        (Selected("add", "gpu or or slow"), "-m 'gpu or or slow'"),
        (Selected(keyword="("), "-k '('"),
    ],
)
def test_an_expression_is_read_before_anything_runs(selected: Selected, wrong: str | None) -> None:
    if wrong is None:
        assert checked(selected) is selected
        return
    with pytest.raises(RunciError) as caught:
        checked(selected)
    assert (caught.value.code, str(caught.value).startswith(f"{wrong}: ")) == (2, True)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
