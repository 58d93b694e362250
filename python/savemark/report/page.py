"""The page: one file, no network, made of the template, the tables and the figures."""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from savemark import escape
from savemark.checks import Verdict
from savemark.report import (
    answers,
    corrected,
    durability,
    expecting,
    facts,
    interval,
    io500,
    legacy,
    mounted,
    policies,
    published,
    ranked,
    screened,
    settings,
)
from savemark.report.analysis import Analysis
from savemark.report.document import Table
from savemark.report.figure import Drawn
from savemark.report.palette import css_variables
from savemark.report.remedies import beside, caveats, messages
from savemark.report.speech import cost, spoken
from savemark.report.study import original, parts
from savemark.report.verdict import decision

TEMPLATE = Path(__file__).parent / "template"
MARKS = {Verdict.BLOCK: "✕", Verdict.FLAG: "!", Verdict.NOTE: "i", Verdict.UNVERIFIED: "?"}


def page(analysis: Analysis, drawn: list[Drawn]) -> str:
    """Return the HTML."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATE),
        autoescape=True,
        # Names and messages of others pass here; what is `Markup` is ours.
        finalize=lambda value: escape.printable(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["figures"] = lambda section: [
        d for d in drawn if d.figure.section == section and d.panels
    ]
    environment.globals["elsewhere"] = [
        d for d in drawn if d.quiet and not (d.why or "").startswith("it belongs to ")
    ]
    environment.globals["absent"] = [d for d in drawn if not d.panels and not d.quiet]
    environment.filters["svg"] = Markup  # our own drawing, its texts escaped by the renderer
    return environment.get_template("report.html").render(_context(analysis))


def _context(analysis: Analysis) -> dict[str, Any]:
    run, (state, reason) = analysis.run, answers.state(analysis)
    merged, step = messages(beside(analysis)), answers.next_step(analysis)
    found = interval.places(analysis)
    scripts = [_part("report.js"), *([_part("interval.js")] if found else [])]
    levels = _levels(analysis)
    return {
        "policy": _policy(scripts),
        "title": analysis.title,
        "when": analysis.when,
        "question": run.study.title,
        "state": state.value,
        "reason": reason,
        "validity": analysis.badge[1],
        "answers": _answers(analysis),
        "met": expecting.sentence(analysis),
        "decision": decision(analysis),
        "expected": expecting.tables(analysis),
        "messages": merged,
        "caveats": caveats(merged),
        "step": step,
        "cost": cost(step) if step else "",
        "tables": _main(analysis),
        "screened": screened.tables(analysis),
        "levels": levels,
        # The names of factors are anything; in names of attributes they are their places here.
        "filters": {name: place for place, name in enumerate(levels)},
        "ceilings": [facts.ceilings_table(r) for r in analysis.results if r.ceilings],
        "findings": analysis.findings,
        "marks": MARKS,
        "places": found,
        "interval": interval.table(found),
        "job_bytes": interval.STATE_BYTES,
        "job_mtbf": interval.MTBF_S,
        "restart": interval.RESTART_S,
        "coverage": facts.coverage_table(analysis),
        "unavailable": facts.missing_table(run),
        "failures": facts.failures_table(run),
        "design": facts.design_table(run),
        "policies": policies.tables(analysis),
        "storages": published.tables(analysis),
        "studies": _studies(analysis),
        "original": original(analysis) or not durability.applies(analysis),
        "wrong": legacy.WRONG,
        "exercise": "" if durability.applies(analysis) else durability.WRONG,
        "fired": len(analysis.fired),
        "runs": facts.runs_table(run),
        "machine": facts.machine_table(run),
        "mounts": mounted.tables(analysis),
        "ranks": ranked.tables(analysis),
        "command": shlex.join(run.command),
        "files": _files(analysis),
        "light": Markup(css_variables(dark=False)),
        "dark": Markup(css_variables(dark=True)),
        "style": Markup(_part("report.css")),
        "scripts": [Markup(script) for script in scripts],
    }


def _main(analysis: Analysis) -> list[Table]:
    """The tables to sort and filter."""
    scores = [replace(table, sortable=True) for table in io500.tables(analysis)]
    return [*scores, *(settings.table(each) for each in settings.settings(analysis))]


def _answers(analysis: Analysis) -> list[Any]:
    """The answers in words and numbers; a score, or a study in parts, is told in sentences."""
    return [] if analysis.parts or io500.scored(analysis) else spoken(analysis)


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


def _levels(analysis: Analysis) -> dict[str, list[str]]:
    """The values that a filter offers, for the factors that vary."""
    return {f.name: [f.shown(level) for level in f.levels] for f in analysis.own_factors}


def _studies(analysis: Analysis) -> list[tuple[str, list[Table], str]]:
    """Per storage (and payload): its title, the corrected tables, the legacy text."""
    found = []
    for part in parts(analysis) if original(analysis) else ():
        twins = (corrected.streams_table(part.result), corrected.codec_table(part.result))
        found.append((part.title, [t for t in twins if t], legacy.text(part.legacy)))
    return found


def _files(analysis: Analysis) -> list[tuple[str, str]]:
    folder = analysis.run.folder
    files = [
        ("run.json", "resolved study, host, versions, plan"),
        ("records.jsonl", "one line per trial"),
        ("timeline.parquet", "bytes per interval"),
        ("log.txt", "what happened"),
        ("tables/settings.csv", "the table above in base units"),
        ("tables/phases.csv", "one row per phase of each trial"),
        ("tables/ceilings.csv", "ceilings"),
        ("tables/checks.csv", "checks"),
        ("report.md", "this report as Markdown"),
    ]
    return [(name, what) for name, what in files if name == "report.md" or (folder / name).exists()]
