"""Lists in commands: Buildkite's steps and shell scripts with lines of pytest.

They are read as the workflows are: loops, variables, `cd`, lists that `find` prints.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from runci.adopt.list_files import Read, selected
from runci.adopt.lists import (
    BUILDKITE,
    BY_HAND,
    Item,
    Left,
    ListOfTests,
    backend_of,
    gpu_count,
    kind_of,
)
from runci.adopt.pytest_files import DEFAULT_FILES, is_named
from runci.config.taxonomy import Kind, Workflows
from runci.core.registration import Backend
from runci.read.yamlpos import Node, YamlError, load
from runci.text.yaml import quoted
from runci.workflows.find import find_suite_runs
from runci.workflows.runs import PathRun

_LABELS = ("device", "gpu", "agent_pool")  # of vLLM's steps; `agents` is Buildkite's own
_COUNTS = ("num_gpus", "num_devices")
_POOL = re.compile(r"(.*)_(\d{1,2})")  # mi300_2: two of them
_CLUE = re.compile(r"test|\.py$")  # in scripts all sorts of things look like a path
_SYNTHETIC = "list.yml"


def read_buildkite(data: bytes, path: str, scripts: Mapping[str, bytes]) -> Iterator[Read]:
    """The steps of a pipeline whose commands run tests, and AMD's mirrors of them."""
    try:
        root = load(data, path)
    except YamlError as error:
        yield Left(path, error.line, path, f"cannot be read: {error.problem}")
        return
    steps = [one for step in _steps(root) for one in (step, *_mirrors(step))]
    on_gpu = any(_says_gpu(_words(step)) for step in steps)
    texts = [_commands(step) for step in steps]
    directories = [text_of(step.get("working_dir")) for step in steps]
    scripted = [
        ("\n".join(text for text, _ in lines), at)
        for lines, at in zip(texts, directories, strict=True)
    ]
    for at, runs in enumerate(path_runs(scripted, scripts)):
        lines = texts[at]
        found = (
            item_of(run, lines[run.line - 1][1] if run.path == _SYNTHETIC else run.line, scripts)
            for run in runs
        )
        items = tuple(_in_folder(item, directories[at]) for item in found if may_be_test(item))
        if items:
            yield _step_list(path, steps[at], items, on_gpu)


def read_scripts_alone(scripts: Mapping[str, bytes], wanted: Iterable[str]) -> Iterator[Read]:
    """Shell scripts that no workflow calls."""
    paths = sorted(wanted)
    given = [(f"bash {shlex.quote(path)}", "") for path in paths]
    for path, runs in zip(paths, path_runs(given, scripts), strict=True):
        found = (item_of(run, run.line, scripts) for run in runs)
        items = tuple(one for one in found if may_be_test(one) and _CLUE.search(one.target))
        name = path.rpartition("/")[2].removesuffix(".sh")
        if items:
            line = min(item.line for item in items)
            yield ListOfTests(path, line, name, items, BY_HAND, (name,), kind=Kind.STRESS)


def path_runs(
    given: Sequence[tuple[str, str]], scripts: Mapping[str, bytes]
) -> list[list[PathRun]]:
    """The tests that each text of commands runs by path, from a folder; lines are the text's."""
    lines = ["name: pytest", "on: push", "jobs:"]  # the name: a file that never says it is not read
    starts = []
    for at, (text, folder) in enumerate(given):
        lines += [f"  s{at}:", "    steps:", f"      - working-directory: {quoted(folder)}"]
        lines.append("        run: |2")
        starts.append(len(lines))
        lines += [f"          {''.join(filter(_readable, line))}" for line in text.split("\n")]
    workflow = "\n".join(lines).encode()
    runs = find_suite_runs({_SYNTHETIC: workflow}, Workflows(), (), scripts, (".",)).paths
    found: list[list[PathRun]] = [[] for _ in given]
    for run in runs:
        at = int(run.job[1:])
        own = run.path == _SYNTHETIC
        found[at].append(replace(run, line=run.line - starts[at]) if own else run)
    return found


def _readable(char: str) -> bool:
    return char.isprintable() or char == "\t"


def item_of(run: PathRun, line: int, scripts: Mapping[str, bytes], path: str = "") -> Item:
    """An entry of what a command runs. `path` is the file with the line, where not the list's."""
    path = run.path if run.path in scripts else path
    first, *rest = shlex.split(run.part) or [""]
    test = first.partition("::")[2]
    refused = ""
    if not run.certain and (set("*?") & set(run.target) or not run.target):
        refused = "only a run knows what this is"
    elif run.launcher:
        refused = f"{run.launcher} starts it in several processes, which no suite does"
    item = Item(line, run.target, test, "", run.names, run.without, "", refused, path)
    return selected(item, rest if test else [first, *rest])


def may_be_test(item: Item) -> bool:
    """Whether a command means tests: not an example that it runs, nor an option's number."""
    means = bool(item.names) or is_named(item.target, DEFAULT_FILES)
    return means and not re.fullmatch(r"[\d.]+|[*/]+|-.*", item.target)


def _in_folder(item: Item, folder: str) -> Item:
    """An entry of a step in a folder of its machine: where of it the repository is, is not said."""
    if not folder.startswith("/"):
        return item
    target, *without = (
        f"/{path}" if f"/{path}".startswith(folder) else path
        for path in (item.target, *item.without)
    )
    return replace(item, target=target, without=tuple(without))


def _steps(node: Node) -> Iterator[Node]:
    for step in (node.get("steps") or node).items:
        yield from _steps(step) if step.get("steps") is not None else (step,)


def _mirrors(step: Node) -> Iterator[Node]:
    """A step for other hardware: what it says, and of the step the rest."""
    mirror = step.get("mirror")
    for name, node in mirror.mapping.items() if mirror is not None else ():
        rest = {key: one for key, one in step.mapping.items() if key not in (*_LABELS, *_COUNTS)}
        label = node.get("label") or Node(name, node.line, node.column, {})
        yield Node(
            {**rest, "label": label, **node.mapping, "mirror": Node({}, 1, 1, {})},
            node.line,
            node.column,
            {},
        )


def _commands(step: Node) -> list[tuple[str, int]]:
    """The lines of a step's script, each with its line in the file."""
    found: list[tuple[str, int]] = []
    for key in ("commands", "command"):
        node = step.get(key)
        for one in (node.items or (node,)) if node is not None else ():
            found += [
                (text.replace("$$", "$").replace("\\\\;", "\\;"), line)
                for text, line in lines_of(one)
            ]
    return found


def lines_of(node: Node) -> list[tuple[str, int]]:
    """The lines of a text, each with its line in the file."""
    lines = str(node.value or "").split("\n")
    return [(text, node.line + (at + 1 if len(lines) > 1 else 0)) for at, text in enumerate(lines)]


def _step_list(path: str, step: Node, items: tuple[Item, ...], on_gpu: bool) -> ListOfTests:
    words = _words(step)
    label = next((text for key in _LABELS if (text := text_of(step.get(key)))), "")
    queue = text_of(step.get("agents", "queue"))
    count = next((gpu_count(node.value) for key in _COUNTS if (node := step.get(key))), None)
    pool = _POOL.fullmatch(label)
    if pool:
        label, count = pool[1], count or int(pool[2])
    if not _says_gpu(words) and on_gpu and backend_of(words) is None:
        words = (*words, "cuda")  # of a pipeline that names other GPUs, the usual one
    kind = Kind.NIGHTLY if _is_true(step.get("optional")) else kind_of(words)
    label = label or queue
    backend = backend_of(words)
    told = label or (backend.value if backend is not None else "")
    several = f"{count}gpu" if (count or 0) > 1 else ""
    name = "-".join(filter(None, ("buildkite", told, several)))
    return ListOfTests(path, step.line, name, items, BUILDKITE, words, label, count, kind)


def _words(step: Node) -> tuple[str, ...]:
    """What a step says of its hardware."""
    found = [text_of(step.get(key)) for key in _LABELS]
    agents = step.get("agents")
    if agents is not None:
        found += [text_of(node) for node in (*agents.mapping.values(), *agents.items)]
    if any(step.get(key) is not None for key in _COUNTS) and not any(found):
        found.append("gpu cuda")
    if _is_true(step.get("no_gpu")):
        found.append("cpu")
    return tuple(filter(None, found))


def _says_gpu(words: Sequence[str]) -> bool:
    return backend_of(words) not in (None, Backend.CPU)


def _is_true(node: Node | None) -> bool:
    return text_of(node).lower() == "true"


def text_of(node: Node | None) -> str:
    """A scalar as text, "" for anything else."""
    return (
        "" if node is None or node.mapping or node.items or node.value is None else str(node.value)
    )
