"""Files of many kinds, soiled: what they say before and after `whitespace --fix`."""

from __future__ import annotations

import ast
import configparser
import csv
import io
import json
import pickle
import random
import subprocess
import sys
import tokenize
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from commonmark import leaves, rendered

if sys.version_info >= (3, 11):
    import tomllib
else:  # pytest brings it there
    import tomli as tomllib

_BLANKS = (" ", "  ", "   ", "\t", " \t", "\u00a0 ")
_WORDS = ("a", "bb", "é", "x y", "1", "on", "z\u200b", "", "key  ", "\ta")


def _word(rng: random.Random) -> str:
    return rng.choice(_WORDS)


def _words(rng: random.Random, between: str = " ") -> str:
    return between.join(_word(rng) for _ in range(rng.randint(1, 4)))


def _table(rng: random.Random, between: str) -> str:
    return "".join(_words(rng, between) + between + "\n" for _ in range(rng.randint(1, 6)))


def _data(rng: random.Random, depth: int = 0) -> Any:
    if depth > 2 or rng.random() < 0.5:
        return rng.choice((1, None, True, f"{_words(rng)} \n {_word(rng)}  ", _word(rng)))
    inner = [_data(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    return inner if rng.random() < 0.5 else {f"k{n} ": value for n, value in enumerate(inner)}


def _notebook(rng: random.Random) -> str:
    cells = [{"cell_type": "code", "source": ["x = 1  \n", _words(rng)]} for _ in range(2)]
    return json.dumps({"cells": cells, "nbformat": 4}, indent=rng.choice((1, None)))


def _patch(rng: random.Random) -> str:
    lines = [rng.choice(" +-") + rng.choice(("", _words(rng))) + "\n" for _ in range(4)]
    return "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n" + "".join(lines) + "-- \n2.39.5\n\n"


_MARKDOWN = (
    "# Title  #\n",
    "a line  \nbroken\n",
    "a backslash\\\nbreaks\n",
    "```\ncode \n\n```\n",
    "    code  \n     \n    more\n",
    "- item  \n\n  text\n",
    "| a | b |\n|---|---|\n| 1 |  |\n",
    "> quote  \n> more \n",
    "<pre>\n x \n</pre>\n",
)
_TOML = ("a = '''\nx \n\n'''\n", 'b = """\\\n  x \\\n  y"""\n', "c = [1, \n 2]  # é\n", "[t] \n")
_INI = ("[s{n}]\n", "[t{n}]\nkey{n} = value \n", "[u{n}]\nlines{n} =\n  a \n\n  b\n", "; {n}\n")
_MAKE = ("all: \n\techo a \\\n\t  b \n", "define X\na \n\nendef\n", "Y = a \\\n  b\n", "S := x \n")
_SHELL = (
    "cat <<END\na \n\n\tb\nEND\n",
    "cat <<-END\n\ta \n\tEND\n",
    "x='a \n b'\n",
    "echo a \\\n  b\n",
    "echo \\ \n",
)
_PYTHON = (
    "a = '''x \n\n\ty\n'''\n",
    'b = r"""\n \\ \n"""\n',
    "c = f'''{1 +\n 2} \n{'é'}'''\n",
    "d = 'x\\\n y '\n",
    "e = 1 + \\\n    2\n",
    "def f():\n\t'''Doc \n\tmore.'''\n\treturn 1\n",
    "def g():\n    if a:\n        return [\n            1, \n\n        ]\n",
    "# a comment \u00a0é \u200b\n",
    "h = b'''x \ny'''\n",
    "i = '\u00a0'  # \u00a0\n",
    "\x0c\nclass A:\n    x = 1\n\n    y = '''\n'''\n",
    "if 1:\n    pass\n",
    "j = rb'''\r\n'''\n",
    "k = 1; l = f'{a!r:>{10}} '\n",
)
_COMMENTS = ("", "", "", "  # é", "  # a\u00a0b", " #")
_HEADERS = ("|", ">", "|-", ">-", "|+", ">+", "|  # é", "&a |")
_SCALARS = (
    *("x", "'a b'", '"a b"', "12", "", "~", "[a, b]", "{a: b}", "!!str 1", "é", "'\u00a0'"),
    "[a,\n @ b, \n @\n @ 'c\n @  d']",
    "x\n@ y\n\n@ z",
    "'x\n\n@  y '",
    '"x \\\n@ y\\ \n@ z"',
    '"a\n@ b"',
    "{a: 1,\n@ b: [\n@ ]}",
    "&b x",
    "? x",
)


def _yaml(rng: random.Random) -> str:
    """Documents of mappings and sequences; `@` in a scalar is the indentation below its key."""
    documents = ["".join(_entries(rng, "")) for _ in range(rng.choice((1, 1, 1, 2)))]
    head = rng.choice(("", "", "---\n", "# é\n", "%YAML 1.1\n---\n"))
    return head + rng.choice(("---\n", "...\n---\n", "--- # é\n")).join(documents)


def _entries(rng: random.Random, indent: str) -> list[str]:
    lines = []
    sequence = rng.random() < 0.3
    for number in range(rng.randint(1, 4)):
        key = indent + ("-" if sequence else f"k{number}:")
        kind = rng.random()
        if kind < 0.3 and len(indent) < 6:
            lines += [f"{key}{rng.choice(_COMMENTS)}\n", *_entries(rng, indent + "  ")]
        elif kind < 0.6:
            lines.append(f"{key} {rng.choice(_HEADERS)}\n{_block(rng, indent + '  ')}")
        else:
            scalar = rng.choice(_SCALARS).replace("@", indent + "  ")
            lines.append(f"{key} {scalar}{rng.choice(_COMMENTS)}\n")
        if rng.random() < 0.2:
            lines.append(rng.choice((f"{indent}# é\n", "\n", "   \n", "# a\u00a0b\n")))
    return lines


def _block(rng: random.Random, indent: str) -> str:
    lines = (rng.choice(("a", "  b", "", " ", "c  ", "# d", "\t", "é")) for _ in range(3))
    return f"{indent}x\n" + "".join(f"{indent}{line}\n" for line in lines)


def _some(parts: Sequence[str]) -> Callable[[random.Random], str]:
    def make(rng: random.Random) -> str:
        chosen = [rng.choice(parts) for _ in range(rng.randint(1, 5))]
        return "".join(part.replace("{n}", str(place)) for place, part in enumerate(chosen))

    return make


def _blob(rng: random.Random) -> bytes:
    head = rng.choice((b"", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", b"\x89PNG\r\n\x1a\n", b"\x7fELF"))
    low = rng.choice((0, 1, 9))
    body = bytes(rng.choice((*range(low, 256), 10, 32, 13)) for _ in range(rng.randint(0, 90)))
    return head + body + rng.choice((b"", b" ", b"\r\n", b" \n\n"))


def _pickle(rng: random.Random) -> bytes:
    return pickle.dumps(_data(rng), protocol=0)


def _text(data: bytes) -> str:
    return data.decode("utf-8")


def _python(data: bytes) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.dump(ast.parse(data))


def _tokens(data: bytes) -> list[tuple[int, str]]:
    found = tokenize.tokenize(io.BytesIO(data).readline)
    layout = (tokenize.NEWLINE, tokenize.NL, tokenize.COMMENT)
    return [(token.type, token.string) for token in found if token.type not in layout]


def _or_bytes(parse: Callable[[bytes], object], data: bytes) -> object:
    """What a blob says if it happens to be text, else all of it."""
    try:
        return parse(data)
    except (ValueError, SyntaxError, tokenize.TokenError, yaml.YAMLError):
        return data


def _ini(data: bytes) -> dict[str, dict[str, str]]:
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(_text(data))
    return {name: dict(section) for name, section in parser.items()}


def _rows(between: str) -> Callable[[bytes], list[list[str]]]:
    return lambda data: list(csv.reader(io.StringIO(_text(data), newline=""), delimiter=between))


def _documents(data: bytes) -> list[object]:
    # libyaml takes tabs between tokens, which PyYAML's own parser does not.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader) if b"\t" in data else yaml.SafeLoader
    return list(yaml.load_all(data, loader))


def _markdown(data: bytes) -> list[tuple[object, ...]]:
    return [(t.type, t.content, t.attrs, t.map) for t in leaves(rendered(_text(data)))]


# How files of each name are made, and what they say; a name may come with several makers.
_KINDS: tuple[
    tuple[str, Callable[[random.Random], str | bytes], Callable[[bytes], object]], ...
] = (
    *((name, _blob, bytes) for name in ("x.bin", "x.sig", "x.pdf", "blob")),
    ("x.py", _blob, lambda data: _or_bytes(_tokens, data)),
    ("x.yml", _blob, lambda data: _or_bytes(_documents, data)),
    ("x.tsv", lambda rng: _table(rng, "\t"), _rows("\t")),
    ("x.csv", lambda rng: _table(rng, ","), _rows(",")),
    ("x.patch", _patch, bytes),
    ("x.pkl", _pickle, pickle.loads),
    ("x.ipynb", _notebook, json.loads),
    ("x.json", lambda rng: json.dumps(_data(rng), indent=2), json.loads),
    ("x.md", _some(_MARKDOWN), _markdown),
    ("x.toml", _some(_TOML), lambda data: tomllib.loads(_text(data))),
    ("x.ini", _some(_INI), _ini),
    ("Makefile", _some(_MAKE), bytes),
    ("x.sh", _some(_SHELL), bytes),
    *((("x.py", _some(_PYTHON), _python),) * 8),
    *((("x.yaml", _yaml, _documents),) * 8),
)


@dataclass(frozen=True)
class Soiled:
    """A file of a kind, with faults of whitespace; `value` parses it."""

    path: str
    data: bytes
    value: Callable[[bytes], object]

    def says(self, data: bytes) -> object:
        """What the bytes say; where no parser takes them, only that."""
        try:
            return self.value(data)
        except (ValueError, SyntaxError, LookupError, yaml.YAMLError, configparser.Error):
            return "cannot be parsed"
        except (pickle.UnpicklingError, EOFError, AttributeError, TypeError, csv.Error):
            return "cannot be parsed"


def soiled(seed: int) -> Soiled:
    """The file of a seed, the same on every machine."""
    rng = random.Random(seed)
    name, make, value = _KINDS[seed % len(_KINDS)]
    made = make(rng)
    path = f"f{seed}/{name}"
    if isinstance(made, bytes):
        return Soiled(path, made, value)
    return Soiled(path, _soil(rng, made).encode(), value)


def _soil(rng: random.Random, text: str) -> str:
    lines = text.split("\n")
    often = rng.choice((0, 0.1, 0.4))
    for place in range(len(lines)):
        if rng.random() < often:
            lines[place] += rng.choice(_BLANKS)
    text = "\n".join(lines)
    text = rng.choice((text, text, text.rstrip("\n"), text.rstrip(), text + "\n \n", text + "\n\n"))
    ends = rng.random()
    if ends < 0.1:
        text = text.replace("\n", "\r\n")
    elif ends < 0.2:
        text = "".join(rng.choice((c, "\r\n")) if c == "\n" else c for c in text)
    elif ends < 0.22:
        text = text.replace("\n", "\r", 1)
    return ("\ufeff" if rng.random() < 0.05 else "") + text


@dataclass(frozen=True)
class Outcome:
    """What held not, and how many files of each kind (suffix) were mended."""

    broken: list[str]
    mended: Counter[str]


def check_files(root: Path, seeds: Sequence[int]) -> Outcome:
    """Mend the files of these seeds below a folder, and compare what they say."""
    files = [soiled(seed) for seed in seeds]
    for one in files:
        (root / one.path).parent.mkdir(parents=True)
        (root / one.path).write_bytes(one.data)
    _mend(root)
    after = {one.path: (root / one.path).read_bytes() for one in files}
    outcome = Outcome([], Counter())
    for one in files:
        mended = after[one.path]
        if mended != one.data:
            outcome.mended[Path(one.path).suffix] += 1
            if one.says(mended) != one.says(one.data):
                outcome.broken.append(f"{one.path}: {one.data!r} became {mended!r}")
    left = _mend(root)
    outcome.broken.extend(
        f"{one.path}: mended again"
        for one in files
        if (root / one.path).read_bytes() != after[one.path]
    )
    outcome.broken.extend(f"{path}: says that it can be mended" for path in sorted(left))
    return outcome


def _mend(root: Path) -> set[str]:
    """Run the fix; the paths of findings that it calls fixable and leaves."""
    command = [sys.executable, "-m", "runci", "whitespace", "--fix", "--format=json"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return {f["path"] for f in json.loads(done.stdout)["findings"] if f["fixable"]}
