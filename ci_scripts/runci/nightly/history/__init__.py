"""Remember: an append-only branch of JSON Lines, read whole or not at all.

`layout` names the files, `lines` and `read` read them, `suites` makes lines of a night's tests,
`additions` of its records, and appends them (all pure); `branch` is git, `store` what the other
stages use.
"""
