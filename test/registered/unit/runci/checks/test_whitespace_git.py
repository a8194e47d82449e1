"""The whitespace lint against git itself: `git diff --check` on generated files."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from runci import register_cpu_ci
from runci.checks import ws
from runci.checks.registry import rules
from runci.checks.rule import Options
from runci.core.finding import Finding

register_cpu_ci(est_time=7, stage="base-a", runner_config="cpu")

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
ATTRIBUTES = {
    "c": "",
    "all": "whitespace",
    "off": "-whitespace",
    "tab": "whitespace=tab-in-indent,-space-before-tab",
    "both": "whitespace=tab-in",
    "non": "whitespace=indent-with-non-tab,tabwidth=4",
    "cr": "whitespace=cr-at-eol",
    "eol": "whitespace=-blank-at-eol",
    "eof": "whitespace=-blank-at-eof",
    "none": "whitespace=-trailing-space,-space-before-tab",
    "mark": "conflict-marker-size=9",
    "auto": "text=auto",
    "crlf": "text eol=crlf",
    "lf": "eol=lf",
    "bin": "-diff",
    "raw": "-text",
}
KINDS = {
    "trailing whitespace": "WS101",
    "new blank line at EOF": "WS103",
    "space before tab in indent": "WS106",
    "tab in indent": "WS107",
    "indent with spaces": "WS108",
    "leftover conflict marker": "WS113",
}
FRAGMENTS = [b" ", b"\t", b"    ", b"a", b"b c", b"\x0c", b"\r", b"\r", b"\xe9", b"\xc2\xa0"]
MARKERS = [b"<<<<<<< a", b"=======", b">>>>>>> b", b"||||||| c", b"<<<<<<<", b"<<<<<<<<", b"<" * 9]

Place = tuple[str, int, str]


def lines() -> st.SearchStrategy[bytes]:
    plain = st.lists(st.sampled_from(FRAGMENTS), max_size=5).map(b"".join)
    return st.one_of(plain, plain, st.just(b""), st.sampled_from(MARKERS))


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    body = draw(st.lists(lines(), max_size=7))
    ends = draw(st.lists(st.sampled_from([b"\n", b"\n", b"\r\n"]), min_size=7, max_size=7))
    last = draw(st.sampled_from([b"", b"", b"end", b"  "]))
    return b"".join(line + end for line, end in zip(body, ends, strict=False)) + last


def git(root: Path, *args: str) -> bytes:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *args]
    return subprocess.run(command, cwd=root, capture_output=True, check=False).stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    git(root, "init", "-q")
    for key, value in {
        "core.whitespace": "",
        "core.autocrlf": "false",
        "core.safecrlf": "false",
        "core.excludesFile": "",
        "core.attributesFile": "",
        "commit.gpgSign": "false",
    }.items():
        git(root, "config", key, value)
    attributes = "".join(f"*.{name} {value}\n" for name, value in ATTRIBUTES.items() if value)
    (root / ".gitattributes").write_bytes(attributes.encode())
    return root


def by_git(root: Path, base: str) -> set[Place]:
    found: set[Place] = set()
    for line in git(root, "diff", "--check", base).decode("latin-1").split("\n"):
        if match := re.fullmatch(r"(f\.\w+):(\d+): ([a-zA-Z, ]+)\.?", line):
            found |= {(match[1], int(match[2]), KINDS[kind]) for kind in match[3].split(", ")}
    return found


def by_us(findings: Iterable[Finding]) -> set[Place]:
    """What git has a name for."""
    return {(f.path, f.line, f.rule) for f in findings if f.rule in KINDS.values()}


def returns(findings: Iterable[Finding]) -> set[tuple[str, int]]:
    """The first line with CRLF of each file."""
    return {
        (f.path, f.line)
        for f in findings
        if f.rule in ("WS104", "WS105") and "lone" not in f.message
    }


def as_ours(places: set[Place], new: dict[str, bytes]) -> tuple[set[Place], set[tuple[str, int]]]:
    """git's places without its CRLF, which is trailing whitespace to git, and the CRLF."""
    kept: set[Place] = set()
    crlf: dict[str, int] = {}
    for path, line, kind in places:
        text = new[path].split(b"\n")[line - 1]
        if kind == "WS101" and text.endswith(b"\r"):
            if not path.endswith((".lf", ".crlf")):  # the blank before the CR is what git saw
                crlf[path] = min(line, crlf.get(path, line))
            if not text[:-1].endswith((b" ", b"\t", b"\r")):
                continue
        kept.add((path, line, kind))
    return kept, set(crlf.items())


def comparable(places: set[Place], old: dict[str, bytes], new: dict[str, bytes]) -> set[Place]:
    """Without what we decide otherwise than git, and why."""
    kept: set[Place] = set()
    for path, line, kind in places:
        text = new[path].split(b"\n")
        if kind == "WS103" and not (new[path].strip() and (old[path].strip() or not old[path])):
            continue  # git does not count the first line of a file that has only blank ones
        if kind == "WS113" and text[line - 1].rstrip() in (b"=" * 7, b"=" * 9):
            continue  # a heading may be underlined with them: compared in test_whitespace.py
        if kind == "WS113" and line == len(text) and text[-1] == text[-1].rstrip():
            continue  # git wants a character after the marker, even at the end of the file
        kept.add((path, line, kind))
    return kept


# Without shrinking: each example costs some processes.
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(data=st.data())
def test_agrees_with_git_diff_check(repository: Path, data: st.DataObject) -> None:
    names = [f"f.{suffix}" for suffix in ATTRIBUTES]
    old = {name: data.draw(texts()) for name in names}
    new = {name: data.draw(st.one_of(texts(), texts().map(old[name].__add__))) for name in names}
    for name in names:
        (repository / name).write_bytes(old[name])
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "--allow-empty", "-m", "old")
    for name in names:
        (repository / name).write_bytes(new[name])
    nothing = dict.fromkeys(names, b"")
    for base, before in (("HEAD", old), (None, nothing)):
        findings = ws.find(
            Options(
                repository,
                repository / "test" / "suites.yml",
                repository,
                frozenset(rules(("WS",))),
                diff_base=base,
                markdown_breaks=False,
            )
        ).findings
        theirs, crlf = as_ours(by_git(repository, base or EMPTY_TREE), new)
        assert comparable(by_us(findings), before, new) == comparable(theirs, before, new)
        # Only to git is CRLF a kind of blank; what is converted is tested in test_whitespace.py.
        apart = (".cr", ".eol", ".none", ".raw", ".auto")
        ours = {place for place in returns(findings) if not place[0].endswith(apart)}
        assert ours == {place for place in crlf if not place[0].endswith(apart)}


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
