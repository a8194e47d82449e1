"""The decisions of `validate serve`, each as a table: manifest, events, figures, answers."""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from serving_run import manifest

from runci import register_cpu_ci
from sm120_ba.validate.commands import UsageError
from sm120_ba.validate.prompts import load_prompts, prompt_hash
from sm120_ba.validate.serving import figures, outcome, plot, processes
from sm120_ba.validate.serving.client import (
    ENDPOINTS,
    Answer,
    AnswerError,
    as_record,
    fault,
    running_requests,
    take_line,
)
from sm120_ba.validate.serving.figures import Group
from sm120_ba.validate.serving.manifest import load_plan
from sm120_ba.validate.serving.outputs import compare_outputs
from sm120_ba.validate.serving.records import Boot, Request, Running, read_boot

register_cpu_ci(est_time=5, stage="base-b", runner_config="cpu")

GOOD = manifest("slowdown:2")


# Prompts


def test_the_hash_of_prompts() -> None:
    """Worked out from the words of the definition."""
    content = b"\x01\x00\x00\x00\x00\x01\x00\x00\xff\xff\xff\xff"
    assert prompt_hash([[1, 256], [2**32 - 1]]) == hashlib.sha256(content).hexdigest()
    assert prompt_hash([]) == hashlib.sha256(b"").hexdigest()


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "no prompt"),
        ("[1]\n{}\n", ":2: '{}'"),
        ("[1]\n\n[]\n", ":3: '[]'"),
        ("[1, -1]", ":1: -1"),
        ("[4294967296]", ":1: 4294967296"),
        ("[1.5]", ":1: 1.5"),
        ("[true]", ":1: True"),
        ("[1", ":1: '[1'"),
    ],
)
def test_prompts_that_are_none(tmp_path: Path, text: str, where: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        load_prompts(path)
    assert str(path) in str(error.value)
    assert where in str(error.value)


# The manifest


def planned(tmp_path: Path, text: str) -> Any:
    path = tmp_path / "manifest.toml"
    path.write_text(text)
    return load_plan(path)


def test_a_manifest(tmp_path: Path) -> None:
    plan = planned(tmp_path, GOOD)
    assert plan.variable == "MODEL_SERVER_FAULT"
    assert plan.folder == tmp_path
    assert [len(prompt) for prompt in plan.prompts] == [10] * 8
    assert len({prompt[:6] for prompt in plan.prompts}) == 1
    assert len(set(plan.prompts)) == 8
    assert planned(tmp_path, GOOD).prompts_sha256 == plan.prompts_sha256
    assert planned(tmp_path, GOOD.replace("seed = 3", "seed = 4")).prompts != plan.prompts
    default = planned(tmp_path, GOOD.replace('boots = ["A1", "B1"]', "")).manifest
    assert default.boots == ("A1", "B1", "B2", "A2", "A3", "B3")
    (tmp_path / "p.jsonl").write_text("[1, 2]\n[3]\n")
    seeded = GOOD[GOOD.index("seed") : GOOD.index("[load]")]
    assert planned(tmp_path, GOOD.replace(seeded, 'file = "p.jsonl"\n')).prompts == ((1, 2), (3,))


B_ARM = 'environment = { MODEL_SERVER_FAULT = "slowdown:2", OTHER = "x" }'
WRONG = [  # what is replaced, by what, and what the message names: the field and the value
    ("requests = 4", "requests = 0", ("load.requests", "0")),
    ("requests = 4", 'requests = "4"', ("load.requests", "'4'")),
    ("requests = 4", "", ("load", "requests")),
    ("requests = 4", "requests = 4\nretries = 3", ("load", "retries")),
    ("version = 1", "version = 2", ("version", "2")),
    ("version = 1", "version = 1\nrepeats = 1", ("repeats",)),
    ('endpoint = "generate"', 'endpoint = "chat"', ("endpoint", "'chat'")),
    ("concurrencies = [1, 2]", "concurrencies = [1, 0]", ("load.concurrencies[1]", "0")),
    ("concurrencies = [1, 2]", "concurrencies = [2, 2]", ("concurrencies", "[2, 2]")),
    ("concurrencies = [1, 2]", "concurrencies = []", ("load.concurrencies", "[]")),
    ("margin = 0.5", "margin = 1.5", ("margin", "1.5")),
    ("start = 30.0", "start = 0.0", ("timeouts.start", "0.0")),
    ("version = 1", "version 1", ("manifest.toml",)),
    ("margin = 0.5", "margin = nan", ("margin", "nan")),
    ("version = 1", 'version = 1\nhealth = "health"', ("health", "'health'")),
    ("version = 1", 'version = 1\nmetrics = "metrics"', ("metrics", "'metrics'")),
    ('["A1", "B1"]', '["A1", "B1", "A1"]', ("boots", "'A1'")),
    ('["A1", "B1"]', '["A1", "B1", "A2"]', ("boots", "'A2'", "'B2'")),
    ('["A1", "B1"]', '["A1", "B1", "C1"]', ("boots", "'C1'")),
    ('["A1", "B1"]', '["A1", "B1", "A01", "B01"]', ("boots", "'A01'")),
    ('["A1", "B1"]', "[]", ("boots", "[]")),
    (B_ARM, B_ARM.replace("slowdown:2", "none"), ("environment", "0 variables")),
    (B_ARM, B_ARM.replace('"x"', '"y"'), ("2 variables", "MODEL_SERVER_FAULT", "OTHER")),
    (B_ARM, "", ("2 variables",)),
    ('"{port}"]\n' + B_ARM, '"{port}", "--fast"]\n' + B_ARM, ("b.command", "'--fast'")),
    ('"{port}"', '"30000"', ("{port}", "30000")),
    ("seed = 3", 'file = "p.jsonl"', ("prompts", "file")),
    ("count = 8", "", ("prompts", "count")),
    ("prefix = 6", "prefix = 11", ("prompts.prefix", "11", "10")),
    ("requests = 4", "requests = 4\nwarm_up_prefix = 11", ("load.warm_up_prefix", "11", "10")),
]


@pytest.mark.parametrize(("old", "new", "named"), WRONG)
def test_a_wrong_manifest(tmp_path: Path, old: str, new: str, named: Sequence[str]) -> None:
    assert old in GOOD
    with pytest.raises(UsageError) as error:
        planned(tmp_path, GOOD.replace(old, new))
    assert str(tmp_path / "manifest.toml") in str(error.value)
    for one in named:
        assert one in str(error.value)


def test_a_variable_that_only_one_arm_has(tmp_path: Path) -> None:
    """The other arm does not get it from the environment of the command, either."""
    plan = planned(tmp_path, GOOD.replace(B_ARM, 'environment = { OTHER = "x" }'))
    assert plan.variable == "MODEL_SERVER_FAULT"
    inherited = {"MODEL_SERVER_FAULT": "crash", "PATH": "/bin", "OTHER": "z"}
    found = processes.environment(inherited, plan.manifest.b.environment, plan.variable, "run/B1")
    assert found == {"PATH": "/bin", "OTHER": "x", processes.MARKER: "run/B1"}


# Events


def taken(endpoint: str, *events: dict[str, Any] | str) -> Answer:
    answer = Answer()
    for i, event in enumerate(events):
        text = event if isinstance(event, str) else f"data: {json.dumps(event)}"
        take_line(ENDPOINTS[endpoint], answer, text.encode(), float(i))
    return answer


def native(tokens: int, ids: list[int] | None, **more: Any) -> dict[str, Any]:
    meta = {"prompt_tokens": 5, "cached_tokens": 3, "completion_tokens": tokens, **more}
    return {"meta_info": meta} if ids is None else {"output_ids": ids, "meta_info": meta}


def choice(ids: list[int] | None, text: str = "x", usage: Any = None) -> dict[str, Any]:
    made: dict[str, Any] = {"index": 0, "text": text}
    return {"choices": [made if ids is None else {**made, "token_ids": ids}], "usage": usage}


def used(tokens: int) -> dict[str, Any]:
    details = {"cached_tokens": 3}
    return {"prompt_tokens": 5, "completion_tokens": tokens, "prompt_tokens_details": details}


ANSWERS = [
    ("all ids so far", "generate", [native(1, [7]), native(3, [7, 8, 9])], [7, 8, 9]),
    ("new ids only", "generate", [native(1, [7]), native(3, [8, 9])], [7, 8, 9]),
    ("an event without a new token", "generate", [native(1, [7]), native(1, [7])], [7]),
    ("numbers only", "generate", [native(2, None)], None),
    ("token ids", "completions", [choice([7]), choice([8, 9], usage=used(3))], [7, 8, 9]),
    ("usage at the end", "completions", [choice([7]), {"choices": [], "usage": used(1)}], [7]),
    ("usage in each event", "completions", [choice(None, usage=used(2))], None),
    ("a last event without text", "completions", [choice([7]), choice(None, "")], [7]),
]


@pytest.mark.parametrize(("_what", "endpoint", "events", "ids"), ANSWERS)
def test_events(_what: str, endpoint: str, events: Any, ids: list[int] | None) -> None:
    answer = taken(endpoint, ": a comment", "", *events, "data: [DONE]")
    assert answer.ids == ids
    assert answer.done
    tokens = 2 if ids is None else len(ids)
    assert answer.tokens == answer.chunks[-1][1] == tokens
    assert [moment for moment, _ in answer.chunks] == sorted({m for m, _ in answer.chunks})
    assert fault(answer, 5, tokens) is None
    if any("usage" not in one or one["usage"] for one in events):
        assert (answer.prompt_tokens, answer.cached_tokens) == (5, 3)


@pytest.mark.parametrize(
    ("endpoint", "events", "named"),
    [
        ("generate", ['data: {"error": {"message": "out of memory"}}'], "out of memory"),
        ("generate", ["data: {nothing"], "{nothing"),
        ("generate", ["data: [1]"], "[1]"),
        ("generate", [native(3, [7, 8])], "2 output_ids after 0"),
        ("generate", [{"text": "x"}], "completion_tokens"),
        (
            "generate",
            [native(1, [7], finish_reason={"type": "abort", "message": "too long"})],
            "too long",
        ),
        ("completions", ['data: {"error": {"message": "out of memory"}}'], "out of memory"),
        ("completions", [choice([7], usage=used(2))], "usage counts 2"),
        ("generate", [native(2, [7, 8]), native(3, [9, 8, 7])], "[7, 8]"),
        ("generate", [native(3, [7, 8, 9]), native(2, [7, 8])], "from 3 to 2"),
        ("generate", [native(1, [7]), "data: [DONE]", native(1, [9])], "[9]"),
        ("completions", [choice([7]), "data: [DONE]", "data: [DONE]"], "[DONE]"),
        ("completions", [{"choices": [{"token_ids": [7]}, {"token_ids": [8]}]}], "[8]"),
        ("completions", [{"choices": [{"index": 1, "token_ids": [7]}]}], "[7]"),
        ("completions", [{"choices": [{"token_ids": [7], "finish_reason": "abort"}]}], "abort"),
        ("completions", [{"choices": [{"token_ids": [7], "finish_reason": "error"}]}], "error"),
    ],
)
def test_events_that_are_wrong(endpoint: str, events: Any, named: str) -> None:
    with pytest.raises(AnswerError) as error:
        taken(endpoint, *events)
    assert named in str(error.value)


WRONG_VALUES = ("7", 7.0, True, -1, [7], math.nan, 2**64)


@pytest.mark.parametrize("value", WRONG_VALUES)
@pytest.mark.parametrize("name", ["completion_tokens", "prompt_tokens", "cached_tokens", "ids"])
@pytest.mark.parametrize("endpoint", ["generate", "completions"])
def test_a_value_of_another_kind_never_gets_into_a_record(
    endpoint: str, name: str, value: Any
) -> None:
    """A record that cannot be read again would take the whole run's report with it."""
    ids = [value] if name == "ids" else [7]
    counts = used(1) | {name: value} if name != "cached_tokens" else used(1)
    if name == "cached_tokens":
        counts["prompt_tokens_details"] = {name: value}
    event = native(1, ids, **{name: value} if name != "ids" else {})
    if endpoint == "completions":
        event = choice(ids, usage=counts)
    answer = Answer()
    with pytest.raises(AnswerError):
        take_line(ENDPOINTS[endpoint], answer, f"data: {json.dumps(event)}".encode(), 0.0)
    record = as_record(answer, "x", concurrency=1, index=0, prompt=0, admitted_s=0.0, ended_s=1.0)
    assert msgspec.json.decode(msgspec.json.encode(record), type=Request) == record


def test_more_cached_tokens_than_the_prompt_has_are_a_fault() -> None:
    answer = taken("generate", native(1, [7], cached_tokens=6), "data: [DONE]")
    assert "6 cached" in (fault(answer, 5, 1) or "")
    assert fault(replace(answer, cached_tokens=5), 5, 1) is None


@pytest.mark.parametrize(
    ("endpoint", "events"),
    [
        ("generate", [native(0, []), native(1, [7]), native(2, [7, 8])]),
        ("completions", [choice([], ""), choice([7]), choice([8])]),
        ("completions", [choice(None, ""), choice(None), choice(None), {"usage": used(2)}]),
        ("completions", [choice(None, "", used(0)), choice(None, "", used(1))]),
    ],
)
def test_the_first_token_is_timed_when_it_came_not_when_it_was_counted(
    endpoint: str, events: Any
) -> None:
    assert taken(endpoint, *events).first_s == 1


METRICS = [
    ('sglang:num_running_reqs{tp_rank="0"} 3.0\n', 3),
    ('sglang:num_running_reqs{tp_rank="0"} 3.0\nsglang:num_running_reqs{tp_rank="1"} 3.0\n', 3),
    (
        'sglang:num_running_reqs{priority="",tp_rank="0"} 3.0\n'
        'sglang:num_running_reqs{priority="1",tp_rank="0"} 2.0\n',
        3,
    ),
    ('sglang:num_running_reqs{dp_rank="0"} 3\nsglang:num_running_reqs{dp_rank="1"} 2\n', 5),
    ('# HELP vllm:num_requests_running N\nvllm:num_requests_running{engine="0"} 4.0\n', 4),
    ('vllm:num_requests_running{engine="0"} 1\nvllm:num_requests_running{engine="1"} 1\n', 2),
    ("vllm:num_requests_running 0.0\n", 0),
    ("sglang:num_running_reqs_offline_batch 5.0\n", None),
    ("sglang:num_queue_reqs 5.0\n", None),
    ("<html>404</html>", None),
]


@pytest.mark.parametrize(("text", "expected"), METRICS)
def test_running_requests(text: str, expected: int | None) -> None:
    assert running_requests(text) == expected


# Figures


def request(index: int, **changes: Any) -> Request:
    """One of a group at 2 that takes 0.1 s a token for four tokens."""
    ids = (index, 1, 2, 3)
    chunks = tuple((0.1 * (i + 1), i + 1) for i in range(4))
    fields: dict[str, Any] = {
        "concurrency": 2,
        "index": index,
        "prompt": index,
        "admitted_s": 0.4 * (index // 2),
        "ended_s": 0.4 * (index // 2 + 1),
        "ttft_s": 0.1,
        "chunks": chunks,
        "tokens": 4,
        "ids": ids,
        "prompt_tokens": 10,
        "cached_tokens": 6,
    }
    return Request(**{**fields, **changes})


def boot(name: str, **changes: Any) -> Boot:
    fields: dict[str, Any] = {"healthy_after_s": 1.0, "running": {2: Running(2, 9)}, **changes}
    return Boot(name=name, started="2026-01-01T00:00:00+00:00", **fields)


def test_a_group() -> None:
    requests = [request(i, ttft_s=0.1 * (i + 1)) for i in range(4)]
    warm = request(0, concurrency=0, ended_s=99.0)
    (group,) = figures.groups(boot("A1"), [warm, *requests])
    assert group.tokens_per_s == pytest.approx(16 / 0.8)
    assert (group.ttft_p50_s, group.ttft_p90_s) == (pytest.approx(0.25), pytest.approx(0.37))
    assert (group.cached, group.running_peak) == (0.6, 2)
    nothing = [request(i, ttft_s=None, tokens=0, cached_tokens=None, error="x") for i in (0, 1)]
    (group,) = figures.groups(boot("A1", running={}), nothing)
    assert (group.tokens_per_s, group.ttft_p50_s, group.cached) == (None, None, None)
    assert (group.failed, group.running_peak) == (2, None)


@pytest.mark.parametrize(
    ("degrees", "level", "t"),
    [
        *[(1, 0.95, 12.7062), (2, 0.95, 4.30265), (3, 0.95, 3.18245), (4, 0.95, 2.77645)],
        *[(5, 0.99, 4.03214), (9, 0.999, 4.78091), (10, 0.95, 2.22814), (30, 0.9, 1.69726)],
    ],
)
def test_students_t(degrees: int, level: float, t: float) -> None:
    """Against the printed tables."""
    assert figures.t_quantile(degrees, level) == pytest.approx(t, rel=1e-5)


def test_the_bootstrap_of_three_pairs_is_their_range() -> None:
    assert figures.bootstrap_interval([0.3, -0.1, 0.2]) == pytest.approx((-0.1, 0.3))
    low, high = figures.bootstrap_interval([float(i) for i in range(6)])
    assert 0 < low < 2.5 < high < 5
    many = [float(i % 7) for i in range(20)]
    assert figures.bootstrap_interval(many) == figures.bootstrap_interval(many)


def test_equal_arms_are_seldom_told_apart() -> None:
    """2,000 reports of nine comparisons on noise of 2 %: at most 1 in 20 claims anything."""
    draw = random.Random(0).gauss
    claims = 0
    for _ in range(2000):
        groups = [
            Group(
                name, c, 4, 0, 100, math.exp(draw(0, 0.02)), *(math.exp(draw(0, 0.02)),) * 2, 0, c
            )
            for name in ("A1", "A2", "A3", "B1", "B2", "B3")
            for c in (1, 4, 8)
        ]
        found = figures.compare(groups, margin=1e-9)
        assert len(found) == 9
        claims += any(one.verdict in (figures.HIGHER, figures.LOWER) for one in found)
    assert 0 < claims < 100


VERDICTS = [  # tokens a second of A, of B; the verdict at a margin of 10 %
    ((100, 101, 99), (50, 50.5, 49.5), figures.LOWER),
    ((100, 101, 99), (200, 203, 198), figures.HIGHER),
    ((100, 101, 99), (100, 101, 99), figures.WITHIN),
    ((100, 101, 99), (101, 102.2, 100), figures.WITHIN),
    ((100, 101, 99), (80, 100, 120), figures.UNDECIDED),
    ((100, 101, 99), (105, 120, 112), figures.UNDECIDED),
    # A is so noisy that the same ratio in each pair says nothing.
    ((100, 300, 50), (200, 602, 99), figures.UNDECIDED),
    ((100,), (50,), figures.UNDECIDED),
]


@pytest.mark.parametrize(("a", "b", "expected"), VERDICTS)
def test_verdicts(a: Sequence[float], b: Sequence[float], expected: str) -> None:
    rates = {f"{arm}{i}": v for arm, of in (("A", a), ("B", b)) for i, v in enumerate(of, 1)}
    groups = [
        Group(name, 1, 4, 0, 1000, 1000 / v, None, None, None, 1) for name, v in rates.items()
    ]
    (one,) = figures.compare(groups, margin=0.1)
    assert one.verdict == expected
    assert one.pairs == tuple(pytest.approx(y / x - 1) for x, y in zip(a, b, strict=True))
    assert (one.interval is None) == (len(a) == 1)


def test_a_pair_without_its_other_boot_is_none() -> None:
    groups = [Group(n, 1, 4, 0, 100, 1.0, None, None, None, 1) for n in ("A1", "B1", "A2", "B3")]
    (one,) = figures.compare(groups, 0.1)
    assert len(one.pairs) == 1
    assert figures.compare(groups[2:], 0.1) == []


# Answers

Ids = tuple[int, ...]
SAME: Ids = (1, 2, 3)
OUTPUTS: list[tuple[str, dict[str, Ids | None], tuple[int, int, int, int]]] = [
    ("equal", {"A1": SAME, "B1": SAME, "A2": SAME, "B2": SAME}, (1, 0, 0, 0)),
    ("B differs", {"A1": SAME, "B1": (1, 5, 3), "A2": SAME, "B2": (1, 5, 3)}, (0, 0, 1, 0)),
    ("B differs once", {"A1": SAME, "B1": SAME, "A2": SAME, "B2": (1, 2)}, (0, 0, 1, 0)),
    ("A differs", {"A1": SAME, "B1": SAME, "A2": (1, 2, 4), "B2": SAME}, (0, 1, 0, 0)),
    ("both differ", {"A1": SAME, "B1": (9,), "A2": (1, 2, 4), "B2": (8,)}, (0, 1, 0, 0)),
    ("unknown", {"A1": SAME, "B1": None, "A2": SAME, "B2": SAME}, (0, 0, 0, 1)),
]


@pytest.mark.parametrize(("_what", "answers", "expected"), OUTPUTS)
def test_answers(
    _what: str, answers: dict[str, Ids | None], expected: tuple[int, int, int, int]
) -> None:
    (found,) = compare_outputs(
        {name: [request(0, ids=ids), request(0, concurrency=0)] for name, ids in answers.items()}
    )
    assert (*(found.equal, found.a_varies, len(found.flips), found.not_compared),) == expected


def test_where_an_answer_differs() -> None:
    answers = {"A1": (1, 2, 3), "B1": (1, 5), "A2": (1, 2, 3), "B2": (1, 5)}
    (found,) = compare_outputs({name: [request(0, ids=ids)] for name, ids in answers.items()})
    (flip,) = found.flips
    assert (flip.position, flip.a, flip.b, flip.stable) == (1, 2, 5, True)
    answers["B2"] = (1, 2)  # it ends where A goes on
    (found,) = compare_outputs({name: [request(0, ids=ids)] for name, ids in answers.items()})
    assert (found.flips[0].position, found.flips[0].b, found.flips[0].stable) == (2, None, False)


# The report

BOOTS = ("A1", "B1", "B2", "A2")


def reported(tmp_path: Path, change: dict[str, Any] | None = None, **boots: Any) -> Any:
    """A report of two pairs at 2; `change` is of request 3 of B1."""
    text = manifest(boots=BOOTS, load="requests = 4\nconcurrencies = [2]")
    plan = planned(tmp_path, text)
    found = {name: (boot(name), tuple(map(request, range(4)))) for name in BOOTS}
    if change:
        found["B1"] = (boot("B1"), (*map(request, range(3)), request(3, **change)))
    found |= boots
    return outcome.report(plan, found, ["B2.broken-1"], {"python": "3"})


def test_equal_boots_are_within_the_margin(tmp_path: Path) -> None:
    report = reported(tmp_path)
    assert (report.status, report.compared, report.failures) == (0, 16, ())
    assert {row[-1] for row in report.tables[0].rows} == {figures.WITHIN}
    assert any("May be claimed: no difference of more than 50 %" in note for note in report.notes)
    assert any("B2.broken-1" in note for note in report.notes)


FAILURES: list[tuple[dict[str, Any], str, str]] = [
    ({"error": "status 500"}, "B1, 2 at once, request 3", "status 500"),
    ({"ids": (3, 1, 9, 3)}, "2 at once, request 3", "9 in place of 2"),
]


@pytest.mark.parametrize(("change", "where", "what"), FAILURES)
def test_a_failure_of_a_request(
    tmp_path: Path, change: dict[str, Any], where: str, what: str
) -> None:
    report = reported(tmp_path, change)
    assert report.status == 1
    (failure,) = report.failures
    assert failure.where == where
    assert what in failure.what
    claimed = any("May be claimed" in note for note in report.notes)
    assert claimed == ("error" not in change)


def test_what_lacks_is_a_failure(tmp_path: Path) -> None:
    for kept, told in (
        ((0, 1, 2), ("3 of 4",)),
        ((0, 1, 2, 2), ("3 of 4", "1 twice")),  # as many as there should be
        ((0, 1, 2, 3, 3), ("4 of 4", "1 twice")),
        ((0, 1, 2, 3, 4), ("4 of 4", "1 twice or unasked")),
        ((), ("0 of 4",)),
    ):
        lost = reported(tmp_path, B1=(boot("B1"), tuple(map(request, kept))))
        assert lost.failures[0].where == "B1"
        assert all(one in lost.failures[0].what for one in told), lost.failures[0].what
    never = boot("B1", failures=("not healthy",), healthy_after_s=None)
    failed = reported(tmp_path, B1=(never, ()))
    assert failed.failures[0].what == "not healthy"
    assert all("Nothing may be claimed" in note for note in failed.notes[:1])
    assert {row[-1] for row in failed.tables[0].rows} == {"not judged: the run failed"}


def test_noise_of_a_is_no_fault_of_b(tmp_path: Path) -> None:
    """Where A differs from itself, an answer of B that differs in one boot only is no failure."""
    varies = (*map(request, range(3)), request(3, ids=(3, 1, 9, 3)))
    once = (request(0, ids=(0, 1, 9, 3)), *map(request, range(1, 4)))
    report = reported(tmp_path, A2=(boot("A2"), varies), B1=(boot("B1"), once))
    assert report.failures == ()
    both = {name: (boot(name), once) for name in ("B1", "B2")}
    report = reported(tmp_path, A2=(boot("A2"), varies), **both)
    assert [one.where for one in report.failures] == ["2 at once, request 0"]


def test_sampled_answers_are_not_compared(tmp_path: Path) -> None:
    text = manifest(boots=("A1", "B1"), load="requests = 4\nconcurrencies = [2]\ntemperature = 0.7")
    plan = planned(tmp_path, text)
    found = {name: (boot(name), tuple(map(request, range(4)))) for name in ("A1", "B1")}
    found["B1"] = (boot("B1"), tuple(request(i, ids=(7, 7, 7, 7)) for i in range(4)))
    report = outcome.report(plan, found, [], {})
    assert report.failures == ()
    assert any("not greedy" in note for note in report.notes)


def test_the_picture_is_the_same_each_time() -> None:
    group = figures.groups(boot("A1"), map(request, range(4)))[0]
    groups = [group, replace(group, boot="B1", ttft_p50_s=None)]
    assert plot.svg(groups, "a & b") == plot.svg(groups, "a & b")
    assert "a &amp; b" in plot.svg(groups, "a & b")


def test_a_record_of_another_form_is_refused(tmp_path: Path) -> None:
    import msgspec

    (tmp_path / "boot.json").write_text('{"name": "A1", "started": "", "retries": 1}')
    with pytest.raises(msgspec.DecodeError):
        read_boot(tmp_path)


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__]))
