"""What a doctor found, as a table, as JSON and as annotations; pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from runci.run.doctor.facts import Facts
from runci.run.doctor.rules import Answer, State
from runci.text.github import annotation, no_command
from runci.text.tables import render_table
from runci.text.terminal import printable, wrap
from runci.text.wording import plural

_INDENT = "  "


@dataclass(frozen=True, slots=True)
class Report:
    """All answers. `unfit` says why the tests cannot run here; `notes` what changed by looking."""

    facts: Facts
    answers: tuple[Answer, ...]
    unfit: tuple[str, ...]
    seconds: float
    shard: str = ""
    notes: tuple[str, ...] = ()

    @property
    def findings(self) -> tuple[str, ...]:
        """What each check found to be sick, and what else makes the machine unfit."""
        sick = [answer.sentence for answer in self.answers if answer.state is State.SICK]
        return tuple(dict.fromkeys([*sick, *self.unfit]))


def as_text(report: Report, width: int) -> str:
    """The table; what is sick in full, with its remedy; one last line."""
    rows = [
        (state, check, _gpus(gpus, report), says)
        for (check, state, says), gpus in _grouped(report.answers).items()
    ]
    lines = [render_table(("state", "check", "GPU", "says"), rows, width=width)]
    for text in (*report.findings, *report.notes):
        first, *more = wrap(printable(text), width - len(_INDENT))
        lines += [f"{first}\n", *(f"{_INDENT}{line}\n" for line in more)]
    whole = "".join([*lines, "\n" if report.findings or report.notes else "", closing(report)])
    return "".join(f"{no_command(line)}\n" for line in whole.split("\n"))


def as_github(report: Report, width: int) -> str:
    """The text, with an annotation for each thing that is sick: an error where it ends the job."""
    kind = "error" if report.unfit else "warning"
    return as_text(report, width) + "".join(
        annotation(kind, text, {"title": "runci doctor"}) + "\n" for text in report.findings
    )


def as_json(report: Report) -> str:
    """Everything but what other processes run; `core/unfit.py` reads `shard` and `unfit` of it."""
    document = {
        "version": 1,
        "shard": report.shard,
        "unfit": report.unfit,
        "seconds": round(report.seconds, 3),
        "notes": report.notes,
        "answers": [asdict(answer) for answer in report.answers],
        "facts": asdict(replace(report.facts, running=())),
    }
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def closing(report: Report) -> str:
    """How it ends, in a line."""
    cards = plural(len(report.facts.cards), "GPUs")
    sick = len(report.findings)
    took = f"{cards}, {report.seconds:.1f} s"
    if report.unfit:
        return f"this machine is not fit: {plural(sick, 'findings')}; {took}"
    left = f" in spite of {plural(sick, 'findings')}" if sick else ""
    return f"this machine is fit{left}; {took}"


def _grouped(answers: Sequence[Answer]) -> dict[tuple[str, str, str], list[int]]:
    """The GPUs of which a check says the same, in the order of the checks."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for answer in answers:
        gpus = found.setdefault((answer.check, answer.state.value, answer.says), [])
        gpus += [] if answer.gpu is None else [answer.gpu]
    order = {check: place for place, (check, _, _) in reversed([*enumerate(found)])}
    return dict(sorted(found.items(), key=lambda item: order[item[0][0]]))


def _gpus(indices: Sequence[int], report: Report) -> str:
    if len(indices) > 1 and len(indices) == len(report.facts.cards):
        return "all"
    return ", ".join(map(str, indices))
