"""The audit of workflows: a job on a self-hosted runner starts only after the gate.

`events` → `conditions`, `outcomes` → `explore` (which jobs can start while no gate said yes) →
one module a rule, `wf101.py` …; `registry.py` lists them and `run.py` applies them to a checkout.
"""
