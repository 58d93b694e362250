"""The report as Markdown: the same sentences and tables, figures by link."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from savemark.report import (
    blocked,
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
)
from savemark.report.analysis import Analysis
from savemark.report.study import parts
from savemark.report.verdict import decision, messages

if TYPE_CHECKING:
    from savemark.report.page import Drawn


def markdown(analysis: Analysis, drawn: list[Drawn]) -> str:
    """Return the whole text."""
    run = analysis.run
    parts = [f"# {title(analysis)}", "", f"{when(analysis)} · **{analysis.badge[1]}**", ""]
    parts += [*(f"> {sentence}" for sentence in decision(analysis)), ""]
    shown, more = messages(analysis)
    parts += [f"* **{f.id}** {f.message}" for f in shown]
    parts += [f"* … {more} more under “Is it true?”"] if more else []
    for table in (
        *expecting.tables(analysis),
        *io500.tables(analysis),
        *blocked.tables(analysis),
    ):
        parts += ["", f"## {table.title}", "", table.markdown()]
    for table in policies.tables(analysis):
        parts += ["", f"## {table.title}", "", table.markdown()]
    for table in ranked.tables(analysis):
        parts += ["", f"## {table.title}", "", table.markdown()]
    parts += ["## Figures", ""]
    for each in drawn:
        if each.panels:
            links = [f"![{each.figure.title}](figures/{name}.svg)" for name in each.files]
            parts += [f"### {each.figure.title}", "", *links, "", each.figure.caption, ""]
    if not durability.applies(analysis):
        parts += [durability.WRONG, ""]
    absent = [
        f"{each.figure.title} ({each.why})" for each in drawn if not each.panels and not each.quiet
    ]
    parts += [f"Not drawn: {'; '.join(absent)}.", ""] if absent else []
    if found := interval.places(analysis):
        job = f"{interval.STATE_BYTES / 1e9:g} GB on a job that fails every"
        parts += ["## Interval", "", f"A state of {job} {interval.MTBF_S / 3600:g} hours:", ""]
        parts += [interval.table(found).markdown()]
    parts += ["## Ceilings", ""]
    parts += [facts.ceilings_table(result).markdown() for result in analysis.results]
    parts += ["## Is it true?", ""]
    parts += [f"* **{f.id} {f.title}: {f.verdict.value}.** {f.message}" for f in analysis.findings]
    parts += ["", "## Coverage and design", "", facts.coverage_table(analysis).markdown()]
    if unavailable := facts.missing_table(run):
        parts += [unavailable.markdown()]
    if failures := facts.failures_table(run):
        parts += [failures.markdown()]
    parts += [facts.design_table(run).markdown(), *_studies(analysis)]
    if runs := facts.runs_table(run):
        parts += ["## Runs", "", runs.markdown()]
    for table in mounted.tables(analysis):
        parts += [f"## {table.title}", "", table.markdown()]
    parts += ["## Machine", "", facts.machine_table(run).markdown()]
    parts += ["To repeat it:", "", "```sh", shlex.join(run.command), "```", ""]
    return "\n".join(parts)


def title(analysis: Analysis) -> str:
    """What was measured, and where."""
    places = ", ".join(result.target for result in analysis.results) or "nothing"
    return f"{analysis.run.study_name}: {places}"


def when(analysis: Analysis) -> str:
    """When, and by which version."""
    started = analysis.run.started_at.replace("T", " ")
    return f"{started} · savemark {analysis.run.version}"


def _studies(analysis: Analysis) -> list[str]:
    text = ["## The original study’s tables", ""]
    for table in published.tables(analysis):
        text += [f"### {table.title}", "", table.markdown()]
    for part in parts(analysis):
        for twin in (corrected.streams_table(part.result), corrected.codec_table(part.result)):
            text += [f"### {twin.title} ({part.title})", "", twin.markdown()] if twin else []
        text += [f"### Legacy definitions ({part.title})", "", legacy.WRONG, ""]
        text += ["```", legacy.text(part.legacy).rstrip(), "```", ""]
    return text if len(text) > 2 else []
