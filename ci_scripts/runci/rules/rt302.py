"""RT302: a main block above the last test."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from runci.finding import Finding, Level
from runci.parse.model import TestFile
from runci.rules.base import FileRule, Tree
from runci.rules.script import runs_as_script
from runci.source import Edit, Span, at, split_lines


def check(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at each such block; a note where pytest imports the file anew."""
    last = file.last_test.line if file.last_test is not None else 0
    early = [b for b in file.mains if b.runner != "nothing" and b.span.line <= last]
    for block in early if early and runs_as_script(file, tree) else ():
        collected = block.runner == "pytest"
        effect = (
            "pytest imports the file again and finds it, other runners do not"
            if collected
            else f"`python {file.path}` does not run it"
        )
        yield Finding(
            file.path,
            block.span._replace(end_line=block.span.line, end_column=block.span.column + 2),
            "RT302",
            f"the main block stands above {file.last_test_name or 'the last test'} "
            f"(line {last}): {effect}",
            "Move the main block to the end of the file.",
            fixable=len(file.mains) == 1 and not block.otherwise,
            level=Level.NOTE if collected else Level.ERROR,
        )


def fix(file: TestFile, text: str, _finding: Finding, _tree: Tree) -> Sequence[Edit]:
    """Move the block, with the comments above it, to the end of the file."""
    lines = split_lines(text)
    block = file.mains[0].span
    above = (node.end_lineno or 0 for node in ast.parse(text).body)
    start = max((line for line in above if line < block.line), default=0)
    first, end = block.line, block.end_line
    while first - 1 > start and lines[first - 2].startswith("#"):
        first -= 1
    while re.match(r"[ \t]+#", lines[end]):  # the block may end with comments
        end += 1
    moved = "".join(lines[first - 1 : end])
    after = end + 1
    while after < len(lines) and not lines[after - 1].strip():
        after += 1
    last = lines[-2]
    ended = last.endswith(("\n", "\r"))
    place = at(len(lines)) if ended else at(len(lines) - 1, len(last) + 1)
    moved = ("\n\n" if ended else "\n\n\n") + moved.rstrip("\r\n") + "\n"
    return [Edit(Span(first, 1, after, 1), ""), Edit(place, moved)]


RULE = FileRule(
    id="RT302",
    name="main-block-too-early",
    summary="The main block stands above the last test class or function.",
    reason="`unittest.main()` runs what is defined when it is reached, then exits: the tests below "
    "it do not exist yet. Above all of them it runs 0 tests and exits 0. (`pytest.main` imports "
    "the file again and finds them, so that is a note.)",
    bad="import unittest\n\nfrom runci import register_cuda_ci\n\n"
    'register_cuda_ci(est_time=5, stage="base-b", runner_config="1-gpu-large")\n\n'
    'if __name__ == "__main__":\n    unittest.main()\n\n\n'
    "class TestAddition(unittest.TestCase):\n"
    "    def test_small(self):\n        self.assertEqual(1 + 1, 2)\n",
    good="import unittest\n\nfrom runci import register_cuda_ci\n\n"
    'register_cuda_ci(est_time=5, stage="base-b", runner_config="1-gpu-large")\n\n\n'
    "class TestAddition(unittest.TestCase):\n"
    "    def test_small(self):\n        self.assertEqual(1 + 1, 2)\n\n\n"
    'if __name__ == "__main__":\n    unittest.main()\n',
    fixable=True,
    check=check,
    fix=fix,
)
