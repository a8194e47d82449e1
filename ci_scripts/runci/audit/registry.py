"""All rules of the audit, in order of their ids."""

from __future__ import annotations

from runci.audit import (
    wf101,
    wf102,
    wf103,
    wf104,
    wf105,
    wf106,
    wf107,
    wf108,
    wf109,
    wf110,
)
from runci.audit.model import WorkflowRule

RULES: tuple[WorkflowRule, ...] = (
    wf101.RULE,
    wf102.RULE,
    wf103.RULE,
    wf104.RULE,
    wf105.RULE,
    wf106.RULE,
    wf107.RULE,
    wf108.RULE,
    wf109.RULE,
    wf110.RULE,
)
