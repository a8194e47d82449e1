"""Looks for what `--fix` destroys, in many generated programs and files.

`python bench_fix.py [--programs N] [--files N] [--first SEED]`: the generators of
test/support/fix_programs.py and fix_files.py, whose first 100 are in `make test`. Exits with 1
where what executes, or what a file says, is not the same after the fix.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "test" / "support"))

from fix_files import check_files  # noqa: E402
from fix_programs import check_programs  # noqa: E402

TAXONOMY = ROOT / "test" / "fixtures" / "suites.yml"
AT_ONCE = 500  # in one tree


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=5000, help="how many (default: 5,000)")
    parser.add_argument("--files", type=int, default=5000, help="how many (default: 5,000)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="of both (default: 0)")
    options = parser.parse_args()
    taxonomy = TAXONOMY.read_bytes()
    broken: list[str] = []
    print("| | seconds | mended | broken |\n|---|--:|---|--:|")
    for what, count in (("programs", options.programs), ("files", options.files)):
        started, mended, problems = time.perf_counter(), Counter[str](), list[str]()
        for start in range(options.first, options.first + count, AT_ONCE):
            seeds = range(start, min(start + AT_ONCE, options.first + count))
            with tempfile.TemporaryDirectory() as name:
                tree = Path(name) / "tree"
                tree.mkdir()
                if what == "programs":
                    outcome = check_programs(tree, taxonomy, seeds)
                    mended += outcome.mended
                    problems += outcome.broken
                else:
                    files = check_files(tree, seeds)
                    mended += files.mended
                    problems += files.broken
        kinds = ", ".join(f"{kind} {number:,}" for kind, number in sorted(mended.items()))
        seconds = time.perf_counter() - started
        print(f"| {count:,} {what} | {seconds:.0f} | {kinds} | {len(problems)} |", flush=True)
        broken += problems
    print("\n".join(broken), end="\n" if broken else "")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
