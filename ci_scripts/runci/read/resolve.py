"""Writes an expression of a file out: its constants and small functions put in, names as imported.

`if IS_SM90:` says `torch.cuda.get_device_capability() == (9, 0)` then, wherever it was assigned.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from functools import cached_property

from runci.read.module import Module
from runci.read.names import children, dotted, flat, import_names

UNKNOWN_NAME = "_"
_UNKNOWN = ast.Name(UNKNOWN_NAME)
_BUILTINS = frozenset(("any", "all", "len", "bool", "int", "tuple", "max", "min"))
_CACHES = frozenset(("functools.lru_cache", "functools.cache", "staticmethod"))
_MISSING = frozenset(("ImportError", "ModuleNotFoundError", "Exception", "BaseException"))
_MOST_NODES = 400  # of one condition, written out
_DEEPEST = 12  # functions that call functions
_COPIED = (
    ast.BoolOp,
    ast.UnaryOp,
    ast.BinOp,
    ast.Compare,
    ast.Tuple,
    ast.List,
    ast.Subscript,
    ast.Slice,
    ast.IfExp,
    ast.Attribute,
)
Local = dict[str, ast.expr]


class Scope:
    """The names of a module, and what each of them stands for where that can be known."""

    def __init__(self, module: Module) -> None:
        self._module, self._names = module, module.names
        self._nodes = 0

    def written_out(self, node: ast.expr, local: Local | None = None) -> ast.expr:
        """The expression, written out; `local` are names of a function, by what they stand for."""
        self._nodes = 0
        return self._resolve(node, local or {}, 0)

    @cached_property
    def _constants(self) -> dict[str, ast.expr]:
        """Names that one statement at top level assigns, and nothing else binds."""
        found: dict[str, ast.expr] = {}
        for statement in self._module.body:
            found |= assigned(statement)
        return {name: value for name, value in found.items() if self._bound.get(name) == 1}

    @cached_property
    def _optional(self) -> dict[str, ast.IfExp]:
        """Names that say whether an import worked: `HAS_X`, or `x` that is None without it."""
        found: dict[str, ast.IfExp] = {}
        before: dict[str, ast.expr] = {}
        for statement in self._module.body:
            before |= assigned(statement)
            there = _installed(statement)
            if there is None or not isinstance(statement, ast.Try):
                continue
            bound = [name for one in flat([statement]) for name in bound_by(one)]
            worked: Local = dict.fromkeys(import_names(statement.body), _UNKNOWN)
            worked |= _all_assigned([*statement.body, *statement.orelse])
            handler = next(filter(catches_missing, statement.handlers), None)
            missing = _all_assigned(handler.body if handler else [])
            for name, value in worked.items():
                preset = name not in missing and name in before
                other = before[name] if preset else missing.get(name)
                if other is not None and self._bound.get(name) == bound.count(name) + preset:
                    found[name] = ast.IfExp(there, value, other)
        return found

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        """The functions at top level that nothing else has the name of."""
        defined = (n for n in self._module.body if isinstance(n, ast.FunctionDef))
        return {n.name: n for n in defined if self._bound.get(n.name) == 1}

    @cached_property
    def _bound(self) -> dict[str, int]:
        """How often the module binds each name, imports aside; `global` counts as many."""
        count: dict[str, int] = {}
        for statement in self._module.statements:
            for name in bound_by(statement):
                count[name] = count.get(name, 0) + 1
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                for inner in flat(statement.body):
                    if isinstance(inner, ast.Global):
                        count |= dict.fromkeys(inner.names, 2)
        return count

    def _resolve(self, node: ast.expr, local: Local, depth: int) -> ast.expr:
        self._nodes += 1
        if self._nodes > _MOST_NODES or depth > _DEEPEST:
            return _UNKNOWN
        if isinstance(node, ast.Constant) or node is _UNKNOWN:
            return node
        if isinstance(node, ast.Name):
            return self._name(node.id, local, depth)
        if isinstance(node, ast.Call):
            return self._call(node, local, depth)
        if not isinstance(node, _COPIED):
            return _UNKNOWN
        fields = {name: getattr(node, name) for name in node._fields}
        for name, value in fields.items():
            if isinstance(value, ast.expr):
                fields[name] = self._resolve(value, local, depth)
            elif isinstance(value, list) and value and isinstance(value[0], ast.expr):
                fields[name] = [self._resolve(item, local, depth) for item in value]
        return type(node)(**fields)

    def _name(self, name: str, local: Local, depth: int) -> ast.expr:
        if name in local:
            return local[name]  # written out already
        if name in self._optional:
            known = self._optional[name]
            values = [self._resolve(v, {}, depth + 1) for v in (known.body, known.orelse)]
            return ast.IfExp(known.test, *values)
        if name in self._names:
            return _chain(self._names[name]) if name not in self._bound else _UNKNOWN
        if name in self._constants:
            return self._resolve(self._constants[name], {}, depth + 1)
        return ast.Name(name) if name in _BUILTINS and name not in self._bound else _UNKNOWN

    def _call(self, node: ast.Call, local: Local, depth: int) -> ast.expr:
        arguments = [self._resolve(argument, local, depth) for argument in node.args]
        keywords = [ast.keyword(k.arg, self._resolve(k.value, local, depth)) for k in node.keywords]
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in self.functions and name not in local:
            function = self.functions[name]
            given = _parameters(function, arguments, keywords)
            answer = None if given is None else self._answer(function.body, given, depth + 1)
            # By its name it may be declared in suites.yml, whatever its body says.
            return answer or ast.Call(ast.Name(name), arguments, keywords)
        return ast.Call(self._resolve(node.func, local, depth), arguments, keywords)

    def _answer(self, body: Sequence[ast.stmt], local: Local, depth: int) -> ast.expr | None:
        """What a function returns, as one expression; None where that is more than a formula."""
        if depth > _DEEPEST or self._nodes > _MOST_NODES:
            return None
        for index, statement in enumerate(body):
            rest = body[index + 1 :]
            if isinstance(statement, ast.Return):
                value = statement.value or ast.Constant(None)
                return self._resolve(value, local, depth)
            if isinstance(statement, ast.If):
                test = self._resolve(statement.test, local, depth)
                yes = self._answer([*statement.body, *rest], dict(local), depth + 1)
                no = self._answer([*statement.orelse, *rest], dict(local), depth + 1)
                return ast.IfExp(test, yes, no) if yes and no else None
            if isinstance(statement, ast.Try) and not statement.finalbody:
                return self._attempt(statement, rest, local, depth + 1)
            if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Import, ast.ImportFrom)):
                self.assign(statement, local, depth)
            elif not isinstance(getattr(statement, "value", statement), (ast.Constant, ast.Pass)):
                return None  # neither a text nor `pass`
        return ast.Constant(None)

    def _attempt(
        self, statement: ast.Try, rest: Sequence[ast.stmt], local: Local, depth: int
    ) -> ast.expr | None:
        """What a function returns from a `try` on."""
        there = _installed(statement)
        yes = self._answer([*statement.body, *statement.orelse, *rest], dict(local), depth)
        if there is None:
            # Where it would raise, evaluating has no value either, but for that of a constant.
            return None if len(statement.body) > 1 and isinstance(yes, ast.Constant) else yes
        handler = next(filter(catches_missing, statement.handlers), None)
        no = self._answer([*handler.body, *rest], dict(local), depth) if handler else _UNKNOWN
        return ast.IfExp(there, yes, no) if yes and no else None

    def assign(self, statement: ast.stmt, local: Local, depth: int = 0) -> None:
        """Take what a statement binds into the names of a function."""
        known = {n: self._resolve(v, local, depth) for n, v in assigned(statement).items()}
        names = import_names([statement])
        local |= dict.fromkeys(bound_by(statement), _UNKNOWN) | known
        local |= {name: _chain(source) for name, source in names.items()}


def catches_missing(handler: ast.ExceptHandler) -> bool:
    """Whether a handler is for a package that is missing (`except Exception` is for all)."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {dotted(kind) for kind in kinds if kind is not None}
    return not names or bool(names & _MISSING)


def _installed(statement: ast.stmt) -> ast.expr | None:
    """That a `try` finds the packages that it imports, as an expression; None: it imports none."""
    if not isinstance(statement, ast.Try):
        return None
    modules: list[str] = []
    for one in statement.body:
        if isinstance(one, ast.Import):
            modules += [item.name for item in one.names]
        elif isinstance(one, ast.ImportFrom):
            modules.append("." * one.level + (one.module or ""))
    packages = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names
    asked: list[ast.expr] = [
        ast.Call(_chain("importlib.util.find_spec"), [ast.Constant(package)], [])
        if package
        else _UNKNOWN
        for package in sorted(packages)
    ]
    return ast.BoolOp(ast.And(), asked) if len(asked) > 1 else asked[0] if asked else None


def assigned(statement: ast.stmt) -> dict[str, ast.expr]:
    """The names that an assignment binds, each with its value; `a, b = f()` binds items of it."""
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets: list[ast.expr] = [statement.target]
        value = statement.value
    elif isinstance(statement, ast.Assign):
        targets, value = statement.targets, statement.value
    else:
        return {}
    found: dict[str, ast.expr] = {}
    for target in targets:
        if isinstance(target, ast.Name):
            found[target.id] = value
        elif isinstance(target, ast.Tuple) and all(isinstance(n, ast.Name) for n in target.elts):
            for index, name in enumerate(target.elts):
                assert isinstance(name, ast.Name)  # noqa: S101 (just looked)
                found[name.id] = (
                    value.elts[index]
                    if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts)
                    else ast.Subscript(value, ast.Constant(index), ast.Load())
                )
    return found


def _all_assigned(statements: Sequence[ast.stmt]) -> Local:
    return {name: value for one in statements for name, value in assigned(one).items()}


def bound_by(statement: ast.stmt) -> list[str]:
    """The names that a statement binds itself, without those of imports."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [statement.name]
    targets: list[ast.AST] = []
    if isinstance(statement, (ast.Assign, ast.Delete)):
        targets = [*statement.targets]
    elif isinstance(statement, (ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor)):
        targets = [statement.target]
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        targets = [item.optional_vars for item in statement.items if item.optional_vars]
    names: list[str] = []
    while targets:
        target = targets.pop()
        if isinstance(target, ast.Name):
            names.append(target.id)
        elif isinstance(target, (ast.Tuple, ast.List, ast.Starred)):
            targets += children(target)
    return names


def _chain(source: str) -> ast.expr:
    """`a.b.c` as a tree."""
    head, *rest = source.lstrip(".").split(".")
    node: ast.expr = ast.Name(head)
    for name in rest:
        node = ast.Attribute(node, name, ast.Load())
    return node


def _parameters(
    function: ast.FunctionDef, arguments: list[ast.expr], keywords: list[ast.keyword]
) -> Local | None:
    """The values of a function's parameters in a call; None where that is not plain."""
    spec = function.args
    names = [argument.arg for argument in (*spec.posonlyargs, *spec.args)]
    plain = not (spec.vararg or spec.kwarg or len(arguments) > len(names))
    if not plain or any(dotted(_called(d)) not in _CACHES for d in function.decorator_list):
        return None
    if any(k.arg is None for k in keywords) or any(isinstance(a, ast.Starred) for a in arguments):
        return None
    given: Local = dict.fromkeys([*names, *(a.arg for a in spec.kwonlyargs)], _UNKNOWN)
    defaults = [*zip(names[len(names) - len(spec.defaults) :], spec.defaults, strict=True)]
    defaults += [(a.arg, d) for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d]
    given |= {name: value for name, value in defaults if isinstance(value, ast.Constant)}
    given |= dict(zip(names, arguments, strict=False))
    return given | {k.arg: k.value for k in keywords if k.arg is not None}


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node
