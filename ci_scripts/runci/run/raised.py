"""What an exception says of itself, read in the process that it ended a test in.

Types, numbers and places, not the text that a traceback shows: any test can print that. Only
strings are kept, since a frame holds the GPU's memory.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from itertools import dropwhile, takewhile
from types import FrameType, TracebackType
from typing import Any
from urllib.parse import urlsplit

from runci.run.events import short
from runci.run.model import Raised

DEEPEST = 8  # causes of causes
_PYTEST = ("_pytest", "pytest", "pluggy")
_NO_SPACE = (28, 122)  # ENOSPC, EDQUOT
# Functions of the standard library, and of urllib3, that connect: the names there say where to.
_LOOPBACK = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")
_CONNECTS = ("socket", "urllib3.util.connection", "asyncio.base_events")


def chain(error: BaseException | None) -> list[dict[str, Any]]:
    """An exception and what it was raised from, ready for an event; never raises.

    What was merely being handled when another one came (`__context__`) is no cause of it.
    """
    found: list[dict[str, Any]] = []
    seen: set[int] = set()
    with contextlib.suppress(Exception):  # properties of others' classes do as they like
        while error is not None and id(error) not in seen and len(found) < DEEPEST:
            seen.add(id(error))
            found.append(asdict(_read(error)))
            if _is(error, "torch.multiprocessing.spawn.ProcessRaisedException"):
                found += [asdict(one) for one in _of_process(str(error))]
            error = _cause(error)
    return found


def is_ours(error: BaseException) -> bool:
    """Whether our own code raised it around the tests, and no plugin or conftest.py that pytest
    had called."""
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in _frames(error.__traceback__)]
    below = takewhile(lambda name: not name.startswith("runci."), reversed(modules))
    return not any(name.partition(".")[0] in _PYTEST for name in below)


def _of_process(told: str) -> list[Raised]:
    """What ended another process, of which torch hands on the traceback's text alone: its last
    exception, which stands behind the last frame and is not indented."""
    _, frame, rest = told.rpartition('\n  File "')
    lines = list(dropwhile(lambda line: line.startswith(" "), rest.split("\n")[1:]))
    kind, colon, message = "\n".join(lines).strip().partition(": ")
    named = frame and kind.replace(".", "").isidentifier()
    return [Raised((kind,), short(message) if colon else "")] if named else []


def _cause(error: BaseException) -> BaseException | None:
    if error.__cause__ is not None:
        return error.__cause__
    if _is(error, "urllib.error.URLError"):
        reason = getattr(error, "reason", None)
        return reason if isinstance(reason, BaseException) else None
    of_group = getattr(error, "exceptions", None)
    if isinstance(of_group, tuple) and len(of_group) == 1 and _is(error, "BaseExceptionGroup"):
        return of_group[0] if isinstance(of_group[0], BaseException) else None
    return None


def _read(error: BaseException) -> Raised:
    frames = list(_frames(error.__traceback__))
    peer, address = _peer(error, frames)
    number = getattr(error, "errno", None)
    message = str(error)
    if number in _NO_SPACE:
        message += _free(getattr(error, "filename", None))
    return Raised(
        tuple(_names(error)),
        short(message),
        _place(frames),
        number if isinstance(number, int) else None,
        peer,
        bool(peer) and is_here(address),
        _code(error),
    )


def _names(error: BaseException) -> Iterator[str]:
    for kind in type(error).__mro__[:-1]:
        module = kind.__module__
        yield kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def _is(error: BaseException, name: str) -> bool:
    return name in _names(error)


def _frames(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


def _place(frames: list[tuple[FrameType, int]]) -> str:
    """The last line of the project's own that it came through, else the last of all."""
    if not frames:
        return ""
    top = f"{os.getcwd()}/"  # noqa: PTH109
    places = [(frame.f_code.co_filename, line) for frame, line in frames]
    own = [one for one in places if one[0].startswith(top) and "/site-packages/" not in one[0]]
    path, line = (own or places)[-1]
    return f"{path.removeprefix(top)}:{line}"


def _code(error: BaseException) -> int | None:
    """CUDA's number of an error, or the status of an HTTP answer."""
    if _is(error, "torch.AcceleratorError"):
        code = getattr(error, "error_code", None)
    elif _is(error, "urllib.error.HTTPError"):
        code = getattr(error, "code", None)
    else:
        code = getattr(getattr(error, "response", None), "status_code", None)
    return code if isinstance(code, int) else None


def _free(path: object) -> str:
    """How much room there is where a file could not be written, for a person."""
    place = os.path.dirname(path) if isinstance(path, str) else tempfile.gettempdir()  # noqa: PTH120
    with contextlib.suppress(OSError):
        return f" ({shutil.disk_usage(place or '.').free / (1 << 20):,.0f} MiB free in {place})"
    return ""


def _peer(error: BaseException, frames: list[tuple[FrameType, int]]) -> tuple[str, str]:
    """Whom a connection was to, for a person, and that one's address; "" where nobody says."""
    url = getattr(getattr(error, "request", None), "url", None) or getattr(error, "url", None)
    with contextlib.suppress(ValueError):
        if url and (host := urlsplit(str(url)).hostname):
            return host, host
    if _is(error, "aiohttp.client_exceptions.ClientConnectorError"):
        host = str(getattr(error, "host", ""))
        return host, host
    for frame, _ in reversed(frames):
        module, name = str(frame.f_globals.get("__name__")), frame.f_code.co_name
        if module in _CONNECTS and name == "create_connection":
            known = frame.f_locals
            host, port = known.get("address") or (known.get("host"), known.get("port"))
            tried = known.get("sa")
            return f"{host}:{port}", str(tried[0] if isinstance(tried, tuple) else host)
        if (module, name) == ("socket", "getaddrinfo"):
            host = frame.f_locals.get("host")
            return str(host), str(host)
        if module in ("http.client", "urllib3.connection"):
            own = frame.f_locals.get("self")
            host, port = getattr(own, "host", None), getattr(own, "port", None)
            if isinstance(host, str):
                return f"{host}:{port}", host
    return "", ""


def is_here(host: str) -> bool:
    """Whether an address, or a name, is this machine's own."""
    name = host.lower().rstrip(".")
    own = socket.gethostname().lower().partition(".")[0]
    # With its domain or without: nobody asks a resolver, which may be what fails.
    if name in _LOOPBACK or name == own or name.startswith(f"{own}."):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    if address.is_loopback or address.is_unspecified:
        return True
    kind = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with contextlib.suppress(OSError), socket.socket(kind, socket.SOCK_DGRAM) as probe:
        probe.connect((str(address), 9))  # sends nothing; says which own address it would use
        return bool(probe.getsockname()[0] == str(address))
    return False
