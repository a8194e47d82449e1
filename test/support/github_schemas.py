"""GitHub's published schemas, from test/fixtures/github, for payloads that say only a part."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from places import ROOT

SAVED = ROOT / "test" / "fixtures" / "github" / "schemas.json"
SCHEMAS = Path(os.environ.get("RUNCI_GITHUB_SCHEMAS", SAVED))  # others, in `make interop`
FORMATS = FormatChecker(formats=())
_LISTS = ("anyOf", "oneOf", "allOf")


@FORMATS.checks("date-time", raises=ValueError)
def _is_time(value: object) -> bool:
    if isinstance(value, str):
        if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", value):
            return False
        datetime.fromisoformat(value.replace("Z", "+00:00"))
    return True


@FORMATS.checks("uri")
def _is_uri(value: object) -> bool:
    return not isinstance(value, str) or re.fullmatch(r"[a-z][a-z0-9+.-]*:\S+", value) is not None


class Schemas:
    """The schemas of one version. Names: "GET PATH", "body POST PATH", "event NAME ACTION"."""

    def __init__(self, path: Path = SCHEMAS) -> None:
        self.about: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        self._schemas, self._shared = self.about["schemas"], self.about["$defs"]
        self._closed = {
            name: _closed(schema, self._shared) for name, schema in self._shared.items()
        }
        self._known: dict[str, Draft202012Validator] = {}
        self._paths = [
            (verb, _pattern(path), f"{verb} {path}")
            for verb, _, path in (name.partition(" ") for name in self._schemas)
            if path.startswith("/")
        ]

    def of(self, verb: str, path: str) -> str:
        """The name of a request's schema. Raises KeyError for one that has none here."""
        fits = [n for v, p, n in self._paths if v == verb and p.fullmatch(path.partition("?")[0])]
        if not fits:
            raise KeyError(
                f"{verb} {path}: add it to test/fixtures/github/extract.py, and run that"
            )
        return min(fits, key=lambda name: name.count("{"))

    def faults(self, name: str, value: object) -> list[str]:
        """What the schema does not know or has otherwise: fields, types, values, formats."""
        if name not in self._known:
            whole = {**_closed(self._schemas[name], self._shared), "$defs": self._closed}
            self._known[name] = Draft202012Validator(whole, format_checker=FORMATS)
        return sorted(_said(error) for error in self._known[name].iter_errors(value))

    def promises(self, name: str, path: tuple[str, ...]) -> bool:
        """Whether the schema says that this field is always there, where what holds it is."""
        return _promises(self._schemas[name], path, self._shared)

    def knows(self, name: str, path: tuple[str, ...]) -> bool:
        """Whether the schema has this field at all."""
        kinds = [self._schemas[name]]
        for key in path:
            flat = [kind for each in kinds for kind in _kinds(each, self._shared)]
            held = [
                k.get("items") if key == "[]" else k.get("properties", {}).get(key) for k in flat
            ]
            kinds = [each for each in held if each is not None]
        return bool(kinds)


def _pattern(path: str) -> re.Pattern[str]:
    """Addresses of this form; a file, a ref and what is compared may hold slashes."""
    path = re.sub(r"\{(?:path|ref|basehead)\}", ".+", path)
    return re.compile(re.sub(r"\{\w+\}", "[^/]+", path))


def _closed(schema: Any, shared: Mapping[str, Any]) -> Any:
    """The schema for a part: nothing must be there, and nothing else may be."""
    if not isinstance(schema, dict):
        return schema
    if "allOf" in schema:  # closed one by one, they would exclude each other
        return _closed(_joined(schema["allOf"], shared), shared)
    found = {key: value for key, value in schema.items() if key not in ("required", *_LISTS)}
    if "properties" in schema:
        inner = {key: _closed(one, shared) for key, one in schema["properties"].items()}
        found = {"additionalProperties": False, **found, "properties": inner}
    for key in ("items", "additionalProperties"):
        if key in found:
            found[key] = _closed(found[key], shared)
    for key in ("anyOf", "oneOf"):
        if key in schema:  # of parts, more than one can fit
            found["anyOf"] = [_closed(one, shared) for one in schema[key]]
    return found


def _joined(parts: Iterable[Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    """Several schemas of one object as one; where both know a field, the first one says of what."""
    properties: dict[str, Any] = {}
    required: set[str] = set()
    for part in parts:
        (kind,) = (kind for kind in _kinds(part, shared) if kind.get("type") != "null")
        properties = {**kind.get("properties", {}), **properties}
        required |= set(kind.get("required", ()))
    return {"type": "object", "properties": properties, "required": sorted(required)}


def _said(error: Any) -> str:
    best = min(error.context, key=lambda each: -len(each.absolute_path), default=error)
    where = ".".join(str(part) for part in best.absolute_path)
    return f"{where}: {best.message[:200]}"


def _promises(schema: Any, path: tuple[str, ...], shared: Mapping[str, Any]) -> bool:
    kinds = [kind for kind in _kinds(schema, shared) if kind.get("type") != "null"]
    if not path:
        return True
    if path[0] == "[]":
        lists = [kind for kind in kinds if "items" in kind]
        return bool(lists) and all(_promises(kind["items"], path[1:], shared) for kind in lists)
    objects = [kind for kind in kinds if "items" not in kind]
    return bool(objects) and all(
        path[0] in kind.get("required", ())
        and _promises(kind.get("properties", {}).get(path[0], {}), path[1:], shared)
        for kind in objects
    )


def _kinds(schema: Any, shared: Mapping[str, Any]) -> Iterator[Any]:
    """What a value may be, without references and alternatives."""
    if "$ref" in schema:
        yield from _kinds(shared[schema["$ref"].removeprefix("#/$defs/")], shared)
        return
    for key in ("anyOf", "oneOf"):
        if key in schema:
            for one in schema[key]:
                yield from _kinds(one, shared)
            return
    yield _joined(schema["allOf"], shared) if "allOf" in schema else schema


class Watched(dict[str, Any]):
    """An answer that notes which of its fields are read, under `path`."""

    def __init__(self, data: Mapping[str, Any], path: tuple[str, ...], seen: set[Any]) -> None:
        super().__init__({key: watched(one, (*path, key), seen) for key, one in data.items()})
        self._path, self._seen = path, seen

    def get(self, key: str, default: Any = None) -> Any:
        """As a dict's."""
        self._seen.add((*self._path, key))
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self._seen.add((*self._path, key))
        return super().__getitem__(key)


def watched(data: Any, path: tuple[str, ...], seen: set[Any]) -> Any:
    """The same JSON; what is read of it comes into `seen` as paths, with "[]" for any item."""
    if isinstance(data, Mapping):
        return Watched(data, path, seen)
    if isinstance(data, list):
        return [watched(one, (*path, "[]"), seen) for one in data]
    return data
