"""Measures one night: the candidate and its pinned baseline in pairs, and the machine around them.

perf.yml → `environment` (commits, folders, variables) → `night` (the order, each run and what it
printed) → `outputs` (what it means) → the record; `state` is the machine, `show` what is told.
"""
