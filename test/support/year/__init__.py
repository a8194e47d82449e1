"""A simulated year of the nightly: `nights` says what happens, `run` makes it happen."""
