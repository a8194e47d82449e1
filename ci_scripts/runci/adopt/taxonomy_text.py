"""The text of runci.yml for a proposal, with comments that say why. Pure."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from runci.adopt.cover import is_path, taker, whole
from runci.adopt.jobs import job_names
from runci.adopt.lists import slug, sources_of
from runci.adopt.propose import Proposal, Suite
from runci.adopt.registered import OfCalls
from runci.config.taxonomy import EXCLUDED, OUT
from runci.core.globs import escaped
from runci.core.labels import Group, Label
from runci.core.registration import Backend
from runci.text.terminal import printable
from runci.text.wording import plural
from runci.text.yaml import scalar

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
        yield _workflows(proposal, action)
    yield ""
    yield "# `runci doctor` compares machines with this; add gpu, compute_capability and memory_gb."
    yield "runners:"
    names = runner_names(proposal)
    lines: dict[str, str] = {}
    # Where calls of several suites name one runner, the first on GPUs says it, else the first.
    for suite in sorted(proposal.suites, key=lambda one: one.backend is Backend.CPU):
        name = names[suite.key]
        lines.setdefault(name, f"  {scalar(name)}: {_runner(suite)}")
    yield from (lines[name] for name in dict.fromkeys(names.values()))
    yield ""
    yield "# Minutes are guesses: `runci plan --times RESULTS` plans by measured ones."
    yield "suites:"
    for backend in dict.fromkeys(suite.backend for suite in proposal.suites):
        yield f"  {backend.value}:"
        for suite in proposal.suites:
            runner = names[suite.key]
            yield from _suite(suite, proposal, runner) if suite.backend is backend else ()


def _workflows(proposal: Proposal, action: str) -> str:
    """What the workflow is made of, and its jobs that are not called as their suites are."""
    jobs = [
        f"{scalar(job)}: {_flow([name])}"
        for (_, name), job in job_names(proposal).items()
        if job != name
    ]
    named = f", jobs: {{{', '.join(jobs)}}}" if jobs else ""
    told = f"{{action: {action.partition('@')[0]}{named}}}"
    return f"workflows: {told}  # its steps are runci's commands"


def _rule(root: str) -> str:
    """No finding for the many files of a folder that pytest does not collect."""
    folder = "**" if root == "." else f"{escaped(root)}/**"
    return f"{{folder: {scalar(folder)}, ignore: [RT306], because: most files here are no tests}}"


def runner_names(proposal: Proposal) -> dict[tuple[Backend, str], str]:
    """The name below `runners:` of each suite's; different ones never share it."""
    found: dict[tuple[Backend, str], str] = {}
    said: dict[str, str] = {}
    pairs = [one for one in proposal.suites if one.of_calls and one.of_calls.stage]
    for suite in pairs:  # their calls say the name
        found[suite.key] = _runner_name(suite)
        said.setdefault(_runner_name(suite), _runner(suite).partition("  #")[0])
    for suite in proposal.suites:
        if suite.key in found:
            continue
        stem, runner = _runner_name(suite), _runner(suite).partition("  #")[0]
        names = itertools.chain([stem], (f"{stem}-{number}" for number in itertools.count(2)))
        name = next(one for one in names if said.setdefault(one, runner) == runner)
        found[suite.key] = name
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
        label = f"[{', '.join(map(scalar, one.labels))}]" if one.labels else label
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
        yield f"    - stage: {scalar(made.stage)}"
        yield f"      runner_configs: {_flow([made.runner_config])}"
    else:
        yield f"    - name: {scalar(suite.name)}{source}"
        yield f"      runner: {scalar(runner)}"
    of_kind = listed or made
    yield f"      kind: {of_kind.kind.value if of_kind is not None else 'per-commit'}"
    if suite.run_by and not (made is not None and made.ran is not None):  # the lint sees who does
        yield f"      run_by: {scalar(suite.run_by)}"
    yield f"      timeout_minutes: {minutes(suite)}"
    if made is not None:
        return
    yield "      tests:"
    for at, glob in enumerate(suite.globs):
        why = _why(suite.globs, at, proposal) if listed is None else ""
        yield f"        - {scalar(glob)}{why}"
    for path, test in listed.tests if listed is not None else ():
        yield f"        - {scalar(f'{escaped(path)}::{test}')}"
    for expression, files in suite.marked:
        taken, marked = _plain(files, proposal), _marks(expression)
        line = f"        - {{files: {_flow(taken)}, marked: {marked}}}"
        if len(line) <= WIDTH:
            yield line
            continue
        yield f"        - marked: {marked}"
        yield from (f"          {part}" for part in _listed("files:", taken))


def _plain(files: Sequence[str], proposal: Proposal) -> tuple[str, ...]:
    return whole(files, set(proposal.guesses).difference(files))


def _why(globs: Sequence[str], at: int, proposal: Proposal) -> str:
    """How many files an entry is about, and what most of them have in common."""
    out, glob = globs[at].startswith(OUT), globs[at].removeprefix(OUT)
    if is_path(glob):
        about = [glob] if glob in proposal.guesses else []
    else:
        takes = taker(globs)
        matching = filter(taker((glob,)), proposal.guesses)
        about = [path for path in matching if takes(path) is not out]
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
    yield from (f"  - {scalar(text)}" for text in texts)


def _name(label: Label) -> str:
    """The one that tells most: a label before its group."""
    if isinstance(label, Group):
        return label.labels[0] if label.labels else label.group
    return label if isinstance(label, str) else label[0]


def _label(label: Label) -> str:
    if not isinstance(label, Group):
        return scalar(label) if isinstance(label, str) else _flow(label)
    labels = f", labels: {_flow(label.labels)}" if label.labels else ""
    return f"{{group: {scalar(label.group)}{labels}}}"


def _flow(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(scalar, texts))}]"


def _marks(expression: str) -> str:
    """An expression of marks; several words, which are no value of another type, stand plain."""
    several = r"[A-Za-z_][A-Za-z0-9_]*[ (][A-Za-z0-9_ ()]*[A-Za-z0-9_)]"
    return expression if re.fullmatch(several, expression) else scalar(expression)
