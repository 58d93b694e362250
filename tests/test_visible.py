"""A number that a check forbids is in no rendering, and what is left of it is no advice."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from made_run import Made, make_run
from savemark import cli, report
from savemark.report.analysis import analyse

# Of each forbidden phase: a time that nothing else has, so that its digits can be looked for.
SECONDS = {"save": 0.777123456, "restore": 0.888123456}
SIZE = 2 * 2**30
FAST = ("none", 8)
SMALL = {"codecs": ("none", "zstd"), "streams": (0, 8), "repeats": 6}


def poisoned(folder: Path, phases: tuple[str, ...], study: dict | None = None, **more) -> Path:
    """A run in which phases of one setting last as long as SECONDS say, and are too short."""
    make_run(folder, Made(**SMALL, **more))
    head = json.loads((folder / "run.json").read_text())
    # Above all others of this run: only what is poisoned is too short.
    head["study"]["checks"] = {"HC-13": {"block_below": 0.9}}
    head["study"] |= study or {}
    (folder / "run.json").write_text(json.dumps(head))
    lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    for line in lines:
        factors = line["factors"]
        if line["role"] == "trial" and (factors["codec"], factors["streams"]) == FAST:
            for phase in line["record"]["phases"]:
                if phase["name"] in phases:
                    _poison(phase, SECONDS[phase["name"]])
        line["record"]["elapsed_ns"] = sum(p["elapsed_ns"] for p in line["record"]["phases"])
    (folder / "records.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


def _poison(phase: dict, seconds: float) -> None:
    """All times of a phase, and what is made of them, as one that nothing else has."""
    scale = seconds * 1e9 / phase["elapsed_ns"]

    def scaled(value: object) -> object:
        if isinstance(value, dict):
            return {k: round(v * scale) if _is_time(k, v) else scaled(v) for k, v in value.items()}
        return [scaled(each) for each in value] if isinstance(value, list) else value

    phase.update(scaled(phase))
    phase["stall_ns"] = round(seconds * 1e9)


def _is_time(name: str, value: object) -> bool:
    return name.endswith("_ns") and isinstance(value, int) and name != "started_unix_ns"


def told(seconds: float) -> list[str]:
    """The digits of a time and of its rates, as any rendering writes them."""
    rate = SIZE / seconds
    return [f"{seconds:.3f}", f"{rate / 1e9:.2f} ", f"{rate / 1e9:.2f}<", f"{rate / 1e6:.1f}",
            f"{rate / 2**30:.3f}", f"{round(rate)}", f"{round(seconds * 1e9)}"[:5]]  # fmt: skip


def evidence(folder: Path) -> list[str]:
    """What the check that forbids says itself: why it does."""
    return [f.message for f in analyse(folder).findings if f.blocks]


def without_evidence(text: str, folder: Path) -> str:
    from savemark import escape

    for said in evidence(folder):
        for form in (said, escape.html(said), escape.markdown(said), json.dumps(said)[1:-1]):
            text = text.replace(form, "")
    return text


PARTS = [("save",), ("restore",), ("save", "restore")]


@pytest.fixture(scope="module", params=PARTS, ids="+".join)
def run(request, tmp_path_factory) -> tuple[Path, Path, tuple[str, ...]]:
    place = tmp_path_factory.mktemp("visible")
    folder = poisoned(place / "run", request.param)
    other = poisoned(place / "other", request.param, seed=8)
    assert {f.id for f in analyse(folder).findings if f.blocks} == {"HC-13"}
    report.build(folder)
    return folder, other, request.param


def _shows(text: str, phases: tuple[str, ...]) -> list[str]:
    return [digits for name in phases for digits in told(SECONDS[name]) if digits in text]


def test_no_file_of_a_report_holds_a_forbidden_number(run):
    folder, _, phases = run
    files = [folder / "report.html", folder / "report.md"]
    files += [*(folder / "figures").glob("*.svg"), *(folder / "tables").glob("*")]
    assert len(files) > 10
    for file in files:
        text = without_evidence(file.read_text(), folder)
        if file.name == "checks.csv":
            text = "\n".join(line for line in text.splitlines() if "BLOCK" not in line)
        assert not _shows(text, phases), file.name


COMMANDS = {
    "report": ["report", "RUN"],
    "report-json": ["report", "--json", "RUN"],
    "advise": ["advise", "RUN"],
    "advise-json": ["advise", "--json", "RUN"],
    "advise-job": [
        "advise",
        "RUN",
        "--state-size",
        "1TB",
        "--mtbf",
        "3h",
        "--save-bandwidth=1GB/s",
    ],
    "compare": ["compare", "RUN", "OTHER"],
    "compare-json": ["compare", "--json", "RUN", "OTHER"],
    "compare-markdown": ["compare", "--markdown", "RUN", "OTHER"],
    "gate": ["gate", "RUN", "--baseline", "OTHER"],
    "gate-json": ["gate", "--json", "RUN", "--baseline", "OTHER"],
    "export-csv": ["export", "--format", "csv", "RUN"],
    "export-json": ["export", "--format", "json", "RUN"],
    "check": ["check", "RUN"],
    "check-json": ["check", "--json", "--all", "RUN"],
    "expect": ["report", "RUN", "--expect", "save.bandwidth >= 1 GiB/s"],
}


@pytest.mark.parametrize("name", list(COMMANDS))
def test_no_command_says_a_forbidden_number(name, run, capfdbinary, monkeypatch):
    folder, other, phases = run
    monkeypatch.setenv("COLUMNS", "200")
    words = [{"RUN": str(folder), "OTHER": str(other)}.get(w, w) for w in COMMANDS[name]]
    with pytest.raises(SystemExit):
        cli.main(words)
    sys.stdout.flush()
    out, err = (text.decode() for text in capfdbinary.readouterr())
    assert out or "no valid setting" in err or "nothing to compare" in err, err
    if name == "check":
        return  # what it prints is the evidence, folded into lines
    folded = " ".join(without_evidence(out, folder).split())
    if name.startswith(("report", "expect")) and "json" not in name:
        folded = folded[: folded.find("HC-13: ")] if "HC-13: " in folded else folded
    assert not _shows(folded, phases), out


def test_asked_for_they_are_shown(run):
    folder, _, phases = run
    data = report.summary(folder, show_blocked=True)
    cell = next(c for c in data["cells"] if (c["codec"], c["streams"]) == FAST)
    assert [cell[f"{name}_s_median"] for name in phases] == [
        pytest.approx(SECONDS[name]) for name in phases
    ]
    assert (
        next(c for c in report.summary(folder)["cells"] if c["setting"] == cell["setting"])[
            f"{phases[0]}_s_median"
        ]
        is None
    )


def test_what_is_left_of_the_fastest_is_no_advice(run):
    from savemark.advice.best import GOALS, best, trade_offs

    folder, _, phases = run
    found = analyse(folder)
    (result,) = found.results
    assert result.ranking("total") is None
    for name in ("save", "restore"):
        assert (result.ranking(name) is None) == (name in phases)
    assert [goal for goal in GOALS if best(result, goal) is None] == [
        goal for goal in GOALS
        if goal not in ("freeze", "restore") or {"freeze": "save"}.get(goal, goal) in phases
    ]  # fmt: skip
    assert trade_offs(result) == []
    text = (folder / "report.md").read_text()
    if len(phases) == 2:
        assert "none × 8 was the fastest seen, and HC-13 blocks it" in text
    assert "only setting measured" not in text


def test_a_slow_setting_that_is_forbidden_hinders_no_advice(tmp_path, monkeypatch):
    monkeypatch.setitem(SECONDS, "save", 77.7)
    folder = poisoned(tmp_path / "run", ("save",), {"checks": {"HC-13": {"block_below": 0}}})
    found = analyse(folder)
    result = found.results[0].block({("scratch", "none × 8", "save"): "HC-13"}).visible()
    assert result.ranking("total") is not None
    assert result.faster_blocked("total") == []


SAMPLES = sorted(path.name for path in (Path(__file__).parent / "data").iterdir() if path.is_dir())


@pytest.mark.parametrize("tool", SAMPLES)
def test_a_run_of_any_tool_can_be_forbidden_whole(tool, tmp_path, monkeypatch):
    """Every number of every sample forbidden: it is drawn and told without one of them."""
    from datetime import datetime
    from io import StringIO

    from rich.console import Console

    from savemark.checks import Finding, Verdict
    from savemark.cli.import_ import head
    from savemark.importing.gather import gather
    from savemark.records.assemble import write_folder
    from savemark.report import analysis as room
    from savemark.report.contents import document
    from savemark.report.figures import all_figures
    from savemark.report.html import html
    from savemark.report.markdown import markdown
    from savemark.report.terminal import show

    readings, _ = gather([str(Path(__file__).parent / "data" / tool)])
    folder = write_folder(readings, tmp_path / "run", head(datetime.now().astimezone()), [])

    def forbid_all(evidence):
        keys = {
            (result.label, cell.setting, phase): "HC-02"
            for result in evidence.results
            for cell in result.cells
            for phase in cell.phases
        }
        finding = Finding(Verdict.BLOCK, "so", blocks=tuple(keys), id="HC-02", title="All")
        return [finding], [result.block(keys) for result in evidence.results]

    monkeypatch.setattr(room, "run_checks", forbid_all)
    found = analyse(folder)
    assert not [cell for result in found.results for cell in result.cells if cell.phases]
    drawn = [
        panel for each in all_figures() if not each.absent(found) for panel in each.draw(found)
    ]
    charts = [json.dumps(panel.chart.to_dict(validate=False)) for panel in drawn]
    screen = Console(file=StringIO(), width=200)
    show(folder, screen)
    whole = document(found, [])
    texts = [html(whole), markdown(whole), screen.file.getvalue(), *charts]
    texts.append(json.dumps(report.summary(folder)))
    frame = analyse(folder, show_blocked=True).frame
    trials = frame.filter((frame["role"] == "trial") & (frame["elapsed_ns"] > 0))
    digits = {f"{ns / 1e9:.3f}" for ns in trials["elapsed_ns"]} | {
        f"{row['user_bytes'] / row['elapsed_ns']:.4g}"
        for row in trials.to_dicts()
        if row["user_bytes"]
    }
    # Short ones are anywhere: in versions, in dates.
    wanted = [each for each in digits if len(each.strip("0.")) >= 5]
    assert not [(each, place) for each in wanted for place, text in enumerate(texts)
                if f" {each}" in text or f">{each}" in text]  # fmt: skip
