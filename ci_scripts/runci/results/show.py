"""A verdict on results, for a terminal and as Markdown."""

from __future__ import annotations

from runci.plan.show import escaped, wrapped
from runci.results.verify import Kind, Problem, Verdict
from runci.text.github import no_command
from runci.text.wording import plural

# Of one kind: the first few say what is wrong, and the count how much.
SHOWN = 20


def as_text(verdict: Verdict, width: int) -> str:
    """Problems by kind, what was repeated, and one last line."""
    lines: list[str] = []
    for kind, problems in _by_kind(verdict):
        lines += [f"{kind.value}:", *_listed([p.text for p in problems], width), ""]
    for heading, texts in _more(verdict):
        lines += [f"{heading}:", *_listed(list(texts), width), ""]
    return "\n".join([*lines, closing(verdict)]) + "\n"


def as_markdown(verdict: Verdict) -> str:
    """The same for the summary of a workflow's step."""
    sections = [(kind.value, [p.text for p in problems]) for kind, problems in _by_kind(verdict)]
    sections += [(heading, list(texts)) for heading, texts in _more(verdict)]
    lines = [f"### {closing(verdict)}\n"]
    for heading, texts in sections:
        lines.append(f"\n**{heading}**\n\n")
        lines += [f"- {escaped(text)}\n" for text in texts[:SHOWN]]
        if len(texts) > SHOWN:
            lines.append(f"- and {len(texts) - SHOWN} more\n")
    return "".join(lines)


def closing(verdict: Verdict) -> str:
    """What was verified, or why it was not."""
    if verdict.green:
        ran = plural(verdict.files, "files") + " of " + plural(verdict.suites, "suites")
        tests = plural(verdict.tests, "tests")
        left_out = f", {verdict.deselected} deselected" if verdict.deselected else ""
        skipped = f"{verdict.skipped} skipped{left_out}"
        return f"verified: {ran} ran as planned and executed {tests}, {skipped}"
    counts = [
        f"{sum(problem.files for problem in problems) or 1} {_SHORT[kind]}"
        for kind, problems in _by_kind(verdict)
    ]
    return f"not verified: {', '.join(counts)}"


_SHORT = {
    Kind.PLAN: "faults of the plan",
    Kind.UNREADABLE: "unreadable",
    Kind.FAILED: "failed",
    Kind.NOT_RUN: "without tests",
    Kind.JOB: "without a job",
    Kind.MACHINE: "not run by their machine",
    Kind.MISSING: "missing",
    Kind.DOUBLED: "doubled",
    Kind.FOREIGN: "foreign",
    Kind.ELSEWHERE: "on another machine",
    Kind.FLAKY: "flaky",
}


def _by_kind(verdict: Verdict) -> list[tuple[Kind, list[Problem]]]:
    groups = [(kind, [p for p in verdict.problems if p.kind is kind]) for kind in Kind]
    return [(kind, problems) for kind, problems in groups if problems]


def _more(verdict: Verdict) -> list[tuple[str, tuple[str, ...]]]:
    failing = any(problem.kind is Kind.FLAKY for problem in verdict.problems)
    sections = [
        ("Failed attempts by class", (verdict.classes,) if verdict.classes else ()),
        ("Repeated", verdict.reruns),
        (Kind.FLAKY.value, () if failing else verdict.flaky),
        ("Notes", verdict.notes),
    ]
    return [(heading, texts) for heading, texts in sections if texts]


def _listed(texts: list[str], width: int) -> list[str]:
    lines = [line for text in texts[:SHOWN] for line in wrapped(text, width, "  ")]
    lines = list(map(no_command, lines))
    return [*lines, f"  and {len(texts) - SHOWN} more"] if len(texts) > SHOWN else lines
