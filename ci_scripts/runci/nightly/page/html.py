"""The page as one file: template, style sheet, script and drawings, nothing fetched."""

from __future__ import annotations

import base64
import hashlib
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from runci import __version__
from runci.nightly.page import words
from runci.nightly.page.draw import Drawing, draw_curve, draw_pairs, draw_times
from runci.nightly.page.headline import COLOURS
from runci.nightly.page.view import SYMBOLS, Page, Section

_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Drawn:
    """The drawings of a metric; None where there is nothing to draw."""

    curve: Drawing | None
    times: Drawing | None
    pairs: Drawing | None


def render(page: Page) -> str:
    """The whole document. What comes from outside is escaped; the same page gives the same text."""
    environment = Environment(
        loader=FileSystemLoader(_FOLDER, encoding="utf-8"),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    script = _text("filter.js").strip()
    text: str = environment.get_template("page.html.j2").render(
        page=page,
        sections=[(section, _drawn(section)) for section in page.sections],
        symbols={status.value: symbol for status, symbol in SYMBOLS.items()},
        none_text=words.NONE,
        css=_text("page.css"),
        script=script,
        policy=_policy(script),
        icon=_icon(COLOURS[page.headline.mood]),
        version=__version__,
    )
    return text


def _drawn(section: Section) -> Drawn:
    return Drawn(
        draw_curve(section.curve) if section.curve else None,
        draw_times(section.curve) if section.curve else None,
        draw_pairs(section.pairs) if section.pairs else None,
    )


def _policy(script: str) -> str:
    """Nothing is loaded from anywhere; styles stand in the page, and this one script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def _icon(colour: str) -> str:
    """A dot in the colour of the night, for the browser's tab."""
    dot = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">'
        f'<circle cx="8" cy="8" r="7" fill="{colour}"/></svg>'
    )
    return "data:image/svg+xml," + urllib.parse.quote(dot)


def _text(name: str) -> str:
    return (_FOLDER / name).read_text("utf-8")
