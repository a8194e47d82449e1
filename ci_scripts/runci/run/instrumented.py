"""In the process that compute-sanitizer watches: what ties the tool's log to the tests."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Callable
from pathlib import Path

_SETTLE = 0.02  # seconds for the tool to write what the GPU told it


def length_of(log: str) -> Callable[[], int]:
    """What gives the bytes of the tool's log, after what the GPU still does is done.

    Only so is what the tool finds in a test printed before the test ends.
    """
    file = Path(log)

    def length() -> int:
        if _wait_for_gpu():
            time.sleep(_SETTLE)
        with contextlib.suppress(OSError):
            return file.stat().st_size
        return 0

    return length


def _wait_for_gpu() -> bool:
    """Whether this process has CUDA's driver; it is not loaded for that."""
    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD)
    except OSError:
        return False
    driver.cuCtxSynchronize()  # what fails in it is for the tests
    return True


def own_descriptor(number: int, holder: int) -> int:
    """A descriptor that the process `holder` has: as it came through the tool, else opened again.

    A tool may close what it does not know.
    """
    theirs = f"/proc/{holder}/fd/{number}"
    with contextlib.suppress(OSError):
        if os.path.samestat(os.stat(theirs), os.fstat(number)):  # noqa: PTH116
            return number
    return os.open(theirs, os.O_WRONLY)
