"""A run in GitHub Actions: folded groups, annotations, a summary on the page of the job."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from runci.report.github import escape_data, escape_property
from runci.report.terminal import printable
from runci.results import Outcome
from runci.run.progress import Ended, Plain
from runci.run.summary import Summary, step_summary

SHOWN_LINES = 5000


class GitHub(Plain):
    """Folded groups with all output, annotations of failed files, a summary on the job's page."""

    def ended(self, ended: Ended) -> None:
        """A group a file; what the tests printed can give the runner no command."""
        self.write(f"::group::{escape_data(self._line(ended))}")
        token = secrets.token_hex(16)
        self.write(f"::stop-commands::{token}")
        self.write_output(ended, SHOWN_LINES)
        self.write(f"::{token}::")
        self.write("::endgroup::")
        if ended.result.message:
            self.write(f"    {printable(ended.result.message)}")
        if ended.failed or ended.result.outcome is Outcome.FLAKY:
            self.write(annotation(ended))
        if ended.failed:
            self.write(f"    repeat: {printable(ended.repeat)}")

    def note(self, text: str) -> None:
        """An annotation without a file."""
        self.write(f"::notice title=runci::{escape_data(text)}")

    def finish(self, summary: Summary, repeats: Sequence[str], whole: str) -> None:
        """The closing lines, and the page of the job where there is one."""
        page = os.environ.get("GITHUB_STEP_SUMMARY")
        if page:
            try:
                # Names and messages may hold bytes that are no text.
                with Path(page).open("a", encoding="utf-8", errors="backslashreplace") as stream:
                    stream.write(step_summary(summary))
            except OSError as error:
                self.note(f"{page}: cannot write: {error.strerror}")
        super().finish(summary, repeats, whole)


def annotation(ended: Ended) -> str:
    """The workflow command for a file that failed or was flaky."""
    result = ended.result
    first = next(iter(ended.report.failures), None)
    properties = {"file": result.path, "title": f"{result.outcome.value}: {result.title}"}
    if first is not None and first.line is not None:
        properties["line"] = str(first.line)
    shown = ",".join(f"{key}={escape_property(value)}" for key, value in properties.items())
    kind = "error" if ended.failed else "warning"
    text = f"{result.message}\nrepeat: {ended.repeat}"
    return f"::{kind} {shown}::{escape_data(text)}"
