"""Lists in commands: Buildkite's steps, and shell scripts that nothing calls."""

from __future__ import annotations

import sys

import pytest

from runci import register_cpu_ci
from runci.adopt.list_commands import read_buildkite, read_scripts_alone
from runci.adopt.lists import BY_HAND, Left, ListOfTests
from runci.config.taxonomy import Kind

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

SCRIPTS = {
    "ci/loop.sh": b"cd tests\nfor f in a/test_x.py b; do\n  pytest $f --ignore=b/c\ndone\n",
    "ci/inner.sh": b"\npytest -m gpu tests/a\n",
    "ci/outer.sh": b"bash ci/inner.sh\npython3 tests/test_z.py\npython3 tools/build.py\n",
    "ci/any.sh": b'pytest "$@"\ncd $(mktemp)\npytest\npytest /tmp/2\npytest tests/$1/test_q.py\n',
}


def steps(text: str) -> list[ListOfTests]:
    found = list(read_buildkite(f"steps:\n{text}".encode(), "p.yml", SCRIPTS))
    assert all(isinstance(one, ListOfTests) for one in found)
    return [one for one in found if isinstance(one, ListOfTests)]


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("- command: pytest a", [(2, "a")]),
        ("- commands:\n  - pip install x\n  - pytest -v -s a b # c", [(4, "a"), (4, "b")]),
        ("- command: |\n    cd t\n    pytest a\n    pytest ../b", [(4, "t/a"), (5, "b")]),
        ("- commands:\n  - cd t\n  - pytest a", [(4, "t/a")]),
        ("- {working_dir: t, command: pytest a}", [(2, "t/a")]),
        ("- {working_dir: /box/t, command: pytest a}", [(2, "/box/t/a")]),
        ("- commands:\n  - X=1 pytest a --shard-id=$$N -n 2", [(3, "a")]),
        ("- group: g\n  steps:\n  - command: pytest a", [(4, "a")]),
        ("- commands:\n  - F=t/a\n  - pytest $$F", [(4, "t/a")]),
        ("- command: bash ci/loop.sh", [(3, "tests/a/test_x.py"), (3, "tests/b")]),
        (
            "- command: find t -maxdepth 1 -name 'test_*.py' -exec pytest {} \\\\;",
            [(2, "t/test_*.py")],
        ),
        ("- wait", []),
        ("- {command: [make, echo pytest a]}", []),
        ("- command: python3 tools/build.py", []),
    ],
)
def test_the_entries_of_a_step(text: str, items: list[tuple[int, str]]) -> None:
    found = [item for one in steps(text) for item in one.items]
    assert sorted((item.line, item.target) for item in found) == items


@pytest.mark.parametrize(
    ("command", "test", "marked", "narrowed", "refused"),
    [
        ("pytest a.py::T::b", "T::b", "", "", False),
        ("pytest 'a.py::b[x y]'", "b[x y]", "", "", False),
        ("pytest a -m 'gpu and not slow'", "", "gpu and not slow", "", False),
        ("pytest -k 'a or b' a", "", "", "-k 'a or b'", False),
        ("pytest a -k c -m d", "", "d", "-k 'c'", False),
        ("pytest a.py::b -k c", "b", "", "-k 'c'", False),
        ("torchrun --nproc-per-node=2 test_a.py", "", "", "", True),
        ("python -m torch.distributed.run test_a.py", "", "", "", True),
        ("pytest a/$X/test_b.py", "", "", "", True),
    ],
)
def test_what_selects_a_part(
    command: str, test: str, marked: str, narrowed: str, refused: bool
) -> None:
    ((item,),) = (one.items for one in steps(f'- command: "{command}"'))
    assert (item.test, item.marked, item.narrowed) == (test, marked, narrowed)
    assert bool(item.refused) == refused


def test_each_target_has_its_own_test() -> None:
    ((one, two),) = (one.items for one in steps("- command: pytest a.py::b c.py"))
    assert [(item.target, item.test) for item in (one, two)] == [("a.py", "b"), ("c.py", "")]


@pytest.mark.parametrize(
    ("more", "name", "words", "label", "gpus", "kind"),
    [
        ("device: h100", "buildkite-h100", ("h100",), "h100", None, Kind.PER_COMMIT),
        ("gpu: a100, num_gpus: 4", "buildkite-a100-4gpu", ("a100",), "a100", 4, Kind.PER_COMMIT),
        ("agent_pool: mi325_8", "buildkite-mi325-8gpu", ("mi325_8",), "mi325", 8, Kind.PER_COMMIT),
        ("num_devices: 2", "buildkite-cuda-2gpu", ("gpu cuda",), "", 2, Kind.PER_COMMIT),
        ("agents: {queue: cpu}", "buildkite-cpu", ("cpu",), "cpu", None, Kind.PER_COMMIT),
        ("no_gpu: true", "buildkite-cpu", ("cpu",), "", None, Kind.PER_COMMIT),
        ("gpu: l4, optional: true", "buildkite-l4", ("l4",), "l4", None, Kind.NIGHTLY),
        ("gpu: l4, optional: false", "buildkite-l4", ("l4",), "l4", None, Kind.PER_COMMIT),
        ("key: x", "buildkite", (), "", None, Kind.PER_COMMIT),
    ],
)
def test_the_machine_of_a_step(
    more: str, name: str, words: tuple[str, ...], label: str, gpus: int | None, kind: Kind
) -> None:
    (one,) = steps(f"- {{command: pytest a, {more}}}")
    assert (one.name, one.words, one.label) == (name, words, label)
    assert (one.gpus, one.kind, one.by, one.line) == (gpus, kind, "Buildkite", 2)


def test_a_step_without_hardware_among_others_with_a_gpu() -> None:
    one, two = steps("- command: pytest a\n- {command: pytest b, device: h100}")
    assert (one.words, two.words) == (("cuda",), ("h100",))


def test_a_mirror_has_its_own_machine_and_where_it_says_so_its_own_commands() -> None:
    text = "- command: pytest a\n  gpu: h100\n  num_gpus: 2\n  mirror:\n    amd: {}\n"
    found = steps(text.format("{device: mi300_1}"))
    assert [(one.words, one.gpus, one.items[0].target) for one in found] == [
        (("h100",), 2, "a"),
        (("mi300_1",), 1, "a"),
    ]
    own = steps(text.format("{device: mi300_1, command: pytest b}"))[1]
    assert [item.target for item in own.items] == ["b"]


def test_a_pipeline_that_cannot_be_read_is_said() -> None:
    (one,) = read_buildkite(b"steps:\n- {% if x %}\n", "p.yml", {})
    assert isinstance(one, Left)
    assert (one.path, one.line) == ("p.yml", 2)


def test_scripts_that_nothing_calls() -> None:
    found = [one for one in read_scripts_alone(SCRIPTS, SCRIPTS) if isinstance(one, ListOfTests)]
    assert all((one.by, one.kind) == (BY_HAND, Kind.STRESS) for one in found)
    made = {
        one.path: [(i.path, i.line, i.target, i.without, i.marked) for i in one.items]
        for one in found
    }
    inner = ("ci/inner.sh", 2, "tests/a", (), "gpu")
    assert made == {
        "ci/inner.sh": [inner],
        "ci/outer.sh": [inner, ("ci/outer.sh", 2, "tests/test_z.py", (), "")],
        "ci/loop.sh": [
            ("ci/loop.sh", 3, "tests/a/test_x.py", ("tests/b/c",), ""),
            ("ci/loop.sh", 3, "tests/b", ("tests/b/c",), ""),
        ],
        "ci/any.sh": [("ci/any.sh", 5, "tests/*/test_q.py", (), "")],
    }


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
