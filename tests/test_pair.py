"""Old and new measured in turns: what it finds, how seldom it is wrong, and the command for it."""

import itertools
import json
import math
import random
import subprocess
import sys

import pytest

from made_run import Made, make_run
from savemark.stats.cells import Key
from savemark.stats.pairs import Times
from savemark.stats.signed import shift, signed_rank
from savemark.stats.turns import in_turns, repeats_for


def test_the_p_is_that_of_all_choices_of_signs():
    rng = random.Random(1)
    for n in (1, 4, 8):
        values = [rng.gauss(0.3, 1) for _ in range(n)]
        values[0] = -values[-1] if n > 1 else values[0]  # a tie
        ranks = [
            sum(abs(y) < abs(x) for y in values) + (sum(abs(y) == abs(x) for y in values) + 1) / 2
            for x in values
        ]
        seen = sum(r for r, x in zip(ranks, values, strict=True) if x > 0)
        sums = [
            sum(r for r, up in zip(ranks, signs, strict=True) if up)
            for signs in itertools.product((False, True), repeat=n)
        ]
        assert signed_rank(values) == sum(s >= seen for s in sums) / 2**n
    assert signed_rank([0.0, 0.0]) == 1
    assert signed_rank([1.0] * 10) == 0.5**10


def test_the_shift_has_the_published_interval():
    # n = 10: the 9th smallest and largest of the 55 means, 95.2 % (Hollander & Wolfe, table A.4).
    values = [float(x * x) for x in range(10)]
    means = sorted((a + b) / 2 for a, b in itertools.combinations_with_replacement(values, 2))
    middle, low, high = shift(values, 0.95)
    assert (middle, low, high) == (means[27], means[8], means[-9])
    assert shift(values[:3], 0.95)[1:] == (0.0, 4.0)


def side(rng, shaken, *, loss=0.0, cells=8, within=0.05):
    """One target of a run: every repeat of it is shaken as that of the other target is."""
    return {
        Key("", str(i), "save"): Times(
            tuple(math.exp(s + rng.gauss(math.log1p(loss), within)) for s in shaken),
            1,
            tuple(range(len(shaken))),
        )
        for i in range(cells)
    }


def alarms(loss, cells, pairs=150):
    rng, found = random.Random(2), 0
    for _ in range(pairs):
        # Heavy-tailed shaking of each repeat, far larger than the loss.
        shaken = [0.2 * rng.gauss(0, 1) / max(abs(rng.gauss(0, 1)), 0.01) for _ in range(10)]
        old = side(rng, shaken, cells=cells)
        found += bool(in_turns(old, side(rng, shaken, loss=loss, cells=cells), 0.05).lost)
    return found / pairs


@pytest.mark.parametrize("cells", [1, 2, 8])
def test_noise_that_hits_both_sides_neither_alarms_nor_hides(cells):
    assert alarms(0.0, cells) <= 0.05
    assert alarms(0.1, cells) >= 0.9


def test_repeats_that_one_side_lacks_are_left_out():
    rng = random.Random(3)
    old, new = (side(rng, [0.0] * 10, cells=1) for _ in range(2))
    (key,) = old
    new[key] = Times(new[key].seconds[2:], 1, new[key].repeats[2:])
    assert in_turns(old, new, 0.05).repeats == 8
    assert in_turns(old, {}, 0.05).whole is None
    assert [repeats_for(cells) for cells in (1, 2, 8, 48)] == [5, 7, 9, 11]


def made(folder, **what):
    few = {"codecs": ("none", "zstd"), "streams": (4,), "repeats": 10}
    return make_run(folder, Made(**{**few, "targets": {"old": 1.0, "new": 1.0}, **what}))


def test_gate_judges_the_two_targets_of_a_run(run, tmp_path):
    code, out, err = run("gate", made(tmp_path / "equal"))
    assert (code, err) == (0, "")
    assert "new against old" in out
    assert "exact signed ranks of 10 repeats" in " ".join(out.split())
    slow = made(tmp_path / "slow", targets={"old": 1.0, "new": 0.88})
    code, out, _ = run("gate", slow, "--json")
    facts = json.loads(out)
    assert (code, facts["in_turns"], facts["all_cells"]["lost"]) == (3, True, True)
    assert all("label" in cell and cell["label"] == "" for cell in facts["cells"])
    assert run("gate", slow, "--max-regression", "30%")[0] == 0
    assert "❌" in run("gate", slow, "--markdown")[1]


def test_too_few_repeats_are_refused_or_said(run, tmp_path):
    code, _, err = run("gate", made(tmp_path / "few", repeats=3))
    assert code == 2
    assert "no test can succeed" in err
    code, out, _ = run("gate", made(tmp_path / "six", repeats=6))
    assert code == 0
    assert "--repeats 8 can" in " ".join(out.split())


def test_gate_without_baseline_wants_two_targets(run, tmp_path):
    code, _, err = run("gate", made(tmp_path / "one", targets={"here": 1.0}))
    assert code == 2
    assert "1 target and no --baseline" in err
    code, _, err = run("gate", made(tmp_path / "cold", warm=True, codecs=("none",), streams=(0,)))
    assert code == 0, "what a check forbids is left out, by name"


STUDY = """\
name: tiny
defaults: {storage: posix}
trial: {workload: checkpoint, size: 8MiB}
checks: {HC-13: {seconds: 0.0001, operations: 1}}
"""


def pair(folder, *words):
    (folder / "s.yaml").write_text(STUDY)
    for name in ("old", "new"):
        (folder / name).mkdir(exist_ok=True)
    command = [sys.executable, "-m", "savemark", "pair", "s.yaml", "old=old", "new=new", *words]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


def test_a_pair_is_measured_switched_and_judged(tmp_path):
    switch = 'echo "$SAVEMARK_SIDE $SAVEMARK_TARGET" >> log'
    words = ("--switch", switch, "--repeats", "6", "--max-regression", "99%")
    done = pair(tmp_path, *words, "--out", "run", "--json")
    assert done.returncode in (0, 3), done.stdout + done.stderr
    facts = json.loads(done.stdout)
    assert facts["in_turns"]
    assert (facts["new"]["name"], facts["baselines"][0]["name"]) == ("new", "old")
    lines = (tmp_path / "log").read_text().splitlines()
    assert set(lines) == {f"{name} {tmp_path / name}" for name in ("old", "new")}
    assert all(a != b for a, b in itertools.pairwise(lines)), "only when the side changes"
    assert (tmp_path / "run" / "report.html").is_file()
    assert not any((tmp_path / "old").iterdir())


def test_a_switch_that_fails_stops_the_run_and_says_why(tmp_path):
    done = pair(tmp_path, "--switch", "echo no such server >&2; exit 7")
    assert done.returncode == 1
    assert "ended with 7" in done.stderr
    assert "no such server" in done.stderr
    assert "SAVEMARK_SIDE=" in done.stderr
    assert not any((tmp_path / "old").iterdir())


def test_a_pair_is_two_targets(run, tmp_path):
    code, _, err = run("pair", f"a={tmp_path}")
    assert code == 2
    assert "a pair is two targets, not 1" in err
