"""The jobs of the workflow that `init` writes, and what they are called. Pure."""

from __future__ import annotations

import itertools
import re

from runci.adopt.propose import Proposal, Suite
from runci.core.registration import Backend

GATE = "call-gate"  # no job is called gate: `runci ... gate` in a script would be one
_OWN = ("plan", GATE, "finish")  # the other jobs of the workflow


def runs_here(proposal: Proposal) -> tuple[Suite, ...]:
    """The suites that the workflow runs."""
    return tuple(suite for suite in proposal.suites if not suite.run_by)


def job_names(proposal: Proposal) -> dict[tuple[Backend, str], str]:
    """The job of each suite that runs here: its name, where that can be a job's and is none yet."""
    found: dict[tuple[Backend, str], str] = {}
    used = set(_OWN)
    for suite in runs_here(proposal):
        plain = re.sub(r"[^A-Za-z0-9_-]", "-", suite.name)
        named = f"{suite.backend.value}-{plain}"
        stems = (plain, named) if plain[0].isalpha() else (named,)
        names = itertools.chain(stems, (f"{named}-{number}" for number in itertools.count(2)))
        found[suite.key] = name = next(one for one in names if one.lower() not in used)
        used.add(name.lower())  # GitHub takes no notice of case
    return found
