"""A report as Markdown: the same sentences and tables as the page, figures by link."""

from __future__ import annotations

from collections.abc import Iterable

from savemark import escape
from savemark.report.document import (
    Block,
    Checks,
    Code,
    Document,
    Fold,
    Interval,
    Lines,
    Links,
    Picture,
    Table,
    Text,
    Verdict,
)


def markdown(document: Document) -> str:
    """Return the whole text."""
    verdict = document.verdict
    text = [f"# {escape.markdown(document.title)}", ""]
    text += [f"{escape.markdown(document.when)} · **{verdict.state.value}**", ""]
    text += [*_verdict(verdict), ""]
    for each in document.expected:
        text += [f"## {escape.markdown(each.title)}", "", table(each)]
    text += _blocks(verdict.pictures)
    for section in document.sections:
        text += [f"## {escape.markdown(section.title)}", "", *_blocks(section.blocks)]
    return "\n".join(text)


def _verdict(verdict: Verdict) -> list[str]:
    text = [*(f"> {escape.markdown(sentence)}" for sentence in verdict.sentences), ""]
    if verdict.reason:
        text += [f"* **why** {escape.markdown(verdict.reason)}"]
    for answer in verdict.answers:
        # The sentence has the reason and where a codec pays.
        lines = [pair for pair in answer.lines if pair[0] not in ("why", "codec")]
        about = f"{answer.about}: " if answer.about else ""
        text += [f"* **{label}** {escape.markdown(about + words)}" for label, words in lines]
    if verdict.caveats:
        text += [f"* {escape.markdown(verdict.caveats)}"]
    if verdict.step:
        cost = f" ({verdict.cost})" if verdict.cost else ""
        text += ["", f"Next{cost}:", "", *escape.fenced(verdict.step.command, "sh")]
    return text


def _blocks(blocks: Iterable[Block]) -> list[str]:
    return [line for block in blocks for line in _block(block)]


def _block(block: Block) -> list[str]:  # noqa: PLR0911 - one for each kind
    match block:
        case Table():
            return [f"### {escape.markdown(block.title)}", "", table(block)]
        case Picture():
            links = [f"![{block.title}](figures/{name}.svg)" for name in block.files]
            return [f"### {block.title}", "", *links, "", block.caption, ""]
        case Text():
            return [escape.markdown(block.text), ""]
        case Lines():
            return [*bullets(block.texts), ""]
        case Code():
            return [*escape.fenced(block.text.rstrip(), block.language), ""]
        case Links():
            files = [f"* [{name}]({name}): {escape.markdown(what)}" for name, what in block.files]
            return [f"{block.text}:", "", *files, ""]
        case Checks():
            return _checks(block)
        case Interval():
            return [block.text, "", table(block.table)]
        case Fold():
            heading = [f"### {escape.markdown(block.title)}", ""]
            return [] if block.aside else [*heading, *_blocks(block.blocks)]


def _checks(block: Checks) -> list[str]:
    messages = [f"* {', '.join(m.ids)}: {escape.markdown(m.text)}" for m in block.messages]
    findings = [
        f"* **{f.id} {f.title}: {f.verdict.value}.** {escape.markdown(f.message)}"
        for f in block.findings
    ]
    validity = f"Validity: {escape.markdown(block.validity)}. Every check:"
    return [*messages, "", validity, "", *findings, ""]


def bullets(texts: Iterable[str]) -> list[str]:
    """A list."""
    return [f"* {escape.markdown(text)}" for text in texts]


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
