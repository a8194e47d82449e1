"""The JSON Schemas of our configuration files: shipped, and what their loaders check.

That of suites.yml is the one that `runci schema` prints.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any


def schema_text(name: str = "suites") -> str:
    """A schema as it is shipped."""
    # importlib.resources would cost more to import than the file to read.
    path = Path(__file__).parents[1] / "schemas" / f"{name}.schema.json"
    return path.read_text(encoding="utf-8")


@functools.cache
def read_schema(name: str) -> dict[str, Any]:
    """A schema, parsed; shared, so not to be changed."""
    schema: dict[str, Any] = json.loads(schema_text(name))
    return schema


def suites_schema() -> dict[str, Any]:
    """That of suites.yml."""
    return read_schema("suites")
