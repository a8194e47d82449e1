"""What a child prints, in bounded memory: its beginning and its end."""

from __future__ import annotations

from collections import deque

HEAD = 1 << 20
TAIL = 4 << 20


class Output:
    """Keeps the first `head` and the last `tail` bytes of a stream, and counts what is between."""

    def __init__(self, head: int = HEAD, tail: int = TAIL) -> None:
        self._room, self._limit = head, tail
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._kept = 0
        self.total = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        self.total += len(data)
        if len(self._head) < self._room:
            taken = self._room - len(self._head)
            self._head += data[:taken]
            data = data[taken:]
        if not data:
            return
        self._tail.append(data)
        self._kept += len(data)
        while self._kept - len(self._tail[0]) >= self._limit:
            self._kept -= len(self._tail.popleft())

    @property
    def left_out(self) -> int:
        """Bytes that were not kept."""
        return self.total - len(self._head) - min(self._kept, self._limit)

    def content(self) -> bytes:
        """All that was kept, with a line that says how much was not."""
        tail = b"".join(self._tail)[-self._limit :] if self._tail else b""
        if not self.left_out:
            return bytes(self._head) + tail
        gap = f"\n[runci: {self.left_out:,} bytes are left out here]\n".encode()
        return bytes(self._head) + gap + tail


def last_lines(content: bytes, count: int) -> list[str]:
    """The last lines as text; bytes that are no UTF-8 are escaped."""
    lines = content[-200 * 1024 :].decode("utf-8", "backslashreplace").splitlines()
    return lines[-count:]
