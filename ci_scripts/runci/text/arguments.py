"""A parser of arguments that says what was meant, with the usage of the command that was meant."""

from __future__ import annotations

import argparse
from typing import Any

from runci.text.wording import nearest


class Parser(argparse.ArgumentParser):
    """As argparse's, which leaves what a subcommand does not know to the parser above it."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Take no argument that is not known."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            option = unknown[0].partition("=")[0]
            near = nearest(option, self._option_string_actions) if option.startswith("-") else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{near}")
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Name the choice that is most like the value."""
        if action.choices is None or value in action.choices:
            return
        names = [str(choice) for choice in action.choices]
        near = nearest(str(value), names)
        raise argparse.ArgumentError(
            action, f"invalid choice: {value!r}{near} (choose from {', '.join(names)})"
        )
