"""Measures one night: the candidate and its pinned baseline in pairs, and the machine around them.

perf.yml → `environment` (commits, folders, variables) → `night` (the order, what each run printed)
→ `process` (one run) → `combine`, `usable` (what it means) → the record; `state` is the machine.
"""
