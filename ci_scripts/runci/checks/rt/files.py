"""Files and tests that a runner does not collect, or cannot read; returns instead of skips."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from runci.checks.rt.exit_status import runs_as_script
from runci.checks.rule import A_TEST, REGISTERED, FileRule, Tree, TreeRule, shortened
from runci.core.finding import Finding
from runci.core.source import Edit, at
from runci.read.testfile import TestFile


def name_not_collected(file: TestFile, tree: Tree) -> Iterator[Finding]:
    """One finding at the first registration, or the last test, of an uncollected file."""
    called = [call for call in file.calls if call.via != "value"]
    if called:
        what, span = "registrations", called[0].span
    elif file.own_test is not None:
        what, span = "tests", file.own_test
    else:
        return
    patterns = ", ".join(tree.taxonomy.globs(file.path).test_files)
    name = file.path.rpartition("/")[2]
    yield Finding(
        file.path,
        span._replace(end_line=span.line, end_column=span.column) if what == "tests" else span,
        "RT306",
        f"the file has {what}, but no runner collects the name {name} ({patterns})",
        f"Rename it to match, or list it under `exclude` in {tree.taxonomy.path}"
        f"{' and remove its registrations' if called else ''} if it only helps others.",
        key=name,
    )


NAME_NOT_COLLECTED = FileRule(
    id="RT306",
    name="name-not-collected",
    summary="A file with tests or registrations has a name that no runner collects.",
    reason="`tset_x.py` or `x_test.py` looks like a test to its author and like nothing to the "
    "runner: it never runs.",
    bad=f"# test/registered/addition_test.py\n{REGISTERED}{A_TEST}",
    good=f"# test/registered/test_addition.py\n{REGISTERED}{A_TEST}",
    check=name_not_collected,
    files="uncollected",
)


def same_module_name(tree: Tree) -> Iterator[Finding]:
    """One finding at each module but the first, among those that pytest would import."""
    modules: dict[str, list[TestFile]] = defaultdict(list)
    for file in tree.files:
        folder, _, name = file.path.rpartition("/")
        if folder not in tree.packages:
            modules[name].append(file)
    for name, files in modules.items():
        if len(files) < 2:
            continue
        paths = [file.path for file in files if not runs_as_script(file, tree)]
        for path in paths[1:]:
            yield Finding(
                path,
                at(1),
                "RT307",
                f"module name {name.removesuffix('.py')} is taken by {paths[0]}",
                "Rename one of them, or make their folders packages with an `__init__.py`: two "
                "modules of one name cannot be imported in one pytest run.",
                key=paths[0],
            )


SAME_MODULE_NAME = TreeRule(
    id="RT307",
    name="same-module-name",
    summary="Two test modules have the same name in folders that are no packages.",
    reason="pytest imports a module that is in no package by its bare name. The second one is an "
    "import error, or the first one runs twice. (Files that each run as a script of their own are "
    "not reported.)",
    bad=f"# test/registered/a/test_linear.py\n{REGISTERED}\n\n"
    f"# test/registered/b/test_linear.py\n{REGISTERED}",
    good=f"# test/registered/a/test_linear_forward.py\n{REGISTERED}\n\n"
    f"# test/registered/b/test_linear_backward.py\n{REGISTERED}",
    check=same_module_name,
)


def early_return_without_skip(file: TestFile, _tree: Tree) -> Iterator[Finding]:
    """One finding at each such return, or exit with 0."""
    for early in file.early_returns:
        who = f"{early.test} returns" if early.exits == "return" else "the file exits with 0"
        yield Finding(
            file.path,
            early.span,
            "RT308",
            f"{who} when `{shortened(early.condition)}`: that counts as passed",
            "Skip instead, with the reason: self.skipTest(...), pytest.skip(...), or a decorator "
            "(unittest.skipUnless, pytest.mark.skipif).",
            key=f"{early.test}:{early.condition}",
        )


_ON_A_GPU = (
    "from runci import register_cuda_ci\n\n"
    'register_cuda_ci(est_time=5, stage="base-b", runner_config="1-gpu-small")'
)
EARLY_RETURN_WITHOUT_SKIP = FileRule(
    id="RT308",
    name="early-return-without-skip",
    summary="A test returns early, instead of skipping, when its hardware or a package is missing.",
    reason="A return before the asserts is a pass. On a machine without what it needs every such "
    "test is green and nobody learns that nothing was tested; a skip is counted and shown.",
    bad=f"import torch\n\n{_ON_A_GPU}\n\n\ndef test_kernel():\n"
    "    if not torch.cuda.is_available():\n        return\n"
    "    assert torch.ones(1).cuda().sum() == 1",
    good=f"import pytest\nimport torch\n\n{_ON_A_GPU}\n\n\ndef test_kernel():\n"
    '    if not torch.cuda.is_available():\n        pytest.skip("needs a CUDA GPU")\n'
    "    assert torch.ones(1).cuda().sum() == 1",
    check=early_return_without_skip,
)


def parse_findings(
    file: TestFile, rule: str, kinds: tuple[str, ...], remedy: str
) -> Iterator[Finding]:
    """One finding a parse error of these kinds."""
    decoded = all(error.kind != "encoding" for error in file.errors)
    for error in file.errors:
        if error.kind in kinds:
            fixable = error.kind == "bom" and decoded
            yield Finding(
                file.path, error.span, rule, error.message, remedy, error.kind, fixable=fixable
            )


_CORRECT = "Correct the file; until then no other rule can read it, and no runner can run it."


def syntax_error(file: TestFile, _tree: Tree) -> Iterator[Finding]:
    """One finding with Python's own message, at Python's position."""
    return parse_findings(file, "RT401", ("syntax",), _CORRECT)


SYNTAX_ERROR = FileRule(
    id="RT401",
    name="syntax-error",
    summary="The file is not valid Python.",
    reason="A runner that reads all registrations stops at this file for everybody; one that skips "
    "it never runs it.",
    bad="def test_addition(:\n    assert 1 + 1 == 2",
    good=REGISTERED + A_TEST,
    check=syntax_error,
)

_SAVE_AS_UTF8 = "Save the file as UTF-8 without a byte order mark."


def encoding(file: TestFile, _tree: Tree) -> Iterator[Finding]:
    """One finding at the first faulty byte; a BOM leaves the rest of the file readable."""
    return parse_findings(file, "RT402", ("encoding", "bom"), _SAVE_AS_UTF8)


def fix_encoding(_file: TestFile, _text: str, _finding: Finding, _tree: Tree) -> Sequence[Edit]:
    """Nothing to edit: text is always written without a BOM."""
    return []


ENCODING = FileRule(
    id="RT402",
    name="encoding",
    summary="A byte order mark, bytes outside the file's encoding, or a NUL byte.",
    reason="Readers differ: what one skips in silence stops the next with an exception, for every "
    "file of the run.",
    bad="\ufeff" + REGISTERED + A_TEST,
    good=REGISTERED + A_TEST,
    fixable=True,
    check=encoding,
    fix=fix_encoding,
)

_MAKE_READABLE = (
    "Make it a readable regular file of a few thousand lines, or exclude it in suites.yml."
)


def unreadable(file: TestFile, _tree: Tree) -> Iterator[Finding]:
    """One finding with what the system said."""
    return parse_findings(file, "RT403", ("unreadable",), _MAKE_READABLE)


UNREADABLE = FileRule(
    id="RT403",
    name="unreadable",
    summary="The file cannot be read: permissions, a broken link, a folder link, far too large.",
    reason="A file that nobody can read is skipped in silence by most tools.",
    bad="test_x.py -> /no/such/file (a broken symbolic link)",
    good="test_x.py (a regular file)",
    check=unreadable,
)

RULES = (
    NAME_NOT_COLLECTED,
    SAME_MODULE_NAME,
    EARLY_RETURN_WITHOUT_SKIP,
    SYNTAX_ERROR,
    ENCODING,
    UNREADABLE,
)
