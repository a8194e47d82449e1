"""What `--learn-skips` proposes of a run, as tables; how the entries come into a taxonomy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runci import register_cpu_ci
from runci.config.suites import load_taxonomy
from runci.config.taxonomy import Skip
from runci.core.errors import RunciError
from runci.core.patterns import pattern_matcher
from runci.core.result import FileResult, Outcome
from runci.core.selected import Selected
from runci.run.learn import UNSAID, Entry, Proposal, as_yaml, check_target, inserted, learn
from runci.run.model import Case, FileReport
from runci.run.summary import Finished

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

PATH = "t/test_x.py"
RAN = Case(f"{PATH}::test_ran", "passed")


def skip(test: str, reason: str = "no GPU", **more: object) -> Case:
    fields: dict[str, object] = {"message": reason, "place": f"{PATH}:3", **more}
    return Case(f"{PATH}::{test}", "skipped", **fields)  # type: ignore[arg-type]


def ended(*cases: Case, path: str = PATH, **more: object) -> Finished:
    """A file that ended with these; `more` are fields of the report, the result or of both."""
    report = FileReport(path, cases, begun=True, code=0)
    result = FileResult(
        "s", "cpu", "s", path, Outcome.SKIPPED, report.tests, 0, report.skipped, 1, 0
    )
    of = {key: more.pop(key) for key in ("failed_before",) if key in more}
    known = {key: more.pop(key) for key in ("only", "selected", "signal", "outcome") if key in more}
    return Finished(replace(result, **known), replace(report, **more), 1.0, **of)  # type: ignore[arg-type]


def entries(*finished: Finished, skips: tuple[Skip, ...] = ()) -> list[tuple[list[str], str]]:
    """Each entry: its patterns, without the path of the file, and its reason."""
    found = learn(finished, skips, "cpu", "s.yml").entries
    return [([one.removeprefix(f"{PATH}::") for one in e.tests], e.reason) for e in found]


A1, A2 = skip("test_a[1]"), skip("test_a[2]")
ALL = [(["test_a"], "no GPU")]
EACH = [(["test_a[1]", "test_a[2]"], "no GPU")]


@pytest.mark.parametrize(
    ("finished", "expected"),
    [
        (ended(RAN), []),
        (ended(RAN, skip("test_a"), skip("C::test_b")), [(["test_a", "C::test_b"], "no GPU")]),
        (
            ended(RAN, skip("test_a"), skip("test_b", "no fp8")),
            [(["test_a"], "no GPU"), (["test_b"], "no fp8")],
        ),
        # All parameters for one reason: one entry. Else each of them by itself.
        (ended(RAN, A1, A2), ALL),
        (ended(RAN, A1, A2, Case(f"{PATH}::test_a[3]", "passed")), EACH),
        (ended(RAN, A1, A2, Case(f"{PATH}::test_a[3]", "failed")), EACH),
        (ended(RAN, A1, A2, skip("test_a[3]", xfail=True)), EACH),
        (
            ended(RAN, A1, skip("test_a[2]", "no fp8")),
            [(["test_a[1]"], "no GPU"), (["test_a[2]"], "no fp8")],
        ),
        # ... and where nobody knows whether those were all.
        (ended(RAN, A1, A2, code=None), EACH),
        (ended(RAN, A1, A2, signal="SIGSEGV"), EACH),
        (ended(RAN, A1, A2, left=f"{PATH}::test_z"), EACH),
        (ended(RAN, A1, A2, running=f"{PATH}::test_z"), EACH),
        (ended(RAN, A1, A2, deselected=1), EACH),
        (ended(RAN, A1, A2, unselected=1, selected=Selected(keyword="a")), EACH),
        (ended(RAN, A1, A2, unselected=0, selected=Selected(keyword="a")), ALL),
        (ended(RAN, A1, A2, unbegun=1), EACH),
        (ended(RAN, A1, A2, errors=(Case(PATH, "failed"),)), EACH),
        (ended(RAN, A1, A2, only=("test_a[1]", "test_a[2]", "test_ran")), EACH),
        (ended(RAN, A1, A2, only=("@gpu",)), EACH),
        (ended(RAN, A1, A2, only=("test_a", "test_ran")), ALL),
        # What is no skip is not there: xfail, and what had failed before.
        (ended(RAN, skip("test_a", xfail=True)), []),
        (ended(RAN, skip("test_a"), failed_before=frozenset({f"{PATH}::test_a"})), []),
        # No words, no reason.
        (ended(RAN, skip("test_a", "")), [(["test_a"], UNSAID)]),
        (ended(RAN, skip("test_a", " Skipped: ")), [(["test_a"], UNSAID)]),
        (ended(RAN, skip("test_a", "unconditional skip")), [(["test_a"], UNSAID)]),
        (ended(RAN, skip("test_a", "todo: mend it")), [(["test_a"], UNSAID)]),
        (ended(RAN, skip("test_a", "x" * 900)), [(["test_a"], "x" * 300 + "...")]),
        # A file of which nothing was executed, whole or test by test, needs a person's words.
        (ended(skip("test_a")), [(["test_a"], UNSAID)]),
        (ended(Case(PATH, "skipped", message="no torch")), [([PATH], UNSAID)]),
        # A part of a test is the test's; ids hold what they like.
        (ended(RAN, skip("test_a (i=1)", part_of=f"{PATH}::test_a")), [(["test_a"], "no GPU")]),
        (
            ended(RAN, skip("test_a[x] (i=1)", part_of=f"{PATH}::test_a[x]"), RAN),
            [(["test_a"], "no GPU")],
        ),
        (
            ended(RAN, skip("test_a[*[?]::b]"), Case(f"{PATH}::test_a[]", "passed")),
            [([r"test_a[\*[\?]::b]"], "no GPU")],
        ),
        (ended(RAN, skip("setUpClass (m::C)")), [(["setUpClass (m::C)"], "no GPU")]),
    ],
)
def test_entries_of_a_file(finished: Finished, expected: list[tuple[list[str], str]]) -> None:
    assert entries(finished) == expected
    # What stands there then allows it, and none is proposed a second time.
    names = [name if name == PATH else f"{PATH}::{name}" for of, _ in expected for name in of]
    allowed = tuple(Skip(name, ("gpu", "cpu"), "x") for name in names)
    assert entries(finished, skips=allowed) == []
    assert entries(finished, skips=tuple(replace(s, runners=("gpu",)) for s in allowed)) == expected


def test_runs_of_one_file_count_together() -> None:
    passed = Case(f"{PATH}::test_a[1]", "passed")
    assert entries(ended(RAN, A1, A2), ended(RAN, passed, A2)) == EACH
    assert entries(ended(A1, A2), ended(A1, A2)) == [(["test_a"], UNSAID)]


def test_files_are_in_order_and_their_names_are_plain() -> None:
    odd = "t/test_[1]*.py"
    found = learn(
        [ended(RAN, skip("b")), ended(Case(f"{odd}::a", "skipped"), path=odd)], (), "cpu", "s.yml"
    )
    assert [e.tests for e in found.entries] == [("t/test_[[]1][*].py::a",), (f"{PATH}::b",)]


@pytest.mark.parametrize(
    ("finished", "test", "told"),
    [
        (ended(RAN, A1), "test_ran", "1 test executed"),
        (ended(RAN, A1), "test_gone", f"names no test of {PATH}"),
        (ended(RAN, A1), "test_ran[1]", f"names no test of {PATH}"),
        (ended(RAN, A1), "test_a", ""),
        (ended(RAN, A1), "test_a[1]", ""),
        (ended(RAN, A1), "test_[ra]*", f"names no test of {PATH}"),
        (ended(RAN), None, "1 test executed"),
        (ended(RAN, A1), None, ""),
        # Where not all of it ran, nobody knows.
        (ended(RAN, deselected=1), "test_gone", ""),
        (ended(RAN, only=("test_ran",)), "test_gone", ""),
        (ended(RAN, code=None), "test_gone", ""),
        (ended(RAN, path="t/test_y.py"), "test_gone", ""),
    ],
)
def test_entries_in_vain_are_told(finished: Finished, test: str | None, told: str) -> None:
    pattern = PATH if test is None else f"{PATH}::{test}"
    of = Skip(pattern, ("cpu",), "why", line=7)
    notes = learn([finished], (of,), "cpu", "s.yml").notes
    said = [note for note in notes if note.startswith("s.yml:7: ")]
    assert [told in note for note in said] == ([True] if told else [])
    other = learn([finished], (replace(of, runners=("gpu",)),), "cpu", "s.yml").notes
    assert not any("s.yml:7" in note for note in other)


def test_what_stays_red_is_said() -> None:
    failed = ended(Case(f"{PATH}::test_b", "failed"), outcome=Outcome.FAILED)
    assert PATH in learn([failed], (), "cpu", "s.yml").notes[0]
    assert "xfail" in learn([ended(RAN, skip("a", xfail=True))], (), "cpu", "s.yml").notes[0]
    assert "verify" in learn([ended(skip("a"))], (), "cpu", "s.yml").notes[0]
    assert learn([ended(RAN, skip("a"))], (), "cpu", "s.yml").notes == ()


HEAD = """\
version: 1
roots: [t]
runners:
  cpu: {label: x}
suites:
  cpu:
    - {stage: a, runner_configs: [cpu], kind: per-commit}
"""
ENTRY = Entry(("t/test_x.py::test_a[1]",), "no GPU", ("t/test_x.py:3",))
PROPOSAL = Proposal("cpu", (ENTRY,))
MINE = "{test: t/test_y.py, runners: [cpu], reason: mine}  # of mine"


@pytest.mark.parametrize(
    "text",
    [
        HEAD,
        HEAD.rstrip("\n"),
        f"{HEAD}skips:\n  - {MINE}\n",
        f"{HEAD}skips:\n- {MINE}\nfolder_rules: []\n",
        f"{HEAD}skips: # these\n\n  # the first\n      - {MINE}\n# end",
        f"skips: &them\n  - {MINE}\n{HEAD}",
        f"# é\n{HEAD}skips:\n  - {MINE}\n".replace("\n", "\r\n"),
        "\ufeff" + HEAD,
    ],
)
def test_a_taxonomy_gets_the_entries_and_keeps_all_else(text: str) -> None:
    found = inserted(text.encode(), "s.yml", PROPOSAL)
    before, after = (load_taxonomy(data, "s.yml").skips for data in (text.encode(), found))
    assert [(s.test, s.runners, s.reason) for s in after] == [
        (ENTRY.tests[0], ("cpu",), "no GPU"),
        *((s.test, s.runners, s.reason) for s in before),
    ]
    kept = iter(found.decode().splitlines())
    assert all(line in kept for line in text.splitlines())  # in their order
    assert found.count(b"\r\n") in (0, found.count(b"\n"))
    assert inserted(text.encode(), "s.yml", Proposal("cpu", ())) == text.encode()


@pytest.mark.parametrize(
    "skips",
    [
        "skips: []\n",
        f"skips: [{MINE.partition('  #')[0]}]\n",
        "skips: [\n  {test: t/test_y.py,\n  runners: [cpu], reason: a}]\n",
        # Of another mapping, which would change with it.
        f"conditions: &c\n  skips:\n    - {MINE}\n<<: *c\n",
    ],
)
def test_another_form_is_left_alone(skips: str) -> None:
    with pytest.raises(RunciError):
        inserted((HEAD + skips).encode(), "s.yml", PROPOSAL)


def test_a_block_can_be_pasted_and_is_the_same_each_time() -> None:
    block = as_yaml(replace(PROPOSAL, notes=("a\nskips: b",)), "s.yml")
    (one,) = load_taxonomy((HEAD + block).encode(), "s.yml").skips
    assert (one.test, one.runners, one.reason) == (ENTRY.tests[0], ("cpu",), "no GPU")
    assert load_taxonomy((HEAD + as_yaml(Proposal("cpu", ()), "s")).encode(), "s.yml").skips == ()
    finished = [ended(RAN, A1, path=f"t/test_{name}.py") for name in "ab"]
    orders = (learn(order, (), "cpu", "s.yml") for order in (finished, finished[::-1]))
    assert len({as_yaml(one, "s.yml") for one in orders}) == 1


ODD = st.text(
    st.one_of(st.sampled_from("*?[]\\\\!:-. (a\\n"), st.characters()), min_size=1, max_size=8
)


@given(
    st.text(st.characters(exclude_characters="/\\0", exclude_categories=("Cs",)), min_size=1),
    st.lists(ODD, min_size=1, max_size=3, unique=True),
    ODD,
)
def test_what_is_pasted_allows_what_was_skipped(name: str, ids: list[str], reason: str) -> None:
    path = f"t/{name}.py"
    if "::" in path:  # pytest takes no such file
        return
    skipped = [Case(f"{path}::C::test_a[{one}]", "skipped", message=reason) for one in ids]
    ran = Case(f"{path}::C::test_a[it ran]", "passed")
    found = as_yaml(learn([ended(*skipped, ran, path=path)], (), "cpu", "s.yml"), "s.yml")
    skips = load_taxonomy((HEAD + found.replace(UNSAID, "why")).encode(), "s.yml").skips
    allowed = pattern_matcher(skip.test for skip in skips)
    assert all(allowed(case.test) for case in skipped)
    assert not allowed(f"{path}::C::test_b") and not allowed(path)


def test_what_must_not_be_written(tmp_path: Path) -> None:
    config, ours, other = (tmp_path / f"{name}.yml" for name in ("config", "ours", "other"))
    config.write_text(HEAD)
    other.write_text(HEAD)
    ours.write_text(as_yaml(PROPOSAL, "s.yml"))
    for path in (config, ours, tmp_path / "new.yaml"):
        check_target(path, config)
    for path in (other, tmp_path / "test_x.py", tmp_path / "no/new.yml"):
        with pytest.raises(RunciError, match=path.name):
            check_target(path, config)
