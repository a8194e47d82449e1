"""Numbers, units, dates and links as the page writes them; the one place that rounds."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from runci.config.perf import is_night
from runci.nightly.record import Direction

NONE = "\N{EN DASH}"  # no figure
TIMES = "\N{MULTIPLICATION SIGN}"
MINUS = "\N{MINUS SIGN}"
_UNITS = {"us": "µs"}
_RUN = re.compile(r"(https://[\w.-]+/[\w.-]+/[\w.-]+)/actions/runs/\d+")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


@dataclass(frozen=True, slots=True)
class Link:
    """`url` is None for plain text."""

    text: str
    url: str | None = None


def unit_name(unit: str) -> str:
    """`us` as µs; every other unit as it is."""
    return _UNITS.get(unit, unit)


def number(value: float | None) -> str:
    """Four significant digits, never an exponent below a billion; a dash for what is no number."""
    if value is None or not math.isfinite(value):
        return NONE
    size = abs(value)
    if size >= 1e9 or 0 < size < 1e-6:
        return f"{value:.3e}"
    digits = 3 - math.floor(math.log10(size)) if size else 0
    return f"{value:,.{min(max(digits, 0), 9)}f}"


def scale(ticks: Sequence[float]) -> list[str]:
    """Labels of an axis: as many decimals as tell its ticks apart, the same for all."""
    for digits in range(10):
        labels = [f"{tick:,.{digits}f}" for tick in ticks]
        exact = all(math.isclose(float(f"{t:.{digits}f}"), t, rel_tol=1e-9) for t in ticks)
        if exact and max(map(abs, ticks), default=0) < 1e9:
            return [label.replace("-", MINUS) for label in labels]
    return [f"{tick:.3g}" for tick in ticks]


def amount(value: float | None, unit: str) -> str:
    """A number with its unit: «6.012 µs»."""
    text = number(value)
    return text if text == NONE else f"{text} {unit_name(unit)}".rstrip()


def ratio(value: float | None) -> str:
    """A ratio with three decimals and the sign of a product."""
    if value is None or not math.isfinite(value):
        return NONE
    return (f"{value:.3f}" if abs(value) < 1000 else number(value)) + TIMES


def change(value: float | None) -> str:
    """A relative change in words, since more is not always worse: «5.2 % worse»."""
    if value is None or not math.isfinite(value):
        return NONE
    text = percent(abs(value))
    if float(f"{abs(value) * 100:.1f}") == 0:
        return "0.0 %"
    return f"{text} {'worse' if value > 0 else 'better'}"


def interval(low: float | None, high: float | None) -> str:
    """A 95 % interval of relative changes, above 0 worse: «+4.1 to +6.3 %»."""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return NONE
    return f"{_signed(low)} to {_signed(high)} %"


def percent(value: float) -> str:
    """A share with one decimal: «3.0 %»."""
    return f"{value * 100:,.1f} %"


def better(direction: Direction) -> str:
    """«lower is better» or «higher is better»."""
    return f"{direction.value} is better"


def short(commit: str | None) -> str:
    """The first nine characters of a commit; a dash without one."""
    return commit[:9] if commit else NONE


def cut(text: str, most: int = 80) -> str:
    """The text, cut where it is longer than a line can be."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def day(night: str) -> int | None:
    """A night's date as a day's number; None where it is no date."""
    return datetime.date.fromisoformat(night).toordinal() if is_night(night) else None


def date(ordinal: int) -> str:
    """The date of a day's number."""
    return datetime.date.fromordinal(ordinal).isoformat()


def safe_url(url: str) -> str | None:
    """A link that may stand on the page: http or https with a host, else None."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return url if parts.scheme in ("http", "https") and parts.netloc else None


def commit_url(run_url: str, commit: str | None, since: str | None = None) -> str | None:
    """The page of a commit beside a run of Actions, or of all since another; None if unknown."""
    found = _RUN.match(run_url)
    return commit_page(found[1] if found else "", commit, since)


def commit_page(repository: str, commit: str | None, since: str | None = None) -> str | None:
    """As `commit_url`, of a repository such as https://github.com/octo/kernels."""
    if not repository or not commit or not _COMMIT.fullmatch(commit):
        return None
    if since is None:
        return f"{repository}/commit/{commit}"
    return f"{repository}/compare/{since}...{commit}" if _COMMIT.fullmatch(since) else None


def commit_link(run_url: str, commit: str | None, since: str | None = None) -> Link:
    """A commit by its first nine characters; `since` links to all commits after that one."""
    return Link(short(commit), commit_url(run_url, commit, since))


def issue_link(run_url: str, commit: str | None, number: int | None = None) -> Link:
    """The issue about a regression; where its number is not known, those about its commit."""
    found = _RUN.match(run_url)
    if found and number is not None:
        return Link(f"#{number}", f"{found[1]}/issues/{number}")
    if not found or not commit or not _COMMIT.fullmatch(commit):
        return Link(NONE)
    query = urlencode({"q": f'is:issue "Nightly regression" {short(commit)}'})
    return Link("issue", f"{found[1]}/issues?{query}")


def run_link(run_url: str, run_id: str) -> Link:
    """A run of the nightly."""
    return Link(f"run {run_id}" if run_id else NONE, safe_url(run_url))


def _signed(value: float) -> str:
    text = f"{value * 100:+.1f}"
    return "0.0" if float(text) == 0 else text.replace("-", MINUS)
