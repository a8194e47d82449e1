"""A lint gives the same answer whatever a cache remembers of the last one."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from trees import CALL, CLEAN, FAULTY, IMPORT, TESTS, make_tree, runci, track

from runci import register_cpu_ci
from runci.checks import engine, rt
from runci.checks.registry import rules_of
from runci.checks.rule import Options, Tree
from runci.checks.tree import load_tree
from runci.core import inputs
from runci.core.git import run_git
from runci.core.inputs import Recording, how_it_is
from runci.read import testfile
from runci.read.decode import read

register_cpu_ci(est_time=35, stage="base-a", runner_config="cpu")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no time of a change of a file")

WORKFLOW = (
    "on: push\njobs:\n  a:\n    steps:\n      - uses: ./.github/actions/tests\n"
    "      - run: runci run --suite base-a-test-cpu\n"
)
ACTION = "runs:\n  using: composite\n  steps:\n    - run: runci run --suite base-b-test-cpu\n"
SLOW = CLEAN.replace("est_time=5", "est_time=7")  # as long as CLEAN and FAULTY
# What a change of a test may add that rules about one file see, and other files do not.
BODIES = (
    "\n\ndef test_more():\n    assert 1\n",
    "\n\ndef test_addition():\n    assert 2\n",
    "\n\nimport torch\n\n\ndef test_early():\n    if not torch.cuda.is_available():\n"
    "        return\n    assert 1\n",
    "\nX = 1  # runci: ignore[RT105] nothing is wrong here\n",
    "\nX = 1  # runci: ignore[RT105]\n",
    "\n# nothing of note\n",
)
MARKED = "\n\nimport pytest\n\n\n@pytest.mark.gpu\ndef test_marked():\n    assert 1\n"
LATER = 3 * 10**9


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {f"{TESTS}/test_{n}.py": CLEAN + f"\nX = {n}\n" for n in range(3)}
    files |= {f"{TESTS}/a/test_faulty.py": FAULTY, f"{TESTS}/a/helper.py": "X = 1\n"}
    files |= {f"{TESTS}/b/test_0.py": CLEAN}  # the name of a module that there is already
    files |= {".github/workflows/a.yml": WORKFLOW, "data/one.py": CLEAN, "data/two.py": FAULTY}
    root = track(make_tree(tmp_path / "root", files))
    (root / TESTS / "test_link.py").symlink_to(root / "data" / "one.py")
    return root


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run begins three seconds after the last change, which no test waits for."""
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + LATER)


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with every run that checks, and so does not use an answer again."""
    check, runs = engine.check, []

    def counted(*arguments: object) -> engine.Result:
        runs.append(1)
        return check(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "check", counted)
    return runs


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with every run that reads a whole tree, and so does not use findings again."""
    load, runs = rt.load_tree, []

    def counted(options: Options) -> Tree:
        runs.append(1)
        return load(options)

    monkeypatch.setattr(rt, "load_tree", counted)
    return runs


def lint(
    root: Path, *options: str, stdin: bytes | None = None, **environment: str
) -> tuple[int, str, str]:
    """Status and streams, with the cache beside the root."""
    cache = () if "--no-cache" in options else (f"--cache-dir={root.parent / 'cache'}",)
    done = runci(
        "lint", f"--root={root}", *cache, *options, cwd=root.parent, stdin=stdin, **environment
    )
    assert done.returncode != 70, done.stderr
    timed = r'\d+\.\d\d(?=\s+s\b)|(?<="seconds": )[\d.e-]+'
    return done.returncode, re.sub(timed, "N", done.stdout), done.stderr


def test_an_answer_is_used_again(root: Path, later: None, checked: list[int]) -> None:
    first = lint(root, "--no-cache")
    assert (first[0], "RT105" in first[1]) == (1, True)
    checked.clear()
    assert [lint(root) for _ in range(3)] == [first] * 3
    assert len(checked) == 1


def test_so_is_one_without_findings_and_its_notes(
    root: Path, later: None, checked: list[int]
) -> None:
    lint(root, "--write-baseline")
    (root / TESTS / "a" / "test_faulty.py").unlink()
    answers = [lint(root) for _ in range(2)]
    assert answers[0] == answers[1]
    assert (answers[0][0], "no longer found" in answers[0][2]) == (0, True)
    assert len(checked) == 2  # to write the baseline, and then


# What the lint is asked, and whether an answer to it may be used again.
QUESTIONS: dict[str, tuple[tuple[str, ...], dict[str, str], bool]] = {
    "rules": (("--select=RT1",), {}, True),
    "other rules": (("--ignore=RT105",), {}, True),
    "color": (("--color=always",), {}, True),
    "width": ((), {"COLUMNS": "50"}, True),
    "a file": ((f"root/{TESTS}/test_1.py",), {}, False),
    "a format": (("--format=json",), {}, False),
    "a diff": (("--diff",), {}, False),
    "no cache": (("--no-cache",), {}, False),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_another_question_has_another_answer(
    question: str, root: Path, later: None, checked: list[int]
) -> None:
    options, environment, again = QUESTIONS[question]
    lint(root)
    checked.clear()
    answers = [lint(root, *options, **environment) for _ in range(2)]
    assert len(checked) == (1 if again else 2)
    assert answers[0] == answers[1]
    assert answers[0] == lint(root, "--no-cache", *options, **environment)


def test_a_file_as_young_as_the_run_is_checked_again(root: Path, checked: list[int]) -> None:
    """It may change once more within the same tick of its times, and keep its size."""
    lint(root)
    lint(root)
    assert len(checked) == 2
    path = root / TESTS / "test_0.py"
    assert not recorded_at(path, time.time_ns()).complete
    assert recorded_at(path, time.time_ns() + LATER).complete


def test_a_file_of_the_future_is_never_trusted(root: Path) -> None:
    path = root / TESTS / "test_0.py"
    os.utime(path, (2**33, 2**33))
    assert not recorded_at(path, time.time_ns() + LATER).complete


def recorded_at(path: Path, begun: int) -> Recording:
    recording = Recording("/nothing", begun)
    recording.look(str(path))
    return recording


BEYOND: dict[str, Callable[[Path], object]] = {
    "a process": lambda root: subprocess.run(["git", "--version"], check=True, cwd=root),
    "git, asked past its edge": lambda root: subprocess.run(
        ["git", "ls-files"], check=True, cwd=root
    ),
    "git, which may write": lambda root: run_git(root, "update-index", "--refresh"),
    "a shell": lambda _: os.system("true"),
    "no working tree": lambda root: shutil.rmtree(root / ".git"),
}


@pytest.mark.parametrize("beyond", BEYOND)
def test_an_answer_of_more_than_is_recorded_is_not_kept(
    beyond: str, root: Path, later: None, checked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    load, loaded = rt.load_tree, []
    went = BEYOND[beyond] if beyond != "no working tree" else loaded.append

    def loads(options: Options) -> Tree:
        loaded.append(root)
        went(root)
        return load(options)

    monkeypatch.setattr(rt, "load_tree", loads)
    if beyond == "no working tree":
        shutil.rmtree(root / ".git")
    lint(root)
    known = len(loaded)
    lint(root)
    assert (len(checked), len(loaded)) == (2, 2 * known)


def test_what_a_rule_opens_reads_or_lists_is_recorded_without_its_doing(
    root: Path, later: None, checked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    find, notes = rt.find, root / "notes"
    (notes / "folder").mkdir(parents=True)

    def reads(options: object) -> object:
        (notes / "read.txt").read_text()
        read(root, "notes/missing.txt")  # asks `stat` before it opens
        list((notes / "folder").glob("*"))
        return find(options)  # type: ignore[arg-type]

    monkeypatch.setattr(rt, "find", reads)
    (notes / "read.txt").write_text("one")
    changes: list[Callable[[], object]] = [
        lambda: None,
        lambda: (notes / "read.txt").write_text("two"),
        lambda: (notes / "folder" / "new").write_text(""),
        lambda: (notes / "missing.txt").write_text(""),
    ]
    for number, change in enumerate(changes, 1):
        change()
        lint(root)
        lint(root)
        assert len(checked) == number


ASKING = """
import json, os, sys, time
asked = set()

def told(function):
    def call(path, *arguments, **others):
        if isinstance(path, (str, os.PathLike)):
            asked.add(os.path.abspath(os.fspath(path)))
        return function(path, *arguments, **others)
    return call

for name in ("stat", "lstat", "access", "readlink", "open", "listdir", "scandir"):
    setattr(os, name, told(getattr(os, name)))
now = time.time_ns
time.time_ns = lambda: now() + 3 * 10**9

from runci.cli import main
from runci.read import answers

made = []
class Watched(answers.inputs.Recording):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        made.append(self)
answers.inputs.Recording = Watched
main(sys.argv[1:])
json.dump([sorted(asked), sorted(made[0].paths), made[0].complete], sys.stderr)
"""


def fill(root: Path) -> None:
    """Give a tree links, a baseline, an action that is called, and enough for two processes."""
    (root / TESTS / "linked").symlink_to(root / "data")
    (root / TESTS / "test_broken.py").symlink_to("nowhere")
    make_tree(root, {".github/actions/tests/action.yml": ACTION, "runci-baseline.json": BASELINE})
    size = "# " + "x" * 900_000 + "\n"
    make_tree(root, {f"{TESTS}/big/test_{n}.py": CLEAN + size * 2 for n in range(2)})


@pytest.mark.parametrize("tree", ["bare", "full"])
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_whatever_a_lint_asks_the_file_system_is_recorded(jobs: str, tree: str, root: Path) -> None:
    """Also by `stat` and its kin, of which Python's audit does not tell: see `inputs.look`."""
    if tree == "full":
        fill(root)
    else:
        shutil.rmtree(root / ".github")
    done = subprocess.run(
        [sys.executable, "-c", ASKING, "lint", f"--root={root}", f"--jobs={jobs}"],
        env={**os.environ, "XDG_CACHE_HOME": str(root.parent / "cache")},
        capture_output=True,
        text=True,
        check=True,
    )
    asked, known, complete = json.loads(done.stderr.splitlines()[-1])
    below = {path for path in asked if path.startswith(f"{root}/")}
    assert {f"{root}/{name}" for name in (f"{TESTS}/test_0.py", ".github/workflows")} <= below
    # Without `.git`, git fails, and so does asking it again.
    assert below - set(known) - {f"{root}/.git"} == set()
    assert complete


BASELINE = '{"version": 1, "findings": []}'


def test_a_cache_inside_what_is_read_hides_nothing(
    root: Path, later: None, checked: list[int]
) -> None:
    place = f"--cache-dir={root / TESTS}"
    answers = [lint(root, place) for _ in range(3)]
    (root / TESTS / "test_0.py").write_text(FAULTY)
    assert lint(root, place)[1] != answers[-1][1]


class Edits:
    """Random changes of a tree, of every kind that should count; each says what it did."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.random = root, random.Random(seed)

    def one(self) -> str:
        edit = self.random.choice([self.write, self.unseen, *self._others()])
        edit()
        return edit.__name__

    def _others(self) -> Iterator[Callable[[], None]]:
        yield from (self.touch, self.swap, self.appear, self.vanish, self.link, self.mode)
        yield from (self.suites, self.baseline, self.workflow, self.action, self.ignored)
        yield from (self.back, self.folder, self.broken, self.package)
        yield from (self.body, self.body, self.body, self.helper)

    def _test(self) -> Path:
        return self.random.choice(sorted(self.root.glob(f"{TESTS}/**/test_[0-9f]*.py")))

    def _content(self) -> str:
        return self.random.choice([CLEAN, FAULTY, SLOW, IMPORT + CALL, CLEAN + "def (", ""])

    def _toggle(self, path: Path, *contents: str) -> None:
        """Write one of these, or take the file away."""
        content = self.random.choice([None, *contents])
        path.unlink(missing_ok=True)
        if content is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)

    def write(self) -> None:
        self._test().write_text(self._content())

    def unseen(self) -> None:
        """Another content of equal size, with the times of the old one."""
        path = self._test()
        before = path.stat()
        path.write_text({CLEAN: FAULTY, FAULTY: SLOW}.get(path.read_text(), CLEAN))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def body(self) -> None:
        """What no other file sees."""
        with self._test().open("a") as stream:
            stream.write(self.random.choice(BODIES))

    def marks(self) -> None:
        """What only the suites see that take tests by their marks."""
        with self._test().open("a") as stream:
            stream.write(MARKED)

    def members(self) -> None:
        """Suites that have files without a call in them."""
        path = self.root / "test" / "suites.yml"
        text = path.read_text()
        plain = "{name: by-hand, runner: cpu, kind: stress, run_by: a person"
        tests = self.random.choice(
            ["", ", tests: [test_1.py]", ", tests: [{files: '**', marked: gpu}]"]
        )
        path.write_text(re.sub(re.escape(plain) + r"[^\n]*", f"{plain}{tests}}}", text))

    def helper(self) -> None:
        self._toggle(
            self.root / TESTS / "a" / "helper.py",
            "X = 1\n",
            "def test_lost():\n    assert 1\n",
            "(",
        )

    def touch(self) -> None:
        os.utime(self._test(), (1, self.random.choice([1, 10**9])))

    def back(self) -> None:
        """A clock that was ahead: a file of the future, changed once the clock was set right."""
        path = self.root / TESTS / "a" / "test_faulty.py"
        if path.exists() and path.stat().st_mtime < 2**32:
            os.utime(path, (2**33, 2**33))
        else:
            path.write_text(self.random.choice([CLEAN, FAULTY]))

    def swap(self) -> None:
        one, other, between = self._test(), self._test(), self.root / "between"
        one.rename(between)
        if other.exists():
            other.rename(one)
        between.rename(other)

    def appear(self) -> None:
        self._toggle(self.root / TESTS / f"test_{self.random.randrange(9)}.py", self._content())

    def vanish(self) -> None:
        if len(list(self.root.glob(f"{TESTS}/**/test_[0-9f]*.py"))) > 3:
            self._test().unlink()

    def link(self) -> None:
        path = self.root / TESTS / "test_link.py"
        path.unlink(missing_ok=True)
        path.symlink_to(self.root / "data" / self.random.choice(["one.py", "two.py", "none.py"]))

    def broken(self) -> None:
        """What a link leads to changes, not the link."""
        self._toggle(self.root / "data" / self.random.choice(["one.py", "two.py"]), CLEAN, FAULTY)

    def mode(self) -> None:
        self._test().chmod(self.random.choice([0o600, 0o644, 0o000]))

    def suites(self) -> None:
        path = self.root / "test" / "suites.yml"
        name = self.random.choice(["test_1.py", "test_2.py", "none.py"])
        path.write_text(
            re.sub(
                r"conftest\.py(, none\.py|, test_\d\.py)?",
                f"conftest.py, {name}",
                path.read_text(),
                count=1,
            )
        )

    def baseline(self) -> None:
        path = f"{TESTS}/a/test_faulty.py"
        entry = {"path": path, "rule": "RT105", "key": "0", "count": 1}
        document = json.dumps({"version": 1, "findings": [entry]})
        self._toggle(self.root / "runci-baseline.json", BASELINE, document)

    def workflow(self) -> None:
        path = self.root / ".github" / "workflows" / self.random.choice(["a.yml", "b.YAML"])
        self._toggle(path, WORKFLOW, WORKFLOW.replace("test-cpu", "test-cup"), "on: [\n")

    def action(self) -> None:
        name = self.random.choice(["action.yml", "action.yaml"])
        path = self.root / ".github" / "actions" / "tests" / name
        self._toggle(path, ACTION, ACTION.replace("test-cpu", "test-cup"))

    def ignored(self) -> None:
        self._toggle(self.root / ".gitignore", "test_3.py\n", "a/\n")

    def folder(self) -> None:
        path = self.root / TESTS / "linked"
        if path.is_symlink():
            path.unlink()
        else:
            path.symlink_to(self.root / self.random.choice(["data", "nowhere"]))

    def package(self) -> None:
        self._toggle(self.root / TESTS / "__init__.py", "")


# Of the files that a lint sees, which were changed so shortly before it that they may change again
# unseen, and how many edits to try. Answers and findings are used again but where all are young.
YOUNG = {"none": 120, "what was edited": 80, "all": 20}


@pytest.mark.parametrize("young", YOUNG)
def test_with_any_cache_the_answer_is_the_same(
    young: str,
    root: Path,
    checked: list[int],
    loaded: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Random edits: after each one, the cache's first and second answer are the true one."""
    now, edits, again, standing, told = time.time_ns, Edits(root, 12), 0, 0, 0
    for number in range(YOUNG[young]):
        begun = now() + {"none": LATER, "what was edited": inputs.TICK, "all": 0}[young]
        did = edits.one()
        monkeypatch.setattr(time, "time_ns", lambda begun=begun: begun)
        expected = lint(root, "--no-cache")
        loaded.clear()
        for _ in range(2):
            checked.clear()
            assert lint(root) == expected, f"edit {number}: {did}"
        again += not checked
        standing += not loaded
        part = f"root/{edits.random.choice([TESTS + '/a', TESTS + '/test_1.py'])}"
        if (root.parent / part).exists():
            assert lint(root, part) == lint(root, "--no-cache", part), f"edit {number}: {did}"
        told += bool(expected[1])
        time.sleep(0.01)  # past the tick of the edit
    assert told > number / 2
    assert (again > 25, standing > 20) == (young != "all", young != "all"), (again, standing)


def test_a_file_that_changes_twice_in_a_tick_is_read_again(
    root: Path, loaded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the clock of the file system does not move, nothing tells of the second change."""
    path, state = root / TESTS / "test_0.py", inputs.how_it_is
    seen = state(str(path))
    monkeypatch.setattr(inputs, "how_it_is", lambda p: seen if p == str(path) else state(p))
    begun = time.time_ns() + inputs.TICK
    monkeypatch.setattr(time, "time_ns", lambda: begun)
    told = []
    for body in (BODIES[0], BODIES[1], BODIES[5], BODIES[1]):
        path.write_text(CLEAN + body)
        loaded.clear()
        told.append("RT309" in lint(root)[1])
    assert (told, loaded) == ([False, True, False, True], [])


def test_of_one_changed_file_nothing_else_is_read(
    root: Path, later: None, loaded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    lint(root)
    loaded.clear()
    with (root / TESTS / "test_0.py").open("a") as stream:
        stream.write(BODIES[1])
    expected = lint(root, "--no-cache")
    loaded.clear()
    assert lint(root) == expected
    assert ("RT309" in expected[1], loaded) == (True, [])


def whole(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """A file of the cache with other rows, and the checksum of these."""
    header, _, rows = data.partition(b"\n")
    rows = change(rows)
    return header.rpartition(b" ")[0] + f" {zlib.crc32(rows)}\n".encode() + rows


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) // 2],
    "not UTF-8": lambda data: whole(data, lambda rows: rows + b"\nx \xff\xfe"),
    "no JSON": lambda data: whole(data, lambda rows: rows.replace(b"]", b"")),
    "shorter rows": lambda data: whole(
        data, lambda rows: re.sub(rb"(?m)^(\w+) .*", rb"\1 []", rows)
    ),
    "numbers": lambda data: whole(data, lambda rows: re.sub(rb"(?m)^(\w+) .*", rb"\1 7", rows)),
    "nested": lambda data: whole(data, lambda rows: re.sub(rb" .*", b" " + b"[" * 9999, rows)),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", ["tree", "answer"])
def test_a_damaged_file_of_the_cache_is_discarded(
    kind: str, damage: str, root: Path, later: None
) -> None:
    part = f"root/{TESTS}/a"
    expected = [lint(root), lint(root, part)]
    (path,) = (root.parent / "cache").glob(f"{kind}-*")
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    assert [lint(root), lint(root, part)] == expected
    path.unlink()
    path.symlink_to("/dev/zero")
    assert [lint(root), lint(root, part)] == expected


def test_standard_input_is_checked_where_all_else_stands(
    root: Path, later: None, loaded: list[int]
) -> None:
    path = f"{TESTS}/test_1.py"
    options = ("-", f"--stdin-filename=root/{path}")

    def given(text: str) -> bool:
        return "RT309" in lint(root, *options, stdin=text.encode())[1]

    lint(root)
    whole = lint(root)
    loaded.clear()
    text = (root / path).read_text()
    assert [given(text + body) for body in (BODIES[1], BODIES[0], BODIES[1])] == [True, False, True]
    assert loaded == []
    assert lint(root) == whole == lint(root, "--no-cache")
    part = f"root/{path}"
    assert lint(root, part) == lint(root, "--no-cache", part)
    loaded.clear()
    assert (given(FAULTY + BODIES[1]), len(loaded)) == (True, 1)  # others see those calls


def test_rules_that_compare_files_see_their_calls_and_marks_alone(root: Path) -> None:
    """Else a finding could stand where what it rests on has changed."""
    fill(root)
    for number, body in enumerate([*BODIES, MARKED]):
        (root / TESTS / f"test_{number}.py").write_text(CLEAN + body)
    active = frozenset(rule.id for rule in rules_of("RT"))
    tree = load_tree(Options(root, root / "test" / "suites.yml", root, active))
    bare, others = (
        [testfile.TestFile(file.path, calls=file.calls, marks=file.marks) for file in files]
        for files in (tree.files, tree.uncollected)
    )
    found = rt.compare(tree, active)
    assert found == rt.compare(replace(tree, files=bare, uncollected=others), active)
    assert found


def test_states_of_paths(tmp_path: Path) -> None:
    """Each change of what a path leads to is another state; reading is none."""
    file, link, folder = (tmp_path / name for name in ("file", "link", "folder"))
    states = [how_it_is(str(path)) for path in (file, link, folder)]
    assert states == [how_it_is(str(path)) for path in (file, link, folder)]
    file.write_text("one")
    link.symlink_to("file")
    folder.mkdir()
    seen = [states[1], how_it_is(str(link))]
    file.write_text("three")
    seen.append(how_it_is(str(link)))
    assert seen[-1] == how_it_is(str(link))
    file.chmod(0o600)
    seen.append(how_it_is(str(link)))
    file.unlink()
    seen.append(how_it_is(str(link)))
    link.unlink()
    link.symlink_to("folder")
    seen.append(how_it_is(str(link)))
    (folder / "new").write_text("")
    seen.append(how_it_is(str(link)))
    assert len(set(seen)) == len(seen)
    assert inputs.how_it_is("a\0b") == inputs.how_it_is("a\0b")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
