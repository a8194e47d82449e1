"""What `init` says: found, written, not known, and what to do next. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from runci.adopt.hardware import ON_BOTH, ON_CPU
from runci.adopt.jobs import runs_here
from runci.adopt.lists import BY_HAND, Left, sources_of
from runci.adopt.machines import Machine
from runci.adopt.propose import BESIDE, NOBODY, Facts, Proposal, Suite
from runci.adopt.registered import is_nameable
from runci.adopt.workflow_text import NO_ACTION, WORKFLOW_LABELS, needs_gate
from runci.adopt.write import WORKFLOW, Change, Unwritten
from runci.core.registration import Backend
from runci.text.terminal import printable, wrap
from runci.text.wording import plural, some


class Asked(NamedTuple):
    """The action, whether nothing was to be written, and the options that were given."""

    action: str
    dry: bool = False
    options: tuple[str, ...] = ()


def report(
    facts: Facts,
    proposal: Proposal,
    changes: Sequence[Change | Unwritten],
    asked: Asked,
    width: int,
) -> str:
    """All of it, for people, in lines of `width` columns."""
    parts = [
        ("Found", _found(facts, proposal)),
        ("Would write" if asked.dry else "Wrote", _wrote(changes, len(runs_here(proposal)))),
        ("Not as in the lists", _left(proposal.left)),
        ("Could not know", _unknown(facts, proposal, asked)),
        ("Next", _next(proposal, asked)),
    ]
    return "\n".join(
        f"{title}:\n" + "".join(f"  {line}\n" for line in lines)
        for title, found in parts
        if (lines := [part for text in found for part in lines_of(text, width - 2)])
    )


def lines_of(text: str, width: int) -> list[str]:
    """Printable lines of a text, later ones indented. An indented line of it stays whole: it is a
    command or a file's text, to be copied.
    """
    found: list[str] = []
    for line in map(printable, text.split("\n")):
        if line.startswith((" ", "runci ", "git ")):
            found.append(line)
            continue
        first, *rest = wrap(line, width - 4)
        found += [first, *(f"    {one}" for one in rest)]
    return found


def _found(facts: Facts, proposal: Proposal) -> Iterator[str]:
    settings = facts.settings
    by = f", by {settings.source}" if settings.source else ""
    yield f"{plural(len(facts.tests), 'test files')} below {', '.join(proposal.roots)}{by}"
    for suite in proposal.suites:
        who = suite.run_by if suite.run_by == BY_HAND else f"by {suite.run_by}"
        where = f"run {who}" if suite.run_by else _machine(suite.machine)
        source = f", from {sources_of(suite.listed)}" if suite.listed is not None else ""
        yield f"suite {suite.name}: {plural(len(suite.files), 'files')}, {where}{source}"
    if settings.markers:
        yield f"marks of {settings.source}: {some(settings.markers, 8)}"
    if facts.workflows:
        yield plural(facts.workflows, "workflows")
    listed = [suite for suite in proposal.suites if suite.listed is not None]
    if listed:
        in_lists = {path for suite in listed for path in suite.files}
        rest = len(facts.tests) - len(in_lists)
        yield f"lists have {len(in_lists):,} of the test files; {rest:,} in none"
    for machine in facts.machines:
        yield f"runner {machine.runs_on} of {plural(len(machine.jobs), 'jobs')}"
    for path in dict.fromkeys(ran.run.path for ran in facts.runs):
        found = [ran.run for ran in facts.runs if ran.run.path == path]
        runs = {run.target or ".": None for run in found}
        says = "may run" if all(run.chosen for run in found) else "runs"
        yield f"{path} {says} tests by their paths: {some(list(runs))}"
    if facts.others:
        yield f"settings of {', '.join(facts.others)}"
    if facts.scripts:
        yield f"scripts with pytest: {some(facts.scripts)}"
    for why in dict.fromkeys(why for _, why in facts.files.skipped):
        paths = [path for path, other in facts.files.skipped if other == why]
        yield f"left out, {why}: {some(paths)}"


def _left(left: Sequence[Left]) -> Iterator[str]:
    """What of lists no suite has, each reason once a file, with all lines."""
    for path, why in dict.fromkeys((one.path, one.why) for one in left):
        these = [one for one in left if (one.path, one.why) == (path, why)]
        lines = ",".join(dict.fromkeys(str(one.line) for one in these))
        yield f"{path}:{lines}: {some(list(dict.fromkeys(one.text for one in these)))}: {why}"


def _machine(machine: Machine | None) -> str:
    return f"on {machine.runs_on}" if machine is not None else "on GitHub's machines"


def _wrote(changes: Sequence[Change | Unwritten], suites: int) -> Iterator[str]:
    for one in changes:
        if isinstance(one, Change) and one.path == WORKFLOW:
            lines = len(one.after.splitlines())
            yield f"{one.path} ({lines} lines, a job for each of {plural(suites, 'suites')})"
        elif isinstance(one, Change):
            yield f"{one.path}{'' if one.before is None else ' (one entry added)'}"
        else:
            added = "".join(f"\n    {line}" for line in one.add.splitlines())
            yield f"not {one.path}: it {one.why}{added}"


def _unknown(facts: Facts, proposal: Proposal, asked: Asked) -> Iterator[str]:
    yield from _unknown_tests(facts, proposal)
    nowhere = [suite.name for suite in proposal.suites if suite.run_by == NOBODY]
    if nowhere:
        yield (
            f"the runner of suite {some(nowhere)}: no workflow names one. Put its labels here:\n"
            f"  {_again(asked, '--gpu-runner', 'self-hosted,LABEL')}"
        )
    yield from _unknown_machines(facts, proposal)
    if runs_here(proposal):
        yield f"what the tests need to be installed: {WORKFLOW} says where to write it"
    if asked.action == NO_ACTION and proposal.github:
        yield (
            f"which repository has the action: {NO_ACTION.partition('@')[0]} is none. Name it:\n"
            f"  {_again(asked, '--action', 'OWNER/runci@COMMIT')}"
        )


def _again(asked: Asked, *more: str) -> str:
    """The command with another option; what was written goes first, since it would stay."""
    remove = "" if asked.dry else f"rm runci.yml {WORKFLOW} && "
    return f"{remove}{shlex.join(('runci', 'init', *asked.options, *more))}"


def _unknown_tests(facts: Facts, proposal: Proposal) -> Iterator[str]:
    for test in facts.tests:
        if test.unread:
            yield f"{test.path}: {test.unread}"
    beside = [path for path, guess in proposal.guesses.items() if BESIDE in guess.why]
    if beside:
        yield f"whether these need a GPU, as their neighbours do: {some(beside)}"
    moved = [
        path
        for path, guess in proposal.guesses.items()
        if ON_CPU in guess.why and Backend.CPU not in guess.backends
    ]
    both = [path for path, guess in proposal.guesses.items() if guess.why == ON_BOTH]
    if both:
        yield (
            "whether these need a GPU: they show no sign of one and are in a suite without, but "
            f"jobs with a GPU run them today, too: {some(both)}"
        )
    if moved:
        yield f"whether these need the GPU they ask for; they run on a CPU today: {some(moved)}"
    parts = _parts(proposal)
    if parts:
        yield f"whether the other tests of these, of which lists have a part, run: {some(parts)}"
    several = [test.path for test in facts.tests if test.several]
    if several:
        yield f"how many GPUs these want; it may be more than one: {some(several)}"
    odd = [test.path for test in facts.tests if not all(map(is_nameable, test.calls))]
    if odd:
        yield f"suites for calls that name none as suites are named; correct them: {some(odd)}"
    own = [test.path for test in facts.tests if test.registers and not test.calls]
    if own:
        yield f"the suites of files whose calls register nothing: {some(own)}"


def _parts(proposal: Proposal) -> list[str]:
    """The files of which suites have some tests alone, as lists say."""
    whole = {path for suite in proposal.suites for path in _whole(suite)}
    listed = [suite.listed for suite in proposal.suites if suite.listed is not None]
    return sorted({path for one in listed for path in one.paths} - whole)


def _whole(suite: Suite) -> tuple[str, ...]:
    return suite.files if suite.listed is None else suite.listed.files


def _unknown_machines(facts: Facts, proposal: Proposal) -> Iterator[str]:
    unsaid = [one.runs_on for one in facts.machines if one.backend is None]
    if unsaid:
        yield f"what these runners have; no suite uses them: {some(unsaid)}"
    if facts.unknown:
        jobs = [f"{path} ({job})" for path, job in facts.unknown]
        yield f"which runner these jobs get; only a run knows: {some(jobs)}"
    gpus = [one for one in facts.machines if one.backend not in (None, Backend.CPU)]
    used = {suite.machine for suite in proposal.suites}
    planned = {suite.backend for suite in proposal.suites}
    several = len(gpus) > len({one.backend for one in gpus})
    unused = [
        one.runs_on for one in gpus if one not in used and (several or one.backend not in planned)
    ]
    if unused:
        yield f"which tests need these; no job surely says so: {some(unused)}"


def _next(proposal: Proposal, asked: Asked) -> Iterator[str]:
    if asked.dry:
        yield shlex.join(("runci", "init", *asked.options))
        return
    yield "runci check         # each says what to do; --write-baseline accepts today's"
    yield "runci plan --all    # how many test files each suite runs, in how many jobs"
    for service in ("Buildkite", "GitLab"):
        if any(service in suite.run_by for suite in proposal.suites):
            command = f"runci plan --all --format {service.lower()}"
            yield f"{command}    # its pipeline, once runci.yml has its label"
    once = (
        f"    # once {WORKFLOW} names an action"
        if asked.action == NO_ACTION and proposal.github
        else ""
    )
    yield f"git add --all && git commit{once}"
    if needs_gate(proposal):
        yield (
            f"on GitHub, create the labels {' and '.join(WORKFLOW_LABELS)}; give .github/ and "
            "runci.yml owners (CODEOWNERS); require the check finish"
        )
        yield (
            "in an organisation, limit the runner group to one workflow (docs/action.md); of a "
            "personal account nothing but the approval of outside contributors, and the hook on "
            "the host, stands between a pull request that edits its workflow and the runner"
        )
