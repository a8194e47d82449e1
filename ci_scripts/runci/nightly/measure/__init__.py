"""Measures one night: the candidate and its pinned baseline in pairs, and the machine around them.

perf.yml → `tree` (commits, worktree) → `order` → `process` (one run) → `outputs` (what it
printed) → `combine`, `usable`, `again` (what it means) → the record. The decisions are pure.
"""
