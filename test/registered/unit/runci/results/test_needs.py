"""What the jobs before a final job came to, and when that is green."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from runci import register_cpu_ci
from runci.cli import main
from runci.core.errors import Exit, RunciError
from runci.plan.model import Plan, PlannedFile, PlannedSuite, Shard
from runci.results.needs import JobEnd, as_markdown, job_ends, read_needs

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


def needs(**results: str) -> str:
    return json.dumps({job: {"result": end, "outputs": {}} for job, end in results.items()})


def ends(
    text: str,
    *lists: tuple[str, ...],
    planned: Mapping[str, frozenset[str] | None] | None = None,
) -> tuple[JobEnd, ...]:
    return job_ends(read_needs(text), *lists, planned=planned)


NONE: frozenset[str] = frozenset()
UNIT, LARGE = frozenset({"unit"}), frozenset({"unit", "large"})


@pytest.mark.parametrize(
    ("result", "may_skip", "good"),
    [
        ("success", (), True),
        ("success", ("gpu",), True),
        ("skipped", ("gpu",), True),
        ("skipped", (), False),
        ("failure", ("gpu",), False),
        ("cancelled", ("gpu",), False),
        ("", ("gpu",), False),
        ("neutral", ("gpu",), False),
    ],
)
def test_how_a_job_ended(result: str, may_skip: tuple[str, ...], good: bool) -> None:
    (end,) = ends(needs(gpu=result), may_skip, (), (), planned={"gpu": NONE})
    assert end.good is good


@pytest.mark.parametrize(
    ("planned", "beside", "good"),
    [
        ({"gpu": NONE}, "success", True),
        ({"gpu": UNIT}, "success", False),
        ({"gpu": None}, "success", False),  # nobody knows what was not run
        ({}, "success", False),
        ({"gpu": UNIT, "beside": UNIT}, "success", True),  # which another job ran
        ({"gpu": UNIT, "beside": LARGE}, "success", True),
        ({"gpu": LARGE, "beside": UNIT}, "success", False),
        ({"gpu": UNIT, "beside": None}, "success", False),
        ({"gpu": UNIT, "beside": UNIT}, "skipped", False),
        ({"gpu": UNIT, "beside": UNIT}, "failure", False),
    ],
)
def test_a_job_is_skipped_only_where_none_of_its_suites_is_planned(
    planned: Mapping[str, frozenset[str] | None], beside: str, good: bool
) -> None:
    text = needs(gpu="skipped", beside=beside)
    first, _ = ends(text, ("gpu", "beside"), (), (), planned=planned)
    assert first.good is good


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "1", '{"gpu": 1}', '{"gpu": {}}', '{"gpu": null}']
)
def test_what_is_no_list_of_jobs(text: str) -> None:
    with pytest.raises(RunciError, match="NEEDS must be toJSON"):
        read_needs(text)


@pytest.mark.parametrize(("result", "good"), [("failure", True), ("skipped", False), ("", False)])
def test_a_gate_denies_by_failing(result: str, good: bool) -> None:
    (end,) = ends(needs(gate=result), (), ("gate",))
    assert end.good is good


@pytest.mark.parametrize(
    ("one", "other", "good"),
    [
        ("success", "skipped", True),
        ("skipped", "success", True),
        ("success", "success", True),
        ("skipped", "skipped", False),
        ("failure", "skipped", False),
        ("skipped", "failure", False),
        ("success", "failure", False),
        ("success", "cancelled", False),
        ("cancelled", "skipped", False),
    ],
)
def test_of_two_jobs_one_did_its_part(one: str, other: str, good: bool) -> None:
    found = ends(needs(lint=one, beside=other), (), (), ("lint", "beside"))
    assert all(end.good for end in found) is good
    if (one, other) == ("success", "skipped"):
        assert found[1].said == "was skipped: lint ran instead"
    with pytest.raises(RunciError, match="lints: "):
        ends(needs(lint=one), (), (), ("lint", "lints"))


def test_no_job_is_nothing_to_check() -> None:
    with pytest.raises(RunciError) as caught:
        read_needs("{}")
    assert caught.value.code == Exit.NOTHING


def test_a_job_that_may_skip_must_be_waited_for() -> None:
    with pytest.raises(RunciError, match="gpus: "):
        ends(needs(gpu="success"), ("gpus",))


def test_a_name_is_shown_as_it_is() -> None:
    assert "| ❌ | \\<b\\> | failed |" in as_markdown(ends(needs(**{"<b>": "failure"}), ()))


SKIPPED = needs(lint="success", gpu="skipped", **{"call / it": "success"})


@pytest.mark.parametrize(
    ("environ", "options", "code"),
    [
        (SKIPPED, ["--may-skip", "gpu"], 0),
        (SKIPPED, [], 1),
        (needs(gate="failure", gpu="skipped"), ["--may-skip", " ,gpu ", "--may-fail", " gate"], 0),
        (SKIPPED, ["--may-skip", "gpu", "--plan", "both.json"], 1),
        (SKIPPED, ["--may-skip", "gpu", "--plan", "none.json"], 2),
        (needs(lint="failure", gpu="skipped"), ["--may-skip", "gpu"], 1),
        (needs(gate="failure", gpu="skipped"), ["--may-skip", "gpu", "--may-fail", "gate"], 0),
        (needs(docs="skipped"), ["--may-skip", "docs"], 0),  # of which it is said
        (needs(other="skipped"), ["--may-skip", "other"], 1),
        (needs(a="success", b="skipped"), ["--one-of", "a,b"], 0),
        (needs(a="skipped", b="skipped"), ["--one-of", "a,b"], 1),
        (needs(call="skipped"), ["--may-skip", "call", "--plan", "both.json"], 1),
        (needs(call="skipped", beside="success"), ["--may-skip", "call", "--plan", "cpu.json"], 0),
        ("{}", [], 3),
        (None, [], 2),
    ],
)
def test_the_command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environ: str | None,
    options: list[str],
    code: int,
) -> None:
    """`gpu` runs a suite that is planned in both.json only; `call` and `beside` the other one."""
    (tmp_path / "test").mkdir()
    (tmp_path / "test/suites.yml").write_text(SUITES, encoding="utf-8")
    for name, suites in (("plan", ()), ("cpu", ("a-test-cpu",)), ("both", ("a-test-cpu", "gpus"))):
        plan = Plan("c" * 40, tuple(planned_suite(suite) for suite in suites))
        (tmp_path / f"{name}.json").write_text(plan.to_json(), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NEEDS", raising=False)
    if environ is not None:
        monkeypatch.setenv("NEEDS", environ)
    assert main(["needs", *options]) == code


SUITES = """\
version: 1
roots: [test]
runners: {cpu: {label: ubuntu-latest}}
suites:
  cpu:
    - {stage: a, runner_configs: [cpu], kind: per-commit}
    - {name: gpus, kind: per-commit}
workflows:
  jobs:
    gpu: ["gpu*"]
    call / one: [a-test-cpu]
    beside: [a-test-cpu]
    docs: []
"""


def planned_suite(name: str) -> PlannedSuite:
    file = PlannedFile("test/test_a.py", 1.0)
    shard = Shard(f"cpu-{name}-1of1", 0, 1, 1.0, (file,))
    return PlannedSuite("cpu", name, "per-commit", "cpu", None, 0, None, "script", (shard,))


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
