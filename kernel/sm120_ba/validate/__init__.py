"""Does a faster operator change what a model says, and by how much against the server's own noise?

`python -m sm120_ba validate COMMAND`; the commands stand in `commands.py`. Any two implementations
of a layer can be compared. Needs the extra `validate`.
"""
