"""What of an event's payload a workflow reads: in expressions, shell scripts and github-script."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runci.workflows import expressions as syntax
from runci.workflows.conditions import parts, shown
from runci.workflows.expressions import Expression, ExpressionError, Literal, Name, parse, split
from runci.workflows.shell import commands
from runci.workflows.values import text_of

_FROZEN = frozenset(
    ("event", *path)
    for path in (
        ("pull_request", "labels"),
        ("pull_request", "draft"),
        ("issue", "labels"),
        ("issue", "draft"),
        ("label", "name"),
    )
)
_ABOVE = frozenset(path[:end] for path in _FROZEN for end in range(len(path)))
_FIELD = re.compile(r"\b(labels?|draft)\b")


def in_expressions(text: str, whole: bool) -> tuple[str, ...]:
    """The frozen parts that a value reads. `whole`: it may be one without `${{ }}`."""
    found: set[str] = set()
    pieces = split(text)
    for piece in pieces:
        if (
            not (piece.expression or (whole and len(pieces) == 1))
            or "github" not in piece.text.lower()
        ):
            continue
        try:
            expression = parse(piece.text)
        except (ExpressionError, RecursionError):
            continue  # another rule reports it
        found.update(shown(p) for p in parts(expression) if _path(p) in _FROZEN)
        found.update(_taken_whole(expression))
    return tuple(sorted(found))


def _taken_whole(expression: Expression) -> Iterator[str]:
    """What holds frozen parts and is looked through: `toJSON(github.event)`, `github.event.*`."""
    for part in parts(expression):
        match part:
            case syntax.Call(_, arguments):
                looked_through = arguments
            case syntax.Star(of):
                looked_through = (of,)
            case syntax.Access(of, key) if not isinstance(key, Literal):
                looked_through = (of,)
            case _:
                continue
        if any(_path(of) in _ABOVE for of in looked_through):
            yield shown(part)


def _path(expression: Expression) -> tuple[str, ...] | None:
    """The keys below `github`; None for anything else."""
    keys: list[str] = []
    while isinstance(expression, syntax.Access) and isinstance(expression.key, Literal):
        keys.insert(0, text_of(expression.key.value).lower())
        expression = expression.of
    return tuple(keys) if expression == Name("github") else None


_EVENT_FILE = re.compile(r"GITHUB_EVENT_PATH\b|github\.event_path\b")
_PROGRAM = re.compile(r"(environ|getenv|process\.env)[^\n]*GITHUB_EVENT_PATH")
_KEY = re.compile(r"""['"](labels?|draft)['"]|\.(labels?|draft)\b""")
_SUBSTITUTION = re.compile(r"\$\([^()]*\)")
_COPY = re.compile(r"\$\((cat\b|<)")
_PRINTS = frozenset({":", "cat", "echo", "printf", "set", "true"})


def only_prints(script: str) -> bool:
    """Whether a script does nothing but write to the log."""
    found = commands(script)
    names = (command.words[0].text for command in found if command.words)
    return all(name in _PRINTS for name in names) and not any(c.written for c in found)


def in_script(script: str) -> tuple[str, ...]:
    """The frozen parts that a shell script, or a program in it, reads from the event's file."""
    known, piped = [_EVENT_FILE], False
    for command in commands(script):
        names = [name for name, value in command.assigned if _reads(value, known, _COPY)]
        known += [re.compile(rf"\$\{{?{re.escape(name)}\b") for name in names]
        text = " ".join(_SUBSTITUTION.sub("", word.text) for word in command.words)
        reads = piped or _reads(text, known, None)
        field = _FIELD.search(text)
        if reads and (field is not None or (command.words and command.words[0].text == "grep")):
            return (f"{field[0] if field else 'what grep finds'} in GITHUB_EVENT_PATH",)
        piped = reads and command.after in ("|", "|&")
    bare = re.sub(r"(?m)(^|\s)#.*", "", script)
    field = _KEY.search(bare) if _PROGRAM.search(bare) else None
    return (f"{field[1] or field[2]} in GITHUB_EVENT_PATH",) if field else ()


def _reads(text: str, known: list[re.Pattern[str]], copy: re.Pattern[str] | None) -> bool:
    """Whether a text names the event's file; with `copy` a substitution must be a copy of it."""
    if copy is not None and "$(" in text and not copy.search(text):
        return False
    return any(pattern.search(text) for pattern in known)


_CHAIN = r"((?:\s*\??\.\s*\w+|\s*(?:\?\.)?\[[^\]]*\])*)"
_PAYLOAD = re.compile(rf"\bcontext\s*\??\.\s*payload\b{_CHAIN}")
_ALIAS = re.compile(rf"\b(?:const|let|var)\s+(\w+)\s*=\s*\(?\s*context\s*\??\.\s*payload\b{_CHAIN}")
_TAKEN_APART = re.compile(
    r"\b(?:const|let|var)\s*\{([^}]*)\}\s*=\s*context(\s*\??\.\s*payload[\w\s.?]*)?"
)
_AS_TEXT = re.compile(
    rf"(?<!log\()(?<!info\()(?<!debug\()JSON\.stringify\(\s*context\s*\.\s*payload\b{_CHAIN}"
)


def in_javascript(script: str) -> tuple[str, ...]:
    """The frozen parts that a script of actions/github-script reads from `context.payload`."""
    text = re.sub(r"/\*.*?\*/|(?m:(?<![:'\"])//.*$)", "", script, flags=re.DOTALL)
    found = [match[0] for match in _PAYLOAD.finditer(text) if _FIELD.search(match[1])]
    # A text of all of it can be searched for anything; one that is only logged decides nothing.
    found += [m[0] for m in _AS_TEXT.finditer(text) if _leads_to_frozen(m[1])]
    names = {match[1] for match in _ALIAS.finditer(text)}
    for match in _TAKEN_APART.finditer(text):
        if match[2] is None:
            names |= {"payload"} & set(re.findall(r"\w+", match[1]))
        elif _FIELD.search(match[1]):
            found.append(match[0])
    for name in sorted(names):
        later = re.finditer(rf"(?<![\w.]){name}\b{_CHAIN}", text)
        found += [match[0] for match in later if _FIELD.search(match[1])]
    return tuple(sorted({" ".join(one.split()) for one in found}))


def _leads_to_frozen(chain: str) -> bool:
    return ("event", *re.findall(r"\w+", chain)) in _ABOVE
