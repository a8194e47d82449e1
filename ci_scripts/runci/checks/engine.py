"""One run of checks: find → suppress → restrict to paths → baseline. What is accepted, and why.

Lint, audit, whitespace, `check` and the plan ask here, so that they cannot disagree about what a
comment or a baseline lets stand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from runci.checks.rule import Accepted, Found, Options, wanted_paths
from runci.checks.suppress import beside, suppress
from runci.core.errors import Exit, RunciError
from runci.core.finding import Finding, Level
from runci.core.paths import is_below
from runci.read.decode import LineReader

if TYPE_CHECKING:
    from runci.checks.fix import Fixed


@dataclass(frozen=True, slots=True)
class Result:
    """Findings to report, those that are accepted, and the counts of the last line.

    `gone`: how many the baseline lists in vain. `found`: what each family gave. `wanted`: the paths
    that the report is restricted to, none for all.
    """

    findings: tuple[Finding, ...]
    accepted: tuple[Accepted, ...]
    found: Mapping[str, Found]
    suppressed: int = 0
    baselined: int = 0
    gone: int = 0
    notes: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether any finding is more than a note."""
        return any(finding.level is Level.ERROR for finding in self.findings)


def check(options: Options, families: Sequence[str]) -> Result:
    """Run the rules of these families. Raises RunciError for wrong use, or nothing to check."""
    found, notes = _find(options, families)
    there = [path for one in found.values() for path in one.paths]
    wanted = wanted_paths(options, there, next(iter(found.values())).nothing)
    return judge(options, found, wanted, notes)


def _find(options: Options, families: Sequence[str]) -> tuple[dict[str, Found], tuple[str, ...]]:
    """What each family finds. One that has nothing to look at is told, unless it is the last."""
    found: dict[str, Found] = {}
    empty: list[RunciError] = []
    for family in families:
        one = _find_one(options, family)
        if isinstance(one, Found):
            found[family] = one
        else:
            empty.append(one)
    if not found:
        raise empty[0]
    return found, tuple(map(str, empty))


def _find_one(options: Options, family: str) -> Found | RunciError:
    try:
        found: Found = import_module(f"runci.checks.{family.lower()}").find(options)
    except RunciError as error:
        if error.code != Exit.NOTHING:
            raise
        return error
    return found


def judge(
    options: Options,
    found: Mapping[str, Found],
    wanted: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
) -> Result:
    """What is left of the findings once comments, paths and the baseline had their say."""
    findings = [finding for item in found.values() for finding in item.findings]
    comments = {path: known for item in found.values() for path, known in item.comments.items()}
    comments.update(beside(findings, comments, LineReader(options.root)))
    remaining = suppress(findings, comments, options.active)
    reported = tuple(f for f in remaining.findings if not wanted or is_below(f.path, wanted))
    accepted = [*(one for item in found.values() for one in item.accepted), *remaining.accepted]
    known = gone = 0
    if options.baseline is not None:
        from runci.checks import baseline

        listed = baseline.read(options.baseline)
        compared = baseline.compare(reported, baseline.of_rules(listed, options.active))
        reported, known, gone = compared.new, len(compared.known), compared.gone
        accepted += [Accepted(f, f"listed in {options.baseline}") for f in compared.known]
    return Result(
        reported,
        tuple(accepted),
        found,
        suppressed=len(remaining.accepted),
        baselined=known,
        gone=gone if not wanted else 0,
        notes=notes,
        wanted=wanted,
    )


def changes(options: Options, result: Result) -> list[Fixed]:
    """What --fix would write: registered tests first, then the whitespace of what came of it."""
    from runci.checks.fix import fix_files

    mended: dict[str, Fixed] = {}
    tree = result.found["RT"].tree if "RT" in result.found else None
    if tree is not None:
        fixed = fix_files(options.root, result.findings, tree, options.active)
        mended = {one.path: one for one in fixed}
    if "WS" in result.found:
        from runci.checks import ws

        findings = [finding for finding in result.findings if finding.rule.startswith("WS")]
        mended |= {one.path: one for one in ws.mended(options, findings, mended)}
    return [mended[path] for path in sorted(mended)]
