"""Puts the helpers of all tests where pytest finds them; `python FILE` has a line for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

# A helper that asserts says the values, as a test does.
pytest.register_assert_rewrite("perf_issues")

# Set by `git bisect run`, `git rebase --exec` and hooks: the tests' own repositories would be the
# one that is tested, and `git init` would change it.
for name in subprocess.check_output(["git", "rev-parse", "--local-env-vars"], text=True).split():
    os.environ.pop(name, None)
