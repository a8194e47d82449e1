"""One file a command: its options and its `run`; only `runci.cli` imports them."""
