"""The race: what is screened, ruled out and confirmed, with which sizes, and how it is resumed."""

import json
import os
import signal
from collections import Counter

import pytest

from savemark.report import summary

MIB, GIB = 1 << 20, 1 << 30


@pytest.fixture
def rules(engine):
    from savemark.study import race

    return race


def screened(rules, **times):
    """Settings by name with their seconds, or (seconds, stored share)."""
    found = []
    for name, said in times.items():
        seconds, share = said if isinstance(said, tuple) else (said, 1.0)
        found.append(rules.Screened({"codec": name}, seconds, share))
    return found


def names(some):
    return [each.factors["codec"] for each in some]


def test_short_trials_last_half_a_second_on_what_may_be_half_as_fast_again(rules):
    for rate in (1e6, 3e8, 2.4e9, 4e10):
        size = rules.screen_bytes(rate, 1e15)
        assert size / rate >= 0.5
        assert size % (256 * MIB) == 0
    assert rules.screen_bytes(4e10, 100 * MIB) == 64 * MIB


@pytest.mark.parametrize(
    ("rate", "most", "size"),
    [
        (100e6, 1e15, 256 * MIB),
        (300e6, 1e15, 512 * MIB),
        (2.4e9, 1e15, 4 * GIB),
        (12e9, 1e15, 16 * GIB),
        (1e12, 1e15, 64 * GIB),
        (2.4e9, 3 * GIB, 2 * GIB),  # as much as there is room for
        (2.4e9, 100 * MIB, 64 * MIB),
        (2.4e9, 1, 16 * MIB),
    ],
)
def test_the_size_is_the_least_rung_that_lasts_a_second(rules, rate, most, size):
    assert rules.confirm_bytes(rate, most) == size


def test_the_size_of_an_earlier_run_stays_while_it_lasts_about_as_long(rules):
    assert rules.confirm_bytes(1.05 * GIB, 1e15) == 2 * GIB
    assert rules.confirm_bytes(1.05 * GIB, 1e15, before=GIB) == GIB
    assert rules.confirm_bytes(3.0 * GIB, 1e15, before=GIB) == 4 * GIB
    assert rules.confirm_bytes(0.9 * GIB, 1e15, before=2 * GIB) == 2 * GIB
    assert rules.confirm_bytes(0.9 * GIB, 1e15, before=8 * GIB) == GIB
    assert rules.confirm_bytes(0.9 * GIB, 2 * GIB, before=3 * GIB) == GIB


def test_a_codec_is_ruled_out_by_what_its_cores_can_do(rules):
    zstd = rules.Codec("zstd", encode=0.5e9, decode=1.0e9, stored=0.7)
    leader = 1 / 2e9 + 1 / 2e9  # seconds per byte
    why = rules.ruled_out(zstd, 4, 2, leader, 1.4)
    assert (
        why
        == (
            "zstd on 2 cores encodes and decodes 1.00 and 2.00 GB/s: "
            "at least 1.5 × the time of the leader"
        )
        or not why
    )
    assert "3.0 ×" in rules.ruled_out(zstd, 1, 2, leader, 1.5)
    assert "on 1 core encodes" in rules.ruled_out(zstd, 0, 2, leader, 1.5)
    assert not rules.ruled_out(zstd, 16, 16, leader, 1.5)


def test_the_fastest_the_near_and_the_smallest_are_confirmed(rules):
    some = screened(rules, a=1.0, b=1.1, c=1.3, d=1.4, e=1.6, small=(4.0, 0.6), smaller=(9.0, 0.59))
    race = rules.Race({}, keep=1.5, finalists=4)
    assert names(rules.order_of_merit(some, race)) == ["a", "b", "small", "c", "d"]
    assert names(rules.finalists(some, race, lambda _: True)) == ["a", "b", "c", "small"]
    # What does not fit is left out, what is cheaper and comes later may still fit.
    few = rules.finalists(some, race, lambda chosen: sum(s.seconds for s in chosen) < 4)
    assert names(few) == ["a", "b", "c"]
    assert names(rules.finalists(some, race, lambda _: False)) == ["a", "b"]
    assert rules.finalists([], race, lambda _: True) == []


def test_what_stores_as_much_is_not_kept_for_its_bytes(rules):
    some = screened(rules, a=1.0, b=(3.0, 0.98))
    assert names(rules.finalists(some, rules.Race({}), lambda _: True)) == ["a"]


def test_auto_streams_are_two_per_core_and_at_most_16(engine, monkeypatch):
    from savemark.study import streams

    for cores, found in ((1, [1, 4, 2]), (2, [1, 4]), (4, [1, 4, 8]), (64, [1, 4, 16])):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        assert streams.settled([1, 4, "auto"]) == found
    assert streams.settled([4, 2]) == [4, 2]


def read(folder):
    lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    return json.loads((folder / "run.json").read_text()), lines


def stages(lines):
    """Which roles ran, in which order."""
    found = []
    for line in lines:
        if not found or found[-1] != line["role"]:
            found.append(line["role"])
    return found


def test_what_one_burst_may_have_slowed_is_tried_again(rules):
    some = screened(rules, a=1.0, b=2.4, c=2.6, d=1.2)
    assert names(rules.again(some)) == ["a", "d", "b"]
    many = screened(rules, **{f"s{n}": 1.0 + n / 10 for n in range(9)})
    assert len(rules.again(many)) == 6
    assert rules.again([]) == []


def test_a_default_run_looks_screens_and_confirms(savemark, place, tmp_path):
    done = savemark("run", place, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    head, lines = read(tmp_path / "run")
    by_role = {role: [e for e in lines if e["role"] == role] for role in ("screen", "trial")}
    # Each setting is screened once, the fastest twice, and confirmed no less often than six times.
    tried = {
        n: [
            (e["factors"]["codec"], e["factors"]["streams"])
            for e in by_role["screen"]
            if e["repeat"] == n
        ]
        for n in (0, 1)
    }
    settings = tried[0]
    assert len(settings) == len(set(settings))
    assert 1 <= len(tried[1]) == len(set(tried[1])) <= 6
    assert [e for e in settings if e in tried[1]] == tried[1][::-1], "in the opposite order"
    ruled_out = [e["factors"] for e in head["race"]["bounded"]]
    assert len(settings) + len(ruled_out) == 4 * len(head["study"]["factors"]["streams"])
    confirmed = {}
    for e in by_role["trial"]:
        confirmed.setdefault(repr(e["factors"]), set()).add(e["repeat"])
    assert all(len(repeats) >= 6 for repeats in confirmed.values())
    assert repr({"codec": "none", "streams": 1}) in confirmed
    assert len(confirmed) <= 5
    # The screen is over before the first trial that counts begins.
    assert stages(lines)[0] == "ceiling"
    last_screen = max(i for i, e in enumerate(lines) if e["role"] == "screen")
    first_trial = min(i for i, e in enumerate(lines) if e["role"] == "trial")
    assert last_screen < first_trial
    sizes = {e["record"]["trial"]["size"] for e in by_role["trial"]}
    assert sizes == {head["race"]["size_bytes"]} == {head["study"]["defaults"]["size"]}
    # What bounds them is measured in their blocks, as large and on as many workers.
    beside = [e for e in lines if e["role"] == "ceiling" and e["name"].startswith("write")]
    assert len(beside) == len(next(iter(confirmed.values())))
    assert {e["record"]["trial"]["size"] for e in beside} == sizes


def test_a_few_settings_of_a_given_size_are_confirmed_without_screening(savemark, place, tmp_path):
    words = ("--size", "64m", "--codec", "none,lz4", "--streams", "1,4", "--repeats", "2")
    done = savemark("run", place, "--out", tmp_path / "run", *words)
    assert done.returncode == 0, done.stderr
    head, lines = read(tmp_path / "run")
    assert {e["role"] for e in lines} == {"ceiling", "trial"}
    assert len([e for e in lines if e["role"] == "trial"]) == 8
    assert head["race"]["screened"] == []


def test_full_is_the_grid(savemark, place):
    said = savemark("run", "--full", place, "--dry-run").stdout
    assert said.startswith("grid · ")
    assert "24 settings × 5 repeats" in said
    refused = savemark("run", "quick", "--full", place)
    assert (refused.returncode, "--full is the study grid" in refused.stderr) == (2, True)


def test_a_rerun_does_the_same_work(savemark, place, tmp_path):
    sizes = []
    for noise in ("{}", '{"none": 0.3}'):
        done = savemark("run", place, "--repeats", "2", FAKE_NOISE=noise)
        assert done.returncode == 0, done.stderr
    for folder in (tmp_path / "savemark-runs").iterdir():
        sizes.append(read(folder)[0]["race"]["size_bytes"])
    assert len(sizes) == 2
    assert len(set(sizes)) == 1


@pytest.mark.parametrize("after", [3, 26, 30, 45])
def test_each_stage_is_resumed_after_ctrl_c(savemark, place, tmp_path, after):
    out = tmp_path / "run"
    process = savemark.popen("run", place, "--out", out, FAKE_HOLD=str(after))
    lines = out / "records.jsonl"
    while not lines.exists() or len(lines.read_text().splitlines()) < after:
        assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    before = lines.read_text().splitlines()
    done = savemark("run", "--resume", out)
    assert done.returncode == 0, done.stderr
    head, whole = read(out)
    assert lines.read_text().splitlines()[: len(before)] == before
    assert len({e["index"] for e in whole}) == len(whole) == len(head["plan"])
    assert head["race"]["finalists"]
    assert savemark("run", "--resume", out).returncode == 0
    assert len(read(out)[1]) == len(whole)


def test_little_memory_is_measured_with_what_fits_and_is_no_answer(savemark, place, tmp_path):
    out = tmp_path / "run"
    done = savemark("run", place, "--out", out, FAKE_AVAILABLE_BYTES=str(300 * MIB))
    assert done.returncode == 0, done.stderr
    head, lines = read(out)
    assert head["race"]["size_bytes"] == 64 * MIB, "a third of the memory, in powers of two"
    assert max(e["record"]["trial"]["size"] for e in lines) <= 256 * MIB
    said = summary(out)
    assert said["state"] == "no answer"
    assert "phases are too short" in said["reason"]
    (advice,) = said["targets"][0]["answers"]
    assert advice["advised"] is None
    assert all(cell["n"] >= 6 for cell in said["cells"]), "with figures, for whom they are enough"


def test_a_budget_that_holds_nothing_still_confirms_one_setting(savemark, place, tmp_path):
    out = tmp_path / "run"
    done = savemark("run", place, "--out", out, "--budget", "5s")
    assert done.returncode == 0, done.stderr
    confirmed = [e for e in read(out)[1] if e["role"] == "trial"]
    assert min(Counter(repr(e["factors"]) for e in confirmed).values()) >= 6
    assert {"codec": "none", "streams": 1} in [e["factors"] for e in confirmed]


def test_a_setting_that_fails_is_not_confirmed_and_says_why(savemark, place, tmp_path):
    errors = '{"lz4": ["failed", "no lz4 today"]}'
    done = savemark("run", place, "--out", tmp_path / "run", FAKE_ERRORS_RUN=errors)
    head, lines = read(tmp_path / "run")
    failed = [e for e in head["race"]["screened"] if "no lz4 today" in e.get("why", "")]
    assert failed, done.stderr
    assert not any(e["kept"] for e in failed)
    assert "lz4" not in {e["factors"].get("codec") for e in lines if e["role"] == "trial"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("race: {keep: 0.5}", "race.keep: expected a number from 1 to 100"),
        ("race: {finalists: many}", "race.finalists: expected a whole number"),
        ("race: {kept: 2}", "race.kept: unknown key `kept`"),
        ("race: {baseline: {codex: none}}", "race.baseline.codex: not a factor"),
    ],
)
def test_what_is_wrong_in_a_race_is_named(savemark, place, tmp_path, text, message):
    file = tmp_path / "own.yaml"
    file.write_text(f"trial: {{workload: checkpoint}}\nfactors: {{codec: [none, lz4]}}\n{text}\n")
    done = savemark("run", file, place)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_ceiling_of_one_number_of_workers_bounds_as_many_streams_alone(tmp_path):
    from made_run import Made, make_run
    from savemark.records import read_run
    from savemark.stats import results

    folder = make_run(tmp_path, Made(codecs=("none",), streams=(2, 4), repeats=3))
    path = folder / "records.jsonl"

    def limits(names):
        """Which cells have a limit, where the ceilings go by these names."""
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if line["role"] == "ceiling":
                base = line["name"].partition("/")[0]
                line["name"] = names.get(base, line["name"])
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        (result,) = results(read_run(folder))
        return {c.streams for c in result.cells if c.phases["save"].limit}

    assert limits({}) == {2, 4}
    assert limits({"write": "write/4"}) == {4}
    assert limits({"write": "write/2"}) == {2}
