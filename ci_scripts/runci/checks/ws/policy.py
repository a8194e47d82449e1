"""What is wanted of one file: git's rules and attributes, line ends, its name."""

from __future__ import annotations

import dataclasses
import enum
import functools
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from runci.core.errors import RunciError
from runci.core.git import run_git

ATTRIBUTES = ("text", "eol", "diff", "whitespace", "conflict-marker-size")
"""The attributes that `policy_for` reads."""

UNSPECIFIED = "unspecified"

_PYTHON = (".py", ".pyi", ".pyw")
_YAML = (".yml", ".yaml")
_MARKDOWN = (".md", ".markdown", ".mdx")
# Prose in many languages needs non-breaking and zero-width characters; source never does. A
# notebook holds prose and what its cells printed, saved widgets among it.
_PROSE = (*_MARKDOWN, ".ipynb", ".rst", ".txt", ".adoc", ".tex", ".html", ".htm", ".po")
# Programs refuse LF in the first two, and standards ask for CRLF in the others.
_CRLF = (".bat", ".cmd", ".eml", ".ics", ".vcf")
_PATCH = (".patch", ".diff")

# In git's order: a token may be a prefix of a name, and the first name that fits is meant.
_NAMES = (
    "trailing-space",
    "space-before-tab",
    "indent-with-non-tab",
    "cr-at-eol",
    "blank-at-eol",
    "blank-at-eof",
    "tab-in-indent",
    "incomplete-line",
)
_NO_ATTRIBUTES: Mapping[str, str] = {}


class Conversion(enum.Enum):
    """Whether git turns CRLF into LF when a file is added."""

    NONE = "none"  # nothing asks for it
    AUTO = "auto"  # unless the file is stored with CRLF already, or looks binary
    ALWAYS = "always"
    FORBIDDEN = "forbidden"  # -text: the line ends are the file's own business


@dataclass(frozen=True, slots=True)
class Policy:
    """What is checked in one file; the first fields are named as in git's `core.whitespace`."""

    blank_at_eol: bool = True
    blank_at_eof: bool = True
    space_before_tab: bool = True
    indent_with_non_tab: bool = False
    tab_in_indent: bool | None = None  # None: not mentioned, so Python files decide
    cr_at_eol: bool = False
    incomplete_line: bool = True
    tab_width: int = 8
    invisible: bool = True  # byte-order mark, non-breaking and zero-width characters
    conversion: Conversion = Conversion.NONE
    marker_size: int = 7
    python: bool = False
    yaml: bool = False
    prose: bool = False
    breaks: bool = False  # two spaces at the end of a line mean something
    fences: bool = False  # Markdown: what stands between fences is quoted
    patch: bool = False  # its lines have to be those of another file

    @property
    def line_ends(self) -> bool:
        """Whether CRLF can be a fault: not where git converts it, nor under -text."""
        return self.conversion is Conversion.NONE

    @property
    def indent_tabs(self) -> bool:
        """Whether a tab in the indentation is a fault."""
        if self.tab_in_indent is None:
            return self.python and not self.indent_with_non_tab
        return self.tab_in_indent


_SILENT = Policy(
    blank_at_eol=False,
    blank_at_eof=False,
    space_before_tab=False,
    tab_in_indent=False,
    cr_at_eol=True,
    incomplete_line=False,
    invisible=False,
    conversion=Conversion.FORBIDDEN,
)


@functools.cache
def parse_whitespace(text: str) -> Policy:
    """Read `core.whitespace`, or the value of the attribute `whitespace`, as git does."""
    fields: dict[str, bool | int] = {}
    for raw in text.split(","):
        token = raw.lstrip(" \t\r\n").removeprefix("-")
        wanted = not raw.lstrip(" \t\r\n").startswith("-")
        if not token:
            continue
        name = next((name for name in _NAMES if name.startswith(token)), None)
        if name == "trailing-space":
            fields["blank_at_eol"] = fields["blank_at_eof"] = wanted
        elif name is not None:
            fields[name.replace("-", "_")] = wanted
        elif match := re.match(r"tabwidth=\s*(\d+)", token):
            width = int(match[1])
            if 0 < width < 64:
                fields["tab_width"] = width
    policy = dataclasses.replace(Policy(), **fields)  # type: ignore[arg-type]
    if policy.tab_in_indent and policy.indent_with_non_tab:
        raise RunciError(
            f"whitespace={text}: tab-in-indent and indent-with-non-tab exclude another"
        )
    return policy


@functools.cache
def _whitespace(value: str, configured: str) -> Policy:
    """The rules for one value of the attribute `whitespace`."""
    if value == UNSPECIFIED:
        return parse_whitespace(configured)
    width = parse_whitespace(configured).tab_width
    if value == "unset":
        return dataclasses.replace(_SILENT, tab_width=width)
    if value == "set":
        return Policy(indent_with_non_tab=True, tab_width=width)
    return parse_whitespace(value)


def _conversion(text: str, eol: str, autocrlf: bool) -> Conversion:
    if text == "unset":
        return Conversion.FORBIDDEN
    if text == "auto":
        return Conversion.AUTO
    if text != UNSPECIFIED or eol in ("lf", "crlf"):
        return Conversion.ALWAYS
    return Conversion.AUTO if autocrlf else Conversion.NONE


@functools.cache
def _policy(
    values: tuple[str, ...], suffix: str, configured: str, autocrlf: bool, breaks: bool
) -> Policy:
    text, eol, _, whitespace, size = values
    policy = _whitespace(whitespace, configured)
    conversion = _conversion(text, eol, autocrlf)
    if suffix in _PATCH and whitespace == UNSPECIFIED:
        if conversion is Conversion.NONE:
            conversion = Conversion.FORBIDDEN
        policy = dataclasses.replace(policy, blank_at_eof=False, space_before_tab=False, patch=True)
    return dataclasses.replace(
        policy,
        conversion=conversion if whitespace != "unset" else policy.conversion,
        marker_size=int(size) if size.isdecimal() and int(size) > 0 else 7,
        python=suffix in _PYTHON,
        yaml=suffix in _YAML,
        prose=suffix in _PROSE,
        breaks=breaks and suffix in _MARKDOWN,
        fences=suffix in _MARKDOWN,
        cr_at_eol=policy.cr_at_eol or suffix in _CRLF,
    )


def policy_for(
    path: str,
    attributes: Mapping[str, str],
    configured: str = "",
    autocrlf: bool = False,
    *,
    markdown_breaks: bool = True,
) -> Policy:
    """The policy of one file.

    `attributes` has values as `git check-attr` prints them; `configured` is `core.whitespace`;
    `autocrlf` is whether `core.autocrlf` asks for a conversion. `markdown_breaks` allows exactly
    two spaces at the end of a Markdown line: they are a line break there.
    """
    values = tuple(attributes.get(name, UNSPECIFIED) for name in ATTRIBUTES)
    name = path.rsplit("/", 1)[-1]
    suffix = f".{name.rsplit('.', 1)[-1].lower()}" if "." in name else ""
    return _policy(values, suffix, configured, autocrlf, markdown_breaks)


def is_binary(data: bytes, attributes: Mapping[str, str]) -> bool:
    """As git decides it: a NUL byte near the start, unless the attribute `diff` says otherwise."""
    return attributes.get("diff") != "set" and b"\0" in data[:8000]


def is_text(path: str, data: bytes, attributes: Mapping[str, str]) -> bool:
    """As pre-commit decides it, by name and then by the first bytes, unless attributes say so."""
    if attributes.get("diff") == "set" or attributes.get("text") == "set":
        return True
    import io

    from identify.identify import is_text as looks_like_text
    from identify.identify import tags_from_filename

    tags = tags_from_filename(path)
    return "text" in tags or ("binary" not in tags and looks_like_text(io.BytesIO(data)))


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of files, and the two settings of git that change what is checked."""

    values: Mapping[str, Mapping[str, str]]
    whitespace: str = ""
    autocrlf: bool = False

    def of(self, path: str) -> Mapping[str, str]:
        """The attributes that are specified for one file."""
        return self.values.get(path, _NO_ATTRIBUTES)

    def policy(self, path: str, data: bytes, *, markdown_breaks: bool) -> Policy:
        """What is checked in one file: of what is no text, only what git would show of it."""
        known = self.of(path)
        if not is_text(path, data, known):
            return dataclasses.replace(
                _SILENT, tab_width=parse_whitespace(self.whitespace).tab_width
            )
        return policy_for(
            path, known, self.whitespace, self.autocrlf, markdown_breaks=markdown_breaks
        )


def read_attributes(root: Path, paths: Sequence[str]) -> Attributes:
    """Ask git once for all files. Raises RunciError where git fails."""
    # One command for both: a setting that is missing is an error in `git config --get`.
    settings = run_git(root, "config", "--list", "-z", "--includes")
    configured: dict[str, str] = {}
    for entry in settings.decode("utf-8", "replace").split("\0"):
        name, _, value = entry.partition("\n")
        configured[name] = value
    return Attributes(
        _check_attr(root, paths),
        configured.get("core.whitespace", ""),
        # A name without a value is true.
        configured.get("core.autocrlf", "false").lower() in ("true", "input", "yes", "on", "1", ""),
    )


def _check_attr(root: Path, paths: Sequence[str]) -> dict[str, dict[str, str]]:
    stdin = b"\0".join(os.fsencode(path) for path in paths)
    out = run_git(root, "check-attr", "-z", "--stdin", *ATTRIBUTES, stdin=stdin)
    fields = out.split(b"\0")
    values: dict[str, dict[str, str]] = {}
    unspecified = UNSPECIFIED.encode()
    for name, attribute, value in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
        if value != unspecified:
            attributes = values.setdefault(os.fsdecode(name), {})
            attributes[attribute.decode()] = value.decode("utf-8", "replace")
    return values


def converted(root: Path, paths: Sequence[str]) -> frozenset[str]:
    """Those of `paths` whose CRLF git turns into LF when they are added, if it does so by itself.

    It does not where the file is stored with CRLF already, or looks binary.
    """
    # Without paths: a command line is limited, and on a machine where it matters all are asked.
    out = run_git(root, "ls-files", "-z", "--eol", "--cached", "--others", "--exclude-standard")
    kept: set[str] = set()
    for entry in out.split(b"\0"):
        info, _, name = entry.partition(b"\t")
        stored, present = [*info.split(), b"", b""][:2]
        if stored in (b"i/crlf", b"i/mixed", b"i/-text") or present == b"w/-text":
            kept.add(os.fsdecode(name))
    return frozenset(paths) - kept
