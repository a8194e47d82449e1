"""`--learn-skips`: what a run skipped, as entries for `skips:` that somebody reviews.

Pure but for `write` and `check_target`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runci.config.taxonomy import Skip, Taxonomy
from runci.core.atomic import replace_file
from runci.core.errors import RunciError
from runci.core.globs import escaped, matches
from runci.core.marks import SIGN
from runci.core.paths import read_named
from runci.core.patterns import escaped_parameters, pattern_matcher, split
from runci.core.result import Outcome
from runci.core.targets import selects
from runci.read.yamlpos import Node, load
from runci.run.model import Case
from runci.run.summary import Finished, Summary
from runci.text.terminal import printable
from runci.text.wording import plural, some
from runci.text.yaml import quoted

HEAD = "# Proposed by `runci run --learn-skips`"
# The taxonomy's schema refuses it: what a run cannot know stays red until somebody has said it.
UNSAID = "TODO: say in your own words why"
_SAYS_NOTHING = ("", "skip", "skipped", "unconditional skip")  # pytest's words for no reason
_LONGEST_REASON = 300
_NOTHING = "every test that was skipped here may be: skips: needs nothing more"


@dataclass(frozen=True, slots=True)
class Entry:
    """Tests of one file, as patterns, that were skipped for one reason; `said` are comments."""

    tests: tuple[str, ...]
    reason: str
    said: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a runner needs under `skips:`, and what else is to be known of skips there."""

    runner: str
    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()


def learn(
    finished: Iterable[Finished], skips: Sequence[Skip], runner: str, config: str
) -> Proposal:
    """Entries for what these files skipped and `skips` does not allow; `config` has those.

    Nothing else is proposed: no failure, no expected one that was not run, no test that had failed
    in this run before it was skipped.
    """
    runs: dict[str, list[Finished]] = {}
    for one in sorted(finished, key=lambda f: (f.result.path, f.result.attempt)):
        runs.setdefault(one.result.path, []).append(one)
    own = [skip for skip in skips if runner in skip.runners]
    allowed = pattern_matcher(skip.test for skip in own)
    entries = [entry for of in runs.values() for entry in _entries(of, allowed)]
    return Proposal(runner, tuple(entries), (*_not_proposed(runs), *_in_vain(runs, own, config)))


def proposed(summary: Summary, taxonomy: Taxonomy, runner: str) -> Proposal:
    """What this run proposes; where not all of it ran, that is said."""
    found = learn(summary.finished, taxonomy.skips, runner, taxonomy.path)
    if not summary.missing:
        return found
    files = plural(len(summary.missing), "files")
    return replace(found, notes=(*found.notes, f"{files} did not run: nothing of them is here"))


def check_target(path: Path, config: Path) -> None:
    """Raise RunciError, before anything runs, for a file that must not be written."""
    said = f"--learn-skips {path}: "
    if path.suffix not in (".yml", ".yaml"):
        raise RunciError(
            f"{said}it writes YAML: name a .yml file, or none; files to run stand before it"
        )
    if not path.parent.is_dir():
        raise RunciError(f"{said}there is no folder {path.parent}")
    if not path.exists() or _same(path, config):
        return
    if not read_named(path).startswith(HEAD.encode()):
        raise RunciError(
            f"{said}it is there, and was not written by --learn-skips: name another file, or the "
            f"taxonomy, {config}"
        )


def write(proposal: Proposal, path: Path | None, config: Path, shown: str) -> list[str]:
    """Write the proposal, and return the lines to show; without a path all of it.

    Raises RunciError where it cannot be written.
    """
    block = as_yaml(proposal, shown)
    count = len(proposal.entries)
    if path is None:
        return ["", *block.splitlines()] if count or proposal.notes else ["", _NOTHING]
    if _same(path, config):
        replace_file(path, inserted(read_named(path), str(path), proposal))
    else:
        replace_file(path, block.encode())
    unsaid = sum(entry.reason == UNSAID for entry in proposal.entries)
    more = f"; of {unsaid} the reason is yours to write" if unsaid else ""
    entries = f"{count} entr{'y' if count == 1 else 'ies'}"
    return ["", f"{path}: {entries} for skips:, to be read{more}", *proposal.notes]


def _same(path: Path, other: Path) -> bool:
    return path.exists() and path.samefile(other)


def _entries(runs: Sequence[Finished], allowed: Callable[[str], bool]) -> Iterator[Entry]:
    """Those of one file, which may have run more than once, by reason."""
    cases = [case for one in runs for case in one.report.cases]
    failed = frozenset[str]().union(*(one.failed_before for one in runs))
    skipped: dict[str, Case] = {}
    for case in cases:
        may = case.outcome == "skipped" and not case.xfail and case.whole not in failed
        if may and not allowed(case.whole):
            skipped.setdefault(case.whole, case)
    whole = _skipped_whole(runs, cases)
    by_reason: dict[str, dict[str, list[Case]]] = {}
    for case in skipped.values():
        name, parameters = split(case.whole)
        pattern = _pattern(name, None if name in whole else parameters)
        by_reason.setdefault(case.message.strip(), {}).setdefault(pattern, []).append(case)
    idle = not any(one.report.tests for one in runs)
    for reason, patterns in by_reason.items():
        yield _entry(reason, patterns, runs[0].result.path, idle)


def _pattern(name: str, parameters: str | None) -> str:
    """The pattern of a test; what no pattern can hold is any character."""
    path, mark, test = name.partition("::")
    plain = "".join(char if char.isprintable() and char != "*" else "?" for char in test)
    some_ = "" if parameters is None else f"[{escaped_parameters(parameters)}]"
    return escaped(path) + mark + plain + some_


def _skipped_whole(runs: Sequence[Finished], cases: Sequence[Case]) -> set[str]:
    """The tests with parameters of which all were skipped, for one reason: no id is needed."""
    reasons: dict[str, set[str | None]] = {}
    for case in cases:
        skipped = case.outcome == "skipped" and not case.xfail
        said = case.message.strip() if skipped else None
        reasons.setdefault(split(case.whole).name, set()).add(said)
    return {
        name
        for name, said in reasons.items()
        if len(said) == 1 and None not in said and all(_ran_all(one, name) for one in runs)
    }


def _ran_all(one: Finished, name: str) -> bool:
    """Whether a run had every set of parameters of a test, and nothing kept any away."""
    report, only = one.report, one.result.only
    left_out = report.deselected or report.unselected or report.unbegun or report.errors
    test = name.partition("::")[2]
    asked = not only or any(not o.startswith(SIGN) and selects(o, test) for o in only)
    ended = report.code is not None and report.cut_short is None and one.result.signal is None
    return ended and asked and not left_out


def _entry(reason: str, patterns: Mapping[str, Sequence[Case]], path: str, idle: bool) -> Entry:
    cases = [case for of in patterns.values() for case in of]
    places = [f"{at}" + (f" ({n} tests)" if n > 1 else "") for at, n in _places(cases).items()]
    said = [some(places) if places else f"{path}: {plural(len(cases), 'tests')}"]
    empty = reason.lower().strip(" .:") in _SAYS_NOTHING
    unsaid = idle or empty or reason.upper().startswith("TODO")
    if idle:
        said.append("Nothing of the file was executed: is this runner meant for it?")
    if unsaid:
        said.append("The skip gives no reason." if empty else f"pytest says: {reason}")
    shown = reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]}..."
    return Entry(tuple(patterns), UNSAID if unsaid else shown, tuple(said))


def _places(cases: Iterable[Case]) -> dict[str, int]:
    return Counter(case.place for case in cases if case.place)


def _not_proposed(runs: Mapping[str, Sequence[Finished]]) -> Iterator[str]:
    """What is red and stays so."""
    ended = [one for of in runs.values() for one in of]
    green = (Outcome.PASSED, Outcome.FLAKY, Outcome.EXCUSED, Outcome.SKIPPED)
    failed = dict.fromkeys(one.result.path for one in ended if one.result.outcome not in green)
    if failed:
        yield f"failures are never proposed: {some([*failed])}"
    cases = [case for one in ended for case in one.report.cases if case.outcome == "skipped"]
    if expected := dict.fromkeys(case.whole for case in cases if case.xfail):
        yield f"xfail is no skip, and not proposed: {some([*expected])}"
    again = dict.fromkeys(
        case.whole
        for one in ended
        for case in one.report.cases
        if case.outcome == "skipped" and case.whole in one.failed_before
    )
    if again:
        yield f"it failed before it was skipped, and is not proposed: {some([*again])}"
    if ended and not any(one.report.tests for one in ended):
        yield "no test was executed at all: `runci verify` is red whatever may be skipped"


def _in_vain(
    runs: Mapping[str, Sequence[Finished]], skips: Sequence[Skip], config: str
) -> Iterator[str]:
    """Entries that nothing needed where all that they name of these files has run."""
    for skip in skips:
        path, _, test = skip.test.partition("::")
        of = [one for at, some_ in runs.items() if matches(at, (path,)) for one in some_]
        if not of or any(one.result.only or not _ran_all(one, "") for one in of):
            continue
        named = pattern_matcher([skip.test])
        cases = [case for one in of for case in one.report.cases if named(case.whole)]
        if any(case.outcome == "skipped" for case in cases):
            continue
        where = f"{config}:{skip.line}: {skip.test}"
        if cases or not test:
            yield f"{where} was needed by no test here: {plural(len(cases), 'tests')} executed"
        else:
            yield f"{where} names no test of {some(list(dict.fromkeys(o.result.path for o in of)))}"


def as_yaml(proposal: Proposal, config: str) -> str:
    """The entries as a block that can be pasted into `config`, the same for the same skips."""
    lines = [f"{HEAD} for {config}; read each of them."]
    lines += [f"# {printable(note)}" for note in proposal.notes]
    if not proposal.entries:
        return "\n".join([*lines, "skips: []", ""])
    return "\n".join([*lines, "skips:", *_lines(proposal, "  "), ""])


def inserted(data: bytes, path: str, proposal: Proposal) -> bytes:
    """A taxonomy with the entries first under `skips:`, and all else of it as it is.

    Raises RunciError where its `skips:` is not a list with a line for each entry.
    """
    if not proposal.entries:
        return data
    before = load(data, path, strict=True)
    lines = data.decode().splitlines(keepends=True)
    newline = "\r\n" if lines[0].endswith("\r\n") else "\n"
    at = before.keys["skips"][0] if "skips" in before.keys else None
    if at is None:
        added = ["", "skips:", *_lines(proposal, "  ")]
        lines[-1] = lines[-1].rstrip("\r\n") + newline
        at = len(lines)
    else:
        items = before.mapping["skips"].items
        first = lines[items[0].line - 1] if items else ""
        margin = first[: len(first) - len(first.lstrip())]
        added = _lines(proposal, margin)
    text = "".join([*lines[:at], *(line + newline for line in added), *lines[at:]])
    if not _adds(before, text.encode(), path, len(proposal.entries)):
        raise RunciError(
            f"{path}: skips: is no list with a line of its own for each entry: write it so, or "
            "give --learn-skips another file and paste what stands there"
        )
    return text.encode()


def _adds(before: Node, data: bytes, path: str, count: int) -> bool:
    """Whether `count` entries of `skips:` are new, and nothing else."""
    try:
        after = load(data, path, strict=True)
    except RunciError:
        return False
    old, new = dict(before.mapping), dict(after.mapping)
    were, are = (one.pop("skips", None) for one in (old, new))
    kept = [item.plain() for item in were.items] if were is not None else []
    same = {k: v.plain() for k, v in old.items()} == {k: v.plain() for k, v in new.items()}
    return same and are is not None and [item.plain() for item in are.items[count:]] == kept


def _lines(proposal: Proposal, margin: str) -> list[str]:
    """The entries as lines of YAML."""
    lines = []
    for entry in proposal.entries:
        lines += [f"# {printable(line)}" for line in entry.said]
        if len(entry.tests) == 1:
            lines.append(f"- test: {quoted(entry.tests[0])}")
        else:
            lines += ["- test:", *(f"    - {quoted(test)}" for test in entry.tests)]
        lines += [f"  runners: [{quoted(proposal.runner)}]", f"  reason: {quoted(entry.reason)}"]
    return [margin + line for line in lines]
