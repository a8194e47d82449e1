"""What of docs/ is generated: it says what the code says, and what people wrote stays."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from runci import register_cpu_ci
from runci.checks.registry import rules
from runci.core.site import SITE, rule_page

register_cpu_ci(est_time=3, stage="base-a", runner_config="cpu")

ROOT = Path(__file__).parents[4]
sys.path.insert(0, str(ROOT / "ci_scripts"))

import docs  # noqa: E402
import docs_site  # noqa: E402


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of documents that is as the code says."""
    for folder in ("commands", "rules"):
        (tmp_path / folder).mkdir()
    monkeypatch.setattr(docs, "DOCS", tmp_path)
    assert docs.main([]) == 0
    return tmp_path


def test_what_people_wrote_stays(site: Path) -> None:
    page = site / "commands/plan.md"
    _, mark, below = page.read_text().partition(docs.MARK)
    page.write_text(f"# Mine\n\nHand-written.\n\n{mark}{below}")
    assert docs.main(["--check"]) == 0
    assert docs.main([]) == 0
    assert page.read_text().startswith("# Mine\n\nHand-written.\n")


def test_generated_pages_are_complete(site: Path) -> None:
    perf = (site / "commands/perf.md").read_text()
    assert "runci perf measure [OPTIONS] BENCHMARK" in perf
    assert "| `--repetitions N` |" in perf
    assert "`-o FILE`, `--output FILE`" in (site / "commands/plan.md").read_text()
    assert "# RT301 no-main-block" in (site / "rules/RT301.md").read_text()
    assert "[RT301](RT301.md)" in (site / "rules/index.md").read_text()
    assert "[`runci plan`](plan.md)" in (site / "commands/index.md").read_text()


FAULTS = {
    "a changed option": ("commands/plan.md", "| `--all` |", "| `--every` |"),
    "a changed rule": ("rules/RT301.md", "## Found", "## Seen"),
    "a changed list": ("rules/index.md", "[RT301]", "[RT300]"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_page_that_is_out_of_date_is_named(
    fault: str, site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, old, new = FAULTS[fault]
    text = (site / name).read_text()
    assert old in text
    (site / name).write_text(text.replace(old, new))
    assert docs.main(["--check"]) == 1
    assert f"docs/{name} " in capsys.readouterr().out
    assert docs.main([]) == 0
    assert (site / name).read_text() == text


def test_nothing_is_written_on_wrong_use(site: Path) -> None:
    (site / "rules/RT301.md").unlink()
    with pytest.raises(SystemExit, match="2"):
        docs.main(["--chekc"])
    assert not (site / "rules/RT301.md").exists()


def test_pages_come_and_go_with_rules_and_commands(site: Path) -> None:
    (site / "rules/RT301.md").unlink()
    (site / "rules/RT999.md").write_text(f"# RT999\n\n{docs.MARK}\n")
    (site / "commands/gone.md").write_text(f"# gone\n\n{docs.MARK}\n")
    assert docs.outdated(site, docs.pages(site)) == [
        "commands/gone.md",
        "rules/RT301.md",
        "rules/RT999.md",
    ]
    assert docs.main([]) == 0
    assert docs.main(["--check"]) == 0


def test_the_address_of_the_site_is_one() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert site["site_url"] == SITE
    for project in ("pyproject.toml", "kernel/pyproject.toml"):
        urls = dict(re.findall(r'(?m)^(\w+) = "(https://\S+)"$', (ROOT / project).read_text()))
        assert urls["Documentation"].startswith(SITE)
        assert urls["Repository"] == site["repo_url"]
    for rule in rules():  # MkDocs makes a folder of a page
        page = rule_page(rule).removeprefix(SITE).rstrip("/")
        assert (ROOT / "docs" / f"{page}.md").is_file()


LINKS = {
    "[a](gate.md#audit)": "[a](gate.md#audit)",
    "[a](../rules/RT101.md)": "[a](../rules/RT101.md)",
    "[a](#here)": "[a](#here)",
    "[a](https://example.com/../a)": "[a](https://example.com/../a)",
    "[a](../../SECURITY.md)": "[a](https://host/us/blob/HEAD/SECURITY.md)",
    "[a](../../kernel/README.md#use)": "[a](https://host/us/blob/HEAD/kernel/README.md#use)",
}


@pytest.mark.parametrize("link", LINKS)
def test_links_out_of_the_documents_lead_to_the_repository(link: str) -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="commands/run.md"))
    config = SimpleNamespace(repo_url="https://host/us")
    assert docs_site.on_page_markdown(link, page, config) == LINKS[link]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
