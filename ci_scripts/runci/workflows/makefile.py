"""What `make TARGET` runs: the recipes of a Makefile, as a shell reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

MAKEFILE = "Makefile"
_RULE = re.compile(r"([\w.\-/ ]+?)\s*::?(?!=)\s*([^#=;]*)(?:;.*)?(?:#.*)?", re.ASCII)
_SET = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)\s*(?:\?|::?)?=\s*(.*)", re.ASCII)
NAMED = re.compile(r"\$[({]([A-Za-z_]\w*)[)}]", re.ASCII)
_LINE = re.compile(r"[^\n\\][^\n\\]*(?:\\(?:.|\n)[^\n\\]*)*")
MAX_DEPTH = 10  # of variables that hold variables
MAX_LINE = 10_000  # a variable that holds itself twice would grow without end


def recipes(text: str, goals: Sequence[str], given: Mapping[str, str]) -> str | None:
    """The recipe lines of these targets and what they need, each in its own line of the text.

    No goal means the first target; `given` are variables of the command line. None where a goal
    is no target here.
    """
    lines = text.splitlines()
    needs, owner = _targets(lines)
    names = [name for name in needs if not name.startswith(".")]
    waiting = list(goals) or names[:1]
    if not waiting or any(goal not in needs for goal in waiting):
        return None
    wanted: set[str] = set()
    while waiting:
        goal = waiting.pop()
        if goal not in wanted:
            wanted.add(goal)
            waiting += [name for name in needs.get(goal, ()) if name in needs]
    sets = (_SET.fullmatch(line) for line in lines if not line.startswith("\t"))
    values = {match[1]: match[2] for match in sets if match} | dict(given)
    return "\n".join(
        _shell(line, values) if owner[at] & wanted else "" for at, line in enumerate(lines)
    )


def shell_lines(text: str) -> Iterator[tuple[int, str]]:
    """The recipe lines, each with its number from 0: every one has a shell of its own."""
    line = begin = 0
    for match in _LINE.finditer(text):
        line += text.count("\n", begin, match.start())
        begin = match.start()
        yield line, match[0]


def _targets(lines: Sequence[str]) -> tuple[dict[str, list[str]], list[frozenset[str]]]:
    """What each target needs, and to which targets each line is a recipe."""
    needs: dict[str, list[str]] = {}
    owner: list[frozenset[str]] = []
    names: frozenset[str] = frozenset()
    for line in lines:
        if line.startswith("\t"):
            owner.append(names)
            continue
        owner.append(frozenset())
        match = _RULE.fullmatch(line)
        if match:
            names = frozenset(match[1].split())
            for name in names:
                needs.setdefault(name, []).extend(match[2].replace("|", " ").split())
        elif line.strip() and not line.lstrip().startswith("#"):
            names = frozenset()
    return needs, owner


def _shell(line: str, values: Mapping[str, str]) -> str:
    """A recipe line as the shell gets it; what make alone knows stays an unknown text."""
    for _ in range(MAX_DEPTH):
        line, found = NAMED.subn(lambda match: values.get(match[1], f"$${match[1]}"), line)
        if not found or len(line) > MAX_LINE:
            break
    return line.lstrip("\t @-+").replace("$$", "$")
