"""Reads `if __name__ == "__main__":` blocks: what they run, and whether its result is kept."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from runci.read.decode import Positions
from runci.read.exits import COLLECTS, EXITS, kept_results, runs_plainly
from runci.read.module import Module
from runci.read.names import (
    children,
    dotted,
    import_names,
    is_main,
    names_of_imports,
    origin,
    walk,
)
from runci.read.other_files import starts_itself
from runci.read.testfile import MainBlock

# Dotted origins whose call runs the tests of the file, and whether the call itself exits.
RUNNERS = {
    "unittest.main": "unittest",
    "unittest.TestProgram": "unittest",
    "unittest.TextTestRunner": "unittest",
    "absl.testing.absltest.main": "unittest",
    "torch.testing._internal.common_utils.run_tests": "unittest",
    "pytest.main": "pytest",
    "pytest.console_main": "pytest",
}
_TEXT_RUNNER = "unittest.TextTestRunner().run"
_CALLS = 16  # of another kind that are remembered, for `entry_points`


@dataclass(frozen=True, slots=True)
class _RunnerCall:
    runner: str
    name: str
    node: ast.Call


def find_mains(module: Module) -> tuple[MainBlock, ...]:
    """The main blocks at top level, in order; also below a condition that is always true."""
    blocks = [n for n in _always(module.body) if is_main(n.test)]
    if not blocks:
        return ()
    names, functions = module.names, module.functions
    calls = [tuple(_runner_calls(b.body, names, functions, set())) for b in blocks]
    meddles = any(calls) and _meddles(module)
    kept, runs = _outcome(module, blocks[0], [c for found in calls for c in found], meddles)
    first = next((place for place, found in enumerate(calls) if found), -1)
    mains = tuple(
        _describe(block, found, kept, names, module.positions)._replace(
            runs=runs if place == first else True,
            starts="" if found else starts_itself(block, module),
        )
        for place, (block, found) in enumerate(zip(blocks, calls, strict=True))
    )
    if len(mains) == 1 and mains[0].exit_kept is False and len(calls[0]) == 1:
        ended = _ended(module.tree, calls[0][0])
        whole = kept_results(*_program(module, ended)) if ended is not None else {}
        endable = bool(whole) and all(whole.values()) and not meddles
        return (mains[0]._replace(endable=endable),)
    return mains


def _outcome(
    module: Module, block: ast.If, calls: list[_RunnerCall], meddles: bool
) -> tuple[dict[int, bool | None], bool | None]:
    """What becomes of each runner's result, and whether one is reached without arguments."""
    if not calls:
        return {}, True
    if len(calls) == 1 and not meddles and _plainly_exits(module, block, calls[0]):
        return {id(calls[0].node): True}, True
    program = _program(module, block)
    kept, runs = kept_results(*program), runs_plainly(*program)
    if meddles:
        kept = {call: None if result else result for call, result in kept.items()}
    return kept, runs


def ending(call: str) -> tuple[str, str]:
    """What stands around a bare call of a runner that ends the process with its result."""
    if call == "unittest.TextTestRunner().run":
        return "raise SystemExit(not ", ".wasSuccessful())"
    if call.startswith("unittest."):
        return "raise SystemExit(not ", ".result.wasSuccessful())"
    return "raise SystemExit(", ")"


def last_call(tree: ast.Module) -> ast.Call | None:
    """The bare call that is the last statement of a main block that is the last of the file."""
    block = tree.body[-1]
    if not isinstance(block, ast.If) or not is_main(block.test) or block.orelse:
        return None
    last = block.body[-1]
    if not isinstance(last, ast.Expr) or not isinstance(last.value, ast.Call):
        return None
    return last.value if last.col_offset == last.value.col_offset else None  # in parentheses


def _ended(tree: ast.Module, call: _RunnerCall) -> ast.If | None:
    """The last main block as it is when its last call, of this runner, ends the process."""
    last, block = last_call(tree), tree.body[-1]
    if last is None or call.node not in (last, getattr(last.func, "value", None)):
        return None
    before, after = ending(call.name)
    assert isinstance(block, ast.If)  # noqa: S101 (has a last call)
    body = [*block.body[:-1], *ast.parse(f"{before}{ast.unparse(last)}{after}").body]
    return ast.copy_location(ast.If(block.test, body, []), block)


def _program(
    module: Module, block: ast.If
) -> tuple[
    list[ast.stmt],
    dict[str, str],
    dict[str, ast.FunctionDef],
    dict[str, object],
    dict[str, str],
]:
    """What is executed from the first main block to the end of the file, and with what names."""
    after = [n for n in module.body if n.lineno > (block.end_lineno or block.lineno)]
    constants: dict[str, object] = {
        target.id: statement.value.value
        for statement in module.body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    return [block, *after], module.names, module.functions, constants, RUNNERS


def _plainly_exits(module: Module, block: ast.If, call: _RunnerCall) -> bool:
    """Whether the block is `unittest.main()` or `sys.exit(pytest.main([__file__]))`.

    Most are. Only a shortcut: executing it would say the same.
    """
    *imports, last = block.body
    given = [*call.node.args, *(keyword.value for keyword in call.node.keywords)]
    words = [word for one in given for word in (one.elts if isinstance(one, ast.List) else [one])]
    if not isinstance(block.test, ast.Compare) or not all(map(_is_plain, words)):
        return False
    if any(not isinstance(node, (ast.Import, ast.ImportFrom)) for node in imports):
        return False
    outer = last.value if isinstance(last, ast.Expr) else getattr(last, "exc", None)
    if call.runner == "unittest":
        named = [keyword.arg for keyword in call.node.keywords]
        stays = "exit" in named or None in named or len(call.node.args) > 5  # exit is the sixth
        exits = call.name != _TEXT_RUNNER and not stays
        return (
            exits
            and isinstance(last, ast.Expr)
            and outer is call.node
            and not _hides(call.node, module)
        )
    if not isinstance(outer, ast.Call) or outer.args != [call.node] or outer.keywords:
        return False
    by = origin(outer.func, {**module.names, **import_names(imports)})
    exits = by in EXITS and isinstance(last, ast.Raise) is (by == "SystemExit")
    return exits and not _hides(outer, module) and not _hides(call.node, module)


def _hides(call: ast.Call, module: Module) -> bool:
    """Whether the file may give the called name to something else."""
    head = (dotted(call.func) or "").partition(".")[0]
    targets = (target for node in module.each(ast.Assign) for target in node.targets)
    return head in module.functions or any(
        isinstance(target, ast.Name) and target.id == head for target in targets
    )


def _meddles(module: Module) -> bool:
    """Whether the file gives an exit another meaning, or ends the process when it exits."""
    if not re.search(r"\batexit\b|\b_?(exit|main|quit|SystemExit)\b.*=|\bsetattr\b", module.text):
        return False
    names = {**module.names, **names_of_imports(n for n in walk(module.tree) if _imports(n))}
    for node in walk(module.tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found = (origin(node, names) or "") in {*EXITS, *RUNNERS}
        elif isinstance(node, ast.Call):
            found = _meddles_by_call(node, origin(node.func, names), module, names)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            by = any(origin(mark, names) == "atexit.register" for mark in node.decorator_list)
            found = by and _ends_at_once(node, names)
        else:
            continue
        if found:
            return True
    return False


def _meddles_by_call(
    call: ast.Call, called: str | None, module: Module, names: dict[str, str]
) -> bool:
    if called in ("setattr", "builtins.setattr") and len(call.args) > 1:
        holder, name = origin(call.args[0], names), call.args[1]
        if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
            return False
        return f"{holder}.{name.value}" in {*EXITS, *RUNNERS}
    if called != "atexit.register":
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    functions = [module.functions[n] for n in map(dotted, given) if n in module.functions]
    return any(_ends_at_once(one, names) for one in (*given, *functions))


def _ends_at_once(node: ast.AST, names: dict[str, str]) -> bool:
    return any(
        isinstance(n, (ast.Attribute, ast.Name)) and origin(n, names) == "os._exit"
        for n in walk(node)
    )


def _imports(node: ast.AST) -> bool:
    return isinstance(node, (ast.Import, ast.ImportFrom))


def _is_plain(word: ast.expr) -> bool:
    """A constant, but for an option that only collects, or `__file__`."""
    if isinstance(word, ast.Constant):
        return word.value not in COLLECTS
    return isinstance(word, ast.Name) and word.id == "__file__"


def _always(statements: Iterable[ast.stmt]) -> Iterator[ast.If]:
    """Conditions that are asked whatever is the case: those below `if True:` too."""
    pending = [s for s in statements if isinstance(s, ast.If)][::-1]
    while pending:
        statement = pending.pop()
        yield statement
        if isinstance(statement.test, ast.Constant):
            inner = statement.body if statement.test.value else statement.orelse
            pending += [s for s in inner if isinstance(s, ast.If)][::-1]


def _describe(
    block: ast.If,
    calls: tuple[_RunnerCall, ...],
    results: dict[int, bool | None],
    names: dict[str, str],
    positions: Positions,
) -> MainBlock:
    span, movable = positions.span(block), not block.orelse and not _binds(block)
    if calls:
        kept = [results.get(id(c.node)) for c in calls]
        worst = next((k for k in (False, None) if k in kept), True)
        call = calls[kept.index(worst)]
        place = positions.span(call.node)
        runner = call.runner if len({c.runner for c in calls}) == 1 else "both"
        return MainBlock(span, runner, call.name, place, worst, (), movable)
    others = [n for n in _walk(block.body) if isinstance(n, ast.Call)]
    if not others:
        return MainBlock(span, "nothing", "", span, True, (), movable)
    names = {**names, **import_names(block.body)}
    origins = (origin(other.func, names) for other in others)
    called = tuple(dict.fromkeys(name for name in origins if name is not None))
    name = dotted(others[0].func) or "a call"
    place = positions.span(others[0])
    return MainBlock(span, "other", name, place, True, called[:_CALLS], movable)


def _binds(block: ast.If) -> bool:
    """Whether a block gives names to something, but by imports: what follows may read them."""
    return any(
        isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        or (isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))
        for n in _walk(block.body)
    )


def _runner_calls(
    body: list[ast.stmt],
    names: dict[str, str],
    functions: dict[str, ast.FunctionDef],
    followed: set[str],
) -> Iterator[_RunnerCall]:
    """Calls that run tests, in these statements and in functions of the file that they call."""
    if found := import_names(body):
        names = {**names, **found}
    for node in _walk(body):
        source = origin(node.func, names) if isinstance(node, ast.Call) else None
        if source in RUNNERS and isinstance(node, ast.Call):
            yield _runner_call(node, source)
        elif source in functions and source not in followed:
            followed.add(source)
            yield from _runner_calls(functions[source].body, names, functions, followed)


def _walk(body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """Nodes of the statements, without the bodies of nested functions and classes."""
    pending: list[ast.AST] = list(reversed(list(body)))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            pending += reversed(children(node))


def _runner_call(node: ast.Call, source: str) -> _RunnerCall:
    runner = RUNNERS[source]
    if source == "unittest.TextTestRunner":
        return _RunnerCall(runner, _TEXT_RUNNER, node)
    stays = runner == "unittest" and any(
        keyword.arg == "exit"
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value is False
        for keyword in node.keywords
    )
    return _RunnerCall(runner, f"{source}(exit=False)" if stays else source, node)
