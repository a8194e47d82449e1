"""A thousand lives of a pull request: no run is allowed without a live grant for its commit.

What people do is played on a world that goes on as GitHub's does; runs ask the real gate, at once
or late, while the world changes, and while the API fails. A model says who may (see
`pull_request_life.may_run`). Where nothing fails or changes meanwhile, who may is allowed.
"""

from __future__ import annotations

import copy
import random
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from direct_api import DirectApi
from fake_github import FakeGitHub
from pull_request_life import COMMITS, Life, Started, may_run

from runci import register_cpu_ci
from runci.gate.decide import decide
from runci.gate.events import read_event
from runci.gate.facts import collect

register_cpu_ci(est_time=12, stage="base-a", runner_config="cpu")

SEQUENCES, BLOCKS = 1000, 4
LASTING = True  # whether a label grants its commit for later events, too
FAULTS = ("500", "404", "403", "slow", "garbage", "cut", "short", "no-link")
WAYS = ("calm", "fault", "meanwhile", "there and back", "taken, then given")
PATHS = ("/pulls/7", "/pulls/7/files", "/events", "/comments", "/permission", "/contents", "/git",
         "/actions", "/repos/octo/kernels")  # fmt: skip


class Meanwhile(DirectApi):
    """An API after whose n-th answer something happens."""

    def __init__(self, github: FakeGitHub, happens: dict[int, Callable[[], object]]) -> None:
        super().__init__(github)
        self._happens, self._asked = happens, 0

    def _ask(self, verb: str, path: str, query: Any, body: Any) -> Any:
        answer = super()._ask(verb, path, query, body)
        self._asked += 1
        self._happens.get(self._asked, int)()
        return answer


def ask(life: Life, run: Started, rng: random.Random) -> tuple[str, bool, list[Any]]:
    """How the question was asked, whether the gate allowed it, and all worlds that it could see."""
    github, happens = life.github, {}
    seen = [copy.deepcopy(github.world)]
    way = rng.choices(WAYS, (6, 2, 1, 1, 1))[0]

    def then(change: Callable[[], object]) -> Callable[[], object]:
        return lambda: (change(), seen.append(copy.deepcopy(github.world)))

    moments = sorted(rng.sample(range(1, 13), 3))
    if way == "fault":
        github.fault(rng.choice(PATHS), rng.choice(FAULTS), rng.choice([1, 2, 99]))
    elif way == "meanwhile":
        happens = {moment: then(life.step) for moment in moments}
    elif way == "there and back":
        heads = rng.choice(COMMITS), life.pull["head"]
        happens = {m: then(partial(life.set_head, sha)) for m, sha in zip(moments, heads)}  # noqa: B905
    elif way == "taken, then given":
        take, give = rng.choice([life.close, life.draft, life.push]), partial(life.comment, "boss")
        happens = dict(zip(moments, (then(take), then(give))))  # noqa: B905
    event = read_event(run.payload, run.environment)
    decision = decide(collect(event, Meanwhile(github, happens), life.now))
    life.story.append(f"run {run.ident}.{run.attempt} asks ({way}): {decision.rule}")
    github.faults.clear()
    return way, decision.allowed, seen


def live(github: FakeGitHub, seed: int, counts: Counter[str]) -> None:
    """One life, with its questions."""
    rng = random.Random(seed)
    life = Life(github, rng)
    for _ in range(rng.randint(4, 20)):
        known = len(life.runs)
        life.step()
        newest = life.runs[known:] if rng.random() < 0.6 else []
        late = rng.sample(life.runs, min(len(life.runs), rng.choice([0, 0, 0, 1, 1])))
        for run in (*newest, *late):
            way, allowed, seen = ask(life, run, rng)
            told = "\n".join((f"seed {seed}", *life.story))
            # A change meanwhile: somebody who may at one of these moments may.
            may = any(may_run(world, run, lasting=LASTING) for world in seen)
            assert may or not allowed, f"allowed without a live grant\n{told}"
            surely = may_run(seen[0], run, lasting=False)
            assert allowed or way != "calm" or not surely, f"a granted run was denied\n{told}"
            counts["by an earlier label"] += way == "calm" and allowed and not surely
            counts[f"{way}: {'allowed' if allowed else 'denied'}"] += 1


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_sequence_ends_in_a_run_that_nobody_granted(block: int) -> None:
    counts: Counter[str] = Counter()
    with FakeGitHub() as github:
        for seed in range(block * SEQUENCES // BLOCKS, (block + 1) * SEQUENCES // BLOCKS):
            live(github, seed, counts)
    # Else the model would be compared with nothing.
    assert counts["calm: allowed"] > 20 and counts["calm: denied"] > 100, counts
    assert counts["by an earlier label"] > 2, counts
    assert counts["fault: denied"] > 20 and counts["there and back: denied"] > 5, counts


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
