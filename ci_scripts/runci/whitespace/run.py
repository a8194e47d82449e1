"""Checks files, and mends them where that is asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from runci.errors import RunciError
from runci.finding import Finding, Level
from runci.paths import relative
from runci.source import at
from runci.whitespace.attributes import Attributes, converted, read_attributes
from runci.whitespace.checks import check_bytes
from runci.whitespace.diff import Changed, changed_files, old_bytes
from runci.whitespace.files import Contents, list_below, read, unchanged
from runci.whitespace.mend import mend
from runci.whitespace.policy import Conversion, Policy, WhitespaceOptions, is_binary
from runci.whitespace.text import WHOLE, Scope, blank_end


@dataclass(frozen=True, slots=True)
class WhitespaceResult:
    """What was found.

    `files` are those in question: nothing to check where it is 0. `checked` of them were read as
    text: not binary, and changed where there is a base. `fixed` findings were mended, in the files
    `written`; `findings` are what is left.
    """

    findings: tuple[Finding, ...]
    files: int
    checked: int
    fixed: int = 0
    written: tuple[str, ...] = ()


def check(root: Path, paths: Sequence[str], options: WhitespaceOptions) -> WhitespaceResult:
    """Check the files below `paths`, as given on the command line; all below `root` without any.

    Raises RunciError for wrong paths, a wrong revision or a broken git, before anything is written.
    """
    if not root.is_dir():
        raise RunciError(f"{root.as_posix()}: no such folder")
    given = {relative(root, path, Path.cwd()) for path in paths}
    below = sorted(given) if "" not in given else []
    run = _Run(root, options)
    listing = list_below(root, below)
    todo = listing.paths
    if options.diff_base is not None:
        run.changed = changed_files(root, options.diff_base, below)
        todo = tuple(path for path in todo if path in run.changed)
    if listing.git and todo:
        run.attributes = read_attributes(root, todo)
    for path in todo:
        run.check(path)
    run.check_postponed()
    return WhitespaceResult(
        tuple(sorted(run.findings)), len(listing.paths), run.checked, run.fixed, tuple(run.written)
    )


class _Run:
    """One run over many files."""

    def __init__(self, root: Path, options: WhitespaceOptions) -> None:
        self.root = root
        self.options = options
        self.attributes = Attributes({})
        self.changed: dict[str, Changed | None] | None = None
        self.findings: list[Finding] = []
        self.checked = 0
        self.fixed = 0
        self.written: list[str] = []
        self._postponed: list[str] = []

    def check(self, path: str) -> None:
        """Check one file, unless only git can say whether its CRLF is a fault."""
        attributes = self.attributes.of(path)
        if attributes.get("diff") == "unset":  # git's own way to say that a file is binary
            return
        contents = read(self.root, path)
        if contents is None:
            return
        if isinstance(contents, Contents) and is_binary(contents.data, attributes):
            return
        self.checked += 1
        if isinstance(contents, str):
            self.findings.append(not_checked(path, contents))
            return
        policy = self.attributes.policy(path, self.options)
        if policy.conversion is Conversion.AUTO and b"\r" in contents.data:
            self._postponed.append(path)
            return
        self._check(path, contents, policy)

    def check_postponed(self) -> None:
        """Ask git once about all files with a CR that it may convert."""
        if not self._postponed:
            return
        convert = converted(self.root, self._postponed)
        for path in self._postponed:
            contents = read(self.root, path)
            if not isinstance(contents, Contents):
                self.findings.append(not_checked(path, contents or "changed while it was read"))
                continue
            policy = self.attributes.policy(path, self.options)
            if path not in convert:
                policy = dataclasses.replace(policy, conversion=Conversion.NONE)
            self._check(path, contents, policy)

    def _check(self, path: str, contents: Contents, policy: Policy) -> None:
        scope = self._scope(path, contents.data)
        findings = check_bytes(path, contents.data, policy, scope)
        if self.options.fix and any(finding.fixable for finding in findings):
            mended = mend(contents.data, policy, scope)
            if mended != contents.data:
                findings = self._write(path, contents, mended, policy, scope, findings)
        self.findings += findings

    def _scope(self, path: str, data: bytes) -> Scope:
        file = self.changed.get(path) if self.changed is not None else None
        if file is None:
            return WHOLE
        # Only where it matters: each old version costs a process.
        blank = blank_end(data)[1] and blank_end(old_bytes(self.root, file))[1]
        return Scope(frozenset(file.lines), blank)

    def _write(
        self,
        path: str,
        contents: Contents,
        mended: bytes,
        policy: Policy,
        scope: Scope,
        findings: list[Finding],
    ) -> list[Finding]:
        """Write a mended file; what is left of its findings."""
        from runci.atomic import replace_file

        if not unchanged(self.root, path, contents):
            return [*findings, not_checked(path, "changed while it was checked: not mended")]
        try:
            replace_file(self.root / path, mended)
        except RunciError as error:
            return [*findings, not_checked(path, f"not mended: {error}")]
        left = check_bytes(path, mended, policy, scope)
        self.fixed += max(len(findings) - len(left), 0)
        self.written.append(path)
        return left


def not_checked(path: str, reason: str) -> Finding:
    """The finding that a file, or a part of it, was not checked."""
    return Finding(path, at(1), "WS100", reason, key=reason, level=Level.ERROR)
