"""What the report of a run holds, in its order; the formats only write it down."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import replace

from savemark.report import (
    additions,
    answers,
    expecting,
    facts,
    interval,
    io500,
    ranked,
    screened,
    settings,
)
from savemark.report.additions import Pictures
from savemark.report.analysis import Analysis
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
    Section,
    Table,
    Text,
    Verdict,
)
from savemark.report.figure import Drawn
from savemark.report.remedies import beside, caveats, messages
from savemark.report.speech import cost, spoken
from savemark.report.verdict import decision


def document(analysis: Analysis, drawn: list[Drawn]) -> Document:
    """Return the whole report; of the figures those that are drawn, and why others are not."""

    def pictures(section: str) -> tuple[Picture, ...]:
        return tuple(d.picture for d in drawn if d.figure.section == section and d.panels)

    own = additions.tables(analysis)
    verdict = replace(first_screen(analysis), pictures=pictures("answer"))
    sections = [
        Section("picture", "The picture", pictures("picture"), "every repeat of every setting"),
        _table(analysis),
        Section(
            "screened",
            "Screened",
            (*screened.tables(analysis),),
            "one or two short trials each, not compared",
        ),
        Section(
            "policies",
            "What durability costs",
            (*_of("policies", own), *pictures("policies")),
        ),
        Section("where", "Where the time goes", pictures("where")),
        _interval(analysis),
        Section(
            "distributions",
            "Distributions and timelines",
            (*ranked.tables(analysis), *pictures("distributions")),
        ),
        Section("effects", "What matters, and what it costs", pictures("effects")),
        _checks(analysis),
        _coverage(analysis, drawn, pictures),
        _study(analysis, own, pictures),
        _machine(analysis, own),
    ]
    if not verdict.pictures:
        # Nothing is seen at once: so the first look is at the figures and tables themselves.
        sections = [replace(s, open=s.name in ("picture", "table", "study")) for s in sections]
    return Document(
        analysis.title,
        analysis.run.study.title,
        analysis.when,
        (*expecting.tables(analysis),),
        verdict,
        tuple(section for section in sections if section.blocks),
    )


def first_screen(analysis: Analysis) -> Verdict:
    """The verdict without its picture; a score, or a study in parts, has sentences alone."""
    state, reason = answers.state(analysis)
    step = answers.next_step(analysis)
    return Verdict(
        state,
        reason,
        (*decision(analysis),),
        expecting.sentence(analysis),
        () if analysis.parts or io500.scored(analysis) else (*spoken(analysis),),
        caveats(messages(beside(analysis))),
        step,
        cost(step) if step else "",
        (),
    )


def _table(analysis: Analysis) -> Section:
    """The tables to sort and filter, and the ceilings."""
    scores = [replace(table, sortable=True) for table in io500.tables(analysis)]
    main = [settings.table(each) for each in settings.settings(analysis)]
    tops = [facts.ceilings_table(r) for r in analysis.results if r.ceilings]
    levels = {f.name: [f.shown(level) for level in f.levels] for f in analysis.own_factors}
    note = "every setting, the ceilings"
    return Section("table", "The table", (*scores, *main, *tops), note, filters=levels)


def _interval(analysis: Analysis) -> Section:
    found = interval.places(analysis)
    state, mtbf = interval.STATE_BYTES, interval.MTBF_S
    text = f"A state of {state / 1e9:g} GB on a job that fails every {mtbf / 3600:g} hours:"
    table = interval.table(found)
    block = Interval(text, table, tuple(found), state, mtbf, interval.RESTART_S)
    blocks = (block,) if found else ()
    return Section("interval-part", "Interval", blocks, "how often a job should save")


def _checks(analysis: Analysis) -> Section:
    validity = analysis.badge[1]
    block = Checks(validity, (*messages(beside(analysis)),), (*analysis.findings,))
    note = f"{len(analysis.findings)} checks, {len(analysis.fired)} with something to say"
    return Section("checks", "Is it true?", (block,), f"{note} · {validity}")


def _coverage(analysis: Analysis, drawn: list[Drawn], pictures: Pictures) -> Section:
    run = analysis.run
    tables = (
        facts.coverage_table(analysis),
        facts.missing_table(run),
        facts.failures_table(run),
        facts.design_table(run),
    )
    blocks: list[Block] = [*_known(tables), *pictures("coverage")]
    if absent := [f"{d.figure.title} ({d.why})" for d in drawn if not d.panels and not d.quiet]:
        blocks.append(Text(f"Not drawn: {'; '.join(absent)}.", quiet=True))
    if other := [f"{d.figure.title}: {d.why}." for d in drawn if d.elsewhere]:
        title = "Figures that do not apply to this run"
        blocks.append(Fold(title, (Lines(tuple(other)),), aside=True))
    note = "what ran, failed and is missing"
    return Section("coverage", "Coverage and design", tuple(blocks), note)


def _study(analysis: Analysis, own: list[Table], pictures: Pictures) -> Section:
    """What a shipped study says of this run, or of files that answer its question."""
    folds = additions.folds(analysis, pictures)
    title = "The original study" if folds or analysis.run.origin == "imported" else "Further tables"
    return Section("study", title, (*_of("study", own), *pictures("study"), *folds))


def _machine(analysis: Analysis, own: list[Table]) -> Section:
    run = analysis.run
    tables = (*_of("machine", own), facts.runs_table(run), facts.machine_table(run))
    blocks: tuple[Block, ...] = (
        Text("To repeat it:"),
        Code("Command", shlex.join(run.command), "sh"),
        *_known(tables),
        Links("Raw files, beside this page", _files(analysis)),
    )
    note = "the host, the raw files, the command that repeats the run"
    return Section("machine", "Machine", blocks, note)


def _of(section: str, tables: Iterable[Table]) -> list[Table]:
    return [table for table in tables if table.section == section]


def _known(tables: Iterable[Table | None]) -> list[Table]:
    return [table for table in tables if table is not None]


def _files(analysis: Analysis) -> tuple[tuple[str, str], ...]:
    folder = analysis.run.folder
    files = (
        ("run.json", "resolved study, host, versions, plan"),
        ("records.jsonl", "one line per trial"),
        ("timeline.parquet", "bytes per interval"),
        ("log.txt", "what happened"),
        ("tables/settings.csv", "the table above in base units"),
        ("tables/phases.csv", "one row per phase of each trial"),
        ("tables/ceilings.csv", "ceilings"),
        ("tables/checks.csv", "checks"),
        ("report.md", "this report as Markdown"),
    )
    return tuple(pair for pair in files if pair[0] == "report.md" or (folder / pair[0]).exists())
