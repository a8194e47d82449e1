"""What a step before a gate may do for the pull request.

What a script does is not known: where files of the pull request lie on the machine, only commands
that run none of them are harmless, and those that write no file: in a checkout it may be a link.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from runci.read.yamlpos import Node
from runci.workflows.gates import is_plain_shell
from runci.workflows.machine import Machine, joined
from runci.workflows.model import mapping_at, text_of_node
from runci.workflows.origins import foreign_variables, is_ours, mentions
from runci.workflows.shell import Command, commands
from runci.workflows.values import Contexts

_ARTIFACT = re.compile(r"download-artifact|/cache(/restore)?@")
_RUNS = frozenset({"args", "cmd", "command", "entrypoint", "inlinescript", "run", "script"})
_SETS_UP = re.compile(r"/(setup-[\w-]+|upload-artifact)@")  # what runs nothing of a checkout
_CACHES = frozenset({"cache", "enable-cache"})


def says_of_others(step: Node, uses: str, contexts: Contexts, machine: Machine) -> str:
    """What a step with an action of others may do for the pull request, else ''."""
    given = {name.lower(): text_of_node(n) for name, n in mapping_at(step, "with").items()}
    cached = any(given.get(name, "").lower() not in ("", "false") for name in _CACHES)
    if cached or _ARTIFACT.search(uses):
        return "files that another job of the pull request can have written"
    scripts = [text for name, text in given.items() if name in _RUNS]
    if not all(is_ours(text, contexts) for text in scripts):
        return "a script with text of the event"
    if any(_OTHERS_FILES.search(text) or _SETS_BY_EVENT.search(text) for text in scripts):
        return "a script that takes something of the event into the job"
    runs = scripts or not _SETS_UP.search(uses)
    return "an action that may run the pull request's files" if runs and machine.foreign else ""


# Commands that run no file and write none but those that they are told to.
_HARMLESS = frozenset(
    (
        *(":", "[", "[[", "cat", "cd", "cut", "date", "declare", "df", "diff", "do", "done"),
        *("echo", "egrep", "esac", "exit", "export", "false", "fi", "for", "free", "grep", "head"),
        *("hostname", "id", "ls", "mkdir", "nproc", "printf", "pwd", "read", "return", "set"),
        *("sha256sum", "sleep", "stat", "tail", "tee", "test", "tr", "true", "uname", "wc"),
        *("which", "whoami"),
    )
)
_GIT_READS = frozenset(
    {"describe", "diff", "log", "ls-files", "merge-base", "rev-parse", "show", "status"}
)
_INSTALLERS = frozenset({"apt", "apt-get", "pip", "pip3", "pipx"})
_FROM_INDEX = re.compile(
    r"install|update|-[qUy]+|--(quiet|upgrade|user|no-deps|no-cache-dir)"
    r"|(?!.*\.(whl|zip|tgz|tar)\b)\w[\w.\[\],-]*([=<>~!]=?[\w.*,]+)*"
)
_STARTS_NOTHING = re.compile(r"/dev/null|\$\{?GITHUB_(OUTPUT|STEP_SUMMARY)\}?|-a")
_STEERING_FILE = re.compile(r"GITHUB_(ENV|PATH)\b")
_OTHERS_FILES = re.compile(r"\bpull/|FETCH_HEAD|HEAD\^2|/artifacts\b")
_SETS_BY_EVENT = re.compile(
    r"context\.payload.*\b(addPath|exportVariable)\b|\b(addPath|exportVariable)\b.*context\.payload",
    re.DOTALL,
)
_GETS = frozenset({"curl", "gh", "git", "wget"})
# What programs read without being told to.
_IMPLICIT = re.compile(
    r"PIP_(CONFIG_FILE|FIND_LINKS|REQUIREMENT|CONSTRAINT|(EXTRA_)?INDEX_URL)|(UV|GIT|LD|DYLD)_\w+"
    r"|PATH|HOME|(BASH_)?ENV|NODE_OPTIONS|PYTHON(PATH|HOME|STARTUP)"
)
_FETCHES = (("gh", "pr", "checkout"), ("gh", "pr", "diff"), ("gh", "run", "download"))


def says_of_script(
    around: tuple[Node, ...], step: Node, contexts: Contexts, machine: Machine, folder: str | None
) -> str:
    """What a script may do for the pull request, else ''."""
    script = text_of_node(step.get("run"))
    variables = foreign_variables((*around, step), contexts)
    if not is_ours(script, contexts):
        return "a script with text of the event"
    if not is_plain_shell(text_of_node(step.get("shell"))):
        steers = _STEERING_FILE.search(script) is not None
        if machine.foreign or (steers and any(name in script for name in variables)):
            return "a script that may run the pull request's files"
        return ""
    near = machine.holds(folder) or any(_names(script, folder) for folder in machine.foreign)
    named = {*variables, *(_names_of(around, step) if near else ())}
    if (implicit := next(filter(_IMPLICIT.fullmatch, sorted(named)), None)) is not None:
        return f"{implicit}, which the pull request can have chosen"
    place = _Place(machine, folder, near)
    known = set(variables)
    for command in commands(script):
        text = " ".join(
            (*(w.text for w in command.words), *(value for _, value in command.assigned))
        )
        told = mentions(text, known)
        if told:
            known.update(name for name, _ in command.assigned)
        steered = _STEERING_FILE.search(text) is not None and mentions(script, known)
        if said := _says_of_command(command, text, place, told or steered):
            return said
    return ""


class _Place(NamedTuple):
    """Where a script runs; `near` files of the pull request, or with their folder's name in it."""

    machine: Machine
    folder: str | None
    near: bool


def _says_of_command(command: Command, text: str, place: _Place, told: bool) -> str:
    """What one command may do. `told`: with text of the event."""
    words = [word.text for word in command.words]
    gets = bool(words) and words[0] in _GETS and _OTHERS_FILES.search(text) is not None
    if gets or tuple(words[:3]) in _FETCHES:
        return f"{' '.join(words[:3])}, which gets files of the pull request"
    if _STEERING_FILE.search(text) and (place.near or told):
        return "GITHUB_ENV or GITHUB_PATH, which decide what later steps start"
    if place.near and any(_IMPLICIT.fullmatch(name) for name, _ in command.assigned):
        return "a PATH or the like, which can name the pull request's files"
    if not words or not (told or place.near) or _is_harmless(command, place.machine, place.folder):
        return ""
    if told:
        return f"{words[0]} with text of the event"
    return f"{words[0]}, which may run or install the pull request's files"


def _names_of(around: tuple[Node, ...], step: Node) -> frozenset[str]:
    return frozenset(name for node in (*around, step) for name in mapping_at(node, "env"))


def _names(script: str, folder: str) -> bool:
    return folder == "" or re.search(rf"(^|[\s/'\"=]){re.escape(folder)}\b", script) is not None


def _is_harmless(command: Command, machine: Machine, folder: str | None) -> bool:
    """Whether a command neither runs nor installs files from where it starts."""
    words = [word.text for word in command.words]
    words = words[1:] if words[:1] == ["sudo"] else words
    if words[:2] in (["python", "-m"], ["python3", "-m"]):
        module = joined(folder, words[2]) if folder is not None and words[2:] else None
        if machine.holds(folder) or machine.holds(module):
            return False
        words = words[2:]
    if not words:
        return False
    written = words[1:] if words[:1] == ["tee"] else command.written
    if not all(map(_STARTS_NOTHING.fullmatch, written)):
        return False
    if words[0] in _INSTALLERS:
        return not command.assigned and all(map(_FROM_INDEX.fullmatch, words[1:]))
    if words[0] == "git":
        return words[1:2] != [] and words[1] in _GIT_READS
    if words[0] == "jq":
        return not any(word.startswith(("-f", "--from-file", "-L")) for word in words)
    return words[0] in _HARMLESS
