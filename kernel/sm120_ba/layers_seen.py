"""What the layers of a server do with the kernel: said once a size, and counted in a file.

A captured graph never enters Python again, so what counts there is each call while a graph is
captured: a site, which every replay of the graph runs.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from sm120_ba import config
from sm120_ba.config import Mode
from sm120_ba.dispatch import DEFAULT, Dispatcher
from sm120_ba.linear_method import why_never
from sm120_ba.shapes import ALLOWLIST, BY_SIZE, WHOLE

logger = logging.getLogger(__name__)

FOLDER = "SM120_BA_STATS_DIR"
VERSION = 3  # 2: the mode and what was proved; 3: the number of ranks
DELAY = 1.0  # seconds from a count to the file


def is_capturing() -> bool:
    """Whether the current stream records a CUDA graph."""
    return bool(torch.cuda.is_available() and torch.cuda.is_current_stream_capturing())


class LayersSeen:
    """Says once for each size whether such layers take the kernel, and counts their calls.

    With a `folder` it keeps one JSON file there for this process, `document()`, written within a
    second of a count and at exit. Methods may be called from any thread.
    """

    def __init__(
        self,
        folder: Path | None = None,
        mode: Mode = Mode.ALLOWLIST,
        dispatcher: Dispatcher = DEFAULT,
        capturing: Callable[[], bool] = is_capturing,
    ) -> None:
        self._folder = folder
        self._mode = mode
        coverage = WHOLE if mode is Mode.PROVED else ALLOWLIST
        self._shapes = tuple(coverage.by_size.values())
        self._dispatcher = dispatcher
        self._capturing = capturing
        self._layers: dict[str, dict[str, Any]] = {}
        self._calls: Counter[tuple[str, bool, int, bool]] = Counter()
        self._why: dict[tuple[str, bool, int], str] = {}
        self._said: set[Any] = set()
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None

    def see(
        self, name: str, weight: torch.Tensor, bias: torch.Tensor | None, *, warm: bool = False
    ) -> bool:
        """Note a layer, and whether it fits; the first of a size says it in the log.

        With `warm` it is warmed up for that size first, which is for after the weights are loaded.
        """
        reason = why_never(weight, bias, self._shapes)
        if reason is None and weight.dtype is not torch.bfloat16:
            reason = f"its weight is {weight.dtype}, not bfloat16"
        size = tuple(weight.shape)
        kind = {"size": list(size), "dtype": str(weight.dtype), "why_never": reason}
        with self._lock:
            self._layers[name] = kind
            if not self._first((size, reason)):
                return reason is None
        sizes = " x ".join(map(str, size))
        logger.info(
            "sm120_ba: layers of %s %s (the first is %s)",
            sizes,
            self._what_becomes(weight, warm) if reason is None else f"run as before: {reason}",
            name,
        )
        return reason is None

    def _what_becomes(self, weight: torch.Tensor, warm: bool) -> str:
        """Warm up for a size that fits, where that is asked for, and say what came of it."""
        rows = _rows(weight)
        text = f"take the kernel at {rows[0]} to {rows[-1]} tokens"
        if not warm:
            return f"{text}, where it was proved"
        size = tuple(weight.shape)
        reason = self._dispatcher.warmup(weight.device, shapes=[size], mode=self._mode)
        return text if reason is None else f"{text}, not at all: {reason.name}: {reason.sentence}"

    def count(
        self, name: str, x: Any, weight: torch.Tensor, bias: torch.Tensor | None, fast: bool
    ) -> None:
        """Count one call of a layer, by the rows of x; a fallback that surprises is said once."""
        if name not in self._layers:
            self.see(name, weight, bias)
        if type(x) is not torch.Tensor or x.dim() != 2:
            return
        captured = self._folder is not None and self._capturing()
        key = name, captured, x.shape[0]
        if not fast and key not in self._why:
            self._explain(key, x, weight, bias)
        if self._folder is not None:
            with self._lock:
                self._calls[name, captured, x.shape[0], fast] += 1
                self._write_soon()

    def document(self) -> dict[str, Any]:
        """The decision, what was proved, and each layer with its calls by rows, ready for JSON.

        `kernel` and `before` count calls of the kernel and of what ran before; `why` is the reason
        of the first of those.
        """
        decision = config.current()
        with self._lock:
            layers = {name: {**kind, "calls": []} for name, kind in self._layers.items()}
            calls, why = dict(self._calls), dict(self._why)
        for key in sorted({key[:3] for key in calls}):
            name, captured, rows = key
            counts = {"kernel": calls.get((*key, True), 0), "before": calls.get((*key, False), 0)}
            one = {"rows": rows, "captured": captured, **counts, "why": why.get(key)}
            layers[name]["calls"].append(one)
        return {
            "version": VERSION,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "rank": rank(),
            "ranks": ranks(),
            "enabled": decision.enabled,
            "reason": decision.reason,
            "mode": self._mode.value,
            "proofs": self._dispatcher.proof()["proofs"],
            "layers": layers,
        }

    def write(self) -> None:
        """Write the file of this process, whole or not at all; where that fails, once, say so."""
        with self._lock:
            self._stop_timer()
            if self._folder is None:
                return
            document = self.document()
            path = self._folder / f"sm120_ba-{document['host']}-{document['pid']}.json"
            part = path.with_suffix(".part")
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                part.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
                part.replace(path)
            except OSError as error:
                self._folder = None
                logger.warning("sm120_ba: no counts, %s=%s: %s", FOLDER, path.parent, error)

    def close(self) -> None:
        """Write nothing any more."""
        with self._lock:
            self._folder = None
            self._stop_timer()

    def _explain(
        self,
        key: tuple[str, bool, int],
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
    ) -> None:
        """Keep why a call ran as before; say it where the layer and its rows suit the kernel."""
        reason = self._dispatcher.why_not(x, weight, bias)
        name, _, rows = key
        with self._lock:
            self._why[key] = "" if reason is None else reason.name
            suits = self._layers[name]["why_never"] is None and rows in _rows(weight)
            if reason is None or not suits or not self._first((tuple(weight.shape), reason)):
                return
        text = "sm120_ba: %s ran as before at %d tokens: %s: %s"
        logger.warning(text, name, rows, reason.name, reason.sentence)

    def _first(self, key: object) -> bool:
        """Whether `key` is new; the lock is held."""
        if key in self._said:
            return False
        self._said.add(key)
        return True

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _write_soon(self) -> None:
        # After a fork there is a timer, and no thread behind it.
        if self._timer is None or not self._timer.is_alive():
            self._timer = threading.Timer(DELAY, self.write)
            self._timer.daemon = True
            self._timer.start()


_current = LayersSeen()


def current() -> LayersSeen:
    """What this process has seen since the last `start`."""
    return _current


def start(environ: Mapping[str, str] | None = None) -> LayersSeen:
    """Say what was decided; see and count anew, in the folder that SM120_BA_STATS_DIR names."""
    global _current  # noqa: PLW0603 (the one place that holds it)
    folder = (os.environ if environ is None else environ).get(FOLDER)
    _current.close()
    _current = LayersSeen(Path(folder) if folder else None, config.current().mode)
    _current.write()
    decision = config.current()
    if decision.enabled:
        logger.info(
            "sm120_ba: looking for layers named in_proj_ba with a BF16 weight of %s; the first of "
            "each size says whether it takes the kernel (%s)",
            "48 x 5120" if decision.mode is Mode.ALLOWLIST else "a size of its table",
            decision.reason,
        )
    else:
        logger.info("sm120_ba: not enabled for any layer: %s", decision.reason)
    return _current


@atexit.register
def _write_at_exit() -> None:
    _current.write()


def _rows(weight: torch.Tensor) -> range:
    """The numbers of tokens that the kernel is for, with a weight of a size that it has."""
    n, k = weight.shape
    return BY_SIZE[n, k].rows


def rank() -> int | None:
    """This process's rank, None where torch.distributed is not in use."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        found: int = distributed.get_rank()
        return found
    return None


def ranks() -> int | None:
    """How many ranks there are, None where torch.distributed is not in use."""
    return None if rank() is None else torch.distributed.get_world_size()
