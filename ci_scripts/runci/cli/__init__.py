"""The command line: `runci COMMAND`, commands in the order of the flow."""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import sys
from collections.abc import Sequence

from runci import __version__
from runci.cli import audit as cli_audit
from runci.cli import plan as cli_plan
from runci.cli.gate import add_gate
from runci.cli.perf import add_perf
from runci.errors import Exit, RunciError

_EPILOG = """\
exit status: 0 nothing found; 1 findings; 2 wrong use or configuration; 3 nothing to check;
70 a fault of runci; 130 interrupted, 143 terminated
"""
_FORMATS = ("text", "concise", "github", "json", "sarif", "junit")


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
    options = parser().parse_args(arguments)
    if options.command is None:
        parser().print_help()
        return Exit.USAGE
    from runci.commands import run

    return run(options.command, options)


@functools.cache  # the same for every command line, of which tests read many in one process
def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        "runci",
        description="CI and test registration for GPU kernel repositories.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("-V", "--version", action="version", version=f"runci {__version__}")
    top.set_defaults(command=None)
    commands = top.add_subparsers(title="commands", metavar="COMMAND")
    _lint(commands.add_parser("lint", help="check the test registrations of a repository"))
    _whitespace(commands.add_parser("whitespace", help="check whitespace and line ends"))
    _collect(commands.add_parser("collect", help="list registrations by suite"))
    cli_plan.plan(commands.add_parser("plan", help="choose suites and shards for a commit"))
    _run_tests(commands.add_parser("run", help="run test files, a suite or a shard of one"))
    cli_plan.verify(commands.add_parser("verify", help="check that results are the plan"))
    cli_plan.needs(commands.add_parser("needs", help="check how the jobs before this one ended"))
    cli_plan.status(commands.add_parser("status", help="say when each test last really ran"))
    cli_plan.estimates(commands.add_parser("estimates", help="compare est_time with results"))
    add_gate(commands)
    add_perf(commands)
    cli_audit.audit(commands.add_parser("audit", help="prove that workflows ask the gate"))
    _rule(commands.add_parser("rule", help="explain a rule"))
    _schema(commands.add_parser("schema", help="print the JSON Schema of suites.yml"))
    return top


def _repository(command: argparse.ArgumentParser) -> None:
    command.add_argument("--root", metavar="DIR", help="the repository (default: found upwards)")
    command.add_argument(
        "--config", metavar="FILE", help="its taxonomy (default: test/suites.yml below the root)"
    )


def _report(command: argparse.ArgumentParser) -> None:
    command.add_argument("--format", choices=_FORMATS, help="default: text")
    command.add_argument("--color", choices=("auto", "always", "never"), default="auto")


def _speed(command: argparse.ArgumentParser) -> None:
    command.add_argument("--cache-dir", metavar="DIR", help="default: the user's cache folder")
    command.add_argument("--no-cache", action="store_true", help="read and write no cache")
    command.add_argument("--jobs", type=_positive, metavar="N", help="processes (default: all)")


def _lint(command: argparse.ArgumentParser) -> None:
    command.set_defaults(command="lint")
    command.add_argument("paths", nargs="*", metavar="PATH", help="report on these only")
    _repository(command)
    _report(command)
    command.add_argument("--select", metavar="RULES", type=_rules, default=(), help="only these")
    command.add_argument("--ignore", metavar="RULES", type=_rules, default=(), help="not these")
    command.add_argument("--baseline", metavar="FILE", help="report what this file does not list")
    command.add_argument(
        "--write-baseline", action="store_true", help="write today's findings to --baseline"
    )
    command.add_argument("--fix", action="store_true", help="mend what has one right answer")
    command.add_argument("--diff", action="store_true", help="show what --fix would change")
    _speed(command)


def _whitespace(command: argparse.ArgumentParser) -> None:
    command.set_defaults(command="whitespace")
    command.add_argument("paths", nargs="*", metavar="PATH", help="files or folders (default: all)")
    command.add_argument("--root", metavar="DIR", help="the repository (default: found upwards)")
    command.add_argument("--diff-base", metavar="REV", help="only lines added since this commit")
    command.add_argument(
        "--markdown-breaks",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="allow Markdown's line break of two spaces",
    )
    command.add_argument("--fix", action="store_true", help="mend Python files, but no string")
    _report(command)


def _collect(command: argparse.ArgumentParser) -> None:
    command.set_defaults(command="collect")
    command.add_argument("paths", nargs="*", metavar="PATH", help="only tests below these")
    _repository(command)
    command.add_argument("--format", choices=("table", "json"), default="table")
    command.add_argument("--backend", metavar="NAME", help="only this backend, such as cuda")
    command.add_argument("--suite", metavar="GLOB", help="only suites that match")
    command.add_argument("--kind", metavar="KIND", help="only suites of this kind")
    command.add_argument("--disabled", action="store_true", help="only disabled registrations")
    command.add_argument("--files", action="store_true", help="list the files of each suite")
    _speed(command)


def _run_tests(command: argparse.ArgumentParser) -> None:
    from runci.run import arguments

    arguments.add(command)


def _rule(command: argparse.ArgumentParser) -> None:
    command.set_defaults(command="rule")
    command.add_argument("rules", nargs="*", metavar="RULE", help="such as RT104 or WS101")
    command.add_argument("--all", action="store_true", help="every rule")
    command.add_argument("--format", choices=("text", "markdown"), default="text")


def _schema(command: argparse.ArgumentParser) -> None:
    command.set_defaults(command="schema")


def _rules(text: str) -> tuple[str, ...]:
    words = tuple(word.strip().upper() for word in text.split(",") if word.strip())
    if not words:
        raise argparse.ArgumentTypeError("name at least one rule, such as RT104 or RT3")
    return words


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


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
    from runci.report.terminal import printable

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
