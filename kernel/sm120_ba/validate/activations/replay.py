"""Compare two implementations on saved inputs: the batches if there are, else the snapshots."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from sm120_ba import dispatch
from sm120_ba.validate import calls as model_calls
from sm120_ba.validate import shadow
from sm120_ba.validate.activations.saved import Batch, Saved, gather, read, read_batches
from sm120_ba.validate.calls import Layers
from sm120_ba.validate.implementations import Linear, implementation
from sm120_ba.validate.report import deliver
from sm120_ba.validate.shadow import Live, Outcome, Shadow, Tried

Input = tuple[str, torch.Tensor]  # of a layer


def layers_of(saved: Saved, device: torch.device) -> Layers:
    """The saved layers as modules on the device."""
    return {name: _layer(*one, device) for name, one in saved.layers.items()}


def _layer(
    weight: torch.Tensor, bias: torch.Tensor | None, device: torch.device
) -> torch.nn.Linear:
    layer = torch.nn.Linear(1, 1, bias=False, device="meta")
    layer.weight = torch.nn.Parameter(weight.to(device), requires_grad=False)
    if bias is not None:
        layer.bias = torch.nn.Parameter(bias.to(device), requires_grad=False)
    layer.out_features, layer.in_features = weight.shape
    return layer


def compare(
    layers: Layers,
    inputs: Sequence[Input],
    baseline: Linear,
    candidate: Linear,
    kernel: bool = False,
) -> Outcome:
    """Test the comparison on the first input of each layer and M, then compare them all.

    `kernel`: one of the two is the dispatcher, see `shadow.compare`.
    """
    firsts: Mapping[Live, Input] = {_path(one): one for one in reversed(inputs)}
    halves = []
    for other in (baseline, shadow.one_off(baseline)):
        watch = _watched(layers, list(firsts.values()), baseline, other)
        halves.append(Tried(watch.called, watch.compared(), watch.failures))
    void = shadow.void_reason(sorted(firsts), 1, *halves)
    if void is not None:
        return Outcome(0, {}, {}, void)
    before = dispatch.stats()
    watch = _watched(layers, inputs, baseline, candidate)
    after = dispatch.stats()
    note = shadow.kernel_note(before, after)
    idle = kernel and after.fast == before.fast
    tested = len(firsts)
    return Outcome(0, watch.compared(), watch.failures, None, note, (), tested, idle)


def _path(one: Input) -> Live:
    return Live(one[0], len(one[1]), captured=False)


def _watched(layers: Layers, inputs: Sequence[Input], baseline: Linear, other: Linear) -> Shadow:
    watch = Shadow()
    with torch.no_grad():
        for name, x in inputs:
            weight, bias = layers[name].weight, layers[name].bias
            y = baseline(x, weight, bias)
            watch.observe(name, x, y, lambda: other(x, weight, bias))  # noqa: B023 (called at once)
    return watch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="what `validate capture` wrote")
    model_calls.add_arms(parser)
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda or cuda:N")
    parser.add_argument("--report", type=Path, metavar="FILE.json", help="write it, and FILE.md")


def run(arguments: argparse.Namespace) -> int:
    """Compare, and say where a bit differs; 2 where a file is not what was saved."""
    device = model_calls.device_of(arguments.device)
    saved = read(arguments.folder)
    batches: list[Batch] = read_batches(arguments.folder, saved)
    layers = layers_of(saved, device)
    arms = [implementation(name) for name in (arguments.baseline, arguments.candidate)]
    for arm in arms:
        arm.prepare(layers, arguments.mode)
    inputs = [(batch.layer, gather(saved, batch).to(device)) for batch in batches]
    with model_calls.current(device):
        kernel = any(arm.answers for arm in arms)
        outcome = compare(layers, inputs, arms[0].linear, arms[1].linear, kernel)
    settings = {
        "folder": str(arguments.folder),
        "snapshots": len(saved.snapshots),
        "batches": len(batches),
        "baseline": arguments.baseline,
        "candidate": arguments.candidate,
        "mode": arguments.mode,
        "device": str(device),
    }
    report = replace(shadow.report([outcome], settings, str(device)), command="replay")
    return deliver(report, arguments.report)
