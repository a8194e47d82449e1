"""Save what layers of a running model get."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from sm120_ba.validate import calls as model_calls
from sm120_ba.validate import models
from sm120_ba.validate.activations.saved import Recorder
from sm120_ba.validate.calls import Calls
from sm120_ba.validate.implementations import input_of
from sm120_ba.validate.report import Failure, Report, Table, deliver, machine

MEBIBYTE = 2**20


@contextmanager
def recorded(
    model: torch.nn.Module,
    folder: Path,
    *,
    layers: Sequence[str] | None = None,
    limit: int = 256 * MEBIBYTE,
    about: Mapping[str, Any] | None = None,
) -> Iterator[Recorder]:
    """Within, what the chosen layers get is saved; at the end the folder is there, whole.

    `layers` are globs, `limit` is in bytes, `about` goes into the index. Where the block raises,
    there is no folder. Raises UsageError.
    """
    chosen = model_calls.chosen(model, layers)
    recorder = Recorder(folder, limit, layers=tuple(chosen))

    def hook(name: str) -> Any:
        return lambda layer, given, named: recorder.note(
            name, input_of(given, named), layer.weight, layer.bias
        )

    hooks = [
        layer.register_forward_pre_hook(hook(name), with_kwargs=True)
        for name, layer in chosen.items()
    ]
    try:
        yield recorder
        recorder.close(about or {})
    finally:
        for one in hooks:
            one.remove()
        recorder.discard()


def generate(model: Any, calls: Calls, recorder: Recorder) -> None:
    """For each M, `steps` tokens of M sequences, or passes where a model cannot generate."""
    device = next(model.parameters()).device
    with torch.no_grad(), model_calls.current(device):
        for m in calls.rows:
            recorder.restart()
            ids = model_calls.token_ids(model, m, calls.seed, device)
            if hasattr(model, "generate"):
                length = {"max_new_tokens": calls.steps, "min_new_tokens": calls.steps}
                model.generate(ids, do_sample=False, pad_token_id=0, **length)
                continue
            for step in range(calls.steps):
                model(model_calls.token_ids(model, m, calls.seed + step, device))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    model_calls.add_arguments(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder")
    parser.add_argument(
        "--limit-mib",
        type=model_calls.positive,
        default=256,
        help="MiB of tensors; calls beyond are counted and left out (default: 256)",
    )
    parser.add_argument("--report", type=Path, metavar="FILE.json", help="write it, and FILE.md")


def run(arguments: argparse.Namespace) -> int:
    """Capture, and say what was saved."""
    device = str(model_calls.device_of(arguments.device))
    calls = Calls(arguments.rows, arguments.steps, "none", arguments.seed)
    settings = {"model": arguments.model, "rows": list(calls.rows), "steps": calls.steps}
    settings |= {"seed": calls.seed, "device": device, "limit_mib": arguments.limit_mib}
    model = models.load(arguments.model, device)
    about = {"machine": machine(device), "settings": settings}
    limit = arguments.limit_mib * MEBIBYTE
    with recorded(
        model, arguments.out, layers=arguments.layers, limit=limit, about=about
    ) as recorder:
        generate(model, calls, recorder)
    return deliver(report(recorder, settings, device), arguments.report)


def report(recorder: Recorder, settings: Mapping[str, Any], device: str) -> Report:
    """What was saved; `compared` counts the snapshots."""
    counts: dict[tuple[str, int], int] = {}
    for one in recorder.snapshots:
        counts[one.layer, one.rows] = counts.get((one.layer, one.rows), 0) + 1
    rows = tuple((*key, count) for key, count in sorted(counts.items()))
    notes = [f"{len(recorder.snapshots)} snapshots, {recorder.written / MEBIBYTE:.1f} MiB."]
    if recorder.left_out:
        notes.append(
            f"{recorder.left_out} calls were left out: over the limit, or in a CUDA graph."
        )
    return Report(
        "capture",
        len(recorder.snapshots),
        settings,
        tables=(Table("Snapshots", ("layer", "M", "snapshots"), rows),),
        failures=tuple(
            Failure(name, "it was not called; leave it out by --layers")
            for name in recorder.not_called
        ),
        notes=tuple(notes),
        machine=machine(device),
    )
