"""All rules of the audit, in order of their ids."""

from __future__ import annotations

from runci.audit import wf101
from runci.audit.model import WorkflowRule

RULES: tuple[WorkflowRule, ...] = (wf101.RULE,)
