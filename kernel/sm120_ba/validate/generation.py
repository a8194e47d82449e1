"""Greedy free generation of two arms: the same tokens, or where they part first.

Prompts of one length are generated together, without padding; a batch keeps its requests to the
end, and what a request says behind its first stop token is cut off. The next token is the lowest id
among the largest logits, so that equal logits always give equal tokens.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sm120_ba.validate import arms, checkers, gates, prompts, trajectory
from sm120_ba.validate.arms import PAIRS
from sm120_ba.validate.commands import UsageError
from sm120_ba.validate.gates import Measured
from sm120_ba.validate.logits import top_token
from sm120_ba.validate.prompts import Prompt
from sm120_ba.validate.report import Failure, Report, Table, deliver, machine

METRICS: tuple[str, ...] = ("requests_different", "tokens_different")
FLIPS = "answer_flips"  # with a checker
LISTED = 20  # requests in a table; the JSON has all


@dataclass(frozen=True)
class Answer:
    """What a request got: ids up to its stop token, their text, and the step of a NaN, if any."""

    tokens: tuple[int, ...]
    text: str
    nan_at: int | None = None


Answers = Mapping[str, Mapping[str, Answer]]  # by run and prompt


def first_difference(first: Sequence[int], second: Sequence[int]) -> int | None:
    """The first position at which two answers differ or one has ended; None: they are equal."""
    for position, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return position
    return None if len(first) == len(second) else min(len(first), len(second))


def tokens_different(first: Sequence[int], second: Sequence[int]) -> int:
    """Positions at which two answers differ, those that only one of them has among them."""
    differing = sum(one != other for one, other in zip(first, second, strict=False))
    return differing + abs(len(first) - len(second))


def generate(
    both: arms.Arms,
    runs: Mapping[str, arms.Run],
    wanted: Sequence[Prompt],
    size: int,
    new: int,
) -> dict[str, dict[str, Answer]]:
    """The answers of each run, which take turns batch by batch; `new` tokens at most."""
    stops = stop_tokens(both.model)
    answers: dict[str, dict[str, Answer]] = {name: {} for name in runs}
    for batch in prompts.batches(wanted, size):
        names = [prompt.name for prompt in batch]
        ids = torch.tensor([prompt.ids for prompt in batch], device=both.device)
        for name, one in runs.items():
            tokens = greedy(both, one, names, ids, new)
            answers[name].update(
                (prompt, _answer(row, stops, both.tokenizer))
                for prompt, row in zip(names, tokens.tolist(), strict=True)
            )
    return answers


def greedy(
    both: arms.Arms, one: arms.Run, names: Sequence[str], ids: torch.Tensor, new: int
) -> torch.Tensor:
    """The next `new` tokens (batch, new) of ids (batch, length); -1 where a logit was NaN."""
    sequences = arms.Sequences(both.model, names, one.recorder)
    tokens: list[torch.Tensor] = []
    with both.driving(one):
        for _ in range(new):
            logits = sequences.forward(ids)
            tokens.append(top_token(logits[:, -1]))
            ids = tokens[-1].clamp_min(0)[:, None]  # something has to follow a NaN
    return torch.stack(tokens, 1)


def stop_tokens(model: Any) -> frozenset[int]:
    """The ids that end an answer, as the model's generation settings have them."""
    ids = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    return frozenset([ids] if isinstance(ids, int) else ids or ())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `validate generate`."""
    arms.add_arguments(parser)
    parser.add_argument("--gates", type=Path, required=True, help=gates.HELP)
    parser.add_argument("--new", type=int, default=16, help="tokens a prompt (default: 16)")
    parser.add_argument("--checker", help=f"judge the answers, too: {checkers.HELP}")


def run(arguments: argparse.Namespace) -> int:
    """Generate, compare, judge, report; 0 where every gate is passed."""
    metrics = {"generate": METRICS} | ({"answers": (FLIPS,)} if arguments.checker else {})
    limits = gates.read(arguments.gates, metrics)
    check = checkers.checker(arguments.checker) if arguments.checker else None
    if arguments.new < 1:
        raise UsageError(f"--new {arguments.new}: give at least 1")
    both, wanted = arms.prepare(arguments)
    if check:
        checkers.try_on(arguments.checker, check, {prompt.name: prompt.row for prompt in wanted})
    runs = {name: arms.Run(name) for name in arms.ORDER}
    answers = generate(both, runs, wanted, arguments.batch, arguments.new)
    rights = judged(arguments.checker, check, wanted, answers) if check else None
    verdicts = gates.judge(limits, measure(answers, rights))
    recorded = {name: one.recorder.batches for name, one in runs.items()}
    return deliver(
        Report(
            "generate",
            0 if both.idle(runs) else len(wanted),
            arms.settings(arguments, both, wanted)
            | {"new": arguments.new, "checker": arguments.checker, **limits.settings()},
            tables=(
                gates.table(verdicts, "Differences"),
                differing(answers),
                *([flips(rights)] if rights else []),
                arms.calls(both, [*runs.values()]),
                trajectory.counts(recorded),
            ),
            failures=(
                *both.not_called(runs),
                *trajectory.mismatches(recorded),
                *not_numbers(answers),
                *gates.failures(verdicts),
            ),
            notes=(*_notes(answers), *arms.remarks(both, [*runs.values()])),
            details={
                "answers": as_json(answers),
                "right": rights,
                "trajectory": trajectory.as_rows(recorded["A1"]),
            },
            machine=machine(arguments.device),
        ),
        arguments.report,
    )


def judged(
    name: str, check: checkers.Checker, wanted: Sequence[Prompt], answers: Answers
) -> dict[str, dict[str, bool]]:
    """For each run, which answers the checker calls right."""
    return {
        run_name: {
            prompt.name: checkers.is_right(
                name, check, prompt.name, prompt.row, said[prompt.name].text
            )
            for prompt in wanted
        }
        for run_name, said in answers.items()
    }


def measure(answers: Answers, rights: Mapping[str, Mapping[str, bool]] | None) -> list[Measured]:
    """Each metric, counted between the runs of each of PAIRS."""
    names = (*METRICS, FLIPS) if rights else METRICS
    found: dict[str, list[float]] = {name: [] for name in names}
    for first, second in PAIRS:
        pairs = [(one.tokens, answers[second][name].tokens) for name, one in answers[first].items()]
        found[METRICS[0]].append(sum(one != other for one, other in pairs))
        found[METRICS[1]].append(sum(tokens_different(one, other) for one, other in pairs))
        if rights:
            flipped = sum(rights[first][name] != rights[second][name] for name in rights[first])
            found[FLIPS].append(flipped)
    return [Measured(name, noise, tuple(rest)) for name, (noise, *rest) in found.items()]


def differing(answers: Answers) -> Table:
    """The requests whose tokens are not the same in all runs, with the first position."""
    rows = []
    for name in answers["A1"]:
        said = {run_name: answers[run_name][name].tokens for run_name in answers}
        places = [first_difference(said[first], said[second]) for first, second in PAIRS]
        if any(place is not None for place in places):
            shown = ("same" if place is None else place for place in places)
            rows.append((name, len(said["A1"]), *shown))
    columns = tuple(f"{first} to {second}" for first, second in PAIRS)
    title = f"First token that differs, from 0, in {len(rows)} of {len(answers['A1'])} requests"
    return Table(title, ("prompt", "tokens of A1", *columns), tuple(rows[:LISTED]))


def flips(rights: Mapping[str, Mapping[str, bool]]) -> Table:
    """The prompts that were answered right in some runs and wrong in others."""
    names = [name for name in rights["A1"] if len({right[name] for right in rights.values()}) > 1]
    rows = tuple((name, *(_word(right[name]) for right in rights.values())) for name in names)
    total = {run_name: sum(right.values()) for run_name, right in rights.items()}
    scores = ", ".join(f"{run_name} {count}" for run_name, count in total.items())
    return Table(f"Answers that flip (right: {scores})", ("prompt", *rights), rows)


def not_numbers(answers: Answers) -> tuple[Failure, ...]:
    """A failure for each run in which a NaN stood among the logits."""
    failures = []
    for run_name, said in answers.items():
        hit = [(name, answer.nan_at) for name, answer in said.items() if answer.nan_at is not None]
        if hit:
            text = f"NaN among the logits of {len(hit)} requests, first of {hit[0][0]}, token "
            failures.append(Failure(run_name, f"{text}{hit[0][1]}"))
    return tuple(failures)


def as_json(answers: Answers) -> dict[str, dict[str, Any]]:
    """All answers as JSON data."""
    return {
        run_name: {
            name: {"tokens": answer.tokens, "text": answer.text} for name, answer in said.items()
        }
        for run_name, said in answers.items()
    }


def _answer(
    row: Sequence[int], stops: frozenset[int], tokenizer: prompts.Tokenizer | None
) -> Answer:
    ends = [i + 1 for i, token in enumerate(row) if token in stops]
    tokens = tuple(row[: ends[0]] if ends else row)
    said = [token for token in tokens if token >= 0 and token not in stops]
    text = tokenizer.decode(said) if tokenizer else " ".join(map(str, said))
    return Answer(tokens, text, tokens.index(-1) if -1 in tokens else None)


def _word(right: bool) -> str:
    return "right" if right else "wrong"


def _notes(answers: Answers) -> list[str]:
    first, *others = answers.values()
    notes = [
        "Greedy; prompts of one length share a batch, nothing is padded. tokens_different counts "
        "positions, all behind the first difference too, where the arms have other histories."
    ]
    if all(first == other for other in others):
        notes.append("No difference: all runs gave the same tokens.")
    return notes
