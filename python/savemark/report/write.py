"""Everything that a run folder gets when it is reported."""

from __future__ import annotations

from pathlib import Path

from savemark import escape
from savemark.records import Run, export, write_timelines
from savemark.report import blocked, io500, legacy, render, settings
from savemark.report.analysis import Analysis, analyse
from savemark.report.facts import ceiling_list
from savemark.report.figure import Drawn, Figure
from savemark.report.figures import all_figures
from savemark.report.markdown import markdown
from savemark.report.page import page
from savemark.report.pixels import Pixels
from savemark.report.study import parts
from savemark.report.table import write_csv


def write(source: Path | Run, *, show_blocked: bool = False) -> Path:
    """Write the page last, so that its links to tables and figures are never ahead of them."""
    analysis = analyse(source, show_blocked=show_blocked)
    run_dir = analysis.run.folder
    run_dir.mkdir(parents=True, exist_ok=True)
    write_timelines(analysis.run)
    io500.write(analysis)
    with Pixels() as pixels:
        drawn = _figures(analysis, run_dir / "figures", pixels)
        _tables(analysis, run_dir / "tables")
        (run_dir / "report.md").write_text(markdown(analysis, drawn), encoding="utf-8")
        part = run_dir / "report.html.part"
        part.write_text(page(analysis, drawn), encoding="utf-8")
    path = run_dir / "report.html"
    part.replace(path)
    return path


def _figures(analysis: Analysis, folder: Path, pixels: Pixels) -> list[Drawn]:
    folder.mkdir(exist_ok=True)
    return [_figure(analysis, figure, folder, pixels) for figure in all_figures()]


def _figure(analysis: Analysis, figure: Figure, folder: Path, pixels: Pixels) -> Drawn:
    if other := figure.applies(analysis):
        return Drawn(figure, [], [], other, quiet=True)
    why = figure.absent(analysis)
    panels = [] if why else figure.draw(analysis)
    if not panels:
        return Drawn(figure, [], [], why or "no finished trial has what it shows")
    drawings = [render.draw(panel, f"{figure.name}{i}") for i, panel in enumerate(panels)]
    files = {figure.name: drawings}
    if figure.apart:
        files = {f"{figure.name}_{safe(each.title)}": [each] for each in drawings}
    for name, panel_set in files.items():
        file = folder / f"{name}.svg"
        file.write_text(render.alone(panel_set, figure.columns), encoding="utf-8")
        pixels.add(file)
    return Drawn(figure, [(d.title, render.inline(d)) for d in drawings], list(files), None)


def _tables(analysis: Analysis, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    with (folder / "phases.csv").open("wb") as file:
        export.write_csv(blocked.phases(analysis), file)
    write_csv(folder / "settings.csv", settings.rows(analysis))
    write_csv(folder / "ceilings.csv", [
        {"target": result.label, "name": c.name, "phase": c.phase, "n": c.seconds.n}
        | {"s_median": c.seconds.median, "bytes_per_s": c.rate, "operations_per_s": c.iops}
        | {"sync_ns": c.sync_ns, "ratio": c.ratio}
        for result in analysis.results
        for c in ceiling_list(result)
    ])  # fmt: skip
    write_csv(folder / "checks.csv", [
        {"id": f.id, "title": f.title, "verdict": f.verdict.value, "evidence": f.evidence}
        | {"cause": f.cause, "fix": f.fix}
        for f in analysis.findings
    ])  # fmt: skip
    for part in parts(analysis):
        name = f"legacy_{safe(part.title)}.txt"
        text = escape.printable(legacy.text(part.legacy))
        (folder / name).write_text(text, encoding="utf-8")


def safe(label: str) -> str:
    """A label as part of a file name."""
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in label).strip(".") or "target"
