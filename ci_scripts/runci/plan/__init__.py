"""Changed paths → suites → shards → plan.json.

`changes` and `selection` say what starts, `times` and `estimates` how long it takes, `partition`
which shard runs what; `build` makes the plan, `model` is it.
"""
