"""The command line: `runci COMMAND`, commands in the order of the flow."""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from runci import __version__
from runci.core.errors import Exit, RunciError
from runci.text.arguments import Parser

_EPILOG = """\
exit status: 0 nothing found; 1 findings; 2 wrong use, configuration or machine; 3 nothing to
check; 70 a fault of runci; 130 interrupted, 143 terminated
"""

# Command → what its help says. Its module, `runci.commands.NAME`, declares its options
# (`add_options`) and does its work (`run`); it is imported for its own command only.
COMMANDS: dict[str, str] = {
    "init": "describe a repository that has no taxonomy yet",
    "check": "check registrations, workflows and whitespace in one go",
    "lint": "check the test registrations of a repository",
    "whitespace": "check whitespace and line ends",
    "collect": "list registrations by suite",
    "plan": "choose suites and shards for a commit",
    "doctor": "look whether this machine is fit for tests",
    "run": "run test files, a suite or a shard of one",
    "verify": "check that results are the plan",
    "needs": "check how the jobs before this one ended",
    "status": "say when each test last really ran",
    "estimates": "compare est_time with results",
    "gate": "decide whether this run may use the GPUs",
    "slash": "carry out the command in a comment",
    "pr-states": "show the state of each PR Test workflow",
    "perf": "measure every night and say whether it got worse",
    "audit": "prove that workflows ask the gate",
    "rule": "explain a rule",
    "schema": "print the JSON Schema of suites.yml",
    "completion": "print what a shell needs to complete commands",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit status. Messages go to standard error."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    _tolerant_output()
    try:
        os.getcwd()  # noqa: PTH109  fails where the folder is gone
        return _run(arguments)
    except RunciError as error:
        _complain(f"runci: {error}")
        return error.code
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123
        return Exit.FINDINGS
    except OSError as error:
        return _fault() if error.filename is not None else _no_place(error)
    except SystemExit as error:  # argparse
        return error.code if isinstance(error.code, int) else Exit.USAGE
    except Exception:  # noqa: BLE001 (the last resort: say what to do with it)
        return _fault()


def entry_point() -> None:
    """The console script."""
    code = main()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # said before, where anybody can hear it
            stream.flush()
    # What is left is freeing memory, which costs more than the rest of a warm run.
    os._exit(code)


def _run(arguments: Sequence[str]) -> int:
    if list(arguments) in (["--version"], ["-V"]):
        sys.stdout.write(f"runci {__version__}\n")
        return Exit.OK
    words = [word for word in arguments if not word.startswith("-")]
    known = parser(*words[:1])
    before, after = _split(arguments) if words[:1] == ["run"] else (arguments, ())
    options = known.parse_args(before)
    options.rest = after
    if options.command is None:
        known.print_help()
        return Exit.USAGE
    if options.command == "completion":  # of no other: a lint is known again by its options
        options.whole_parser = parser
    status: int = _module(options.command).run(options)
    return status


def _split(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """What stands before `--`, and what after it, which is for another program."""
    at = list(arguments).index("--") if "--" in arguments else len(arguments)
    return arguments[:at], arguments[at + 1 :]


@functools.cache  # 4 ms, for whoever runs many commands in one process
def parser(*wanted: str) -> argparse.ArgumentParser:
    """The command line, with the options of the wanted commands only; without any, of all."""
    top = Parser(
        "runci",
        description="CI and test registration for GPU kernel repositories.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("-V", "--version", action="version", version=f"runci {__version__}")
    top.set_defaults(command=None)
    commands = top.add_subparsers(title="commands", metavar="COMMAND")
    for name, says in COMMANDS.items():
        command = commands.add_parser(name, help=says)
        command.set_defaults(command=name)
        if not wanted or name in wanted:
            _module(name).add_options(command)
    return top


def _module(command: str) -> Any:
    return import_module(f"runci.commands.{command.replace('-', '_')}")


def _tolerant_output() -> None:
    """Names and messages may hold what the terminal's encoding lacks: escape it."""
    # A closed stream is None; what is written there goes nowhere.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115, PTH123
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace", newline="\n")


def _complain(message: str) -> None:
    from runci.text.terminal import printable

    # It may name files, and quote what others wrote.
    sys.stderr.write("".join(f"{printable(line)}\n" for line in message.split("\n")))


def _no_place(error: OSError) -> int:
    """A system call that names no file: the current folder is gone, or output cannot be written."""
    if isinstance(error, FileNotFoundError):
        _complain("runci: the current folder is gone: change to one that exists")
    else:
        _complain(f"runci: cannot write the report: {error.strerror}")
    return Exit.USAGE


def _fault() -> int:
    import traceback

    traceback.print_exc()
    _complain(
        "runci: this is a fault of runci, not of your files. Please report it with the lines "
        f"above, the command, and: runci {__version__}, Python {sys.version.split()[0]}, "
        f"{sys.platform}"
    )
    return Exit.FAULT
