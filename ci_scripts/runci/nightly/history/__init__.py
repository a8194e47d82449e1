"""Remember: an append-only branch of JSON Lines, read whole or not at all.

`layout` names the files, `lines` and `read` read them, `points` and `suites` make lines of a night,
`additions` appends them (all pure); `branch` is git, `store` what the other stages use.
"""
