"""The documents: examples are run, and what they name is there."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from runci import register_cpu_ci

register_cpu_ci(est_time=4, stage="base-a", runner_config="cpu")

ROOT = Path(__file__).parents[4]
LINT = "docs/commands/lint.md"

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SECONDS = re.compile(r"\d+\.\d\d s\b")


def blocks(document: str, *languages: str) -> list[str]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return [block for name, block in _FENCE.findall(text) if name in languages]


def files(document: str) -> dict[str, str]:
    """Blocks whose first line is a comment with the path of a file, and nothing else."""
    found = {}
    for text in blocks(document, "yaml", "python"):
        match = re.match(r"# ([\w./-]+\.\w+)\n", text)
        if match:
            found[match[1]] = text[match.end() :]
    return found


def sessions(document: str) -> list[tuple[str, str]]:
    """Commands of the console blocks, in order, with the output that follows them."""
    found = []
    for block in blocks(document, "console"):
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


def documents() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "*.md", ":!test/fixtures"], cwd=ROOT, capture_output=True, check=True
    )
    return listed.stdout.decode().split()


@pytest.mark.parametrize("document", [name for name in documents() if sessions(name)])
def test_examples_print_what_documents_show(document: str, tmp_path: Path) -> None:
    for name, text in files(document).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    for command, shown in sessions(document):
        printed = run(command, tmp_path)
        assert _SECONDS.sub("T s", printed).rstrip() == _SECONDS.sub("T s", shown).rstrip()


def test_examples_are_found() -> None:
    assert len(sessions(LINT)) == 2
    assert set(files(LINT)) == {"test/suites.yml", "test/registered/test_scale.py"}


def test_registrations_of_the_page_are_valid() -> None:
    from runci.read.parse import parse
    from runci.read.registrations import registrations

    example = next(
        text for text in blocks("docs/registering.md", "python") if "register_cpu_ci" in text
    )
    read = [
        (r.backend.value, r.effective_suite) for r in registrations(parse("x.py", example.encode()))
    ]
    assert read == [
        ("cpu", "base-a-test-cpu"),
        ("cuda", "nightly-kernel-1-gpu-small"),
        ("cuda", "base-b-test-1-gpu-large"),
    ]


# Documents, and paths in repositories of tests.
NO_CODE = (":!*.md", ":!test/fixtures", ":!test/registered/unit/runci", ":!test/support")


def anchors(document: Path) -> set[str]:
    """The names that GitHub gives to the headings of a document."""
    headings = re.findall(r"(?m)^#+ (.+)$", document.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


def test_pages_that_code_names_exist() -> None:
    """`make lint` follows the links of documents; these stand in comments and messages."""
    listed = subprocess.run(
        ["git", "grep", "-hoE", r"\bdocs/[a-z/-]+\.md(#[a-z-]+)?", "--", ".", *NO_CODE],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    named = {*listed.stdout.split()}
    assert "docs/gate.md" in named
    for target in named:
        page, _, anchor = target.partition("#")
        assert (ROOT / page).is_file(), target
        assert not anchor or anchor in anchors(ROOT / page), target


def named_paths(text: str) -> set[str]:
    """The Python files that a document names in code, but for placeholders, with capitals."""
    shown = re.sub(r"(?ms)^ *```(?:python|yaml|console)\n.*?^ *```$", "", text)
    shell = " ".join(re.findall(r"(?ms)^ *```\w*\n(.*?)^ *```$", shown))
    code = " ".join(re.findall(r"`([^`\n]+)`", shown)) + " " + shell
    return {path for path in re.findall(r"[\w./-]+/[\w-]+\.py\b", code) if path.islower()}


# Paths in a checkout of somebody else's.
FOREIGN = {"examples/sglang/README.md", "docs/lists.md"}


@pytest.mark.parametrize("name", sorted({*documents()} - FOREIGN))
def test_python_files_that_documents_name_exist(name: str) -> None:
    """They are named from the root, from the document's folder, or from the package."""
    document = ROOT / name
    bases = (ROOT, document.parent, ROOT / "ci_scripts/runci")
    for path in named_paths(document.read_text(encoding="utf-8")):
        assert any((base / path).is_file() for base in bases), path


@pytest.mark.parametrize("name", sorted({*documents()} - {"CHANGELOG.md"}))
def test_modules_that_documents_name_exist(name: str) -> None:
    for module in re.findall(
        r"`(runci(?:\.(?!yml)\w+)+)`", (ROOT / name).read_text(encoding="utf-8")
    ):
        assert importlib.util.find_spec(module) is not None, module


def test_files_that_documents_name_are_recognized() -> None:
    text = "`a/b.py`, `python c/d.py --x`, `x/NAME.py`, e.py\n```sh\nrun f/g.py\n```\n"
    assert named_paths(text + "```python\n# h/i.py\n```\n") == {"a/b.py", "c/d.py", "f/g.py"}


def contributed() -> dict[str, str]:
    """The files of CONTRIBUTING's example of a rule, by the path in their first line."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"(?ms)^   ```python\n   # (\S+)\n(.*?)^   ```$", text)
    return {path: textwrap.dedent(block) for path, block in blocks}


def test_the_rule_of_contributing_works(tmp_path: Path) -> None:
    (module, rule), (bad, found), (good, clean) = contributed().items()
    name = re.findall(r"(?m)^([A-Z_]+) = FileRule", rule)[0]
    shutil.copytree(ROOT / "ci_scripts/runci", tmp_path / "ci_scripts/runci")
    source = (tmp_path / module).read_text(encoding="utf-8")
    above, _, rules = source.partition("\nRULES = (\n")
    if name not in source:  # whoever tries the example has it there
        (tmp_path / module).write_text(f"{above}\n\n{rule}\nRULES = (\n    {name},\n{rules}")
    (tmp_path / "test/registered").mkdir(parents=True)
    shutil.copy(ROOT / "test/fixtures/suites.yml", tmp_path / "test")
    for path, text in ((bad, found), (good, clean)):
        (tmp_path / "test/registered" / Path(path).name).write_text(text, encoding="utf-8")
    lint = [sys.executable, "-m", "runci", "lint", "--select", "RT110", "--format", "concise"]
    done = subprocess.run(
        [*lint, "--no-cache", "--root", str(tmp_path)],
        cwd=tmp_path / "ci_scripts",
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    expected = [n for n, line in enumerate(found.splitlines(), 1) if "expect: RT110" in line]
    assert re.findall(r"(\w+\.py):(\d+):\d+: (\w+) ", done.stdout) == [
        (Path(bad).name, str(line), "RT110") for line in expected
    ], done.stderr


def test_what_the_gate_protects_has_owners() -> None:
    """Both take a name without a slash for every folder, and the last line of two decides."""
    from runci.gate.rules import PROTECTED

    lines = (ROOT / ".github/CODEOWNERS").read_text(encoding="utf-8").splitlines()
    owned = [line.split() for line in lines if line and not line.startswith("#")]
    assert [pattern for pattern, *_ in owned] == list(PROTECTED)
    assert all(owners for _, *owners in owned)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
