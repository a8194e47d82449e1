"""RT208: what of a repository starts everything only because nobody listed it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from places import ROOT
from planning import SUITES, taxonomy
from trees import CLEAN, findings, make_tree, options, track

from runci import register_cpu_ci
from runci.checks.rt.components import folder_in_no_component
from runci.checks.rule import Tree
from runci.checks.tree import load_tree
from runci.core.finding import Level
from runci.core.git import list_tracked

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

HEAD, _, _ = SUITES.partition("components:")
COMPONENTS = 'components:\n  kernel: {paths: ["kernel/**"], suites: ["*"]}\nignore: [docs/**]\n'


def noted(*paths: str, config: str = HEAD + COMPONENTS) -> list[str]:
    """The top folders of the notes."""
    return [one.key for one in folder_in_no_component(Tree((), taxonomy(config), tracked=paths))]


@pytest.mark.parametrize(
    ("paths", "folders"),
    [
        ((), []),
        # One note a top folder, and one for the root.
        (("csrc/a.cu", "csrc/b/c.cu", "tools/a.sh"), ["csrc", "tools"]),
        (("LICENSE", "setup.py", "csrc/a.cu"), ["", "csrc"]),
        # Listed, in part or whole.
        (("kernel/a.py", "docs/a.md"), []),
        (("kernel/a.py", "docs/a.md", "docs.md"), [""]),
        # Known without a component.
        (("test/registered/unit/data.json", "test/suites.yml", "test/perf.yml"), []),
        ((".github/workflows/a.yml", ".github/actions/a/action.yml", ".github/ci-status.yml"), []),
        (("conftest.py", "csrc/conftest.py", "pyproject.toml"), []),
        ((".github/CODEOWNERS", "test/support/a.py"), [".github", "test"]),
    ],
)
def test_one_note_for_each_top_folder(paths: tuple[str, ...], folders: list[str]) -> None:
    assert noted(*paths) == folders


def test_without_components_nothing_is_said() -> None:
    assert noted("csrc/a.cu", config=HEAD) == []


def test_a_note_counts_the_files_and_stands_at_the_components() -> None:
    tree = Tree((), taxonomy(HEAD + COMPONENTS), tracked=[f"csrc/{n}.cu" for n in range(12)])
    (note,) = folder_in_no_component(tree)
    assert (note.path, note.line) == ("test/suites.yml", HEAD.count("\n") + 2)
    assert note.level is Level.NOTE
    assert "12 files in csrc/" in note.message


def test_only_tracked_files_count_and_only_where_there_is_git(tmp_path: Path) -> None:
    files = {"test/registered/test_a.py": CLEAN, "test/suites.yml": HEAD + COMPONENTS}
    root = make_tree(tmp_path / "tree", {**files, "csrc/a.cu": "// a kernel\n"})
    assert findings(root, "RT208") == []
    track(root)
    (root / "build").mkdir()
    (root / "build" / "a.o").write_text("")
    assert [one.key for one in findings(root, "RT208")] == ["csrc"]


def test_what_git_tracks(tmp_path: Path) -> None:
    root = make_tree(tmp_path, {"b/ä b.py": "", "a.py": ""})
    assert list_tracked(root) is None
    track(root)
    (root / "a.py").unlink()
    (root / "new.py").write_text("")
    assert list_tracked(root) == ["a.py", "b/ä b.py", "test/suites.yml"]
    assert list_tracked(root / "b") == ["ä b.py"]


def test_git_is_asked_only_for_the_rule(tmp_path: Path) -> None:
    files = {"test/registered/test_a.py": CLEAN, "test/suites.yml": HEAD + COMPONENTS}
    root = track(make_tree(tmp_path, files))
    assert load_tree(options(root)).tracked
    assert not load_tree(options(root, active=["RT101"])).tracked


def test_this_repository_lists_everything() -> None:
    assert list_tracked(ROOT)
    assert findings(ROOT, "RT208") == []


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
