"""What parsing one test file gives: plain, immutable data that can be cached as JSON."""

from __future__ import annotations

from typing import Any, NamedTuple

from runci.core.registration import MARKERS, Backend
from runci.core.source import Span, at

# Where a marker comes from that was taken from a module loaded at run time.
LOADED = "<loaded>"
# ... and a marker's name that the file itself gives to something else.
REBOUND = "<this file>"


class ParseError(NamedTuple):
    """Why a file cannot be read in full, as data: one broken file hides nothing.

    `kind` is «syntax», «encoding», «bom» or «unreadable». A BOM leaves the rest readable.
    """

    kind: str
    message: str
    span: Span


class Argument(NamedTuple):
    """One argument of a marker call.

    `name` is the parameter (positional arguments are named by their place; None where there is no
    such place, and for stars). `kind` is «constant», «expression», «*» or «**». `type` is the
    constant's type; `value` is its value where JSON can hold it. `span` covers `name=value`.
    """

    name: str | None
    positional: bool
    kind: str
    type: str
    value: str | int | float | bool | None
    text: str
    span: Span
    value_span: Span


class MarkerCall(NamedTuple):
    """A call of a registration marker, wherever and however it stands in the file.

    `marker` is the marker's own name, `written` what stands in the source. `via` is «name»,
    «alias», «attribute», or «value» where the marker is handed on uncalled. `module` is where the
    name was imported from (None: nowhere; of star imports all, separated by commas). `within` is
    None for a plain statement at top level, else what surrounds it.
    """

    marker: str
    written: str
    via: str
    module: str | None
    within: str | None
    arguments: tuple[Argument, ...]
    span: Span
    function_span: Span

    @property
    def backend(self) -> Backend | None:
        """The backend it registers for; None for a marker that does not exist."""
        return MARKERS.get(self.marker)

    def argument(self, name: str) -> Argument | None:
        """The first argument for a parameter."""
        return next((a for a in self.arguments if a.name == name), None)

    def given(self, name: str) -> bool:
        """Whether a parameter is given, other than as None."""
        argument = self.argument(name)
        return argument is not None and argument.type != "NoneType"


class MainBlock(NamedTuple):
    """One `if __name__ == "__main__":` at top level.

    `runner` is «unittest», «pytest», «both», «other» (it calls something else) or «nothing».
    `exit_kept` is whether a failing test fails the process, None where that cannot be told.
    `call_span` covers the runner's call, `call` names it; `calls` are the dotted origins of what an
    «other» block calls. `movable` is whether it can stand at the end of the file: no `else`, and
    nothing that is bound but by imports. `endable` is whether its one runner call, which nothing
    follows or catches, can end the process with its result. `runs` is whether `python FILE` without
    arguments reaches a runner; None where that depends on what is not known. `starts` is the call
    of an «other» block that hands this file to a runner in another process, or "".
    """

    span: Span
    runner: str
    call: str
    call_span: Span
    exit_kept: bool | None
    calls: tuple[str, ...] = ()
    movable: bool = False
    endable: bool = False
    runs: bool | None = True
    starts: str = ""


class OtherFile(NamedTuple):
    """A file that a main block hands to `call`, as it is named there; it may be any file."""

    call: str
    path: str
    span: Span


class EarlyReturn(NamedTuple):
    """A return (or exit 0) that a test takes when what it needs is missing, and the condition."""

    test: str
    condition: str
    exits: str
    span: Span


class Unrun(NamedTuple):
    """A test that never executes, and why.

    `cause` is «replaced», «coroutine», «generator», «constructor», «empty», «exit» or
    «load_tests»; `other` is the line of what replaces it, or the name of the constructor.
    """

    cause: str
    test: str
    other: str
    span: Span


class Gate(NamedTuple):
    """Something that skips a test (`Class.test`), a class, or the whole file (`test` is "").

    `within` is the class of a method. `written` is the condition or decorator as it stands;
    `condition` the same written out, true where it skips, and «True» where it always does.
    """

    test: str
    within: str
    written: str
    condition: str
    span: Span


class Suppression(NamedTuple):
    """A comment `# runci: ignore[RT109] reason`, for the lines from `target` to `last`."""

    rules: tuple[str, ...]
    reason: str
    target: int
    last: int
    span: Span


class TestFile(NamedTuple):
    """Everything that the rules need to know of one file.

    `path` is relative to the root, with forward slashes. `tests` counts test classes and
    functions at top level; `last_test` is where the last one stands, `last_test_name` its name.
    `pytest_only` names those that `unittest.main()` does not run, where a main block calls it.
    `marks` are the different sets of pytest marks that its tests have. `own_test` is the
    last one that runs of this very file, and not only where another one imports it.
    """

    path: str
    errors: tuple[ParseError, ...] = ()
    calls: tuple[MarkerCall, ...] = ()
    mains: tuple[MainBlock, ...] = ()
    tests: int = 0
    last_test: Span | None = None
    last_test_name: str = ""
    early_returns: tuple[EarlyReturn, ...] = ()
    suppressions: tuple[Suppression, ...] = ()
    import_line: int = 1
    pytest_only: tuple[str, ...] = ()
    other_files: tuple[OtherFile, ...] = ()
    unrun: tuple[Unrun, ...] = ()
    gates: tuple[Gate, ...] = ()
    marks: tuple[tuple[str, ...], ...] = ((),)
    own_test: Span | None = None

    @property
    def readable(self) -> bool:
        """Whether the syntax tree could be read."""
        return all(error.kind == "bom" for error in self.errors)


def from_row(path: str, row: list[Any]) -> TestFile:
    """Rebuild a TestFile from its JSON row.

    Raises TypeError, ValueError or LookupError for a row of another shape. (A file of the cache
    has a checksum: this looks at the shape only, since it is done for every file of every lint.)
    """
    (errors, calls, mains, tests, last_test, last_test_name, early, suppressions, line, *rest) = row
    only, others, unrun, gates, marks, own = rest
    numbers = (tests, line, *(last_test or ()), *(own or ()))
    if not isinstance(last_test_name, str) or any(type(number) is not int for number in numbers):
        raise TypeError("not the row of a test file")
    return TestFile(
        path,
        tuple(ParseError(kind, message, Span(*span)) for kind, message, span in errors),
        tuple(_call(*call) for call in calls),
        tuple(_main(*m) for m in mains),
        tests,
        None if last_test is None else Span(*last_test),
        last_test_name,
        tuple(EarlyReturn(t, c, e, Span(*span)) for t, c, e, span in early),
        tuple(Suppression(tuple(s[0]), s[1], s[2], s[3], Span(*s[4])) for s in suppressions),
        line,
        tuple(only),
        tuple(OtherFile(call, path_, Span(*span)) for call, path_, span in others),
        tuple(Unrun(cause, test, other, Span(*span)) for cause, test, other, span in unrun),
        tuple(Gate(t, within, w, c, Span(*span)) for t, within, w, c, span in gates),
        tuple(map(tuple, marks)),
        None if own is None else Span(*own),
    )


def to_row(file: TestFile) -> tuple[Any, ...]:
    """The JSON row of a TestFile: all but the path, since equal files share a cache entry."""
    return tuple(file)[1:]


def _main(
    span: list[int],
    runner: str,
    call: str,
    call_span: list[int],
    exit_kept: bool | None,
    calls: list[str],
    *rest: Any,
) -> MainBlock:
    place, called = Span(*span), Span(*call_span)
    return MainBlock(place, runner, call, called, exit_kept, tuple(calls), *rest)


def _call(
    marker: str,
    written: str,
    via: str,
    module: str | None,
    within: str | None,
    arguments: list[Any],
    span: list[int],
    function_span: list[int],
) -> MarkerCall:
    read = tuple(Argument._make([*a[:6], Span(*a[6]), Span(*a[7])]) for a in arguments)
    return MarkerCall(marker, written, via, module, within, read, Span(*span), Span(*function_span))


def unreadable(path: str, why: str) -> TestFile:
    """A file whose bytes could not be had."""
    return TestFile(path, errors=(ParseError("unreadable", why, at(1)),))
