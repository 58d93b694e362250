"""The report as Markdown: the same sentences and tables, figures by link."""

from __future__ import annotations

import shlex

from savemark import escape
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
from savemark.report.remedies import beside, caveats, messages
from savemark.report.speech import cost, spoken
from savemark.report.study import original, parts
from savemark.report.verdict import decision


def markdown(analysis: Analysis, drawn: list[Drawn]) -> str:
    """Return the whole text."""
    text = [*_head(analysis), "", *_figures(drawn), *_tables(analysis)]
    if not durability.applies(analysis):
        text += [durability.WRONG, ""]
    text += ["", *_absent(drawn), *_interval(analysis), "## Ceilings", ""]
    text += [table(facts.ceilings_table(result)) for result in analysis.results]
    text += ["## Is it true?", ""]
    text += [f"* {', '.join(m.ids)}: {escape.markdown(m.text)}" for m in messages(beside(analysis))]
    text += ["", f"Validity: {escape.markdown(analysis.badge[1])}. Every check:", ""]
    text += [
        f"* **{f.id} {f.title}: {f.verdict.value}.** {escape.markdown(f.message)}"
        for f in analysis.findings
    ]
    text += [*_design(analysis), *_studies(analysis)]
    if runs := facts.runs_table(analysis.run):
        text += ["## Runs", "", table(runs)]
    for each in mounted.tables(analysis):
        text += [f"## {escape.markdown(each.title)}", "", table(each)]
    text += ["## Machine", "", table(facts.machine_table(analysis.run))]
    text += ["To repeat it:", "", *escape.fenced(shlex.join(analysis.run.command), "sh"), ""]
    return "\n".join(text)


def table(found: Table) -> str:
    """A GitHub table, and its note."""
    heads = found.columns
    if found.groups:
        spread = [title for title, count in found.groups for _ in range(count)]
        heads = [f"{g} {c}".strip() for g, c in zip(spread, found.columns, strict=True)]
    first = found.lines[0].data if found.lines else []
    marks = ["--:" if d.number else "---" for d in first] or ["---"] * len(heads)
    rows = [heads, *([datum.text for datum in line.data] for line in found.lines)]
    head, *body = ([escape.cell(text) for text in row] for row in rows)
    lines = [f"| {' | '.join(cells)} |" for cells in (head, marks, *body)]
    return "\n".join([*lines, "", *([escape.markdown(found.note), ""] if found.note else [])])


def _head(analysis: Analysis) -> list[str]:
    """The first screen: the state, the answers, what stands against them, the next command."""
    word, reason = answers.state(analysis)
    text = [f"# {escape.markdown(analysis.title)}", ""]
    text += [f"{escape.markdown(analysis.when)} · **{word.value}**", ""]
    text += [*(f"> {escape.markdown(sentence)}" for sentence in decision(analysis)), ""]
    if reason:
        text += [f"* **why** {escape.markdown(reason)}"]
    if not analysis.parts:
        for each in spoken(analysis):
            # The sentence has the reason and where a codec pays.
            lines = [pair for pair in each.lines if pair[0] not in ("why", "codec")]
            about = f"{each.about}: " if each.about else ""
            text += [f"* **{label}** {escape.markdown(about + said)}" for label, said in lines]
    if said := caveats(messages(beside(analysis))):
        text += [f"* {escape.markdown(said)}"]
    if step := answers.next_step(analysis):
        text += ["", f"Next{f' ({what})' if (what := cost(step)) else ''}:", ""]
        text += [*escape.fenced(step.command, "sh")]
    return text


def _tables(analysis: Analysis) -> list[str]:
    text: list[str] = []
    tables = [
        *(*expecting.tables(analysis), *io500.tables(analysis)),
        *(settings.table(each) for each in settings.settings(analysis)),
        *(*screened.tables(analysis), *policies.tables(analysis), *ranked.tables(analysis)),
    ]
    for each in tables:
        text += ["", f"## {escape.markdown(each.title)}", "", table(each)]
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
    return ["## Interval", "", said, "", table(interval.table(found))]


def _design(analysis: Analysis) -> list[str]:
    """What was measured how often, and what could not be."""
    tables = [
        facts.coverage_table(analysis),
        facts.missing_table(analysis.run),
        facts.failures_table(analysis.run),
        facts.design_table(analysis.run),
    ]
    return ["", "## Coverage and design", "", *(table(each) for each in tables if each)]


def _studies(analysis: Analysis) -> list[str]:
    title = "The original study’s tables" if original(analysis) else "Further tables"
    text = [f"## {title}", ""]
    for each in published.tables(analysis):
        text += [f"### {escape.markdown(each.title)}", "", table(each)]
    for part in parts(analysis) if original(analysis) else ():
        where = escape.markdown(part.title)
        for twin in (corrected.streams_table(part.result), corrected.codec_table(part.result)):
            text += [f"### {twin.title} ({where})", "", table(twin)] if twin else []
        text += [f"### Legacy definitions ({where})", "", legacy.WRONG, ""]
        text += [*escape.fenced(legacy.text(part.legacy).rstrip()), ""]
    return text if len(text) > 2 else []
