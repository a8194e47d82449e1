"""Why a machine ran nothing of a shard. It is kept among the results, and blames no test."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Unfit:
    """The shard, and what is wrong with the machine that had it: a sentence each, at least one."""

    shard: str
    unfit: tuple[str, ...]
    version: int = 1

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self), sort_keys=True) + "\n"


def read_unfit(document: Mapping[str, Any]) -> Unfit | None:
    """What a JSON object says of a machine; None where it is another document, or nothing wrong.

    `runci doctor` writes more fields than these; it is believed in nothing but in being red.
    """
    shard, reasons = document.get("shard"), document.get("unfit")
    if not isinstance(shard, str) or not isinstance(reasons, list) or not reasons:
        return None
    return Unfit(shard, tuple(map(str, reasons)))
