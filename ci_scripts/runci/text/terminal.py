"""Text that is safe and well laid out on a terminal: escaping, widths, wrapping, colour."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

COMMANDS = ("::", "##[")  # such as `::add-mask::`, at the beginning of a line of a job's log
_NUMBER = re.compile(r"\(?\d(?:[\d.,]*\d)?", re.ASCII)
BOLD, DIM, RED, GREEN, YELLOW, BLUE, CYAN = "1", "2", "1;31", "32", "33", "34", "36"


def use_color(stream: TextIO, environ: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Say whether to colour what goes to `stream`, as NO_COLOR and FORCE_COLOR ask."""
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    if environ.get("TERM") == "dumb" or not stream.isatty():
        return False
    # An old Windows console prints escape codes as they stand.
    return platform != "win32" or any(
        environ.get(name) for name in ("WT_SESSION", "TERM", "ANSICON", "ConEmuANSI")
    )


def chosen_color(wanted: str, stream: TextIO) -> bool:
    """Whether to colour, for an option «auto», «always» or «never»."""
    return use_color(stream, os.environ) if wanted == "auto" else wanted == "always"


def paint(text: str, style: str, color: bool) -> str:
    """Return `text` in one of the styles above, or as it is."""
    return f"\x1b[{style}m{text}\x1b[0m" if color and text else text


def escape_char(char: str) -> str:
    """Write one character as Python source would."""
    code = ord(char)
    named = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}.get(char)
    if named:
        return named
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def printable(text: str) -> str:
    """Escape all that could drive a terminal or mislead a reader.

    Controls, bidirectional and zero-width characters, line separators, spaces other than the plain
    one, and lone surrogates (undecodable bytes) are written as Python source would.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else escape_char(char) for char in text)


def char_width(char: str) -> int:
    """Columns that one printable character takes: 2 for wide East Asian ones, 0 for marks."""
    if char.isascii():
        return 1
    import unicodedata

    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def display_width(text: str) -> int:
    """Columns that printable text takes."""
    return len(text) if text.isascii() else sum(map(char_width, text))


def crop(text: str, width: int) -> str:
    """Return printable text, cut to `width` columns with «...» where it is longer."""
    if display_width(text) <= width:
        return text
    kept, used = [], 0
    for char in text:
        used += char_width(char)
        if used > width - 3:
            break
        kept.append(char)
    return ("".join(kept) + "...")[: max(width, 0)]


def wrap(text: str, width: int) -> list[str]:
    """Break printable text between words into lines of `width` columns; at least one line.

    A word longer than a line is left whole: it is a path or a value that somebody will copy. Within
    a text no line begins with what GitHub takes for a command to the job. A number stays with the
    word behind it, which may be its unit, where both fit on a line.
    """
    lines: list[str] = []
    used = 0
    for word in _with_units(text.split(" "), width):
        size = display_width(word)
        fits = used + 1 + size <= width or not word or word.startswith(COMMANDS)
        if lines and fits:
            lines[-1] += " " + word
            used += 1 + size
        else:
            lines.append(word)
            used = size
    return [line.rstrip() for line in lines]


def _with_units(words: Sequence[str], width: int) -> Iterator[str]:
    """The words, a number and the word behind it as one."""
    number = ""
    for word in words:
        joined = f"{number} {word}" if number else word
        if number and (not word or display_width(joined) > width):
            yield number
            joined = word
        number = joined if _NUMBER.fullmatch(joined) else ""
        if not number:
            yield joined
    if number:
        yield number


def terminal_width() -> int:
    """Columns of the terminal; never so few that nothing can be said."""
    return max(shutil.get_terminal_size().columns, 40)


def write(text: str) -> None:
    """Write to standard output, at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


def note(text: str) -> None:
    """Say something beside the output."""
    sys.stderr.write(f"runci: {text}\n")
