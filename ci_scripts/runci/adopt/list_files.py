"""Lists in files: YAML by hardware, a test a line, and dicts of Python. Pure."""

from __future__ import annotations

import ast
import itertools
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from runci.adopt.lists import BY_HAND, Item, Left, ListOfTests, gpu_count, kind_of
from runci.config.taxonomy import Kind
from runci.core.labels import Label
from runci.read.decode import decode
from runci.read.yamlpos import Node, YamlError, load


class RanSuite(NamedTuple):
    """What runs a suite today: the workflow, its machine's labels, what of them tells it, GPUs."""

    by: str
    labels: tuple[str, ...] = ()
    label: Label = ""
    gpus: int | None = None


Read = ListOfTests | Left
_GPUS = re.compile(r"(?<!\d)(\d{1,2})-?gpus?\b")
MAX_BYTES = 2_000_000  # of one list

_ENTRY = re.compile(
    r"(?:full:[^/\s]+/)?(?P<path>[^\s:\[]+)(?:::(?P<test>[^\s\[]+(?:\[.*?\](?=\s|$))?))?(?P<rest>.*)"
)
_SETTING = re.compile(r"\b([A-Z]{4,})\b(?:\s*\(([^)]*)\))?")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_KNOWN_FAILURE = frozenset(("SKIP", "XFAIL", "UNSTABLE"))
_WAIVES = re.compile(r"waive|xfail|known.?fail|skip|exclude|disabled|flaky|quarantine", re.I)


def read_entry(text: str, line: int) -> tuple[Item, tuple[str, ...]]:
    """One line such as `a/test_b.py::test_c[d] -k e TIMEOUT (90)`, and its settings."""
    match = _ENTRY.fullmatch(_COMMENT.sub("", text).strip())
    if match is None:
        return Item(line, text, refused="names no file"), ()
    settings = tuple(
        f"{one[1]} ({one[2]})" if one[2] else one[1] for one in _SETTING.finditer(match["rest"])
    )
    try:
        words = shlex.split(_SETTING.sub("", match["rest"]))
    except ValueError:
        words = match["rest"].split()
    item = Item(line, match["path"], match["test"] or "", names=("*.py",))
    return selected(item, words), settings


def selected(item: Item, words: Sequence[str]) -> Item:
    """An entry with what options of pytest select of it."""
    given = list(itertools.pairwise(words))
    narrowed = [f"{name} {value!r}" for name, value in given if name in ("-k", "--deselect")]
    narrowed += [word for word in words if word in ("--lf", "--last-failed")]
    marks = [value for name, value in given if name == "-m"]  # the last one counts, as in pytest
    return replace(item, marked="".join(marks[-1:]), narrowed=" ".join(narrowed))


def read_test_db(data: bytes, path: str, by: str) -> Iterator[Read]:
    """YAML such as TensorRT-LLM's: a name with items that have `condition` and `tests`.

    The GPU and how many there are come from the condition; with `stage: post_merge` it is nightly.
    """
    try:
        root = load(data, path)
    except YamlError as error:
        yield Left(path, error.line, path, f"cannot be read: {error.problem}")
        return
    for name, node in root.mapping.items():
        for block in node.items:
            tests, condition = block.get("tests"), block.get("condition")
            if tests is not None and condition is not None:
                yield from _block(path, name, block.line, condition, tests, by)


def _block(
    path: str, name: str, line: int, condition: Node, tests: Node, by: str
) -> Iterator[Read]:
    count = condition.get("ranges", "system_gpu_count")
    least = count.get("gte") if count is not None else None
    gpus = gpu_count(least.value) if least is not None else None
    wild = condition.get("wildcards", "gpu")
    models = [str(node.value).strip("*") for node in (wild.items or (wild,))] if wild else []
    stage = condition.get("terms", "stage")
    items: list[Item] = []
    for node in tests.items:
        if not isinstance(node.value, str):
            yield Left(path, node.line, name, "has an entry that is no text")
            continue
        item, settings = read_entry(node.value, node.line)
        if any(setting.partition(" ")[0] in _KNOWN_FAILURE for setting in settings):
            yield Left(path, node.line, item.text, f"a known failure, {settings[0]}")
            continue
        items.append(item)
        if settings:
            yield Left(path, node.line, item.text, _without(settings))
    kind = kind_of([str(stage.value)]) if stage is not None else Kind.PER_COMMIT
    words = tuple(models) or (("cpu",) if not gpus else (name,))
    yield ListOfTests(path, line, name, tuple(items), by, words, "-".join(models), gpus, kind)


def _without(settings: Sequence[str]) -> str:
    return f"taken without its setting {', '.join(settings)}"


def read_plain(data: bytes, path: str) -> Iterator[Read]:
    """A text with a test a line. Known failures are said, and make no suite."""
    text = decode(data).text or ""
    stripped = (_COMMENT.sub("", line).strip() for line in text.split("\n"))
    lines = [(at, line) for at, line in enumerate(stripped, 1) if line]
    entries = [(at, *read_entry(line, at)) for at, line in lines]
    tests = [one for one in entries if one[1].target.endswith(".py")]
    if not tests or len(tests) * 2 < len(lines):
        return  # another kind of text
    failing = [one for one in tests if {s.partition(" ")[0] for s in one[2]} & _KNOWN_FAILURE]
    name = path.rpartition("/")[2].rpartition(".")[0]
    if _WAIVES.search(name) or len(failing) * 2 > len(tests):
        said = f"{len(tests)} known failures"
        yield Left(path, tests[0][0], said, "say under `skips` which a runner may skip, and why")
        return
    for one in entries:
        _, item, settings = one
        said = f"a known failure, {settings[0]}" if one in failing else _without(settings)
        yield from [Left(path, item.line, item.text, said)] if settings else []
    items = tuple(one[1] for one in entries if one not in failing)
    yield ListOfTests(path, 1, name, items, BY_HAND, (name,), kind=Kind.STRESS)


def read_dicts(data: bytes, path: str, machines: Mapping[str, RanSuite]) -> Iterator[Read]:
    """Python such as SGLang's `run_suite.py`: dicts of suites with lists of files.

    `machines` says what runs a suite, by its name.
    """
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for statement in tree.body:
        value = getattr(statement, "value", None)
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and isinstance(value, ast.Dict):
            for key, listed in zip(value.keys, value.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(listed, (ast.List, ast.Tuple)):
                    yield from _suite(
                        path, str(key.value), key.lineno, listed, machines.get(str(key.value))
                    )


def _suite(
    path: str, name: str, line: int, listed: ast.List | ast.Tuple, ran: RanSuite | None
) -> Iterator[Read]:
    items: list[Item] = []
    for element in listed.elts:
        first = element
        if isinstance(first, ast.Call):
            first = next(iter((*first.args, *(k.value for k in first.keywords))), first)
        elif isinstance(first, ast.Tuple) and first.elts:
            first = first.elts[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            items.append(read_entry(first.value, element.lineno)[0])
        else:
            text = ast.unparse(element)
            yield Left(path, element.lineno, text, "is not written out: only its code knows it")
    if any(item.target.endswith(".py") for item in items):
        by, labels, label, gpus = ran or RanSuite(BY_HAND)
        kind = kind_of([name]) if ran is not None else Kind.STRESS
        count = gpus or max((int(m) for m in _GPUS.findall(name)), default=None)
        yield ListOfTests(path, line, name, tuple(items), by, (name, *labels), label, count, kind)
