"""The text of runci.yml for a proposal, with comments that say why. Pure."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence

from runci.adopt.cover import takes, whole
from runci.adopt.lists import slug, sources_of
from runci.adopt.propose import Proposal, Suite
from runci.adopt.registered import OfCalls
from runci.config.taxonomy import EXCLUDED, OUT
from runci.core.globs import escaped
from runci.core.labels import Group, Label
from runci.core.registration import Backend
from runci.text.terminal import printable
from runci.text.wording import plural

CPU_LABEL = "ubuntu-latest"
MINUTES = {Backend.CPU: 30}
GPU_MINUTES = 60
WIDTH = 100  # of a line that holds a list
_HEAD = """\
# Which tests this repository has, and where they run. Written by `runci init`, from what it read:
# no more than a guess where it says so. It is yours now; init changes it no more.
# `runci schema` prints what may stand here.
version: 1
"""


def minutes(suite: Suite) -> int:
    """How long a suite's tests may take: a guess."""
    return MINUTES.get(suite.backend, GPU_MINUTES)


def taxonomy_text(proposal: Proposal, action: str) -> str:
    """The whole file."""
    return _HEAD + "".join(f"{line}\n" for line in _lines(proposal, action))


def _lines(proposal: Proposal, action: str) -> Iterator[str]:
    yield from _listed("roots:", proposal.roots)
    yield from _listed("test_files:", proposal.test_files)
    if proposal.exclude:
        why = "  # pytest does not collect them"
        yield from _listed("exclude:", (*EXCLUDED, *proposal.exclude), why)
    if proposal.modules and proposal.modules != ("runci",):
        yield from _listed("marker_modules:", proposal.modules)
    if proposal.beside:
        yield f"folder_rules: [{', '.join(map(_rule, proposal.beside))}]"
    if proposal.github:
        yield f"workflows: {{action: {action.partition('@')[0]}}}  # its steps are runci's commands"
    yield ""
    yield "# `runci doctor` compares machines with this; add gpu, compute_capability and memory_gb."
    yield "runners:"
    names = runner_names(proposal)
    lines = {
        names[suite.name]: f"  {names[suite.name]}: {_runner(suite)}"
        for suite in reversed(proposal.suites)
    }
    yield from (lines[name] for name in dict.fromkeys(names.values()))
    yield ""
    yield "# Minutes are guesses: `runci plan --times RESULTS` plans by measured ones."
    yield "suites:"
    for backend in dict.fromkeys(suite.backend for suite in proposal.suites):
        yield f"  {backend.value}:"
        for suite in proposal.suites:
            runner = names[suite.name]
            yield from _suite(suite, proposal, runner) if suite.backend is backend else ()


def _rule(root: str) -> str:
    """No finding for the many files of a folder that pytest does not collect."""
    folder = "**" if root == "." else f"{escaped(root)}/**"
    return f"{{folder: {_text(folder)}, ignore: [RT306], because: most files here are no tests}}"


def runner_names(proposal: Proposal) -> dict[str, str]:
    """The name below `runners:` of each suite's; different ones never share it."""
    found: dict[str, str] = {}
    said: dict[str, str] = {}
    pairs = [one for one in proposal.suites if one.of_calls and one.of_calls.stage]
    for suite in pairs:  # their calls say the name
        found[suite.name] = _runner_name(suite)
        said.setdefault(_runner_name(suite), _runner(suite).partition("  #")[0])
    for suite in proposal.suites:
        if suite.name in found:
            continue
        stem, runner = _runner_name(suite), _runner(suite).partition("  #")[0]
        names = itertools.chain([stem], (f"{stem}-{number}" for number in itertools.count(2)))
        name = next(one for one in names if said.setdefault(one, runner) == runner)
        found[suite.name] = name
    return found


def _runner_name(suite: Suite) -> str:
    if suite.listed is not None:
        several = f"-{suite.listed.gpus}gpu" if suite.listed.gpus > 1 else ""
        return slug(f"{_name(suite.listed.label) or suite.backend.value}-list{several}")
    if suite.of_calls is not None:
        ran = suite.of_calls.ran
        return suite.of_calls.runner_config or slug((ran and _name(ran.label)) or suite.name)
    if suite.machine is None or suite.machine.name == Backend.CPU.value:
        return suite.name
    return suite.machine.name


def _runner(suite: Suite) -> str:
    if suite.listed is not None:
        one = suite.listed
        label = _label(one.label or suite.backend.value)
        label = f"[{', '.join(map(_text, one.labels))}]" if one.labels else label
        said = "" if one.label else " that names none: the label is made up"
        return f"{{label: {label}, gpus: {one.gpus}, execution: pytest}}  # of a list{said}"
    if suite.of_calls is not None:
        return _runner_of_calls(suite, suite.of_calls)
    if suite.backend is Backend.CPU:
        if suite.run_by:
            return "{label: cpu, execution: pytest}  # the label is made up"
        return f"{{label: {CPU_LABEL}, execution: pytest}}"
    if suite.machine is None:
        return (
            "{label: gpu, gpus: 1, execution: pytest}  # the label is made up: no job here uses it"
        )
    machine = suite.machine
    said = f"{{label: {_label(machine.declared)}, gpus: {machine.gpus}, execution: pytest}}"
    return f"{said}  # {printable(machine.runs_on)}"


def _runner_of_calls(suite: Suite, made: OfCalls) -> str:
    """By the job that runs it today; else the first machine of its backend, or GitHub's."""
    told: Label = CPU_LABEL
    gpus, said = 0, ""
    if suite.backend is not Backend.CPU:
        told, gpus, said = suite.backend.value, 1, "  # the label is made up: no job says it"
    if made.ran is not None and made.ran.label:
        told, gpus, said = made.ran.label, made.ran.gpus or 0, f"  # of {printable(made.ran.by)}"
    elif suite.machine is not None:
        told, gpus = suite.machine.declared, suite.machine.gpus
        said = "  # a guess: no job says it"
    return f"{{label: {_label(told)}, gpus: {gpus}, execution: {made.execution.value}}}{said}"


def _suite(suite: Suite, proposal: Proposal, runner: str) -> Iterator[str]:
    listed = suite.listed
    source = f"  # from {printable(sources_of(listed))}" if listed is not None else ""
    made = suite.of_calls
    if made is not None and made.stage:
        yield f"    - stage: {_text(made.stage)}"
        yield f"      runner_configs: {_flow([made.runner_config])}"
    else:
        yield f"    - name: {suite.name}{source}"
        yield f"      runner: {runner}"
    of_kind = listed or made
    yield f"      kind: {of_kind.kind.value if of_kind is not None else 'per-commit'}"
    if suite.run_by and not (made is not None and made.ran is not None):  # the lint sees who does
        yield f"      run_by: {_text(suite.run_by)}"
    yield f"      timeout_minutes: {minutes(suite)}"
    if made is not None:
        return
    yield "      tests:"
    for at, glob in enumerate(suite.globs):
        why = _why(suite.globs, at, proposal) if listed is None else ""
        yield f"        - {_text(glob)}{why}"
    for path, test in listed.tests if listed is not None else ():
        yield f"        - {_text(f'{escaped(path)}::{test}')}"
    for expression, files in suite.marked:
        taken = _plain(files, proposal)
        line = f"        - {{files: {_flow(taken)}, marked: {expression}}}"
        if len(line) <= WIDTH:
            yield line
            continue
        yield f"        - marked: {expression}"
        yield from (f"          {part}" for part in _listed("files:", taken))


def _plain(files: Sequence[str], proposal: Proposal) -> tuple[str, ...]:
    return whole(files, [path for path in proposal.guesses if path not in set(files)])


def _why(globs: Sequence[str], at: int, proposal: Proposal) -> str:
    """How many files an entry is about, and what most of them have in common."""
    glob = globs[at]
    about = [path for path in proposal.guesses if takes((glob.removeprefix(OUT),), path)]
    if not glob.startswith(OUT):
        about = [path for path in about if takes(globs, path)]
    else:
        about = [path for path in about if not takes(globs, path)]
    reasons = Counter(_kind_of(proposal.guesses[path].why) for path in about)
    if not reasons:
        return ""
    why, count = reasons.most_common(1)[0]
    if len(about) == 1:
        return f"  # {printable(proposal.guesses[about[0]].why)}"
    most = "" if count == len(about) else f" ({count})"
    return f"  # {plural(len(about), 'files')}: {printable(why)}{most}"


def _kind_of(why: str) -> str:
    """The reason without its line, so that those of many files can be counted."""
    return why.partition(": ")[2] if why.startswith("line ") else why


def _listed(key: str, texts: Sequence[str], why: str = "") -> Iterator[str]:
    """A key with a list: on one line where that is short, else a line each."""
    line = f"{key} {_flow(texts)}"
    if len(line) <= WIDTH:
        yield f"{line}{why}"
        return
    yield f"{key}{why}"
    yield from (f"  - {_text(text)}" for text in texts)


def _name(label: Label) -> str:
    """The one that tells most: a label before its group."""
    if isinstance(label, Group):
        return label.labels[0] if label.labels else label.group
    return label if isinstance(label, str) else label[0]


def _label(label: Label) -> str:
    if not isinstance(label, Group):
        return _text(label) if isinstance(label, str) else _flow(label)
    labels = f", labels: {_flow(label.labels)}" if label.labels else ""
    return f"{{group: {_text(label.group)}{labels}}}"


def _flow(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(_text, texts))}]"


def _text(text: str) -> str:
    """A YAML scalar: plain where that is safe, else in double quotes."""
    safe = text.replace("-", "").replace("_", "").replace("/", "").replace(".", "")
    if safe.isalnum() and safe.isascii() and text[0].isalpha() and text.lower() not in _NOT_TEXT:
        return text
    return json.dumps(text, ensure_ascii=False)


_NOT_TEXT = frozenset(("true", "false", "yes", "no", "on", "off", "y", "n", "null"))
