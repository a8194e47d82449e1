"""The mark on an issue's first line: which topic it is about, and what it remembers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

import msgspec

from runci.perf.notify.model import Issue, Memory, Stage

_MARK = re.compile(r"<!-- runci:perf-issue ([0-9a-f]{16}) (.*)-->")


def key_of(*parts: str) -> str:
    """A topic's key. A series has its digest instead."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def mark(memory: Memory) -> str:
    """The line; nothing in it can end the comment."""
    data = msgspec.json.encode(memory, order="sorted").decode()
    return f"<!-- runci:perf-issue {memory.key} {data.replace('>', chr(92) + 'u003e')} -->"


def read_issue(number: int, body: str, *, is_open: bool) -> Issue | None:
    """An issue that our account wrote; None without our mark on the first line.

    Whoever may edit the issue can spoil the rest of the line; then it remembers only its topic.
    """
    text = re.sub(r"\r\n?", "\n", body).strip()
    found = _MARK.fullmatch(text.partition("\n")[0].strip())
    if found is None:
        return None
    try:
        memory = msgspec.json.decode(found[2], type=Memory)
    except (msgspec.DecodeError, RecursionError):
        memory = Memory("", Stage.OPEN)
    if memory.key != found[1]:
        memory = Memory(found[1], Stage.OPEN if is_open else Stage.OVER)
    return Issue(number, is_open, text, memory)


def short_digests(names: Iterable[str]) -> tuple[str, ...]:
    """What `Memory.members` keeps of names, sorted."""
    return tuple(sorted({hashlib.sha256(name.encode()).hexdigest()[:12] for name in names}))
