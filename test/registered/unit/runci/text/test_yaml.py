"""Texts as scalars of YAML: two parsers, values and keys, in blocks and in braces."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from runci import register_cpu_ci
from runci.read.yamlpos import load
from runci.text.yaml import quoted, scalar

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

TEXT = st.text(st.characters(exclude_categories=("Cs",)))


@given(TEXT)
def test_every_text_survives_its_quotes(text: str) -> None:
    assert load(f"a: {quoted(text)}".encode(), "x").plain() == {"a": text}


@given(TEXT)
def test_every_text_is_itself_as_a_value_and_as_a_key(text: str) -> None:
    assert yaml.safe_load(f"{scalar(text)}: {{a: {scalar(text)}}}") == {text: {"a": text}}


# Numbers, truth values, nothing and dates of YAML 1.1 or 1.2.
@pytest.mark.parametrize(
    "text",
    [
        *("null", "Null", "~", "true", "no", "NO", "on", "y", "=", "<<", "-", "a-", "a:", "é"),
        *("1", "1_000", "0x1f", "0o7", "08", "1e3", ".inf", "-1", "12:30", "2020-01-01", "1.5"),
    ],
)
def test_what_could_be_read_otherwise_is_quoted(text: str) -> None:
    assert scalar(text) == quoted(text)


@pytest.mark.parametrize("text", ["a", "1-gpu-small", "ubuntu-latest", "tests/test_a.py", "h100.2"])
def test_what_cannot_stands_plain(text: str) -> None:
    assert scalar(text) == text
