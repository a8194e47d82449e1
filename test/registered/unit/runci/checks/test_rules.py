"""Every rule against its fixtures: what it finds, what it leaves alone, what --fix mends."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from places import FIXTURES, ROOT
from trees import (
    CLEAN,
    OF_TRACKED,
    TAXONOMY,
    TEST,
    TESTS,
    expected,
    fixtures,
    found,
    make_tree,
    name_of,
    place,
    run,
    skip_where_links_are_files,
    track,
)

from runci import register_cpu_ci
from runci.checks.registry import rules
from runci.checks.rule import FileRule, TreeRule
from runci.core.finding import RuleInfo

register_cpu_ci(est_time=8, stage="base-a", runner_config="cpu")

ALL = rules(("RT",))
RULES = [rule for rule in ALL.values() if isinstance(rule, FileRule | TreeRule)]

# Fixtures that cannot carry a comment: no bytes, no text, or no file behind the link.
EXPECTED = {
    "RT101/positive/test_empty.py": [("test_empty.py", 1)],
    "RT402/positive/test_utf16.py": [("test_utf16.py", 1)],
    "RT403/positive/links": [
        (name, 1) for name in ("linked", "test_broken.py", "test_folder.py", "test_loop.py", "v1.0")
    ],
}
# What RT403 finds is no text: its examples describe files, and its fixtures are links.
NO_EXAMPLE = {"RT403"}


@pytest.mark.parametrize("fixture", fixtures("positive"), ids=name_of)
def test_finds(fixture: Path, tmp_path: Path) -> None:
    skip_where_links_are_files(fixture)
    rule = fixture.parts[-3]
    root = place(fixture, tmp_path / "tree")
    listed = EXPECTED.get(name_of(fixture))
    wanted = expected(root, rule) if listed is None else [(f"{TESTS}/{n}", at) for n, at in listed]
    assert wanted, "a positive fixture says what is found in it"
    assert found(root, rule) == wanted


@pytest.mark.parametrize("fixture", fixtures("negative"), ids=name_of)
def test_leaves_alone(fixture: Path, tmp_path: Path) -> None:
    skip_where_links_are_files(fixture)
    assert found(place(fixture, tmp_path / "tree"), fixture.parts[-3]) == []


@pytest.mark.parametrize("kind", ["positive", "negative"])
@pytest.mark.parametrize("rule", ALL)
def test_every_rule_has_fixtures(rule: str, kind: str) -> None:
    folder = FIXTURES / rule / kind
    assert folder.is_dir() and any(folder.iterdir()), (
        f"create {folder.relative_to(ROOT).as_posix()}/ with a test file; in a positive one, "
        f"`# expect: {rule}` stands on the line of the finding"
    )


def test_no_fixture_lacks_a_rule() -> None:
    folders = {path.name for path in FIXTURES.iterdir() if re.fullmatch(r"RT\d+", path.name)}
    kinds = {path.name for rule in ALL for path in (FIXTURES / rule).glob("*")}
    assert (folders - set(ALL), kinds) == (set(), {"positive", "negative"})


def test_fixtures_expect_only_known_rules() -> None:
    words = {
        word.decode()
        for path in FIXTURES.rglob("*")
        if path.is_file()
        for line in re.findall(rb"expect: ([^\n]*)", path.read_bytes())
        for word in re.findall(rb"[A-Z]{2}\d{3}", line)
    }
    assert words <= set(ALL)


def test_rules_are_ordered_and_unlike() -> None:
    ids = [rule.id for rule in RULES]
    assert ids == sorted(ids)
    assert list(ALL) == sorted(ALL)
    assert len(set(ids)) == len(ids)
    assert len({rule.name for rule in ALL.values()}) == len(ALL)
    for rule in ALL.values():
        assert re.fullmatch(r"RT\d{3}", rule.id)
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
        assert rule.summary.endswith(".")
        assert "\n" not in rule.summary
        assert rule.reason.endswith((".", ".)"))


def test_a_rule_is_fixable_where_it_has_a_fix() -> None:
    assert [r.id for r in RULES if r.fixable] == [r.id for r in RULES if getattr(r, "fix", None)]


def example(rule: RuleInfo, code: str) -> dict[str, str]:
    """The files of an example: each begins with its path in a comment, or it is one test.

    Examples show what matters to their rule: files get a test, and workflows a job, where they
    have none. RT305 is about files without one. A suites.yml gets what the fixtures' one says,
    where it is not a whole one.
    """
    parts = re.split(r"(?m)^# (\S+\.(?:py|yml))\n", code)
    files = dict(zip(parts[1::2], parts[2::2], strict=True)) or {"test_example.py": code}
    whole = {}
    for path, text in files.items():
        before = after = ""
        if path == "test/suites.yml" and not text.startswith("version:"):
            before = TAXONOMY.read_text(encoding="utf-8")
        elif path.endswith(".yml") and path != "test/suites.yml":
            before = "on: push\njobs:\n  test:\n    steps:\n"
        elif (
            "def test_" not in text and "/test_" in f"/{path}" and rule.id not in ("RT305", "RT401")
        ):
            after = "\n" + TEST
        whole[path if "/" in path else f"{TESTS}/{path}"] = before + text + after
    return whole


@pytest.mark.parametrize(
    "rule", [r for r in ALL.values() if r.id not in NO_EXAMPLE], ids=lambda rule: rule.id
)
def test_examples_are_found_and_mended(rule: RuleInfo, tmp_path: Path) -> None:
    other = {f"{TESTS}/test_registered.py": CLEAN}  # so that RT306's tree has a test
    bad = make_tree(tmp_path / "bad", {**other, **example(rule, rule.bad)})
    good = make_tree(tmp_path / "good", {**other, **example(rule, rule.good)})
    for root in (bad, good) if rule.id in OF_TRACKED else ():
        track(root)
    assert rule.id in {f.rule for f in run(bad).findings}
    assert run(good).findings == ()


@pytest.mark.parametrize("fixture", fixtures("positive"), ids=name_of)
def test_every_finding_explains_itself(fixture: Path, tmp_path: Path) -> None:
    skip_where_links_are_files(fixture)
    for finding in run(place(fixture, tmp_path / "tree")).findings:
        assert finding.message
        assert not finding.message.endswith(".")
        assert finding.remedy.endswith((".", "`", "?")), finding.remedy
        assert finding.line >= 1
        assert finding.column >= 1
        assert finding.fixable <= ALL[finding.rule].fixable


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
