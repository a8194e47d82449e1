"""The plan: same bytes everywhere, right shards, nothing left out in silence, clear refusals."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from planning import (
    COMMIT,
    CPU,
    GPU,
    SUITES,
    TESTS,
    commit,
    cpu_tests,
    everything,
    git,
    plan_of,
    registered,
    result,
    taxonomy,
    write_results,
)
from trees import make_tree, runci

from runci import register_cpu_ci
from runci.core.errors import RunciError
from runci.core.registration import Backend, Registration
from runci.plan.build import Settings, make_plan
from runci.plan.model import Plan, Shard, faults, from_json
from runci.plan.show import as_github, as_markdown, as_table
from runci.plan.times import Times, Timing

register_cpu_ci(est_time=3, stage="base-a", runner_config="cpu")

CALL = 'from runci import register_cpu_ci\nregister_cpu_ci({}, "{}")\n'


def shards(plan: Plan, suite: str = CPU) -> tuple[Shard, ...]:
    return next(found.shards for found in plan.suites if found.name == suite)


def timed(seconds: dict[str, float], suite: str = CPU, under: str = "") -> Settings:
    runs = {
        ("cpu", suite, path, under): Timing((round(s * 1000),) * 3) for path, s in seconds.items()
    }
    return Settings(times=Times(runs))


def test_as_many_shards_as_the_timeout_needs_with_its_margin() -> None:
    # 10 minutes less 20 % leave 480 s: 8 files of a minute fit, 9 do not.
    assert [shard.seconds for shard in shards(plan_of(cpu_tests(8)))] == [480.0]
    assert sorted(shard.seconds for shard in shards(plan_of(cpu_tests(9)))) == [240.0, 300.0]
    assert len(shards(plan_of(cpu_tests(10), Settings(margin=0)))) == 1


def test_what_the_plan_says_of_a_suite() -> None:
    plan = plan_of({f"{TESTS}/test_gpu.py": (registered(GPU, Backend.CUDA, 20.0),)})
    (suite,) = plan.suites
    assert (suite.backend, suite.name, suite.kind) == ("cuda", GPU, "per-commit")
    assert (suite.runner, suite.label, suite.gpus) == ("1-gpu-small", "1-gpu-5090", 1)
    assert (suite.timeout_minutes, suite.execution) == (30, "script")
    (shard,) = suite.shards
    assert shard.id == f"cuda-{GPU}-1of1"
    assert [(file.path, file.seconds, file.source) for file in shard.files] == [
        (f"{TESTS}/test_gpu.py", 20.0, "estimate")
    ]


def test_the_same_input_gives_the_same_bytes() -> None:
    tests = cpu_tests(30)
    backwards = dict(reversed(tests.items()))
    assert plan_of(tests).to_json() == plan_of(backwards).to_json()
    assert from_json(plan_of(tests).to_json().encode(), "p") == plan_of(tests)


def test_measured_times_replace_equal_estimates() -> None:
    # sglang#29726: all estimates equal, real times 35, 9, 23 and 8 minutes in name order.
    minutes = [3.5, 0.9, 2.3, 0.8]
    paths = sorted(cpu_tests(4))
    known = {path: 60 * time for path, time in zip(paths, minutes, strict=True)}
    settings = timed(known)
    plan = plan_of(cpu_tests(4), Settings(times=settings.times, shards={CPU: 2}))
    assert sorted(shard.seconds for shard in shards(plan)) == [210.0, 240.0]
    assert {file.source for shard in shards(plan) for file in shard.files} == {"measured"}


def test_an_estimate_far_below_the_measured_time_does_not_count() -> None:
    # pytorch#182179: an estimate of 11 s for 4,500 s.
    tests = cpu_tests(2, est_time=11)
    path = sorted(tests)[0]
    plan = plan_of(tests, timed({path: 4500.0}))
    assert sorted(shard.seconds for shard in shards(plan)) == [11.0, 4500.0]
    assert any("75.0 minutes exceeds the 8.0" in note and path in note for note in plan.notes)


def test_the_longest_shard_that_exceeds_the_timeout_is_named() -> None:
    tests = cpu_tests(3, est_time=11)
    first, second, _ = sorted(tests)
    for longest, other in ((first, second), (second, first)):
        notes = plan_of(tests, timed({longest: 4500.0, other: 3000.0})).notes
        (note,) = (note for note in notes if "exceeds" in note)
        assert "75.0 minutes exceeds the 8.0" in note
        assert longest in note
        assert other not in note


def test_a_file_without_an_estimate_gets_the_default_and_is_reported() -> None:
    # sglang#38239
    path = f"{TESTS}/test_none.py"
    plan = plan_of({path: (registered(est_time=None),)})
    assert shards(plan)[0].files[0].seconds == 30.0
    assert f"cpu {CPU}: 1 file without an estimate: {path}" in plan.notes
    gpu = plan_of({path: (registered(GPU, Backend.CUDA, None),)})
    assert shards(gpu, GPU)[0].files[0].seconds == 60.0  # the suite has no default


def test_a_degenerate_fit_never_stops_planning() -> None:
    # sglang#31416
    tests = cpu_tests(8, est_time=1)
    plan = plan_of(tests, timed(dict.fromkeys(sorted(tests)[:6], 400.0)))
    assert sum(len(shard.files) for shard in shards(plan)) == 8
    assert any("as they are" in note for note in plan.notes)


def test_a_sound_fit_corrects_the_estimates_of_the_others_and_is_told() -> None:
    tests = cpu_tests(6, est_time=10)
    plan = plan_of(tests, timed(dict.fromkeys(sorted(tests)[:5], 20.0)))
    assert [file.seconds for file in shards(plan)[0].files] == [20.0] * 6
    assert f"cpu {CPU}: estimates times 2, the median of 5 measured files" in plan.notes


def test_a_fixed_number_of_shards_leaves_none_empty() -> None:
    # vllm#32040: 2 tests in 3 shards.
    plan = plan_of(cpu_tests(2), Settings(shards={CPU: 3}))
    assert [len(shard.files) for shard in shards(plan)] == [1, 1]
    assert f"cpu {CPU}: 2 instead of 3 shards, so that none is empty" in plan.notes


def test_groups_stay_together() -> None:
    tests = {
        f"{TESTS}/test_{n}.py": (registered(group="shared" if n % 3 == 0 else None),)
        for n in range(20)
    }
    plan = plan_of(tests)
    assert len(shards(plan)) > 1
    holding = [s for s in shards(plan) if any(file.group == "shared" for file in s.files)]
    assert len(holding) == 1
    groups = [file.group for file in holding[0].files]
    assert "shared" in groups
    first = groups.index("shared")
    assert groups[first : first + 7] == ["shared"] * 7


def test_a_file_registered_twice_in_a_suite_runs_once() -> None:
    path = f"{TESTS}/test_twice.py"
    plan = plan_of({path: (registered(est_time=5), registered(est_time=7))})
    assert [file.path for shard in shards(plan) for file in shard.files] == [path]


def test_disabled_tests_are_not_planned_and_empty_suites_are_told() -> None:
    plan = plan_of({f"{TESTS}/test_off.py": (registered(disabled="#1"),)})
    assert plan.suites == ()
    assert any(f"cpu {CPU}" in note and "without tests" in note for note in plan.notes)


def test_a_suite_without_a_timeout_is_one_shard_and_says_so() -> None:
    tests = {f"{TESTS}/test_n.py": (registered("nightly-1-gpu", Backend.CUDA, 9000.0),)}
    plan = plan_of(tests)
    assert len(shards(plan, "nightly-1-gpu")) == 1
    assert any("no timeout_minutes" in note for note in plan.notes)


def test_the_table_fits_a_terminal() -> None:
    plan = plan_of(cpu_tests(9) | {f"{TESTS}/test_x.py": (registered(est_time=None),)})
    table = as_table(plan, 80)
    assert max(map(len, table.splitlines())) <= 80
    assert f"cpu {CPU}" in table
    assert "1 suite, 2 shards, 10 files, 9.5 minutes of machines." in table
    assert "asked for" in " ".join(table.split())


def test_markdown_marks_of_paths_do_no_harm() -> None:
    path = f"{TESTS}/test_<b>_|_x.py"
    text = as_markdown(plan_of({path: (registered(est_time=None),)}))
    assert "\\<b\\>\\_\\|\\_x" in text


def outputs(plan: Plan, most: int | None = None) -> dict[str, str]:
    lines = as_github(plan, taxonomy().suites, most).splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_two_suites_never_share_an_output() -> None:
    known = [(Backend.CPU, "a-b"), (Backend.CPU, "a.b")]
    with pytest.raises(RunciError, match=r"cpu_a-b.*rename cpu a\.b"):
        as_github(plan_of({}), known, None)


def test_outputs_for_a_matrix() -> None:
    plan = plan_of(cpu_tests(9))
    found = outputs(plan)
    assert json.loads(found[f"cpu_{CPU}"]) == {
        "size": 2,
        "indices": [0, 1],
        "shards": [f"cpu-{CPU}-1of2", f"cpu-{CPU}-2of2"],
        "max_parallel": 2,
        "runs_on": "ubuntu-latest",
        "timeout_minutes": 10,
    }
    matrix = json.loads(found["matrix"])["include"]
    assert [entry["shard"] for entry in matrix] == [f"cpu-{CPU}-1of2", f"cpu-{CPU}-2of2"]
    assert (found["any"], found["commit"], found["digest"]) == ("true", COMMIT, plan.digest)
    assert json.loads(outputs(plan, 1)[f"cpu_{CPU}"])["max_parallel"] == 1


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("[self-hosted, linux]", ["self-hosted", "linux"]),
        ("{group: g}", {"group": "g"}),
        ("{group: g, labels: linux}", {"group": "g", "labels": ["linux"]}),
    ],
)
def test_a_label_of_every_form_is_kept_and_given_to_runs_on(written: str, said: object) -> None:
    known = taxonomy(SUITES.replace("label: ubuntu-latest", f"label: {written}"))
    plan = make_plan(COMMIT, everything(known), known, cpu_tests(1), Settings())
    assert from_json(plan.to_json().encode(), "plan.json") == plan
    found = outputs(plan)
    assert json.loads(found[f"cpu_{CPU}"])["runs_on"] == said
    assert json.loads(found["matrix"])["include"][0]["runs_on"] == said


def test_how_a_suite_is_invoked_is_of_the_plan_and_its_digest() -> None:
    """So results of other options, or of another environment, are of another plan."""
    digests = set()
    for more in ("", "env: {A: b}, ", "env: {A: c}, ", "pytest_args: [-q], ", "setup: [make, x], "):
        known = taxonomy(SUITES.replace("{stage: base-a, ", "{stage: base-a, " + more))
        plan = make_plan(COMMIT, everything(known), known, cpu_tests(1), Settings())
        assert from_json(plan.to_json().encode(), "plan.json") == plan
        digests.add(plan.digest)
    assert len(digests) == 5
    assert plan.suites[0].invocation.setup == ("make", "x")


def test_a_suite_that_is_not_planned_has_size_zero() -> None:
    found = outputs(plan_of(cpu_tests(1)))
    unplanned = json.loads(found[f"cuda_{GPU}"])
    assert (unplanned["size"], unplanned["indices"]) == (0, [])
    assert unplanned["max_parallel"] == 1  # GitHub refuses 0
    assert outputs(plan_of({}))["any"] == "false"


def edited(plan: Plan, **changed: object) -> bytes:
    return json.dumps({**json.loads(plan.to_json()), **changed}).encode()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (edited(plan_of(cpu_tests(2)), version=2), "plan version 2, but this runci reads 5: make"),
        (edited(plan_of(cpu_tests(2)), version=6), "plan version 6, but this runci reads 5: make"),
        (edited(plan_of(cpu_tests(2)), commit="d" * 40), "does not match its digest"),
        (plan_of(cpu_tests(2)).to_json().encode()[:-40], "not a plan"),
        (b"", "not a plan"),
        (b"[]", "not a plan"),
        (b"[" * 100_000, "not a plan"),
        (b"\xff\xfe", "not a plan"),
        (b'{"version": 5}', "not a plan"),
        (plan_of(cpu_tests(2)).to_json().replace('"only"', '"just"').encode(), "not a plan"),
        (plan_of(cpu_tests(2)).to_json().replace('"only": []', '"only": "a"').encode(), r"only`"),
        (plan_of(cpu_tests(2)).to_json().replace('"only": []', '"only": [1]').encode(), r"only\["),
    ],
)
def test_a_plan_that_cannot_be_used(data: bytes, said: str) -> None:
    with pytest.raises(RunciError, match=said) as caught:
        from_json(data, "some/plan.json")
    assert str(caught.value).startswith("some/plan.json: ")
    assert caught.value.code == 2


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        ("suite", "backend", "abacus"),
        ("suite", "execution", "by hand"),
        ("suite", "timeout_minutes", "15"),
        ("suite", "gpus", -1),
        ("suite", "runner", ["cpu"]),
        ("suite", "name", 7),
        ("shard", "id", None),
        ("shard", "count", True),
        ("shard", "seconds", float("nan")),
        ("file", "path", 1),
        ("file", "seconds", "60"),
        ("file", "seconds", float("inf")),
        ("file", "group", 2),
        ("plan", "commit", 1),
        ("plan", "everything", 3),
        ("plan", "notes", (1,)),
    ],
)
def test_a_plan_whose_digest_is_right_and_whose_values_are_not(
    place: str, name: str, value: object
) -> None:
    plan = plan_of(cpu_tests(2))
    (suite,) = plan.suites
    shard = suite.shards[0]
    parts: dict[str, object] = {"file": shard.files[0], "shard": shard, "suite": suite}
    for outer, inside in (("file", None), ("shard", "files"), ("suite", "shards")):
        part = parts[outer]
        if inside is not None:
            inner = parts["file" if outer == "shard" else "shard"]
            part = dataclasses.replace(part, **{inside: (inner,)})  # type: ignore[type-var]
        if outer == place:
            part = dataclasses.replace(part, **{name: value})  # type: ignore[type-var]
        parts[outer] = part
    changed = dataclasses.replace(plan, suites=(parts["suite"],))  # type: ignore[arg-type]
    if place == "plan":
        changed = dataclasses.replace(changed, **{name: value})  # type: ignore[arg-type]
    with pytest.raises(RunciError, match=r"^p: not a plan \("):
        from_json(changed.to_json().encode(), "p")


def replaced(plan: Plan, *parts: Shard) -> bytes:
    suite = dataclasses.replace(plan.suites[0], shards=parts)
    return dataclasses.replace(plan, suites=(suite,)).to_json().encode()


def test_a_plan_that_would_run_something_twice_or_nothing() -> None:
    plan = plan_of(cpu_tests(9))
    one, two = shards(plan)
    same_id = dataclasses.replace(two, id=one.id)
    same_files = dataclasses.replace(two, files=(*two.files, one.files[0]))
    empty = dataclasses.replace(two, files=())
    for parts, said in (
        ((one, same_id), f"two shards have the id {one.id}"),
        ((one, same_files), f"{one.files[0].path} is in {one.id} and in {two.id}"),
        ((one, empty), f"shard {two.id} has no file"),
        ((), f"cpu {CPU} has no shard"),
    ):
        with pytest.raises(RunciError, match=said):
            from_json(replaced(plan, *parts), "plan.json")


# The command line.


def tree(root: Path, **tests: str) -> Path:
    files = {f"{TESTS}/{name}.py": text for name, text in tests.items()}
    make_tree(root, {"test/suites.yml": SUITES, "kernel/a.py": "", **files})
    git(root, "init", "-q")
    commit(root, "all")
    return root


def plan_command(root: Path, *arguments: str, stdin: bytes | None = None) -> tuple[int, str, str]:
    done = runci("plan", *arguments, "--no-cache", cwd=root, stdin=stdin)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def test_plan_for_two_commits(tmp_path: Path) -> None:
    gpu = CALL.format(5, GPU).replace("cpu", "cuda")
    tree(tmp_path, test_a=CALL.format(5, CPU), test_b=gpu)
    head = commit(tmp_path, "kernel", **{"kernel__a.py": "x = 1\n"})
    code, out, _ = plan_command(tmp_path, "--base", "HEAD~1", "-o", "plan.json")
    assert code == 0
    plan = from_json((tmp_path / "plan.json").read_bytes(), "plan.json")
    assert plan.commit == head
    assert [(suite.name, suite.reasons) for suite in plan.suites] == [
        (GPU, ("component kernel: kernel/a.py",))
    ]
    assert "component kernel: kernel/a.py" in out


def test_a_rename_starts_the_suites_of_both_paths(tmp_path: Path) -> None:
    gpu = CALL.format(5, GPU).replace("cpu", "cuda")
    tree(tmp_path, test_b=gpu)
    git(tmp_path, "mv", "kernel/a.py", "elsewhere.py")
    commit(tmp_path, "move")
    _, out, _ = plan_command(tmp_path, "--base", "HEAD~1", "--format", "json")
    assert [suite["name"] for suite in json.loads(out)["suites"]] == [GPU]


def test_a_shallow_clone_plans_everything_and_says_so(tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    tree(origin, test_a=CALL.format(5, CPU))
    base = git(origin, "rev-parse", "HEAD")
    commit(origin, "docs", **{"README.md": "x"})
    git(tmp_path, "clone", "-q", "--depth=1", origin.as_uri(), "clone")
    code, out, _ = plan_command(tmp_path / "clone", "--base", base)
    assert code == 0
    assert "Everything is planned" in out
    assert "shallow clone" in " ".join(out.split())
    assert CPU in out


@pytest.mark.parametrize("name", ["test_a.py", "test_a.py::TestA::test_x"])
def test_one_test_in_all_its_suites(tmp_path: Path, name: str) -> None:
    gpu = CALL.format(9, GPU).replace("cpu", "cuda")
    tests = "class TestA:\n    def test_x(self): pass\n"
    tree(tmp_path, test_a=CALL.format(5, CPU) + gpu + tests, test_b=gpu)
    code, out, _ = plan_command(tmp_path, "--test", f"{TESTS}/{name}", "--format", "json")
    planned = from_json(out.encode(), "plan.json").suites
    assert code == 0
    assert [suite.name for suite in planned] == [CPU, GPU]
    files = {
        (file.path, file.only)
        for suite in planned
        for shard in suite.shards
        for file in shard.files
    }
    assert files == {(f"{TESTS}/test_a.py", tuple(filter(None, [name.partition("::")[2]])))}


def test_one_test_that_is_not_there(tmp_path: Path) -> None:
    tree(tmp_path, test_a=CALL.format(5, CPU))
    code, _, err = plan_command(tmp_path, "--test", f"{TESTS}/test_b.py")
    assert code == 2
    assert "no such test" in err
    (tmp_path / TESTS / "test_a.py").write_text(CALL.format(5, CPU) + "def test_small(): pass\n")
    code, _, err = plan_command(tmp_path, "--test", f"{TESTS}/test_a.py::test_smal")
    assert (code, "did you mean 'test_small'?" in err) == (2, True)


def test_changes_that_start_nothing_are_no_failure(tmp_path: Path) -> None:
    tree(tmp_path, test_a=CALL.format(5, CPU))
    code, out, _ = plan_command(tmp_path, "--changed", "README.md")
    assert code == 0
    assert "1 changed path starts nothing (ignored in test/suites.yml): README.md" in out
    assert "Nothing is planned." in out


def test_a_changed_test_that_another_system_runs_is_planned(tmp_path: Path) -> None:
    calls = [CALL.format(5, name).replace("cpu", "cuda") for name in ("elsewhere", "manual")]
    tree(tmp_path, test_a="".join(calls))
    _, out, _ = plan_command(tmp_path, "--changed", f"{TESTS}/test_a.py", "-o", "plan.json")
    plan = from_json((tmp_path / "plan.json").read_bytes(), "plan.json")
    assert [suite.name for suite in plan.suites] == ["elsewhere"]
    assert "another CI" in out  # who is to run it
    assert "of kind stress left out: cuda manual\n" in out  # what is left out, and why
    _, out, _ = plan_command(tmp_path, "--all")
    assert "of kind stress left out: cuda manual\n" in out
    assert "of kind nightly" not in out  # it has no tests


def test_a_list_of_changed_paths(tmp_path: Path) -> None:
    tree(tmp_path, test_a=CALL.format(5, CPU))
    for listing in (b"README.md\r\nkernel/a.py\n", b"README.md\0kernel/a.py\0"):
        _, out, _ = plan_command(tmp_path, "--changed", "@-", stdin=listing)
        assert "without tests: cuda" in " ".join(out.split())
    _, out, _ = plan_command(tmp_path, "--changed", "README.md", "--changed-count", "2")
    assert "1 of 2 changed paths" in " ".join(out.split())
    assert plan_command(tmp_path, "--changed", "@none.txt")[::2] == (
        2,
        "runci: --changed @none.txt: cannot read: No such file or directory\n",
    )


def test_explain(tmp_path: Path) -> None:
    tree(tmp_path, test_a=CALL.format(5, CPU))
    said = {
        "kernel/a.py": f"kernel/a.py starts:\n  cuda {GPU}: component kernel\n",
        f"./{TESTS}/test_a.py": f"{TESTS}/test_a.py starts:\n  cpu {CPU}: its own tests\n",
        "test/suites.yml": "test/suites.yml starts:\n  everything: it names the suites\n",
    }
    for path, expected in said.items():
        assert plan_command(tmp_path, "--explain", path)[:2] == (0, expected)
    _, out, _ = plan_command(tmp_path, "--explain", "README.md", "--base", "HEAD")
    assert "README.md is not" in out
    assert "nothing: ignored in test/suites.yml" in out
    _, out, _ = plan_command(tmp_path, "--explain", "csrc/kernel.cu")
    assert out == "csrc/kernel.cu starts:\n  everything: no component lists it\n"


def test_tests_that_no_plan_can_hold_fail_it(tmp_path: Path) -> None:
    wrong = CALL.format(5, "no-such-suite")
    tree(tmp_path, test_a=CALL.format(5, CPU), test_b=wrong, test_c="def broken(:\n")
    code, out, err = plan_command(tmp_path, "--all", "-o", "plan.json")
    assert code == 1
    # sgl-kernel-xpu#339: a step that tolerates errors has no plan to go on with.
    assert not (tmp_path / "plan.json").exists()
    assert plan_command(tmp_path, "--all", "--format", "github")[:2] == (1, "")
    assert CPU in out
    assert "2 tests would" in err
    assert f"{TESTS}/test_b.py:2: register_cpu_ci: " in err
    assert f"{TESTS}/test_c.py:1: cannot be read" in err
    code, out, _ = plan_command(tmp_path, "--all", "--keep-going", "-o", "plan.json")
    assert code == 0
    assert (tmp_path / "plan.json").exists()
    assert "no suite 'no-such-suite'" in " ".join(out.split())


def test_a_named_suite_without_tests_fails_unless_allowed(tmp_path: Path) -> None:
    tree(tmp_path, test_a=CALL.format(5, CPU))
    code, _, err = plan_command(tmp_path, "--all", "--suite", GPU)
    assert code == 3
    assert f"suite {GPU} has no" in err
    assert plan_command(tmp_path, "--all", "--suite", GPU, "--allow-empty")[0] == 0
    code, _, err = plan_command(tmp_path, "--all", "--suite", "base-a-test-cpuu")
    assert code == 2
    assert "did you mean 'base-a-test-cpu'?" in err


def test_tests_that_are_registered_nowhere_are_told(tmp_path: Path) -> None:
    tree(tmp_path, test_a=CALL.format(5, CPU), test_b="def test_b(): ...\n")
    code, out, _ = plan_command(tmp_path, "--all")
    assert code == 0
    assert f"1 test file registered nowhere: {TESTS}/test_b.py" in " ".join(out.split())


def test_names_that_match_no_suite_are_refused(tmp_path: Path) -> None:
    tree(tmp_path, test_a=CALL.format(5, CPU))
    for arguments in (("--suite", "base-z-*"), ("--shards", "base-a-*=2")):
        code, _, err = plan_command(tmp_path, "--changed", "README.md", *arguments)
        assert code == 2
        assert "test/suites.yml has no suite 'base-" in err


def test_a_plan_of_all_that_holds_nothing_fails(tmp_path: Path) -> None:
    tree(tmp_path, test_a=CALL.format(5, CPU))
    code, _, err = plan_command(tmp_path, "--all", "--kind", "weekly")
    assert code == 3
    assert "no suite has" in err


def test_an_empty_folder_of_tests_is_nothing_to_plan(tmp_path: Path) -> None:
    # intel-xpu-backend-for-triton#2238: an empty or mistyped folder, exit 0.
    make_tree(tmp_path, {"test/suites.yml": SUITES})
    code, _, err = plan_command(tmp_path, "--all")
    assert code == 2
    assert "roots: no such folder" in err
    (tmp_path / TESTS).mkdir()
    code, _, err = plan_command(tmp_path, "--all")
    assert code == 3
    assert "(test_*.py, bench_*.py) below test/registered" in err


def test_wrong_use(tmp_path: Path) -> None:
    tree(tmp_path, test_a=CALL.format(5, CPU))
    assert plan_command(tmp_path)[0] == 2
    assert "pass --base REV" in plan_command(tmp_path)[2]
    assert plan_command(tmp_path, "--all", "--base", "HEAD")[0] == 2
    assert plan_command(tmp_path, "--all", "--shards", "x=0")[0] == 2
    assert plan_command(tmp_path, "--all", "--shards", "x=1")[0] == 2
    code, _, err = plan_command(tmp_path, "--all", "-o", "no/such/folder/plan.json")
    assert code == 2
    assert "cannot write" in err


def test_times_that_cannot_be_read_do_not_stop_planning(tmp_path: Path) -> None:
    tree(tmp_path, test_a=CALL.format(5, CPU))
    folder = write_results(tmp_path / "results", [result(f"{TESTS}/test_a.py", seconds=9.0)])
    (folder / "torn.json").write_text(result().to_json()[:50])
    code, out, _ = plan_command(tmp_path, "--all", "--times", "results", "--format", "json")
    assert code == 0
    plan = json.loads(out)
    assert plan["suites"][0]["shards"][0]["files"][0]["source"] == "measured"
    assert any("results/torn.json: not" in note for note in plan["notes"])
    assert plan_command(tmp_path, "--all", "--times", "mistyped")[0] == 2


LANE = SUITES.replace("timeout_minutes: 10,", "timeout_minutes: 10, under: [memcheck, racecheck],")


def lane_of(tests: dict[str, tuple[Registration, ...]], settings: Settings | None = None) -> Plan:
    known = taxonomy(LANE)
    return make_plan("c" * 40, everything(known), known, tests, settings or Settings())


def test_a_suite_under_tools_has_shards_of_its_own_for_each() -> None:
    plan = lane_of(cpu_tests(2, est_time=12))
    assert [(shard.id, shard.under, len(shard.files)) for shard in shards(plan)] == [
        (f"cpu-{CPU}-1of2", "memcheck", 2),
        (f"cpu-{CPU}-2of2", "racecheck", 2),
    ]
    assert [(shard.index, shard.count) for shard in shards(plan)] == [(0, 2), (1, 2)]
    assert {file.seconds for shard in shards(plan) for file in shard.files} == {120.0}
    assert faults(plan) == []
    assert from_json(plan.to_json().encode(), "plan.json") == plan


def test_a_lane_is_planned_by_its_own_times() -> None:
    tests = cpu_tests(1, est_time=12)
    plain = timed(dict.fromkeys(tests, 3.0))
    assert [file.seconds for shard in shards(lane_of(tests, plain)) for file in shard.files] == [
        120.0,
        120.0,
    ]
    race = timed(dict.fromkeys(tests, 33.0), under="racecheck")
    assert [file.seconds for shard in shards(lane_of(tests, race)) for file in shard.files] == [
        120.0,
        33.0,
    ]
    assert [file.seconds for file in shards(plan_of(tests, race))[0].files] == [12.0]


def test_the_factor_corrects_estimates_under_a_tool() -> None:
    tests = cpu_tests(6, est_time=10)
    measured = timed(dict.fromkeys(sorted(tests)[:5], 200.0), under="memcheck")
    plan = lane_of(tests, measured)
    by_tool: dict[str | None, set[float]] = {shard.under: set() for shard in shards(plan)}
    for shard in shards(plan):
        by_tool[shard.under] |= {file.seconds for file in shard.files}
    assert by_tool == {"memcheck": {200.0}, "racecheck": {100.0}}


def test_no_group_under_a_tool() -> None:
    tests = {f"{TESTS}/test_{n}.py": (registered(group="g"),) for n in range(2)}
    assert {file.group for shard in shards(lane_of(tests)) for file in shard.files} == {None}


def test_a_file_twice_under_one_tool_is_a_fault() -> None:
    plan = lane_of(cpu_tests(1))
    (suite,) = plan.suites
    twice = tuple(dataclasses.replace(shard, under="memcheck") for shard in suite.shards)
    assert (
        len(faults(dataclasses.replace(plan, suites=(dataclasses.replace(suite, shards=twice),))))
        == 1
    )


def test_a_table_says_under_what() -> None:
    assert "under memcheck, racecheck" in as_markdown(lane_of(cpu_tests(1)))


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
