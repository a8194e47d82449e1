"""Which commands of a script fail its step where they fail."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from runci.workflows.shell import Command, commands

_ASKING = frozenset({"if", "elif", "while", "until", "!"})
_OPENS = frozenset({"if", "for", "while", "until", "case", "{"})
_CLOSES = frozenset({"fi", "done", "esac", "}"})
_SHELLS = frozenset({"bash", "sh"})
_FLAGS = re.compile(r"[-+][a-zA-Z]+")


def deciding(script: str, shell: str) -> Iterator[tuple[str, ...]]:
    """The words of each such command. `shell` is what the step writes; "" means `bash -e`.

    A command whose failure is asked for (`if ! x`, `x || …`) decides where an `exit` other than 0
    follows. Which branch is taken is not looked at.
    """
    found = commands(script)
    for index, command in enumerate(found):
        words = tuple(word.text for word in command.words)
        if not words or not _decides(found, index, shell):
            continue
        yield words
        if words[0].rpartition("/")[2] in _SHELLS and "-c" in words[:-1]:
            yield from deciding(words[-1], "sh {0}")  # ends as its last command does


def _decides(found: Sequence[Command], index: int, shell: str) -> bool:
    before, end = found[:index], _end(found, index, ("|", "|&"))
    if found[index].depth or _is_passed_over(found, index):
        return False
    if end != index and not _is_set("pipefail", before, shell):
        return False
    list_end = _end(found, end, ("&&", "||"))
    asked = _ASKING.intersection(found[index].keywords)
    if asked or "||" in {c.after for c in found[end:list_end]} or _group_may_fail(found, index):
        return any(_is_exit(c) for c in found[end + 1 :] if not c.depth)
    if found[list_end].after == "&":
        return False
    if all(c.depth or not c.words or c.words[0].text in _CLOSES for c in found[list_end + 1 :]):
        return True  # the script ends as the list does
    return list_end == end and _is_set("errexit", before, shell)


def _end(found: Sequence[Command], index: int, operators: tuple[str, ...]) -> int:
    """The last command that these operators join to this one."""
    while index + 1 < len(found) and found[index].after in operators:
        index += 1
    return index


def _is_passed_over(found: Sequence[Command], index: int) -> bool:
    """Whether a command runs after a failure only, behind an exit, or in an uncalled function."""
    level, function = 0, ""
    for at, command in enumerate(found[:index]):
        first = command.words[0].text if command.words else ""
        top = level == 0 and not function
        alone = (found[at - 1].after if at else "") not in ("&&", "||")
        if top and alone and first == "exit" and not command.depth:
            return True
        if top and command.after == "(" and len(command.words) == 1:
            function, level = first, 0
        level += _nesting(command)
        if function and "}" in command.keywords and level == 0:
            function = ""
    later = {command.words[0].text for command in found[index:] if command.words}
    return (index > 0 and found[index - 1].after == "||") or bool(
        function and function not in later
    )


def _nesting(command: Command) -> int:
    words = (*command.keywords, *(word.text for word in command.words[:1]))
    return sum((word in _OPENS) - (word in _CLOSES) for word in words)


def _group_may_fail(found: Sequence[Command], index: int) -> bool:
    """Whether a group around a command is followed by `||`."""
    level = 0
    for command in found[index + 1 :]:
        level += _nesting(command)
        if level < 0 and command.after == "||":
            return True
        level = max(level, 0)
    return False


def _is_exit(command: Command) -> bool:
    words = [word.text for word in command.words]
    return words[:1] == ["false"] or (words[:1] in (["exit"], ["return"]) and words[1:2] != ["0"])


def _is_set(option: str, before: Sequence[Command], shell: str) -> bool:
    """Whether `errexit` or `pipefail` holds: GitHub starts `bash -e`, and «bash» with both."""
    letter = "e" if option == "errexit" else "-"
    written = ["set", *shell.split()] if "{0}" in shell else []
    on = not written and (option == "errexit" or shell == "bash")
    sets = (written, *([word.text for word in command.words] for command in before))
    for words in (words for words in sets if words[:1] == ["set"]):
        for flag, value in itertools.pairwise([*words[1:], ""]):
            named = flag.endswith("o") and value == option
            if _FLAGS.fullmatch(flag) and (letter in flag[1:] or named):
                on = flag.startswith("-")
    return on
