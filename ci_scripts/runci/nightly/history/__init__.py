"""Remember: an append-only branch of JSON Lines, read whole or not at all.

`lines` names the files and reads each, `read` all of them; `suites` makes lines of a night's tests,
`additions` of its records, and appends them (all pure); `branch` is git, `store` what the other
stages use, of a branch or a folder.
"""
