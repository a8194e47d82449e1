"""The entry for pre-commit: added where nothing else changes, else left to somebody."""

from __future__ import annotations

import pytest
import yaml

from runci import register_cpu_ci
from runci.adopt.hooks import appended, has_entry

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

ONE = "repos:\n- repo: https://x\n  rev: v1\n  hooks: [{id: a}] # keep\n"


@pytest.mark.parametrize(
    "text",
    [
        ONE,
        ONE.rstrip("\n"),
        ONE.replace("\n", "\r\n"),
        "default_stages: [pre-commit]\n# c\n" + ONE,
        "repos:\n    - repo: local\n      hooks: []\n# at the end\n",
        ONE + "\n\n",
    ],
)
def test_the_text_before_stays(text: str) -> None:
    after = appended(text.encode())
    assert after is not None and after.startswith(text.encode())
    before, now = yaml.safe_load(text), yaml.safe_load(after)
    assert now["repos"][:-1] == before["repos"]
    assert now["repos"][-1]["hooks"][0]["entry"] == "runci check"
    assert has_entry(after)


@pytest.mark.parametrize(
    "text",
    [
        "repos: []\n",
        "repos: [{repo: local, hooks: []}]\n",
        ONE + "exclude: ^docs/\n",
        "hooks: []\n",
        "repos:\n  - repo: local\n    hooks: []\nci:\n  - a\n",
        ONE + "others:\n- repo: x\n",
        "- repos\n",
        "repos:\n- repo: [\n",
        "",
        ONE + "...\n",
    ],
)
def test_what_is_left_alone(text: str) -> None:
    assert appended(text.encode()) is None
