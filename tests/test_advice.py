"""Both tables of the interval planner, its formulas against a simulation, the best settings."""

import json
import math
import re

import pytest

from made_run import Made, make_run
from savemark.advice import interval, pareto
from savemark.advice.best import GOALS, best, costs, trade_offs
from savemark.advice.plan import Job, asynchronous, choices, needed
from savemark.advice.simulate import simulate, simulate_asynchronous
from savemark.cli import main

HOUR = 3600.0
# Parameters of the two models as published; 14 bytes each are their 0.99 and 5.68 TB.
M70, M405 = 70.55e9 * interval.MIXED_ADAM, 405.85e9 * interval.MIXED_ADAM


@pytest.mark.parametrize(
    ("state", "gpus", "hours", "blocking", "behind"),
    [
        (M70, 16_384, 3.05, (1798, 72), (13.5, 2.7)),
        (M405, 16_384, 3.05, (10_344, 414), (78, 15.5)),
        (M405, 100_000, 0.50, (63_132, 2525), (474, 95)),
    ],
)
def test_the_table_of_needed_bandwidth(state, gpus, hours, blocking, behind):
    m = interval.job_mtbf(50_000 * HOUR, gpus)
    assert round(m / HOUR, 2) == hours
    for overhead, one, other in zip((0.01, 0.05), blocking, behind, strict=True):
        assert interval.needed_bandwidth(state, m, overhead) / 1e9 == pytest.approx(one, abs=0.5)
        shown = interval.needed_bandwidth_asynchronous(state, m, overhead) / 1e9
        assert shown == pytest.approx(other, abs=0.51 if other > 20 else 0.05)
    listed = {(n.gpus, n.overhead): n for n in needed(state, 50_000 * HOUR)}
    assert listed[gpus, 0.05].blocking / 1e9 == pytest.approx(blocking[1], abs=0.5)
    assert {gpus for gpus, _ in listed} == {1024, 16_384, 100_000}


@pytest.mark.parametrize(
    ("job", "young", "daly", "exact", "simulated"),
    [
        ((60, 11_124, 300), 1155, 1116, 0.8758, 0.8761),
        ((600, 11_124, 300), 3654, 3265, 0.6877, 0.6880),
        ((30, 1800, 120), 329, 309, 0.7749, 0.7749),
        ((120, 1800, 300), 657, 580, 0.5738, 0.5747),
    ],
)
def test_the_table_of_the_simulation_check(job, young, daly, exact, simulated):
    d, m, r = job
    assert round(interval.young(d, m)) == young
    assert round(interval.daly(d, m)) == daly
    tau = interval.daly(d, m)
    assert round(interval.goodput(tau, d, m, r), 4) == exact
    assert simulate(tau, d, m, r) == pytest.approx(exact, abs=0.001)
    assert simulated == pytest.approx(exact, abs=0.001)


def test_published_failure_rate_and_sizes():
    assert interval.job_mtbf(interval.GPU_MTBF_S, 16_384) / HOUR == pytest.approx(3.09, abs=0.01)
    assert round(M405 / 1e12, 2) == 5.68
    assert (interval.NO_MASTER, interval.ADAM_8BIT, interval.WEIGHTS_ONLY) == (10, 8, 2)


@pytest.mark.parametrize(("d", "m"), [(1, 10_000), (60, 11_124), (600, 1800), (3000, 1800)])
def test_the_optimal_interval_is_the_top_of_the_exact_goodput(d, m):
    tau = interval.optimal(d, m)
    top = interval.goodput(tau, d, m, 300)
    for factor in (0.9, 0.99, 1.01, 1.1):
        assert interval.goodput(tau * factor, d, m, 300) < top
    # It does not depend on the restart, and Daly's is close to it while d < 2M.
    assert interval.goodput(tau, d, m, 0) >= interval.goodput(1.05 * tau, d, m, 0)
    assert interval.daly(d, m) == pytest.approx(tau, rel=0.02 if d < m else 0.05)


def test_formulas_outside_their_range():
    assert interval.daly(4000, 1800) == 1800
    assert interval.goodput(1e9, 60, 60, 300) == 0
    assert interval.two_tiers(2, 60, 10_000, 0.9) == (
        pytest.approx(math.sqrt(2 * 2 * 10_000 / 0.9)),
        pytest.approx(math.sqrt(2 * 60 * 10_000 / 0.1)),
    )
    assert interval.asynchronous(0, 60, 10_000) == 60
    assert interval.asynchronous(2, 60, 10_000) == 200


@pytest.mark.parametrize(
    ("m", "s", "w", "tau", "r"),
    [(11_124, 2, 60, 211, 300), (11_124, 0, 600, 600, 300), (1800, 5, 30, 134, 120)],
)
def test_asynchronous_goodput_against_a_simulation(m, s, w, tau, r):
    played = simulate_asynchronous((tau, s, w), m, r)
    assert interval.goodput_asynchronous(tau, s, w, m, r) == pytest.approx(played, abs=0.002)
    first_order = 1 - interval.asynchronous_overhead(tau, s, w, m, r)
    assert first_order <= played + 0.001, "the short form is pessimistic"
    assert first_order == pytest.approx(played, abs=0.02)


def test_a_simulation_is_repeatable_and_depends_on_its_seed():
    times = (300, 30, 1800, 120)
    assert simulate(*times, segments=2000) == simulate(*times, segments=2000)
    assert simulate(*times, segments=2000) != simulate(*times, segments=2000, seed=2)
    hopeless = Job(state=1e15, save_rate=1e9, restore_rate=1e9, mtbf=60)
    assert hopeless.simulated(100) is None


def test_the_front_and_the_point_nearest_to_the_ideal():
    points = [(1, 9), (2, 2), (9, 1), (3, 3), (2, 2)]
    assert pareto.front(points) == [0, 1, 2, 4]
    assert pareto.nearest_to_ideal(points) == 1
    assert pareto.nearest_to_ideal([(1e9 * x, y) for x, y in points]) == 1, "units do not matter"
    # One in a hundred is no trade-off, but a lone point is always on the front.
    assert pareto.front([(1.0, 5.0), (1.01, 4.0)], same=0.02) == [1]
    assert pareto.front([(1.0, 5.0)], same=0.02) == [0]
    assert pareto.front([]) == pareto.front([], same=0.02) == []
    # Near ties may dominate each other in a circle; then none of them counts as one.
    circle = [(1.0, 1.02, 1.04), (1.04, 1.0, 1.02), (1.02, 1.04, 1.0)]
    assert pareto.front(circle, same=0.025) == [0, 1, 2]


def test_times_without_bytes_are_shown_as_times(capsys, tmp_path):
    folder = make_run(tmp_path / "run", Made(codecs=("none", "lz4"), streams=(0, 4)))
    file = folder / "records.jsonl"
    file.write_text(re.sub(r'"(user|stored)_bytes": \d+', r'"\1_bytes": null', file.read_text()))
    code, out, _ = run(capsys, "advise", folder, "--goal", "freeze")
    assert code == 0
    assert re.search(r"freeze lz4 × 4 +1\.\d+ s", out)
    assert "no valid setting has" in run(capsys, "advise", folder, "--goal", "balanced")[1]


@pytest.fixture
def analysis(tmp_path):
    from savemark.report.analysis import analyse

    made = Made(codecs=("none", "zstd", "gzip"), streams=(0, 4), repeats=8)
    return analyse(make_run(tmp_path / "run", made))


def test_the_best_setting_for_each_goal(analysis):
    (result,) = analysis.results
    found = {goal: best(result, goal) for goal in GOALS}
    assert found["freeze"].cell.setting == "none × 4"
    assert found["restore"].cell.setting == "zstd × 4"
    assert found["cpu"].cell.codec == "none"
    assert found["bytes"].cell.setting == "zstd × 4"
    assert [cell.setting for cell in found["bytes"].tied] == ["zstd × 0"]
    assert "disk write" in found["freeze"].binds["save"]
    assert "codec zstd × 4 cores" in found["bytes"].binds["save"]
    front = trade_offs(result)
    assert [cell.setting for cell in front] == ["zstd × 4", "none × 4"]
    assert found["balanced"].cell in front
    assert costs(front[0])[2] == pytest.approx(front[0].cpu_s_per_gib, rel=0.05)


def test_ties_are_named_and_blocked_settings_are_no_advice(tmp_path):
    from savemark.report.analysis import analyse

    folder = make_run(tmp_path / "tie", Made(codecs=("none",), streams=(4, 8), repeats=8, seed=2))
    (tied,) = analyse(folder).results
    assert [c.setting for c in best(tied, "freeze").tied] in (["none × 8"], ["none × 4"])

    (warm,) = analyse(make_run(tmp_path / "warm", Made(codecs=("none",), warm=True))).results
    assert best(warm, "restore") is None
    assert best(warm, "balanced") is None
    assert best(warm, "freeze") is not None


@pytest.mark.parametrize(("slower", "advised"), [(1.03, "none × 0"), (1.3, "none × 8")])
def test_less_cpu_decides_only_among_tied_settings_that_are_near(tmp_path, slower, advised):
    from savemark.report.analysis import analyse

    folder = make_run(tmp_path / "tie", Made(codecs=("none",), streams=(0, 8)))
    lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    for line in lines:
        if line["role"] == "trial":
            plain = line["factors"]["streams"] == 0
            # One repeat of the fastest was disturbed, so the ranges overlap.
            seconds = slower if plain else 2.0 if line["repeat"] == 0 else 1.0
            for phase in line["record"]["phases"]:
                phase["elapsed_ns"] = round(1e9 * (seconds + line["repeat"] / 1000))
                phase["cpu_user_ns"], phase["cpu_system_ns"] = 10**8 if plain else 10**9, 0
    (folder / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (result,) = analyse(folder).results
    found = best(result, "freeze")
    assert (found.cell.setting, len(found.tied)) == (advised, 1)


def run(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    found = capsys.readouterr()
    return ended.value.code, found.out, found.err


JOB = ("--params", "405e9", "--gpus", "16384")


def test_advice_without_a_run(capsys, tmp_path):
    plot = tmp_path / "goodput.svg"
    words = ("advise", *JOB, "--save-bandwidth", "400GB/s", "--plot", plot)
    code, out, _ = run(capsys, *words)
    assert code == 0
    assert "5.67 TB; a failure every 3.1 h" in out
    assert "save every 9.2 min where a save blocks: 92.4 % useful time" in out
    assert "16,384" in out
    assert plot.read_text().startswith("<svg")
    assert "asynchronous" in plot.read_text()

    facts = json.loads(run(capsys, *words, "--json")[1])["interval"]
    job = Job(5.67e12, 400e9, 400e9, interval.GPU_MTBF_S / 16_384)
    assert facts["intervals"][0]["interval_s"] == pytest.approx(choices(job)[0].tau)
    assert facts["asynchronous"]["goodput"] == pytest.approx(asynchronous(job).goodput)
    assert facts["simulated_goodput"] == pytest.approx(facts["intervals"][0]["goodput"], abs=0.001)


def test_advice_from_a_run(capsys, tmp_path):
    folder = make_run(tmp_path / "run", Made(codecs=("none", "zstd"), streams=(0, 4), repeats=8))
    code, out, _ = run(capsys, "advise", folder, "--state-size", "1TB", "--mtbf", "30m")
    assert code == 0
    assert "none × 4 in this run, one node" in out
    assert "tied with" in out
    assert "Trade-offs" in out
    facts = json.loads(run(capsys, "advise", folder, *JOB, "--nodes", 100, "--json")[1])
    speed = facts["targets"][0]["best"]["freeze"]["phases"]["save"]["user_bytes_per_s"]
    assert facts["interval"]["save_bytes_per_s"] == pytest.approx(100 * speed)
    only = json.loads(run(capsys, "advise", folder, "--goal", "bytes", "--json")[1])
    assert list(only["targets"][0]["best"]) == ["bytes"]
    assert only["interval"] is None


def test_a_hopeless_job_is_said_to_be_one(capsys):
    words = ("advise", "--state-size", "10TB", "--mtbf", "10m", "--save-bandwidth", "1GB/s")
    code, out, _ = run(capsys, *words)
    assert code == 0
    assert "longer than the time between two failures" in out
    assert "simulated" not in out


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ([], "neither a run nor a job", "--save-bandwidth"),
        (["--params", "1e9"], "how often the job fails", "--mtbf"),
        (["--mtbf", "3h"], "size of the state", "--state-size"),
        ([*JOB], "needs a save bandwidth", "--save-bandwidth"),
        ([*JOB, "--state-size", "1TB"], "both say the size", "leave one"),
        ([*JOB, "--mtbf", "1h"], "both say how often", "leave one"),
        (["--state-size", "5 apples", "--mtbf", "1h"], "`5 apples` is not a size", None),
        (["--state-size", "1TB", "--mtbf", "0h"], "`0h` is not a time", None),
        ([*JOB, "--save-bandwidth", "0"], "is not a rate", None),
        ([*JOB, "--save-bandwidth", "9GB/s", "--plot", "x.png"], "not an .svg", "--plot"),
        (["/nowhere"], "not a run folder", None),
        (["--goal", "speed"], "'speed'", None),
    ],
)
def test_wrong_questions_are_usage_errors(capsys, words, message, hint):
    code, out, err = run(capsys, "advise", *words)
    assert code == 2
    assert message in err
    assert out == ""
    assert hint is None or hint in err.split("hint: ")[1]


def test_several_targets_have_no_single_bandwidth(capsys, tmp_path):
    made = Made(codecs=("none",), streams=(4,), targets={"a": 1.0, "b": 0.5})
    folder = make_run(tmp_path / "two", made)
    code, _, err = run(capsys, "advise", folder, *JOB)
    assert code == 2
    assert "several things (a and b)" in err
    assert run(capsys, "advise", folder)[0] == 0


def test_a_run_that_cannot_advise(capsys, tmp_path):
    folder = make_run(tmp_path / "none", Made(codecs=("none",), streams=(4,), stop_after=0))
    code, _, err = run(capsys, "advise", folder)
    assert code == 2
    assert "no trial to advise on" in err
    failed = make_run(tmp_path / "failed", Made(codecs=("none",), streams=(4,), fail=("none", 4)))
    assert "no valid setting of this run saves" in run(capsys, "advise", failed, *JOB)[2]
    assert "no valid setting has" in run(capsys, "advise", failed)[1]


def test_the_command_knows_every_goal():
    from savemark.cli import advise

    assert tuple(GOALS) == advise.GOALS
