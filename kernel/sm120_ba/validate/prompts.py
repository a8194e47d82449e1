"""Prompts as token ids: read from a file, and identified by a hash."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from pathlib import Path

from sm120_ba.validate.commands import UsageError

LARGEST = 2**32 - 1  # an unsigned 32-bit token id


def prompt_hash(prompts: Sequence[Sequence[int]]) -> str:
    """SHA-256, in hex, over all token ids in order, each as unsigned 32-bit little-endian."""
    digest = hashlib.sha256()
    for prompt in prompts:
        digest.update(struct.pack(f"<{len(prompt)}I", *prompt))
    return digest.hexdigest()


def load_prompts(path: Path) -> list[list[int]]:
    """One prompt a line, each a JSON list of token ids. Raises UsageError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}; it must be JSON lines, each a list of ids") from None
    prompts = [_prompt(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not prompts:
        raise UsageError(f"{path}: there is no prompt in it; write one list of token ids a line")
    return prompts


def _prompt(path: Path, number: int, line: str) -> list[int]:
    try:
        ids = json.loads(line)
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}:{number}: {line[:60]!r} is no JSON: {error}") from None
    if not isinstance(ids, list) or not ids:
        raise UsageError(f"{path}:{number}: {line[:60]!r} is no list of token ids, such as [1, 5]")
    for one in ids:
        if type(one) is not int or not 0 <= one <= LARGEST:
            raise UsageError(f"{path}:{number}: {one!r} is no token id, an integer from 0 on")
    return ids
