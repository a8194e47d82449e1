"""YAML with positions: values, keys, aliases and merges, and documents that must not hurt."""

from __future__ import annotations

import re
import sys
import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from runci import register_cpu_ci
from runci.read import yamlpos
from runci.read.yamlpos import Node, YamlError, load

register_cpu_ci(est_time=3, stage="base-a", runner_config="cpu")


@pytest.fixture(params=["libyaml", "pure Python"], autouse=True)
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both of PyYAML's loaders: contributors may have a PyYAML without libyaml."""
    if request.param == "pure Python":
        monkeypatch.setattr(yamlpos, "_Loader", yaml.SafeLoader)
    elif not yaml.__with_libyaml__:
        pytest.skip("PyYAML was built without libyaml")


def read(text: str) -> Node:
    return load(text.encode(), "f.yml")


def fault(data: bytes) -> str:
    with pytest.raises(YamlError) as caught:
        load(data, "f.yml")
    error = caught.value
    assert str(error) == f"f.yml:{error.line}:{error.column}: {error.problem}"
    assert "\n" not in error.problem
    return f"{error.line}:{error.column}: {error.problem}"


def test_a_list_with_a_tag_that_is_asked_for_is_a_mapping() -> None:
    data = b"a: [x, !ref [b, c]]\n"
    inner = load(data, "f.yml", tags=("!ref",)).mapping["a"].items[1]
    assert inner.plain() == {"!ref": ["b", "c"]}
    assert (inner.line, inner.column, inner.keys) == (1, 8, {"!ref": (1, 8)})
    assert "'!ref' is not plain data" in fault(data)
    with pytest.raises(YamlError, match="is not plain data"):
        load(b"a: !ref {b: c}\n", "f.yml", tags=("!ref",))


def test_values_and_keys_know_where_they_stand() -> None:
    root = read("a: 1\nb:\n  - x\n  - {c: true}\n")
    assert (root.line, root.column) == (1, 1)
    assert root.keys == {"a": (1, 1), "b": (2, 1)}
    items = root.mapping["b"].items
    assert [(n.line, n.column) for n in items] == [(3, 5), (4, 5)]
    inner = root.get("b")
    assert inner is not None
    assert items[1].keys == {"c": (4, 6)}
    assert (items[1].mapping["c"].line, items[1].mapping["c"].column) == (4, 9)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("1.5", 1.5),
        ("'1'", "1"),
        ("true", True),
        ("~", None),
        ("2026-01-02", "2026-01-02"),
        ("2026-01-02 03:04:05", "2026-01-02 03:04:05"),
        ("!!binary aGk=", "aGk="),
        ("[]", []),
        ("{}", {}),
        ("{on: 1, yes: 2, 3: 4, ~: 5}", {"on": 1, "yes": 2, "3": 4, "~": 5}),
    ],
)
def test_plain_values(text: str, value: object) -> None:
    plain = read(text).plain()
    assert plain == value
    assert type(plain) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "030",
        "-0_7",
        "1:30",
        "+1:30:00",
        "1:30.5",
        "08",
        "-09",
        "1_0",
        "1_0.5",
        "0b11",
        "-0b1_1",
        "0o17",
        "0x1_f",
        "1e3",
        "1.5e3",
        ".5E3",
        "1e+3",
    ],
)
def test_numbers_that_are_not_one_in_every_yaml(text: str) -> None:
    with pytest.raises(YamlError, match=f"f.yml:1:4: {re.escape(text)} is not one number"):
        load(f"a: {text}".encode(), "f.yml", strict=True)
    load(f"a: {text}".encode(), "f.yml")
    assert load(f"a: '{text}'".encode(), "f.yml", strict=True).plain() == {"a": text}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("30", 30),
        ("0", 0),
        ("0.5", 0.5),
        ("0x1F", 31),
        ("1.5e+3", 1500.0),
        ("a_0", "a_0"),
        ("_1", "_1"),
        ("0b12", "0b12"),
        ("0o18", "0o18"),
        ("1.2.3", "1.2.3"),
        ("1-gpu", "1-gpu"),
        ("inf", "inf"),
        ("0abc", "0abc"),
    ],
)
def test_values_that_are_one_in_every_yaml(text: str, value: float | str) -> None:
    assert load(f"a: {text}".encode(), "f.yml", strict=True).plain() == {"a": value}


def test_get_leads_nowhere_without_an_error() -> None:
    root = read("a: {b: 1}\nc: [1]\n")
    assert root.get("a", "b") is root.mapping["a"].mapping["b"]
    for path in (("x",), ("a", "x"), ("a", "b", "x"), ("c", "0"), ("x", "y", "z")):
        assert root.get(*path) is None
    assert root.get() is root
    assert (root.items, root.mapping["c"].mapping) == ((), {})


def test_an_alias_stands_where_its_anchor_stands() -> None:
    root = read("a: &x [1]\nb: *x\n")
    assert root.mapping["b"] is root.mapping["a"]
    assert root.mapping["b"].line == 1


def test_merge_keys() -> None:
    root = read(
        "a: &a {x: 1, y: 1}\nb: &b {<<: *a, y: 2, z: 2}\nc: {<<: [*b, *a], z: 3}\nd: {'<<': 4}\n"
    )
    assert root.plain() == yaml.safe_load(
        "{a: {x: 1, y: 1}, b: {x: 1, y: 2, z: 2}, c: {x: 1, y: 2, z: 3}, d: {'<<': 4}}"
    )
    assert root.mapping["b"].keys == {"x": (1, 8), "y": (2, 16), "z": (2, 22)}


def test_a_byte_order_mark_is_not_content() -> None:
    root = load(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n", "f.yml")
    assert root.plain() == {"a": 1, "b": 2}
    assert root.keys == {"a": (1, 1), "b": (2, 1)}


@pytest.mark.parametrize(
    ("data", "pattern"),
    [
        (b"", "1:1: the file is empty"),
        (b"\n\n# x\n", "1:1: the file is empty"),
        (b"a: 1\na: 2\n", r"2:1: key 'a' stands twice \(first on line 1\): keep one"),
        (b"x: {b: 1, 'b': 2}\n", r"1:11: key 'b' stands twice \(first on line 1\): keep one"),
        (b"a: {<<: {}, <<: {}}\n", r"1:13: key '<<' stands twice .*"),
        (b"? [1]\n: 2\n", "1:3: a key must be a plain word or a string"),
        (b"a: &a [*a]\n", "1:4: an anchor contains itself: write it out"),
        (b"a: &a {b: {c: [*a]}}\n", "1:4: an anchor contains itself: write it out"),
        (b"a: &a {<<: *a}\n", "1:4: an anchor contains itself: write it out"),
        (b"a: &a {<<: [{<<: *a}]}\n", "1:4: an anchor contains itself: write it out"),
        (b"a: {<<: 1}\n", "1:9: << takes a mapping or a list of mappings"),
        (b"a: {<<: [{}, 1]}\n", "1:14: << takes a mapping or a list of mappings"),
        (b"a: *nothing\n", "1:4: invalid YAML: .*"),
        (b"a:\n\tb: 1\n", "2:1: invalid YAML: .*"),
        (b"a: 'open\n", r"\d+:\d+: invalid YAML: .*"),
        (b"a: 1\n--- \nb: 1\n", "2:1: invalid YAML: .*"),
        (b"a: 1\nb: \xe9\n", "2:1: not UTF-8: save the file as UTF-8"),
        (b"a: 1\nb: \xc3\xa9\x00\n", r"2:5: invalid YAML: character U\+0000 may not .*"),
        (b"a: 1\nb: \x07\n", r"2:4: invalid YAML: character U\+0007 may not .*"),
        (b"a: !!python/name:os.system\n", "1:4: invalid YAML: .*"),
        (b"a: !!python/object/new:x []\n", "1:4: tag .* is not plain data: leave it out"),
        (b"a: !!set {x}\n", "1:4: tag .* is not plain data: leave it out"),
        (b"a: !mine 1\n", "1:4: invalid YAML: .*"),
        (b"a: 2026-13-45\n", "1:4: invalid value '2026-13-45': write it in quotes"),
        (b"a: !!int x\n", "1:4: invalid value 'x': .*"),
        (b"a: !!int ''\n", "1:4: invalid value '': .*"),
        (b"a: !!bool x\n", "1:4: invalid value 'x': .*"),
        (b"a: !!timestamp x\n", "1:4: invalid value 'x': .*"),
        (b"a: " + b"9" * 5000 + b"\n", "1:4: invalid value .*"),
        (b"[" * 5000 + b"]" * 5000, r"1:\d+: .*nest.*"),
        (b"[" * 900 + b"]" * 900, r"1:\d+: nested too deeply: flatten the document"),
    ],
)
def test_faults(data: bytes, pattern: str) -> None:
    text = fault(data)
    assert re.fullmatch(pattern, text), text


def laughs(first: str, later: str, levels: int = 40) -> bytes:
    """Each level holds ten aliases of the one before."""
    lines = [f"a0: &a0 {first}"]
    for level in range(1, levels):
        aliases = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} {later.format(aliases)}")
    return "\n".join(lines).encode()


def test_anchors_that_expand_without_end_are_refused_at_once() -> None:
    start = time.perf_counter()
    assert fault(laughs("[x, x]", "[{}]")).startswith("6:5: anchors expand to more than 200000 ")
    assert time.perf_counter() - start < 5


def test_merges_that_repeat_without_end_are_a_small_mapping() -> None:
    start = time.perf_counter()
    root = load(laughs("{{k: 1}}".format(), "{{<<: [{}]}}"), "f.yml")
    assert root.mapping["a39"].plain() == {"k": 1}
    assert time.perf_counter() - start < 5


@given(st.binary(max_size=60))
def test_any_bytes_give_a_document_or_an_error_with_a_place(data: bytes) -> None:
    try:
        node = load(data, "f.yml")
    except YamlError as error:
        assert error.line >= 1
        assert error.column >= 1
    else:
        node.plain()


# Without what counts as a line end or a control character: PyYAML's dumper does not escape all.
TEXT = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT
DOCUMENTS = st.recursive(
    SCALARS, lambda below: st.lists(below) | st.dictionaries(TEXT, below), max_leaves=15
)


@given(DOCUMENTS, st.sampled_from([True, False, None]))
def test_what_pyyaml_writes_is_read_back(document: object, flow: bool | None) -> None:
    text = yaml.safe_dump(document, default_flow_style=flow, allow_unicode=True)
    assert read(text).plain() == document


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
