"""Measures one night: the candidate and its pinned baseline in pairs, and the machine around them.

perf.yml → `environment` (commits, folders, variables) → `night` (the order, each run and what it
printed) → `combine`, `usable` (what it means) → the record; `state` is the machine.
"""
