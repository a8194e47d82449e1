"""Text inside GitHub's workflow commands, escaped as the runner reads it."""

from __future__ import annotations

from collections.abc import Mapping

from runci.text.terminal import printable


def annotation(kind: str, text: str, properties: Mapping[str, str]) -> str:
    """The command that annotates: `kind` is error, warning or notice."""
    shown = ",".join(f"{key}={escape_property(value)}" for key, value in properties.items())
    return f"::{kind} {shown}::{escape_data(text)}"


def escape_data(text: str) -> str:
    """Escape the text of a command: the runner undoes this; other controls stay escaped."""
    return printable(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def escape_property(text: str) -> str:
    """Escape the value of a command's property, in which «:» and «,» end it too."""
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")


def no_command(line: str) -> str:
    """A line of a log that the runner takes for no command.

    It takes `##[` anywhere in a line for one, and `::` at its beginning.
    """
    safe = line.replace("##[", "##\\[")
    return safe.replace("::", "\\::", 1) if safe.lstrip().startswith("::") else safe
