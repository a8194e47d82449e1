"""Lint and plan give one answer: what nobody accepted is refused, nothing is left out unsaid."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from trees import TAXONOMY, TESTS, make_tree, options
from trees import runci as run

from runci import register_cpu_ci
from runci.checks import baseline, engine
from runci.core.errors import Exit
from runci.plan.unplanned import RULES

register_cpu_ci(est_time=7, stage="base-a", runner_config="cpu")

HEAD = b"import runci\nfrom runci import register_cpu_ci\n\nNAME = 'base-a-test-cpu'\n"
A, B, NOWHERE = "base-a-test-cpu", "base-b-test-cpu", "disabled"

# What is written, the rule that finds a fault in it, and the suite that runs it all the same.
CALLS = [
    ('register_cpu_ci(est_time=5, stage="base-a", runner_config="cpu")', "", A),
    ('register_cpu_ci(est_time=5, suite="base-b-test-cpu")', "", B),
    ('register_cpu_ci(est_time=0, stage="base-b", runner_config="cpu")', "RT105", B),
    ('register_cpu_ci(est_time=5, suite="none", disabled="why")', "RT201", NOWHERE),
    ('if True: register_cpu_ci(est_time=5, suite="base-a-test-cpu")', "RT102", ""),
    ('runci.register_cpu_ci(est_time=5, suite="base-a-test-cpu")', "RT103", ""),
    ('register_cpu_ci(est_time=2 * 3, suite="base-a-test-cpu")', "RT104", ""),
    ("register_cpu_ci(est_time=5, suite=NAME)", "RT104", ""),
    ('register_cpu_ci(est_time=5, suite="")', "RT105", ""),
    ('register_cpu_ci(est_time=5, stage="base-a", runner="cpu")', "RT106", ""),
    ('register_cpu_ci(est_time=5, stage="base-a")', "RT107", ""),
    ('register_cpu_ci(est_time=5, stage="base-a", runner_config="1-gpu-small")', "RT201", ""),
]
COMMENTS = [
    "",
    "",
    "  # runci: ignore[{rule}] why",
    "  # runci: ignore[{rule}]",
    "  # runci: ignore[RT109] why",
    "  # runci: ignore[RT109, {rule}] why",
    "  # runci: ignore why",
]
# A name, what is added to the file, and the rule that finds it: then no call of it can be planned.
FILES = [
    *(("test_{}.py", b"", "", b"") for _ in range(6)),
    ("{}_test.py", b"", "RT306", b""),
    ("test_{}.py", b"def (:\n", "RT401", b""),
    ("test_{}.py", b"# \xe9\n", "RT402", b""),
    ("test_{}.py", b"", "", b"\xef\xbb\xbf"),
]


@dataclass(frozen=True)
class Call:
    """One registration of a tree: where it stands, and the suite that it must be planned in."""

    path: str
    first: int
    last: int
    suite: str
    whole: bool  # what is said of the file is said of it


def generate(seed: int, root: Path) -> list[Call]:
    """Write a tree of faulty and right registrations, comments, and what else accepts."""
    chance = random.Random(seed)
    files: dict[str, bytes] = {}
    calls: list[Call] = []
    for number in range(chance.randint(1, 5)):
        name, more, fault, mark = chance.choice(FILES) if number else FILES[0]
        path = f"{TESTS}/{name.format(number)}"
        lines = HEAD.decode().splitlines()
        for _ in range(chance.choice((1, 1, 2))):
            text, rule, suite = chance.choice(CALLS)
            comment = chance.choice(COMMENTS).format(rule=fault or rule or "RT201")
            first = len(lines) + 1
            written = [text + comment]
            if chance.random() < 0.3 and not text.startswith("if"):
                written = [text.replace("(", f"({comment}\n    ", 1)]
            elif chance.random() < 0.2 and comment:
                written = [comment.strip(), text]
                first += 1
            lines += "\n".join(written).split("\n")
            calls.append(
                Call(
                    path,
                    first,
                    len(lines),
                    suite if not fault or suite == NOWHERE else "",
                    bool(fault),
                )
            )
        files[path] = mark + "\n".join(lines).encode() + b"\n\n\ndef test_x(): ...\n" + more
    taxonomy = TAXONOMY.read_text()
    if chance.random() < 0.3:
        ignored = chance.choice(("RT201", "RT306", "RT1", "RT402"))
        taxonomy += (
            f"folder_rules:\n  - folder: {TESTS}/**\n    ignore: [{ignored}]\n    because: x\n"
        )
    make_tree(root, files | {"test/suites.yml": taxonomy.encode()})
    if chance.random() < 0.4:
        found = engine.check(options(root, active=RULES), ("RT",)).findings
        listed = [finding for finding in found if chance.random() < 0.7]
        baseline.write(root / "runci-baseline.json", listed, RULES)
    return calls


def runci(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run(*arguments, cwd=cwd, XDG_CACHE_HOME=os.devnull)


@dataclass(frozen=True)
class Answer:
    """What lint and plan say of a tree: findings as path, rule and lines; the others as places."""

    findings: list[tuple[str, str, int, int]]
    planned: set[tuple[str, str]]
    accepted: set[tuple[str, int]]
    refused: set[tuple[str, int]]


def ask(root: Path) -> Answer:
    done = runci("lint", "--select", ",".join(RULES), "--format", "json", cwd=root)
    findings = json.loads(done.stdout)["findings"]
    assert done.returncode == (Exit.FINDINGS if findings else Exit.OK)
    status = runci("plan", "--all", "--allow-empty", cwd=root).returncode
    going = runci("plan", "--all", "--allow-empty", "--keep-going", "--format", "json", cwd=root)
    plan = json.loads(going.stdout)
    suites = [(suite["name"], shard) for suite in plan["suites"] for shard in suite["shards"]]
    notes = [note.split(":") for note in plan["notes"]]
    refused = {(n[0], int(n[1])) for n in notes if len(n) > 2 and n[1].isdecimal()}
    assert status == (Exit.FINDINGS if refused else Exit.OK)
    return Answer(
        [(f["path"], f["rule"], f["line"], f["end_line"]) for f in findings],
        {(file["path"], name) for name, shard in suites for file in shard["files"]},
        {(one["path"], one["line"]) for one in plan["accepted"]},
        refused,
    )


def judge(answer: Answer, calls: list[Call]) -> set[str]:
    """Fail where lint and plan disagree; what was said of the calls."""
    assert answer.findings or not answer.refused, "a green lint is a plan"
    for path, line in answer.refused:
        near = [r for p, r, first, last in answer.findings if p == path and line in (first, last)]
        inside = [r for p, r, first, last in answer.findings if p == path and last >= line]
        assert near or inside or (path.endswith("_test.py") and answer.findings), (path, line)
    said: set[str] = set()
    for call in calls:
        of_call = what_is_said(answer, call)
        if call.suite == NOWHERE:
            assert of_call <= {"accepted"} or call.whole, call
        elif call.suite:
            assert of_call == {"planned"}, call
        else:
            assert len(of_call) == 1, f"{call}: {of_call}"
            assert "planned" not in of_call, call
        if of_call == {"refused"}:
            assert any(path == call.path for path, *_ in answer.findings), f"{call}: lint is silent"
        if of_call == {"accepted"} and not call.whole:
            here = range(call.first, call.last + 1)
            left = [f for f in answer.findings if f[0] == call.path and f[2] in here]
            assert not left, f"{call}: accepted, and the lint finds {left}"
        said |= of_call
    return said


def what_is_said(answer: Answer, call: Call) -> set[str]:
    said = {"planned"} if (call.path, call.suite) in answer.planned else set()
    for name, places in (("accepted", answer.accepted), ("refused", answer.refused)):
        lines = [line for path, line in places if path == call.path]
        if (call.whole and lines) or any(call.first <= line <= call.last for line in lines):
            said.add(name)
    return said


@pytest.mark.parametrize("part", range(3))
def test_lint_and_plan_agree(part: int, tmp_path: Path) -> None:
    answers: Counter[str] = Counter()
    for seed in range(part * 30, part * 30 + 30):
        root = tmp_path / str(seed)
        calls = generate(seed, root)
        answers.update(judge(ask(root), calls))
    assert min(answers[name] for name in ("planned", "accepted", "refused")) >= 4, answers


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
