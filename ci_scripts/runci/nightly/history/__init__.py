"""Remember: an append-only branch of JSON Lines, read whole or not at all.

`lines` names the files and reads each, `read` all of them; `additions` makes lines of a night's
records and tests, and appends them (all pure); `branch` is git, `store` what the other stages use,
of a branch or a folder.
"""
