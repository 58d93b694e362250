"""Adaptive repeats: until when, how often at most, and the same after a kill."""

import json
from collections import Counter

import pytest

from savemark.errors import SavemarkError
from savemark.records.phase import Phase
from savemark.records.record import Record
from savemark.records.run import Entry, read_run
from savemark.stats.stopping import open_cells, precisions, stopping
from savemark.study.until import parse
from waiting import held

STUDY = """\
name: small
repeats: 3
defaults: {storage: posix, size: 16m}
ceilings:
  random: {workload: random, operation: read}
trial: {workload: checkpoint}
factors: {codec: [none, lz4]}
"""
NOISY = json.dumps({"lz4": 0.2})
RULE = ("--until", "ci<3%", "--max-repeats", "9")


@pytest.fixture
def small(tmp_path):
    (tmp_path / "small.yaml").write_text(STUDY)
    return "small.yaml"


def trials(folder):
    """How often each codec and the ceiling ran."""
    lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    assert [line["index"] for line in lines] == list(range(len(lines)))
    return Counter(line["factors"].get("codec", "ceiling") for line in lines)


def test_what_is_steady_stops_at_six_and_what_is_not_at_the_cap(savemark, small, place, tmp_path):
    done = savemark("run", small, place, "--out", "out", *RULE, FAKE_NOISE=NOISY)
    assert done.returncode == 0, done.stderr
    assert trials(tmp_path / "out") == {"none": 6, "lz4": 9, "ceiling": 6}
    first = done.stderr.splitlines()[0]
    assert "2 settings × 6 repeats, then each until ±3 % (at most 9)" in first
    assert ", at most" in first
    head = json.loads((tmp_path / "out" / "run.json").read_text())
    assert len(head["plan"]) == 21
    assert (head["study"]["until"], head["study"]["max_repeats"]) == (0.03, 9)
    assert head["forecast"]["most_seconds"] == pytest.approx(
        1.5 * head["forecast"]["seconds"], abs=0.001
    )
    log = (tmp_path / "out" / "log.txt").read_text()
    assert "repeat 7: 1 settings are not within the limit yet" in log
    assert not list(place.iterdir())

    from savemark.report.stopping import as_json, sentence

    run = read_run(tmp_path / "out")
    assert sentence(run).startswith("1 of 2 settings is known to ±3 % (6 repeats)")
    assert "1 is not after 9 repeats, the most allowed: lz4 (±" in sentence(run)
    assert as_json(run)["open"][0]["repeats"] == 9
    found = stopping(run)
    assert [each.entry.factors["codec"] for each in found.reached] == ["none"]
    assert [(each.entry.factors["codec"], each.n) for each in found.open] == [("lz4", 9)]
    assert found.open[0].half_width > 0.03


def test_the_rule_stops_as_soon_as_it_is_met(savemark, small, place, tmp_path):
    savemark("run", small, place, "--out", "out", "--until", "ci<9%", FAKE_NOISE=NOISY)
    found = stopping(read_run(tmp_path / "out"))
    assert not found.open
    assert 6 <= max(each.n for each in found.reached) < 30


def test_without_the_rule_nothing_is_added(savemark, small, place, tmp_path):
    savemark("run", small, place, "--out", "out", FAKE_NOISE=NOISY)
    assert trials(tmp_path / "out") == {"none": 3, "lz4": 3, "ceiling": 3}
    head = json.loads((tmp_path / "out" / "run.json").read_text())
    assert "most_seconds" not in head["forecast"]
    assert stopping(read_run(tmp_path / "out")) is None
    from savemark.report.stopping import as_json, sentence

    assert sentence(read_run(tmp_path / "out")) == ""
    assert as_json(read_run(tmp_path / "out")) is None


def test_the_same_seed_gives_the_same_order_of_added_blocks(savemark, small, place, tmp_path):
    for name in ("a", "b"):
        words = ("run", small, place, "--out", name, "--seed", 5, "--until", "ci<1%")
        noise = json.dumps({"lz4": 0.2, "none": 0.2})
        savemark(*words, "--max-repeats", 12, FAKE_NOISE=noise)
    plans = [json.loads((tmp_path / n / "run.json").read_text())["plan"] for n in ("a", "b")]
    assert plans[0] == plans[1]
    added = [[e["factors"]["codec"] for e in plans[0] if e["repeat"] == r] for r in range(6, 12)]
    assert all(sorted(block) == ["lz4", "none"] for block in added)
    assert len({tuple(block) for block in added}) == 2, "each block has an order of its own"


def test_a_kill_in_an_added_block_is_resumed_to_the_same_end(savemark, small, place, tmp_path):
    folder = tmp_path / "out"
    process = savemark.popen(
        *("run", small, place, "--out", "out", *RULE), FAKE_NOISE=NOISY, FAKE_HOLD="19"
    )
    held(folder, place, 19)
    process.kill()
    process.communicate()
    done = savemark("run", "--resume", "out", FAKE_NOISE=NOISY)
    assert done.returncode == 0, done.stderr
    assert trials(folder) == {"none": 6, "lz4": 9, "ceiling": 6}
    again = savemark("run", "--resume", "out", FAKE_NOISE=NOISY)
    assert again.returncode == 0
    assert trials(folder).total() == 21, "a run at its cap is finished"


def test_a_run_that_stopped_between_two_blocks_goes_on(savemark, small, place, tmp_path):
    folder = tmp_path / "out"
    savemark("run", small, place, "--out", "out", *RULE, FAKE_NOISE=NOISY)
    head = json.loads((folder / "run.json").read_text())
    head["plan"] = head["plan"][:18]
    (folder / "run.json").write_text(json.dumps(head))
    lines = (folder / "records.jsonl").read_text().splitlines(keepends=True)
    (folder / "records.jsonl").write_text("".join(lines[:18]))
    done = savemark("run", "--resume", "out", FAKE_NOISE=NOISY)
    assert done.returncode == 0, done.stderr
    assert trials(folder) == {"none": 6, "lz4": 9, "ceiling": 6}
    changed = savemark("run", "--resume", "out", small, "--until", "ci<2%")
    assert changed.returncode == 2
    assert "until" in changed.stderr


def test_a_setting_that_always_fails_is_not_repeated_for_ever(savemark, small, place, tmp_path):
    bad = json.dumps({"lz4": ["failed", "no room"]})
    done = savemark("run", small, place, "--out", "out", *RULE, FAKE_ERRORS_RUN=bad)
    assert done.returncode == 1
    assert trials(tmp_path / "out") == {"none": 6, "lz4": 6, "ceiling": 6}
    from savemark.report.stopping import sentence

    assert "lz4 (6 failed)" in sentence(read_run(tmp_path / "out"))
    (open_cell,) = stopping(read_run(tmp_path / "out")).open
    assert (open_cell.n, open_cell.failed, open_cell.half_width) == (0, 6, None)


def test_a_study_may_hold_the_rule_and_a_flag_wins(savemark, place, tmp_path):
    (tmp_path / "mine.yaml").write_text(STUDY + "until: ci<2%\nmax_repeats: 8\n")
    words = ("run", "mine.yaml", place, "--dry-run", "--json")
    facts = json.loads(savemark(*words).stdout)
    assert (facts["until"], facts["repeats"], facts["max_repeats"]) == (0.02, 6, 8)
    facts = json.loads(savemark(*words, "--until", "ci < 5 %", "--max-repeats", 20).stdout)
    assert (facts["until"], facts["max_repeats"]) == (0.05, 20)
    assert facts["most_seconds"] > facts["seconds"]


def test_a_budget_by_hand_caps_the_repeats_too(savemark, small, place):
    words = ("run", small, place, "--dry-run", "--json", "--until", "ci<3%", "--size", "256m")
    one = json.loads(savemark(*words).stdout)
    seconds = one["seconds"] / one["repeats"]
    cut = json.loads(savemark(*words, "--budget", f"{seconds * 8.5:.3f}s").stdout)
    assert (cut["repeats"], cut["max_repeats"]) == (6, 8)
    short = json.loads(savemark(*words, "--budget", f"{seconds * 2.5:.3f}s").stdout)
    assert (short["repeats"], short["max_repeats"]) == (2, 2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--until", "3%"], "until: `3%` is not a rule"),
        (["--until", "ci<0%"], "is not a rule"),
        (["--max-repeats", "9"], "--max-repeats caps nothing"),
        (["--until", "ci<3%", "--max-repeats", "4"], "below the 6 repeats"),
        (["--until", "ci<3%", "--max-repeats", "9", "--repeats", "10"], "below the 10 repeats"),
    ],
)
def test_rules_that_make_no_sense_are_usage_errors(savemark, small, place, words, message):
    done = savemark("run", small, place, *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "hint: " in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("until: soon\n", ["mine.yaml:8: until", "`soon` is not a rule"]),
        ("max_repeats: 9\n", ["mine.yaml:8: max_repeats", "no `until`"]),
        ("until: ci<3%\nmax_repeats: 5\n", ["mine.yaml:9: max_repeats", "at least 6"]),
    ],
)
def test_a_wrong_rule_in_a_study_names_its_line(savemark, place, tmp_path, text, words):
    (tmp_path / "mine.yaml").write_text(STUDY + text)
    done = savemark("run", "mine.yaml", place, "--dry-run")
    assert done.returncode == 2
    assert all(word in done.stderr for word in words)


def test_rules_are_read():
    assert parse("ci<3%") == parse(" ci < 3.0 % ") == 0.03
    for wrong in ("ci<3", "ci>3%", "ci<100%", ""):
        with pytest.raises(SavemarkError):
            parse(wrong)


def entry(codec, save, restore, index=0):
    phases = [Phase(name="save", elapsed_ns=save), Phase(name="restore", elapsed_ns=restore)]
    phases.append(Phase(name="prepare", elapsed_ns=1 + 7**index))
    record = Record(phases=phases)
    return Entry(index, "trial", "checkpoint", "x", index, {"codec": codec}, "ok", record)


def test_the_least_precise_phase_decides_and_five_repeats_are_never_enough():
    five = [entry("none", 10**9, 10**9, i) for i in range(5)]
    assert precisions(five)[0].half_width is None
    assert len(open_cells(five, 0.5)) == 1
    six = [*five, entry("none", 10**9, 10**9, 5)]
    assert precisions(six)[0].half_width == 0
    assert not open_cells(six, 0.01)
    wild = [entry("lz4", 10**9, 10**9 * (1 + i), i) for i in range(6)]
    assert precisions(wild)[0].half_width == pytest.approx(2.5 / 3.5)
    assert open_cells([*six, *wild], 0.01) == {precisions(wild)[0].cell}
