"""Bytes → TestFile: encodings, positions, calls, main blocks, tests; faults as data."""

from __future__ import annotations

import ast
import json
import sys
import warnings
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from trees import CALL, IMPORT

from runci import register_cpu_ci
from runci.core.source import Span, at
from runci.read.parse import parse
from runci.read.testfile import TestFile as ParsedFile  # pytest would collect it by its name
from runci.read.testfile import from_row, to_row

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

BOM = b"\xef\xbb\xbf"


def read(text: str | bytes) -> ParsedFile:
    data = text if isinstance(text, bytes) else text.encode()
    file = parse("test/x.py", data)
    row = json.loads(json.dumps(to_row(file)))
    assert from_row("test/x.py", row) == file
    return file


def errors(text: str | bytes) -> list[tuple[str, int, int]]:
    return [(error.kind, error.span.line, error.span.column) for error in read(text).errors]


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"", []),
        (b"\n\x0c\n", []),
        (BOM + b"x = 1\n", [("bom", 1, 1)]),
        (BOM, [("bom", 1, 1)]),
        (BOM + BOM + b"x = 1\n", [("bom", 1, 1), ("syntax", 1, 1)]),
        (BOM + b"# coding: latin-1\n", [("bom", 1, 1), ("encoding", 1, 1)]),
        (b"\xff\xfex\0", [("encoding", 1, 1)]),
        (b"\xfe\xff\0x", [("encoding", 1, 1)]),
        (b"x = 1\r\ny = '\0'\n", [("encoding", 2, 6)]),
        (b"x = 1\ry = '\0'\n", [("encoding", 2, 6)]),
        (b"x = 1\n# \xc3\xa9 \xe9\n", [("encoding", 2, 5)]),
        (b"# coding: latin-1\nx = '\xe9'\n", []),
        (b"#!/bin/x\n# -*- coding: cp1252 -*-\nx = '\x80'\n", []),
        (b"\n\n# coding: klingon\n", []),
        (b"# coding: klingon\n", [("encoding", 1, 1)]),
        (b"# coding: rot13\nk = 1\n", [("encoding", 1, 1)]),
        (b"# coding: zlib\nk = 1\n", [("encoding", 1, 1)]),
        (b"# coding: undefined\nk = 1\n", [("encoding", 1, 1)]),
        (b"# coding: idna\nk = '\xe9'\n", [("encoding", 2, 6)]),
        (b"# coding: utf-16\nk = 1\n", [("encoding", 2, 6)]),
        (b"x = (\n", [("syntax", 1, 5)]),
        (b"def f():\n\tx\n        y\n", [("syntax", 3, 10)]),
        (b"a\nb c\n", [("syntax", 2, 1)]),
        ("'é' = 1\n".encode(), [("syntax", 1, 1)]),
        (b"x = 08\n", [("syntax", 1, 5)]),
        (b"x = " + b"9" * 5000 + b"\n", [("syntax", 1, 5)]),
        (b"(" * 100_000, [("syntax", 1, 200)]),
        (b"x = " + b"(" * 150 + b"1" + b")" * 150 + b"\n", []),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_faults_are_data(data: bytes, wanted: list[tuple[str, int, int]]) -> None:
    found = errors(data)
    assert [kind for kind, _, _ in found] == [kind for kind, _, _ in wanted]
    if "syntax" not in {kind for kind, _, _ in wanted}:  # Python's own position differs by version
        assert found == wanted


def test_a_syntax_error_has_pythons_message_and_position() -> None:
    text = IMPORT + "def test(:\n    pass\n"
    (error,) = read(text).errors
    with pytest.raises(SyntaxError) as caught:
        ast.parse(text)
    assert error.message.startswith(caught.value.msg or "")
    assert f"Python {sys.version_info.major}.{sys.version_info.minor}" in error.message
    assert (error.span.line, error.span.column) == (caught.value.lineno, caught.value.offset)


def test_a_large_file_is_not_read() -> None:
    (error,) = parse("x", b"x" * 50_000_000).errors
    assert error.kind == "unreadable"
    assert "50 MB" in error.message


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "+".join(["1"] * 3000),
        "if a:\n    pass\n" + "elif a:\n    pass\n" * 900,
        "if torch.cuda.is_available():\n    pass\n"
        + "elif f():\n    pass\n" * 900
        + "test = type(1)",
        "x" + ".a" * 3000,
        "x" + "()" * 900,
        "x = " + "[" * 90 + "]" * 90,
        IMPORT + "register_cpu_ci(est_time=" + "-" * 900 + "1)",
        IMPORT + "register_cpu_ci(est_time=" + "+".join(["1"] * 900) + ")",
        "def test_x():\n    if not cuda_is_available" + "()" * 500 + ":\n        return",
        "if __name__ == '__main__':\n    " + "not " * 900 + "pytest.main()",
        "if " + "not " * 900 + "(__name__ == '__main__'):\n    pass",
    ],
    ids=lambda text: text[:20] + text[-10:],
)
def test_deep_nesting_never_raises(text: str) -> None:
    file = read(text)
    try:
        ast.parse(text)
    except (RecursionError, MemoryError):
        assert file.errors  # what Python cannot read is said
    else:
        assert file.errors == ()


def test_no_warning_escapes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read('x = "\\d"; y = 1is 1\n').errors == ()


# What stands before the call, and the line and column (in characters) of the call.
PLACES = [
    ("", 1, 1),
    ("\n\n", 3, 1),
    ("\r\n\r\n", 3, 1),
    ("\r\r", 3, 1),
    ("\n\r", 3, 1),
    ("\x0c\n", 2, 1),
    ("x = 1; ", 1, 8),
    ("x = 'éé'; ", 1, 11),
    ("x = '\U0001f40d'; ", 1, 10),
    ("# \u2028 \x85 \x1c\n", 2, 1),
    ("'''\n\u2028é\n''' ; ", 3, 7),
    ("x = 1 + \\\n    2\n", 3, 1),
]


@pytest.mark.parametrize(("before", "line", "column"), PLACES, ids=lambda value: repr(value)[:20])
def test_positions_count_characters(before: str, line: int, column: int) -> None:
    text = before + CALL.strip()
    (call,) = read(text).calls
    end = column + len(CALL.strip())
    assert call.span == Span(line, column, line, end)
    assert call.function_span == Span(line, column, line, column + len("register_cpu_ci"))
    est_time = call.arguments[0]
    start = column + len("register_cpu_ci(")
    assert est_time.span == Span(line, start, line, start + len("est_time=5"))
    assert est_time.value_span == Span(
        line, start + len("est_time="), line, start + len("est_time=5")
    )


def test_positions_of_arguments_over_lines() -> None:
    (call,) = read("register_cpu_ci(\n    20,\n    suite=(\n        'é'\n    ),\n)\n").calls
    assert [a.name for a in call.arguments] == ["est_time", "suite"]
    assert call.arguments[0].span == Span(2, 5, 2, 7)
    assert call.arguments[1].value_span == Span(4, 9, 4, 12)
    assert call.span == Span(1, 1, 6, 2)


def test_readable_apart_from_a_bom() -> None:
    assert read(BOM + CALL.encode()).readable
    assert len(read(BOM + CALL.encode()).calls) == 1
    assert not read("x = (").readable
    assert at(1) == Span(1, 1, 1, 1)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
