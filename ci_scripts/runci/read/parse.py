"""One file's bytes through decoding, the syntax tree, and everything that reads it."""

from __future__ import annotations

import ast
import json
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from runci.core.source import Span, at
from runci.read.cache import digest
from runci.read.calls import find_calls
from runci.read.comments import find_suppressions, suppressions_of
from runci.read.decode import decode, read
from runci.read.early import find_early_returns
from runci.read.gates import find_gates
from runci.read.main_block import find_mains
from runci.read.marks import find_marks
from runci.read.module import Module
from runci.read.other_files import find_other_files
from runci.read.testfile import ParseError, TestFile, to_row, unreadable
from runci.read.tests import find_own, find_pytest_only, find_tests, import_line
from runci.read.unrun import find_unrun

Parsed: TypeAlias = tuple[str, str, str]  # path, digest, row

# The tree of a file takes about a hundred times its bytes in memory.
MAX_BYTES = 8 * 1024 * 1024


def parse(path: str, data: bytes) -> TestFile:
    """Read one file. Faults of the file become `errors`; the rest is then empty."""
    if len(data) > MAX_BYTES:
        size, limit = len(data) / 1e6, MAX_BYTES / 1e6
        return unreadable(
            path, f"the file has {size:.0f} MB; test files up to {limit:.0f} MB are read"
        )
    decoded = decode(data)
    if decoded.text is None:
        return TestFile(path, errors=decoded.errors, suppressions=suppressions_of(path, data))
    tree = _tree(decoded.text)
    if isinstance(tree, ParseError):
        comments = find_suppressions(decoded.text)
        return TestFile(path, errors=(*decoded.errors, tree), suppressions=comments)
    return _read(path, decoded.text, tree, decoded.errors)


def tree_of_bytes(data: bytes) -> tuple[str, ast.Module] | None:
    """The text and the syntax tree; None where there is none."""
    text = decode(data).text if len(data) <= MAX_BYTES else None
    tree = _tree(text) if text is not None else None
    return (text, tree) if text is not None and isinstance(tree, ast.Module) else None


def _tree(text: str) -> ast.Module | ParseError:
    """The syntax tree; Python's own message and position where there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape is not our business
            return ast.parse(text)
    except SyntaxError as error:
        return ParseError("syntax", f"{error.msg} ({_python()})", _error_span(error))
    except ValueError as error:  # a number with too many digits, a lone surrogate
        return ParseError("syntax", f"{error} ({_python()})", at(1))
    except (RecursionError, MemoryError):
        return ParseError("syntax", f"nested too deeply for the parser ({_python()})", at(1))


def _python() -> str:
    return f"Python {sys.version_info.major}.{sys.version_info.minor}"


def _error_span(error: SyntaxError) -> Span:
    line, column = error.lineno or 1, max(error.offset or 1, 1)
    if not error.end_lineno or not error.end_offset or error.end_offset < 1:
        return at(line, column)
    return Span(line, column, max(line, error.end_lineno), error.end_offset)


def _read(path: str, text: str, tree: ast.Module, errors: tuple[ParseError, ...]) -> TestFile:
    module = Module(text, tree)
    tests = find_tests(module)
    last = tests[-1] if tests else None
    own = find_own(tests)
    mains = find_mains(module)
    unittest = any(block.runner == "unittest" for block in mains)
    by_unittest = unittest and all(block.runner == "unittest" for block in mains)
    skips = any(word in text for word in ("kip", "xfail", "__test__"))
    return TestFile(
        path,
        errors=errors,
        calls=find_calls(module),
        mains=mains,
        tests=len(tests),
        last_test=module.positions.span(last) if last is not None else None,
        last_test_name=getattr(last, "name", ""),
        own_test=module.positions.span(own[-1]) if own else None,
        early_returns=find_early_returns(module),
        suppressions=find_suppressions(text),
        import_line=import_line(tree),
        pytest_only=find_pytest_only(tests, module) if unittest else (),
        other_files=find_other_files(module) if mains else (),
        unrun=find_unrun(module, by_unittest),
        gates=find_gates(module, by_unittest) if skips else (),
        marks=find_marks(module),
    )


def parse_files(root: Path, paths: Iterable[str]) -> Iterator[Parsed]:
    """Path, key and row of each file; no key where the file cannot be read."""
    for path in paths:
        data = read(root, path)
        if isinstance(data, str):
            yield path, "", json.dumps(to_row(unreadable(path, data)))
        else:
            yield path, digest(data), json.dumps(to_row(parse(path, data)))
