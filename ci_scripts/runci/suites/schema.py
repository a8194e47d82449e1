"""The JSON Schema of suites.yml: shipped, printed by `runci schema`, and what the loader checks."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any


def schema_text() -> str:
    """The schema as it is shipped."""
    # importlib.resources would cost more to import than the file to read.
    path = Path(__file__).parents[1] / "schemas" / "suites.schema.json"
    return path.read_text(encoding="utf-8")


@functools.cache
def suites_schema() -> dict[str, Any]:
    """The schema, parsed; shared, so not to be changed."""
    schema: dict[str, Any] = json.loads(schema_text())
    return schema
