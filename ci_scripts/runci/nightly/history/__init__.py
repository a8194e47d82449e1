"""Remember: an append-only branch of JSON Lines, read whole or not at all.

`layout` names the files, `parse` and `renames` read them, `additions` appends to them (all pure);
`branch` is git, `store` what the other stages use.
"""
