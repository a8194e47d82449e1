"""`runci rule`: what rules mean, for a terminal and as the rules page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runci.checks.registry import FAMILIES, subjects
from runci.core.finding import RuleInfo
from runci.text.tables import render_markdown

_INTRODUCTION = """\
# Rules

Written by `runci rule --all --format markdown`; a test compares this page with the rules.

A finding is suppressed by a comment that names its rule and gives a reason, on any of its lines:

```python
register_cuda_ci(est_time=20, suite="x", disabled="lab")  # runci: ignore[RT109] lab machine only
```

On a line of its own the comment speaks for the statement below it; among the comments at the top of
a file, for findings about the whole file as well. Workflows, and other files with `#` comments,
have them too.

`runci whitespace --fix` changes Python (UTF-8, and such that `tokenize` reads it) and YAML (such
that PyYAML reads it), and nothing that is part of a string or a scalar; elsewhere the same finding
is not fixable.

`--select` and `--ignore` take ids or prefixes (`RT3`); `folder_rules` in `suites.yml` switches
rules off below a folder.

"""
_NAMES = {
    "\ufeff": "<U+FEFF>",
    "\u00a0": "<U+00A0>",
    "\u200b": "<U+200B>",
    "\u202e": "<U+202E>",
    "\u2066": "<U+2066>",
    "\u2069": "<U+2069>",
    "\r": "<CR>",
    "\t": "<TAB>",
}


def as_text(rules: Sequence[RuleInfo], *, whole: bool) -> str:
    """For a terminal: all of each rule, or with `whole` one line each."""
    if whole:
        marked = [(rule, " *" if rule.fixable else "") for rule in rules]
        lines = [f"{r.id}  {r.name}{mark}\n       {r.summary}\n" for r, mark in marked]
        return "".join([*lines, "\n* mended by --fix. `runci rule RT104` says more.\n"])
    return "\n".join("\n".join(_text(rule)) + "\n" for rule in rules)


def _text(rule: RuleInfo) -> Iterator[str]:
    import textwrap

    yield f"{rule.id}  {rule.name}"
    yield f"\n{rule.summary}\n"
    yield from textwrap.wrap(rule.reason, 79)
    yield "\nFound:\n"
    yield from _indented(rule.bad)
    yield "\nMended:\n"
    yield from _indented(rule.good)
    yield "\n--fix mends it." if rule.fixable else "\n--fix does not mend it."


def _indented(code: str) -> list[str]:
    return [f"    {line}".rstrip() for line in _shown(code).splitlines()]


def _shown(code: str) -> str:
    """An example with the characters that cannot be seen spelled out."""
    return "".join(_NAMES.get(character, character) for character in code)


def as_markdown(rules: Sequence[RuleInfo], *, whole: bool) -> str:
    """A section a rule; with `whole`, the complete page with its table."""
    sections = "\n".join("\n".join(_section(rule)) for rule in rules)
    if not whole:
        return sections
    rows = [
        [f"[{r.id}](#{r.id.lower()}-{r.name})", r.summary, "yes" if r.fixable else ""]
        for r in rules
    ]
    table = render_markdown(["rule", "finds", "--fix"], rows)
    return f"{_INTRODUCTION}{subjects_table()}\n{table}\n{sections}"


def subjects_table() -> str:
    """Which rules are about what, a subject a row."""
    listed = [entry for family in FAMILIES for entry in subjects(family)]
    rows = [[_range([rule.id for rule in rules]), about] for about, rules in listed]
    return render_markdown(["rules", "about"], rows)


def _range(ids: list[str]) -> str:
    """«RT101 to RT109», and with gaps: «RT201 to RT204, RT501»."""
    runs: list[list[str]] = []
    for one in sorted(ids):
        if runs and int(runs[-1][-1][2:]) + 1 == int(one[2:]):
            runs[-1].append(one)
        else:
            runs.append([one])
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


def _section(rule: RuleInfo) -> Iterator[str]:
    yield f"## {rule.id} {rule.name}\n"
    yield f"{rule.summary} {rule.reason}\n"
    yield "Found:\n"
    yield from _fenced(rule.bad, rule)
    yield "\nMended:\n"
    yield from _fenced(rule.good, rule)
    yield "\n`--fix` mends it.\n" if rule.fixable else ""


def _fenced(code: str, rule: RuleInfo) -> Iterator[str]:
    yield "```yaml" if rule.id.startswith("WF") else "```python"
    yield from (line.rstrip() for line in _shown(code).splitlines())
    yield "```"
