"""From entries of lists to suites: where a name lies, what a file has, who runs a list."""

from __future__ import annotations

import sys

import pytest

from runci import register_cpu_ci
from runci.adopt.lists import (
    BY_HAND,
    Item,
    Listed,
    ListOfTests,
    Places,
    backend_of,
    convert,
    gpu_count,
)
from runci.config.taxonomy import Kind
from runci.core.registration import Backend

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

CPU, CUDA, AMD = Backend.CPU, Backend.CUDA, Backend.AMD
TESTS = {
    "tests/a/test_x.py": {"test_one", "TestA", "TestA::test_m", "TestB", "TestB::*"},
    "tests/a/b/test_y.py": {"*"},
    "tests/test_z.py": {"test_one"},
    "other/a/test_x.py": {"test_one"},
}
MARKS = {"tests/a/test_x.py": (("gpu",), ()), "tests/test_z.py": (("slow",),)}
PLACES = Places(TESTS, {"tests/helper.py", "tests/a/test_none.py"}, MARKS)
X, Y, Z = "tests/a/test_x.py", "tests/a/b/test_y.py", "tests/test_z.py"
NAMES = ("test_*.py",)


def whole(*targets: str) -> tuple[Item, ...]:
    return tuple(Item(at, target, names=NAMES) for at, target in enumerate(targets, 1))


@pytest.mark.parametrize(
    ("targets", "base"),
    [
        (("a", "a/b", "test_z.py"), "tests"),
        (("tests/a", "other/a"), ""),
        (("b/test_y.py", "test_x.py"), "tests/a"),
        (("nowhere",), ""),
        (("a/*.py",), ""),
        (("./a/b/",), "tests"),
    ],
)
def test_the_folder_that_a_list_is_written_from(targets: tuple[str, ...], base: str) -> None:
    assert PLACES.base(whole(*targets)) == base


@pytest.mark.parametrize(
    ("item", "base", "files"),
    [
        (Item(1, "a/test_x.py"), "tests", (X,)),
        (Item(1, "a", names=NAMES), "tests", (X, Y)),
        (Item(1, "./a/b/", names=NAMES), "tests", (Y,)),
        (Item(1, "a/test_x.py"), "other", ("other/a/test_x.py",)),
        (Item(1, "test_z.py"), "other", (Z,)),  # there is but one
        (Item(1, "/box/repo/tests/a/test_x.py"), "", (X,)),
        (Item(1, "/box/a/test_x.py"), "tests", (X,)),
        (Item(1, "", names=NAMES), "tests/a", (X, Y)),
        (Item(1, ".", names=NAMES), "tests/a", (X, Y)),
        (Item(1, "a/*.py"), "tests", (X,)),
        (Item(1, "a/**/test_*.py"), "tests", (X, Y)),
        (Item(1, "b/*.py"), "tests", (Y,)),
        (Item(1, "a", names=NAMES, without=("a/b",)), "tests", (X,)),
        (Item(1, "a", names=NAMES, without=("a/test_x.py",)), "tests", (Y,)),
        (Item(1, "a", names=("*_test.py",)), "tests", None),
        (Item(1, "a/test_x.py"), "", None),  # one of two
        (Item(1, "a/test_none.py"), "tests", None),
        (Item(1, "a/test_w.py"), "tests", None),
        (Item(1, "x.py"), "tests", None),  # no part of a name
        (Item(1, "w/*.py"), "tests", None),
    ],
)
def test_the_files_of_an_entry(item: Item, base: str, files: tuple[str, ...] | None) -> None:
    found = PLACES.files(item, base)
    assert isinstance(found, str) if files is None else found == files


def test_what_is_no_test_is_told_from_what_is_not_there() -> None:
    assert PLACES.files(Item(1, "helper.py"), "tests") != PLACES.files(Item(1, "no.py"), "tests")


@pytest.mark.parametrize(
    ("path", "test", "there"),
    [
        (X, "test_one", True),
        (X, "test_one[a::b]", True),
        (X, "test_two", False),
        (X, "TestA", True),
        (X, "TestA::test_m[1]", True),
        (X, "TestA::test_n", False),
        (X, "TestB::test_n", True),  # from its base
        (X, "TestC::test_m", False),
        (Y, "test_any", True),
    ],
)
def test_whether_a_file_has_a_test(path: str, test: str, there: bool) -> None:
    assert PLACES.has(path, test) == there


@pytest.mark.parametrize(
    ("words", "backend"),
    [
        (("h100",), CUDA),
        (("l0_dgx_b200",), CUDA),
        (("mi300_1",), AMD),
        (("per-commit-amd-mi35x",), AMD),
        (("per-commit-2-gpu",), CUDA),
        (("self-hosted", "rtx5090"), CUDA),
        (("intel_cpu",), CPU),
        (("intel_gpu",), Backend.XPU),
        (("per-commit-1-ascend-npu",), Backend.NPU),
        (("cpu_queue",), CPU),
        (("release",), None),
        ((), None),
    ],
)
def test_what_a_list_runs_on(words: tuple[str, ...], backend: Backend | None) -> None:
    assert backend_of(words) is backend


def one_list(*items: Item, **more: object) -> ListOfTests:
    given: dict[str, object] = {"words": ("h100",), "label": "h100", **more}
    path, name, by = (
        str(given.pop(*one)) for one in (("path", "l.yml"), ("name", "l"), ("by", "CI"))
    )
    return ListOfTests(path, 1, name, items, by, **given)  # type: ignore[arg-type]


def made(*lists: ListOfTests) -> tuple[Listed, ...]:
    return convert(lists, PLACES, {X: CUDA, Y: CPU, Z: CPU, "other/a/test_x.py": CPU})[0]


def test_an_entry_is_a_file_a_test_or_tests_by_their_marks() -> None:
    items = (
        Item(1, "tests/a/b"),
        Item(2, "tests/a/test_x.py", "test_one[1]"),
        Item(3, "tests", names=NAMES, marked="gpu"),
        Item(4, "tests/test_z.py", "test_one"),
        Item(5, "tests/test_z.py"),
    )
    (one,) = made(one_list(*items))
    assert (one.files, one.tests) == ((Y, Z), ((X, "test_one[1]"),))
    assert one.marked == (("gpu", (X,)),)


@pytest.mark.parametrize(
    "item",
    [
        Item(7, "no.py"),
        Item(7, "tests/a/test_x.py", "test_two"),
        Item(7, "tests/a/test_x.py", "test one"),
        Item(7, "tests/test_z.py", marked="gpu"),
        Item(7, "tests/test_z.py", marked="gpu ="),
        Item(7, "tests/test_z.py", refused="by somebody else"),
    ],
)
def test_what_is_not_taken_is_said_with_its_line(item: Item) -> None:
    suites, left = convert([one_list(Item(1, "tests/a/b"), item)], PLACES, {Y: CPU})
    assert ([one.paths for one in suites], [one.line for one in left]) == ([{Y}], [7])
    assert left[0].path == "l.yml"


def test_a_list_of_something_else_is_said_once() -> None:
    """Of another repository, say: that two of its five names are here means nothing."""
    items = whole("tests/a/b", "tests/test_z.py", "no.py", "nor.py", "neither.py")
    suites, left = convert([one_list(*items)], PLACES, {Y: CPU, Z: CPU})
    assert (suites, [(one.path, one.line) for one in left]) == ((), [("l.yml", 1)])


def test_what_else_narrows_an_entry_is_said_and_all_of_it_taken() -> None:
    suites, left = convert(
        [one_list(Item(3, "tests/test_z.py", narrowed="-k a"))], PLACES, {Z: CPU}
    )
    assert (suites[0].files, [(one.line, "-k a" in one.why) for one in left]) == ((Z,), [(3, True)])


@pytest.mark.parametrize(
    ("lists", "names"),
    [
        ([{}, {}], ["l"]),
        ([{}, {"gpus": 4}], ["l", "l-4gpu"]),
        ([{}, {"kind": Kind.NIGHTLY}], ["l", "l-nightly"]),
        ([{}, {"label": "a100"}], ["l", "l-2"]),
        ([{"name": "cuda"}], ["cuda-list"]),
        ([{"name": "a b/c"}], ["a-b-c"]),
    ],
)
def test_lists_of_one_name_machine_and_time_are_one_suite(
    lists: list[dict[str, object]], names: list[str]
) -> None:
    items = whole("tests/a", "tests/test_z.py")
    found = made(*(one_list(item, **more) for item, more in zip(items, lists, strict=False)))
    assert [one.name for one in found] == names


@pytest.mark.parametrize(
    ("more", "target", "found"),
    [
        ({}, "tests/a", [("buildkite-gitlab-h100", "Buildkite and GitLab")]),
        ({}, "tests/test_z.py", [("buildkite-h100", "Buildkite"), ("gitlab-h100", "GitLab")]),
        ({"label": "h"}, "tests/a", [("buildkite-h100", "Buildkite"), ("gitlab-h100", "GitLab")]),
        (
            {"labels": ("h",)},
            "tests/a",
            [("buildkite-h100", "Buildkite"), ("gitlab-h100", "GitLab")],
        ),
        ({"gpus": 2}, "tests/a", [("buildkite-h100", "Buildkite"), ("gitlab-h100", "GitLab")]),
        ({"by": "x"}, "tests/a", [("buildkite-h100", "Buildkite"), ("gitlab-h100", "x")]),
    ],
)
def test_the_same_tests_that_two_services_run_on_one_machine_are_one_suite(
    more: dict[str, object], target: str, found: list[tuple[str, str]]
) -> None:
    first = one_list(*whole("tests/a"), path="b.yml", name="buildkite-h100", by="Buildkite")
    own = {"path": "g.yml", "name": "gitlab-h100", "by": "GitLab", **more}
    suites = made(first, one_list(*whole(target), **own))
    assert [(one.name, one.by) for one in suites] == found
    assert [source for one in suites for source in one.sources] == ["b.yml:1", "g.yml:1"]


def test_each_file_of_lists_is_written_from_a_folder_of_its_own() -> None:
    found = convert(
        [
            ListOfTests("l.yml", 1, "one", whole("a/test_x.py", "test_z.py"), "CI", ("h100",)),
            ListOfTests(
                "m.yml", 1, "two", whole("other/a/test_x.py", "tests/a/b"), "CI", ("h100",)
            ),
            ListOfTests("n.yml", 1, "three", whole("test_x.py", "b/test_y.py"), "CI", ("h100",)),
        ],
        PLACES,
        {},
    )[0]
    assert [one.files for one in found] == [(X, Z), ("other/a/test_x.py", Y), (Y, X)]


def test_a_list_that_names_no_hardware_is_where_most_of_its_files_are() -> None:
    (one,) = made(one_list(*whole("tests/a", "tests/test_z.py"), words=(), by=BY_HAND))
    assert (one.backend, one.gpus) == (CPU, 0)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (2, 2),
        ("4", 4),
        (0, 0),
        *((value, None) for value in (True, -1, 2.5, 1025, 10**20, "", "two", "²", None)),
    ],
)
def test_how_many_gpus_a_value_says(value: object, count: int | None) -> None:
    assert gpu_count(value) == count
