"""A folder of saved inputs: safetensors, and an index with the SHA-256 of each file.

`index.json` has the layers, whose file holds `weight` (N, K) and perhaps `bias` (N), and the
snapshots, whose files hold `x` (M, K). `batches.json`, if there, has rows of snapshots by number.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from sm120_ba import layers_seen
from sm120_ba.validate.commands import UsageError
from sm120_ba.validate.report import write_text

VERSION = 1
INDEX, BATCHES = "index.json", "batches.json"


@dataclass(frozen=True)
class Snapshot:
    """What a layer got in one call: x (rows, K). `position` numbers the layer's calls, from 0."""

    layer: str
    rows: int
    position: int
    file: str
    sha256: str


@dataclass(frozen=True)
class Saved:
    """A folder that was read: weight and bias by layer, and the snapshots with their values."""

    layers: Mapping[str, tuple[torch.Tensor, torch.Tensor | None]]
    snapshots: tuple[tuple[Snapshot, torch.Tensor], ...]
    sha256: str


@dataclass(frozen=True)
class Batch:
    """Rows (number of the snapshot, row in it) that make one input of a layer, and its SHA-256."""

    layer: str
    rows: tuple[tuple[int, int], ...]
    sha256: str


class Recorder:
    """Writes inputs of layers into a new folder, which is there, whole, after `close`.

    Nothing is written beyond `limit` bytes; `left_out` counts those calls, and the ones that a CUDA
    graph holds, of which only the capture is seen. `not_called` are those of `layers` that
    were not. Raises UsageError where the folder exists.
    """

    def __init__(
        self,
        folder: Path,
        limit: int,
        capturing: Callable[[], bool] = layers_seen.is_capturing,
        layers: Iterable[str] = (),
    ) -> None:
        if folder.exists():
            raise UsageError(f"--out {folder} exists; name a folder that does not")
        folder.parent.mkdir(parents=True, exist_ok=True)
        self.snapshots: list[Snapshot] = []
        self.not_called = sorted(layers)
        self.left_out = 0
        self.written = 0
        self._layers: dict[str, dict[str, Any]] = {}
        self._positions: dict[str, int] = {}
        self._folder, self._limit, self._capturing = folder, limit, capturing
        self._part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))

    def restart(self) -> None:
        """Number the calls of each layer from 0 again, as for another batch of prompts."""
        self._positions.clear()

    def note(
        self, layer: str, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> None:
        """Save x (..., K) as (M, K), and the layer's weight and bias the first time."""
        if layer in self.not_called:
            self.not_called.remove(layer)
        if self._capturing():
            self.left_out += 1
            return
        position = self._positions.get(layer, -1) + 1
        self._positions[layer] = position
        tensors = {"weight": weight} | ({} if bias is None else {"bias": bias})
        first = {} if layer in self._layers else tensors
        flat = x.detach().reshape(-1, x.shape[-1])
        size = sum(one.numel() * one.element_size() for one in (flat, *first.values()))
        if self.written + size > self._limit:
            self.left_out += 1
            return
        if first:
            file, sha256 = self._write(f"layer-{len(self._layers):04}", first)
            self._layers[layer] = {"file": file, "sha256": sha256}
        file, sha256 = self._write(f"{len(self.snapshots):06}", {"x": flat})
        self.snapshots.append(Snapshot(layer, len(flat), position, file, sha256))
        self.written += size

    def _write(self, name: str, tensors: Mapping[str, torch.Tensor]) -> tuple[str, str]:
        path = self._part / f"{name}.safetensors"
        save_file({key: one.detach().cpu().clone() for key, one in tensors.items()}, path)
        return path.name, hashlib.sha256(path.read_bytes()).hexdigest()

    def close(self, about: Mapping[str, Any]) -> None:
        """Write the index with what is to be known of the model, and give the folder its name."""
        document = {
            "version": VERSION,
            **about,
            "layers": self._layers,
            "snapshots": [asdict(one) for one in self.snapshots],
            "left_out": self.left_out,
        }
        write_text(self._part / INDEX, json.dumps(document, indent=1) + "\n")
        self._part.chmod(0o755)  # a temporary folder is its owner's alone
        self._part.rename(self._folder)

    def discard(self) -> None:
        """Leave nothing behind, where `close` was not called."""
        shutil.rmtree(self._part, ignore_errors=True)


def read(folder: Path) -> Saved:
    """The folder, each file with the content that was saved. Raises UsageError."""
    index = folder / INDEX
    try:
        document = _document(index)
        layers = {
            name: _tensors(folder, one["file"], one["sha256"])
            for name, one in document["layers"].items()
        }
        snapshots = [Snapshot(**one) for one in document["snapshots"]]
        return Saved(
            {name: (one["weight"], one.get("bias")) for name, one in layers.items()},
            tuple((one, _rows_of(folder, one, layers[one.layer]["weight"])) for one in snapshots),
            _sha256(index),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{index}: {type(error).__name__}: {error}; capture again") from None


def _rows_of(folder: Path, one: Snapshot, weight: torch.Tensor) -> torch.Tensor:
    x = _tensors(folder, one.file, one.sha256)["x"]
    if tuple(x.shape) != (one.rows, weight.shape[1]):
        raise UsageError(
            f"{folder / one.file}: x is {tuple(x.shape)}, and the index says {one.rows} rows for a "
            f"weight of {tuple(weight.shape)}; capture again"
        )
    return x


def gather(saved: Saved, batch: Batch) -> torch.Tensor:
    """The batch's input (M, K)."""
    return torch.stack([saved.snapshots[number][1][row] for number, row in batch.rows])


def content(x: torch.Tensor) -> str:
    """SHA-256 of a tensor's values, row by row."""
    return hashlib.sha256(x.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()


def write_batches(folder: Path, saved: Saved, seed: int, batches: list[Batch]) -> None:
    """Write `batches.json`, whole or not at all."""
    document = {
        "version": VERSION,
        "index_sha256": saved.sha256,
        "seed": seed,
        "batches": [asdict(batch) for batch in batches],
    }
    write_text(folder / BATCHES, json.dumps(document) + "\n")


def read_batches(folder: Path, saved: Saved) -> list[Batch]:
    """The batches, or each snapshot as one where there are none. Raises UsageError."""
    path = folder / BATCHES
    if not path.exists():
        return [
            Batch(one.layer, tuple((number, row) for row in range(one.rows)), content(x))
            for number, (one, x) in enumerate(saved.snapshots)
        ]
    try:
        document = _document(path)
        batches = [
            Batch(one["layer"], tuple((int(n), int(row)) for n, row in one["rows"]), one["sha256"])
            for one in document["batches"]
        ]
        changed = document["index_sha256"] != saved.sha256 or any(
            content(gather(saved, batch)) != batch.sha256
            or any(saved.snapshots[number][0].layer != batch.layer for number, _ in batch.rows)
            for batch in batches
        )
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
        raise UsageError(f"{path}: {type(error).__name__}: {error}; expand again") from None
    if changed:
        raise UsageError(f"{path}: it was made of other snapshots than those there; expand again")
    return batches


def _document(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        version = found["version"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{path}: {error}; name a folder that `validate capture` wrote") from None
    if version != VERSION:
        raise UsageError(f"{path}: version {version} is not {VERSION}; capture again")
    return found


def _tensors(folder: Path, file: str, sha256: str) -> dict[str, torch.Tensor]:
    path = folder / file
    if Path(file).name != file:
        raise UsageError(f"{folder / INDEX}: {file!r} is no plain file name; capture again")
    try:
        found = _sha256(path)
        if found != sha256:
            raise UsageError(
                f"{path}: its SHA-256 is {found}, and the index says {sha256}: it was changed; "
                "capture again"
            )
        tensors: dict[str, torch.Tensor] = load_file(path)
    except (OSError, SafetensorError) as error:
        raise UsageError(f"{path}: {error}; capture again") from None
    return tensors


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
