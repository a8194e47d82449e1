"""Files that run no test as a script, or whose failures exit with 0."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from runci.checks.rule import A_TEST, REGISTERED, FileRule, Tree
from runci.config.taxonomy import Execution
from runci.core.finding import Finding, Level
from runci.core.globs import matches
from runci.core.source import Edit, Span, at, split_lines
from runci.read.decode import Positions
from runci.read.main_block import RUNNERS, ending, last_call
from runci.read.module import Module
from runci.read.testfile import MainBlock, TestFile
from runci.read.tests import all_are_cases

# Examples are of a backend whose runner executes scripts.
_REGISTERED = (
    "from runci import register_cuda_ci\n\n"
    'register_cuda_ci(est_time=5, stage="base-b", runner_config="1-gpu-large")'
)
_UNITTEST = 'if __name__ == "__main__":\n    unittest.main()\n'
_PYTEST = (
    'if __name__ == "__main__":\n'
    "    import sys\n\n"
    "    import pytest\n\n"
    '    sys.exit(pytest.main([__file__, "-v"]))\n'
)


def runs_as_script(file: TestFile, tree: Tree) -> bool:
    """Whether an enabled registration of the file is on a runner that executes scripts."""
    taxonomy = tree.taxonomy
    suites = (
        taxonomy.suite(registration.backend, registration.effective_suite)
        for registration in tree.of(file)
        if registration.enabled
    )
    return any(taxonomy.execution(suite) is Execution.SCRIPT for suite in suites)


def runs_tests(block: MainBlock, tree: Tree) -> bool:
    """Whether a main block hands the file's tests to a test runner."""
    if block.runner in ("unittest", "pytest", "both"):
        return True
    names = tree.taxonomy.entry_points
    return any(call in names or call.rpartition(".")[2] in names for call in block.calls)


def no_main_block(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at the last test of each such file."""
    if any(block.runner != "nothing" for block in file.mains):
        return
    if not file.readable or not runs_as_script(file, tree):
        return
    missing = not file.mains
    span = file.mains[-1].span if file.mains else file.last_test or at(1)
    span = at(span.line, span.column)  # a place, not the whole block
    what = 'no `if __name__ == "__main__":`' if missing else "the main block runs nothing"
    yield Finding(
        file.path,
        span,
        "RT301",
        f"{what}: `python {file.path}` runs no test and exits 0",
        "End the file with a main block that calls unittest.main(), or "
        'sys.exit(pytest.main([__file__, "-v"])).',
        fixable=missing and file.tests > 0,
    )


def fix_no_main_block(_file: TestFile, text: str, _finding: Finding, _tree: Tree) -> Sequence[Edit]:
    """Append a main block: unittest's where it runs every test of the file, else pytest's."""
    tree = ast.parse(text)
    imports = [n for n in tree.body if isinstance(n, ast.Import)]
    unittest = any(i.name == "unittest" and not i.asname for n in imports for i in n.names)
    block = _UNITTEST if unittest and all_are_cases(Module(text, tree)) else _PYTEST
    lines = split_lines(text)
    last = lines[-2] if len(lines) > 1 else ""
    gap = "\n\n" if last.endswith(("\n", "\r")) else "\n\n\n"
    place = at(len(lines)) if last.endswith(("\n", "\r")) else at(len(lines) - 1, len(last) + 1)
    return [Edit(place, gap + block)]


NO_MAIN_BLOCK = FileRule(
    id="RT301",
    name="no-main-block",
    summary="A file that is run as a script has no main block that runs something.",
    reason="The runner executes `python FILE`. Without a main block the file defines its tests, "
    "runs none of them and exits 0: green.",
    bad=f"{_REGISTERED}{A_TEST}\n",
    good=f"{_REGISTERED}{A_TEST}\n\n\n{_PYTEST}",
    fixable=True,
    check=no_main_block,
    fix=fix_no_main_block,
)


def main_block_too_early(file: TestFile, tree: Tree) -> Iterator[Finding]:
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
            fixable=len(file.mains) == 1 and block.movable,
            level=Level.NOTE if collected else Level.ERROR,
        )


def fix_main_block_too_early(
    file: TestFile, text: str, _finding: Finding, _tree: Tree
) -> Sequence[Edit]:
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


MAIN_BLOCK_TOO_EARLY = FileRule(
    id="RT302",
    name="main-block-too-early",
    summary="The main block stands above the last test class or function.",
    reason="`unittest.main()` runs what is defined when it is reached, then exits: the tests below "
    "it do not exist yet. Above all of them it runs 0 tests and exits 0. (`pytest.main` imports "
    "the file again and finds them, so that is a note.)",
    bad=f"import unittest\n\n{_REGISTERED}\n\n"
    'if __name__ == "__main__":\n    unittest.main()\n\n\n'
    "class TestAddition(unittest.TestCase):\n"
    "    def test_small(self):\n        self.assertEqual(1 + 1, 2)\n",
    good=f"import unittest\n\n{_REGISTERED}\n\n\n"
    "class TestAddition(unittest.TestCase):\n"
    "    def test_small(self):\n        self.assertEqual(1 + 1, 2)\n\n\n"
    'if __name__ == "__main__":\n    unittest.main()\n',
    fixable=True,
    check=main_block_too_early,
    fix=fix_main_block_too_early,
)


def main_block_runs_no_tests(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at the first call of each such block; benchmarks are scripts of their own."""
    if not file.mains or tree.taxonomy.is_benchmark(file.path) or not runs_as_script(file, tree):
        return
    if any(runs_tests(block, tree) for block in file.mains):
        if file.pytest_only and all(block.call in _FINDS_CASES for block in file.mains):
            yield _unseen(file)
        for block in file.mains:
            if block.runs is not True:
                yield _idle(file, block)
        yield from _loads_another(file, tree)
        return
    for block in file.mains:
        if block.runner == "other":
            yield Finding(
                file.path,
                block.call_span,
                "RT303",
                f"{block.starts}() runs this file in another process: its result is not followed"
                if block.starts
                else f"the main block calls {block.call}() and neither unittest.main nor "
                f"pytest.main: {_tests(file.tests)} not collected",
                'Call unittest.main(), or sys.exit(pytest.main([__file__, "-v"])). A function of '
                f"your own that does so belongs in `entry_points` of {tree.taxonomy.path}.",
                key=block.call,
                level=Level.NOTE if block.starts else Level.ERROR,
            )


# Other runners of unittest are given a suite, which may hold anything.
_FINDS_CASES = ("unittest.main", "unittest.main(exit=False)", "unittest.TestProgram")


def _unseen(file: TestFile) -> Finding:
    block, names = file.mains[-1], file.pytest_only
    what = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    return Finding(
        file.path,
        block.call_span,
        "RT303",
        f"{block.call}() does not run {what}: only pytest finds tests outside a TestCase",
        'Call sys.exit(pytest.main([__file__, "-v"])), or make them methods of a TestCase.',
        key=block.call,
    )


def _loads_another(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at each `unittest.main(module=…)` of a module that is no test, as RT314 says."""
    for call, path, span in file.other_files:
        if RUNNERS.get(call) != "unittest":
            continue
        name = path.rpartition("/")[2]
        if name != file.path.rpartition("/")[2] and not _is_a_test(path, file, tree):
            yield Finding(
                file.path,
                span,
                "RT303",
                f"{call}() is given {path}, which is no test: {_tests(file.tests)} not run",
                "Call it without `module`.",
                key=call,
            )


def _is_a_test(path: str, file: TestFile, tree: Tree) -> bool:
    tests = tree.taxonomy.globs(file.path).test_files
    return matches(path.rpartition("/")[2], tests) and not tree.taxonomy.is_benchmark(path)


def _idle(file: TestFile, block: MainBlock) -> Finding:
    """Of a block that has a runner, and may not reach it."""
    unknown = block.runs is None
    return Finding(
        file.path,
        block.call_span,
        "RT303",
        f"`python {file.path}` may exit 0 without {block.call}: it depends on what is not known"
        if unknown
        else f"`python {file.path}` does not reach {block.call}: it runs no test and exits 0",
        "Run the tests where the file is given no arguments, whatever the environment.",
        key=block.call,
        level=Level.NOTE if unknown else Level.ERROR,
    )


def _tests(count: int) -> str:
    if count == 1:
        return "the test class or function of the file is"
    return f"the {count} test classes and functions of the file are" if count else "tests are"


MAIN_BLOCK_RUNS_NO_TESTS = FileRule(
    id="RT303",
    name="main-block-runs-no-tests",
    summary="The main block calls neither unittest.main nor pytest.main, not without arguments, or "
    "the former for tests that only pytest finds, or for another module.",
    reason="A main block that prints, or parses its own arguments, swallows what the runner passes "
    "and runs what it likes: the tests of the file are not collected, and nobody counts them. "
    "The runner executes `python FILE`: what needs an argument never runs; what depends on "
    "the environment is a note. "
    "`unittest.main()` runs no plain test function: without a TestCase it runs 0 tests and, before "
    "Python 3.12, exits 0.",
    bad=f'{_REGISTERED}{A_TEST}\n\n\nif __name__ == "__main__":\n    print("run me with pytest")\n',
    good=f"import sys\n\nimport pytest\n\n{_REGISTERED}{A_TEST}\n\n\n"
    'if __name__ == "__main__":\n    sys.exit(pytest.main([__file__, "-v"]))\n',
    check=main_block_runs_no_tests,
)


_HAND_ON = (
    "Pass it on: sys.exit(pytest.main([...])), unittest.main() without exit=False, or "
    "sys.exit(not result.wasSuccessful())."
)
_KEEP = (
    "Keep each result (`codes.append(pytest.main([...]))`, `not result.wasSuccessful()`), and end "
    "the main block with sys.exit(max(codes)), where nothing catches SystemExit or exits before."
)


def exit_code_dropped(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at each such call in a main block, or in a function that it calls."""
    if all(block.exit_kept for block in file.mains) or not runs_as_script(file, tree):
        return
    for block in file.mains:
        if not block.exit_kept:
            unknown = block.exit_kept is None
            yield Finding(
                file.path,
                block.call_span,
                "RT304",
                f"whether a failure of {block.call} fails the file cannot be told"
                if unknown
                else f"the file can exit 0 though a test of {block.call} failed",
                _HAND_ON if block.endable else _KEEP,
                key=block.call,
                fixable=block.endable,
                level=Level.NOTE if unknown else Level.ERROR,
            )


def fix_exit_code_dropped(
    file: TestFile, text: str, _finding: Finding, _tree: Tree
) -> Sequence[Edit]:
    """End the process with what the last call of the file gives; nothing else is touched."""
    call = last_call(ast.parse(text))
    if call is None:
        return []
    span = Positions(text).span(call)
    before, after = ending(file.mains[0].call)
    return [
        Edit(at(span.line, span.column), before),
        Edit(at(span.end_line, span.end_column), after),
    ]


EXIT_CODE_DROPPED = FileRule(
    id="RT304",
    name="exit-code-dropped",
    summary="The file can exit 0 though a test failed: the runner's result is dropped or changed.",
    reason="`pytest.main` returns the exit code instead of exiting. Dropped, turned round, caught "
    "or overwritten by a later call, failures end with exit 0: green. The main block and what it "
    "calls in the file are executed path by path; where that cannot tell, it is a note. Mended "
    "where a bare call is the file's last statement: nothing repeats, follows or catches it there.",
    bad=f"import pytest\n\n{_REGISTERED}{A_TEST}\n\n\n"
    'if __name__ == "__main__":\n    pytest.main([__file__])\n',
    good=f"import pytest\n\n{_REGISTERED}{A_TEST}\n\n\n"
    'if __name__ == "__main__":\n    raise SystemExit(pytest.main([__file__]))\n',
    fixable=True,
    check=exit_code_dropped,
    fix=fix_exit_code_dropped,
)


def no_tests(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at the registration of each such file; benchmarks need no test."""
    registrations = [r for r in tree.of(file) if r.enabled]
    if file.tests or not registrations or tree.taxonomy.is_benchmark(file.path):
        return
    yield Finding(
        file.path,
        registrations[0].span,
        "RT305",
        f"the file is {'registered' if file.calls else 'in a suite'} but has no test class and no "
        "test function",
        "Define tests (`class Test...`, `def test_...`), or "
        f"{'remove the registration and ' if file.calls else ''}rename the file if it only helps "
        "others.",
    )


NO_TESTS = FileRule(
    id="RT305",
    name="no-tests",
    summary="A registered file defines no test class and no test function.",
    reason="It runs, finds nothing and is green, and its suite seems larger than it is.",
    bad=f"{REGISTERED}\n\n\ndef helper():\n    return 2",
    good=f"{REGISTERED}\n\n\ndef test_helper():\n    assert 1 + 1 == 2",
    check=no_tests,
)


def runs_another_file(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at each call that hands a test file other than this one to a runner."""
    if not file.other_files or tree.taxonomy.is_benchmark(file.path):
        return
    if not runs_as_script(file, tree):
        return
    for call, path, span in file.other_files:
        name = path.rpartition("/")[2]
        # pytest runs nothing but tests; others run anything, which then has the name of a test.
        a_test = call.startswith("pytest.") or _is_a_test(path, file, tree)
        if name == file.path.rpartition("/")[2] or not a_test:
            continue
        yield Finding(
            file.path,
            span,
            "RT314",
            f"the main block runs {path} with {call}: its tests count for no file, and those of "
            "this one may not run",
            'Run this file alone: unittest.main(), or sys.exit(pytest.main([__file__, "-v"])). '
            f"Register {name} itself.",
            key=path,
        )


RUNS_ANOTHER_FILE = FileRule(
    id="RT314",
    name="runs-another-file",
    summary="The main block hands another test file to a test runner.",
    reason="Tests count only for the file that they stand in: what the other file's tests do is "
    "no result of this one, and where nothing else is run, nothing of it was executed.",
    bad=f"import pytest\n\n{_REGISTERED}{A_TEST}\n\n\n"
    'if __name__ == "__main__":\n    import sys\n\n    sys.exit(pytest.main(["test_other.py"]))\n',
    good=f"import pytest\n\n{_REGISTERED}{A_TEST}\n\n\n"
    'if __name__ == "__main__":\n    import sys\n\n    sys.exit(pytest.main([__file__]))\n',
    check=runs_another_file,
)

RULES = (
    NO_MAIN_BLOCK,
    MAIN_BLOCK_TOO_EARLY,
    MAIN_BLOCK_RUNS_NO_TESTS,
    EXIT_CODE_DROPPED,
    NO_TESTS,
    RUNS_ANOTHER_FILE,
)
