"""What counts as the gate: a step that runs the gate command, or a call of a gate workflow."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from runci.config.taxonomy import Workflows
from runci.read.yamlpos import Node
from runci.workflows.find import Pattern
from runci.workflows.model import mapping_at, text_of_node, value_of
from runci.workflows.runs import local_path
from runci.workflows.shell import commands
from runci.workflows.values import OneOf, Partial, spread

# Anything that could write the step's output in the command's place, or swallow its exit status.
_MORE_THAN_A_COMMAND = re.compile(r"[|&;<>`!(){}]|\$\{\{")
_STARTERS = frozenset({"python", "python3", "-m", "uv", "run", "pipx"})
_NOT_DECIDING = frozenset({"--explain", "--help", "-h", "--host"})
_VARIABLE = re.compile(r"\$(\w+)")
# The runner sets these, and nobody else chooses them, as they do a branch's name or their own.
_HARMLESS = re.compile(
    r"\$(RUNNER_\w+|GITHUB_(RUN_\w+|SHA|OUTPUT|STEP_SUMMARY|WORKSPACE|EVENT_PATH|EVENT_NAME))\b"
)
# A shell that runs the script and nothing else; `bash -n {0}` or `bash -c ... {0}` does not.
_SHELL = re.compile(
    r"(bash|sh)?|(bash|sh)( (-[eux]*o pipefail|-[elux]+|--(noprofile|norc)))* \{0\}"
)
# What decides which program a command starts, or what that program does first.
_STEERS = re.compile(
    r"PATH|(BASH_)?ENV|BASH_FUNC_.*|(SHELL|BASH)OPTS|(LD|DYLD|PYTHON)_?[A-Z_]+|NODE_OPTIONS|ACTIONS_ALLOW_UNSECURE_COMMANDS"
    # What it asks, and whether the answer is GitHub's; a token is nobody's but GitHub's.
    r"|(?i:(HTTPS?|ALL|NO)_PROXY)|(REQUESTS|CURL)_CA_BUNDLE|SSL_CERT_(FILE|DIR)|HOME|NETRC"
    r"|GITHUB_(?!TOKEN$)[A-Z_]+"
)


@dataclass(frozen=True, slots=True)
class Gates:
    """What counts as a gate.

    `patterns` of commands, `calls` of workflows, `actions` as a step `uses` them, `environments`
    whose reviewers approve each job; `output` is the one in which commands and actions answer.
    """

    patterns: tuple[Pattern, ...]
    calls: frozenset[str]
    output: str
    actions: frozenset[str] = frozenset()
    environments: frozenset[str] = frozenset()

    @classmethod
    def of(cls, settings: Workflows) -> Gates:
        """The gates that suites.yml names."""
        kinds: dict[str, list[str]] = {"call": [], "uses": [], "environment": [], "": []}
        for gate in settings.gates:
            kind, _, name = gate.partition(" ")
            if kind in ("uses", "environment"):
                kinds[kind].append(name.strip())
            else:
                kinds["call" if re.search(r"\.ya?ml(@\S+)?$", gate) else ""].append(gate)
        ours = ["runci gate"] if settings.action else []
        commands_ = dict.fromkeys((*kinds[""], *ours))
        patterns = tuple(Pattern.of(_without_starters(command)) for command in commands_)
        calls, actions, environments = (
            frozenset(kinds[kind]) for kind in ("call", "uses", "environment")
        )
        return cls(patterns, calls, settings.gate_output, actions, environments)

    def mentions(self, step: Node) -> bool:
        """Whether a step starts a gate command, in whatever company, or is a gate's action."""
        if self._is_action(step):
            return True
        text = text_of_node(step.get("run"))
        return any(p.end(c.words, "") is not None for c in commands(text) for p in self.patterns)

    def is_step(self, step: Node) -> bool:
        """Whether a step is a gate: it runs the command and nothing else, or the action."""
        if self._is_action(step):
            return True
        lines = [line.split(" #")[0].strip() for line in text_of_node(step.get("run")).splitlines()]
        text = "\n".join(t for t in lines if not re.match(r"#|set -|$", t)).replace("\\\n", " ")
        if not is_plain_shell(text_of_node(step.get("shell"))) or _MORE_THAN_A_COMMAND.search(text):
            return False
        found = commands(text)
        if len(found) != 1 or found[0].assigned:
            return False
        words = [word.text for word in found[0].words]
        if any(_may_not_decide(word, step) for word in words):
            return False
        return any(self._starts(words, pattern) for pattern in self.patterns)

    def read_from(self, step: Node) -> Iterator[str]:
        """The paths, from where a step starts, of what its gate commands run; none if on PATH."""
        if (path := local_path(text_of_node(step.get("uses")))) is not None:
            yield path
        for command in commands(text_of_node(step.get("run"))):
            words = [word.text for word in command.words]
            first = next((i for i, word in enumerate(words) if word not in _STARTERS), 0)
            if first or (words and _is_beside(words[0])):
                yield words[first]

    @staticmethod
    def _starts(words: list[str], pattern: Pattern) -> bool:
        first = next((i for i, word in enumerate(words) if word not in _STARTERS), len(words))
        rest = [word.rpartition("/")[2] if i == 0 else word for i, word in enumerate(words[first:])]
        return tuple(rest[: len(pattern.words)]) == pattern.clues

    def _is_action(self, step: Node) -> bool:
        return text_of_node(step.get("uses")) in self.actions

    def is_environment(self, job: Node) -> bool:
        """Whether a job waits for the reviewers of an environment that is a gate."""
        name = job.get("environment", "name") or job.get("environment")
        return text_of_node(name) in self.environments

    def is_call(self, uses: str) -> bool:
        """Whether `uses:` of a job calls a gate workflow."""
        return (local_path(uses) or uses) in self.calls

    def denied(self) -> Partial:
        """The `steps.ID` of a gate that did not say yes: it said no, or was never asked."""
        return Partial({"outputs": Partial({self.output: OneOf(("false", ""))})})


def _without_starters(command: str) -> str:
    words = command.split()
    return " ".join(itertools.dropwhile(_STARTERS.__contains__, words)) or command


def _is_beside(program: str) -> bool:
    """Whether a program is named by its path from the folder or the workspace."""
    path = re.sub(r"\$\{\{\s*github\.workspace\s*\}\}|\$\{?(GITHUB_WORKSPACE|PWD)\}?", ".", program)
    return "/" in path and not path.startswith(("/", "~", "$"))


def is_plain_shell(shell: str) -> bool:
    """Whether a shell does nothing but run the script of a step."""
    return _SHELL.fullmatch(shell) is not None


def steering(node: Node) -> tuple[str, ...]:
    """The variables, also of a job's container, with which another program could answer for it."""
    names = (*mapping_at(node, "env"), *mapping_at(node, "container", "env"))
    return tuple(name for name in names if _STEERS.fullmatch(name))


def _may_not_decide(word: str, step: Node) -> bool:
    """Whether a word is an option with which the command decides nothing, or a variable that is."""
    word = _HARMLESS.sub("x", word)
    variable = _VARIABLE.fullmatch(word)
    if variable is None:
        if "$" in word:
            return True  # its text could end the word and begin another
        name = word.partition("=")[0]
        return len(name) > 1 and any(option.startswith(name) for option in _NOT_DECIDING)
    node = step.get("env", variable[1])
    values = spread(value_of(node, {})) if node is not None else (None,)
    return any(
        not isinstance(value, str)
        or any("$" in part or _may_not_decide(part, step) for part in value.split())
        for value in values
    )
