"""Two arms in one process: a model whose chosen layers run the baseline, A, or the candidate, B.

The weights are the same tensors; only the forward of the chosen layers changes. Runs are named by
their arm and number and take turns batch by batch (A1, B1, A2), so that what the baseline differs
from itself stands beside what the candidate differs from it.
"""

from __future__ import annotations

import argparse
import inspect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from sm120_ba.validate import implementations, models, prompts
from sm120_ba.validate.calls import device_of
from sm120_ba.validate.commands import UsageError
from sm120_ba.validate.implementations import Implementation
from sm120_ba.validate.prompts import Prompt, Tokenizer
from sm120_ba.validate.report import Failure, Table
from sm120_ba.validate.trajectory import Recorder

ORDER = ("A1", "B1", "A2")
PAIRS = (("A1", "A2"), ("A1", "B1"), ("A2", "B1"))  # the first is the noise


@dataclass
class Run:
    """One run of an arm: its batches, the calls of the chosen layers by M, and who answered.

    `called` are the names of the layers that were.
    """

    name: str
    recorder: Recorder = field(default_factory=Recorder)
    calls: Counter[int] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    called: set[str] = field(default_factory=set)

    @property
    def arm(self) -> str:
        """A or B."""
        return self.name[0]


@dataclass(frozen=True)
class Arms:
    """A model, its layers that are exchanged, and what each arm has them run."""

    model: torch.nn.Module
    layers: dict[str, torch.nn.Linear]
    linears: Mapping[str, Implementation]
    tokenizer: Tokenizer | None

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(iter(self.layers.values())).weight.device

    @contextmanager
    def driving(self, run: Run) -> Iterator[None]:
        """Within, the layers run what `run`'s arm has, and their calls are counted there."""
        chosen = self.linears[run.arm]
        before = chosen.answers() if chosen.answers else Counter[str]()

        def linear(name: str, _layer: torch.nn.Linear) -> implementations.Linear:
            def call(
                x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
            ) -> torch.Tensor:
                run.calls[x.shape[:-1].numel()] += 1
                run.called.add(name)
                return chosen.linear(x, weight, bias)

            return call

        with torch.no_grad(), implementations.driven_by(self.layers, linear):
            yield
        if chosen.answers:
            run.answers.update(chosen.answers() - before)

    def took_none(self, run: Run) -> bool:
        """Whether the arm's implementation left every call to its fallback, as far as it says."""
        return self.linears[run.arm].answers is not None and not run.answers["kernel"]

    def idle(self, runs: Mapping[str, Run]) -> bool:
        """Whether the kernel was to answer one of the arms, and took no call in any of its runs."""
        of_arm = ([run for run in runs.values() if run.arm == arm] for arm in self.linears)
        return any(all(map(self.took_none, chosen)) for chosen in of_arm)

    def not_called(self, runs: Mapping[str, Run]) -> tuple[Failure, ...]:
        """A failure for each chosen layer that no run called: nothing was compared of it."""
        called = {name for run in runs.values() for name in run.called}
        return tuple(
            Failure(name, "no run called it; leave it out by --layers")
            for name in self.layers
            if name not in called
        )


class Sequences:
    """The requests of one batch in one run, with the model's cache of the tokens that they have."""

    def __init__(self, model: torch.nn.Module, requests: Sequence[str], recorder: Recorder) -> None:
        self._model, self._requests, self._recorder = model, requests, recorder
        # transformers renamed the argument and the field of the result together.
        known = inspect.signature(model.forward).parameters
        self._name = "cache" if "cache" in known else "past_key_values"
        self._cache: Any = None
        self.past = 0

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits (batch, new, vocabulary) at the new tokens, ids (batch, new)."""
        found = self._model(input_ids=ids, use_cache=True, **{self._name: self._cache})
        self._cache = found[self._name]
        self._recorder.record(self._requests, self.past, ids.shape[1])
        self.past += ids.shape[1]
        logits: torch.Tensor = found.logits
        return logits


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options that say which model runs what, on which prompts."""
    parser.add_argument("--model", default="small", help=f"{models.HELP} (default: small)")
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda or cuda:N")
    parser.add_argument("--baseline", default="torch", help=f"{implementations.HELP}; A")
    parser.add_argument("--candidate", default="sm120_ba", help="the same; B (default: sm120_ba)")
    parser.add_argument(
        "--layers",
        action="append",
        metavar="GLOB",
        help=f"dotted names, may be repeated (default: {', '.join(implementations.LAYERS)})",
    )
    parser.add_argument(
        "--mode", choices=("1", "proved"), default="1", help="of the kernel's warm-up (default: 1)"
    )
    prompts.add_arguments(parser)
    parser.add_argument("--report", type=Path, help="write the report here (.json, and .md beside)")


def prepare(
    arguments: argparse.Namespace, given: Sequence[Prompt] | None = None
) -> tuple[Arms, list[Prompt]]:
    """The arms, warmed up, and the prompts that they get (`given`, or as the options say).

    What can be wrong without a model is looked at before one is loaded. Raises UsageError.
    """
    tokenizer = prompts.tokenizer_of(arguments.model)
    wanted = given or prompts.chosen(arguments, tokenizer)
    linears = {
        "A": implementations.implementation(arguments.baseline),
        "B": implementations.implementation(arguments.candidate),
    }
    device_of(arguments.device)
    model: Any = models.load(arguments.model, arguments.device)
    layers = implementations.chosen_layers(model, tuple(arguments.layers or implementations.LAYERS))
    if not layers:
        raise UsageError(f"--layers {arguments.layers}: {arguments.model} has no such nn.Linear")
    if not hasattr(model, "config"):
        raise UsageError(f"--model {arguments.model}: it is no language model of transformers")
    vocabulary = model.config.get_text_config().vocab_size
    wanted = wanted or prompts.seeded(vocabulary, arguments.count, arguments.length, arguments.seed)
    prompts.check_vocabulary(wanted, vocabulary)
    for linear in linears.values():
        linear.prepare(layers, arguments.mode)
    return Arms(model, layers, linears, tokenizer), list(wanted)


def settings(arguments: argparse.Namespace, arms: Arms, wanted: Sequence[Prompt]) -> dict[str, Any]:
    """What a report says of the options, the layers and the prompts."""
    named = ("model", "device", "baseline", "candidate", "mode", "batch", "prompts")
    return {name: getattr(arguments, name) for name in named} | {
        "layers": ", ".join(arms.layers),
        "prompt_count": len(wanted),
        "prompt_tokens": sum(len(prompt.ids) for prompt in wanted),
        "prompt_sha256": prompts.prompt_hash([prompt.ids for prompt in wanted]),
    }


def calls(arms: Arms, runs: Sequence[Run]) -> Table:
    """The calls of the chosen layers in each run, by M, and who answered them."""
    return Table(
        "Calls of the chosen layers",
        ("run", "implementation", "calls", "by M", "answered by"),
        tuple(
            (
                run.name,
                arms.linears[run.arm].name,
                run.calls.total(),
                _counts({f"M={m}": count for m, count in sorted(run.calls.items())}),
                _counts(run.answers) or arms.linears[run.arm].name,
            )
            for run in runs
        ),
    )


def remarks(arms: Arms, runs: Sequence[Run]) -> tuple[str, ...]:
    """What has to be said of runs in which the kernel had no part."""
    idle = [run.name for run in runs if arms.took_none(run)]
    if not idle:
        return ()
    return (
        f"The kernel took no call in {', '.join(idle)}: nothing was compared with it, and equality "
        "says nothing about it. The table of calls has the reasons.",
    )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in counts.items())
