"""The entry for pre-commit: added to what is there, where nothing else of it changes. Pure."""

from __future__ import annotations

from runci.read.yamlpos import YamlError, load

HOOKS = ".pre-commit-config.yaml"
ID = "runci-check"
_ENTRY = """\
- repo: local
  hooks:
    - id: runci-check
      name: runci check (tests, workflows, whitespace)
      entry: runci check
      language: system # the runci of whoever commits
      pass_filenames: false
"""


def entry(column: int = 3) -> str:
    """The entry of `repos:`, its dash in a column from 1."""
    return "".join(f"{' ' * (column - 1)}{line}\n" for line in _ENTRY.splitlines())


def has_entry(data: bytes) -> bool:
    """Whether a hook of ours stands there already."""
    return b"id: runci-" in data


def appended(data: bytes) -> bytes | None:
    """The file with the entry at its end; None where that would change anything else of it."""
    try:
        before = load(data, HOOKS)
        repos = before.get("repos")
        if repos is None or not repos.items:
            return None
        text = data.decode()
        column = _dash(text, repos.items[0].line)
        if column is None:
            return None
        end = "\r\n" if "\r\n" in text else "\n"
        added = entry(column).replace("\n", end)
        after = f"{text}{'' if text.endswith(end) else end}{added}".encode()
        plain, old = load(after, HOOKS).plain(), before.plain()
    except (YamlError, UnicodeDecodeError):
        return None
    if not isinstance(plain, dict) or not isinstance(old, dict):
        return None
    *same, new = plain["repos"]
    kept = same == old["repos"] and new.get("repo") == "local" and {**plain, "repos": same} == old
    return after if kept else None


def _dash(text: str, line: int) -> int | None:
    """The column of the dash of a list's entry on this line, from 1."""
    written = text.split("\n")[line - 1]
    stripped = written.lstrip(" ")
    return len(written) - len(stripped) + 1 if stripped.startswith("- ") else None
