"""From what a repository has to the suites that it should have. Pure."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from runci.adopt.cover import cover, is_test_folder, roots_of, whole
from runci.adopt.hardware import NO_SIGN, Clue, Guess, decide
from runci.adopt.list_files import RanSuite
from runci.adopt.lists import BY_HAND, Left, Listed, ListOfTests, Places, convert, slug
from runci.adopt.machines import Machine, machine_of
from runci.adopt.pytest_files import Collected, PytestSettings, is_named
from runci.adopt.registered import OfCalls, of_calls
from runci.adopt.spread import OnMachine, spread
from runci.core.paths import is_below
from runci.core.registration import Backend, Registration
from runci.workflows.runs import PathRun

NOBODY = "nobody yet: no runner with a GPU was found"
BESIDE = "stands among GPU tests"


@dataclass(frozen=True, slots=True)
class FileFact:
    """What is read of one test file. `registers`: it has registration calls of its own.

    `unread` says why nothing could be read of it; `empty`: it has no test; `names` are those of the
    tests that may be in it. `calls` are its registrations, `modules` where their markers come from;
    `script`: it runs itself where Python runs it.
    """

    path: str
    clues: tuple[Clue, ...] = ()
    marks: tuple[tuple[str, ...], ...] = ((),)
    several: bool = False
    registers: bool = False
    unread: str = ""
    empty: bool = False
    names: frozenset[str] = frozenset("*")
    calls: tuple[Registration, ...] = ()
    modules: frozenset[str] = frozenset()
    script: bool = False


@dataclass(frozen=True, slots=True)
class Ran:
    """Tests that a job runs by path today. `workflow` is the one that an event starts."""

    workflow: str
    run: PathRun


@dataclass(frozen=True, slots=True)
class Facts:
    """What `init` read.

    `jobs` are the jobs that say where they run, as (workflow, job); of those in `unknown` only a
    run knows the runner. `others` are other services whose settings are there, `scripts` shell
    scripts that call pytest, `branch` is the default branch. `lists` are lists of tests that stand
    elsewhere, `left` what of them cannot be read, `beside` the Python files that are no tests.
    `started` says what workflows run of suites that calls name.
    """

    settings: PytestSettings
    files: Collected
    tests: tuple[FileFact, ...]
    machines: tuple[Machine, ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()
    runs: tuple[Ran, ...] = ()
    jobs: frozenset[tuple[str, str]] = frozenset()
    others: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    branch: str = "main"
    workflows: int = 0
    lists: tuple[ListOfTests, ...] = ()
    left: tuple[Left, ...] = ()
    beside: frozenset[str] = frozenset()
    started: Mapping[str, RanSuite] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Suite:
    """One suite to write. `globs` with what each stands for; `marked` as (expression, files).

    `machine` is None on GitHub's own; `run_by` says who runs it where no workflow will. `listed` is
    what it was made of where lists have it: then they decide its name, GPUs and tests. `own_name`
    is for all but the first suite of a backend. `of_calls` is a suite that calls in files name.
    """

    backend: Backend
    files: tuple[str, ...]
    globs: tuple[str, ...]
    marked: tuple[tuple[str, tuple[str, ...]], ...] = ()
    machine: Machine | None = None
    run_by: str = ""
    listed: Listed | None = None
    own_name: str = ""
    of_calls: OfCalls | None = None

    @property
    def key(self) -> tuple[Backend, str]:
        """What tells it from all others: two backends may have suites of one name."""
        return self.backend, self.name

    @property
    def name(self) -> str:
        """The suite's."""
        for made in (self.listed, self.of_calls):
            if made is not None:
                return made.name
        return self.own_name or self.backend.value


@dataclass(frozen=True, slots=True)
class Proposal:
    """What runci.yml will say. `exclude` are files that pytest leaves alone, as globs.

    `beside` are roots that are no folders of tests: most of their files are something else. `left`
    is what of lists no suite has, `modules` where markers come from. `github`: a part runs, or can,
    on GitHub Actions; not where another service has settings and no workflow is there.
    """

    roots: tuple[str, ...]
    test_files: tuple[str, ...]
    exclude: tuple[str, ...]
    suites: tuple[Suite, ...]
    guesses: Mapping[str, Guess]
    beside: tuple[str, ...] = ()
    left: tuple[Left, ...] = ()
    modules: tuple[str, ...] = ()
    github: bool = True


def propose(facts: Facts, gpu_runner: tuple[str, ...] = ()) -> Proposal:
    """Suites that take every test file. `gpu_runner` are labels that somebody names."""
    machines = (machine_of(gpu_runner), *facts.machines) if gpu_runner else facts.machines
    with_gpu = [one for one in machines if one.backend not in (None, Backend.CPU)]
    if gpu_runner and with_gpu[:1] != [machines[0]]:  # what nobody can tell by its name
        named = Machine(gpu_runner, Backend.CUDA, machines[0].label, 1)
        with_gpu = [named, *with_gpu]
    if not gpu_runner:  # a file for any GPU goes to NVIDIA's, whatever has more jobs
        with_gpu.sort(key=lambda one: one.backend is not Backend.CUDA)
    guesses = guess_all(facts, with_gpu)
    listed, unlisted = convert(facts.lists, _places(facts), _backends(facts, guesses))
    # What somebody runs by hand says nothing of where the tests belong.
    taken = frozenset(p for one in listed if one.by != BY_HAND for p in one.paths)
    rest = {path: guess for path, guess in guesses.items() if path not in taken}
    tests = [test.path for test in facts.tests]
    roots = roots_of(tests)
    github = bool(facts.workflows or gpu_runner or not facts.others)
    left = [path for path, _ in facts.files.skipped if is_below(path, roots)]
    of_names = tuple(_registered(facts, with_gpu))
    used = {one.key for one in of_names}
    return Proposal(
        roots,
        tuple(p for p in facts.settings.python_files if any(is_named(t, (p,)) for t in tests)),
        whole(left, tests),
        (
            *_with_names(_suites(facts, rest, with_gpu, github=github), used),
            *of_names,
            *_with_names((_of_lists(one, tests) for one in listed), used),
        ),
        guesses,
        tuple(root for root in roots if not is_test_folder(root)),
        (*facts.left, *unlisted),
        tuple(sorted({module for test in facts.tests for module in test.modules})),
        github,
    )


def _places(facts: Facts) -> Places:
    tests = {test.path: test.names for test in facts.tests}
    return Places(tests, facts.beside, {test.path: test.marks for test in facts.tests})


def _backends(facts: Facts, guesses: Mapping[str, Guess]) -> dict[str, Backend]:
    found = {path: guess.backends[0] for path, guess in guesses.items()}
    return {test.path: found.get(test.path, Backend.CPU) for test in facts.tests}


def _registered(facts: Facts, machines: Sequence[Machine]) -> Iterator[Suite]:
    """The suites that calls name: those that no workflow starts get a job, or nobody runs them."""
    calls = {test.path: test.calls for test in facts.tests}
    scripts = [test.path for test in facts.tests if test.script]
    for one in of_calls(calls, scripts, facts.started):
        machine = next((own for own in machines if own.backend is one.backend), None)
        nobody = "" if one.backend is Backend.CPU or machine else NOBODY
        run_by = one.ran.by if one.ran is not None else nobody
        yield Suite(one.backend, one.files, (), (), machine, run_by, of_calls=one)


def _of_lists(listed: Listed, tests: Sequence[str]) -> Suite:
    globs = cover(listed.files, set(tests).difference(listed.files))
    return Suite(
        listed.backend,
        tuple(sorted(listed.paths)),
        globs,
        listed.marked,
        None,
        listed.by,
        listed,
    )


def _with_names(suites: Iterable[Suite], used: set[tuple[Backend, str]]) -> Iterator[Suite]:
    """The same with names that no other suite of their backend has; calls cannot change theirs."""
    for suite in suites:
        others = (f"{suite.name}-{number}" for number in itertools.count(2))
        names = itertools.chain([suite.name], others)
        name = next(one for one in names if (suite.backend, one) not in used)
        used.add((suite.backend, name))
        if suite.listed is not None:
            yield replace(suite, listed=replace(suite.listed, name=name))
        else:
            yield replace(suite, own_name=name)


def guess_all(facts: Facts, machines: Sequence[Machine]) -> dict[str, Guess]:
    """A guess for each file; those that register themselves are left out.

    A file without a sign of a GPU in a folder most of whose files have one goes with them: on a
    GPU it passes too, while a test that needs one fails without.
    """
    backends = list(dict.fromkeys(one.backend for one in machines if one.backend is not None))
    by_job: dict[tuple[str, str], set[Backend | None]] = {}
    for machine in facts.machines:
        for job in machine.jobs:
            by_job.setdefault(job, set()).add(machine.backend)
    for job in facts.jobs.difference(by_job, facts.unknown):
        by_job[job] = {Backend.CPU}
    found: dict[str, Guess] = {}
    for test in facts.tests:
        if not test.registers:
            on = {
                backend
                for ran in facts.runs
                if not ran.run.chosen and ran.run.covers(test.path)
                for backend in _backends_of(ran, by_job)
            }
            told = {backend for backend in on if backend is not None}
            elsewhere = None in on
            found[test.path] = decide(test.path, test.clues, test.marks, told, backends, elsewhere)
    near: dict[str, list[Guess]] = {}
    for path, guess in found.items():
        near.setdefault(path.rpartition("/")[0], []).append(guess)
    most = {folder: _most(guesses) for folder, guesses in near.items() if folder}
    return {path: _beside(path, guess, most) for path, guess in found.items()}


def _backends_of(
    ran: Ran, by_job: Mapping[tuple[str, str], set[Backend | None]]
) -> set[Backend | None]:
    """What the job of a run has; a script's job is one of the workflow that calls it."""
    called = (ran.run.path, ran.run.job)
    return by_job.get(called if called in by_job else (ran.workflow, ran.run.job), set())


def _most(guesses: Sequence[Guess]) -> tuple[Backend, ...]:
    """On what the files of a folder run, where most of them want a GPU."""
    gpu = Counter(one.backends for one in guesses if Backend.CPU not in one.backends)
    return gpu.most_common(1)[0][0] if sum(gpu.values()) * 2 > len(guesses) else ()


def _beside(path: str, guess: Guess, most: Mapping[str, tuple[Backend, ...]]) -> Guess:
    if guess.backends != (Backend.CPU,) or guess.why != NO_SIGN:
        return guess
    backends = most.get(path.rpartition("/")[0], ())
    return Guess(backends, f"{NO_SIGN}, but {BESIDE}") if backends else guess


def _suites(
    facts: Facts, guesses: Mapping[str, Guess], machines: Sequence[Machine], *, github: bool
) -> list[Suite]:
    tests = [test.path for test in facts.tests]
    used = {backend for guess in guesses.values() for backend in guess.backends}
    used |= {Backend.CPU for guess in guesses.values() if guess.mixed}
    found = []
    for backend in Backend:
        if backend not in used:
            continue
        mine = [p for p, guess in guesses.items() if backend in guess.backends and not guess.mixed]
        mixed = _marked(backend, guesses)
        own = [one for one in machines if one.backend is backend]
        if own:
            runs = [(ran.workflow, ran.run) for ran in facts.runs]
            spread_ = spread(mine, runs, own, {test.path: test.marks for test in facts.tests})
            if mixed:
                spread_.setdefault(own[0], OnMachine())
            for machine, on in spread_.items():
                marked = tuple((text, tuple(paths)) for text, paths in on.marked.items())
                name = "" if machine is own[0] else slug(f"{backend.value}-{machine.name}")
                with_mixed = (*marked, *mixed) if machine is own[0] else marked
                found.append(_suite(backend, on.files, with_mixed, tests, machine, name=name))
        else:
            here = github and backend is Backend.CPU
            nobody = "" if here else " and ".join(facts.others) or NOBODY
            found.append(_suite(backend, mine, mixed, tests, None, nobody))
    return found


def _suite(
    backend: Backend,
    files: Sequence[str],
    marked: tuple[tuple[str, tuple[str, ...]], ...],
    tests: Sequence[str],
    machine: Machine | None,
    run_by: str = "",
    name: str = "",
) -> Suite:
    globs = cover(files, set(tests).difference(files))
    every = (*files, *(path for _, group in marked for path in group))
    return Suite(backend, every, globs, marked, machine, run_by, own_name=name)


def _marked(
    backend: Backend, guesses: Mapping[str, Guess]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The files of which a suite has the tests with some marks, by the expression."""
    groups: dict[str, list[str]] = {}
    for path, guess in guesses.items():
        if guess.mixed and (backend in guess.backends or backend is Backend.CPU):
            either = " or ".join(guess.mixed)
            negated = f"not ({either})" if len(guess.mixed) > 1 else f"not {either}"
            expression = either if backend in guess.backends else negated
            groups.setdefault(expression, []).append(path)
    return tuple((expression, tuple(files)) for expression, files in groups.items())
