"""Path patterns: `*` and `?` within a folder, `**` across folders."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable


@functools.cache
def compile_glob(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression for a whole path with forward slashes.

    `a/**` matches everything below `a`; a pattern without a slash matches a file name anywhere.
    Raises re.error for a range that goes backwards, such as `[z-a]`.
    """
    if "/" not in pattern:
        pattern = f"**/{pattern}"
    # Repeated stars say nothing more and would make a search that fails take for ever.
    pattern = re.sub(r"(?:\*\*/)+", "**/", re.sub(r"\*{2,}", "**", pattern))
    out: list[str] = []
    for part in re.findall(r"\*\*/|\*\*|\*|\?|\[(?:![^/]|[^!/])[^\]/]*\]|[^*?\[]+|\[", pattern):
        if part == "**/":
            out.append(r"(?:[^/]+/)*")
        elif part == "**":
            out.append(r".*")
        elif part == "*":
            out.append(r"[^/]*")
        elif part == "?":
            out.append(r"[^/]")
        elif part.startswith("[") and len(part) > 1:
            out.append(_one_of(part))
        else:
            out.append(re.escape(part))
    return re.compile("".join(out), re.DOTALL)


def _one_of(part: str) -> str:
    """`[abc]`, `[a-z]` and `[!abc]` as a regular expression; never a slash."""
    negated = part.startswith("[!")
    body = re.sub(r"([\\\[\]^&~|])", r"\\\1", part[1 + negated : -1])
    body = re.sub(r"--+", r"\\-", body)  # a hyphen, not the difference of two sets
    return f"(?!/)[{'^' if negated else ''}{body}]"


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Whether any pattern matches the whole path."""
    return _compile_all(tuple(patterns)).fullmatch(path) is not None


@functools.cache
def _compile_all(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """One expression for all patterns: every file is matched, and this is what costs least."""
    either = "|".join(f"(?:{compile_glob(pattern).pattern})" for pattern in patterns)
    return re.compile(either or "(?!)", re.DOTALL)
