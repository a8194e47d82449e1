"""Expressions against GitHub's own evaluator (`@actions/expressions`, in Node).

Left out, because the two evaluators that GitHub has (this one, and the one in C# that runs jobs)
disagree: more than 15 digits, binary numbers, and letters whose capital is several letters.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runci import register_cpu_ci
from runci.workflows.evaluate import evaluate
from runci.workflows.expressions import ExpressionError, parse
from runci.workflows.values import OneOf, Unknown, Value

register_cpu_ci(est_time=2, stage="base-a", runner_config="cpu")

NODE = Path(__file__).parents[4] / "node"
# The one that the `test` extra installs, else the system's.
NODE_PROGRAM = shutil.which("node", path=str(Path(sys.executable).parent)) or shutil.which("node")
GENERATED = 4000

CONTEXTS: dict[str, object] = {
    "github": {
        "event_name": "pull_request",
        "ref": "refs/pull/7/merge",
        "event": {
            "action": "labeled",
            "number": 7,
            "pull_request": {
                "draft": False,
                "labels": [{"name": "run-ci", "id": 1}, {"name": "Bug", "id": 2}, {"id": 3}],
                "head": {"repo": None, "ref": "patch-1"},
            },
            "inputs": None,
        },
    },
    "inputs": {"flag": True, "off": False, "n": 2, "zero": 0, "text": "Alpha", "empty": ""},
    "needs": {
        "gate": {"result": "success", "outputs": {"allowed": "true", "list": '["a", "B", 3]'}},
        "Build-1": {"result": "skipped", "outputs": {}},
        "lint": {"result": "failure", "outputs": {"allowed": "false"}},
    },
    "matrix": {"list": [1, "2", True, None, [3, [4]], {"k": "v", "K2": {"deep": 1}}], "half": 0.5},
}

WRITTEN = Path(__file__).parents[4] / "fixtures/expressions.txt"


class Generator:
    """Random expressions, most of which GitHub accepts."""

    LITERALS = (
        "null",
        "true",
        "false",
        "0",
        "1",
        "-1",
        "2",
        "7",
        ".5",
        "1.5",
        "1e2",
        "0x10",
        "NaN",
        "Infinity",
        "''",
        "'a'",
        "'A'",
        "'alpha'",
        "'true'",
        "'false'",
        "'0'",
        "'1'",
        "' 2'",
        "'0x2'",
        "'success'",
        "'run-ci'",
        "'x''y'",
        "'Array'",
        "'[1, \"a\"]'",
        '\'{"a": {"b": 2}}\'',
        "'_'",
    )
    REFERENCES = (
        "inputs.flag",
        "inputs.off",
        "inputs.n",
        "inputs.zero",
        "inputs.text",
        "inputs.empty",
        "inputs.gone",
        "inputs",
        "needs.gate.result",
        "needs.gate.outputs.allowed",
        "needs.lint.outputs.allowed",
        "needs['Build-1']",
        "needs.*.result",
        "needs.*.outputs.allowed",
        "needs",
        "matrix.list",
        "matrix.list.*",
        "matrix.list[5].k",
        "matrix.half",
        "matrix.list[4]",
        "github.event.pull_request.labels.*.name",
        "github.event_name",
        "github.event.number",
        "github.event.pull_request.draft",
        "github.event.pull_request.head.repo",
        "github.event.*.draft",
        "github.ref",
        "needs.build-1.outputs.none",
        "github.event.label.name",
    )
    FUNCTIONS = (
        ("contains", 2, 2),
        ("startsWith", 2, 2),
        ("endsWith", 2, 2),
        ("format", 2, 4),
        ("join", 1, 2),
        ("toJSON", 1, 1),
        ("fromJSON", 1, 1),
        ("case", 3, 3),
        ("case", 5, 5),
    )

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def expression(self, depth: int) -> str:
        chance = self._random.random()
        if depth == 0 or chance < 0.15:
            return self._random.choice(self._random.choice((self.LITERALS, self.REFERENCES)))
        if chance < 0.27:
            return f"!{self._grouped(depth - 1)}"
        if chance < 0.5:
            return self._call(depth - 1)
        if chance < 0.55:
            return f"{self._random.choice(self.REFERENCES)}[{self.expression(depth - 1)}]"
        if chance < 0.6:
            return f"fromJSON(toJSON({self.expression(depth - 1)}))"
        symbol = self._random.choice(("==", "!=", "<", "<=", ">", ">=", "&&", "||", "&&", "||"))
        return f"{self._grouped(depth - 1)} {symbol} {self._grouped(depth - 1)}"

    def _grouped(self, depth: int) -> str:
        text = self.expression(depth)
        return f"({text})" if self._random.random() < 0.6 else text

    def _call(self, depth: int) -> str:
        name, least, most = self._random.choice(self.FUNCTIONS)
        arguments = [self.expression(depth) for _ in range(self._random.randint(least, most))]
        if name == "format":
            arguments[0] = self._random.choice(("'{0}'", "'{0}-{1}'", "'{{{0}}}'", "'a{0}{0}'"))
        if name == "fromJSON" and self._random.random() < 0.7:
            arguments[0] = self._random.choice(("'[1, \"a\"]'", '\'{"a": {"b": 2}}\'', "'null'"))
        if name == "case":
            arguments[:-1:2] = [f"({a}) == true" for a in arguments[:-1:2]]
        return f"{name}({', '.join(arguments)})"


def as_value(plain: object) -> Value:
    if isinstance(plain, list):
        return tuple(map(as_value, plain))
    if isinstance(plain, dict):
        return {key: as_value(item) for key, item in plain.items()}
    assert plain is None or isinstance(plain, (bool, int, float, str))
    return plain


def as_plain(value: Value) -> object:
    """A value as Node answers it."""
    if isinstance(value, tuple):
        return [as_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: as_plain(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"}
    return value


def ours(text: str) -> object:
    """The one value of an expression; an exception where it is none or not known."""
    values = evaluate(parse(text), {name: as_value(item) for name, item in CONTEXTS.items()})
    if len(values) != 1 or isinstance(values[0], (Unknown, OneOf)):
        raise LookupError(f"not known: {values}")
    return as_plain(values[0])


def github(expressions: list[str]) -> list[dict[str, object]]:
    asked = json.dumps({"contexts": CONTEXTS, "expressions": expressions})
    command = [NODE_PROGRAM or "node", "evaluate.mjs"]
    done = subprocess.run(
        command, cwd=NODE, input=asked, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, object]] = json.loads(done.stdout)
    return answers


needs_node = pytest.mark.skipif(
    NODE_PROGRAM is None or not (NODE / "node_modules/@actions/expressions").is_dir(),
    reason="needs Node and `npm ci` in test/node (make test installs both)",
)


def compared(expressions: list[str]) -> tuple[int, list[str]]:
    """How many expressions GitHub could evaluate, and where we differ."""
    agreed, differences = 0, []
    for text, answer in zip(expressions, github(expressions), strict=True):
        try:
            found: object = ours(text)
        except (ExpressionError, LookupError) as error:
            if "value" in answer:
                differences.append(f"{text}: GitHub {answer['value']!r}, here {error!r}")
            continue
        if "value" not in answer:
            continue  # GitHub fails where we know a value: what we allow is more than what runs
        agreed += 1
        if json.dumps(found, sort_keys=True) != json.dumps(answer["value"], sort_keys=True):
            same_number = (
                isinstance(found, float)
                and isinstance(answer["value"], (int, float))
                and found == answer["value"]
            )
            if not same_number:
                differences.append(f"{text}: GitHub {answer['value']!r}, here {found!r}")
    return agreed, differences


@needs_node
def test_written_expressions() -> None:
    expressions = WRITTEN.read_text(encoding="utf-8").splitlines()
    agreed, differences = compared(expressions)
    assert differences == []
    assert agreed > 0.75 * len(expressions) > 200


@needs_node
def test_generated_expressions() -> None:
    generator = Generator(seed=20260101)
    expressions = [
        generator.expression(depth) for depth in (1, 2, 3, 4) for _ in range(GENERATED // 4)
    ]
    agreed, differences = compared(expressions)
    assert differences == []
    assert agreed > 0.75 * GENERATED


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
