"""What differs between two commits, and the files of settings that one of them has."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from fake_github import BASE, HEAD, FakeGitHub, world

from runci import register_cpu_ci
from runci.config.gate import PERMISSIONS, STATUS, Permissions, load_permissions, load_status
from runci.gate.api import ApiError, Recorded
from runci.gate.github import GitHubApi
from runci.gate.rules import is_protected
from runci.gate.settings import Setting, read_setting
from runci.gate.trees import Commits, Entry, changed_paths

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

REPOSITORY = "/repos/octo/kernels"
FILE = Entry("100644", "blob", "1" * 40)
OTHER = Entry("100644", "blob", "2" * 40)
PROGRAM = Entry("100755", "blob", "1" * 40)
LINK = Entry("120000", "blob", "1" * 40)
FOLDER = Entry("040000", "tree", "3" * 40)
CHANGED = Entry("040000", "tree", "4" * 40)
MODULE = Entry("160000", "commit", "5" * 40)
NEWER = Entry("160000", "commit", "6" * 40)


@pytest.mark.parametrize(
    ("before", "after", "paths"),
    [
        ({"a": FILE}, {"a": FILE}, ()),
        ({"a": FILE}, {"a": OTHER}, ("a",)),
        ({"a": FILE}, {"a": PROGRAM}, ("a",)),  # only its mode
        ({"a": FILE}, {}, ("a",)),
        ({}, {"a": FILE}, ("a",)),
        ({"a": FILE}, {"b": FILE}, ("a", "b")),  # renamed
        ({"d": FOLDER, "d/a": FILE}, {"d": CHANGED, "d/a": OTHER}, ("d/a",)),
        ({"d": FOLDER, "d/a": FILE}, {"d": LINK}, ("d/", "d/a")),
        ({"d": FOLDER, "d/a": FILE}, {"d": MODULE}, ("d/", "d/a")),
        ({"d": LINK}, {"d": FOLDER, "d/a": FILE}, ("d", "d/a")),
        ({"a": FILE}, {"a": LINK}, ("a/",)),  # the same bytes
        ({"m": MODULE}, {"m": NEWER}, ("m/",)),
        ({"m": MODULE}, {}, ("m",)),
        ({"A": FILE}, {"a": FILE}, ("A", "a")),
    ],
)
def test_what_differs(
    before: dict[str, Entry], after: dict[str, Entry], paths: tuple[str, ...]
) -> None:
    assert changed_paths(before, after) == paths


def test_what_lies_behind_a_link_or_a_submodule_is_not_known() -> None:
    assert [is_protected(path) for path in ("kernel/x", "kernel/x/", "test/")] == [
        False,
        True,
        True,
    ]


TREE = "7" * 40
PATH = f"GET {REPOSITORY}/git/trees/{TREE}"
ITEM = {"path": "a", "mode": "100644", "type": "blob", "sha": "1" * 40}


def entries(answer: Any) -> dict[str, Entry]:
    return Commits(Recorded({f"{PATH}?recursive=1": answer}), REPOSITORY).entries(
        TREE, recursive=True
    )


def test_a_whole_listing_is_read() -> None:
    whole = {"sha": TREE, "tree": [ITEM], "truncated": False}
    assert entries(whole) == {"a": FILE}
    broken: list[Any] = [
        {**whole, "truncated": True},
        {**whole, "truncated": None},
        {"sha": TREE, "tree": [ITEM]},
        {**whole, "sha": "8" * 40},
        {**whole, "tree": None},
        {**whole, "tree": {}},
        {**whole, "tree": [ITEM, ITEM]},  # two names that JSON cannot tell apart
        {**whole, "tree": [None]},
        {**whole, "tree": [{**ITEM, "type": "tag"}]},
        *({**whole, "tree": [{**ITEM, key: None}]} for key in ITEM),
        None,
        [],
    ]
    for answer in broken:
        with pytest.raises(ApiError):
            entries(answer)


def settings(**changes: Any) -> tuple[Setting, Setting]:
    with FakeGitHub(world(**changes)) as github:
        commits = Commits(GitHubApi("token", github.url), REPOSITORY)
        read = functools.partial(read_setting, commits, "main")
        return read(STATUS), read(PERMISSIONS)


def in_place_of(path: str, mode: str, kind: str) -> dict[str, Any]:
    """The world's default branch with something else at this path."""
    files = {name: None for name in (STATUS, PERMISSIONS) if name.startswith(path)}
    return {"trees": {BASE: {**files, path: [mode, kind, "1" * 40]}}}


def test_what_is_not_listed_is_absent() -> None:
    status, people = settings()
    assert status.data and people.data
    absent = Setting(STATUS, None), Setting(PERMISSIONS, None)
    assert settings(contents={STATUS: None}) == (absent[0], people)
    assert settings(contents={PERMISSIONS: None}) == (status, absent[1])
    assert settings(contents={STATUS: None, PERMISSIONS: None}) == absent  # nor the folder
    assert not load_status(None).paused
    assert load_permissions(None) == Permissions((), (), False)


def test_they_stand_in_one_of_two_places() -> None:
    names = {path: path.rpartition("/")[2] for path in (STATUS, PERMISSIONS)}
    usual = settings()
    for index, (path, name) in enumerate(names.items()):
        moved = settings(contents={path: None, name: usual[index].data.decode()})
        assert moved[index] == Setting(name, usual[index].data)
        assert moved[1 - index] == usual[1 - index]
        with pytest.raises(ApiError, match=f"{path} and {name} are both there: delete one"):
            settings(contents={name: "x"})
        for elsewhere in (f"docs/{name}", f".github/x/{name}", f".GitHub/{name}", name.upper()):
            assert settings(contents={path: None, elsewhere: "x"})[index].data is None
        with pytest.raises(ApiError, match=f"{name} is no file but a link"):
            settings(contents={path: None}, trees={BASE: {name: ["120000", "blob", "1" * 40]}})


def test_they_are_of_one_commit() -> None:
    """What is on the branch by then does not mix with what was listed."""
    with FakeGitHub(world()) as github:
        commits = Commits(GitHubApi("token", github.url), REPOSITORY)
        read_setting(commits, "main", STATUS)
        github.fault("/branches/", "500")
        github.fault("/git/trees/", "500")
        assert read_setting(commits, "main", PERMISSIONS).data is not None


@pytest.mark.parametrize(("mode", "kind"), [("120000", "blob"), ("160000", "commit")])
@pytest.mark.parametrize("path", [".github", STATUS])
def test_a_link_or_a_submodule_is_no_file(path: str, mode: str, kind: str) -> None:
    word = "link" if kind == "blob" else "submodule"
    with pytest.raises(ApiError, match=rf"{path} is no \w+ but a {word}"):
        settings(**in_place_of(path, mode, kind))


def test_a_folder_or_a_file_in_the_wrong_place_is_not_absent() -> None:
    with pytest.raises(ApiError, match="is no file but a folder"):
        settings(**in_place_of(f"{STATUS}", "040000", "tree"))
    with pytest.raises(ApiError, match="is no folder but a file"):
        settings(**in_place_of(".github", "100644", "blob"))


@pytest.mark.parametrize("kind", ["404", "403", "garbage"])
@pytest.mark.parametrize("place", ["/branches/", "/git/trees/", "/git/blobs/"])
def test_what_cannot_be_read_is_named(place: str, kind: str) -> None:
    with FakeGitHub() as github:
        github.fault(place, kind)
        commits = Commits(GitHubApi("token", github.url), REPOSITORY)
        with pytest.raises(ApiError, match=r"ci-permissions\.yml on main cannot be read"):
            read_setting(commits, "main", PERMISSIONS)


BLOB = {"sha": "1" * 40, "size": 1, "encoding": "base64", "content": "YQ==\n"}


def test_a_file_is_read_whole() -> None:
    def read(answer: Any) -> bytes:
        path = f"GET {REPOSITORY}/git/blobs/{'1' * 40}"
        return Commits(Recorded({path: answer}), REPOSITORY).blob("1" * 40)

    assert read(BLOB) == b"a"
    assert read({**BLOB, "size": 0, "content": ""}) == b""
    for key, wrong in (
        ("sha", "2" * 40),
        ("size", 2),
        ("size", None),
        ("encoding", "utf-8"),
        ("content", None),
        ("content", "Y"),
        ("content", "é"),
    ):
        with pytest.raises(ApiError):
            read({**BLOB, key: wrong})


@pytest.mark.parametrize(
    ("status", "base", "contained"),
    [("ahead", BASE, True), ("ahead", "c" * 40, False), ("diverged", BASE, False)],
)
def test_a_comparison_must_agree_with_itself(status: str, base: str, contained: bool) -> None:
    commit = {"sha": base, "commit": {"tree": {"sha": TREE}}, "parents": []}
    answer = {"status": status, "merge_base_commit": commit}
    api = Recorded({f"GET {REPOSITORY}/compare/{BASE}...{HEAD}?per_page=1": answer})
    assert Commits(api, REPOSITORY).contains(HEAD, BASE) is contained


def test_a_renamed_branch_is_another() -> None:
    answer = {"name": "trunk", "commit": {"sha": HEAD, "commit": {"tree": {"sha": TREE}}}}
    for name, parents in (("main", []), ("trunk", None), ("trunk", [{}])):
        found = {**answer, "commit": {**answer["commit"], "parents": parents}}
        api = Recorded({f"GET {REPOSITORY}/branches/{name}": found})
        with pytest.raises(ApiError):
            Commits(api, REPOSITORY).branch(name)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
