"""The machine that a CPU suite runs on."""

from __future__ import annotations

import os
import platform

from runci.reading import processors


def threads(slots: int) -> dict[str, str]:
    """Several files at once share the processors: a library may not take them all in each."""
    if slots < 2 or "OMP_NUM_THREADS" in os.environ:
        return {}
    return {"OMP_NUM_THREADS": str(max(processors() // slots, 1))}


def cpu() -> str:
    """For results: where a file ran."""
    return f"{platform.machine()}, {processors()} processors"
