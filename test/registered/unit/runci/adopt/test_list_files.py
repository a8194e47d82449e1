"""Lists in files: one line, YAML by hardware, plain texts, dicts of Python."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import pytest

from runci import register_cpu_ci
from runci.adopt.list_files import RanSuite, read_dicts, read_entry, read_plain, read_test_db
from runci.adopt.lists import BY_HAND, Item, Left, ListOfTests
from runci.config.taxonomy import Kind

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


def lists(read: Iterable[ListOfTests | Left]) -> list[ListOfTests]:
    return [one for one in read if isinstance(one, ListOfTests)]


def left(read: Iterable[ListOfTests | Left]) -> list[tuple[int, str]]:
    return [(one.line, one.text) for one in read if isinstance(one, Left)]


@pytest.mark.parametrize(
    ("text", "target", "test", "marked", "narrowed", "settings"),
    [
        ("a/test_b.py", "a/test_b.py", "", "", "", ()),
        ("a", "a", "", "", "", ()),
        ("a/b.py::T::test_c", "a/b.py", "T::test_c", "", "", ()),
        ("b.py::test_c[x-1.5 y]", "b.py", "test_c[x-1.5 y]", "", "", ()),
        ("b.py::test_c[m[0]-z] # slow", "b.py", "test_c[m[0]-z]", "", "", ()),
        ("b.py::test_c[llama/7b-#1]", "b.py", "test_c[llama/7b-#1]", "", "", ()),
        (
            'u/t -k "not (a or b)" TIMEOUT (90)',
            "u/t",
            "",
            "",
            "-k 'not (a or b)'",
            ("TIMEOUT (90)",),
        ),
        ("u/t -m 'gpu and not slow' # x", "u/t", "", "gpu and not slow", "", ()),
        ("u/t -m one -m two", "u/t", "", "two", "", ()),
        ("b.py::c ISOLATION TIMEOUT(5)", "b.py", "c", "", "", ("ISOLATION", "TIMEOUT (5)")),
        ("full:B200/a/b.py::c SKIP (bug 1)", "a/b.py", "c", "", "", ("SKIP (bug 1)",)),
        ("b.py -k it's", "b.py", "", "", '-k "it\'s"', ()),
    ],
)
def test_one_line(
    text: str, target: str, test: str, marked: str, narrowed: str, settings: tuple[str, ...]
) -> None:
    item, found = read_entry(text, 3)
    assert (item.line, item.target, item.test) == (3, target, test)
    assert (item.marked, item.narrowed, found) == (marked, narrowed, settings)


DB = """\
version: 0.1
l0_x:
- condition:
    ranges: {{system_gpu_count: {{{count}}}}}
    wildcards: {wild}
    terms: {{stage: {stage}}}
  tests:
  - a/test_b.py TIMEOUT (90)
  - a/test_c.py SKIP (a bug)
"""


@pytest.mark.parametrize(
    ("count", "wild", "stage", "gpus", "label", "words", "kind"),
    [
        ("gte: 1, lte: 1", "{gpu: ['*h100*']}", "pre_merge", 1, "h100", ("h100",), Kind.PER_COMMIT),
        ("gte: 8", "{gpu: '*b200*'}", "post_merge", 8, "b200", ("b200",), Kind.NIGHTLY),
        ("gte: 2", "{}", "pre_merge", 2, "", ("l0_x",), Kind.PER_COMMIT),
        ("lte: 0", "{cpu: x}", "pre_merge", None, "", ("cpu",), Kind.PER_COMMIT),
    ],
)
def test_yaml_by_hardware(
    count: str,
    wild: str,
    stage: str,
    gpus: int | None,
    label: str,
    words: tuple[str, ...],
    kind: Kind,
) -> None:
    data = DB.format(count=count, wild=wild, stage=stage).encode()
    found = list(read_test_db(data, "db.yml", "Jenkins"))
    (one,) = lists(found)
    assert (one.path, one.line, one.name, one.by) == ("db.yml", 3, "l0_x", "Jenkins")
    assert (one.gpus, one.label, one.words, one.kind) == (gpus, label, words, kind)
    assert one.items == (Item(8, "a/test_b.py", names=("*.py",)),)
    assert left(found) == [(8, "a/test_b.py"), (9, "a/test_c.py")]  # each says why


@pytest.mark.parametrize(
    ("text", "count"),
    [("a: [", 1), ("a: {condition: x, tests: [b]}", 0), ("- 1", 0), ("a: [{tests: [b]}]", 0)],
)
def test_yaml_that_is_no_list(text: str, count: int) -> None:
    found = list(read_test_db(text.encode(), "db.yml", "x"))
    assert (len(lists(found)), len(left(found))) == (0, count)


def test_entries_that_are_no_text_are_said() -> None:
    data = b"a:\n- condition: {}\n  tests:\n  - {b: c}\n  - [d]\n  - 5\n  - e.py\n"
    found = list(read_test_db(data, "db.yml", "x"))
    assert [item.line for one in lists(found) for item in one.items] == [7]
    assert [line for line, _ in left(found)] == [4, 5, 6]


@pytest.mark.parametrize(
    ("path", "text", "items", "said"),
    [
        ("qa/long.txt", "# all\na/test_b.py\n\nc.py::d TIMEOUT (9)\n", [2, 4], [4]),
        ("qa/long.txt", "a.py\nb.py SKIP (x)\nc.py\n", [1, 3], [2]),
        ("qa/long.txt", "a.py SKIP (x)\nb.py SKIP (y)\nc.py\n", [], [1]),
        ("qa/waives.txt", "a.py\n", [], [1]),
        ("requirements-test.txt", "torch\npytest\ntest_a.py\n", [], []),
        ("notes.txt", "", [], []),
    ],
)
def test_a_test_a_line(path: str, text: str, items: list[int], said: list[int]) -> None:
    found = list(read_plain(text.encode(), path))
    assert [item.line for one in lists(found) for item in one.items] == items
    assert [line for line, _ in left(found)] == said
    assert all((one.by, one.kind) == (BY_HAND, Kind.STRESS) for one in lists(found))


SUITES = """\
suites = {
    "unit-2-gpu": [File("a.py", 3), File(name="b.py"), "c.py::T", ("d.py", 9)],
    "nightly-amd": [
        File(made),
        "e.py",
    ],
    "empty": [],
}
more: dict = {"weekly": ["f.py"], 3: (), "other": 5}
other = {"colours": ["red"]}
"""


def test_dicts_of_python() -> None:
    ran = {
        "nightly-amd": RanSuite("w.yml", ("self-hosted", "mi300"), "mi300", 4),
        "weekly": RanSuite("v.yml"),
    }
    found = list(read_dicts(SUITES.encode(), "run_suite.py", ran))
    made = [(one.name, one.line, one.by, one.gpus, one.label, one.kind) for one in lists(found)]
    assert made == [
        ("unit-2-gpu", 2, BY_HAND, 2, "", Kind.STRESS),
        ("nightly-amd", 3, "w.yml", 4, "mi300", Kind.NIGHTLY),
        ("weekly", 9, "v.yml", None, "", Kind.WEEKLY),
    ]
    assert [item.text for item in lists(found)[0].items] == ["a.py", "b.py", "c.py::T", "d.py"]
    assert lists(found)[1].words == ("nightly-amd", "self-hosted", "mi300")
    assert left(found) == [(4, "File(made)")]
    assert not list(read_dicts(b"suites = {", "run_suite.py", ran))


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
