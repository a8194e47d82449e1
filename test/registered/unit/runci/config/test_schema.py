"""The shipped schema: it is a schema, editors can use it, and the loader says what it says."""

from __future__ import annotations

import copy
import functools
import itertools
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from runci import register_cpu_ci
from runci.config.schema import read_schema, schema_text
from runci.config.suites import ConfigError, load_taxonomy
from runci.config.taxonomy import VERSION, Execution, Kind
from runci.core.globs import compile_glob
from runci.core.patterns import check_pattern
from runci.core.registration import Backend

register_cpu_ci(est_time=10, stage="base-a", runner_config="cpu")

ROOT = Path(__file__).parents[5]
FOLDER = ROOT / "ci_scripts/runci/config/schemas"

GOOD: dict[str, Any] = {
    "version": 1,
    "roots": ["test/registered"],
    "exclude": ["conftest.py", "**/helpers/*.py"],
    "test_files": ["test_*.py"],
    "benchmarks": ["bench_*.py"],
    "marker_modules": ["runci", "a.b"],
    "entry_points": ["run_tests"],
    "disabled_reason": r"#\d+",
    "runners": {
        "cpu": {"label": "ubuntu-latest", "execution": "pytest"},
        "listed": {"label": ["self-hosted", "linux"]},
        "gpu": {
            "label": {"group": "g", "labels": ["a", "b"]},
            "gpu": "RTX 5090",
            "compute_capability": "12.0",
            "gpus": 1,
            "memory_gb": 32.5,
            "execution": "script",
        },
    },
    "suites": {
        "cpu": [
            {"stage": "base-a", "runner_configs": ["cpu"], "kind": "per-commit"},
            {"name": "slow", "runner": "cpu", "kind": "weekly", "timeout_minutes": 1.5},
            {
                "name": "invoked",
                "runner": "cpu",
                "kind": "extra",
                "env": {"A_1": "x", "_b": ""},
                "pytest_args": ["--timeout=60", "-mslow"],
                "setup": ["bash", "build.sh"],
            },
        ],
        "cuda": [
            {
                "stage": "base-b",
                "runner_configs": ["gpu"],
                "kind": "extra",
                "timeout_minutes": {"gpu": 30},
                "default_est_time": 60,
                "max_deselected": 0,
                "pair_required": True,
                "run_by": "hand",
                "under": ["memcheck", "racecheck"],
                "under_factor": 2.5,
            },
            {"name": ["nightly-a", "nightly-b"], "kind": "nightly", "default_est_time": 0.5},
        ],
    },
    "taxonomy": [{"folder": "test/registered/unit/**", "allow": {"cpu": ["*"]}, "because": "x"}],
    "run_by": [{"files": ["test/registered/a.py"], "by": "another CI"}],
    "skips": [
        {"test": "test/registered/**::T*::test_x", "runners": ["gpu"], "reason": "x"},
        {"test": ["a/test_b.py::test_c[d*]", "a/test_b.py"], "runners": ["gpu"], "reason": "x"},
    ],
    "components": {"kernel": {"paths": ["kernel/**"], "suites": ["base-b-*"]}},
    "folder_rules": [{"folder": "test/registered/**", "ignore": ["RT302"], "because": "x"}],
    "workflows": {"paths": [".github/workflows"], "commands": ["runci run"]},
}

# What only the loader can see: it compares parts of the document with one another.
BETWEEN_PARTS = re.compile(
    r"is not declared under runners|has suite .* already|is no runner config of this stage|"
    r"matches no (?:\w+ )?suite|is never reached|runs scripts, which take none"
)


@functools.cache
def validator() -> jsonschema.Draft202012Validator:
    formats = jsonschema.FormatChecker()

    @formats.checks("glob", raises=re.error)
    def is_glob(value: object) -> bool:
        return not isinstance(value, str) or bool(compile_glob(value))

    @formats.checks("test-glob", raises=re.error)
    def is_pattern(value: object) -> bool:
        return not isinstance(value, str) or check_pattern(value) is None

    return jsonschema.Draft202012Validator(read_schema("suites"), format_checker=formats)


def by_schema(document: object) -> bool:
    return bool(validator().is_valid(document))


def by_loader(document: object) -> tuple[bool, list[str]]:
    """Whether it is right within its parts, and what is wrong between them."""
    try:
        load_taxonomy(json.dumps(document).encode(), "s.yml")  # JSON is YAML
    except ConfigError as error:
        texts = [p.text for p in error.problems]
        between = [text for text in texts if BETWEEN_PARTS.search(text)]
        return len(between) == len(texts), between
    return True, []


def test_it_is_a_schema_in_the_dialect_that_it_names() -> None:
    schema = json.loads(schema_text())
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.schema.json")), ids=lambda path: path.stem)
def test_each_schema_has_a_name_of_its_own_with_its_version(path: Path) -> None:
    """A URN, so that nobody looks for it anywhere; references within still resolve."""
    schema = json.loads(path.read_text(encoding="utf-8"))
    (version,) = schema["properties"]["version"]["enum"]
    assert schema["$id"] == f"urn:runci:schema:{path.name.partition('.')[0]}:{version}"
    jsonschema.Draft202012Validator.check_schema(schema)
    errors = jsonschema.Draft202012Validator(schema).iter_errors({"version": version, "x": 1})
    assert [error for error in errors if "'x' was unexpected" in error.message]


def test_the_whole_document_is_good_for_both() -> None:
    assert by_schema(GOOD)
    assert by_loader(GOOD) == (True, [])


@pytest.mark.parametrize("path", ["test/suites.yml", "examples/sglang/suites.yml"])
def test_the_files_of_this_repository_are_good_for_the_schema(path: str) -> None:
    document = yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))
    assert list(validator().iter_errors(document)) == []


def test_its_words_are_those_of_the_data_model() -> None:
    schema = read_schema("suites")
    assert schema["properties"]["version"]["enum"] == [VERSION]
    assert schema["$defs"]["backend"]["enum"] == [b.value for b in Backend]
    assert schema["$defs"]["kind"]["enum"] == [k.value for k in Kind]
    execution = schema["$defs"]["runner"]["properties"]["execution"]
    assert execution["enum"] == [e.value for e in Execution]


# What `schema_check` reads, and what it need not read.
KEYWORDS = {
    *("type", "enum", "oneOf", "pattern", "format", "minLength", "minimum", "exclusiveMinimum"),
    *("maximum", "minItems", "items", "minProperties", "required", "dependentRequired"),
    *("propertyNames", "properties", "additionalProperties", "$ref"),
    *("$defs", "$schema", "$id", "title", "description", "default"),
}


def schemas(schema: dict[str, Any], at: str = "#") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema within the schema, with the way to it."""
    yield at, schema
    for key in ("properties", "$defs"):
        for name, below in schema.get(key, {}).items():
            yield from schemas(below, f"{at}/{key}/{name}")
    for key in ("items", "additionalProperties", "propertyNames"):
        if isinstance(schema.get(key), dict):
            yield from schemas(schema[key], f"{at}/{key}")
    for index, below in enumerate(schema.get("oneOf", [])):
        yield from schemas(below, f"{at}/oneOf/{index}")


SCHEMAS = dict(schemas(read_schema("suites")))


@pytest.mark.parametrize("at", SCHEMAS)
def test_the_loader_knows_every_keyword_and_editors_have_a_text(at: str) -> None:
    schema = SCHEMAS[at]
    assert set(schema) <= KEYWORDS
    if "$ref" in schema:  # the loader reads no keyword beside it
        assert set(schema) <= {"$ref", "description"}
        assert schema["$ref"] in SCHEMAS
    elif schema.get("type") == "object":
        assert "additionalProperties" in schema  # a misspelt key must not pass
    elif schema.get("type") == "array":
        assert "items" in schema
    elif schema.get("type") != "boolean" and "oneOf" not in schema:
        assert "title" in schema  # what a message calls an allowed value
    if "/properties/" in at and at.count("/") == 2:
        assert schema.get("description")


# Values that are wrong nearly everywhere, for every place of the good document.
STRANGE: list[Any] = [
    *(None, True, 0, -1, 1.0, 0.5, 1e9, "", "a b", "/a", "../a", "a/**", "[z-a]", "(", "*"),
    *("nightly", "cpu", "12.0", "RT3", "a/test_x.py::T::t", "C:\\a", "a/", "a\n"),
    *([], ["x"], [1], [[]], ["cpu", "gpu"], {}, {"x": 1}, {"cpu": ["*"]}, {"gpu": 5}),
]


# Keys that some mapping knows and others do not.
KEYS = ("other", "name", "stage", "runner", "timeout_minutes", "gpu", "because", "amd")


def places(value: object, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield at
    below = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in below:
        yield from places(inner, (*at, key))


def changed(at: tuple[str | int, ...], value: object) -> object:
    """The good document with another value in one place."""
    if not at:
        return value
    document = copy.deepcopy(GOOD)
    parent: Any = document
    for key in at[:-1]:
        parent = parent[key]
    parent[at[-1]] = value
    return document


def without(at: tuple[str | int, ...]) -> object:
    document = copy.deepcopy(GOOD)
    parent: Any = document
    for key in at[:-1]:
        parent = parent[key]
    del parent[at[-1]]
    return document


def with_another_key(at: tuple[str | int, ...]) -> Iterator[object]:
    for key, value in itertools.product(KEYS, STRANGE[::6]):
        document = copy.deepcopy(GOOD)
        parent: Any = document
        for part in at:
            parent = parent[part]
        if not isinstance(parent, dict):
            return
        if key in parent:
            continue
        parent[key] = value
        yield document


@pytest.mark.parametrize("at", list(places(GOOD)), ids=lambda at: "/".join(map(str, at)) or "all")
def test_schema_and_loader_agree_on_each_place(at: tuple[str | int, ...]) -> None:
    documents = [changed(at, value) for value in STRANGE]
    documents += [without(at)] if at else []
    documents += with_another_key(at)
    verdicts = {True: 0, False: 0}
    for document in documents:
        good, _ = by_loader(document)
        assert good is by_schema(document), document
        verdicts[good] += 1
    assert verdicts[False]


@given(st.data())
def test_schema_and_loader_agree_on_several_changes(data: st.DataObject) -> None:
    document = copy.deepcopy(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.sampled_from(list(places(document))[1:]))
        parent: Any = document
        for key in at[:-1]:
            parent = parent[key]
        parent[at[-1]] = copy.deepcopy(data.draw(st.sampled_from(STRANGE)))
    assert by_loader(document)[0] is by_schema(document), document


# The documents that only the loader refuses, one for each thing that JSON Schema cannot say.
ONLY_THE_LOADER: dict[str, object] = {
    "an unknown runner config": changed(("suites", "cpu", 0, "runner_configs"), ["cpux"]),
    "an unknown runner": changed(("suites", "cpu", 1, "runner"), "cpux"),
    "a skip on an unknown runner": changed(("skips", 0, "runners"), ["gpux"]),
    "a suite twice": changed(("suites", "cpu", 1, "name"), "base-a-test-cpu"),
    "a timeout for another runner config": changed(
        ("suites", "cuda", 0, "timeout_minutes"), {"cpu": 1}
    ),
    "a folder's glob without a suite": changed(("taxonomy", 0, "allow"), {"cpu": ["x"]}),
    "a component's glob without a suite": changed(("components", "kernel", "suites"), ["x"]),
    "a folder that is never reached": changed(("taxonomy",), GOOD["taxonomy"] * 2),
}


@pytest.mark.parametrize("name", ONLY_THE_LOADER)
def test_what_the_schema_cannot_say(name: str) -> None:
    assert by_schema(ONLY_THE_LOADER[name])
    good, between = by_loader(ONLY_THE_LOADER[name])
    assert good
    assert len(between) == 1


def test_not_a_number_is_refused_by_the_loader_alone() -> None:
    document = changed(("suites", "cpu", 1, "timeout_minutes"), float("nan"))
    assert by_schema(document)  # NaN is no JSON, and jsonschema compares it like a number
    with pytest.raises(ConfigError):
        load_taxonomy(yaml.safe_dump(document).encode(), "s.yml")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
