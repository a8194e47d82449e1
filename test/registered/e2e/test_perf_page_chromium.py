"""The page of a night as `runci perf report` writes it, opened from disk in headless Chromium."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))  # for `python FILE`

import perf_world as sim
from places import ROOT

from runci import register_cpu_ci
from runci.nightly.history.lines import History, Point
from runci.nightly.record import anchor
from runci.nightly.verdict import Status, Verdicts

register_cpu_ci(est_time=36, stage="base-a", runner_config="cpu")

PYTHON = ROOT / ".venv-perf" / "bin" / "python"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WORLDS = ("busy", "hostile", "bare", "empty", "one_cause", "ten_years")
CONFIG = "version: 1\nfirst_night: 2026-01-01\nbenchmarks: {}\n"
TIMES = "\N{MULTIPLICATION SIGN}"


def bare() -> sim.World:
    """Series with next to nothing: one point, no baseline, no history, no figures, no record."""
    one = sim.Plan("one night", 1)
    raw = sim.Plan("no baseline", 30, compared=False)
    absent, unmeasured = sim.Plan("no history", 30), sim.Plan("no figures", 30)
    points = tuple(
        Point(sim.night(b), f"{sim.night(b)}T02:30:00Z", str(b), "", unusable=("no GPU",))
        for b in range(5, -1, -1)
    )
    absurd = sim.Plan("absurd figures", 4)
    figures = ((1e308, 1e-308, 5e-324), (5e-324, 1e308, 1e308), (0.0, 0.0, 0.0), (7.0,))
    wild = tuple(
        replace(p, candidate=c, baseline=b)
        for p, c, b in zip(
            sim.series(absurd).points,
            figures,
            (figures[1], figures[0], figures[2], ()),
            strict=True,
        )
    )
    judged = [
        (replace(sim.series(absurd), points=wild), sim.verdict(absurd, level=1e308, change=1e308)),
        (sim.series(one), sim.verdict(one, Status.TOO_LITTLE)),
        (sim.series(raw), sim.verdict(raw)),
        (
            replace(sim.series(unmeasured), points=points),
            sim.verdict(unmeasured, Status.MISSING, value=None, level=None, segments=()),
        ),
    ]
    found = sim.world(judged)
    verdicts = (*found.verdicts.verdicts, sim.verdict(absent))
    return replace(found, verdicts=replace(found.verdicts, verdicts=verdicts))


def empty() -> sim.World:
    return sim.World(Verdicts(sim.night(0), f"{sim.night(0)}T03:00:00Z", ()), History())


MAKERS = {
    "busy": sim.busy,
    "hostile": sim.hostile,
    "bare": bare,
    "empty": empty,
    "one_cause": sim.one_cause,
    "ten_years": sim.ten_years,
}


# Command lines, one after another: what a report imports takes longer than most pages.
REPORTS = """\
import json, sys
from runci.cli import main
sys.exit(max([main(["perf", "report", *arguments]) for arguments in json.load(sys.stdin)]))
"""


def report(*reports: list[str]) -> None:
    """Write pages in one process of the nightly's environment."""
    assert PYTHON.exists(), "no .venv-perf: run `make .venv-perf/stamp`"
    command, given = [PYTHON, "-c", REPORTS], json.dumps(reports)
    ran = subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=300, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.fixture(scope="module")
def pages(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each world's page; none where nothing can open it."""
    folders = {name: tmp_path_factory.mktemp(name) for name in WORLDS}
    arguments = {}
    for name, folder in folders.items():
        (folder / "perf.yml").write_text(CONFIG, encoding="utf-8")
        data = sim.write(MAKERS[name](), folder)
        arguments[name] = [*data, "--config", str(folder / "perf.yml"), "--html"]
    found = {name: folder / "page.html" for name, folder in folders.items()}
    report(*([*arguments[name], str(page)] for name, page in found.items()))
    again = folders["busy"] / "again.html"
    report([*arguments["busy"], str(again)])  # in another process, with another hash seed
    assert again.read_bytes() == found["busy"].read_bytes()
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        hint = f"no Chromium ({', '.join(NAMES)}) on PATH: .ci/install-chromium says how to get one"
        if os.environ.get("CI"):
            pytest.fail(hint)
        pytest.skip(hint)
    # Root, as whom containers run, cannot use Chromium's sandbox.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=arguments)
        yield opened
        opened.close()


@dataclass
class Opened:
    """A page, and everything that it said or asked for."""

    page: Page
    context: BrowserContext
    console: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


def visit(browser: Browser, path: Path, at: str = "", **options: object) -> Opened:
    context = browser.new_context(**options)  # type: ignore[arg-type]
    opened = Opened(context.new_page(), context)
    opened.page.on("console", lambda said: opened.console.append(f"{said.type}: {said.text}"))
    opened.page.on("pageerror", lambda error: opened.console.append(f"error: {error}"))
    opened.page.on("request", lambda request: opened.asked.append(request.url))
    opened.page.goto(path.as_uri() + at)
    return opened


def open_all(page: Page) -> None:
    page.eval_on_selector_all("details", "all => all.forEach(each => { each.open = true; })")


@pytest.mark.parametrize("scripts", [True, False])
@pytest.mark.parametrize("name", WORLDS)
def test_it_stands_alone(
    pages: dict[str, Path], browser: Browser, name: str, scripts: bool
) -> None:
    opened = visit(browser, pages[name], java_script_enabled=scripts)
    assert opened.page.locator("h1").inner_text() == sim.night(0)
    assert opened.page.locator("h2").all_inner_texts()[-5:] == [
        "Verdicts",
        "Missing nights",
        "Nightly tests",
        "Metrics",
        "Machine and versions",
    ]
    opened.context.close()
    assert opened.console == []
    assert opened.asked == [pages[name].as_uri()]


@pytest.mark.parametrize("name", WORLDS)
def test_nothing_is_wider_than_a_phone(pages: dict[str, Path], browser: Browser, name: str) -> None:
    opened = visit(browser, pages[name], viewport={"width": 360, "height": 740})
    open_all(opened.page)
    width = opened.page.evaluate("document.documentElement.scrollWidth")
    beyond = opened.page.evaluate(
        """() => [...document.querySelectorAll("body *")].filter(each =>
            !each.closest(".scroll, pre, svg") && each.getBoundingClientRect().right > 361
        ).map(each => each.outerHTML.slice(0, 120))"""
    )
    opened.context.close()
    assert beyond == []
    assert width == 360


def test_fourteen_metrics_of_one_cause_fit_a_phone(
    pages: dict[str, Path], browser: Browser
) -> None:
    opened = visit(browser, pages["one_cause"], viewport={"width": 390, "height": 844})
    page = opened.page
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    lead, below = page.locator("tr.cause"), page.locator("tr.member")
    assert (lead.count(), below.count()) == (1, 14)
    targets = [link.get_attribute("href") or "" for link in lead.locator("a").all()]
    assert ["/compare/" in target for target in targets] == [True, False]
    assert ["/issues?q=" in target for target in targets] == [False, True]
    heights = [box["height"] for row in below.all() if (box := row.bounding_box())]
    assert len(heights) == 14
    assert max(heights) < 60  # a name and its change, two lines at most
    page.fill("#filter-name", "M=14 ")
    assert [row.is_visible() for row in (*lead.all(), *below.all())].count(True) == 2
    assert page.locator("#filter-count").text_content() == "1 of 16"
    opened.context.close()


@pytest.mark.parametrize("name", WORLDS)
def test_links_and_images(pages: dict[str, Path], browser: Browser, name: str) -> None:
    opened = visit(browser, pages[name])
    ids = opened.page.eval_on_selector_all("[id]", "all => all.map(each => each.id)")
    links = opened.page.eval_on_selector_all("a", "all => all.map(a => a.getAttribute('href'))")
    names = opened.page.eval_on_selector_all(
        "main svg, main img", "all => all.map(each => [each.role, each.ariaLabel])"
    )
    opened.context.close()
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    assert all(link.startswith(("#", "https://github.com/octo/kernels/")) for link in links)
    assert all(role == "img" and len(label) > 20 for role, label in names)
    assert bool(names) == (name != "empty")


def test_the_numbers_are_those_of_the_record(pages: dict[str, Path], browser: Browser) -> None:
    where = sim.busy()
    (record,) = where.records
    opened = visit(browser, pages["busy"])
    open_all(opened.page)
    rows = {
        row[1]: row
        for row in opened.page.eval_on_selector_all(
            ".verdicts tbody tr", "all => all.map(row => [...row.cells].map(c => c.innerText))"
        )
    }
    assert len(rows) == len(where.verdicts.verdicts)
    for verdict in where.verdicts.verdicts:
        row = rows[verdict.id.metric]
        assert row[0].split(maxsplit=1)[1].startswith(verdict.status.value)
        assert row[6] == verdict.reason
        if verdict.change is not None and verdict.low is not None and verdict.high is not None:
            side = "worse" if verdict.change > 0 else "better"
            said, interval = row[3].split("\n")
            assert said == f"{abs(verdict.change) * 100:.1f} % {side}"
            low, high = interval.replace("\N{MINUS SIGN}", "-").removesuffix(" %").split(" to ")
            assert float(low) == pytest.approx(verdict.low * 100, abs=0.051)
            assert float(high) == pytest.approx(verdict.high * 100, abs=0.051)
    for measured in record.measurements:
        ratio = statistics.median(
            statistics.median(c) / statistics.median(b)
            for c, b in zip(measured.candidate, measured.baseline, strict=True)
        )
        assert rows[measured.metric][2] == f"{ratio:.3f}{TIMES}"
        series_id = record.series_id(measured.metric)
        part = opened.page.locator(f"#{anchor(series_id)}")
        night = part.locator(".nights tbody tr").first.locator("th, td").all_inner_texts()
        assert night[0] == record.night
        assert night[1] == record.commit[:9]
        assert night[4] == f"{ratio:.3f}{TIMES}"
        middle = statistics.median(map(statistics.median, measured.candidate))
        assert float(night[2].split()[0]) == pytest.approx(middle, rel=1e-3)
        # One mark a usable night: the last 120 of them one by one.
        points = where.history.series[series_id].points[-120:]
        usable = sum(not point.unusable for point in points)
        marks = part.locator("svg.wide g[style='fill: var(--candidate)'] > circle").count()
        assert marks == (usable if usable > 2 else 0)
    states = opened.page.locator("#machine ~ article tbody tr").all_inner_texts()
    before, after = record.before.temperature, record.after.temperature
    assert f"temperature\t{before} °C\t\N{EN DASH}\t{after} °C" in states
    suites = opened.page.locator(".suites tbody tr").all_inner_texts()
    assert suites[1] == "nightly-sanitizer\t12\t0\t0\tnone"
    assert opened.page.locator(".headline .first").inner_text().startswith("2 regressions: ")
    opened.context.close()


def test_dark_and_light_differ_and_can_be_read(pages: dict[str, Path], browser: Browser) -> None:
    seen = {}
    for scheme in ("light", "dark"):
        opened = visit(browser, pages["busy"], color_scheme=scheme)
        seen[scheme] = opened.page.evaluate(
            """() => {
              const canvas = document.createElement("canvas").getContext("2d");
              const luminance = colour => {
                canvas.fillStyle = "#000"; canvas.fillStyle = colour;
                canvas.fillRect(0, 0, 1, 1);
                const parts = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map(v => {
                  v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
                return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
              };
              const behind = each => {
                for (; each; each = each.parentElement) {
                  const colour = getComputedStyle(each).backgroundColor;
                  if (colour !== "rgba(0, 0, 0, 0)") return colour;
                }
                return "white";
              };
              const contrast = each => {
                const one = luminance(getComputedStyle(each).color);
                const two = luminance(behind(each));
                return (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
              };
              const texts = document.querySelectorAll(
                ".status, .first, .note, .about span, small, dt, figcaption, h2, a, .tag");
              return {
                paper: getComputedStyle(document.body).backgroundColor,
                dot: getComputedStyle(document.querySelector("svg.wide g")).fill,
                poor: [...texts].filter(each => contrast(each) < 4.5).map(each =>
                  each.className + " " + each.textContent.slice(0, 40) + " " + contrast(each)),
              };
            }"""
        )
        opened.context.close()
    assert seen["light"]["paper"] != seen["dark"]["paper"]
    assert seen["light"]["dot"] != seen["dark"]["dot"]
    assert seen["light"]["poor"] == seen["dark"]["poor"] == []


def test_hostile_texts_are_only_texts(pages: dict[str, Path], browser: Browser) -> None:
    opened = visit(browser, pages["hostile"])
    names = opened.page.locator(".verdicts tbody th").all_inner_texts()
    tags = opened.page.evaluate(
        "[...new Set([...document.querySelectorAll('*')].map(e => e.tagName.toLowerCase()))]"
    )
    assert opened.page.evaluate("window.hit") is None
    assert opened.page.locator("script").count() == 1
    assert sorted(names) == sorted(sim.HOSTILE)
    assert not {"img", "iframe", "object", "i", "base"} & set(tags)
    assert opened.page.locator("svg text", has_text="frac").count() > 0  # a unit, not mathematics
    opened.context.close()


def test_the_policy_forbids_what_a_hole_would_let_in(
    pages: dict[str, Path], browser: Browser
) -> None:
    opened = visit(browser, pages["busy"])
    opened.page.evaluate(
        """() => {
          const script = document.createElement("script");
          script.textContent = "window.hit = 3";
          const image = document.createElement("img");
          image.src = "https://evil.example/x.png";
          document.body.append(script, image);
        }"""
    )
    assert opened.page.evaluate("window.hit") is None
    assert opened.page.evaluate("fetch('https://evil.example').catch(e => e.name)") == "TypeError"
    opened.context.close()
    refused = [said for said in opened.console if "Content Security Policy" in said]
    assert len(refused) >= 3


@pytest.mark.parametrize("scripts", [True, False])
def test_a_link_to_a_steady_metric_unfolds_it(
    pages: dict[str, Path], browser: Browser, scripts: bool
) -> None:
    steady = sim.series_id("this kernel M=8 warm")
    opened = visit(browser, pages["busy"], f"#{anchor(steady)}", java_script_enabled=scripts)
    part = opened.page.locator(f"#{anchor(steady)}")
    assert part.is_visible()
    folded = opened.page.locator(f"#{anchor(sim.series_id('this kernel M=2 warm'))}")
    assert not folded.is_visible()
    opened.context.close()


def test_the_filter(pages: dict[str, Path], browser: Browser) -> None:
    opened = visit(browser, pages["busy"])
    rows = opened.page.locator(".verdicts tbody tr:visible")
    sections = opened.page.locator("details.metric:visible")
    assert rows.count() == 11
    opened.page.fill("#filter-name", "M=4 WARM")
    assert rows.count() == sections.count() == 1
    opened.page.fill("#filter-name", "")
    opened.page.select_option("#filter-status", "steady")
    assert rows.count() == sections.count() == 6
    assert opened.page.locator("#filter-count").inner_text() == "6 of 11"
    opened.context.close()
    without = visit(browser, pages["busy"], java_script_enabled=False)
    assert not without.page.locator("#filter").is_visible()
    assert without.page.locator(".verdicts tbody tr:visible").count() == 11
    without.context.close()


def test_paper_is_white_and_holds_it_all(pages: dict[str, Path], browser: Browser) -> None:
    opened = visit(
        browser, pages["busy"], color_scheme="dark", viewport={"width": 718, "height": 1000}
    )
    opened.page.emulate_media(media="print", color_scheme="dark")
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)"
    )
    assert not opened.page.locator("#filter").is_visible()
    widest = opened.page.eval_on_selector_all(
        "svg.plot", "all => Math.max(...all.map(each => each.getBoundingClientRect().right))"
    )
    assert widest <= 718
    opened.context.close()


def test_ten_years_of_fifty_metrics_are_a_small_page(
    pages: dict[str, Path], browser: Browser
) -> None:
    assert pages["ten_years"].stat().st_size < 3_000_000
    opened = visit(browser, pages["ten_years"])
    assert opened.page.locator("details.metric svg.wide").count() == 50
    note = opened.page.locator("#metrics + .note").inner_text()
    assert "the last 120 nights" in note
    assert "groups of 5 weeks" in note
    opened.context.close()


def test_what_is_missing_is_said(pages: dict[str, Path], browser: Browser) -> None:
    opened = visit(browser, pages["bare"])
    messages = opened.page.locator(".messages li").all_inner_texts()
    rows = {row[1]: row[2] for row in opened.page.eval_on_selector_all(
        ".verdicts tbody tr", "all => all.map(row => [...row.cells].map(c => c.innerText))"
    )}  # fmt: skip
    opened.context.close()
    assert any(text.startswith("no history: ") for text in messages)
    assert (
        rows["no baseline"]
        == f"{sim.ratio(sim.point(sim.Plan('no baseline', 30, compared=False), 0)):.3f} µs"
    )
    assert rows["one night"].endswith(TIMES)
    empty_page = visit(browser, pages["empty"])
    assert empty_page.page.locator(".headline .first").inner_text() == "Nothing was measured."
    assert empty_page.page.locator(".none").all_inner_texts() == [
        "No metric was judged.",
        "No night is missing.",
        "No results of nightly tests were recorded.",
        "No metric was judged.",
        "No record of this night was given.",
    ]
    empty_page.context.close()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-v"]))
