"""Which formats of a report there are, and the module that writes each."""

from __future__ import annotations

REPORTERS: dict[str, str] = {
    "text": "runci.checks.formats.text",
    "concise": "runci.checks.formats.concise",
    "github": "runci.checks.formats.github",
    "json": "runci.checks.formats.json_",
    "sarif": "runci.checks.formats.sarif",
    "junit": "runci.checks.formats.junit",
}
