"""`runci perf report`: what it writes, and what it says of wrong use."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[4] / "support"))  # for `python FILE`

import perf_world as sim
from fake_github import FakeGitHub, world
from perf_pages import shown

from runci import register_cpu_ci
from runci.cli import main
from runci.nightly.page.markdown import summary

register_cpu_ci(est_time=1, stage="base-a", runner_config="cpu")


@pytest.fixture
def written(tmp_path: Path) -> list[str]:
    config = tmp_path / "perf.yml"
    config.write_text("version: 1\nfirst_night: 2026-01-01\nbenchmarks: {}\n", encoding="utf-8")
    return [*sim.write(sim.busy(), tmp_path), "--config", str(config)]


def run(*arguments: str) -> int:
    return main(["perf", "report", *arguments])


def test_the_command_writes_summary_and_badge(
    written: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary_file, badge_file = tmp_path / "summary.md", tmp_path / "badge.svg"
    summary_file.write_text("before\n", encoding="utf-8")
    outputs = ["--markdown", str(summary_file), "--badge", str(badge_file)]
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    assert run(*written, *outputs) == 0
    text = summary_file.read_text("utf-8")
    assert text == summary(shown(sim.busy()))
    assert "2 regressions" in badge_file.read_text("utf-8")
    # The page of a job holds what other steps wrote.
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary_file))
    assert run(*written, *outputs) == 0
    assert summary_file.read_text("utf-8") == text + text


def test_it_links_to_the_issues_that_are_open(
    written: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the nightly has opened them; what cannot be asked for is searched for."""
    summary_file = tmp_path / "summary.md"
    with FakeGitHub(world()) as github:
        for name, value in {
            "GITHUB_API_URL": github.url,
            "GITHUB_REPOSITORY": "octo/kernels",
            "GITHUB_TOKEN": "secret",
        }.items():
            monkeypatch.setenv(name, value)
        assert main(["perf", "notify", written[0], *written[-2:], "--no-dry-run"]) == 0
        numbers = {issue["number"] for issue in github.world["issues"]}
        assert run(*written, "--markdown", str(summary_file)) == 0
        assert {verb for verb, _, _ in github.requests[-3:]} == {"GET"}
    linked = set(re.findall(r"octo/kernels/issues/(\d+)\)", summary_file.read_text("utf-8")))
    assert linked and linked <= set(map(str, numbers))
    assert "issues?q=" not in summary_file.read_text("utf-8")
    assert run(*written, "--markdown", str(summary_file)) == 0  # GitHub is gone
    assert summary_file.read_text("utf-8") == summary(shown(sim.busy()))


def test_wrong_use_says_what_to_do(
    written: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["--badge", str(tmp_path / "b.svg")]
    verdict_file = tmp_path / "verdicts.json"
    broken, newer = tmp_path / "broken.json", tmp_path / "newer.json"
    broken.write_bytes(verdict_file.read_bytes()[:-20])
    newer.write_bytes(verdict_file.read_bytes().replace(b'"schema":1', b'"schema":2'))
    rest = written[1:]
    for arguments, said in (
        (written, "nothing to write: pass --html, --markdown or --badge"),
        ([str(tmp_path / "none.json"), *rest, *out], "none.json: cannot read: No such file"),
        ([str(broken), *rest, *out], "broken.json: not JSON"),
        ([str(newer), *rest, *out], "newer.json: schema 2, but this runci reads 1"),
        ([*written, "--record", str(verdict_file), *out], "verdicts.json: Object missing"),
        ([*written, "--badge", str(tmp_path / "no" / "b.svg")], "cannot write"),
        ([*written, *out, "--page", "javascript:x"], "--page 'javascript:x' is no address"),
        ([*written, *out, "--page", "https://x/a)b"], "is no address"),
        ([*written, *out, "--history", str(tmp_path / "nowhere")], "nowhere"),
    ):
        assert run(*arguments) == 2, said
        error = capsys.readouterr().err
        assert said in error
        assert "Traceback" not in error
    assert not (tmp_path / "b.svg").exists()


def test_the_page_needs_the_extra(
    written: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    for name in [name for name in sys.modules if name.startswith("runci.nightly.page.")]:
        if name.rsplit(".", 1)[1] in ("html", "draw", "canvas"):
            monkeypatch.delitem(sys.modules, name)
    assert run(*written, "--html", str(tmp_path / "p.html")) == 2
    assert '--html needs the package jinja2: pip install ".[perf]"' in (capsys.readouterr().err)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
