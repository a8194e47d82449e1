"""Finds where a main block runs another file: what that file's tests do counts for nobody."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from runci.read.cases import FUNCTIONS
from runci.read.module import Module
from runci.read.names import dotted, is_main, names_of_imports, origin, walk
from runci.read.testfile import OtherFile

_PYTEST = ("pytest.main", "pytest.console_main")
_UNITTEST = ("unittest.main", "unittest.TestProgram", "absl.testing.absltest.main")
_PROGRAMS = ("runpy.run_path", "exec", "builtins.exec")
_MODULES = "runpy.run_module"
_STARTS = re.compile(
    r"subprocess\.(run|call|check_call|check_output|Popen)|os\.(system|popen|exec[lv]p?e?"
    r"|spawn[lv]p?e?|posix_spawnp?)|asyncio\.create_subprocess_(exec|shell)"
)
_RUNS = re.compile(
    "|".join(map(re.escape, (*_PYTEST, *_UNITTEST, *_PROGRAMS, _MODULES))) + "|" + _STARTS.pattern
)
# Options of pytest whose value is no file to run.
_VALUED = re.compile(
    r"--(ignore(-glob)?|deselect|rootdir|confcutdir|junit-?xml|log-file|basetemp)|-[ckmopW]"
)
_RUNNER = re.compile(r"\b(pytest|py\.test|unittest)\b")
_FILE = re.compile(r"[\w./\\-]*\.py(?=$|::|[\s'\";&|])")


def find_other_files(module: Module) -> tuple[OtherFile, ...]:
    """What main blocks, and the functions of the file that they call, hand to a runner.

    Whether it is a test, or this file itself under another path, is for the rule to say.
    """
    blocks = [s for s in module.each(ast.If) if is_main(s.test)]
    if not blocks:
        return ()
    nodes = [n for block in blocks for n in _reached(block.body, module)]
    known = {**module.names, **names_of_imports(nodes)}
    calls = [(n, origin(n.func, known) or "") for n in nodes if isinstance(n, ast.Call)]
    calls = [(node, name) for node, name in calls if _RUNS.fullmatch(name)]
    if not any(node.args or node.keywords for node, _ in calls):
        return ()
    values = dict(_assigned([*module.each(ast.Assign), *nodes]))
    found = []
    for node, call in calls:
        place = module.positions.span(node)
        found += [OtherFile(call, one, place) for one in _files(node, call, known, values)]
    return tuple(dict.fromkeys(found))


def starts_itself(block: ast.If, module: Module) -> str:
    """The call with which a main block hands this file to a runner in another process, or ""."""
    nodes = _reached(block.body, module)
    known = {**module.names, **names_of_imports(nodes)}
    values: dict[str, ast.expr] | None = None
    for node in nodes:
        name = origin(node.func, known) or "" if isinstance(node, ast.Call) else ""
        if not _STARTS.fullmatch(name):
            continue
        values = dict(_assigned([*module.each(ast.Assign), *nodes])) if values is None else values
        named = [values[n.id] for n in walk(node) if isinstance(n, ast.Name) and n.id in values]
        parts = [part for one in (node, *named) for part in walk(one)]
        own = any(dotted(part) in ("__file__", "sys.argv") for part in parts)
        texts = [p.value for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str)]
        if own and any(map(_RUNNER.search, texts)):
            return name
    return ""


def _reached(body: Iterable[ast.stmt], module: Module) -> list[ast.AST]:
    """Nodes of these statements and of the functions of the file that they name."""
    functions = {n.name: n for n in module.statements if isinstance(n, FUNCTIONS)}
    nodes: list[ast.AST] = []
    pending = list(body)
    while pending:
        for node in walk(pending.pop(0)):
            nodes.append(node)
            if isinstance(node, ast.Call) and (name := dotted(node.func)) in functions:
                pending += functions.pop(name).body
    return nodes


def _assigned(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """Names that are given a value in a plain way."""
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, node.value


def _files(
    call: ast.Call, name: str, names: dict[str, str], values: dict[str, ast.expr]
) -> Iterator[str]:
    first = call.args[0] if call.args else None
    keywords = {k.arg: k.value for k in call.keywords}
    if name in _PYTEST:
        yield from _named(_after_options(keywords.get("args", first), values))
    elif name in _UNITTEST:
        yield from _module(keywords.get("module", first), names)
    elif name in _PROGRAMS:
        yield from _named(_strings(first, values))
    elif name == _MODULES:
        yield from _module(first, {})
    elif _STARTS.fullmatch(name):
        given = [*call.args, *(v for k, v in keywords.items() if k == "args")]
        yield from _started([text for one in given for text in _strings(one, values)], given)


def _started(texts: list[str], given: list[ast.expr]) -> Iterator[str]:
    """The files of a command line that starts Python or pytest."""
    own = any(dotted(n) == "sys.executable" for one in given for n in walk(one))
    if own or re.search(
        r"(^|[\s/])(python[\d.]*|pytest|py\.test|torchrun)\s", " ".join(texts) + " "
    ):
        yield from _named(texts)


def _named(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        for found in _FILE.finditer(text):
            yield found[0].replace("\\", "/")


def _module(given: ast.expr | None, names: dict[str, str]) -> Iterator[str]:
    """The file of a module that is given by name, or as what was imported."""
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        module = given.value
    else:
        module = names.get(dotted(given) or "", "") if given is not None else ""
    if module not in ("", "__main__", "sys"):
        yield module.strip(".").replace(".", "/") + ".py"


def _after_options(given: ast.expr | None, values: dict[str, ast.expr]) -> Iterator[str]:
    """The texts in pytest's arguments that are neither options nor their values."""
    before = ""
    for text in _strings(given, values):
        if not text.startswith("-") and not _VALUED.fullmatch(before):
            yield text
        before = text


def _strings(
    node: ast.expr | None, values: dict[str, ast.expr], seen: frozenset[str] = frozenset()
) -> Iterator[str]:
    """The constant texts in an expression, through names that stand for one."""
    for part in walk(node) if node is not None else ():
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value
        elif isinstance(part, ast.Name) and part.id in values and part.id not in seen:
            yield from _strings(values[part.id], values, seen | {part.id})
