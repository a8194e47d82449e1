"""perf.yml: what may stand there, and what is said of the rest."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import runci
from runci import register_cpu_ci
from runci.config.perf import Config, Rule, load_config
from runci.core.errors import RunciError
from runci.nightly.history.read import newest_names

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

SCHEMA: dict[str, Any] = json.loads(
    (Path(runci.__file__).parent / "config" / "schemas" / "perf.schema.json").read_text("utf-8")
)
GOOD = """\
version: 1
first_night: 2026-12-01
benchmarks:
  gemm:
    version: "1"
    command: [python, b.py]
"""
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def load(text: str) -> Config:
    return load_config(text.encode(), "perf.yml")


def by_schema(text: str) -> bool:
    """Whether jsonschema takes it, as an editor does."""
    document = yaml.safe_load(text)
    document["first_night"] = str(document["first_night"])  # it is no text for PyYAML
    return jsonschema.Draft202012Validator(SCHEMA).is_valid(document)


@pytest.mark.parametrize(
    "more",
    [
        "",
        f"    baseline: {COMMIT}\n",
        f"    baseline: {'a' * 64}\n",
        "    timeout_minutes: 0.5\n",
        "    metrics: [a, b]\n",
        "    arms: {last release: v*, pin of may: v1.2.0}\n",
        "    budgets: {peak memory: {limit: 900, unit: MiB}, build: {limit: 0.5, unit: s}}\n",
        "late_hours: 1\n",
        "branch: a/b-c_d.e\n",
        "decision: {min_change: 0.005, memory: 30, chance: 1}\n",
        "renames: [{from: a, to: b}]\n",
    ],
)
def test_what_is_right_is_read(more: str) -> None:
    load(GOOD + more)
    assert by_schema(GOOD + more)


def test_a_whole_number_may_be_written_with_a_point() -> None:
    rule = load(f"{GOOD}decision: {{min_points: 12.0, memory: 40.0}}\n").rule
    assert rule == Rule(min_points=12, memory=40)
    assert [type(value) for value in (rule.min_points, rule.memory)] == [int, int]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("late_hours: 0\n", "7:13: late_hours: 0 is not allowed; allowed: hours, from 1 to 1000"),
        ("late_hours: .inf\n", "late_hours: inf is not allowed"),
        ("late_hours: .nan\n", "late_hours: nan is not allowed"),
        ("decision: {min_change: 3%}\n", "'3%' is not allowed; allowed: a part above 0, such as"),
        ("decision: {min_change: .inf}\n", "decision.min_change: inf is not allowed"),
        ("decision: {min_points: 10.5}\n", "allowed: a whole number of nights, from 3"),
        ("decision: {chance: 2}\n", "decision.chance: 2 is not allowed"),
        ("    timeout_minutes: .inf\n", "timeout_minutes: inf is not allowed"),
        ("    baseline: abc\n", "'abc' is not allowed; allowed: a whole commit, as `git rev-"),
        ("    budgets: {a: {limit: -1, unit: s}}\n", "budgets.a.limit: -1 is not allowed"),
        ("    arms: {baseline: v*}\n", "arms.baseline: 'baseline' is not allowed"),
        ("    arms: {a: --all}\n", "allowed: a commit, a tag"),
        ("    budgets: {a: {limit: 1}}\n", "key 'unit' is missing"),
        (f"    baseline: '{COMMIT}0'\n", "allowed: a whole commit"),
        ("branch: a..b\n", "branch: 'a..b' is not allowed; allowed: the name of a branch, such"),
        ("branch: a.lock\n", "branch: 'a.lock' is not allowed"),
        ("branch: a//b\n", "branch: 'a//b' is not allowed"),
        ("branch: a/\n", "branch: 'a/' is not allowed"),
        ('branch: "a\\n"\n', "branch: 'a\\n' is not allowed"),
        ("branch: --force\n", "branch: '--force' is not allowed"),
        ("renames: [{from: a}]\n", "key 'to' is missing; allowed: the new name of a metric"),
    ],
)
def test_what_is_wrong_is_said_with_what_would_be_right(more: str, said: str) -> None:
    with pytest.raises(RunciError) as caught:
        load(GOOD + more)
    assert "perf.yml:7:" in str(caught.value)
    assert said in str(caught.value)
    assert not by_schema(GOOD + more) or "nan" in more  # which compares with nothing


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("2026-12-01", "'2026-02-30'", "first_night: '2026-02-30' is no date"),
        ("2026-12-01", "9999-12-31", "first_night: '9999-12-31' is no date"),
        ("2026-12-01", "soon", "'soon' is not allowed; allowed: a date such as 2026-12-01"),
        ('"1"', "1", 'allowed: a text in quotes, such as "1"; put it in quotes'),
        ("[python, b.py]", '["a\\0b"]', "allowed: a word of the command"),
        ("[python, b.py]", "['']", "allowed: a word of the command"),
        ("[python, b.py]", "python b.py", "'python b.py' is not allowed; allowed: a list"),
        ("gemm:", "suites:", "allowed: letters, digits, dots, dashes and underscores, but not"),
        ("gemm:", "'a/b':", "benchmarks.a/b: 'a/b' is not allowed"),
        ("gemm:", "-x:", "benchmarks.-x: '-x' is not allowed"),
    ],
)
def test_what_is_wrong_in_its_place(old: str, new: str, said: str) -> None:
    with pytest.raises(RunciError) as caught:
        load(GOOD.replace(old, new, 1))
    assert said in str(caught.value)


def leaves(schema: dict[str, Any], at: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Every schema of a value that is neither mapping nor list."""
    found = [] if schema.get("type") in ("object", "array") else [(at, schema)]
    for key, below in schema.get("properties", {}).items():
        found += leaves(below, f"{at}/{key}")
    for key in ("items", "additionalProperties", "propertyNames"):
        if isinstance(schema.get(key), dict):
            found += leaves(schema[key], f"{at}/{key}")
    return found


@pytest.mark.parametrize(("at", "schema"), leaves(SCHEMA))
def test_each_value_has_words_for_what_is_allowed(at: str, schema: dict[str, Any]) -> None:
    """Without a title a message would say «allowed: true or false»."""
    assert "title" in schema or "enum" in schema


def test_a_long_chain_of_renames_leads_to_its_end() -> None:
    chain = {f"n{i}": f"n{i + 1}" for i in range(20_000)}
    assert set(newest_names(chain).values()) == {"n20000"}
    backwards = dict(reversed(chain.items()))
    assert newest_names(backwards) == newest_names(chain)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
