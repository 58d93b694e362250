"""The report as Markdown: the same sentences and tables, figures by link."""

from __future__ import annotations

import shlex

from savemark import escape
from savemark.report import (
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
    settings,
)
from savemark.report.analysis import Analysis
from savemark.report.figure import Drawn
from savemark.report.study import parts
from savemark.report.verdict import decision, messages


def markdown(analysis: Analysis, drawn: list[Drawn]) -> str:
    """Return the whole text."""
    text = [*_head(analysis), *_figures(drawn)]
    if not durability.applies(analysis):
        text += [durability.WRONG, ""]
    text += [*_absent(drawn), *_interval(analysis), "## Ceilings", ""]
    text += [facts.ceilings_table(result).markdown() for result in analysis.results]
    text += ["## Is it true?", ""]
    text += [
        f"* **{f.id} {f.title}: {f.verdict.value}.** {escape.markdown(f.message)}"
        for f in analysis.findings
    ]
    text += [*_design(analysis), *_studies(analysis)]
    if runs := facts.runs_table(analysis.run):
        text += ["## Runs", "", runs.markdown()]
    for table in mounted.tables(analysis):
        text += [f"## {escape.markdown(table.title)}", "", table.markdown()]
    text += ["## Machine", "", facts.machine_table(analysis.run).markdown()]
    text += ["To repeat it:", "", *escape.fenced(shlex.join(analysis.run.command), "sh"), ""]
    return "\n".join(text)


def _head(analysis: Analysis) -> list[str]:
    """The decision, what stands against it, and the tables that belong to it."""
    when, badge = escape.markdown(analysis.when), escape.markdown(analysis.badge[1])
    text = [f"# {escape.markdown(analysis.title)}", "", f"{when} · **{badge}**", ""]
    text += [*(f"> {escape.markdown(sentence)}" for sentence in decision(analysis)), ""]
    shown, more = messages(analysis)
    text += [f"* **{f.id}** {escape.markdown(f.message)}" for f in shown]
    text += [f"* … {more} more under “Is it true?”"] if more else []
    for room in (expecting, io500, settings, policies, ranked):
        for table in room.tables(analysis):
            text += ["", f"## {escape.markdown(table.title)}", "", table.markdown()]
    return text


def _figures(drawn: list[Drawn]) -> list[str]:
    text = ["## Figures", ""]
    for each in drawn:
        if each.panels:
            links = [f"![{each.figure.title}](figures/{name}.svg)" for name in each.files]
            text += [f"### {each.figure.title}", "", *links, "", each.figure.caption, ""]
    return text


def _absent(drawn: list[Drawn]) -> list[str]:
    absent = [
        f"{each.figure.title} ({each.why})" for each in drawn if not each.panels and not each.quiet
    ]
    return [escape.markdown(f"Not drawn: {'; '.join(absent)}."), ""] if absent else []


def _interval(analysis: Analysis) -> list[str]:
    found = interval.places(analysis)
    if not found:
        return []
    job = f"{interval.STATE_BYTES / 1e9:g} GB on a job that fails every"
    said = f"A state of {job} {interval.MTBF_S / 3600:g} hours:"
    return ["## Interval", "", said, "", interval.table(found).markdown()]


def _design(analysis: Analysis) -> list[str]:
    """What was measured how often, and what could not be."""
    tables = [
        facts.coverage_table(analysis),
        facts.missing_table(analysis.run),
        facts.failures_table(analysis.run),
        facts.design_table(analysis.run),
    ]
    return ["", "## Coverage and design", "", *(table.markdown() for table in tables if table)]


def _studies(analysis: Analysis) -> list[str]:
    text = ["## The original study’s tables", ""]
    for table in published.tables(analysis):
        text += [f"### {escape.markdown(table.title)}", "", table.markdown()]
    for part in parts(analysis):
        where = escape.markdown(part.title)
        for twin in (corrected.streams_table(part.result), corrected.codec_table(part.result)):
            text += [f"### {twin.title} ({where})", "", twin.markdown()] if twin else []
        text += [f"### Legacy definitions ({where})", "", legacy.WRONG, ""]
        text += [*escape.fenced(legacy.text(part.legacy).rstrip()), ""]
    return text if len(text) > 2 else []
