"""Whether runci can count what pytest does with the options that it is given; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from runci.core.errors import RunciError
from runci.core.selected import Selected
from runci.run.model import Selection

_OWN = "give it to `runci run` itself, before `--`"
_NO_TESTS = "it runs no test"
_PROCESSES = "tests would run in other processes, where nobody counts them: use --jobs"
_BEFORE = "`runci run --last-failed` goes by its own results; pytest's are not kept"
_BY_NAME = {
    "an option of `runci run`": (_OWN, "-k -m -x --exitfirst --pdb"),
    "shows": (
        _NO_TESTS,
        "--co --collect-only --collectonly --setup-only --setuponly --setup-plan --setupplan "
        "--fixtures --funcargs --fixtures-per-test --markers --cache-show -h --help -V --version",
    ),
    "distributes": (
        _PROCESSES,
        "-n --numprocesses --dist --tx -d -f --looponfail --forked --boxed --px --maxprocesses",
    ),
    "remembers": (
        _BEFORE,
        "--lf --last-failed --ff --failed-first --nf --new-first --lfnf --last-failed-no-failures "
        "--sw --stepwise --sw-skip --stepwise-skip --sw-reset --stepwise-reset --cache-clear",
    ),
    "is asked": ("tests have no terminal: use `runci run --pdb FILE`", "--trace"),
    "names": ("tests would have other names", "--rootdir --pyargs"),
    "writes": (
        "each file has a pytest of its own, which would write over that of another: use "
        "`runci run --junit FILE`, or the results",
        "--junitxml --junit-xml --basetemp --report-log --json-report-file --html",
    ),
}
_REFUSED = {name: why for why, names in _BY_NAME.values() for name in names.split()}
_VALUED = "kmpcorWn"  # one letter that takes what follows it


def refused(arguments: Sequence[str]) -> str | None:
    """The first of these options of pytest that would break what runci counts, and why."""
    before = ""
    for argument in arguments:
        if not argument.startswith("-") and not _takes_value(before):
            return f"{argument}: after `--` stand options of pytest: name files and tests before it"
        if argument.startswith("-") and not _awaits(before):
            for name, value in _options(argument):
                if name in _REFUSED:
                    return f"{argument}: {_REFUSED[name]}"
                if name == "-p" and value.startswith("no:"):
                    return f"{argument}: runci may count by what it takes away"
        if before == "-p" and argument.startswith("no:"):
            return f"-p {argument}: runci may count by what it takes away"
        before = "" if _awaits(before) else argument
    return None


def _takes_value(before: str) -> bool:
    """Whether the word after this option may be its value."""
    return before.startswith("-") and "=" not in before


def _awaits(before: str) -> bool:
    """Whether the word after this option of one letter must be its value."""
    return len(before) > 1 and not before.startswith("--") and _last_takes_value(before)


def _last_takes_value(cluster: str) -> bool:
    *_, (name, value) = _options(cluster)
    return name[1] in _VALUED and not value


def _options(argument: str) -> Iterator[tuple[str, str]]:
    """`--name=value` as its name; of `-vxk expression` each letter, and what is attached."""
    if argument.startswith("--"):
        name, _, value = argument.partition("=")
        yield name, value
        return
    for place, letter in enumerate(argument[1:], 1):
        value = argument[place + 1 :]
        yield f"-{letter}", value if letter in _VALUED else ""
        if letter in _VALUED:
            return


def narrowed(selection: Selection, selected: Selected, *, script: bool) -> Selection:
    """The same files, for pytest with these options. Raises RunciError where they mean nothing.

    `script`: they run as `python FILE`.
    """
    if (wrong := refused(selected.arguments)) is not None:
        raise RunciError(f"-- {wrong}")
    if selected.arguments and script:
        raise RunciError(
            f"{selected.shown}: the files of {selection.suite} run as scripts, and no two take "
            "arguments alike: -k, -m and -x work there"
        )
    benchmark = next((file.path for file in selection.files if file.benchmark), None)
    if benchmark and (selected.chooses or selected.arguments):
        raise RunciError(
            f"{selected.shown}: {benchmark} is a benchmark, which has no tests to choose from and "
            "no pytest: name the files that have"
        )
    files = tuple(replace(file, selected=selected) for file in selection.files)
    return replace(selection, files=files, selected=selected)


def checked(selected: Selected) -> Selected:
    """The same. Raises RunciError where pytest could not read an expression of it."""
    if not selected.chooses:
        return selected
    from _pytest.mark.expression import Expression

    name, text = "-k", selected.keyword
    try:
        Expression.compile(text)
        name, text = "-m", selected.marks
        Expression.compile(text)
    except SyntaxError as error:
        raise RunciError(
            f"{name} {text!r}: {error.msg}: write names joined by and, or, not, such as "
            f"{name} 'add and not slow'"
        ) from error
    return selected
