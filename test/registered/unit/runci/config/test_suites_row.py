"""A taxonomy that comes from the cache is the one that was read."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

from places import ROOT
from trees import CLEAN, make_tree

from runci import register_cpu_ci
from runci.config.repository import read_taxonomy
from runci.config.suites import load_taxonomy
from runci.config.taxonomy import Taxonomy, from_json, to_json
from runci.read.cache import Cache

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")

FILES = ("test/suites.yml", "test/fixtures/suites.yml", "examples/sglang/suites.yml")

OWN_GLOBS = b"""version: 1
roots: [a, {path: ., test_files: [b_*.py]}, {path: c, exclude: []}, {path: d}]
suites: {cpu: [{name: a, kind: extra, runner: r, env: {A: b}, pytest_args: [-q], setup: [make]}]}
run_by: [{files: [a/test_x.py, "b/**"], by: another CI}]
runners:
  r: {label: r, execution: pytest}
  listed: {label: [self-hosted, gpu]}
  grouped: {label: {group: g, labels: [gpu]}}
"""


def load(name: str) -> Taxonomy:
    data = OWN_GLOBS if name == "own globs" else (ROOT / name).read_bytes()
    return load_taxonomy(data, name)


@pytest.mark.parametrize("name", (*FILES, "own globs"))
def test_a_row_gives_the_same_taxonomy(name: str) -> None:
    taxonomy = load(name)
    row = to_json(taxonomy)
    assert "\n" not in row
    assert from_json(row) == taxonomy
    # Equality does not tell "cuda" from Backend.CUDA.
    assert repr(from_json(row)) == repr(taxonomy)


def test_every_section_is_compared() -> None:
    taxonomies = [load(name) for name in (*FILES, "own globs")]
    for field in dataclasses.fields(Taxonomy):
        if field.name not in ("benchmarks", "folder_rules"):
            assert any(getattr(taxonomy, field.name) for taxonomy in taxonomies), field.name


@pytest.mark.parametrize("row", ["{}", "[]", "null", '{"suites": 1}', "no JSON", "[" * 100_000])
def test_a_foreign_row_is_read_anew(tmp_path: Path, row: str) -> None:
    config = ROOT / "test" / "suites.yml"
    expected, key = read_taxonomy(ROOT, config, Cache(None, ""))
    cache = Cache(tmp_path / "cache", "1")
    cache.put(key, row)
    assert read_taxonomy(ROOT, config, cache) == (expected, key)


def test_a_warm_lint_imports_neither_yaml_nor_the_parser(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "tree", {"test/registered/test_x.py": CLEAN})
    script = (
        "import sys; from runci.cli import main; "
        f"code = main(['lint', '--root', {str(root)!r}, '--cache-dir', {str(tmp_path)!r}]); "
        "assert code == 0, code; "
        "late = {'yaml', 'runci.config.schema', 'runci.read.parse'}; "
        "print(sorted(late & sys.modules.keys()))"
    )
    outs = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        for _ in range(2)
    ]
    assert "yaml" in outs[0].stdout.splitlines()[-1], outs[0]
    assert outs[1].stdout.splitlines()[-1] == "[]", outs[1]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
