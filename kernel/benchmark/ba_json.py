"""The benchmark's JSON: samples, checks and versions in the form that `runci perf measure` reads.

Every other key is the benchmark's own: the machine, the numerics of each provider and M, what was
skipped and why, CPU costs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ba_report import Results

SCHEMA = 1
LINEAR = "F.linear"
EXACT_PROVIDERS = ("this kernel", "this kernel, dispatched")


def metric(name: str, rows: int, cache: str) -> str:
    """What a provider's time at M rows is called from night to night; `cache` is warm or cold."""
    return f"{name} M={rows} {cache}"


def samples_json(results: Results) -> list[dict[str, Any]]:
    """Every sample, beside the name of F.linear's at the same M and cache where that was timed."""
    found = []
    for (name, rows, cache), samples in results.samples.items():
        entry: dict[str, Any] = {"metric": metric(name, rows, cache)}
        entry |= {"unit": "us", "direction": "lower", "values": list(samples.values)}
        if name != LINEAR and (LINEAR, rows, cache) in results.samples:
            entry["reference"] = metric(LINEAR, rows, cache)
        found.append(entry)
    return found


def checks_json(results: Results) -> list[dict[str, Any]]:
    """What this kernel promises, one check for all M: the frozen form's bits, on SM120 F.linear's.

    On other GPUs F.linear splits K, so that its bits are others and nothing is promised.
    """
    found = []
    for name in EXACT_PROVIDERS:
        numerics = {rows: n for (provider, rows), n in results.numerics.items() if provider == name}
        if not numerics:
            continue
        frozen = {rows: n.equals_frozen for rows, n in numerics.items()}
        worst = max(n.ulp for n in numerics.values())
        found.append(_check(f"{name}: bits of the frozen form", frozen, f", up to {worst} ULP off"))
        if results.machine["is_sm120"]:
            linear = {rows: n.equals_linear for rows, n in numerics.items()}
            found.append(_check(f"{name}: bits of {LINEAR}", linear))
    return found


def _check(name: str, equal: Mapping[int, bool], distance: str = "") -> dict[str, Any]:
    """One check for all M; its detail names the M that differ, and how far."""
    wrong = [rows for rows, is_equal in equal.items() if not is_equal]
    detail = f"M = {_rows(equal)}"
    if wrong:
        detail = f"other bits at M = {_rows(wrong)}{distance} (compared: {detail})"
    return {"name": name, "passed": not wrong, "detail": detail}


def _rows(rows: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(rows)))


def write_json(results: Results, path: Path) -> None:
    """Write everything that was measured."""
    versions = {key: results.machine.get(key) for key in ("torch", "triton", "cuda", "python")}
    data = {
        "schema": SCHEMA,
        "samples": samples_json(results),
        "checks": checks_json(results),
        "versions": {key: value for key, value in versions.items() if value is not None},
        "machine": results.machine,
        "numerics": [
            {"provider": name, "rows": rows, **asdict(numerics)}
            for (name, rows), numerics in results.numerics.items()
        ],
        "skipped": results.skipped,
        "cpu_us": results.cpu_cost,
    }
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
