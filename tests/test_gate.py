"""`savemark gate`: what it finds, how seldom it is wrong, and its exit codes."""

import json
import math
import random

import pytest

from made_race import FINALISTS, Race, make_race
from made_run import Made, make_run
from savemark.cli import main
from savemark.stats.cells import Key
from savemark.stats.gate import gate
from savemark.stats.pairs import Times

FEW = {"codecs": ("none", "zstd"), "streams": (4,)}


def a_run(rng, *, loss=0.0, shared=False, noise=0.02, cells=8, repeats=10):
    """Log-normal times: 3 to 5 % within a run, `noise` between runs, of each cell or of all."""
    hour, times = rng.gauss(0, noise), {}
    for i in range(cells):
        level = math.log1p(loss) + (hour if shared else rng.gauss(0, noise))
        sigma = 0.03 + 0.02 * i / cells
        seconds = tuple(math.exp(level + rng.gauss(0, sigma)) for _ in range(repeats))
        times[Key("", str(i), "save")] = Times(seconds, 1)
    return times


def alarms(*, baselines, loss=0.0, pairs=200, seed=1, **what):
    rng, found = random.Random(seed), 0
    for _ in range(pairs):
        old = [a_run(rng, **what) for _ in range(baselines)]
        found += bool(gate(a_run(rng, loss=loss, **what), old, 0.05).lost)
    return found / pairs


@pytest.mark.parametrize("baselines", [1, 3, 5])
@pytest.mark.parametrize("shared", [False, True])
def test_equal_runs_raise_no_alarm(baselines, shared):
    assert alarms(baselines=baselines, shared=shared) <= 0.05


def test_a_loss_of_a_tenth_is_found():
    assert alarms(baselines=5, loss=0.1) >= 0.9
    assert alarms(baselines=5, loss=0.1, shared=True, seed=3) >= 0.9
    assert alarms(baselines=1, loss=0.1) >= 0.9


def test_baselines_teach_the_gate_a_noisy_machine():
    noisy = {"noise": 0.06, "shared": True}
    assert alarms(baselines=10, pairs=100, **noisy) <= 0.06
    assert alarms(baselines=1, pairs=100, **noisy) > 0.05, "one run cannot know, and says so"


def test_one_baseline_supposes_what_the_blocks_of_both_runs_show():
    rng, six = random.Random(8), ("a", "b", "c", "d", "e", "f")

    def run(shifts, loss=0.0):
        each = [math.log1p(loss) + shift for shift in shifts]
        return {
            Key("", name, "save"): Times(tuple(math.exp(x + rng.gauss(0, 0.01)) for x in each), 1)
            for name in six
        }

    quiet = [0.01, -0.01, 0.0, 0.01, 0.0, -0.01]
    assert gate(run(quiet, 0.1), [run(quiet)], 0.05).noise == 0.02
    assert gate(run(quiet, 0.1), [run(quiet)], 0.05).lost
    # Half of the new run is 20 % slower in all settings: that may be the hour, and not the change.
    moved = gate(run([0.0, 0.0, 0.01, 0.2, 0.19, 0.2]), [run(quiet)], 0.05)
    assert moved.noise > 0.02
    assert not moved.lost
    burst = gate(run([0.0, 0.01, 0.5, 0.0, -0.01, 0.0]), [run(quiet)], 0.05)
    assert burst.noise == 0.02, "a burst in one block moves no median"


def test_a_loss_within_the_limit_passes_however_certain():
    rng = random.Random(5)
    quiet = {"noise": 0.001, "cells": 4, "repeats": 40}
    old = [a_run(rng, **quiet) for _ in range(8)]
    judged = gate(a_run(rng, loss=0.03, **quiet), old, 0.05)
    assert all(cell.p_adjusted < 0.05 for cell in judged.cells)
    assert not judged.lost
    assert gate(a_run(rng, loss=0.07, **quiet), old, 0.05).lost


def test_a_single_cell_stands_out_and_the_interval_holds_it():
    rng = random.Random(6)
    old = [a_run(rng) for _ in range(6)]
    new = a_run(rng)
    key = next(iter(new))
    new[key] = Times(tuple(1.25 * s for s in new[key].seconds), 1)
    judged = gate(new, old, 0.05)
    assert [cell.key for cell in judged.lost] == [key]
    worst = judged.lost[0]
    assert worst.low < 0.25 < worst.high
    assert worst.loss == pytest.approx(0.25, abs=0.06)
    assert 0.05 < worst.findable < 0.2


def test_order_units_and_sizes_do_not_matter():
    rng = random.Random(7)
    old, new = [a_run(rng) for _ in range(3)], a_run(rng, loss=0.1)

    def scaled(run, factor, size):
        return {k: Times(tuple(factor * s for s in t.seconds), size) for k, t in run.items()}

    found = gate(new, old, 0.05)
    again = gate(scaled(new, 60, 1), [scaled(each, 60, 1) for each in old[::-1]], 0.05)
    doubled = gate(new, [scaled(each, 2, 2) for each in old], 0.05)
    for a, b, c in zip(found.cells, again.cells, doubled.cells, strict=True):
        assert a.p == pytest.approx(b.p)
        assert a.p == pytest.approx(c.p)


def test_runs_without_any_spread_are_judged_by_the_supposed_noise():
    old = [{Key("", "x", "save"): Times((1.0, 1.0), 1)}]
    assert not gate({Key("", "x", "save"): Times((1.04, 1.04), 1)}, old, 0.05).lost
    assert gate({Key("", "x", "save"): Times((1.2, 1.2), 1)}, old, 0.05).lost


def test_noise_that_all_cells_share_does_not_hide_one_cell():
    rng, found = random.Random(8), 0
    for _ in range(50):
        old = [a_run(rng, shared=True, noise=0.05) for _ in range(5)]
        new = a_run(rng, shared=True, noise=0.05)
        key = list(new)[3]
        new[key] = Times(tuple(1.25 * s for s in new[key].seconds), 1)
        found += key in [cell.key for cell in gate(new, old, 0.05).lost]
    assert found >= 45


def test_a_gain_elsewhere_is_no_loss_here():
    rng = random.Random(9)
    old, new = [a_run(rng, noise=0.002) for _ in range(5)], a_run(rng, noise=0.002)
    quick = {k: Times(tuple(0.7 * s for s in t.seconds), 1) for k, t in new.items()}
    kept = next(iter(new))
    assert not gate({**quick, kept: new[kept]}, old, 0.05).lost


def test_the_gate_knows_how_little_it_can_find():
    rng = random.Random(10)

    def whole(baselines, noise):
        old = [a_run(rng, shared=True, noise=noise) for _ in range(baselines)]
        found = gate(a_run(rng, shared=True, noise=noise), old, 0.05).whole
        return found.found, found.needed

    assert whole(1, 0.02) == (pytest.approx(0.9, abs=0.04), pytest.approx(1, abs=1))
    chance, needed = whole(10, 0.08)
    assert chance < 0.6
    assert needed is None, "no number of baselines is enough"
    chance, needed = whole(5, 0.01)
    assert chance > 0.95
    assert needed <= 4


@pytest.fixture
def made(tmp_path):
    def make(name, **what):
        return make_run(tmp_path / name, Made(**{**FEW, "repeats": 10, **what}))

    return make


@pytest.fixture
def run(capsys):
    def run(*words):
        with pytest.raises(SystemExit) as ended:
            main(["gate", *(str(word) for word in words)])
        found = capsys.readouterr()
        return ended.value.code, found.out, found.err

    return run


@pytest.fixture
def base(made):
    """A directory of three baseline runs."""
    for seed in range(3):
        one = made(f"base/{seed}", seed=seed)
    return one.parent


def test_an_equal_run_passes(made, base, run):
    code, out, err = run(made("new", seed=20), "--baseline", base)
    assert (code, err) == (0, "")
    assert "no loss above 5 % in 4 cells" in out
    assert "3 baseline runs; noise between runs" in " ".join(out.split())
    assert "(measured)" in out


def test_a_slow_run_fails_with_3_and_says_where(made, base, run):
    slow = made("slow", seed=21, targets={"scratch": 0.8})
    code, out, _ = run(slow, "--baseline", base, "--max-regression", "0.05")
    assert code == 3
    assert "lost more than 5 %" in out
    code, text, _ = run(slow, "--baseline", base, "--markdown")
    assert code == 3
    assert text.startswith("### ❌ savemark gate: ")
    assert text.index("| lost |") < text.index("<details>")
    code, out, _ = run(slow, "--baseline", base, "--json")
    facts = json.loads(out)
    assert (code, facts["lost"], facts["noise_measured"]) == (3, True, True)
    worst = max(facts["cells"], key=lambda cell: cell["loss"])
    assert worst["lost"]
    assert worst["loss"] == pytest.approx(0.25, abs=0.03)
    assert run(slow, "--baseline", base, "--max-regression", "40%")[0] == 0


def test_one_baseline_says_what_it_does_not_know(made, base, run):
    code, out, _ = run(made("new", seed=22), "--baseline", base / "0")
    assert code == 0
    assert "2 % is assumed" in " ".join(out.split())
    assert "found reliably only from" in out
    text = run(made("new2", seed=22), "--baseline", base / "0", "--markdown")[1]
    assert text.startswith("### ✅")
    assert "<details open>" in text


def test_a_run_that_lost_cells_does_not_pass(made, base, run):
    broken = made("broken", seed=23, fail=("zstd", 4))
    code, out, _ = run(broken, "--baseline", base)
    assert code == 1
    assert "2 could not be judged" in out
    assert "zstd × 4 · save (every repeat failed)" in " ".join(out.split())
    assert run(broken, "--baseline", base, "--markdown")[1].startswith("### ⚠️")
    more = made("more", seed=24, codecs=("none", "zstd", "lz4"))
    code, out, _ = run(more, "--baseline", base)
    assert code == 0
    assert "not in every baseline: lz4 × 4 · save" in " ".join(out.split())


def test_a_race_need_not_confirm_what_it_found_too_slow(tmp_path, run):
    few = tuple(each for each in FINALISTS if each != ("lz4", 4))
    base = make_race(tmp_path / "base", Race(seed=1))
    code, out, _ = run(make_race(tmp_path / "new", Race(seed=2, finalists=few)), "--baseline", base)
    assert code == 0, out
    assert "too slow in the new run to be measured again: lz4 × 4 (" in " ".join(out.split())
    # A setting that failed in its short trial is no slow one.
    failed = make_race(tmp_path / "failed", Race(seed=3, finalists=few))
    head = json.loads((failed / "run.json").read_text())
    for each in head["race"]["screened"]:
        if each["factors"] == {"codec": "lz4", "streams": 4}:
            del each["seconds"]
    (failed / "run.json").write_text(json.dumps(head))
    code, out, _ = run(failed, "--baseline", base)
    assert (code, "2 could not be judged" in out) == (1, True)


def test_other_work_is_refused_unless_asked_for(made, base, run):
    small = made("small", seed=25, size=2**30)
    code, out, err = run(small, "--baseline", base)
    assert (code, out) == (2, "")
    assert f"size was {2**31}, is {2**30}" in err
    assert "--allow-different" in err
    assert run(small, "--baseline", base, "--allow-different")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{new}"], "--baseline"),
        (["{new}", "--baseline", "{new}"], "also a baseline"),
        (["{new}", "--baseline", "{empty}"], "holds no run folder"),
        (["{new}", "--baseline", "/nowhere"], "not a run folder"),
        (["{new}", "--baseline", "{other}", "--allow-different"], "shares no cell"),
        (["{once}", "--baseline", "{once2}"], "shows no noise"),
        (["{new}", "--baseline", "{base}", "--max-regression", "5x"], "`5x` is not a share"),
        (["{new}", "--baseline", "{base}", "--max-regression", "120%"], "is not a share"),
        (["{new}", "--baseline", "{base}", "--json", "--markdown"], "exclude each other"),
    ],
)
def test_wrong_questions_are_usage_errors(made, base, run, tmp_path, words, message):
    (tmp_path / "nothing").mkdir()
    places = {
        "new": made("new", seed=30),
        "base": base,
        "empty": tmp_path / "nothing",
        "other": made("other", codecs=("gzip",)),
        "once": made("once", repeats=1, seed=31),
        "once2": made("once2", repeats=1, seed=32),
    }
    code, out, err = run(*(word.format(**places) for word in words))
    assert code == 2
    assert message in (err or out)


def test_the_example_of_a_pipeline_is_one_that_works():
    from pathlib import Path

    from ruamel.yaml import YAML

    from savemark.cli.gate import command

    file = Path(__file__).parent.parent / "docs" / "examples" / "gate.yml"
    steps = YAML(typ="safe").load(file.read_text())["jobs"]["gate"]["steps"]
    (script,) = [step["run"] for step in steps if "savemark gate" in step.get("run", "")]
    flags = {word for word in script.split() if word.startswith("--")}
    assert flags <= {name for option in command.params for name in option.opts}
    assert "|| code=$?" in script, "the verdict is kept before the step fails"
    assert "exit $code" in script
