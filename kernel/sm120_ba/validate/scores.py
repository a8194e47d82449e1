"""Task scores of two arms, each run twice (A1 B1 A2 B2): stable flips are told from noise.

The answers come from a model in this process, or were recorded from a server: four JSONL files with
`id` and `answer` a line, one for each run.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sm120_ba.validate import checkers, prompts
from sm120_ba.validate.commands import UsageError
from sm120_ba.validate.report import Failure, Report, Table, deliver, machine, write_text

ORDER = ("A1", "B1", "A2", "B2")
DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
Rows = dict[str, Mapping[str, Any]]  # what is asked, by the id of the question
Texts = Mapping[str, Mapping[str, str]]  # what was answered, by run and question


@dataclass(frozen=True)
class Question:
    """One question and whether each run answered it right; a run without an answer is left out."""

    name: str
    right: Mapping[str, bool]

    @property
    def complete(self) -> bool:
        """Whether every run has an answer."""
        return all(run in self.right for run in ORDER)

    @property
    def outcome(self) -> str:
        """same, stable loss, stable gain (A1 = A2, B1 = B2, A is not B), noise, or incomplete."""
        if not self.complete:
            return "incomplete"
        a1, b1, a2, b2 = (self.right[run] for run in ORDER)
        if a1 == b1 == a2 == b2:
            return "same"
        if a1 == a2 and b1 == b2:
            return "stable loss" if a1 else "stable gain"
        return "noise"


@dataclass(frozen=True)
class Answered:
    """The answers, and what a report says of how they came about.

    `idle`: the kernel took no call in any run of an arm that names it.
    """

    texts: Texts
    settings: Mapping[str, Any]
    tables: tuple[Table, ...] = ()
    failures: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()
    idle: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `validate scores`."""
    from sm120_ba.validate import arms

    arms.add_arguments(parser)
    parser.set_defaults(prompts="retrieval", count=2)
    parser.add_argument("--checker", default="retrieval", help=checkers.HELP)
    parser.add_argument("--new", type=int, default=16, help="tokens an answer (default: 16)")
    parser.add_argument(
        "--sentences", type=int, default=8, help="in a text of `--prompts retrieval` (default: 8)"
    )
    parser.add_argument(
        "--depths", type=_depths, default=DEPTHS, help="of its fact (default: 0,0.25,0.5,0.75,1)"
    )
    parser.add_argument(
        "--write-prompts", type=Path, metavar="FILE", help="write the prompts as JSONL, and end"
    )
    parser.add_argument(
        "--recorded",
        type=Path,
        nargs=4,
        metavar=ORDER,
        help="judge these answers in place of a model's",
    )


def run(arguments: argparse.Namespace) -> int:
    """Ask, judge, report; 1 where an answer flips in both runs of the candidate, or is missing."""
    rows = asked(arguments)
    if arguments.write_prompts:
        write_text(
            arguments.write_prompts, "".join(json.dumps(row) + "\n" for row in rows.values())
        )
        return 0
    check = checkers.checker(arguments.checker)
    checkers.try_on(arguments.checker, check, rows)
    answered = recorded(arguments.recorded, rows) if arguments.recorded else ask(arguments, rows)
    questions = judged(arguments.checker, check, rows, answered.texts)
    asked_for = {
        "prompts": arguments.prompts,
        "checker": arguments.checker,
        "questions": len(questions),
    }
    return deliver(
        Report(
            "scores",
            0 if answered.idle else sum(question.complete for question in questions),
            {**answered.settings, **asked_for},
            tables=(*scores(questions, rows), flips(questions), *answered.tables),
            failures=(*missing(questions), *stable_flips(questions), *answered.failures),
            notes=(*_notes(questions), *answered.notes),
            details={
                "answers": answered.texts,
                "right": {question.name: dict(question.right) for question in questions},
            },
            machine=machine("cpu" if arguments.recorded else arguments.device),
        ),
        arguments.report,
    )


def asked(arguments: argparse.Namespace) -> Rows:
    """What is asked, by the id of the question. Raises UsageError."""
    if arguments.prompts == "retrieval":
        made = checkers.retrieval_rows(
            arguments.count, arguments.depths, arguments.sentences, arguments.seed
        )
        return {row["id"]: row for row in made}
    if arguments.prompts == "seeded":
        raise UsageError("--prompts seeded: they ask nothing; give a file, or retrieval")
    rows: Rows = {}
    for number, (place, row) in enumerate(prompts.read_rows(Path(arguments.prompts), "prompt"), 1):
        name = prompts.name_of(place, row, str(number))
        if name in rows:
            raise UsageError(f"{place}: a second prompt has the id {name!r}; ids are unique")
        rows[name] = row
    return rows


def recorded(paths: Sequence[Path], rows: Rows) -> Answered:
    """The answers of four files, one for each run in order. Raises UsageError."""
    texts: dict[str, dict[str, str]] = {}
    for run_name, path in zip(ORDER, paths, strict=True):
        said = texts.setdefault(run_name, {})
        for place, row in prompts.read_rows(path, "answer"):
            name = prompts.name_of(place, row)
            if name not in rows:
                raise UsageError(f"{place}: no prompt has the id {name!r}")
            if name in said:
                raise UsageError(f"{place}: a second answer to {name!r}; each run answers once")
            if not isinstance(row.get("answer"), str):
                raise UsageError(f"{place}: answer is {row.get('answer')!r}, not text")
            said[name] = row["answer"]
    for number, path in enumerate(paths):
        before = [run for run, one in zip(ORDER, paths[:number], strict=False) if _same(one, path)]
        if before:
            raise UsageError(
                f"--recorded {path}: {ORDER[number]} and {before[0]} are one file, and each "
                "run has its own answers"
            )
    return Answered(texts, {"recorded": [str(path) for path in paths]})


def judged(name: str, check: checkers.Checker, rows: Rows, texts: Texts) -> list[Question]:
    """Each question with what the checker says of every run that answered it."""
    return [
        Question(
            question,
            {
                run_name: checkers.is_right(name, check, question, row, said[question])
                for run_name, said in texts.items()
                if question in said
            },
        )
        for question, row in rows.items()
    ]


def scores(questions: Sequence[Question], rows: Rows) -> list[Table]:
    """Right answers by run; and by depth, where all questions have one."""

    def row(title: str, chosen: Sequence[Question]) -> tuple[Any, ...]:
        counts = (sum(one.right.get(run_name, False) for one in chosen) for run_name in ORDER)
        return (title, len(chosen), *counts)

    groups = [row("all", questions)]
    if all("depth" in one for one in rows.values()):
        depths = sorted({one["depth"] for one in rows.values()})
        groups += [
            row(f"depth {depth:g}", [one for one in questions if rows[one.name]["depth"] == depth])
            for depth in depths
        ]
    return [Table("Right answers", ("questions", "number", *ORDER), tuple(groups))]


def flips(questions: Sequence[Question]) -> Table:
    """Every question that was not answered alike in all runs."""
    listed = [one for one in questions if one.outcome != "same"]
    words = {True: "right", False: "wrong", None: "missing"}
    rows = tuple(
        (one.name, *(words[one.right.get(run_name)] for run_name in ORDER), one.outcome)
        for one in listed
    )
    return Table("Flips", ("question", *ORDER, "outcome"), rows)


def stable_flips(questions: Sequence[Question]) -> tuple[Failure, ...]:
    """A failure for each question that both runs of B answer otherwise than both runs of A."""
    return tuple(
        Failure(f"question {one.name}", f"{one.outcome}: A1 and A2 agree, B1 and B2 say otherwise")
        for one in questions
        if one.outcome.startswith("stable")
    )


def missing(questions: Sequence[Question]) -> tuple[Failure, ...]:
    """A failure for each question that a run did not answer."""
    return tuple(
        Failure(f"question {one.name}", f"no answer in {', '.join(lacking)}")
        for one in questions
        if (lacking := [run_name for run_name in ORDER if run_name not in one.right])
    )


def ask(arguments: argparse.Namespace, rows: Rows) -> Answered:
    """The answers of a model in this process, whose arms take turns. Raises UsageError."""
    from sm120_ba.validate import arms, generation, trajectory

    if arguments.new < 1:
        raise UsageError(f"--new {arguments.new}: give at least 1")
    tokenizer = prompts.tokenizer_of(arguments.model)
    named = ((f"prompt {name}", {**row, "id": name}) for name, row in rows.items())
    given = prompts.from_rows(named, tokenizer)
    both, wanted = arms.prepare(arguments, given)
    runs = {name: arms.Run(name) for name in ORDER}
    answers = generation.generate(both, runs, wanted, arguments.batch, arguments.new)
    batches = {name: one.recorder.batches for name, one in runs.items()}
    return Answered(
        {run_name: {q: a.text for q, a in said.items()} for run_name, said in answers.items()},
        arms.settings(arguments, both, wanted) | {"new": arguments.new},
        (arms.calls(both, [*runs.values()]), trajectory.counts(batches)),
        (*both.not_called(runs), *trajectory.mismatches(batches), *generation.not_numbers(answers)),
        arms.remarks(both, [*runs.values()]),
        both.idle(runs),
    )


def _notes(questions: Sequence[Question]) -> list[str]:
    notes = [
        "A flip is stable where both runs of an arm agree and the arms do not; any other is noise, "
        "and says that a score of one run may move by it."
    ]
    complete = [one for one in questions if one.complete]
    for word, right in (("wrong", False), ("right", True)):
        if complete and all(one.right[run] == right for one in complete for run in ("A1", "A2")):
            side = "gain" if right else "loss"
            notes.append(f"The baseline is {word} everywhere, so no {side} could be seen.")
    return notes


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve()


def _depths(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(","))
