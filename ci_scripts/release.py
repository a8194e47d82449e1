"""What must be so before a release, what its files are, and whether they work by themselves.

    release.py check TAG REPOSITORY   versions, tag, changelog and addresses agree
    release.py files DIST             DIST holds the wheel and sdist of both, and nothing else
    release.py try DIST               each wheel in an environment of its own
    release.py notes                  the changelog's newest part

Ends with 1 where something is wrong, a line each; docs/releasing.md says when which is run.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Each distribution's version, and where it stands.
VERSIONS = {
    "runci": ("ci_scripts/runci/__init__.py", re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)),
    "sm120_ba": ("kernel/pyproject.toml", re.compile(r'^version = "(.+)"$', re.MULTILINE)),
}
# Where OWNER stands until somebody fills it in, and is read by whoever uses the release.
ADDRESSES = (
    "pyproject.toml",
    "kernel/pyproject.toml",
    "mkdocs.yml",
    "ci_scripts/runci/core/site.py",
    ".github/CODEOWNERS",
)
_ADDRESS = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+)")
_OWNER = re.compile(r"\bOWNER\b")
_VERSION = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}")
_PART = re.compile(
    r"^## \[(?P<name>[^\]]+)\](?: - (?P<date>\d{4}-\d\d-\d\d))?[ \t]*$", re.MULTILINE
)
UNRELEASED = "Unreleased"


@dataclass(frozen=True, slots=True)
class Part:
    """One `## [NAME] - DATE` of the changelog and the text below it; `date` is "" without one."""

    name: str
    date: str
    text: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What a release is made of; `tag` is "" for a dry run, `texts` are of ADDRESSES by path."""

    tag: str
    repository: str
    versions: Mapping[str, str]
    parts: Sequence[Part]
    texts: Mapping[str, str]


def parts_of(changelog: str) -> list[Part]:
    """The changelog's parts, in its order."""
    heads = list(_PART.finditer(changelog))
    starts = [*(head.start() for head in heads), len(changelog)]
    return [
        Part(head["name"], head["date"] or "", changelog[head.end() : end].strip())
        for head, end in zip(heads, starts[1:], strict=True)
    ]


def faults(facts: Facts) -> list[str]:
    """Why this may not be released, a line each."""
    return [*_versions(facts), *_changelog(facts), *_addresses(facts)]


def _versions(facts: Facts) -> Iterator[str]:
    for name, version in facts.versions.items():
        if not _VERSION.fullmatch(version):
            yield f"{VERSIONS[name][0]}: version {version!r} is not NUMBER.NUMBER.NUMBER"
        if facts.tag and facts.tag != f"v{version}":
            yield f"{VERSIONS[name][0]}: version {version!r}, but the tag is {facts.tag!r}"
    if len(set(facts.versions.values())) > 1:
        both = " and ".join(f"{name} {version}" for name, version in facts.versions.items())
        yield f"{both}: both are released together, with one version"


def _changelog(facts: Facts) -> Iterator[str]:
    if not facts.parts:
        yield "CHANGELOG.md: no heading `## [VERSION] - DATE`"
    if not facts.tag:
        return
    for part in facts.parts[:1]:
        if part.name == UNRELEASED and part.text:
            yield f"CHANGELOG.md: [{UNRELEASED}] has entries: move them below {facts.tag[1:]}"
    released = [part for part in facts.parts if part.name != UNRELEASED]
    for part in released[:1]:
        if f"v{part.name}" != facts.tag:
            yield f"CHANGELOG.md: its newest version is {part.name}, but the tag is {facts.tag!r}"
        elif not part.date:
            yield f"CHANGELOG.md: [{part.name}] has no date: write `## [{part.name}] - YYYY-MM-DD`"
        elif not part.text:
            yield f"CHANGELOG.md: [{part.name}] says nothing"
    if facts.parts and not released:
        yield f"CHANGELOG.md: no version, but the tag is {facts.tag!r}"


def _addresses(facts: Facts) -> Iterator[str]:
    for path, text in facts.texts.items():
        open_ones = [n for n, line in enumerate(text.splitlines(), 1) if _OWNER.search(line)]
        if open_ones:
            more = f" (and {len(open_ones) - 1} lines more)" if len(open_ones) > 1 else ""
            yield f"{path}:{open_ones[0]}: OWNER stands where the owner's name must{more}"
        for number, line in enumerate(text.splitlines(), 1):
            for found in _ADDRESS.finditer(line):
                name = found[1].removesuffix(".git")
                if not _OWNER.search(name) and name.lower() != facts.repository.lower():
                    yield f"{path}:{number}: {found[0]}, but this is {facts.repository}"


def files_of(versions: Mapping[str, str]) -> set[str]:
    """The names of the files of a release."""
    ends = ("-py3-none-any.whl", ".tar.gz")
    return {f"{name}-{version}{end}" for name, version in versions.items() for end in ends}


def read_versions() -> dict[str, str]:
    """As the sources say; "" where they do not."""
    found = {}
    for name, (path, pattern) in VERSIONS.items():
        match = pattern.search((ROOT / path).read_text(encoding="utf-8"))
        found[name] = match[1] if match else ""
    return found


def check(tag: str, repository: str) -> list[str]:
    """What speaks against a release of this tree."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in ADDRESSES}
    return faults(Facts(tag, repository, read_versions(), parts_of(changelog), texts))


def files(dist: Path) -> list[str]:
    """What is missing in a folder, or should not be there."""
    wanted, there = files_of(read_versions()), {path.name for path in dist.iterdir()}
    missing = [f"{dist / name} is missing" for name in sorted(wanted - there)]
    return [*missing, *(f"{dist / name} is no file of it" for name in sorted(there - wanted))]


SUITES = """\
version: 1
roots: [tests]
runners: {cpu: {label: ubuntu-latest, execution: pytest}}
suites: {cpu: [{name: unit, runner: cpu, kind: per-commit, run_by: nobody, tests: ["tests/**"]}]}
"""
TREES = {"good": "def test_sum():\n    assert 1 + 1 == 2\n", "bad": "def test_sum(:\n"}


def attempts(version: str, places: Mapping[str, Path]) -> Iterator[tuple[list[str], int, str]]:
    """What is run in the environments: command, status, and what its output must hold."""
    runci, kernel = ([str(places[name] / "bin" / "python")] for name in VERSIONS)
    yield [*runci, "-m", "runci", "--version"], 0, version
    yield [str(places["runci"] / "bin" / "runci"), "rule", "RT101"], 0, "RT101"
    for name, status, says in (("good", 0, "no findings"), ("bad", 1, "test_sum.py")):
        yield [*runci, "-m", "runci", "lint", "--root", str(places[name])], status, says
    show = "import importlib.metadata as m, sys, sm120_ba; print(m.version('sm120-ba'))"
    yield [*kernel, "-c", f"{show}; assert 'torch' not in sys.modules"], 0, version
    yield [*kernel, "-m", "sm120_ba", "--help"], 0, "prove"


def try_out(dist: Path, folder: Path) -> list[str]:
    """What does not work of the wheels; of the kernel, what works without a torch."""
    version = read_versions()["runci"]
    places = {}
    for name, options in {"runci": [], "sm120_ba": ["--no-deps"]}.items():
        places[name] = folder / name
        venv.create(places[name])
        wheel = dist / f"{name}-{version}-py3-none-any.whl"
        pip = [sys.executable, "-m", "pip", "--python", str(places[name]), "install", "--quiet"]
        subprocess.run([*pip, *options, str(wheel)], check=True)
    for name, text in TREES.items():
        places[name] = folder / name
        (places[name] / "tests").mkdir(parents=True)
        (places[name] / "tests" / "test_sum.py").write_text(text, encoding="utf-8")
        (places[name] / "runci.yml").write_text(SUITES, encoding="utf-8")
    wrong = []
    for command, status, says in attempts(version, places):
        # Not in the checkout, whose packages would be found first.
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != status or says not in done.stdout:
            shown = " ".join(command)
            wrong.append(f"{shown}: {done.returncode}, not {status}: {done.stdout}{done.stderr}")
    return wrong


def main(argv: Sequence[str] | None = None) -> int:
    """One of the four."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    checking = commands.add_parser("check")
    checking.add_argument("tag", metavar="TAG", help='"" for a dry run')
    checking.add_argument("repository", metavar="REPOSITORY", help="OWNER/NAME")
    for name in ("files", "try"):
        commands.add_parser(name).add_argument("dist", type=Path, metavar="DIST")
    commands.add_parser("notes")
    options = parser.parse_args(argv)
    if "dist" in options and not options.dist.is_dir():
        parser.error(f"{options.dist}: no such folder")
    wrong: list[str] = []
    if options.command == "check":
        wrong = check(options.tag, options.repository)
    elif options.command == "files":
        wrong = files(options.dist)
    elif options.command == "try":
        wrong = files(options.dist)
        with tempfile.TemporaryDirectory() as folder:
            wrong = wrong or try_out(options.dist.absolute(), Path(folder))
    else:
        parts = parts_of((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
        print(next((part.text for part in parts if part.text), ""))
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
