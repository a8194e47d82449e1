"""Finds tests that return early, instead of skipping, where what they need is missing."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from runci.read.cases import FUNCTIONS, Function, methods_of
from runci.read.decode import Positions
from runci.read.module import Module
from runci.read.names import compound, dotted, flat, origin, source_of, walk
from runci.read.resolve import catches_missing
from runci.read.testfile import EarlyReturn

_Try = (ast.Try, getattr(ast, "TryStar", ast.Try))  # Python 3.11

# Calls that ask which hardware, or which package, is there.
_QUERY = re.compile(
    r"(is_available|device_count|get_device_(capability|name|properties|sm)|is_bf16_supported"
    r"|(is|has)_(cuda|hip|rocm|amd|npu|xpu|musa|mlx|mps|gpu|cpu|hopper|blackwell|ampere|sm\d+)\w*"
    r"|get_\w*(gpu|cuda|device)_(count|memory\w*)|find_spec)"
)
# What torch was built for.
_BUILT_FOR = ("torch.version.hip", "torch.version.cuda")
_EXITS = {"sys.exit", "exit", "quit", "os._exit"}


def find_early_returns(module: Module) -> tuple[EarlyReturn, ...]:
    """Tests that return, and files that exit with 0, when hardware or a package is missing."""
    needs = _Needs(module)
    found = list(_module_exits(module, needs))
    for statement in module.statements:
        if isinstance(statement, FUNCTIONS) and statement.name.startswith("test"):
            found += _returns(statement, needs, module.positions)
        elif isinstance(statement, ast.ClassDef):
            for method in methods_of(statement):
                found += _returns(method, needs, module.positions)
    return tuple(found)


def _returns(function: Function, needs: _Needs, positions: Positions) -> list[EarlyReturn]:
    within = compound(function.body)
    # Where it fails at the end, it passes only by returning: what is missing is what it tests.
    if not within or _fails(function.body[-1]):
        return []
    return [
        EarlyReturn(function.name, condition, "return", positions.span(branch[-1]))
        for condition, branch in needs.leave(within, _is_return, function.body)
        if not _checks(branch)
    ]


def _module_exits(module: Module, needs: _Needs) -> Iterator[EarlyReturn]:
    statements = list(module.body)
    for block in module.blocks:
        statements += compound(block.body)
    for condition, branch in needs.leave(
        statements, lambda n: _exits_with_success(n, module.names)
    ):
        yield EarlyReturn("", condition, "exit", module.positions.span(branch[-1]))


class _Needs:
    """What the code of a module can ask about the machine that it runs on."""

    def __init__(self, module: Module) -> None:
        self._module = module

    def leave(
        self,
        statements: Iterable[ast.stmt],
        leaves: Callable[[ast.stmt], bool],
        scope: Iterable[ast.stmt] = (),
    ) -> Iterator[tuple[str, list[ast.stmt]]]:
        """Branches that end so because something is missing, each with its condition as text."""
        for statement in statements:
            if isinstance(statement, ast.If):
                for branch in (statement.body, statement.orelse):
                    # Asked last: it is slow, and few branches leave.
                    if branch and leaves(branch[-1]) and self._asks(statement.test, scope):
                        text = source_of(statement.test)
                        yield text if branch is statement.body else f"not ({text})", branch
            elif isinstance(statement, _Try) and _tries_import(statement):
                for handler in statement.handlers:
                    if leaves(handler.body[-1]) and catches_missing(handler):
                        yield source_of(handler.type or ast.Name("Exception")), handler.body

    def _asks(self, test: ast.expr, scope: Iterable[ast.stmt]) -> bool:
        """Whether a condition asks so, itself or through names of the scope and the module."""
        if _asks_itself(test, self._functions) or _denied(test) & self._optional:
            return True
        pending, seen = _names_in(test), set[str]()
        bound = _values([*flat(scope), *self._module.statements])
        while pending - seen:
            values = [value for name in pending - seen for value in bound.get(name, ())]
            if any(_asks_itself(value, self._functions) for value in values):
                return True
            seen |= pending
            pending = set().union(*(_names_in(v) for v in values if _is_formula(v)))
        return False

    @cached_property
    def _optional(self) -> frozenset[str]:
        """Names that say whether an import worked: what `except ImportError` assigns."""
        return frozenset(
            target.id
            for statement in self._module.statements
            if isinstance(statement, _Try) and _tries_import(statement)
            for handler in filter(catches_missing, statement.handlers)
            for inner in flat(handler.body)
            if isinstance(inner, ast.Assign)
            for target in _targets(inner)
            if isinstance(target, ast.Name)
        )

    @cached_property
    def _functions(self) -> frozenset[str]:
        """Functions of the module, not tests, that return an answer."""
        return frozenset(
            function.name
            for function in self._module.each(ast.FunctionDef)
            if not function.name.startswith("test")
            if any(map(_answers, flat(function.body)))
        )


def _answers(statement: ast.stmt) -> bool:
    """`return torch.cuda.is_available()`, or `except ImportError: return False`."""
    if isinstance(statement, ast.Return) and statement.value is not None:
        value = statement.value
        return _is_number(value) or (_is_truth(value) and _asks_itself(value))
    if not isinstance(statement, _Try) or not _tries_import(statement):
        return False
    handlers = filter(catches_missing, statement.handlers)
    returned = (h.body[-1].value for h in handlers if isinstance(h.body[-1], ast.Return))
    return any(isinstance(value, ast.Constant) and value.value is False for value in returned)


def _names_in(node: ast.expr) -> set[str]:
    return {inner.id for inner in walk(node) if isinstance(inner, ast.Name)}


def _values(statements: Iterable[ast.stmt]) -> dict[str, list[ast.expr]]:
    """What the statements assign to each name."""
    bound: dict[str, list[ast.expr]] = {}
    for statement in statements:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            for target in _targets(statement):
                if isinstance(target, ast.Name):
                    bound.setdefault(target.id, []).append(statement.value)
    return bound


def _is_formula(value: ast.expr) -> bool:
    """Whether it only reckons with names: `capability[0] * 10 + capability[1]`."""
    return not any(isinstance(inner, (ast.Call, ast.IfExp, ast.Lambda)) for inner in walk(value))


def _is_number(value: ast.expr) -> bool:
    """`get_device_capability()[0]`, or a sum or product of such."""
    if isinstance(value, ast.BinOp):
        return all(isinstance(v, ast.Constant) or _is_number(v) for v in (value.left, value.right))
    asked = value.value if isinstance(value, ast.Subscript) else None
    return isinstance(asked, ast.Call) and _is_query(asked)


def _is_query(call: ast.Call) -> bool:
    return bool(_QUERY.fullmatch((dotted(call.func) or "").rpartition(".")[2].lstrip("_")))


def _is_truth(value: ast.expr) -> bool:
    """Whether an expression plainly is true or false: no list, device or tensor."""
    return isinstance(value, (ast.Call, ast.Compare, ast.BoolOp, ast.UnaryOp))


def _asks_itself(value: ast.expr, functions: frozenset[str] = frozenset()) -> bool:
    """Whether an expression asks which hardware or package is there."""
    for node in walk(value):
        if isinstance(node, ast.Call):
            if _is_query(node) or dotted(node.func) in functions:
                return True
        elif isinstance(node, ast.Attribute) and dotted(node) in _BUILT_FOR:
            return True
    return False


def _denied(test: ast.expr) -> set[str]:
    """The names that a condition wants false or None: `not HAS_TRITON`, `triton is None`."""
    if isinstance(test, ast.BoolOp):
        return set().union(*map(_denied, test.values))
    name: ast.expr | None = None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        name = test.operand
    elif isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is):
        other = test.comparators[0]
        name = test.left if isinstance(other, ast.Constant) and not other.value else None
    return {name.id} if isinstance(name, ast.Name) else set()


def _targets(statement: ast.Assign | ast.AnnAssign) -> Iterator[ast.expr]:
    """What is assigned to, `a` and `b` of `a, b = ...` each."""
    for target in [statement.target] if isinstance(statement, ast.AnnAssign) else statement.targets:
        yield from target.elts if isinstance(target, (ast.Tuple, ast.List)) else (target,)


def _tries_import(statement: ast.Try) -> bool:
    """Whether a try statement imports, and does not demand that this fails."""
    imports = any(isinstance(n, (ast.Import, ast.ImportFrom)) for n in statement.body)
    return imports and not any(map(_fails, (*statement.body, *statement.orelse)))


def _fails(statement: ast.stmt) -> bool:
    """`raise ...`, `self.fail(...)`, `pytest.fail(...)` or `assert False`."""
    if isinstance(statement, ast.Assert):
        return isinstance(statement.test, ast.Constant) and not statement.test.value
    value = statement.value if isinstance(statement, ast.Expr) else None
    called = dotted(value.func) or "" if isinstance(value, ast.Call) else ""
    return isinstance(statement, ast.Raise) or called.rpartition(".")[2] == "fail"


def _is_return(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Return)


def _checks(statements: list[ast.stmt]) -> bool:
    """Whether the branch tests something of its own (or skips) before it returns."""
    for statement in statements:
        for node in walk(statement):
            if isinstance(node, (ast.Assert, ast.Raise)):
                return True
            if isinstance(node, ast.Call):
                name = (dotted(node.func) or "").rpartition(".")[2].lower()
                if (
                    "assert" in name
                    or "skip" in name
                    or name.startswith(("_test", "test", "check", "_check", "raises"))
                ):
                    return True
    return False


def _exits_with_success(node: ast.stmt, names: dict[str, str]) -> bool:
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name):
        return node.exc.id == "SystemExit"
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        call, known = node.exc, {"SystemExit"}
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        call, known = node.value, _EXITS
    else:
        return False
    if origin(call.func, names) not in known:
        return False
    return not call.args or (
        isinstance(call.args[0], ast.Constant) and call.args[0].value in (0, None)
    )
