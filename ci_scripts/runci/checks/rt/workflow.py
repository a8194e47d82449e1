"""Suites that no workflow runs, workflows that run nothing, torn process groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from runci.checks.rule import REGISTERED, Tree, TreeRule, by_path_words
from runci.config.taxonomy import OUT, Taxonomy
from runci.core.finding import Finding, Level
from runci.core.globs import matches
from runci.core.marks import compiled
from runci.core.registration import Backend, Registration
from runci.core.source import at
from runci.read.testfile import TestFile
from runci.text.wording import nearest
from runci.workflows.runs import PartRun, PathRun, SuiteRun, SuiteRuns

_TESTS = (
    "# test/suites.yml\nversion: 1\nroots: [test/registered]\n"
    "runners:\n  cpu: {{label: ubuntu-latest, execution: pytest}}\n"
    "suites:\n  cpu:\n    - stage: base-a\n      runner_configs: [cpu]\n      kind: per-commit\n"
    "      tests: [{}]\n\n"
    "# test/registered/gemm/test_gemm.py\n{}def test_gemm():\n    assert 1 + 1 == 2"
)


# A file, its registration, what runs it by path, and whether that surely runs it whole.
_Member = tuple[str, Registration, "PathRun | None", bool]


def suite_never_run(tree: Tree) -> Iterator[Finding]:
    """One finding at each such registration, and one at each workflow line that hides a suite."""
    if tree.suite_runs is None:
        return
    yield from _unread(tree.suite_runs)
    messages: dict[tuple[Backend, str], str | None] = {}
    declared: dict[tuple[Backend, str], list[_Member]] = {}
    for path, registrations in tree.registrations.items():
        for registration in registrations:
            key = (registration.backend, registration.effective_suite)
            if key not in messages:
                messages[key] = _never_run(tree, tree.suite_runs, *key)
            message = messages[key]
            if not message or not registration.enabled or tree.taxonomy.runs_elsewhere(path):
                continue
            run = tree.by_path(path)
            whole = run is not None and run.whole and _of_one_backend(registrations)
            if registration.declared:  # many files, one line to mend
                declared.setdefault(key, []).append((path, registration, run, whole))
            elif not whole:
                yield Finding(
                    path,
                    registration.span,
                    "RT205",
                    message + by_path_words(run),
                    f"Run the suite in a workflow, or register where one runs; {_SAY_WHO} in "
                    f"{tree.taxonomy.path}.",
                    key=registration.effective_suite,
                    level=Level.NOTE if run is not None else Level.ERROR,
                )
    for key, members in declared.items():
        if not all(whole for _, _, _, whole in members):
            yield _declared(tree.taxonomy, str(messages[key]), members)


_SAY_WHO = "where something else runs it, say so with `run_by`"


def _declared(taxonomy: Taxonomy, message: str, members: Sequence[_Member]) -> Finding:
    """Where suites.yml itself says which files a suite has, it is the place."""
    never = [one for one in members if one[2] is None]
    part = [one for one in members if not one[3]]
    path, registration, run, _ = (never or part)[0]
    if never and len(never) < len(members):
        more = f": {len(never)} of its {len(members)} files are named by no step, such as {path}"
    else:
        more = ": its `tests` never run" if never else f": {path}{by_path_words(run)}"
    return Finding(
        taxonomy.path,
        at(registration.declared),
        "RT205",
        message + more,
        f"Run the suite in a workflow; {_SAY_WHO}.",
        key=registration.effective_suite,
        level=Level.ERROR if never else Level.NOTE,
    )


def _of_one_backend(registrations: Iterable[Registration]) -> bool:
    """Whether a step that runs the file by path can only mean this backend."""
    return len({one.backend for one in registrations if one.enabled}) == 1


def _never_run(tree: Tree, runs: SuiteRuns, backend: Backend, name: str) -> str | None:
    suite = tree.taxonomy.suite(backend, name)
    if suite is None or suite.run_by is not None or runs.starts(backend, name):
        return None  # a suite that is not declared is RT201
    run = {run.suite for run in runs.runs if run.resolved and run.backend in (None, backend)}
    hint = nearest(name, sorted(run)).replace("did you mean", "one runs")
    return f"no workflow runs {backend.value} suite {name!r}{hint.rstrip('?')}"


def _unread(runs: SuiteRuns) -> Iterator[Finding]:
    for broken in runs.broken:
        yield Finding(
            broken.path,
            at(broken.line),
            "RT205",
            f"this workflow cannot be used: {broken.message}",
            "Mend the file: no suite that it names counts as run.",
            key=broken.message,
        )
    for place in runs.unresolved:
        if place.typed:
            message = f"{place.expression} is typed by hand: counts as running no suite"
        else:
            message = f"cannot know which suites {place.expression} names: counts as running all"
        yield Finding(
            place.path,
            at(place.line),
            "RT205",
            message,
            "Name the suites in a matrix, as an input of a called workflow, or as the options of "
            "a choice.",
            key=place.expression,
            level=Level.NOTE,
        )


SUITE_NEVER_RUN = TreeRule(
    id="RT205",
    name="suite-never-run",
    summary="An enabled registration is in a suite that no workflow runs.",
    reason="The test looks registered but never runs. (Workflows are read through called "
    "workflows, composite actions, matrices, shell scripts and the root's Makefile. A file that a "
    "step runs by its path is run; a note says so where that may be a part of it, on another "
    "backend, or by a script of which only a run knows the name. "
    "What somebody types when starting a workflow counts as nothing. A suite "
    "with `run_by` in suites.yml, or a file under `run_by` there, is left alone.)",
    bad="# .github/workflows/pr-test.yml\n"
    "      - run: runci run --hw cpu --suite base-a-test-cpu\n\n"
    "# test/registered/unit/test_linear.py\n"
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-b", runner_config="cpu")',
    good="# .github/workflows/pr-test.yml\n"
    "      - run: runci run --hw cpu --suite base-a-test-cpu\n"
    "      - run: runci run --hw cpu --suite base-b-test-cpu\n\n"
    "# test/registered/unit/test_linear.py\n"
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-b", runner_config="cpu")',
    check=suite_never_run,
)


def members_match_nothing(tree: Tree) -> Iterator[Finding]:
    """One finding at each entry of a suite's `tests` that takes no test."""
    taxonomy = tree.taxonomy
    for suite in taxonomy.suites.values():
        for entry in suite.tests:
            globs = tuple(glob.removeprefix(OUT) for glob in entry.files)
            files = [file for file in tree.files if matches(file.path, globs)]
            shown = " ".join(entry.files) + (f"::{entry.test}" if entry.test else "")
            if not files:
                message = f"{shown} matches no test file"
            elif entry.marked and not any(_may_be(entry.marked, file) for file in files):
                message = f"no test of {shown} is marked {entry.marked}"
            else:
                continue
            yield Finding(
                taxonomy.path,
                at(entry.line),
                "RT210",
                f"{message}: suite {suite.name} takes nothing from it",
                "Correct the glob or the marks, or take the entry out.",
                key=f"{suite.name}: {message}",
            )


def _may_be(marked: str, file: TestFile) -> bool:
    return any(compiled(marked)(marks) is not False for marks in file.marks)


MEMBERS_MATCH_NOTHING = TreeRule(
    id="RT210",
    name="members-match-nothing",
    summary="An entry under `tests` of a suite takes no test.",
    reason="The name is wrong, or the tests are gone: the suite seems larger than it is.",
    bad=_TESTS.format("test/registered/gemms/**", f"{REGISTERED}\n\n\n"),
    good=_TESTS.format("test/registered/gemm/**", ""),
    check=members_match_nothing,
)

Counts = dict[tuple[Backend, str], list[int]]


def suite_without_tests(tree: Tree) -> Iterator[Finding]:
    """One finding at each place that names such a suite."""
    if tree.suite_runs is None:
        return
    counts = _count(tree)
    seen: set[tuple[str, int, str, Backend | None, bool | None]] = set()
    known = {run.command for run in tree.suite_runs.runs if run.nightly}
    for run in tree.suite_runs.runs:
        place = (run.path, run.line, run.suite, run.backend, run.nightly)
        if not run.resolved or place in seen:
            continue
        seen.add(place)
        message = _message(run, tree, counts) or _nightly(run, tree, run.command in known)
        if message:
            yield Finding(
                run.path,
                at(run.line),
                "RT206",
                message,
                "Correct the name or the flags, register a test, or drop the job: a job without "
                "tests proves nothing.",
                key=run.suite,
            )


def _count(tree: Tree) -> Counts:
    """How many registrations of each suite are enabled, and how many disabled."""
    counts: Counts = {}
    for registrations in tree.registrations.values():
        for registration in registrations:
            key = (registration.backend, registration.effective_suite)
            counts.setdefault(key, [0, 0])[not registration.enabled] += 1
    return counts


def _message(run: SuiteRun, tree: Tree, counts: Counts) -> str | None:
    backends = (run.backend,) if run.backend else tuple(Backend)
    declared = [s for b in backends if (s := tree.taxonomy.suite(b, run.suite))]
    registered = [counts[b, run.suite] for b in backends if (b, run.suite) in counts]
    if any(suite.run_by is not None for suite in declared) or any(on for on, _ in registered):
        return None
    called = f"{run.backend.value} suite {run.suite!r}" if run.backend else f"suite {run.suite!r}"
    if disabled := sum(off for _, off in registered):
        return f"{called} runs no test: all {disabled} of its registrations are disabled"
    if declared:
        return f"{called} runs no test: none is registered in it"
    known = (name for b in backends for name in tree.taxonomy.names(b) if (b, name) in counts)
    return f"{called} does not exist{nearest(run.suite, dict.fromkeys(known))}"


def _nightly(run: SuiteRun, tree: Tree, known: bool) -> str | None:
    """What is wrong with `--nightly`, or without it where the command is `known` to have it.

    With it a command takes nightly registrations only, without it only others.
    """
    backends = (run.backend,) if run.backend else tuple(Backend)
    flags = [
        one.nightly
        for registrations in tree.registrations.values()
        for one in registrations
        if one.backend in backends and one.effective_suite == run.suite and one.enabled
    ]
    if flags and run.nightly and not any(flags):
        return f"suite {run.suite!r} runs no test: --nightly takes none of its {len(flags)}"
    if flags and run.nightly is False and known and all(flags):
        return f"suite {run.suite!r} runs no test: all its {len(flags)} need --nightly"
    return None


SUITE_WITHOUT_TESTS = TreeRule(
    id="RT206",
    name="suite-without-tests",
    summary="A workflow runs a suite that has no enabled test, or none that its flags take.",
    reason="The job is green, or fails, whatever the code does: the name is wrong, or its tests "
    "are gone. (A command that some workflow starts with `--nightly` takes nightly registrations "
    "with it, and only others without.)",
    bad="# .github/workflows/pr-test.yml\n"
    "      - run: runci run --hw cpu --suite base-a-tests-cpu\n\n"
    f"# test/registered/unit/test_linear.py\n{REGISTERED}",
    good="# .github/workflows/pr-test.yml\n"
    "      - run: runci run --hw cpu --suite base-a-test-cpu\n\n"
    f"# test/registered/unit/test_linear.py\n{REGISTERED}",
    check=suite_without_tests,
)


def process_group_across_suites(tree: Tree) -> Iterator[Finding]:
    """One finding at each member that is not in the suite of most members."""
    groups: dict[tuple[str, str], list[tuple[str, Registration]]] = defaultdict(list)
    for path, registrations in tree.registrations.items():
        for registration in registrations:
            if registration.in_process_group and registration.enabled:
                key = (registration.backend.value, registration.in_process_group)
                groups[key].append((path, registration))
    for (backend, group), members in groups.items():
        suites = [registration.effective_suite for _, registration in members]
        usual = max(dict.fromkeys(suites), key=suites.count)
        for path, registration in members:
            suite = registration.effective_suite
            if suite != usual:
                home = next(p for p, r in members if r.effective_suite == usual)
                yield Finding(
                    path,
                    registration.span,
                    "RT207",
                    f"in_process_group={group!r} is in {backend} suite {usual} (see {home}), "
                    f"but this registration is in {suite}",
                    "Files of a group share one process, so they share one suite: use the same "
                    "suite, or another group name.",
                    key=f"{group}:{suite}",
                )


PROCESS_GROUP_ACROSS_SUITES = TreeRule(
    id="RT207",
    name="process-group-across-suites",
    summary="Files of one `in_process_group` register in different suites.",
    reason="Files of a group run in one process. Different suites run on different machines, so "
    "the group is torn and each part runs without what it relies on.",
    bad="# test_a.py\n"
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu", in_process_group="llm")\n\n'
    "# test_b.py\n"
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-b", runner_config="cpu", in_process_group="llm")',
    good="# test_a.py\n"
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu", in_process_group="llm")\n\n'
    "# test_b.py\n"
    "from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu", in_process_group="llm")',
    check=process_group_across_suites,
)

Parts = dict[tuple[str, str, Backend | None, int], list[PartRun]]


def part_never_started(tree: Tree) -> Iterator[Finding]:
    """One finding at each suite of a workflow of which parts are missing, or out of range."""
    together: Parts = {}
    counts: dict[tuple[str, int], set[int]] = defaultdict(set)
    for part in tree.suite_runs.parts if tree.suite_runs is not None else ():
        key = (part.path, part.suite, part.backend, part.count)
        together.setdefault(key, []).append(part)
        counts[part.path, part.line].add(part.count)
    for (path, suite, _, count), parts in together.items():
        # Where a command has several counts, which part belongs to which is not known.
        sure = [part for part in parts if len(counts[path, part.line]) == 1]
        yield from _out_of_range(sure) if count >= 0 else ()
        line, missing = _missing(parts)
        if count < 0 or not missing:
            continue
        listed = ", ".join(map(str, missing))
        yield Finding(
            path,
            at(line),
            "RT209",
            f"part {listed} of {count} of suite {suite!r} is started by no job here",
            "List every part in the matrix, or correct the number of parts.",
            key=f"{suite}: {listed} of {count}",
        )


def _missing(parts: Sequence[PartRun]) -> tuple[int, list[int]]:
    """The parts of a suite that no command starts, and the line of the first that starts others.

    A command that starts all of them, on one machine, does not help one that starts some on
    another; but one part beside them is somebody's short check.
    """
    by_line: dict[int, list[PartRun]] = {}
    for part in parts:
        by_line.setdefault(part.line, []).append(part)
    some = [those for those in by_line.values() if _absent(those)]
    if len(some) < len(by_line):
        some = [those for those in some if len({part.index for part in those}) > 1]
    left = [part for those in some for part in those]
    if any(part.index < 0 for part in parts):
        left = []
    return min((part.line for part in left), default=0), _absent(left)


def _absent(parts: Sequence[PartRun]) -> list[int]:
    indices = {part.index for part in parts}
    if not parts or -1 in indices:
        return []
    first = _first(parts)
    return sorted(set(range(first, parts[0].count + first)) - indices)


def _first(parts: Sequence[PartRun]) -> int:
    """The number of the first part: of a command that nobody knows, it is seen by the last."""
    known = max(part.first for part in parts)
    indices = {part.index for part in parts}
    return known if known >= 0 else int(parts[0].count in indices and 0 not in indices)


def _out_of_range(parts: Sequence[PartRun]) -> Iterator[Finding]:
    """One finding at each command that asks for a part that there is not."""
    by_line: dict[int, list[PartRun]] = defaultdict(list)
    for part in parts:
        by_line[part.line].append(part)
    first = _first(parts) if parts else 0
    for line, those in by_line.items():
        indices = sorted({part.index for part in those})
        path, suite, count = those[0].path, those[0].suite, those[0].count
        beyond = [index for index in indices if not first <= index < count + first]
        if -1 in indices or not beyond:
            continue
        listed = ", ".join(map(str, beyond))
        last = f"{first} to {count + first - 1}" if count else "none"
        yield Finding(
            path,
            at(line),
            "RT209",
            f"part {listed} of {count} of suite {suite!r} is out of range: the parts are {last}",
            "Correct the matrix, or the number of parts.",
            key=f"{suite}: {listed} beyond {count}",
        )


PART_NEVER_STARTED = TreeRule(
    id="RT209",
    name="part-never-started",
    summary="A workflow starts a suite in parts, but not all of them, or one that there is not.",
    reason="The tests of the missing part never run, and every job is green. (Parts whose number "
    "only a run knows are left alone. `--auto-partition-id` counts from 0, `--shard` from 1; other "
    "options may do either.)",
    bad="# .github/workflows/pr-test.yml\n"
    "      - run: runci run --hw cpu --suite base-a-test-cpu --shard 1/2\n\n"
    f"# test/registered/unit/test_linear.py\n{REGISTERED}",
    good="# .github/workflows/pr-test.yml\n"
    "      - run: runci run --hw cpu --suite base-a-test-cpu --shard 1/2\n"
    "      - run: runci run --hw cpu --suite base-a-test-cpu --shard 2/2\n\n"
    f"# test/registered/unit/test_linear.py\n{REGISTERED}",
    check=part_never_started,
)

RULES = (
    PART_NEVER_STARTED,
    MEMBERS_MATCH_NOTHING,
    SUITE_NEVER_RUN,
    SUITE_WITHOUT_TESTS,
    PROCESS_GROUP_ACROSS_SUITES,
)
