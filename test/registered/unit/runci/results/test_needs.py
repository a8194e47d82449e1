"""What the jobs before a final job came to, and when that is green."""

from __future__ import annotations

import json
import sys

import pytest

from runci import register_cpu_ci
from runci.cli import main
from runci.core.errors import Exit, RunciError
from runci.results.needs import as_markdown, job_ends

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


def needs(**results: str) -> str:
    return json.dumps({job: {"result": end, "outputs": {}} for job, end in results.items()})


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
    (end,) = job_ends(needs(gpu=result), may_skip)
    assert end.good is good


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "1", '{"gpu": 1}', '{"gpu": {}}', '{"gpu": null}']
)
def test_what_is_no_list_of_jobs(text: str) -> None:
    with pytest.raises(RunciError, match="NEEDS must be toJSON"):
        job_ends(text, ())


@pytest.mark.parametrize(("result", "good"), [("failure", True), ("skipped", False), ("", False)])
def test_a_gate_denies_by_failing(result: str, good: bool) -> None:
    (end,) = job_ends(needs(gate=result), (), ("gate",))
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
    ends = job_ends(needs(lint=one, beside=other), (), (), ("lint", "beside"))
    assert all(end.good for end in ends) is good
    if (one, other) == ("success", "skipped"):
        assert ends[1].said == "was skipped: lint ran instead"
    with pytest.raises(RunciError, match="lints: "):
        job_ends(needs(lint=one), (), (), ("lint", "lints"))


def test_no_job_is_nothing_to_check() -> None:
    with pytest.raises(RunciError) as caught:
        job_ends("{}", ())
    assert caught.value.code == Exit.NOTHING


def test_a_job_that_may_skip_must_be_waited_for() -> None:
    with pytest.raises(RunciError, match="gpus: "):
        job_ends(needs(gpu="success"), ("gpus",))


def test_a_name_is_shown_as_it_is() -> None:
    assert "| ❌ | \\<b\\> | failed |" in as_markdown(job_ends(needs(**{"<b>": "failure"}), ()))


@pytest.mark.parametrize(
    ("environ", "options", "code"),
    [
        (needs(lint="success", gpu="skipped"), ["--may-skip", "gpu"], 0),
        (needs(lint="success", gpu="skipped"), [], 1),
        (needs(lint="failure", gpu="skipped"), ["--may-skip", "gpu"], 1),
        (needs(gate="failure", gpu="skipped"), ["--may-skip", "gpu", "--may-fail", "gate"], 0),
        (needs(a="success", b="skipped"), ["--one-of", "a,b"], 0),
        (needs(a="skipped", b="skipped"), ["--one-of", "a,b"], 1),
        ("{}", [], 3),
        (None, [], 2),
    ],
)
def test_the_command(
    monkeypatch: pytest.MonkeyPatch, environ: str | None, options: list[str], code: int
) -> None:
    monkeypatch.delenv("NEEDS", raising=False)
    if environ is not None:
        monkeypatch.setenv("NEEDS", environ)
    assert main(["needs", *options]) == code


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
