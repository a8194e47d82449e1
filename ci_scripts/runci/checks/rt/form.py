"""The form of a registration: missing, misplaced, renamed, not constant, impossible, repeated."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from runci.checks.rule import A_TEST, REGISTERED, FileRule, Tree, by_path_words
from runci.core.finding import Finding, Level
from runci.core.marks import SIGN, compiled
from runci.core.registration import MARKERS, PARAMETERS, POSITIONAL, Registration
from runci.core.source import Edit, Span, at, comments_in, split_lines
from runci.read.registrations import argument_problem, pair_problem, seconds, type_problem
from runci.read.testfile import LOADED, REBOUND, Argument, MarkerCall, TestFile
from runci.text.wording import nearest


def missing_registration(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at the top of a readable file without any marker call."""
    if not file.readable or file.calls or tree.of(file):
        return
    if not tree.taxonomy.runs_elsewhere(file.path):
        module = tree.taxonomy.marker_modules[0]
        run = tree.by_path(file.path)
        yield Finding(
            file.path,
            at(1),
            "RT101",
            f"no registration: no suite runs this file{by_path_words(run)}",
            f"Add, below the imports: `from {module} import register_cuda_ci` and "
            '`register_cuda_ci(est_time=SECONDS, stage="...", runner_config="...")`, with the '
            f"suites of {tree.taxonomy.path}; or list the file under `tests` of a suite there; or "
            "rename or move what is no test.",
            key="no registration: no suite runs this file",
            level=Level.NOTE if run is not None and run.whole else Level.ERROR,
        )


MISSING_REGISTRATION = FileRule(
    id="RT101",
    name="missing-registration",
    summary="A test file does not register in any suite.",
    reason="Runners collect registrations, not files: a test that registers nowhere never runs, "
    "and nothing turns red. (A note where a workflow runs the file by its path; nothing where a "
    "suite of suites.yml has the file in its `tests`, or `run_by` there names who runs it.)",
    bad="def test_addition():\n    assert 1 + 1 == 2",
    good=REGISTERED + A_TEST,
    check=missing_registration,
)


def marks_in_no_suite(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at the top of a file of which suites take only tests with other marks."""
    registrations = tree.of(file)
    if not registrations or not all(one.only for one in registrations):
        return
    wanted = [part for one in registrations for part in one.only]
    if not all(part.startswith(SIGN) for part in wanted):
        return  # of tests by name it is not known which marks they have
    takes = [compiled(part.removeprefix(SIGN)) for part in wanted]
    for marks in file.marks:
        if all(take(marks) is False for take in takes):
            shown = f"marked {', '.join(marks)}" if marks else "without a mark"
            suites = ", ".join(dict.fromkeys(one.effective_suite for one in registrations))
            yield Finding(
                file.path,
                at(1),
                "RT111",
                f"tests {shown} are in no suite: {suites} takes none of them",
                f"Say under `tests` of a suite in {tree.taxonomy.path} who runs them, or mark them "
                "otherwise.",
                key=shown,
            )


_ON_GPU = (
    "# test/suites.yml\nversion: 1\nroots: [test/registered]\nrunners:\n"
    "  cpu: {{label: ubuntu-latest, execution: pytest}}\n"
    "  1-gpu: {{label: gpu, gpus: 1, execution: pytest}}\n"
    "suites:\n  cpu:\n    - {{stage: base-a, runner_configs: [cpu], kind: per-commit}}\n"
    "  cuda:\n    - name: gpu\n      runner: 1-gpu\n      kind: per-commit\n"
    "      tests: [{{files: test_scale.py, marked: gpu}}]\n\n"
    "# test/registered/test_scale.py\nimport pytest\n\n\n@pytest.mark.gpu\ndef test_on_gpu():\n"
    "    assert 1 + 1 == 2\n\n\n{}def test_shapes():\n    assert 1 + 1 == 2"
)

MARKS_IN_NO_SUITE = FileRule(
    id="RT111",
    name="marks-in-no-suite",
    summary="Tests of a file have marks with which no suite takes them.",
    reason="Suites that take tests by their marks leave out the others: these never run, and "
    "nothing turns red. (Marks are read from decorators, `pytestmark` and `pytest.param`.)",
    bad=_ON_GPU.format(""),
    good=_ON_GPU.format("@pytest.mark.gpu\n"),
    check=marks_in_no_suite,
)


def registration_not_at_top_level(file: TestFile, _tree: Tree) -> Iterator[Finding]:
    """One finding at each marker call in any other place."""
    for call in file.calls:
        if call.within is None:
            continue
        place = "in an expression" if call.within == "expression" else f"inside `{call.within}`"
        yield Finding(
            file.path,
            call.span,
            "RT102",
            f"{call.written}() stands {place}: it is not read as a registration",
            "Move the call to the top level of the file, as a statement of its own. "
            "Registrations are read without running the file, so no condition can hold for them.",
            key=call.written,
        )


REGISTRATION_NOT_AT_TOP_LEVEL = FileRule(
    id="RT102",
    name="registration-not-at-top-level",
    summary="A registration stands inside if, try, with, a function, a class or an expression.",
    reason="Registrations are read from the syntax tree, without running the file: one inside a "
    "block is dropped in silence, or would mean something that no reader of the tree can decide.",
    bad="from runci import register_cuda_ci\n\n"
    "if True:\n"
    '    register_cuda_ci(est_time=20, stage="base-b", runner_config="1-gpu-small")',
    good="from runci import register_cuda_ci\n\n"
    'register_cuda_ci(est_time=20, stage="base-b", runner_config="1-gpu-small")',
    check=registration_not_at_top_level,
)

_RENAMED = ("alias", "attribute")


def marker_under_another_name(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at the function name of each such call."""
    for call in file.calls:
        problem = _problem(call, tree.taxonomy.marker_modules)
        if problem is None:
            continue
        message, remedy, fixable = problem
        yield Finding(
            file.path,
            call.function_span,
            "RT103",
            message,
            remedy,
            key=call.written,
            fixable=fixable and call.within is None,
        )


def _problem(call: MarkerCall, modules: Sequence[str]) -> tuple[str, str, bool] | None:
    if call.marker not in MARKERS:
        known = ", ".join(MARKERS)
        hint = nearest(call.marker, MARKERS)
        return f"{call.marker} is no registration marker{hint}", f"Markers are {known}.", False
    importing = f"`from {modules[0]} import {call.marker}`"
    if call.via == "value":
        message = f"{call.written} is handed on as a value: no call through it is read"
        return message, f"Write {importing} and call {call.marker}() itself.", False
    if call.via != "name":
        message = f"{call.written}() is {call.marker} under another name: it is not read"
        return message, f"Write {importing} and call {call.marker}() by that name.", True
    if call.module == REBOUND:
        message = f"{call.marker} is something else here: this file gives its name away before"
        return message, f"Give the other another name, or write {importing} after it.", False
    if call.module is None:
        return f"{call.marker} is not imported", f"Add {importing}.", True
    if not {*modules, LOADED}.intersection(call.module.split(",")):
        allowed = ", ".join(modules)
        message = f"{call.marker} comes from {call.module}, which is no marker module"
        return message, f"Import it from {allowed} (`marker_modules` in suites.yml).", False
    return None


def fix_marker_under_another_name(
    file: TestFile, text: str, finding: Finding, tree: Tree
) -> Sequence[Edit]:
    """Call the marker by its own name, wherever it is called so, and import that name."""
    call = next(c for c in file.calls if c.function_span == finding.span)
    same = [c for c in file.calls if c.via in _RENAMED and c.written == call.written]
    edits = [Edit(c.function_span, c.marker) for c in same]
    module = call.module if call.module in tree.taxonomy.marker_modules else None
    module = module or tree.taxonomy.marker_modules[0]
    # The import first: it may go where the call stands.
    return [*_import_edits(file, text, call, module, len(same)), *edits]


def _import_edits(
    file: TestFile, text: str, call: MarkerCall, module: str, calls: int
) -> list[Edit]:
    """Rename the alias where it is imported, else add an import; nothing where it is bound."""
    tree = ast.parse(text)
    uses = sum(1 for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == call.written)
    for node in tree.body:
        if not isinstance(node, ast.ImportFrom) or (node.module or "") != module:
            continue
        for item in node.names:
            if item.name == call.marker and item.asname in (None, call.marker):
                return []
            if item.name == call.marker and item.asname == call.written and uses == calls:
                end_line, end = item.end_lineno or item.lineno, item.end_col_offset or 0
                span = Span(item.lineno, item.col_offset + 1, end_line, end + 1)
                return [Edit(span, call.marker)]
    return [Edit(at(file.import_line), f"from {module} import {call.marker}\n")]


MARKER_UNDER_ANOTHER_NAME = FileRule(
    id="RT103",
    name="marker-under-another-name",
    summary="A marker is called through an alias, attribute or value, or is not imported from a "
    "marker module.",
    reason="A reader of the syntax tree knows markers by name. An alias, an attribute, or a marker "
    "handed to `map` or `functools.partial`, is dropped in silence by most readers; a name that is "
    "not imported stops the file with a NameError.",
    bad="from runci import register_cpu_ci as register\n\n"
    'register(est_time=5, stage="base-a", runner_config="cpu")',
    good=REGISTERED,
    fixable=True,
    check=marker_under_another_name,
    fix=fix_marker_under_another_name,
)


def argument_not_constant(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at the value of each such argument."""
    for call in tree.rejected(file):
        for argument in call.arguments:
            if argument.kind != "expression":
                continue
            name = argument.name or "an argument"
            yield Finding(
                file.path,
                argument.value_span,
                "RT104",
                f"{name}={argument.text} is not a constant",
                f"Write the value of {name} itself: the call is read without running the file.",
                key=f"{name}={argument.text}",
            )


ARGUMENT_NOT_CONSTANT = FileRule(
    id="RT104",
    name="argument-not-constant",
    summary="An argument of a registration is computed.",
    reason="The call is read without running the file. A computed `disabled` or `nightly` would be "
    "ignored, a computed suite unknown.",
    bad="from runci import register_cpu_ci\n\n"
    "MINUTE = 60\n"
    'register_cpu_ci(est_time=2 * MINUTE, stage="base-a", runner_config="cpu")',
    good="from runci import register_cpu_ci\n\n"
    'register_cpu_ci(est_time=120, stage="base-a", runner_config="cpu")',
    check=argument_not_constant,
)


def impossible_value(file: TestFile, _tree: Tree) -> Iterator[Finding]:
    """One finding at the value of each such argument, and at a call without an estimate."""
    for call in file.calls:
        for argument in call.arguments:
            problem = _impossible(argument)
            if problem is not None:
                message, remedy = problem
                key = f"{argument.name}={argument.text}"
                yield Finding(file.path, argument.value_span, "RT105", message, remedy, key=key)
        if call.argument("est_time") is None and call.via != "value" and not _starred(call):
            yield Finding(
                file.path,
                call.span,
                "RT105",
                f"{call.written}() has no est_time",
                "State the measured seconds that the file takes, such as est_time=30.",
                key="est_time",
            )


def _starred(call: MarkerCall) -> bool:
    return any(argument.kind in ("*", "**") for argument in call.arguments)


def _impossible(argument: Argument) -> tuple[str, str] | None:
    if argument.kind != "constant" or argument.name not in PARAMETERS:
        return None
    name, text = argument.name, argument.text
    if name == "est_time":
        if seconds(argument) is None:
            wrong = f"est_time={text} is not a positive, finite number of seconds"
            return wrong, "State the measured seconds that the file takes, such as est_time=30."
        return None
    if type_problem(argument):
        wanted = "True or False" if name == "nightly" else "a string"
        return f"{name}={text} must be {wanted}", f"Write {name} as {wanted}, or leave it out."
    if isinstance(argument.value, str) and not argument.value.strip():
        return f"{name}={text} is empty", _EMPTY.get(name, f"Name the {name}, or leave it out.")
    return None


_EMPTY = {
    "disabled": "Give the reason and an issue, or leave `disabled` out: an empty one disables the "
    "test in silence.",
}

IMPOSSIBLE_VALUE = FileRule(
    id="RT105",
    name="impossible-value",
    summary="A value that its parameter cannot have: no positive finite est_time, an empty name.",
    reason="An estimate of 0, inf or True breaks the partition for everybody; `disabled=''` "
    "disables a test in silence.",
    bad='from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=0, stage="base-a", '
    'runner_config="cpu")',
    good=REGISTERED,
    check=impossible_value,
)

_SIGNATURE = f"The marker takes {', '.join(PARAMETERS)}; the first {len(POSITIONAL)} by position."


def unknown_argument(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at each unknown, repeated, starred or surplus argument."""
    for call in tree.rejected(file):
        for argument in call.arguments:
            problem = argument_problem(call, argument)
            if problem not in _MESSAGES:
                continue
            hint = nearest(argument.name or "", PARAMETERS) if problem == "unknown" else ""
            message = _MESSAGES[problem].format(name=argument.name, text=argument.text)
            key = f"{argument.name}:{argument.text}"
            yield Finding(file.path, argument.span, "RT106", message + hint, _SIGNATURE, key=key)


_MESSAGES = {
    "starred": "a starred argument ({text}) cannot be read",
    "surplus": "a surplus argument ({text})",
    "unknown": "unknown argument {name!r}",
    "repeated": "{name} is given twice",
}

UNKNOWN_ARGUMENT = FileRule(
    id="RT106",
    name="unknown-argument",
    summary="An unknown, repeated, starred or surplus argument.",
    reason="A misspelled parameter loses its meaning (a `disable=` that disables nothing) or stops "
    "the file with a TypeError when it runs.",
    bad='from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=5, stage="base-a", '
    'runner="cpu")',
    good=REGISTERED,
    check=unknown_argument,
)


def incomplete_suite(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at each such call."""
    for call in tree.rejected(file):
        problem = None if _starred(call) else pair_problem(call)
        if problem is not None:
            message, remedy = _explain(call, problem, tree)
            yield Finding(file.path, call.span, "RT107", message, remedy, key=problem)


def _explain(call: MarkerCall, problem: str, tree: Tree) -> tuple[str, str]:
    pair = "Name the suite as stage=... and runner_config=..., or as suite=... alone."
    if problem == "neither":
        return f"{call.written}() names no suite", pair
    if problem == "both":
        return f"{call.written}() names suite as well as stage or runner_config", pair
    other = "stage" if problem == "runner_config" else "runner_config"
    given = call.argument(other)
    value = given.text if given is not None else ""
    message = f"{call.written}() has {other}={value} but no {problem}"
    choices = _choices(call, other, problem, given.value if given is not None else None, tree)
    hint = f" With this {other}: {', '.join(choices)}." if choices else ""
    return message, f"Add {problem}=...{hint}"


def _choices(call: MarkerCall, given: str, missing: str, value: object, tree: Tree) -> list[str]:
    """Values of the missing half that make a suite of this backend."""
    suites = (s for (owner, _), s in tree.taxonomy.suites.items() if owner is call.backend)
    found = (getattr(s, missing) for s in suites if s.stage and getattr(s, given) == value)
    return sorted({repr(half) for half in found})


INCOMPLETE_SUITE = FileRule(
    id="RT107",
    name="incomplete-suite",
    summary="Neither or both of suite and (stage, runner_config), or half of the pair.",
    reason="A registration without a whole suite belongs to no job, or to an ambiguous one.",
    bad='from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=5, stage="base-a")',
    good=REGISTERED,
    check=incomplete_suite,
)


def duplicate_registration(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at each repetition."""
    for first, again in _repetitions(tree.of(file)):
        same = _equal(first, again)
        keep = "Remove one" if same else "Keep the one whose values are right"
        yield Finding(
            file.path,
            again.span,
            "RT108",
            f"{again.backend.value} suite {again.effective_suite} is registered twice "
            f"(first on line {first.span.line}): the file would run twice",
            f"{keep}: a file runs once in a suite.",
            key=again.effective_suite,
            fixable=same,
        )


def _repetitions(
    registrations: Sequence[Registration],
) -> Iterator[tuple[Registration, Registration]]:
    seen: dict[tuple[str, str], Registration] = {}
    for registration in registrations:
        key = (registration.backend.value, registration.effective_suite)
        if key in seen:
            yield seen[key], registration
        else:
            seen[key] = registration


def _equal(one: Registration, other: Registration) -> bool:
    return replace(one, span=other.span) == other


def fix_duplicate_registration(
    _file: TestFile, text: str, finding: Finding, _tree: Tree
) -> Sequence[Edit]:
    """Delete the repetition but not its comments, with its line where nothing else is there."""
    lines = split_lines(text)
    span = finding.span
    before = lines[span.line - 1][: span.column - 1]
    after = lines[span.end_line - 1][span.end_column - 1 :]
    rest = after.lstrip(" \t;")  # the statement or comment that follows stays
    first, last = span.column, span.end_column + len(after) - len(rest)
    if not rest.strip():
        kept = before.rstrip(" \t;")
        if not kept:
            comments = "".join(f"{comment}\n" for comment in comments_in(text, span))
            return [Edit(Span(span.line, 1, span.end_line + 1, 1), comments)]
        first, last = len(kept) + 1, span.end_column + len(after.rstrip("\r\n"))
    return [Edit(Span(span.line, first, span.end_line, last), "")]


DUPLICATE_REGISTRATION = FileRule(
    id="RT108",
    name="duplicate-registration",
    summary="One file registers twice in the same suite of the same backend.",
    reason="The file runs twice in that suite, or in two shards at once.",
    bad=f'{REGISTERED}\nregister_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")',
    good=REGISTERED,
    fixable=True,
    check=duplicate_registration,
    fix=fix_duplicate_registration,
)


def disabled_without_issue(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at each `disabled` that the configured pattern does not find."""
    pattern = tree.taxonomy.disabled_reason
    for call in file.calls:
        argument = call.argument("disabled")
        if argument is None or not isinstance(argument.value, str) or not argument.value.strip():
            continue
        if not re.search(pattern, argument.value):
            yield Finding(
                file.path,
                argument.value_span,
                "RT109",
                f"disabled={argument.text} names no issue",
                "Add the link or number of the issue that says when the test comes back, such as "
                f'"flaky on H100, #1234" (`disabled_reason` in {tree.taxonomy.path}).',
                key=argument.text,
            )


DISABLED_WITHOUT_ISSUE = FileRule(
    id="RT109",
    name="disabled-without-issue",
    summary="`disabled` gives no issue that a reader can follow.",
    reason="A disabled test without an issue is a deleted test that still looks alive: nobody can "
    "tell when it may run again.",
    bad='from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=5, stage="base-a", '
    'runner_config="cpu", disabled="flaky")',
    good='from runci import register_cpu_ci\n\nregister_cpu_ci(est_time=5, stage="base-a", '
    'runner_config="cpu", disabled="flaky, see #1234")',
    check=disabled_without_issue,
)

RULES = (
    MISSING_REGISTRATION,
    REGISTRATION_NOT_AT_TOP_LEVEL,
    MARKER_UNDER_ANOTHER_NAME,
    ARGUMENT_NOT_CONSTANT,
    IMPOSSIBLE_VALUE,
    UNKNOWN_ARGUMENT,
    INCOMPLETE_SUITE,
    DUPLICATE_REGISTRATION,
    DISABLED_WITHOUT_ISSUE,
    MARKS_IN_NO_SUITE,
)
