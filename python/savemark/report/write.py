"""Everything that a run folder gets when it is reported."""

from __future__ import annotations

from pathlib import Path

from savemark import files
from savemark.errors import refused
from savemark.records import Run, export, write_timelines
from savemark.report import additions, blocked, contents, io500, render, settings
from savemark.report.analysis import Analysis, analyse
from savemark.report.csv import write_csv
from savemark.report.facts import ceiling_list
from savemark.report.figure import Drawn, Figure
from savemark.report.figures import all_figures
from savemark.report.html import html
from savemark.report.markdown import markdown
from savemark.report.pixels import Pixels

# The formats of the whole document; the page is the last to be replaced.
FORMATS = {"report.md": markdown, "report.html": html}
# How a page of ours begins.
MARKER, HEAD = b'<meta name="generator" content="savemark">', 4096


def write(source: Path | Run, *, show_blocked: bool = False) -> Path:
    """Write the page last, so that its links to tables and figures are never ahead of them."""
    analysis = analyse(source, show_blocked=show_blocked)
    run_dir = analysis.run.folder
    run_dir.mkdir(parents=True, exist_ok=True)
    path = run_dir / "report.html"
    _refuse_foreign(path)
    write_timelines(analysis.run)
    io500.write(analysis)
    with Pixels() as pixels:
        drawn = _figures(analysis, run_dir / "figures", pixels)
        _tables(analysis, run_dir / "tables")
        document = contents.document(analysis, drawn)
        texts = {name: write(document) for name, write in FORMATS.items()}
    for name, text in texts.items():
        files.write_text(run_dir / name, text)
    return path


def _refuse_foreign(page: Path) -> None:
    """Replace a page of ours only: its head says who made it."""
    if page.is_symlink() or not page.exists():
        return
    with page.open("rb") as file:
        if MARKER not in file.read(HEAD):
            raise refused(
                f"{page} was not made by savemark, and would be replaced",
                "move it away, or report into another folder",
            )


def _figures(analysis: Analysis, folder: Path, pixels: Pixels) -> list[Drawn]:
    files.folder(folder)
    return [_figure(analysis, figure, folder, pixels) for figure in all_figures()]


def _figure(analysis: Analysis, figure: Figure, folder: Path, pixels: Pixels) -> Drawn:
    if other := figure.why_not(analysis):
        return Drawn(figure, [], [], other, quiet=True)
    why = figure.absent(analysis)
    panels = [] if why else figure.draw(analysis)
    if not panels:
        return Drawn(figure, [], [], why or "no finished trial has what it shows")
    drawings = [render.draw(panel, f"{figure.name}{i}") for i, panel in enumerate(panels)]
    named = {figure.name: drawings}
    if figure.apart:
        named = {f"{figure.name}_{files.safe(each.title)}": [each] for each in drawings}
    for name, panel_set in named.items():
        file = folder / f"{name}.svg"
        files.write_text(file, render.alone(panel_set, figure.columns))
        pixels.add(file)
    return Drawn(figure, [(d.title, render.inline(d)) for d in drawings], list(named), None)


def _tables(analysis: Analysis, folder: Path) -> None:
    files.folder(folder)
    with files.replacing(folder / "phases.csv") as file:
        export.write_csv(blocked.phases(analysis), file)
    write_csv(folder / "settings.csv", settings.records(analysis))
    write_csv(folder / "ceilings.csv", [
        {"target": result.label, "name": c.name, "phase": c.phase, "n": c.seconds.n}
        | {"s_median": c.seconds.median, "bytes_per_s": c.rate}
        | {"bytes_per_s_low": c.rates.low, "bytes_per_s_high": c.rates.high}
        | {"operations_per_s": c.iops, "sync_ns": c.sync_ns, "ratio": c.ratio}
        for result in analysis.results
        for c in ceiling_list(result)
    ])  # fmt: skip
    write_csv(folder / "checks.csv", [
        {"id": f.id, "title": f.title, "verdict": f.verdict.value, "evidence": f.evidence}
        | {"cause": f.cause, "fix": f.fix}
        for f in analysis.findings
    ])  # fmt: skip
    for name, text in additions.files(analysis).items():
        files.write_text(folder / name, text)
