"""Which action the workflow of `runci init` uses."""

from __future__ import annotations

import json
import sys

import pytest

from runci import register_cpu_ci
from runci.adopt.published import checked, installed_from
from runci.core.errors import RunciError

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

SHA = "0123456789abcdef" * 2 + "01234567"


def direct_url(url: str, commit: object = SHA) -> str:
    """As pip writes it (PEP 610)."""
    return json.dumps({"url": url, "vcs_info": {"vcs": "git", "commit_id": commit}})


@pytest.mark.parametrize(
    ("told", "owner"),
    [
        (direct_url("https://github.com/o-1/runci"), "o-1"),
        (direct_url("https://github.com/o/runci.git"), "o"),
        (direct_url("https://github.com/o/runci/"), "o"),
        (direct_url("https://me:secret@github.com/o/runci"), "o"),  # and no secret is written
        (direct_url("ssh://git@github.com/o/runci.git"), "o"),
        (direct_url("git@github.com:o/runci.git"), "o"),
        (None, None),
        ("", None),
        ("{}", None),
        ("[1]", None),
        ("no JSON", None),
        (json.dumps({"url": "file:///src/runci", "dir_info": {"editable": True}}), None),
        (json.dumps({"url": "https://github.com/o/runci/a.whl", "archive_info": {}}), None),
        (direct_url("https://github.com/o/runci", "v1"), None),
        (direct_url("https://github.com/o/runci", None), None),
        (direct_url("https://example.com/o/runci"), None),
        (direct_url("https://github.com.example.com/o/runci"), None),
        (direct_url("https://example.com/github.com/o/runci"), None),
        (direct_url("https://github.com/o/runci/tree"), None),
        (direct_url("https://github.com/o/ru nci"), None),
    ],
)
def test_what_pip_installed(told: str | None, owner: str | None) -> None:
    assert installed_from(told) == (f"{owner}/runci@{SHA}" if owner else None)


def test_what_somebody_names() -> None:
    assert checked(f"o/runci@{SHA}") == f"o/runci@{SHA}"
    for wrong in ("o/runci", "o/runci@v1", f"runci@{SHA}", f"o/runci/x@{SHA}", f"o/r x@{SHA}"):
        with pytest.raises(RunciError, match="--action"):
            checked(wrong)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
