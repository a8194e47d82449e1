"""Takes the candidate off the search path of the baseline's interpreter.

An editable install puts the candidate's packages before every interpreter, in whatever folder it
runs. `measure` copies this file to where the baseline's Python finds it as its `sitecustomize`, so
that it runs before the benchmark. It needs the standard library only, and no runci.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing is slow to load, and each Python of the baseline would
if TYPE_CHECKING:
    from typing import Any

CANDIDATE = "RUNCI_MEASURE_CANDIDATE"  # its root; what lies below is not the baseline's
BASELINE = "RUNCI_MEASURE_BASELINE"  # the baseline's own tree


def is_inside(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or lies below it, links followed."""
    real, top = os.path.realpath(path), os.path.realpath(folder)
    return real == top or real.startswith(top.rstrip(os.sep) + os.sep)


def is_candidates(path: str, root: str, own: str | None = None) -> bool:
    """Whether `path` is the candidate's: below its root, but in no environment installed there.

    `own` is the baseline's tree, which may lie below the root, too.
    """
    if not is_inside(path, root) or (own is not None and is_inside(path, own)):
        return False
    return not any(is_inside(path, prefix) for prefix in {sys.prefix, sys.exec_prefix})


def editable() -> list[dict[str, Any]]:
    """What setuptools' finders of editable installs know: name to path, and name to paths."""
    found = []
    for name, module in list(sys.modules.items()):
        if name.startswith("__editable__"):
            tables = (getattr(module, key, None) for key in ("MAPPING", "NAMESPACES"))
            found += [table for table in tables if isinstance(table, dict)]
    return found


def folders(root: str) -> list[str]:
    """The candidate's folders on this interpreter's search path, and those of editable installs."""
    found = [path for path in sys.path if path and is_candidates(path, root)]
    for table in editable():
        paths = (path for path in table.values() if isinstance(path, str))
        found += [os.path.dirname(path) for path in paths if is_candidates(path, root)]  # noqa: PTH120
    return list(dict.fromkeys(found))


def isolate(root: str, own: str) -> None:
    """Take all of them off."""
    sys.path[:] = [path for path in sys.path if not path or not is_candidates(path, root, own)]
    for table in editable():
        for name, where in list(table.items()):
            paths = [where] if isinstance(where, str) else where
            if any(is_candidates(path, root, own) for path in paths):
                del table[name]


def _go_on() -> None:
    """Run the environment's own `sitecustomize`, whose place this file took."""
    own = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120
    sys.path[:] = [path for path in sys.path if os.path.realpath(path or ".") != own]
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        spec.loader.exec_module(module_from_spec(spec))


if __name__ == "sitecustomize":
    try:
        isolate(os.environ[CANDIDATE], os.environ[BASELINE])
    except BaseException:  # noqa: BLE001  Python would go on, and measure the candidate
        import traceback

        traceback.print_exc()
        os._exit(70)
    _go_on()
