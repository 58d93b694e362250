"""The report as Markdown: the same sentences and tables, figures by link."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from savemark.report import blocked, corrected, facts, legacy
from savemark.report.analysis import Analysis
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
    for table in blocked.tables(analysis):
        parts += ["", f"## {table.title}", "", table.markdown()]
    parts += ["## Figures", ""]
    for each in drawn:
        link = f"![{each.figure.title}](figures/{each.figure.name}.svg)"
        parts += [
            f"### {each.figure.title}",
            "",
            link if each.panels else f"Not drawn: {each.why}.",
        ]
        parts += ["", each.figure.caption, ""]
    parts += ["## Ceilings", ""]
    parts += [facts.ceilings_table(result).markdown() for result in analysis.results]
    parts += ["## Is it true?", ""]
    parts += [f"* **{f.id} {f.title}: {f.verdict.value}.** {f.message}" for f in analysis.findings]
    parts += ["", "## Coverage and design", "", facts.coverage_table(analysis).markdown()]
    if failures := facts.failures_table(run):
        parts += [failures.markdown()]
    parts += [facts.design_table(run).markdown(), *_studies(analysis)]
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
    parts = ["## The original study’s tables", ""]
    for result in analysis.results:
        data = legacy.of_result(result)
        if data is None:
            continue
        for table in (corrected.streams_table(result), corrected.codec_table(result)):
            parts += [f"### {table.title} ({result.label})", "", table.markdown()] if table else []
        parts += [f"### Legacy definitions ({result.label})", "", legacy.WRONG, ""]
        parts += ["```", legacy.text(data).rstrip(), "```", ""]
    return parts if len(parts) > 2 else []
