"""Errors of NVIDIA's driver (Xid) in the kernel log, where this user may read it."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterable

LOG = "/dev/kmsg"
_RECORD = 8192  # bytes of one record, at most
# «6,1234,56789,-;NVRM: Xid (PCI:0000:65:00): 79, pid=4711, GPU has fallen off the bus.»
_XID = re.compile(
    r"\d+,\d+,\d+,[^;]*;NVRM: Xid \(PCI:(?P<bus>[0-9A-Fa-f:]+)(?:\.\d)?\): (?P<xid>\d+)\b"
)


def xids_of(records: Iterable[str]) -> list[tuple[str, int]]:
    """The bus and the number of each error; pure. Only lines that the driver begins itself."""
    matches = filter(None, map(_XID.match, records))
    return [(bus_of(match["bus"]), int(match["xid"])) for match in matches]


def bus_of(text: str) -> str:
    """«0000:65:00» of «00000000:65:00.0», as the driver's library and the kernel write it."""
    domain, bus, device = text.lower().partition(".")[0].split(":")
    return f"{int(domain, 16):04x}:{bus}:{device}"


class KernelLog:
    """What comes after this was made."""

    def __init__(self) -> None:
        self._log: int | None = None
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                self._log = os.open(LOG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                os.lseek(self._log, 0, os.SEEK_END)

    def records(self) -> list[str]:
        """The records since the last call."""
        found: list[str] = []
        while self._log is not None and (record := self._read(self._log)) is not None:
            found.append(record)
        return found

    def _read(self, log: int) -> str | None:
        try:
            return os.read(log, _RECORD).decode("utf-8", "replace")
        except BrokenPipeError:  # older ones were overwritten; the next read goes on
            return ""
        except OSError:
            return None
