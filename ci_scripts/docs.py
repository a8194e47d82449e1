"""Write what of docs/ the code says: commands' options, rules, what suites.yml may hold.

`python ci_scripts/docs.py` writes; with --check it only says what is out of date, and ends with 1.
Above the mark of a page stands what people wrote, which stays.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from runci.checks.registry import FAMILIES, rules, subjects
from runci.checks.rules_page import shown
from runci.cli import COMMANDS, parser
from runci.commands.perf import StepParser
from runci.core.finding import RuleInfo
from runci.text.tables import render_markdown

DOCS = Path(__file__).parents[1] / "docs"
SCHEMA = Path(__file__).parent / "runci/config/schemas/suites.schema.json"
MARK = "<!-- Below this line `make docs` writes: change the code instead. -->"


def pages(docs: Path) -> dict[str, str]:
    """What the generated pages must be, by their path in `docs`."""
    written = {
        "commands/index.md": _commands(),
        "rules/index.md": _rules(),
        "taxonomy.md": _taxonomy(),
    }
    for name, command in _below(parser()).items():
        written[f"commands/{name}.md"] = _command(command, "## Usage")
    above = {path: _above(docs / path) for path in written}
    for rule in rules().values():
        path = f"rules/{rule.id}.md"
        written[path], above[path] = _rule(rule), f"# {rule.id} {rule.name}"
    return {
        path: "\n\n".join(block.strip("\n") for block in (above[path], MARK, *blocks)) + "\n"
        for path, blocks in written.items()
    }


def _above(page: Path) -> str:
    """What people wrote."""
    text = page.read_text(encoding="utf-8") if page.is_file() else f"# runci {page.stem}\n"
    return text.partition(MARK)[0]


def _below(command: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands below one, by name."""
    for action in command._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _commands() -> Iterator[str]:
    rows = [[f"[`runci {name}`]({name}.md)", says] for name, says in COMMANDS.items()]
    yield render_markdown(["command", "what it does"], rows)


def _command(command: argparse.ArgumentParser, heading: str) -> Iterator[str]:
    if isinstance(command, StepParser):
        command.declare()
    below = _below(command)
    taken = [] if below else [action for action in command._actions if action.dest != "help"]
    words = ["COMMAND"] if below else []
    words += ["[OPTIONS]"] if any(action.option_strings for action in taken) else []
    words += [_value(action) for action in taken if not action.option_strings]
    yield heading
    yield f"```text\n{' '.join([command.prog, *words])}\n```"
    if taken:
        rows = [[_name(action), _says(action, command)] for action in taken]
        yield render_markdown(["option", "what it says"], rows)
    for one in below.values():
        yield from _command(one, f"### {one.prog}")


def _name(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else _value(action)
    return ", ".join(f"`{f'{name} {value}'.strip()}`" for name in action.option_strings or [""])


def _value(action: argparse.Action) -> str:
    name = str(action.metavar or action.dest.upper())
    return {"*": f"[{name} ...]", "?": f"[{name}]", "+": f"{name} ..."}.get(str(action.nargs), name)


def _says(action: argparse.Action, command: argparse.ArgumentParser) -> str:
    said = action.help or ""
    if isinstance(action, argparse.BooleanOptionalAction):  # Python 3.10 says its default
        said = said.removesuffix(" (default: %(default)s)")
    says = said % {**vars(action), "prog": command.prog}
    choices = ", ".join(f"`{choice}`" for choice in action.choices or ())
    return "; ".join(part for part in (says, choices) if part)


def _rules() -> Iterator[str]:
    listed = [entry for family in FAMILIES for entry in subjects(family)]
    about = [[_range([rule.id for rule in some]), says] for says, some in listed]
    yield render_markdown(["rules", "about"], about)
    rows = [
        [f"[{rule.id}]({rule.id}.md) {rule.name}", rule.summary, "yes" if rule.fixable else ""]
        for rule in rules().values()
    ]
    yield render_markdown(["rule", "finds", "--fix"], rows)


def _range(ids: list[str]) -> str:
    """«RT101 to RT109», and with gaps: «RT201 to RT204, RT501»."""
    runs: list[list[str]] = []
    for one in sorted(ids):
        if runs and int(runs[-1][-1][2:]) + 1 == int(one[2:]):
            runs[-1].append(one)
        else:
            runs.append([one])
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


# Headings of the tables of the taxonomy, and where the schema has what stands below them.
_TABLES = {
    "The file": ["/"],
    "A runner": ["runner"],
    "Suites": ["stageSuites", "namedSuites"],
    "A component": ["component"],
    "A skip": ["skip"],
    "An entry of `taxonomy`": ["folderPolicy"],
    "An entry of `folder_rules`": ["folderRule"],
    "`workflows`": ["/workflows"],
}


def _taxonomy() -> Iterator[str]:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    named = schema["$defs"] | {"/": schema, "/workflows": schema["properties"]["workflows"]}
    for heading, names in _TABLES.items():
        keys = {key: says for name in names for key, says in named[name]["properties"].items()}
        required = {key for name in names for key in named[name].get("required", ())}
        yield f"## {heading}"
        rows = []
        for key, says in keys.items():
            meant = named.get(says.get("$ref", "").rpartition("/")[2], {}) | says
            rows.append([f"`{key}`" + " *" * (key in required), meant.get("description", "")])
        yield render_markdown(["key", "is"], rows)
    yield "\\* required; of suites either `stage` with `runner_configs`, or `name`."


def _rule(rule: RuleInfo) -> Iterator[str]:
    language = "yaml" if rule.id.startswith("WF") else "python"
    yield rule.summary
    yield rule.reason
    for heading, code in (("## Found", rule.bad), ("## Mended", rule.good)):
        yield heading
        lines = [line.rstrip() for line in shown(code).splitlines()]
        yield "\n".join((f"```{language}", *lines, "```"))
    yield "`--fix` mends it." if rule.fixable else "`--fix` does not mend it."
    yield "## Where it is right as it stands"
    yield f"`# runci: ignore[{rule.id}] REASON` on a line of it: [how](index.md#suppressing)."


def outdated(docs: Path, wanted: dict[str, str]) -> list[str]:
    """The pages that are not as wanted, and those of rules and commands that are gone."""
    read = {
        page.relative_to(docs).as_posix(): page.read_text(encoding="utf-8")
        for page in docs.rglob("*.md")
    }
    there = {path: text for path, text in read.items() if MARK in text}
    return sorted(path for path in there | wanted if there.get(path) != wanted.get(path))


def main(arguments: list[str]) -> int:
    """Write, or with --check only compare."""
    command = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    command.add_argument("--check", action="store_true", help="write nothing; 1 if out of date")
    only_compare = command.parse_args(arguments).check
    wanted = pages(DOCS)
    late = outdated(DOCS, wanted)
    if only_compare:
        for path in late:
            print(f"docs/{path} is not what the code says: run `make docs`")
        return 1 if late else 0
    for path in late:
        if path in wanted:
            (DOCS / path).write_text(wanted[path], encoding="utf-8")
        else:
            (DOCS / path).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
