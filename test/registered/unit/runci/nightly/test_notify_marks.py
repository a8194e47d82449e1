"""What an issue remembers in its mark, and where its links lead."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from perf_issues import KEY_OF_ONE, LINKS, OPEN, OVER, issue
from perf_verdicts import BAD, GOOD, night, series

from runci import register_cpu_ci
from runci.core.errors import RunciError
from runci.nightly.notify.issue import Links, Memory, ended, key_of, make_links, mark, read_issue
from runci.nightly.notify.topics import KEY, machine_key

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")


# Marks.


def test_a_mark_is_read_as_it_was_written() -> None:
    memory = Memory(KEY_OF_ONE, OPEN, night(3), 0.1, ("abc", "--><b>"), night(2))
    assert mark(memory).count(">") == 1
    for text in (
        mark(memory),
        f"{mark(memory)}\r\n\r\nwords\r\n",
        f"\n{mark(memory)}\nwords",
        f"words\n{mark(memory)}",
    ):
        found = read_issue(1, text, is_open=True)
        assert found is not None
        assert found.memory == memory
        assert "\r" not in found.body


@pytest.mark.parametrize(
    "text",
    [
        "",
        "words",
        f"words {mark(Memory(KEY_OF_ONE, OPEN))}",
        f"> {mark(Memory(KEY_OF_ONE, OPEN))}",
        f"```\n{mark(Memory(KEY_OF_ONE, OPEN))}\n```",
        "<!-- runci:perf-issue xyz {} -->",
    ],
)
def test_without_a_mark_on_a_line_of_its_own_it_is_no_issue_of_ours(text: str) -> None:
    assert read_issue(1, text, is_open=True) is None


@pytest.mark.parametrize("rest", ["", "{", "{}", '{"key":"fedcba9876543210","stage":"over"}', "[]"])
@pytest.mark.parametrize("is_open", [True, False])
def test_a_spoiled_mark_remembers_what_the_issue_shows(rest: str, is_open: bool) -> None:
    found = read_issue(1, f"<!-- runci:perf-issue {KEY_OF_ONE} {rest} -->", is_open=is_open)
    assert found is not None
    assert found.memory == Memory(KEY_OF_ONE, OPEN if is_open else OVER)


def test_keys_are_for_ever() -> None:
    """Another key would open every issue again."""
    assert series().digest == "3fd1d3dce97b1553"
    assert KEY == "afac7cbff06a6ddf"
    assert machine_key("a") != key_of("a", "machine") != key_of("machine")


def test_a_body_that_was_edited_to_nothing_can_end() -> None:
    assert ended("", Memory(KEY_OF_ONE, OVER), "over").endswith(" -->\n\nover")


# Links.


@pytest.mark.parametrize("commit", ["", None, "HEAD", "a" * 6, "A" * 40, "a" * 40 + "\n", "a)b"])
def test_only_commits_are_linked(commit: str | None) -> None:
    assert "](" not in LINKS.commit(commit)
    assert "](" not in LINKS.range(commit, BAD)
    assert "](" not in LINKS.range(GOOD, commit)


def test_without_a_repository_commits_stand_without_links() -> None:
    assert make_links("https://github.com", "", None).commit(BAD) == "`aaaaaaaaa`"
    assert make_links("https://ghe.example:8443", "o/r", None).commit(BAD) == (
        f"[`aaaaaaaaa`](https://ghe.example:8443/o/r/commit/{BAD})"
    )


@pytest.mark.parametrize("page", ["x", "javascript:alert(1)", "https://a/)b", "https://a b", "//a"])
def test_an_address_that_is_none_is_refused(page: str) -> None:
    with pytest.raises(RunciError, match="--page"):
        make_links("https://github.com", "o/r", page)


def test_an_issue_remembers_its_page_only_where_it_is_one() -> None:
    bare = Links("https://github.com/octo/kernels")
    known = issue(OPEN, is_open=True, page="https://old.example/")
    forged = issue(OPEN, is_open=True, page="https://old.example/) [x](https://evil.example/")
    assert bare.for_issue(None) == bare
    assert bare.for_issue(known).page == "https://old.example/"
    assert bare.for_issue(forged) == bare
    assert LINKS.for_issue(known) == LINKS


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
