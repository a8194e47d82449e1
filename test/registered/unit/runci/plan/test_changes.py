"""Changed paths of real repositories; and every case in which they cannot be known."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from planning import commit, git

from runci import register_cpu_ci
from runci.core.errors import RunciError
from runci.plan.changes import Changes, between, head_commit, listed

register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "origin"
    root.mkdir()
    git(root, "init", "-q")
    commit(root, "first", a="1\n" * 40, b="2", dir__c="3")
    return root


def test_what_changed_since_the_base(repository: Path) -> None:
    base = commit(repository, "base", a="1b")
    commit(repository, "head", b="2b", dir__new="4")
    assert between(repository, base) == Changes(("b", "dir/new"))


def test_nothing_changed(repository: Path) -> None:
    assert between(repository, "HEAD") == Changes()


def test_a_rename_counts_as_both_paths(repository: Path) -> None:
    git(repository, "config", "diff.renames", "copies")
    git(repository, "mv", "a", "dir/moved")
    commit(repository, "move")
    assert between(repository, "HEAD~1").paths == ("a", "dir/moved")


def test_a_deleted_file_has_changed(repository: Path) -> None:
    commit(repository, "delete", b=None)
    assert between(repository, "HEAD~1").paths == ("b",)


def test_what_the_base_changed_later_does_not_count(repository: Path) -> None:
    git(repository, "checkout", "-q", "-b", "feature")
    commit(repository, "mine", b="mine")
    git(repository, "checkout", "-q", "main")
    commit(repository, "theirs", a="theirs")
    git(repository, "checkout", "-q", "feature")
    assert between(repository, "main").paths == ("b",)


def test_names_that_git_would_quote(repository: Path) -> None:
    for name in ("with space", "ümläut", "line\nbreak", 'quo"te'):
        (repository / name).write_text("x")
    commit(repository, "odd")
    found = between(repository, "HEAD~1").paths
    assert set(found) == {"with space", "ümläut", "line\nbreak", 'quo"te'}


def test_uncommitted_and_untracked_paths_count_and_are_told(repository: Path) -> None:
    (repository / "a").write_text("edited")
    (repository / "new").write_text("untracked")
    found = between(repository, "HEAD")
    assert found.paths == ("a", "new")
    assert [note.partition(" are ")[0] for note in found.notes] == ["2 uncommitted paths"]


def test_one_uncommitted_path(repository: Path) -> None:
    (repository / "a").write_text("edited")
    assert [note.partition(" is ")[0] for note in between(repository, "HEAD").notes] == [
        "1 uncommitted path"
    ]


def test_paths_are_relative_to_a_root_below_the_repository(repository: Path) -> None:
    commit(repository, "both", a="x", dir__c="x")
    assert between(repository / "dir", "HEAD~1").paths == ("c",)


def test_several_merge_bases_count_together(repository: Path) -> None:
    """Histories that merged crosswise have two; a path that differs from either has changed."""
    git(repository, "checkout", "-q", "-b", "one")
    one = commit(repository, "one", a="one")
    git(repository, "checkout", "-q", "-b", "two", "main")
    two = commit(repository, "two", b="two")
    git(repository, "merge", "-q", "--no-edit", one)
    git(repository, "checkout", "-q", "one")
    git(repository, "merge", "-q", "--no-edit", two)
    assert between(repository, "two").paths == ("a", "b")


def test_an_unknown_base(repository: Path) -> None:
    found = between(repository, "no-such-branch")
    assert found.paths == ()
    assert found.unknown is not None
    assert "'no-such-branch' is no commit" in found.unknown


def test_the_base_of_a_new_branch(repository: Path) -> None:
    assert "a new branch" in (between(repository, "0" * 40).unknown or "")


def test_an_option_is_no_revision(repository: Path) -> None:
    assert "is no commit" in (between(repository, "--all").unknown or "")


def test_no_common_ancestor(repository: Path) -> None:
    git(repository, "checkout", "-q", "--orphan", "other")
    commit(repository, "other root")
    assert "no common ancestor" in (between(repository, "main").unknown or "")


def clone(repository: Path, *options: str) -> Path:
    target = repository.parent / "clone"
    git(repository.parent, "clone", "-q", *options, repository.as_uri(), str(target))
    return target


def test_a_shallow_clone_without_the_base(repository: Path) -> None:
    base = git(repository, "rev-parse", "HEAD")
    for number in range(3):
        commit(repository, "more", a=str(number))
    found = between(clone(repository, "--depth=1"), base)
    assert found.paths == ()
    assert "shallow clone" in (found.unknown or "")
    assert "fetch-depth: 0 (GitLab: GIT_DEPTH: 0)" in (found.unknown or "")


def test_a_shallow_clone_whose_base_is_an_ancestor_is_exact(repository: Path) -> None:
    base = commit(repository, "base", a="x")
    commit(repository, "head", b="x")
    assert between(clone(repository, "--depth=2"), base) == Changes(("b",))


def test_a_shallow_clone_in_which_the_branches_do_not_meet(repository: Path) -> None:
    git(repository, "checkout", "-q", "-b", "feature")
    commit(repository, "mine", b="mine")
    git(repository, "checkout", "-q", "main")
    commit(repository, "theirs", a="theirs")
    target = clone(repository, "--depth=1", "--no-single-branch", "--branch=feature")
    found = between(target, "origin/main")
    assert found.paths == ()
    assert "shallow clone" in (found.unknown or "")


def test_another_commit_than_what_is_checked_out_is_refused(repository: Path) -> None:
    commit(repository, "head", a="x")
    with pytest.raises(RunciError, match=r"HEAD~1.*git checkout HEAD~1"):
        between(repository, "HEAD~1", "HEAD~1")
    with pytest.raises(RunciError, match="--head nowhere: "):
        between(repository, "HEAD", "nowhere")


def test_outside_a_repository(tmp_path: Path) -> None:
    with pytest.raises(RunciError, match="git rev-parse failed"):
        between(tmp_path, "HEAD")
    assert head_commit(tmp_path) is None


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    assert head_commit(tmp_path) is None


def test_listed_paths_are_cleaned_and_sorted() -> None:
    assert listed(["b\n", "./a", "", "b"]) == Changes(("a", "b"))


def test_a_list_of_the_api_that_may_be_cut_off() -> None:
    assert (listed(["a", "b"], total=3).unknown or "").startswith("2 of 3 ")
    assert listed(["a", "b"], total=2).unknown is None
    assert "GitHub lists no more" in (listed(map(str, range(3000))).unknown or "")
    assert listed(map(str, range(2999))).unknown is None


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
