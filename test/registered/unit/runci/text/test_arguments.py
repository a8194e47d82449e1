"""Wrong use: the usage of the command that was meant, what was meant, and exit status 2."""

from __future__ import annotations

import sys

import pytest

from runci import register_cpu_ci
from runci.cli import COMMANDS, main
from runci.commands.perf import STEPS
from runci.core.errors import Exit

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

# Arguments, the command whose usage is shown, and what its last line says.
WRONG = [
    ("pln", "runci", "; did you mean 'plan'? (choose from init, "),
    ("xyzzy", "runci", "invalid choice: 'xyzzy' (choose from init, "),
    ("--nope plan", "runci", "unrecognized arguments: --nope"),
    ("plan --chnged a", "runci plan", "--chnged a; did you mean '--changed'?"),
    ("plan --chnged=a", "runci plan", "--chnged=a; did you mean '--changed'?"),
    ("plan --bas", "runci plan", "ambiguous option: --bas could match --base, --baseline"),
    ("plan --all --base x", "runci plan", "argument --base: not allowed with argument --all"),
    ("plan --all extra", "runci plan", "unrecognized arguments: extra"),
    ("lint --format txt", "runci lint", "invalid choice: 'txt'; did you mean 'text'?"),
    ("verify", "runci verify", "the following arguments are required: PLAN, RESULTS"),
    ("estimates chek x", "runci estimates", "'chek'; did you mean 'check'?"),
    ("perf chek", "runci perf", "; did you mean 'check'? (choose from measure, "),
    ("perf check --nope", "runci perf check", "unrecognized arguments: --nope"),
    ("perf --nope check", "runci perf", "unrecognized arguments: --nope"),
    *((f"{name} --zzz", f"runci {name}", "") for name in COMMANDS),
    *((f"perf {step} --zzz", f"runci perf {step}", "") for step in STEPS),
]


@pytest.mark.parametrize(("arguments", "command", "words"), WRONG)
def test_wrong_use_shows_the_right_usage(
    arguments: str, command: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments.split()) == Exit.USAGE
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"usage: {command} [-h]"), shown.err
    last = shown.err.splitlines()[-1]
    assert last.startswith(f"{command}: error: ")
    assert words in last


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
