"""Studies in parts: reading them, flags over them, what is refused, and their reports."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from savemark.errors import SavemarkError
from savemark.report import build, settings, show, summary
from savemark.report.analysis import analyse
from savemark.report.figures import all_figures
from savemark.report.verdict import decision
from savemark.study.keys import Keys
from savemark.study.load import load
from savemark.study.model import Missing, Study
from savemark.study.overrides import override
from savemark.study.plan import plan

STUDY = """\
name: mixed
title: What does each part do?
repeats: 3
checks: {HC-13: {seconds: 0}}
defaults: {storage: posix}
parts:
  names:
    trial: {workload: metadata, workers: 2, direct: false}
    factors: {items: [40, 80]}
  reads:
    trial: {workload: random, size: 1MiB, operations: 200}
    factors: {transfer_size: [4KiB, 16KiB]}
  writes:
    trial: {workload: sequential, size: 1MiB}
    factors: {workers: [1, 2]}
    exclude: [{workers: 2}]
"""


@pytest.fixture
def keys():
    return Keys.load()


@pytest.fixture
def read(tmp_path, keys):
    def read(text=STUDY):
        file = tmp_path / "mixed.yaml"
        file.write_text(text)
        return load(file, keys)

    return read


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A run of the study on two directories."""
    folder = tmp_path_factory.mktemp("parts")
    (folder / "mixed.yaml").write_text(STUDY)
    for name in ("a", "b"):
        (folder / name).mkdir()
    done = run(folder, "./mixed.yaml", "a=./a", "b=./b", "--out", "run")
    assert done.returncode == 0, done.stderr
    return folder / "run"


def run(folder, *words):
    return subprocess.run(
        [sys.executable, "-m", "savemark", "run", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def refused(call, *arguments):
    with pytest.raises(SavemarkError) as caught:
        call(*arguments)
    return f"{caught.value.message} | {caught.value.hint}"


def test_each_part_has_its_own_workload_factors_and_exclusions(read, keys):
    study = read()
    assert [cell["part"] for cell in study.cells()] == ["names"] * 2 + ["reads"] * 2 + ["writes"]
    trials = [entry.trial(study, keys) for entry in plan(replace(study, repeats=1), ["x"], 1)]
    assert {trial["workload"] for trial in trials} == {"metadata", "random", "sequential"}
    assert all("part" not in trial for trial in trials)
    assert {trial["items"] for trial in trials if "items" in trial} == {40, 80}


def test_a_study_in_parts_survives_its_run_folder(read):
    study = replace(read(), missing=[Missing({"part": "reads", "target": "x"}, "no", None, 2)])
    assert Study.from_json(json.loads(json.dumps(study.as_json()))) == study


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("items: [40", "itemz: [40"), ["mixed.yaml:9: parts.names.factors.itemz", "`items`"]),
        (("    factors: {items", "    factor: {items"), ["parts.names.factor", "`factors`"]),
        (("workload: random, ", ""), ["mixed.yaml:10: parts.reads", "`trial.workload`"]),
        (("{workers: 2}]", "{items: 2}]"), ["mixed.yaml:16: exclude.items", "known here: workers"]),
        (("parts:", "party:"), ["mixed.yaml:6", "`parts`"]),
    ],
)
def test_what_is_wrong_in_a_part_is_named(read, change, words):
    assert change[0] in STUDY
    message = refused(read, STUDY.replace(*change, 1))
    for word in words:
        assert word in message


def test_a_flag_reaches_the_parts_that_know_it(read, keys):
    study = override(read(), {"workers": "1,2,4", "payload": "zeros"}, keys)
    assert study.of("writes").factors["workers"] == [1, 2, 4]
    assert study.of("names").factors["workers"] == [1, 2, 4]
    assert study.of("names").factors["items"] == [40, 80]
    sized = override(read(), {"items": "8"}, keys)
    assert sized.of("names").factors["items"] == [8]
    assert "items" not in sized.of("writes").trial
    assert "no part of mixed has this option" in refused(override, read(), {"codec": "lz4"}, keys)


def test_auto_sizes_inside_parts_are_settled(read):
    study = read(STUDY.replace("size: 1MiB, operations", "size: auto, operations"))
    assert study.wants_size()
    sized = study.with_size(16 << 20)
    assert not sized.wants_size()
    assert sized.of("reads").trial["size"] == 16 << 20
    assert sized.of("writes").trial["size"] == 1 << 20


def test_what_is_missing_on_a_target_is_left_out_there_only(read):
    gap = Missing({"part": "reads", "transfer_size": 4096, "target": "a"}, "no such thing")
    study = replace(read(), missing=[gap], repeats=1)
    entries = plan(study, ["a", "b"], seed=1)
    reads = [(e.label, e.factors["transfer_size"]) for e in entries if e.name == "random"]
    assert sorted(reads) == [("a", 16384), ("b", 4096), ("b", 16384)]


def test_rates_of_work_that_is_counted_are_operations(measured):
    analysis = analyse(measured)
    cells = {c.setting: c for r in analysis.results for c in r.cells if r.label == "a"}
    names = cells["names, items 40"].phases
    assert [stat.unit for stat in names.values()] == ["op/s"] * 5
    stat = names["create"]
    assert stat.operations == 40
    assert stat.speed == pytest.approx(40 / stat.seconds.median)
    assert stat.speeds.low <= stat.speed <= stat.speeds.high
    assert cells["reads, transfer_size 4KiB"].phases["read"].unit == "IOPS"
    assert cells["writes, workers 1"].phases["write"].unit == "GB/s"
    reads = cells["reads, transfer_size 4KiB"].phases["read"]
    assert reads.latency_ns["p50"] <= reads.latency_ns["p99"] <= reads.latency_ns["p99_99"]


def test_every_part_has_a_table_with_its_own_columns(measured):
    found = {
        table.title: table for table in map(settings.table, settings.settings(analyse(measured)))
    }
    assert list(found)[:3] == [f"Every setting on a, {p}" for p in ("names", "reads", "writes")]
    assert found["Every setting on a, names"].columns[:5] == ["items", "", "n", "total s", "op/s"]
    assert found["Every setting on a, names"].columns[-1] == "CPU µs/op"
    assert "IOPS" in found["Every setting on b, reads"].columns
    assert "p99.99" in found["Every setting on b, reads"].columns
    assert "GB/s" in found["Every setting on b, writes"].columns
    for table in found.values():
        assert all(len(line.data) == len(table.columns) for line in table.lines)


def test_the_decision_is_a_sentence_per_part_in_the_order_of_the_study(measured):
    sentences = decision(analyse(measured))
    assert [text.split(":")[0] for text in sentences] == ["names", "reads", "writes"]
    assert "op/s" in sentences[0]
    assert "IOPS with transfer_size" in sentences[1]
    assert sentences[2].count("GB/s") == 2, "one for each target"
    assert "a write" in sentences[2]
    assert "; b write" in sentences[2]


def test_figures_draw_each_part_by_itself(measured):
    analysis = analyse(measured)
    figures = {figure.name: figure for figure in all_figures()}
    panels = figures["rates"].draw(analysis)
    titles = [panel.title for panel in panels]
    assert titles == ["names, a", "names, b", "reads · read", "writes · write"]
    for name in ("times", "grid_last", "pareto", "main_effects", "effects"):
        assert figures[name].absent(analysis), f"{name} would mix unlike work"
    lines = json.loads(json.dumps(panels[0].chart.to_dict()))
    assert "op/s" in json.dumps(lines)


def test_terminal_page_and_json_say_the_same(measured, capsys):
    from rich.console import Console

    page = build(measured).read_text()
    assert "Every setting on a, names" in page
    assert "CPU µs/op" in page
    show(measured, Console(width=120, highlight=False))
    shown = capsys.readouterr().out
    assert "op/s, IOPS: operations per second" in shown
    assert shown.index("names") < shown.index("reads")
    told = summary(measured)
    row = next(c for c in told["cells"] if c["setting"] == "names, items 80" and c["n"])
    assert row["create_operations"] == 80
    assert row["create_operations_per_s"] > 0
    assert row["create_latency_ns_p99_99"] >= row["create_latency_ns_p50"]
    markdown = (measured / "report.md").read_text()
    assert "## Every setting on a, names" in markdown
    assert "| names: items | 40, 80 |" in markdown


def test_work_of_unlike_amounts_is_ranked_by_its_pace(measured):
    analysis = analyse(measured)
    result = next(r for r in analysis.results if r.label == "a")
    names = analysis.apart(result)["names"]
    assert names.unlike, "40 items and 80 items"
    found = names.ranking("create")
    paces = {c.setting: c.paces["create"].median for c in names.cells}
    for setting, pace in paces.items():
        cell = next(c for c in names.cells if c.setting == setting)
        count = cell.phases["create"].operations
        assert pace == pytest.approx(cell.phases["create"].seconds.median / count)
    assert found.compared == 2


# What is refused before the run.

GONE = """\
name: gone
repeats: 2
defaults: {storage: posix}
trial: {workload: sequential, operation: read, size: 1MiB, transfer_size: 64KiB}
factors:
  direct: [true, false]
  workers: [1, 2]
"""


def refusing(monkeypatch, keys_refused):
    """The engine, refusing trials that have one of these options."""
    import savemark._engine as engine

    real = engine.Engine

    class Refusing:
        def __init__(self):
            self.own, self.tried = real(), []

        def run(self, text, progress=None):
            trial = json.loads(text)
            self.tried.append((trial, progress))
            for key, value in keys_refused.items():
                if trial.get(key) == value:
                    error = engine.EngineError(f"{key} {value} is not here")
                    error.kind, error.message = "refused", f"{key} {value} is not here"
                    error.hint = "buy one"
                    raise error
            return self.own.run(text, progress)

    made = []
    monkeypatch.setattr("savemark._engine.Engine", lambda: made.append(Refusing()) or made[-1])
    return made


def start(tmp_path, text, *places, **said):
    from savemark.cli._display import Display
    from savemark.run.request import Request
    from savemark.run.start import start
    from savemark.run.target import Target

    (tmp_path / "gone.yaml").write_text(text)
    targets = []
    for label in places or ("here",):
        (tmp_path / label).mkdir(exist_ok=True)
        targets.append(Target(label, tmp_path / label))
    request = Request(str(tmp_path / "gone.yaml"), targets, {}, out=tmp_path / "run", **said)
    return start(request, Display())


def test_a_level_that_is_refused_is_tried_once_left_out_and_reported(tmp_path, monkeypatch, capsys):
    made = refusing(monkeypatch, {"direct": True})
    outcome = start(tmp_path, GONE)
    assert (outcome.tally.ok, outcome.tally.failed) == (4, 0)
    tried = [trial for trial, progress in made[0].tried if progress is None and trial["direct"]]
    assert len([t for t in tried if t["workload"] == "sequential"]) == 1, "one small trial"
    assert "unavailable on here: direct True (2 settings left out)" in capsys.readouterr().err
    head = json.loads((tmp_path / "run" / "run.json").read_text())
    assert len(head["plan"]) == 4
    assert not head["asked"]["missing"]
    told = summary(tmp_path / "run")
    assert told["trials"]["unavailable"][0]["reason"] == "direct True is not here"
    assert "2 settings of the study cannot be measured here" in json.dumps(
        [f.evidence for f in analyse(tmp_path / "run").findings]
    )
    page = build(tmp_path / "run").read_text()
    assert "Unavailable here" in page
    assert "buy one" in page
    assert "Unavailable" not in page.split('id="checks"')[0], "no clutter above"


def test_a_target_that_refuses_everything_is_an_error_as_before(tmp_path, monkeypatch):
    refusing(monkeypatch, {"workload": "sequential"})
    assert "workload sequential is not here | buy one" in refused(start, tmp_path, GONE)
    assert not (tmp_path / "run").exists()
    assert not list((tmp_path / "here").iterdir())


def test_a_small_trial_keeps_its_kind(keys):
    from savemark.run.probe import small
    from savemark.study.keys import resolve

    timed = small(resolve({"workload": "random", "storage": "null", "size": 1 << 30}))
    assert timed["duration"] < 0.1
    assert timed["size"] == 1 << 20
    whole = {"workload": "sequential", "storage": "null", "size": 1 << 30, "workers": 64}
    assert small(resolve(whole))["duration"] is None, "a length stays a length"
    assert small(resolve(whole))["size"] == 64 << 20
    names = small(resolve({"workload": "metadata", "storage": "posix", "workers": 3}))
    assert names["items"] == 3
    state = {"workload": "checkpoint", "storage": "null", "state": "/a/model"}
    assert small(resolve(state))["state"] is None


# Budgets.

GRID = """\
name: grid
repeats: 4
order: listed
trial: {workload: sequential, operation: read, size: 1MiB, transfer_size: 64KiB, storage: posix}
factors: {queue_depth: [1, 2, 4, 8], workers: [1, 2, 3, 4]}
"""


def test_a_budget_below_one_round_takes_a_sample_of_the_settings(read, keys):
    from savemark.run.forecast import forecast
    from savemark.run.target import Target
    from savemark.study.cost import Rates

    study = replace(read(GRID), budget_s=0.5)
    rates = Rates(cores=2, storages={}, overhead_s=0.1)
    targets = [Target.at("x", "/tmp")]
    found = forecast(study, keys, targets, rates, hard_budget=True)
    assert found.study.most_trials == 4
    assert found.seconds == pytest.approx(0.4, rel=0.3)
    entries = plan(found.study, ["x"], seed=3)
    assert len(entries) == 4
    assert len({entry.factors["queue_depth"] for entry in entries}) > 1, "not the first in the list"
    soft = forecast(study, keys, targets, rates, hard_budget=False)
    assert (soft.study.most_trials, soft.over_budget) == (None, True)
    roomy = forecast(replace(study, budget_s=5.0), keys, targets, rates, hard_budget=True)
    assert (roomy.study.repeats, roomy.study.most_trials) == (3, None)


def test_a_budget_that_is_spent_ends_the_run_in_order_and_it_resumes(tmp_path, monkeypatch, capsys):
    import savemark.run.start as starting
    from savemark.cli._display import Display
    from savemark.run.request import Request
    from savemark.run.resume import resume

    monkeypatch.setattr(starting, "OVERTIME", 0.0)
    outcome = start(tmp_path, GRID, budget="60s")
    assert outcome.tally.ok == 0
    assert "the budget is spent; 0 of 64 trials are kept" in capsys.readouterr().err
    finished = resume(outcome.path, Request(None, [], {}), Display())
    assert finished.tally.ok == 64
    assert not list((tmp_path / "here").iterdir())
    lines = (outcome.path / "records.jsonl").read_text().splitlines()
    first = [json.loads(line) for line in lines[:16]]
    assert len({json.dumps(each["factors"]) for each in first}) == 16, "each before any twice"


def test_a_dry_run_says_how_long_a_large_grid_takes(tmp_path):
    (tmp_path / "grid.yaml").write_text(
        GRID.replace("[1, 2, 4, 8]", "[1, 2, 4, 8, 16, 32, 64]").replace("repeats: 4", "repeats: 9")
    )
    (tmp_path / "here").mkdir()
    done = run(tmp_path, "./grid.yaml", "./here", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "252 trials" not in done.stdout.splitlines()[0]
    assert "for 252 trials" in done.stdout
    assert not list((tmp_path / "here").iterdir())
    many = GRID.replace("[1, 2, 4, 8]", str(list(range(1, 15))))
    (tmp_path / "grid.yaml").write_text(many)
    done = run(tmp_path, "./grid.yaml", "./here", "--dry-run")
    assert "56 of queue_depth {1, 2, 3" in done.stdout, "many settings are not listed one by one"
