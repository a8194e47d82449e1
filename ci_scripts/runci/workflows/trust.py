"""Whether the program that a gate's step starts is ours, or can be the pull request's.

The steps before it are followed: what is checked out where, and whether anything of it, or a text
of the event, can put another program in the gate's place. What a script does is not known: where
files of the pull request lie on the machine, only commands that run none of them are harmless.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from runci.read.yamlpos import Node
from runci.workflows.conditions import condition
from runci.workflows.evaluate import can_be
from runci.workflows.gates import Gates, is_plain_shell
from runci.workflows.model import Document, mapping_at, steps_of, text_of_node, value_of
from runci.workflows.origins import (
    foreign_variables,
    is_ours,
    mentions,
    own_inputs,
    runs_own_commit,
)
from runci.workflows.outputs import MAX_ACTIONS, action_inputs, action_of
from runci.workflows.runs import local_path
from runci.workflows.shell import Command, commands
from runci.workflows.values import Contexts, spread


@dataclass(frozen=True, slots=True, order=True)
class Doubt:
    """Why a gate's answer may be the pull request's: the key that says so, and what it does."""

    path: str
    line: int
    column: int
    text: str


@dataclass(frozen=True, slots=True)
class Machine:
    """A job's machine after some steps.

    `foreign` are the folders, from the workspace, with files of the pull request ('' is all of
    it); `doubts` are reasons why a program found there may be its own; `asked` are those that
    there were when a gate was asked.
    """

    foreign: frozenset[str] = frozenset()
    doubts: tuple[Doubt, ...] = ()
    asked: tuple[Doubt, ...] = ()

    def holds(self, path: str | None) -> bool:
        """Whether a path from the workspace may be the pull request's; None: it is not known."""
        if path is not None and path.startswith(("/", "~", "$")):
            return False
        if path is None or "" in self.foreign:
            return bool(self.foreign)
        return any(f"{path}/".startswith(f"{folder}/") for folder in self.foreign)


def doubts(
    document: Document,
    job: Node,
    contexts: Contexts,
    documents: Mapping[str, Document],
    gates: Gates,
) -> tuple[Doubt, ...]:
    """What speaks against the gates of a job, on one event. `contexts` are the job's."""
    walk = _Walk(documents, gates, (document.root, job))
    if not walk.has_gate(job, 0):
        return ()
    image = job.get("container", "image") or job.get("container")
    machine = Machine()
    if image is not None and not is_ours(text_of_node(image), contexts):
        found = _doubt(document, job, "container", "a container that the event names")
        machine = replace(machine, doubts=(found,))
    return tuple(sorted(set(walk.steps(document, job, contexts, machine, 0).asked)))


def _doubt(document: Document, node: Node, key: str, text: str) -> Doubt:
    return Doubt(document.path, *node.keys.get(key, (node.line, node.column)), text)


@dataclass(frozen=True, slots=True)
class _Walk:
    """Follows the steps of one job. `around` are the nodes whose `env` and `defaults` hold."""

    documents: Mapping[str, Document]
    gates: Gates
    around: tuple[Node, ...]

    def has_gate(self, node: Node, depth: int) -> bool:
        """Whether a gate is asked among steps, also in local actions."""
        for step in steps_of(node):
            action = action_of(step, self.documents)
            runs = action.root.get("runs") if action is not None and depth < MAX_ACTIONS else None
            if self.gates.mentions(step) or (runs is not None and self.has_gate(runs, depth + 1)):
                return True
        return False

    def steps(
        self, document: Document, node: Node, contexts: Contexts, machine: Machine, depth: int
    ) -> Machine:
        for step in steps_of(node):
            holds = condition(step.get("if"))
            if holds is not None and not can_be(True, holds, contexts):
                continue
            if self.gates.mentions(step):
                machine = self._asked(document, step, contexts, machine)
            elif step.get("run") is not None:
                machine = self._ran(document, step, contexts, machine)
            else:
                machine = self._used(document, step, contexts, machine, depth)
        return machine

    def _asked(
        self, document: Document, step: Node, contexts: Contexts, machine: Machine
    ) -> Machine:
        folder = self._folder(step, contexts)
        beside = any(
            machine.holds(None if folder is None else _joined(folder, path))
            for path in self.gates.read_from(step)
        )
        said = "a program of the pull request's checkout"
        own = (_doubt(document, step, "run", said),) if beside else ()
        return replace(machine, asked=(*machine.asked, *machine.doubts, *own))

    def _folder(self, step: Node, contexts: Contexts) -> str | None:
        """Where a step starts, from the workspace; None where that is not known."""
        written = step.get("working-directory")
        for node in reversed(self.around):
            written = written or node.get("defaults", "run", "working-directory")
        values = spread(value_of(written, contexts)) if written is not None else ("",)
        text = values[0]
        return _joined("", text) if len(values) == 1 and isinstance(text, str) else None

    def _used(
        self, document: Document, step: Node, contexts: Contexts, machine: Machine, depth: int
    ) -> Machine:
        uses = text_of_node(step.get("uses"))
        if uses.lower().startswith("actions/checkout@"):
            return _checked_out(step, contexts, machine)
        path, action = local_path(uses), action_of(step, self.documents)
        if path is None:
            said = _says_of_others(step, uses, contexts, machine)
        else:
            taken = uses.startswith("./") and machine.holds(path)
            said = "an action of the pull request's checkout" if taken else ""
        if said:
            found = _doubt(document, step, "uses", said)
            machine = replace(machine, doubts=(*machine.doubts, found))
        runs = action.root.get("runs") if action is not None else None
        if action is None or runs is None or depth >= MAX_ACTIONS:
            return machine
        defaults = {
            n: d for n, node in action.declared("inputs").items() if (d := node.get("default"))
        }
        given = {**defaults, **mapping_at(step, "with")}
        inputs = own_inputs(action_inputs(step, action, contexts), given, contexts)
        scope = {"github": contexts["github"], "inputs": inputs}
        inside = replace(self, around=(self.around[0], self.around[1], step))
        return inside.steps(action, runs, scope, machine, depth + 1)

    def _ran(self, document: Document, step: Node, contexts: Contexts, machine: Machine) -> Machine:
        variables = foreign_variables((*self.around, step), contexts)
        said = _says_of_script(step, variables, contexts, machine, self._folder(step, contexts))
        if not said:
            return machine
        return replace(machine, doubts=(*machine.doubts, _doubt(document, step, "run", said)))


def _joined(folder: str, path: str) -> str:
    found = posixpath.normpath(posixpath.join(folder, re.sub(_WORKSPACE, "", path)))
    return "" if found == "." else found


_WORKSPACE = (
    r"^(\$GITHUB_WORKSPACE|\$\{GITHUB_WORKSPACE\}|\$PWD|\$\{\{\s*github\.workspace\s*\}\})/?"
)
_ARTIFACT = re.compile(r"download-artifact|/cache(/restore)?@")
_RUNS = frozenset({"args", "cmd", "command", "entrypoint", "inlinescript", "run", "script"})
_CACHES = frozenset({"cache", "enable-cache"})


def _checked_out(step: Node, contexts: Contexts, machine: Machine) -> Machine:
    given = {name.lower(): node for name, node in mapping_at(step, "with").items()}
    path = given.get("path")
    folders = spread(value_of(path, contexts)) if path is not None else ("",)
    known = len(folders) == 1 and isinstance(folders[0], str)
    folder = _joined("", str(folders[0])) if known else ""
    if not _is_own_checkout(given, contexts):
        return replace(machine, foreign=machine.foreign | {folder})
    if not known or text_of_node(given.get("clean")) == "false":
        return machine
    left = {f for f in machine.foreign if folder and not f"{f}/".startswith(f"{folder}/")}
    return replace(machine, foreign=frozenset(left))


def _is_own_checkout(given: Mapping[str, Node], contexts: Contexts) -> bool:
    repository, ref = text_of_node(given.get("repository")), text_of_node(given.get("ref"))
    if not (is_ours(repository, contexts) and is_ours(ref, contexts)) or "pull/" in ref:
        return False
    node = given.get("ref")
    values = spread(value_of(node, contexts)) if node is not None else ("",)
    other = repository != "" and "${{" not in repository
    return all(value for value in values) or other or runs_own_commit(contexts)


def _says_of_others(step: Node, uses: str, contexts: Contexts, machine: Machine) -> str:
    """What a step with an action of others may do for the pull request, else ''."""
    given = {name.lower(): text_of_node(n) for name, n in mapping_at(step, "with").items()}
    cached = any(given.get(name, "").lower() not in ("", "false") for name in _CACHES)
    if cached or _ARTIFACT.search(uses):
        return "files that another job of the pull request can have written"
    scripts = [text for name, text in given.items() if name in _RUNS]
    if not all(is_ours(text, contexts) for text in scripts):
        return "a script with text of the event"
    return "a script that may run the pull request's files" if scripts and machine.foreign else ""


# Commands that run no file and write none but those that they are told to.
_HARMLESS = frozenset(
    (
        *(
            ":",
            "[",
            "[[",
            "cat",
            "cd",
            "cut",
            "date",
            "declare",
            "df",
            "diff",
            "do",
            "done",
            "echo",
        ),
        *("egrep", "esac", "exit", "export", "false", "fi", "for", "free", "grep", "head"),
        *("hostname", "id", "ls", "mkdir", "nproc", "printf", "pwd", "read", "return", "set"),
        *("sha256sum", "sleep", "sort", "stat", "tail", "tee", "test", "tr", "true", "uname"),
        *("uniq", "wc", "which", "whoami"),
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
_STEERING_FILE = re.compile(r"GITHUB_(ENV|PATH)\b")
_OTHERS_REF = re.compile(r"\bpull/|FETCH_HEAD|HEAD\^2")
_FETCHES = (("gh", "pr", "checkout"), ("gh", "pr", "diff"), ("gh", "run", "download"))


def _says_of_script(
    step: Node, variables: frozenset[str], contexts: Contexts, machine: Machine, folder: str | None
) -> str:
    """What a script may do for the pull request, else ''."""
    script = text_of_node(step.get("run"))
    if not is_ours(script, contexts):
        return "a script with text of the event"
    steers = _STEERING_FILE.search(script) is not None
    if not is_plain_shell(text_of_node(step.get("shell"))):
        if machine.foreign or (steers and any(name in script for name in variables)):
            return "a script that may run the pull request's files"
        return ""
    near = machine.holds(folder) or any(_names(script, folder) for folder in machine.foreign)
    known = set(variables)
    for command in commands(script):
        words = [word.text for word in command.words]
        text = " ".join((*words, *(value for _, value in command.assigned)))
        told = mentions(text, known)
        if told:
            known.update(name for name, _ in command.assigned)
        if tuple(words[:3]) in _FETCHES or (words[:1] == ["git"] and _OTHERS_REF.search(text)):
            return f"{' '.join(words[:3])}, which gets files of the pull request"
        if steers and _STEERING_FILE.search(text) and (near or told or mentions(script, known)):
            return "GITHUB_ENV or GITHUB_PATH, which decide what later steps start"
        if told and words and not _is_harmless(command, machine, folder):
            return f"{words[0]} with text of the event"
        if near and words and not _is_harmless(command, machine, folder):
            return f"{words[0]}, which may run or install the pull request's files"
    return ""


def _names(script: str, folder: str) -> bool:
    return folder == "" or re.search(rf"(^|[\s/'\"=]){re.escape(folder)}\b", script) is not None


def _is_harmless(command: Command, machine: Machine, folder: str | None) -> bool:
    """Whether a command neither runs nor installs files from where it starts."""
    words = [word.text for word in command.words]
    words = words[1:] if words[:1] == ["sudo"] else words
    if words[:2] in (["python", "-m"], ["python3", "-m"]):
        module = _joined(folder, words[2]) if folder is not None and words[2:] else None
        if machine.holds(folder) or machine.holds(module):
            return False
        words = words[2:]
    if not words:
        return False
    written = words[1:] if words[:1] == ["tee"] else command.written
    if not all(map(_stays, written)):
        return False
    if words[0] in _INSTALLERS:
        return not command.assigned and all(map(_FROM_INDEX.fullmatch, words[1:]))
    if words[0] == "git":
        return words[1:2] != [] and words[1] in _GIT_READS
    if words[0] == "jq":
        return not any(word.startswith(("-f", "--from-file", "-L")) for word in words)
    return words[0] in _HARMLESS


def _stays(target: str) -> bool:
    """Whether a file that is written is in the workspace, or one that starts nothing."""
    if re.fullmatch(r"/dev/null|\$\{?GITHUB_(OUTPUT|STEP_SUMMARY)\}?|-a", target):
        return True
    return not re.match(r"[/~$`]", target) and ".." not in target
