"""Which steps of a last job fail for what was skipped before it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from runci.read.yamlpos import Node
from runci.workflows.conditions import SKIPPED, condition
from runci.workflows.evaluate import can_be
from runci.workflows.find import Pattern, options
from runci.workflows.gates import is_plain_shell
from runci.workflows.model import (
    Document,
    action_of,
    mapping_at,
    needs_of,
    steps_of,
    text_of_node,
    value_of,
)
from runci.workflows.outputs import MAX_ACTIONS, action_inputs
from runci.workflows.shell import Word, commands, resolve
from runci.workflows.values import Contexts, Partial, Value, spread, text_of
from runci.workflows.verdict import deciding

_RESULT = "needs.JOB.result"  # stands for every result, so that what holds one can be told
_GREEN = re.compile(r"\b(success|skipped)\b", re.IGNORECASE)
_ASKS = re.compile(
    r"\.result[^\n]*(success|skipped)|(success|skipped)['\"]?[^\n]*\.result", re.IGNORECASE
)
_VERIFY, _NEEDS = Pattern.of("runci verify"), Pattern.of("runci needs")
# Programs that fail for nothing that they read, and those that look for a text only.
_SAYS = frozenset(
    (
        *(":", "cat", "cd", "cp", "date", "declare", "done", "echo", "env", "esac", "export", "fi"),
        *(
            "for",
            "ls",
            "mkdir",
            "mv",
            "printf",
            "pwd",
            "rm",
            "set",
            "sleep",
            "tee",
            "touch",
            "true",
        ),
    )
)
_ENDS = frozenset({"exit", "return", "false"})
_SEARCHES = frozenset({"[", "[[", "awk", "case", "egrep", "grep", "jq", "sed", "test"})

Chain = tuple[tuple[Document, Node], ...]


def looking(document: Document, job: Node, documents: Mapping[str, Document]) -> Iterator[Chain]:
    """Each such step: the steps of the job and of its actions on the way to it, then itself."""
    needed: dict[str, Value] = {n: {"result": _RESULT, "outputs": {}} for n in needs_of(job)}
    variables = {**_env(document.root, {}), **_env(job, {"needs": needed})}
    contexts: dict[str, Value] = {"needs": needed, "needed": needed, "env": Partial(variables)}
    shell = job.get("defaults", "run", "shell") or document.root.get("defaults", "run", "shell")
    yield from _steps(document, (job, shell), contexts, documents, ())


def _env(node: Node, contexts: Contexts) -> dict[str, Value]:
    return {name: value_of(value, contexts) for name, value in mapping_at(node, "env").items()}


def _steps(
    document: Document,
    where: tuple[Node, Node | None],
    contexts: Contexts,
    documents: Mapping[str, Document],
    above: Chain,
) -> Iterator[Chain]:
    node, default_shell = where
    env = contexts["env"]
    for step in steps_of(node):
        holds = condition(step.get("if"))
        if holds is not None and not can_be(True, holds, _skipped(contexts)):
            continue  # it does not run where the jobs before it were skipped
        chain = (*above, (document, step))
        known = env if isinstance(env, dict) else {}
        inside = {**contexts, "env": Partial({**known, **_env(step, contexts)})}
        action = action_of(step, documents)
        runs = action.root.get("runs") if action is not None else None
        if action is not None and runs is not None and len(above) < MAX_ACTIONS:
            scope = {
                "inputs": action_inputs(step, action, inside),
                "env": inside["env"],
                "needed": contexts["needed"],
            }
            yield from _steps(action, (runs, None), scope, documents, chain)
        elif _looks(step, text_of_node(step.get("shell") or default_shell), inside):
            yield chain


def _skipped(contexts: Contexts) -> Contexts:
    """What a step reads after jobs that were all skipped, and so have no outputs."""
    needed = contexts.get("needs")
    names = needed if isinstance(needed, dict) else {}
    return (
        {"needs": {name: Partial({"result": SKIPPED, "outputs": {}}) for name in names}}
        if names
        else {}
    )


def _looks(step: Node, shell: str, contexts: Contexts) -> bool:
    asks = _ASKS.search(text_of_node(step.get("if"))) is not None
    run = step.get("run")
    if run is None:
        handed = [value_of(node, contexts) for node in mapping_at(step, "with").values()]
        return asks or _holds(handed, contexts)
    script = text_of_node(run)
    if not (shell in ("bash", "sh") or is_plain_shell(shell)):
        return asks or _holds([value_of(run, contexts)], contexts)
    text = "\n".join(" ".join(w.text for w in c.words) for c in commands(script))
    green = asks or _ASKS.search(text) is not None or _asks_for_green(script)
    given = _ASKS.search(text) is not None or _holds([value_of(run, contexts)], contexts)
    return any(
        verdict
        if (verdict := _verdict(words, contexts)) is not None
        else (given and words[0] not in _ENDS and _judges(words, green))
        or (asks and words[0] not in _SAYS and words[:2] != ("exit", "0"))
        for words in deciding(script, shell)
    )


def _holds(values: list[Value], contexts: Contexts) -> bool:
    """Whether results of jobs stand in one of the values, or in a variable."""
    variables = contexts["env"]
    known = [*values, *(variables.values() if isinstance(variables, dict) else ())]
    return any(_RESULT in text_of(choice) for value in known for choice in spread(value))


def _asks_for_green(script: str) -> bool:
    """Whether a command that is not only an output names the ends that are not failures."""
    found = (c.words for c in commands(script) if c.words and c.words[0].text not in _SAYS)
    return any(_GREEN.search(word.text) for words in found for word in words)


def _judges(words: tuple[str, ...], green: bool) -> bool:
    name = words[0].rpartition("/")[2]
    if name == "jq" and not any(re.fullmatch(r"-\w*e\w*|--exit-status", word) for word in words):
        return False
    return name not in _SAYS and (green or name not in _SEARCHES)


def _verdict(words: tuple[str, ...], contexts: Contexts) -> bool | None:
    """Whether `runci verify` or `needs` says more than that all is excused; None: neither."""
    known = tuple(Word(word, 0) for word in words)
    verifies = _VERIFY.end(known, "") is not None
    if words[0] in _SAYS or not (verifies or _NEEDS.end(known, "") is not None):
        return None
    if verifies or {"-h", "--help"}.intersection(words):
        return not {"-h", "--help"}.intersection(words)
    excused = {
        name.strip().lower()
        for word in options(known, ("--may-skip", "--may-fail"))
        for value in resolve(word.text, contexts, {})
        for name in text_of(value).split(",")
    }
    needed = contexts["needed"]
    jobs = {name.lower() for name in needed} if isinstance(needed, dict) else set()
    return not jobs or not jobs <= excused
