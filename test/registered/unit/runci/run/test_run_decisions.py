"""What `runci run` decides, as tables: outcomes, retries, which files, in which order."""

from __future__ import annotations

import io
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from runci.checks.tree import tree_of
from runci.commands.run import part
from runci.commands.shared import duration
from runci.config.taxonomy import Kind, Skip, Suite, Taxonomy
from runci.core.errors import RunciError
from runci.core.registration import Backend
from runci.core.result import FileResult, Outcome, digests_of
from runci.core.selected import Selected
from runci.read.discover import Discovered
from runci.read.parse import parse
from runci.run.events import Lines, reports
from runci.run.files import Wanted, choose, jobs, order_jobs, take_shard
from runci.run.loop import stress
from runci.run.model import Case, Ending, FileReport, Job, RunFile
from runci.run.outcome import allowed_skips, chose_nothing, decide, describe, green, retry, settle
from runci.run.output import Output, last_lines
from runci.run.progress import Ended, GitHub, Plain
from runci.run.reporter import verdict

from runci import register_cpu_ci  # isort: skip

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

PATH = "t/test_x.py"
PASS = Case(f"{PATH}::test_a", "passed")
FAIL = Case(f"{PATH}::test_b", "failed", message="assert 1 == 2\nmore")
SKIP = Case(f"{PATH}::test_c", "skipped", message="no GPU")
MAY = Case(f"{PATH}::test_may[1/2]", "skipped", message="one GPU")
PART = Case(f"{PATH}::test_p[1] (i=[2])", "skipped", part_of=f"{PATH}::test_p[1]")
ERROR = Case(PATH, "failed", message="ImportError: torch")
ENDED = Ending(1.0, status=0)
NONE = Ending(1.0, status=5)
K, X = Selected(keyword="a"), Selected(first=True)


def report(*cases: Case, code: int | None = 0, **more: object) -> FileReport:
    return replace(FileReport(PATH, cases, begun=True, code=code), **more)  # type: ignore[arg-type]


def allowed(test: str) -> bool:
    skips = [Skip(name, ("cpu",), "why") for name in ("t/**::*may*", "t/**::test_p[1]")]
    return allowed_skips(skips, "cpu")(test)


@pytest.mark.parametrize(
    ("found", "ending", "outcome"),
    [
        (report(PASS), ENDED, Outcome.PASSED),
        (report(PASS, FAIL, code=1), Ending(1, status=1), Outcome.FAILED),
        (report(PASS, FAIL), ENDED, Outcome.FAILED),  # its status swallowed
        (report(errors=(ERROR,), code=2), Ending(1, status=2), Outcome.FAILED),
        (report(PASS, code=1), Ending(1, status=1), Outcome.FAILED),  # a plugin failed it
        (report(PASS), Ending(1, status=3), Outcome.FAILED),
        (report(code=5), Ending(1, status=5), Outcome.NO_TESTS),
        (report(), ENDED, Outcome.NO_TESTS),
        (report(SKIP), ENDED, Outcome.SKIPPED),
        (report(PASS, SKIP), ENDED, Outcome.SKIPPED),
        (report(PASS, MAY), ENDED, Outcome.PASSED),
        (report(PASS, PART), ENDED, Outcome.PASSED),
        (report(PASS, replace(PART, part_of=f"{PATH}::test_p[2]")), ENDED, Outcome.SKIPPED),
        (report(MAY), ENDED, Outcome.EXCUSED),
        (report(PASS, Case(f"{PATH}::test_f", "flaky")), ENDED, Outcome.FLAKY),
        (report(MAY, SKIP), ENDED, Outcome.SKIPPED),
        (report(FAIL, SKIP, code=1), Ending(1, status=1), Outcome.FAILED),
        (report(PASS, code=None), ENDED, Outcome.CRASHED),
        (report(PASS), Ending(1, signal="SIGSEGV"), Outcome.CRASHED),
        (report(PASS, code=None), Ending(1, signal="SIGKILL"), Outcome.CRASHED),
        (report(PASS, code=None), Ending(9, signal="SIGTERM", stopped="timeout"), Outcome.TIMEOUT),
        (report(PASS), Ending(9, status=0, stopped="timeout"), Outcome.TIMEOUT),
        (report(PASS), Ending(9, stopped="lost"), Outcome.CRASHED),
        (report(PASS, running=f"{PATH}::test_b"), ENDED, Outcome.FAILED),  # pytest.exit(0) in it
        (report(PASS, left=f"{PATH}::test_c"), ENDED, Outcome.FAILED),  # ... and before it
        (report(MAY, left=f"{PATH}::test_c"), ENDED, Outcome.FAILED),
        (report(PASS, running=PATH), ENDED, Outcome.PASSED),  # a script, which begins as a whole
    ],
)
def test_outcomes(found: FileReport, ending: Ending, outcome: Outcome) -> None:
    assert decide(found, ending, allowed)[0] is outcome


@pytest.mark.parametrize(
    ("limit", "found", "outcome"),
    [
        (None, report(PASS, deselected=9), Outcome.PASSED),
        (2, report(PASS, deselected=2), Outcome.PASSED),
        (2, report(PASS, deselected=3), Outcome.SKIPPED),
        (0, report(PASS, deselected=1), Outcome.SKIPPED),
        (0, report(PASS), Outcome.PASSED),
        (0, report(MAY, deselected=1), Outcome.SKIPPED),
        (0, report(PASS, FAIL, code=1, deselected=1), Outcome.FAILED),
        (0, report(deselected=1, code=5), Outcome.NO_TESTS),
        (0, report(PASS, Case(f"{PATH}::test_f", "flaky"), deselected=1), Outcome.SKIPPED),
    ],
)
def test_a_limit_for_deselected_tests(
    limit: int | None, found: FileReport, outcome: Outcome
) -> None:
    assert decide(found, ENDED, allowed, max_deselected=limit)[0] is outcome


@pytest.mark.parametrize(
    ("phases", "outcome"),
    [
        (["setup passed", "call passed", "teardown passed"], "passed"),
        (["setup passed", "call rerun", "setup passed", "call passed"], "flaky"),
        (["setup passed", "call rerun", "setup passed", "call failed"], "failed"),
        (["setup passed", "call rerun", "setup passed", "call skipped"], "failed"),
        (["setup rerun", "setup skipped"], "failed"),
        (["setup passed", "call rerun", "setup passed", "call xfailed"], "flaky"),
        (["setup passed", "call failed", "teardown passed"], "failed"),
        (["setup passed", "call passed", "teardown failed"], "failed"),
        (["setup skipped"], "skipped"),
        (["setup passed", "call skipped", "teardown passed"], "skipped"),
        (["setup passed", "call xfailed", "teardown passed"], "passed"),
        (["setup passed", "call passed", "teardown xfailed"], "passed"),
        (
            ["setup xfailed", "teardown passed"],
            "skipped",
        ),  # pytest.xfail, or an error, in a fixture
        (["setup passed", "teardown passed"], "failed"),  # --setup-only
        ([], "failed"),
    ],
)
def test_phases_of_a_test(phases: list[str], outcome: str) -> None:
    found = []
    for phase in phases:
        when, ended = phase.split()
        one = SimpleNamespace(when=when, outcome=ended, longrepr="said")
        one.failed, one.skipped = ended == "failed", ended in ("skipped", "xfailed")
        if ended == "xfailed":
            one.wasxfail = "flaky numerics"
        found.append(one)
    assert verdict(found)[0] == outcome


def one_result(outcome: Outcome, found: FileReport | None = None) -> FileResult:
    said = found or report()
    return FileResult(
        "s",
        "cpu",
        "s-1",
        PATH,
        outcome,
        said.tests,
        len(said.failures),
        said.skipped,
        1.0,
        0.0,
        failed_tests=said.failed_tests,
        passed_tests=digests_of(said.passed_tests),
    )


def test_a_status_that_another_file_of_the_child_explains() -> None:
    ending = Ending(1, status=1)
    assert decide(report(PASS, code=1), ending, allowed, explained=True)[0] is Outcome.PASSED
    assert decide(report(PASS, code=3), ending, allowed, explained=True)[0] is Outcome.FAILED


def test_a_benchmark_passes_by_its_status_alone() -> None:
    assert decide(report(), ENDED, allowed, benchmark=True)[0] is Outcome.PASSED
    failed = decide(report(code=1), Ending(1, status=1), allowed, benchmark=True)
    assert failed[0] is Outcome.FAILED


@pytest.mark.parametrize(
    ("found", "ending", "outcome"),
    [
        (report(PASS), ENDED, Outcome.PASSED),
        (report(absent="no test_x", code=5), Ending(1, status=5), Outcome.NO_TESTS),
        (report(PASS, absent="no test_x"), ENDED, Outcome.NO_TESTS),
        (report(MAY, absent="no test_x"), ENDED, Outcome.NO_TESTS),
        (report(FAIL, absent="no test_x", code=1), Ending(1, status=1), Outcome.FAILED),
        (report(absent="no test_x", errors=(ERROR,), code=2), Ending(1), Outcome.FAILED),
        (report(PASS, Case(f"{PATH}::test_other", "passed")), ENDED, Outcome.FAILED),
        (report(PASS, Case(f"{PATH}::test_other", "skipped")), ENDED, Outcome.FAILED),
        (report(Case(PATH, "skipped", message="no GPU")), ENDED, Outcome.SKIPPED),
    ],
)
def test_outcomes_of_a_part(found: FileReport, ending: Ending, outcome: Outcome) -> None:
    only = ("test_a", "test_b", "test_may")
    assert decide(found, ending, allowed, only=only)[0] is outcome


def test_a_part_that_executed_nothing_is_named() -> None:
    said = decide(report(), ENDED, allowed, only=("TestA::test_x",))
    assert said[0] is Outcome.NO_TESTS
    assert " TestA::test_x: " in said[1]
    said = decide(report(absent="t.py has no test y"), ENDED, allowed, only=("y",))
    assert said[1] == "t.py has no test y"


def test_a_kill_for_memory_says_so() -> None:
    ending = Ending(1, signal="SIGKILL", out_of_memory=True, peak_memory_mb=2048.0)
    message = decide(report(running=f"{PATH}::test_big", code=None), ending, allowed)[1]
    assert message == (
        f"killed by SIGKILL (the kernel ended it for memory, peak 2,048 MiB), in {PATH}::test_big"
    )


@pytest.mark.parametrize(
    ("skip", "runner", "test", "allows"),
    [
        ("t/**::*may*", "cpu", "t/test_x.py::Class::test_may", True),
        ("t/**::*may*", "gpu", "t/test_x.py::test_may", False),
        ("t/test_x.py", "cpu", "t/test_x.py::test_any[a]", True),
        ("t/test_x.py::test_a", "cpu", "t/test_x.py::test_a[x/y]", True),
        ("t/test_x.py::test_a", "cpu", "t/test_x.py::test_ab", False),
        ("t/test_x.py::test_a", "cpu", "t/test_x.py", False),  # the whole file was skipped
    ],
)
def test_allowed_skips(skip: str, runner: str, test: str, allows: bool) -> None:
    assert allowed_skips([Skip(skip, ("cpu",), "why")], runner)(test) is allows


@pytest.mark.parametrize(
    ("history", "outcome", "settled"),
    [
        ([], Outcome.PASSED, Outcome.PASSED),
        ([Outcome.FAILED], Outcome.PASSED, Outcome.FLAKY),
        ([Outcome.FAILED], Outcome.SKIPPED, Outcome.FAILED),
        ([Outcome.CRASHED], Outcome.EXCUSED, Outcome.FAILED),
        ([Outcome.FAILED], Outcome.NO_TESTS, Outcome.FAILED),
        ([Outcome.FAILED], Outcome.TIMEOUT, Outcome.TIMEOUT),
    ],
)
def test_attempts(history: list[Outcome], outcome: Outcome, settled: Outcome) -> None:
    before = [one_result(earlier) for earlier in history]
    assert settle(before, one_result(outcome)).outcome is settled


@pytest.mark.parametrize(
    ("second", "settled"),
    [
        ((PASS, replace(FAIL, outcome="passed")), Outcome.FLAKY),
        ((PASS, replace(FAIL, outcome="skipped")), Outcome.FAILED),
        ((PASS,), Outcome.FAILED),
        # A part of it is skipped, or stands for all that passed.
        (
            (
                replace(FAIL, outcome="passed"),
                Case(f"{FAIL.test} (i=1)", "skipped", part_of=FAIL.test),
            ),
            Outcome.FAILED,
        ),
        ((Case(f"{FAIL.test} (i=1)", "passed", part_of=FAIL.test),), Outcome.FLAKY),
    ],
)
@pytest.mark.parametrize(
    "first", [report(PASS, FAIL, code=1), report(PASS, running=FAIL.test, code=None)]
)
def test_a_retry_passes_what_failed(
    first: FileReport, second: tuple[Case, ...], settled: Outcome
) -> None:
    failed = one_result(Outcome.FAILED, first)
    found = settle([failed], one_result(Outcome.PASSED, report(*second)))
    assert found.outcome is settled
    assert (FAIL.test in found.message) is (settled is Outcome.FAILED)


FAILED, MACHINE = (Outcome.FAILED, False), (Outcome.CRASHED, True)


@pytest.mark.parametrize(
    ("attempts", "retries", "machines", "again"),
    [
        ([FAILED], 0, 0, False),
        ([FAILED], 1, 0, True),
        ([FAILED, FAILED], 1, 0, False),
        # A file that executed nothing, or was skipped, will again.
        ([(Outcome.NO_TESTS, False)], 3, 3, False),
        ([(Outcome.SKIPPED, False)], 3, 3, False),
        # What the machine failed is repeated unasked, so often and no more.
        ([MACHINE], 0, 1, True),
        ([MACHINE], 0, 0, False),
        ([MACHINE, MACHINE], 0, 1, False),
        ([MACHINE, MACHINE], 0, 2, True),
        # A real failure is not, nor is anything after it.
        ([FAILED], 0, 5, False),
        ([MACHINE, FAILED], 0, 5, False),
        ([FAILED, MACHINE], 1, 5, False),
        ([FAILED, MACHINE], 2, 5, True),
        ([MACHINE, FAILED], 1, 1, True),
        ([MACHINE, FAILED, FAILED], 1, 1, False),
    ],
)
def test_retries_are_off_unless_asked_and_bounded(
    attempts: list[tuple[Outcome, bool]], retries: int, machines: int, again: bool
) -> None:
    assert retry(attempts, retries, machines) is again


def test_only_what_executed_or_may_be_skipped_is_green() -> None:
    expected = {Outcome.PASSED, Outcome.FLAKY, Outcome.EXCUSED}
    assert {outcome for outcome in Outcome if green(outcome, False)} == expected
    assert not green(Outcome.FLAKY, True)


def test_events_fold_by_file_and_survive_foreign_bytes() -> None:
    lines = Lines()
    data = (
        b'{"event":"start","test":"a.py::t"}\nnoise\n[1]\n'
        b'{"event":"test","test":"a.py::t","outcome":"passed","seconds":1}\n'
        b'{"event":"start","test":"b.py::u"}\n{"event":"te'
    )
    events = [event for chunk in (data[:20], data[20:]) for event in lines.feed(chunk)]
    found = reports(events, ["a.py", "b.py"])
    assert (found["a.py"].tests, found["a.py"].running, found["a.py"].code) == (1, None, None)
    assert (found["b.py"].tests, found["b.py"].running) == (0, "b.py::u")
    done = reports([*events, {"event": "done", "code": 1}], ["a.py", "b.py"])
    assert {report.code for report in done.values()} == {1}


def test_the_events_of_many_tests_are_read_in_linear_time() -> None:
    events = []
    for number in range(40_000):
        test = f"{PATH}::test_x[{number}]"
        events += [{"event": "start", "test": test}]
        events += [{"event": "test", "test": test, "outcome": "passed"}]
    began = time.process_time()
    found = reports(events, [PATH])[PATH]
    assert time.process_time() - began < 2  # a twentieth of it; where it is quadratic, tens
    assert (found.tests, found.running) == (40_000, None)


def test_output_keeps_both_ends() -> None:
    output = Output(head=10, tail=20)
    for number in range(1000):
        output.add(b"%04d\n" % number)
    content = output.content()
    assert content.startswith(b"0000\n0001\n")
    assert content.endswith(b"0998\n0999\n")
    assert b"[runci: 4,970 bytes are left out here]" in content
    assert last_lines(b"a\n\xff\nc\n", 2) == ["\\xff", "c"]


@pytest.mark.parametrize(("size", "left_out"), [(0, 0), (10, 0), (30, 0), (31, 1)])
def test_output_that_fits_is_whole(size: int, left_out: int) -> None:
    output = Output(head=10, tail=20)
    output.add(b"x" * size)
    assert output.left_out == left_out
    assert left_out or output.content() == b"x" * size


CALL = "from runci import register_cpu_ci, register_cuda_ci\n"


def tree(**files: str):  # type: ignore[no-untyped-def]
    suites = {
        (backend, name): Suite(name, backend, Kind.PER_COMMIT, default_est_time=7)
        for backend, name in (
            (Backend.CPU, "s"),
            (Backend.CPU, "other"),
            (Backend.CUDA, "s"),
            (Backend.CUDA, "g"),
        )
    }
    taxonomy = Taxonomy("test/suites.yml", ("t",), suites=suites)
    parsed = [parse(f"t/{name}.py", (CALL + text).encode()) for name, text in files.items()]
    paths = tuple(file.path for file in parsed)
    return tree_of(taxonomy, parsed, Discovered(paths, (), frozenset()), None)


def call(seconds: object = 5, suite: str = "s", backend: str = "cpu", more: str = "") -> str:
    return f"register_{backend}_ci(est_time={seconds}, suite={suite!r}{more})\n"


def test_a_suite_has_its_enabled_files_with_predictions() -> None:
    found = choose(
        tree(
            a=call(),
            b=call(-1),
            c=call(suite="other"),
            d=call(more=", disabled='#1'"),
            e=call(backend="cuda"),
        ),
        Wanted("s", Backend.CPU),
    )
    assert [(f.path, f.predicted) for f in found.files] == [("t/a.py", 5), ("t/b.py", 7)]
    assert found.disabled == (("t/d.py", "#1"),)
    assert found.given == ("--suite", "s", "--hw", "cpu")


def test_files_that_cannot_be_read_are_failures_of_every_suite() -> None:
    found = choose(tree(a=call(), b="def (\n", c="if 1:\n    " + call()), Wanted("other", None))
    assert [path for path, _ in found.broken] == ["t/b.py", "t/c.py"]


def test_named_files_say_their_suite_themselves() -> None:
    files = tree(a=call(), b=call(suite="g", backend="cuda"), c=call() + call(suite="other"))
    assert choose(files, Wanted(paths=("t/b.py",))).suite == "g"
    assert choose(files, Wanted(paths=("t/a.py",))).backend is Backend.CPU
    with pytest.raises(RunciError, match=": --hw cpu --suite other"):
        choose(files, Wanted(paths=("t/c.py",)))
    with pytest.raises(RunciError, match="choose one with --hw"):
        choose(files, Wanted("s"))
    with pytest.raises(RunciError, match="nothing there is registered in s"):
        choose(files, Wanted("s", Backend.CPU, ("t/b.py",)))


def test_shards_are_disjoint_and_complete_and_broken_files_fail_once() -> None:
    files = {f"f{i}": call(i + 1, more=", in_process_group='g'" if i < 3 else "") for i in range(9)}
    whole = choose(tree(**files, z="def (\n"), Wanted("s", Backend.CPU))
    shards = [take_shard(whole, index, 4) for index in range(1, 5)]
    paths = [file.path for shard in shards for file in shard.files]
    assert sorted(paths) == [file.path for file in whole.files]
    assert sum(len(shard.broken) for shard in shards) == 1
    assert sum(any(f.group for f in shard.files) for shard in shards) == 1
    assert shards[1].shard == "cpu-s-2of4"
    assert take_shard(whole, 8, 8).files == ()  # 7 units: the group is one


def test_order() -> None:
    files = [RunFile("c", 1), RunFile("a", 3), RunFile("b", 2, "g"), RunFile("d", 2, "g")]
    made = jobs(files)
    assert [[f.path for f in job.files] for job in made] == [["c"], ["a"], ["b", "d"]]

    def names(order: str, slots: int = 1, seed: int = 0) -> list[str]:
        return [job.files[0].path for job in order_jobs(made, order, slots, seed)]

    assert names("auto") == ["c", "a", "b"]
    assert names("auto", slots=2) == names("longest") == ["b", "a", "c"]
    assert names("path") == ["a", "b", "c"]
    assert names("random", seed=1) == names("random", seed=1)
    assert len({tuple(names("random", seed=seed)) for seed in range(20)}) == 6


def test_a_stress_numbers_its_rounds() -> None:
    rounds = stress([Job((RunFile("a", 1),)), Job((RunFile("b", 1),))], 3, "path", 1, 0)
    assert [(job.name, job.attempt, job.repeat) for job in rounds] == [
        (name, number, number) for number in (1, 2, 3) for name in "ab"
    ]


@pytest.mark.parametrize(("display", "shown"), [(Plain, 60), (GitHub, 300)])
def test_a_log_shows_less_of_a_failed_file_than_a_folded_group(
    display: type[Plain], shown: int
) -> None:
    result = FileResult("s", "cpu", "s-1", PATH, Outcome.FAILED, 1, 1, (), 1.0, 0.0)
    output = "".join(f"line {number}\n" for number in range(300)).encode()
    stream = io.StringIO()
    display(stream, color=False, width=80).ended(
        Ended(result, FileReport(PATH), output, failed=True, repeat="runci run")
    )
    lines = [line for line in stream.getvalue().splitlines() if line.startswith("line ")]
    assert (len(lines), lines[-1]) == (shown, "line 299")


@pytest.mark.parametrize("said", ["##[stop-commands]abc", "::add-mask::abc"])
@pytest.mark.parametrize("display", [GitHub, Plain])
def test_what_a_test_said_is_no_command(display: type[Plain], said: str) -> None:
    stream = io.StringIO()
    shown = display(stream, color=False, width=80, guard=True)
    failed = one_result(Outcome.FAILED)
    result = replace(failed, message=f"{said} {said}", path=f"t/{said}.py")
    found = report(errors=(Case(PATH, "failed", message=said),))
    shown.ended(Ended(result, found, f"{said}\n  {said}\n".encode(), True, f"runci run '{said}'"))
    shown.note(said)
    lines = stream.getvalue().splitlines()
    assert not [line for line in lines if "##[" in line]
    ours = ("::group::", "::stop-commands::", "::endgroup::", "::error ", "::notice ")
    commands = [line for line in lines if line.lstrip().startswith("::")]
    assert all(line.startswith(ours) or line.endswith("::") for line in commands)
    assert bool(commands) is (display is GitHub)


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("1.5m", 90), ("2h", 7200), ("3s", 3)])
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize(("text", "found"), [("2/4", (2, 4)), ("1/1", (1, 1))])
def test_parts(text: str, found: tuple[int, int]) -> None:
    assert part(text) == found


@pytest.mark.parametrize("text", ["cpu-a", "0/4", "5/4"])
def test_what_is_no_part(text: str) -> None:
    with pytest.raises(RunciError, match="write I/N"):
        part(text)


@pytest.mark.parametrize(
    ("found", "ending", "explained", "nothing"),
    [
        (report(code=5, unselected=3), NONE, False, True),
        (report(unselected=3), ENDED, False, True),  # a script whose runner ends with 0
        (report(code=1, unselected=3), Ending(1, status=1), True, True),  # another file failed
        (report(code=1, unselected=3), Ending(1, status=1), False, False),
        (report(code=5), NONE, False, False),  # nobody asked -k
        (report(code=5, unselected=0), NONE, False, False),  # it has no test at all
        (report(code=5, unselected=3, deselected=1), NONE, False, False),  # a conftest left it out
        (report(PASS, unselected=3), ENDED, False, False),
        (report(MAY, unselected=3), ENDED, False, False),
        (report(errors=(ERROR,), code=2, unselected=3), Ending(1, status=2), False, False),
        (report(code=5, unselected=3, absent="no test"), NONE, False, False),
        (report(code=5, unselected=3, foreign="t/y.py::test"), NONE, False, False),
        (report(code=5, unselected=3, left=f"{PATH}::test_c"), NONE, False, False),
        (report(code=5, unselected=3), Ending(1, status=3), False, False),  # its exit handlers
        (report(code=4, unselected=3), Ending(1, status=4), False, False),
        (report(code=5, unselected=3), Ending(1, signal="SIGSEGV"), False, False),
        (report(code=5, unselected=3), Ending(1, status=5, stopped="timeout"), False, False),
        (report(code=None, unselected=3), ENDED, False, False),
    ],
)
def test_a_file_of_which_nothing_was_chosen(
    found: FileReport, ending: Ending, explained: bool, nothing: bool
) -> None:
    assert chose_nothing(found, ending, explained=explained) == nothing


@pytest.mark.parametrize(
    ("found", "selected", "explained", "outcome"),
    [
        (report(PASS, unselected=3), K, False, Outcome.PASSED),
        (report(PASS, unselected=0), K, False, Outcome.PASSED),
        (report(PASS), K, False, Outcome.FAILED),  # a runner that does not ask for it
        (report(PASS), X, False, Outcome.PASSED),
        (report(MAY), K, False, Outcome.EXCUSED),  # a file that is skipped whole
        (report(PASS, FAIL, code=1, left=f"{PATH}::test_c", unbegun=2), X, False, Outcome.FAILED),
        # Of two files in one process, the one that failed, and the one that was never begun.
        (report(code=1, left=f"{PATH}::test_c", begun=False), X, True, Outcome.NO_TESTS),
        (report(code=1, left=f"{PATH}::test_c", begun=False), X, False, Outcome.FAILED),
        (report(code=1, left=f"{PATH}::test_c", begun=False), K, True, Outcome.FAILED),
        (report(PASS, code=1, left=f"{PATH}::test_c"), X, True, Outcome.FAILED),
    ],
)
def test_what_was_chosen_or_never_begun_is_not_the_whole(
    found: FileReport, selected: Selected, explained: bool, outcome: Outcome
) -> None:
    ending = Ending(1, status=found.code)
    said, _ = decide(found, ending, allowed, explained=explained, selected=selected)
    assert said is outcome


def test_tests_that_were_never_begun_are_counted() -> None:
    left = {"event": "left", "test": f"{PATH}::test_c", "count": 2}
    failed = {"event": "test", "test": f"{PATH}::test_b", "outcome": "failed"}
    found = reports([failed, left, {"event": "done", "code": 1}], [PATH])[PATH]
    assert (found.unbegun, found.left) == (2, f"{PATH}::test_c")
    assert "2 tests never begun" in describe(found, Ending(1, status=1))


def test_what_was_left_out_is_summed_over_the_sessions_of_a_script() -> None:
    def of(*counts: int) -> int | None:
        events = [{"event": "unselected", "test": PATH, "count": count} for count in counts]
        return reports(events, [PATH])[PATH].unselected

    assert (of(), of(0), of(2, 3)) == (None, 0, 5)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
