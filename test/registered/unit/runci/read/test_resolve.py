"""What a condition in a file stands for, once its names are written out."""

from __future__ import annotations

import ast
import sys

import pytest

from runci import register_cpu_ci
from runci.read.module import Module
from runci.read.resolve import Scope

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

SPEC = "importlib.util.find_spec('x')"
CUDA = "torch.cuda.is_available()"
GET = "torch.cuda.get_device_capability()"
TRY = "try:\n    import x\n"
MISSING = "except ImportError:\n    H = 0"
# A file, an expression in it, and what that stands for; `_` is unknown.
CASES = [
    # Names imported.
    ("import torch", CUDA, CUDA),
    ("import torch.cuda", CUDA, CUDA),
    ("import torch as t", "t.cuda.is_available()", CUDA),
    ("from torch import cuda as c", "c.is_available()", CUDA),
    ("from torch.version import hip", "hip is None", "torch.version.hip is None"),
    ("from .machine import is_hip", "is_hip()", "machine.is_hip()"),
    ("if a:\n    import torch", CUDA, CUDA),
    ("", CUDA, "_.cuda.is_available()"),
    ("import torch\ntorch = fake()", CUDA, "_.cuda.is_available()"),
    # Names assigned.
    (f"import torch\nC = {GET}", "C >= (9, 0)", f"{GET} >= (9, 0)"),
    (f"import torch\nA, B = {GET}", "A * 10 + B", f"{GET}[0] * 10 + {GET}[1]"),
    ("A, B = 1, 2", "A + B", "1 + 2"),
    ("A: int = 1", "A", "1"),
    ("A = 1\nB = A", "B", "1"),
    ("A = 1\nA = 2", "A", "_"),
    ("A = 1\nA += 1", "A", "_"),
    ("A = 1\nfor A in x: pass", "A", "_"),
    ("A = 1\ndef f():\n    global A", "A", "_"),
    ("A = B\nB = A", "A", "_"),
    ("len = 5", "len", "5"),
    ("def len(x): return 5", "len(1)", "5"),
    # Helper functions.
    ("def f(): return 1", "f()", "1"),
    ("def f(a, b=2): return a + b", "f(1)", "1 + 2"),
    ("def f(a, b=2): return a + b", "f(b=3, a=1)", "1 + 3"),
    ("def f(a): return a", "f()", "_"),
    ("def f(*a): return a", "f(1)", "f(1)"),
    ("def f(a):\n    if a: return 1\n    return 2", "f(x)", "1 if _ else 2"),
    ("def f():\n    'D.'\n    a = 1\n    return a", "f()", "1"),
    ("def f():\n    import torch\n    return torch.version.hip", "f()", "torch.version.hip"),
    ("def f():\n    print(1)\n    return 1", "f()", "f()"),
    ("import functools\n@functools.cache\ndef f(): return 1", "f()", "1"),
    ("@other\ndef f(): return 1", "f()", "f()"),
    ("def f(): return f()", "f()", "f()"),
    ("def f(): pass", "f()", "None"),
    # A `try` has the value of its body, where that has one without raising.
    ("def f():\n    try: return int(1)\n    except E: return 0", "f()", "int(1)"),
    ("def f():\n    try:\n        a = g()\n        return 1\n    except E: return 0", "f()", "f()"),
    # Packages that may be missing.
    (f"{TRY}    H = 1\n{MISSING}", "H", f"1 if {SPEC} else 0"),
    (f"{TRY}{MISSING}\nelse:\n    H = 1", "H", f"1 if {SPEC} else 0"),
    (f"H = 0\n{TRY}    H = 1\nexcept Exception: pass", "H", f"1 if {SPEC} else 0"),
    (f"{TRY}except ImportError:\n    x = None", "x is None", f"(_ if {SPEC} else None) is None"),
    (
        "try:\n    from x.y import z\nexcept (A, ModuleNotFoundError):\n    z = None",
        "z",
        f"_ if {SPEC} else None",
    ),
    (
        "try:\n    import os, w.v\n    import x\n    H = 1\nexcept:\n    H = 0",
        "H",
        f"1 if importlib.util.find_spec('w') and {SPEC} else 0",
    ),
    (f"try:\n    from . import x\n    H = 1\n{MISSING}", "H", "1 if _ else 0"),
    (f"{TRY}    H = 1\n{MISSING}\nH = 2", "H", "_"),
    (f"{TRY}    H = 1\nexcept ValueError:\n    H = 0", "H", "_"),
    (f"try:\n    import os\n    H = 1\n{MISSING}", "H", "_"),
    (
        "def f():\n    try:\n        import x\n        return 1\n    except ImportError: return 0",
        "f()",
        f"1 if {SPEC} else 0",
    ),
    (
        "def f():\n    try: import x\n    except ImportError: return 0\n    return 1",
        "f()",
        f"1 if {SPEC} else 0",
    ),
    # What is no formula.
    ("", "lambda: 1", "_"),
    ("", "[a for a in b]", "_"),
    ("", "f'{a}'", "_"),
]


def resolved(file: str, expression: str) -> str:
    scope = Scope(Module(file, ast.parse(file)))
    return ast.unparse(scope.written_out(ast.parse(expression, mode="eval").body))


@pytest.mark.parametrize(("file", "expression", "expected"), CASES)
def test_written_out(file: str, expression: str, expected: str) -> None:
    assert resolved(file, expression) == expected


def chain(first: str, step: str) -> str:
    return first + "".join(step.format(n, n - 1) for n in range(1, 41))


@pytest.mark.parametrize(
    ("file", "expression"),
    [
        (chain("A0 = 1\n", "A{0} = A{1} + A{1}\n"), "A40"),
        (chain("A0 = 1\n", "A{0} = A{1}\n"), "A40"),
        (chain("def f0(): pass\n", "def f{0}(): return f{1}()\n"), "f40()"),
        (f"{TRY}    H = 1\nexcept ImportError:\n    H = (H, H, H, H)", "H"),
    ],
)
def test_ends(file: str, expression: str) -> None:
    assert len(resolved(file, expression)) < 20_000


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
