"""Marker calls → registrations: what is accepted, and which values later stages see."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import pytest

import runci
from runci import register_cpu_ci
from runci.core.registration import MARKERS, PARAMETERS, POSITIONAL, Backend, Registration
from runci.read.parse import parse
from runci.read.registrations import pair_problem, registrations

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

HEAD = "from runci import register_cpu_ci, register_cuda_ci\n"


def read(text: str) -> tuple[Registration, ...]:
    return registrations(parse("x.py", (HEAD + text).encode()))


def test_reads_every_value() -> None:
    (found,) = read(
        'register_cuda_ci(20.5, stage="a", runner_config="b", nightly=True, disabled="#1",\n'
        '    in_process_group="g")'
    )
    assert (found.backend, found.est_time, found.suite) == (Backend.CUDA, 20.5, None)
    assert (found.stage, found.runner_config, found.effective_suite) == ("a", "b", "a-test-b")
    assert (found.nightly, found.disabled, found.in_process_group) == (True, "#1", "g")
    assert not found.enabled
    assert found.span[:3] == (2, 1, 3)


# Arguments, and (est_time, effective suite, nightly, disabled, group), or None where none is made.
CALLS = [
    ("5, 's'", (5, "s", False, None, None)),
    ("5, 's', True, 'why'", (5, "s", True, "why", None)),
    ("suite='s', est_time=5", (5, "s", False, None, None)),
    ("runner_config='b', est_time=5, stage='a'", (5, "a-test-b", False, None, None)),
    ("5, None, False, None, stage='a', runner_config='b'", (5, "a-test-b", False, None, None)),
    ("est_time=5, suite='s', stage=None, runner_config=None", (5, "s", False, None, None)),
    ("est_time=5, suite='s' 't'", (5, "st", False, None, None)),
    ("est_time=(5), suite=('s')", (5, "s", False, None, None)),
    ("est_time=1_000, suite='s'", (1000, "s", False, None, None)),
    ("est_time=+5, suite='s'", (5, "s", False, None, None)),
    ("est_time=5, suite='s', disabled=''", (5, "s", False, "", None)),
    # Estimates that no partition can use: the registration counts, without one (RT105).
    ("est_time=0, suite='s'", (None, "s", False, None, None)),
    ("est_time=-5, suite='s'", (None, "s", False, None, None)),
    ("est_time=1e999, suite='s'", (None, "s", False, None, None)),
    ("est_time=10" + "0" * 400 + ", suite='s'", (None, "s", False, None, None)),
    ("est_time=True, suite='s'", (None, "s", False, None, None)),
    ("est_time='5', suite='s'", (None, "s", False, None, None)),
    ("suite='s'", None),
    ("est_time=None, suite='s'", None),
    ("est_time=5", None),
    ("est_time=5, stage='a'", None),
    ("est_time=5, runner_config='b'", None),
    ("est_time=5, suite='s', stage='a', runner_config='b'", None),
    ("est_time=5, suite='s', stage='a'", None),
    ("est_time=5, suite=None", None),
    ("est_time=5, suite=7", None),
    ("est_time=5, suite=b's'", None),
    ("est_time=5, suite='s', nightly='yes'", None),
    ("est_time=5, suite='s', nightly=None", None),
    ("est_time=5, suite='s', nightly=1", None),
    ("est_time=5, suite='s', disabled=True", None),
    ("est_time=5, suite=S", None),
    ("est_time=5, suite=f's'", None),
    ("est_time=T, suite='s'", None),
    ("est_time=5, suite='s', disabled=not x", None),
    ("5, 's', False, None, 'a'", None),
    ("5, 's', suite='s'", None),
    ("5, 's', other=1", None),
    ("*[5], suite='s'", None),
    ("5, **{'suite': 's'}", None),
    ("", None),
]


@pytest.mark.parametrize(("arguments", "wanted"), CALLS, ids=lambda value: str(value)[:60])
def test_calls(arguments: str, wanted: tuple[object, ...] | None) -> None:
    found = read(f"register_cpu_ci({arguments})\n")
    if wanted is None:
        assert found == ()
        return
    (one,) = found
    assert (
        one.est_time,
        one.effective_suite,
        one.nightly,
        one.disabled,
        one.in_process_group,
    ) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "if x: register_cpu_ci(5, 's')",
        "def f(): register_cpu_ci(5, 's')",
        "x = register_cpu_ci(5, 's')",
        "import runci; runci.register_cpu_ci(5, 's')",
        "from runci import register_cpu_ci as r; r(5, 's')",
        "register_gpu_ci(5, 's')",
        "'register_cpu_ci(5, \"s\")'",
    ],
)
def test_what_is_no_registration(text: str) -> None:
    assert read(text + "\n") == ()


def test_keeps_the_order_of_the_file() -> None:
    found = read("register_cuda_ci(1, 'b')\nregister_cpu_ci(2, 'a')\nregister_cuda_ci(3, 'c')\n")
    assert [(r.backend.value, r.effective_suite) for r in found] == [
        ("cuda", "b"),
        ("cpu", "a"),
        ("cuda", "c"),
    ]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("suite='s'", None),
        ("stage='a', runner_config='b'", None),
        ("", "neither"),
        ("suite='s', stage='a'", "both"),
        ("stage='a'", "runner_config"),
        ("runner_config='b'", "stage"),
    ],
)
def test_says_which_half_is_missing(arguments: str, problem: str | None) -> None:
    (call,) = parse("x", f"register_cpu_ci({arguments})".encode()).calls
    assert pair_problem(call) == problem


def test_markers_take_what_the_reader_expects() -> None:
    assert sorted(runci.__all__) == sorted(MARKERS)
    for name in MARKERS:
        parameters = inspect.signature(getattr(runci, name)).parameters
        assert tuple(parameters) == PARAMETERS
        assert [p for p in parameters if parameters[p].kind.name != "KEYWORD_ONLY"] == list(
            POSITIONAL
        )
        assert getattr(runci, name)(5, "s") is None


def test_importing_the_package_imports_the_standard_library_only() -> None:
    code = (
        "import sys; before = set(sys.modules); import runci; "
        "print(*{m.partition('.')[0] for m in set(sys.modules) - before} - sys.stdlib_module_names)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["runci"]
    assert importlib.import_module("runci") is runci


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
