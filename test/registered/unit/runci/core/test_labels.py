"""Labels of runners: their forms are those of GitHub's schema, and which machine serves which."""

from __future__ import annotations

import importlib.resources
import json
import sys
from typing import Any

import jsonschema
import pytest

from runci import register_cpu_ci
from runci.core.labels import Group, Label, plain_label, read_label, serves, shown_label

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

FORMS: list[tuple[Any, Label, Any, str]] = [
    ("gpu", "gpu", "gpu", "gpu"),
    (["self-hosted", "gpu"], ("self-hosted", "gpu"), ["self-hosted", "gpu"], "[self-hosted, gpu]"),
    ({"group": "g"}, Group("g"), {"group": "g"}, "{group: g}"),
    (
        {"group": "g", "labels": "gpu"},
        Group("g", ("gpu",)),
        {"group": "g", "labels": ["gpu"]},
        "{group: g, labels: [gpu]}",
    ),
    (
        {"group": "g", "labels": ["a", "b"]},
        Group("g", ("a", "b")),
        {"group": "g", "labels": ["a", "b"]},
        "{group: g, labels: [a, b]}",
    ),
]


@pytest.mark.parametrize(("written", "label", "plain", "shown"), FORMS)
def test_forms(written: Any, label: Label, plain: Any, shown: str) -> None:
    assert read_label(written) == label
    assert plain_label(label) == plain
    assert shown_label(label) == shown
    assert read_label(plain) == label


def test_github_takes_what_is_given_to_it() -> None:
    """Its schema of workflows, as check-jsonschema ships it."""
    folder = importlib.resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    schema = json.loads((folder / "github-workflows.json").read_text(encoding="utf-8"))
    for _, _, plain, _ in FORMS:
        job = {"runs-on": plain, "steps": [{"run": "true"}]}
        jsonschema.validate({"on": "push", "jobs": {"a": job}}, schema)


@pytest.mark.parametrize(
    "wrong",
    [
        *(None, 1, True, [], ["a", 1], {"labels": ["a"]}, {"group": 1}),
        *(
            {"group": "g", "labels": [1]},
            {"group": "g", "label": "a"},
            {"group": "g", "labels": {}},
        ),
    ],
)
def test_what_is_no_form(wrong: object) -> None:
    assert read_label(wrong) is None


@pytest.mark.parametrize(
    ("declared", "asked", "expected"),
    [
        ("gpu", "GPU", True),
        ("gpu", "cpu", False),
        ("gpu", ("self-hosted", "gpu"), True),
        (("self-hosted", "gpu"), "gpu", False),
        (("a", "b"), ("b", "a", "c"), True),
        ("gpu", Group("g", ("gpu",)), True),
        ("gpu", Group("gpu"), False),
        (Group("g"), Group("G", ("x",)), True),
        (Group("g"), Group("h"), False),
        (Group("g", ("a",)), Group("g"), False),
        (Group("g"), "g", False),
    ],
)
def test_serves(declared: Label, asked: Label, expected: bool) -> None:
    assert serves(declared, asked) is expected


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
