"""A taxonomy as JSON, for a cache: with it, a warm lint needs no reader of YAML and no schema."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from runci.registration import Backend
from runci.suites import (
    Component,
    Execution,
    FolderPolicy,
    FolderRules,
    Kind,
    Runner,
    Skip,
    Suite,
    Taxonomy,
    Workflows,
)


def to_json(taxonomy: Taxonomy) -> str:
    """Everything in it, on one line."""
    plain = {f.name: getattr(taxonomy, f.name) for f in dataclasses.fields(taxonomy)}
    plain["suites"] = list(taxonomy.suites.values())
    return json.dumps(plain, default=_plain)


def from_json(text: str) -> Taxonomy:
    """What `to_json` wrote. Raises ValueError, TypeError, KeyError or AttributeError for others."""
    plain = _frozen(json.loads(text))
    suites = [_suite(**row) for row in plain.pop("suites")]
    return Taxonomy(
        runners={name: _runner(**row) for name, row in plain.pop("runners").items()},
        suites={(suite.backend, suite.name): suite for suite in suites},
        folders=tuple(_policy(**row) for row in plain.pop("folders")),
        skips=tuple(Skip(**row) for row in plain.pop("skips")),
        components=tuple(Component(**row) for row in plain.pop("components")),
        folder_rules=tuple(FolderRules(**row) for row in plain.pop("folder_rules")),
        workflows=Workflows(**plain.pop("workflows")),
        **plain,
    )


def _plain(value: Any) -> dict[str, Any]:
    """One dataclass as a dict; raises TypeError for anything else that JSON lacks."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _frozen(value: Any) -> Any:
    """Lists as tuples, as the dataclasses have them."""
    if isinstance(value, dict):
        return {key: _frozen(below) for key, below in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _runner(execution: str, **row: Any) -> Runner:
    return Runner(execution=Execution(execution), **row)


def _suite(backend: str, kind: str, **row: Any) -> Suite:
    return Suite(backend=Backend(backend), kind=Kind(kind), **row)


def _policy(allow: dict[str, tuple[str, ...]], **row: Any) -> FolderPolicy:
    return FolderPolicy(allow={Backend(name): globs for name, globs in allow.items()}, **row)
