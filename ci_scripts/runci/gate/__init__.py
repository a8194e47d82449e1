"""The run-ci gate: event and live facts in, allow, deny or ignore out.

`decide` holds the table and is pure; `request`, `events`, `rules` and `authority` are its data and
rows; `facts`, `people`, `pull`, `runs`, `settings` and `host` gather what it needs through `api`
and `github`, the edge. `slash` and `pr_states` read comments and write the block of states.
"""
