"""What a boot leaves on disk: every request as it ended, and how the boot itself went."""

from __future__ import annotations

from pathlib import Path

import msgspec

from sm120_ba.validate.report import write_text

REQUESTS, BOOT, LOG = "requests.jsonl", "boot.json", "server.log"
WARM_UP = 0  # in place of a concurrency


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One request. `admitted_s` and `ended_s` count from the start of its group.

    `ttft_s` and the seconds of `chunks`, each with the tokens until then, count from its admission
    by the concurrency limit; `ttft_s` ends with the first token, or with the first text where a
    server counts tokens at the end only. None is what the server did not say.
    """

    concurrency: int
    index: int
    prompt: int
    admitted_s: float
    ended_s: float
    ttft_s: float | None
    chunks: tuple[tuple[float, int], ...]
    tokens: int
    ids: tuple[int, ...] | None
    prompt_tokens: int | None
    cached_tokens: int | None
    error: str | None = None


class Running(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The most requests that the server said to run at once in a group, in so many samples."""

    peak: int
    samples: int


class Boot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One server from start to end; `killed` are its processes that outlived SIGTERM."""

    name: str
    started: str
    healthy_after_s: float | None = None
    failures: tuple[str, ...] = ()
    killed: tuple[str, ...] = ()
    running: dict[int, Running] = {}


def finished(folder: Path) -> bool:
    """Whether the boot of that folder came to its end, well or not."""
    return (folder / BOOT).is_file()


def write_boot(folder: Path, boot: Boot) -> None:
    """Say that the boot is finished."""
    write_text(folder / BOOT, msgspec.json.encode(boot).decode() + "\n")


def read_boot(folder: Path) -> tuple[Boot, tuple[Request, ...]]:
    """A finished boot. Raises msgspec.DecodeError for a file that somebody broke."""
    boot = msgspec.json.decode((folder / BOOT).read_bytes(), type=Boot)
    path = folder / REQUESTS
    lines = path.read_bytes().splitlines() if path.exists() else []
    return boot, tuple(msgspec.json.decode(line, type=Request) for line in lines)
