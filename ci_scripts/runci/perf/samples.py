"""What a benchmark prints: the documented form, one JSON object.

```json
{"schema": 1,
 "samples": [{"metric": "this kernel M=4 warm", "unit": "us", "direction": "lower",
              "values": [6.01, 6.02], "reference": "F.linear M=4 warm"}],
 "checks": [{"name": "bits of the frozen form", "passed": true, "detail": "M = 2..8"}],
 "versions": {"torch": "2.13.0"}}
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runci.perf.metric import SCHEMA, Direction


@dataclass(frozen=True, slots=True)
class Sampled:
    """One metric of one process. `reference` names another metric that it is compared with."""

    metric: str
    unit: str
    direction: Direction
    values: tuple[float, ...]
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """What must hold exactly, such as equal bits. `detail` says what was compared."""

    name: str
    passed: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Output:
    """All of it. `versions` is of what the figures depend on."""

    samples: tuple[Sampled, ...]
    checks: tuple[Check, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    schema: int = SCHEMA
