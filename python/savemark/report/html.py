"""A report as one HTML page: no network, and no script but its own."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from savemark import escape
from savemark.checks import Verdict
from savemark.report.document import Document, Interval
from savemark.report.palette import css_variables

TEMPLATE = Path(__file__).parent / "template"
MARKS = {Verdict.BLOCK: "✕", Verdict.FLAG: "!", Verdict.NOTE: "i", Verdict.UNVERIFIED: "?"}


def html(document: Document) -> str:
    """Return the page."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATE),
        autoescape=True,
        # Names and messages of others pass here; what is `Markup` is ours.
        finalize=lambda value: escape.printable(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["svg"] = Markup  # our own drawing, its texts escaped by the renderer
    environment.filters["kind"] = lambda block: type(block).__name__
    return environment.get_template("report.html").render(_context(document))


def _context(document: Document) -> dict[str, Any]:
    blocks = [block for section in document.sections for block in section.blocks]
    asked = any(isinstance(block, Interval) for block in blocks)
    scripts = [_part("report.js"), *([_part("interval.js")] if asked else [])]
    levels = [name for section in document.sections for name in section.filters or {}]
    return {
        "document": document,
        # The names of factors are anything; in names of attributes they are their places here.
        "places": {name: place for place, name in enumerate(levels)},
        "marks": MARKS,
        "policy": _policy(scripts),
        "light": Markup(css_variables(dark=False)),
        "dark": Markup(css_variables(dark=True)),
        "style": Markup(_part("report.css")),
        "scripts": [Markup(script) for script in scripts],
    }


def _part(name: str) -> str:
    return (TEMPLATE / name).read_text(encoding="utf-8")


def _policy(scripts: Iterable[str]) -> str:
    """The content security policy: no network, and no script but these, whatever got in.

    Styles stay open: the width of a bar and the colours of a drawing are in attributes.
    """
    hashes = (hashlib.sha256(script.encode()).digest() for script in scripts)
    allowed = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
