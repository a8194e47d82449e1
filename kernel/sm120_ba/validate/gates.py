"""Gates: the limits that are set in a file before anything runs, and that nothing here relaxes.

A TOML file has a table for each command and in it a gate for each metric that it measures:

    [logits]
    max_abs = { limit = 0.25 }     # the metric is at most 0.25
    kl_mean = { noise = 3.0 }      # at most 3 times what the baseline's own repeat differs
    nll_mean = { limit = inf }     # said openly: it decides nothing, so long as it is finite

Three times a noise of zero is zero: there, only equality passes. What is no finite number passes
no gate, and nothing passes a multiple of a noise that is no finite number.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sm120_ba.validate.commands import UsageError
from sm120_ba.validate.report import Failure, Table

HELP = "TOML file with a gate for each metric: { limit = NUMBER } or { noise = MULTIPLE }"


@dataclass(frozen=True)
class Gate:
    """The highest value of a metric that passes: `value`, or `value` times the repeat noise."""

    metric: str
    kind: Literal["limit", "noise"]
    value: float

    def bound(self, noise: float) -> float:
        """The limit, given the repeat noise; NaN, which nothing passes, where there is none."""
        if self.kind == "limit":
            return self.value
        return self.value * noise if math.isfinite(noise) else math.nan

    def __str__(self) -> str:
        return f"limit {self.value:g}" if self.kind == "limit" else f"{self.value:g} x noise"


@dataclass(frozen=True)
class Gates:
    """The gates of one command, and the SHA-256 of the bytes of the file that they stood in."""

    sha256: str
    gates: tuple[Gate, ...]

    def settings(self) -> dict[str, Any]:
        """What a report says of them."""
        return {
            "gates_sha256": self.sha256,
            "gates": {gate.metric: str(gate) for gate in self.gates},
        }


@dataclass(frozen=True)
class Measured:
    """One metric: of the baseline's repeat, and of the candidate against each baseline run."""

    metric: str
    noise: float
    differences: tuple[float, ...]

    @property
    def worst(self) -> float:
        """The largest difference; NaN where one of them is."""
        return next((one for one in self.differences if math.isnan(one)), max(self.differences))


@dataclass(frozen=True)
class Verdict:
    """What a gate said of what was measured."""

    gate: Gate
    measured: Measured

    @property
    def bound(self) -> float:
        """The highest value that passes."""
        return self.gate.bound(self.measured.noise)

    @property
    def passed(self) -> bool:
        """Whether the worst difference is finite and within the bound."""
        return math.isfinite(self.measured.worst) and self.measured.worst <= self.bound


def read(path: Path, metrics: Mapping[str, Sequence[str]]) -> Gates:
    """The gates of all `metrics`, by the name of their table in the file. Raises UsageError."""
    try:
        data = path.read_bytes()
        document = _toml(data.decode())
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}; give a {HELP}") from None
    gates = [gate for name in metrics for gate in _table(path, document, name, metrics[name])]
    return Gates(hashlib.sha256(data).hexdigest(), tuple(gates))


def judge(gates: Gates, measured: Sequence[Measured]) -> tuple[Verdict, ...]:
    """What each gate says, in the order of the gates; each metric was measured once."""
    found = {one.metric: one for one in measured}
    return tuple(Verdict(gate, found[gate.metric]) for gate in gates.gates)


def table(verdicts: Sequence[Verdict], title: str) -> Table:
    """Every metric with the repeat noise beside the differences."""
    columns = ("metric", "A1 to A2 (noise)", "A1 to B1", "A2 to B1", "gate", "at most", "passed")
    return Table(
        title,
        columns,
        tuple(
            (
                verdict.gate.metric,
                verdict.measured.noise,
                *verdict.measured.differences,
                str(verdict.gate),
                verdict.bound,
                "yes" if verdict.passed else "**no**",
            )
            for verdict in verdicts
        ),
    )


def failures(verdicts: Sequence[Verdict]) -> tuple[Failure, ...]:
    """One failure for each gate that was not passed."""
    return tuple(
        Failure(
            f"gate {verdict.gate.metric}",
            f"{verdict.measured.worst:.6g}, at most {verdict.bound:.6g} "
            f"({verdict.gate}; repeat noise {verdict.measured.noise:.6g})",
        )
        for verdict in verdicts
        if not verdict.passed
    )


def _table(
    path: Path, document: Mapping[str, Any], name: str, metrics: Sequence[str]
) -> list[Gate]:
    table = document.get(name)
    if not isinstance(table, Mapping):
        raise UsageError(f"{path} has no table [{name}]; it needs {', '.join(metrics)}")
    unknown, missing = [*table.keys() - set(metrics)], [m for m in metrics if m not in table]
    if unknown:
        raise UsageError(
            f"{path}: [{name}] {sorted(unknown)[0]} is not measured here; "
            f"measured are {', '.join(metrics)}"
        )
    if missing:
        raise UsageError(
            f"{path}: [{name}] has no gate for {', '.join(missing)}; "
            "{ limit = inf } says openly that one decides nothing"
        )
    return [_gate(f"{path}: [{name}] {metric}", metric, table[metric]) for metric in metrics]


def _gate(where: str, metric: str, given: Any) -> Gate:
    if not isinstance(given, Mapping) or len(given) != 1 or not given.keys() <= {"limit", "noise"}:
        raise UsageError(
            f"{where} is {given!r}; give {{ limit = NUMBER }} or {{ noise = MULTIPLE }}"
        )
    [(kind, value)] = given.items()
    number = math.nan
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        with suppress(OverflowError):  # an int of many digits, which is no limit but a mistake
            number = float(value)
    if not number >= 0 or (kind == "noise" and math.isinf(number)):
        raise UsageError(f"{where}: {kind} is {value!r}; give a number that is not negative")
    return Gate(metric, kind, number)


def _toml(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    found: dict[str, Any] = tomllib.loads(text)
    return found
