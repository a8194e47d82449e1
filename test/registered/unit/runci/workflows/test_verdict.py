"""Which commands of a script decide how its step ends; played with bash where that is there."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from runci import register_cpu_ci
from runci.workflows.verdict import deciding

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

# (script with a command `v`, the step's shell, whether the step fails where `v` fails)
SCRIPTS = [
    ("v", "", True),
    ("v || true", "", False),
    ("v || exit 1", "", True),
    ("v || exit 0", "", False),
    ("v | cat", "", False),
    ("v | cat", "bash", True),
    ("set -o pipefail\nv | cat\necho", "", True),
    ("v | cat", "bash -euo pipefail {0}", True),
    ("v\necho", "bash {0}", False),
    ("set -e\nv\necho", "bash {0}", True),
    ("set +e\nv\necho", "", False),
    ("set +e\nv", "", True),
    ("v && echo ok\necho", "", False),
    ("v && echo ok", "", True),
    ("true && v", "", True),
    ("if v; then echo; fi", "", False),
    ("if ! v; then exit 1; fi", "", True),
    ("! v", "", False),
    ("# v", "", False),
    ("echo $(v)", "", False),
    ("v &", "", False),
    ("{ v; } || true", "", False),
    ("(v) || true", "", False),
    ("exit 0\nv", "", False),
    ("if false; then exit 0; fi\nv", "", True),
    ("f() {\n v\n}", "", False),
    ("f() {\n v\n}\nf", "", True),
    ("true || v", "", False),
    ("v || { echo; exit 1; }", "", True),
    ("s=0; v || s=1\nexit $s", "", True),
    ("for x in a; do\nv\ndone\necho", "", True),
    ("for x in a; do\nv\ndone || true", "", False),
    ("cat <<END\nv\nEND", "", False),
]


@pytest.mark.parametrize(("script", "shell", "expected"), SCRIPTS)
def test_what_decides(script: str, shell: str, expected: bool) -> None:
    assert any(words[0] == "v" for words in deciding(script, shell)) is expected


@pytest.mark.parametrize(("script", "shell", "expected"), SCRIPTS)
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_says_the_same(script: str, shell: str, expected: bool) -> None:
    started = {"": "bash -e", "bash": "bash --noprofile --norc -eo pipefail"}
    command = started.get(shell) or shell.removesuffix(" {0}")
    ends = [
        subprocess.run(
            [*command.split(), "-c", f"v() {{ return {code}; }}\n{script}"],
            capture_output=True,
            check=False,
            timeout=60,
        ).returncode
        for code in (0, 1)
    ]
    assert (ends[1] != 0 and ends[0] == 0) is expected


def test_a_text_for_another_shell() -> None:
    assert ("v",) in set(deciding("bash -c 'v'", ""))
    assert ("v",) not in set(deciding("bash -c 'v || true'", ""))


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
