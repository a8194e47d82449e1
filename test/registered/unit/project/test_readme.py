"""The README's examples, run: its files are written, its commands print what it shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from runci import register_cpu_ci

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

ROOT = Path(__file__).parents[4]
README = (ROOT / "README.md").read_text(encoding="utf-8")

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SECONDS = re.compile(r"\d+\.\d\d s\b")


def blocks(language: str) -> list[str]:
    return [text for name, text in _FENCE.findall(README) if name == language]


def files() -> dict[str, str]:
    """Blocks whose first line is a comment with a path, below `test/`."""
    found = {}
    for text in blocks("yaml") + blocks("python"):
        match = re.match(r"# (test/\S+)\n", text)
        if match:
            found[match[1]] = text[match.end() :]
    return found


def sessions() -> list[tuple[str, str]]:
    """Commands of the console blocks, in order, with the output that follows them."""
    found = []
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


def run(command: str, folder: Path) -> str:
    program, *arguments = command.split()
    assert program == "runci"
    done = subprocess.run(
        [sys.executable, "-m", "runci", *arguments],
        cwd=folder,
        env={"COLUMNS": "80", "PATH": ""},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert not done.stderr
    return done.stdout


def test_the_example_prints_what_the_readme_shows(tmp_path: Path) -> None:
    for name, text in files().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert len(sessions()) == 2
    for command, shown in sessions():
        printed = run(command, tmp_path)
        assert _SECONDS.sub("T s", printed).rstrip() == _SECONDS.sub("T s", shown).rstrip()


def test_registrations_of_the_readme_are_valid() -> None:
    from runci.read.parse import parse
    from runci.read.registrations import registrations

    example = next(text for text in blocks("python") if "register_cpu_ci" in text)
    read = [
        (r.backend.value, r.effective_suite) for r in registrations(parse("x.py", example.encode()))
    ]
    assert read == [
        ("cpu", "base-a-test-cpu"),
        ("cuda", "nightly-kernel-1-gpu-small"),
        ("cuda", "base-b-test-1-gpu-large"),
    ]


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_table_of_rules_is_that_of_the_rules() -> None:
    from runci.checks.rules_page import subjects_table

    assert subjects_table() in README, "take it from ci_scripts/RULES.md"


def test_commands_of_the_table_exist() -> None:
    from runci.cli import parser

    listed = set(re.findall(r"^\| `runci ([\w-]+)", README, flags=re.MULTILINE))
    actions = next(a for a in parser()._actions if a.choices and a.metavar == "COMMAND")
    assert listed == set(actions.choices)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
