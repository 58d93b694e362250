"""What a run answers, how sure it says that is, what is still open, and the one next command."""

from __future__ import annotations

import json
import shlex

import pytest

from made_race import Race, make_race
from made_run import Made, make_run
from savemark import report
from savemark.advice.doubts import FIRST, OF_CODECS, doubt
from savemark.advice.threshold import Screened, Threads, codec_pays, threshold
from savemark.checks import Finding, Remedy, Verdict
from savemark.checks.registry import catalogue
from savemark.cli._judged import judged
from savemark.report.analysis import analyse
from savemark.report.answers import answers, next_step

NOISY = {("none", 4): 0.3, ("none", 16): 0.3}


def answered(folder, race=None):
    """The one answer of a made race, and all of its summary."""
    data = report.summary(make_race(folder, race))
    (target,) = data["targets"]
    (answer,) = target["answers"]
    return answer, data


def words(data):
    return shlex.split(data["next"]["command"])


def test_a_healthy_run_is_trusted_and_says_what_to_use(tmp_path):
    answer, data = answered(tmp_path / "run")
    assert (data["state"], data["reason"], data["valid"]) == ("trusted", "", True)
    assert answer["advised"]["setting"] in ("none × 4", "none × 16")
    assert answer["baseline"]["setting"] == "none × 1"
    assert len(answer["as_fast"]) == 1
    assert {each["setting"] for each in answer["slower"]} == {"planes × 4", "lz4 × 4", "none × 1"}
    planes = next(each for each in answer["slower"] if each["setting"] == "planes × 4")
    assert 0.05 < planes["slower_low"] < planes["slower_high"] < 0.2
    assert answer["unknown"] == []
    assert data["targets"][0]["state"] == "trusted"
    assert words(data)[:2] == ["savemark", "advise"]
    assert words(data)[3:] == ["--params", "8e9", "--gpus", "1024"]
    json.dumps(data)


def test_the_sentence_is_one_that_a_manager_reads(tmp_path):
    _, data = answered(tmp_path / "run", Race(finalists=(("none", 4),)))
    first, rest = data["verdict"].split("; restores ")
    assert first.startswith("No compression, 4 parallel files: saves 3.9")
    assert " GB/s [" in first
    assert "% of what this disk takes" in first
    assert "% of what this disk gives" in rest
    assert "2.0 × and 2.0 × one file." in rest


@pytest.mark.parametrize(
    ("target", "filesystem", "says"),
    [("s3://bucket/x", "", "of what this bucket takes"), ("/dev/shm/x", "tmpfs", "of memory"),
     ("/home/x", "nfs4", "of what this file system takes")],
)  # fmt: skip
def test_a_bucket_is_a_bucket_and_memory_is_memory(tmp_path, target, filesystem, says):
    race = Race(targets={"here": target}, filesystem=filesystem)
    _, data = answered(tmp_path / "run", race)
    assert says in data["verdict"]
    assert "disk" not in data["verdict"]
    assert ("parallel objects" in data["verdict"]) == target.startswith("s3:")


def test_what_was_fastest_and_is_blocked_leaves_no_advice(tmp_path):
    answer, data = answered(tmp_path / "run", Race(cached=(("none", 4), ("none", 16))))
    assert data["state"] == "no answer"
    assert "was the fastest seen, and HC-02 blocks it" in data["reason"]
    assert answer["advised"] is answer["fastest"] is None
    assert data["verdict"].startswith("No advice: none × ")
    assert words(data)[1] == "check"


def test_a_slow_setting_that_is_blocked_hinders_no_advice(tmp_path):
    answer, data = answered(tmp_path / "run", Race(cached=(("lz4", 4),)))
    assert answer["advised"] is not None
    assert data["state"] in ("trusted", "provisional")
    assert "lz4 × 4" not in [each["setting"] for each in answer["slower"]]


def test_few_repeats_are_no_answer_and_the_command_asks_for_six(tmp_path):
    answer, data = answered(tmp_path / "run", Race(repeats=5))
    assert data["state"] == "no answer"
    assert "5 repeats of none × " in data["reason"]
    assert "6 are needed" in data["reason"]
    assert answer["advised"] is None
    said = words(data)
    assert said[said.index("--repeats") + 1] == "6"
    assert said[said.index("--size") + 1] == "4GiB"
    assert data["next"]["seconds"] > 10
    assert data["next"]["written_bytes"] > 6 * 2**32


def test_short_phases_are_no_answer_and_the_command_makes_them_longer(tmp_path):
    _, data = answered(tmp_path / "run", Race(size=2**29))
    assert data["state"] == "no answer"
    assert "0.5 s are needed" in data["reason"]
    said = words(data)
    # 512 MiB lasted 0.13 s: a second needs 4 GiB, and the ladder has just that.
    assert said[said.index("--size") + 1] == "4GiB"
    assert said[said.index("--codec") + 1] == "none"


def test_short_phases_that_are_blocked_name_a_larger_size_and_no_number(tmp_path):
    folder = make_race(tmp_path / "run", Race(size=2**29))
    head = json.loads((folder / "run.json").read_text())
    head["study"]["checks"] = {"HC-13": {"seconds": 1, "block_below": 0.5}}
    (folder / "run.json").write_text(json.dumps(head))
    data = report.summary(folder)
    assert "HC-13 blocks it" in data["reason"]
    assert data["targets"][0]["answers"][0]["fastest"] is None
    # The shortest of all restores took 0.11 s: a second is 4.7 GiB of it, and the next rung is 8.
    assert words(data)[:5] == ["savemark", "run", "/mnt/scratch", "--size", "8GiB"]
    assert words(data)[5] == "--budget"


def test_nothing_finished_is_no_answer_and_is_resumed(tmp_path):
    answer, data = answered(tmp_path / "run", Race(stop_after=9))
    assert (data["state"], data["reason"]) == ("no answer", "no trial finished")
    assert answer["advised"] is None
    assert words(data)[:3] == ["savemark", "run", "--resume"]


def test_a_busy_machine_is_provisional_with_the_one_reason(tmp_path):
    seen = "process `stress` used 87 % of a core"
    rest = {"quiet": False, "disturbed_by": seen}
    answer, data = answered(tmp_path / "run", Race(rest=rest))
    assert (data["state"], data["valid"]) == ("provisional", True)
    assert data["reason"] == f"the machine was not at rest: {seen}"
    assert answer["advised"] is not None
    assert words(data) == ["savemark", "run", "/mnt/scratch"]


def test_what_repeats_cannot_tell_is_provisional_and_names_what_is_open(tmp_path):
    race = Race(finalists=(("none", 4), ("none", 16)), noise=NOISY, seed=2)
    answer, data = answered(tmp_path / "run", race)
    assert data["state"] == "provisional"
    (rival,) = answer["unknown"]
    assert data["reason"] == f"6 repeats leave open whether {rival['setting']} is faster"
    assert {rival["setting"], answer["advised"]["setting"]} == {"none × 4", "none × 16"}
    said = words(data)
    assert said[said.index("--codec") + 1] == "none"
    assert sorted(said[said.index("--streams") + 1].split(",")) == ["16", "4"]
    assert int(said[said.index("--repeats") + 1]) > 6
    assert data["next"]["seconds"] > 0


def test_a_time_that_repeats_leave_wide_is_provisional(tmp_path):
    race = Race(finalists=(("none", 4),), noise={("none", 4): 0.3}, factor={("none", 1): 4.0})
    answer, data = answered(tmp_path / "run", race)
    assert data["state"] == "provisional"
    assert data["reason"].startswith("the time is known to ±")
    assert answer["unknown"] == []
    assert int(words(data)[words(data).index("--repeats") + 1]) > 6


def test_of_settings_that_are_as_fast_and_near_the_cheaper_is_advised(tmp_path):
    folder = make_race(tmp_path / "run", Race(finalists=(("none", 4), ("none", 16))))
    lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    for cheap in ("none × 16", "none × 4"):
        for line in lines:
            if line["role"] == "trial":
                name = f"{line['factors']['codec']} × {line['factors']['streams']}"
                for phase in line["record"]["phases"]:
                    phase["cpu_user_ns"] = 10**8 if name == cheap else 10**9
                    length = 3.0 + line["repeat"] / 1000 if name == "none × 1" else 1.0
                    phase["elapsed_ns"] = round(1e9 * (length + line["repeat"] / 1000))
        (folder / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        (target,) = report.summary(folder)["targets"]
        assert target["answers"][0]["advised"]["setting"] == cheap


def test_the_worst_answer_of_several_targets_is_the_state_of_the_run(tmp_path):
    race = Race(targets={"a": "/mnt/a b", "b": "/mnt/b"})
    folder = make_race(tmp_path / "run", race)
    assert report.summary(folder)["state"] == "trusted"
    lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    kept = [x for x in lines if x["label"] == "b" or x["role"] != "trial" or x["repeat"] < 3]
    (folder / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))
    data = report.summary(folder)
    assert [target["state"] for target in data["targets"]] == ["no answer", "trusted"]
    assert data["state"] == "no answer"
    assert data["reason"].startswith("a: 3 repeats of none × ")
    said = words(data)
    assert "a=/mnt/a b" in said, "quoted as one word"
    assert "b=/mnt/b" not in said, "that is not open"


def test_flags_concern_a_setting_that_they_name_or_all():
    def found(identifier, evidence, verdict=Verdict.FLAG):
        return Finding(verdict, evidence, id=identifier)

    def remedy(*findings, codec="none"):
        why = doubt(findings, "none × 4", ["none × 48", "zstd × 4"], codec)
        return why.remedy if why else None

    assert remedy(found("HC-31", "none × 4: others were at work.")) is Remedy.IDLE
    assert remedy(found("HC-31", "zstd × 4: others were at work.")) is None
    assert remedy(found("HC-31", "none × 48: others were at work.")) is None
    assert remedy(found("HC-31", "zstd × 4 and 3 more: others were at work.")) is Remedy.IDLE
    assert remedy(found("HC-15", "save: 20 % slower after trial 7 of 40.")) is Remedy.IDLE
    assert remedy(found("HC-31", "none × 4: so.", Verdict.NOTE)) is None
    assert remedy(found("HC-13", "short")) is None, "the verdict has its own limit"
    assert remedy(found("HC-09", "easy data")) is None
    assert remedy(found("HC-09", "easy data"), codec="zstd") is Remedy.CHECK


def test_every_check_that_can_flag_makes_an_answer_provisional_or_is_listed_as_a_note():
    from pathlib import Path

    from savemark.advice import doubts

    text = Path(doubts.__file__).read_text()
    flags = [entry.id for entry in catalogue() if "FLAG" in entry.verdict]
    assert [identifier for identifier in flags if identifier not in text] == []
    doubts = {entry.id for entry in catalogue() if entry.doubt}
    assert {*FIRST, OF_CODECS} == doubts


def test_strict_refuses_all_but_what_is_trusted(tmp_path):
    _, trusted = answered(tmp_path / "a")
    _, busy = answered(tmp_path / "b", Race(rest={"quiet": False, "disturbed_by": None}))
    assert [judged(each, strict=True) for each in (trusted, busy)] == [0, 1]
    assert [judged(each) for each in (trusted, busy)] == [0, 0]
    assert judged({"valid": False}, strict=True) == 1


def test_files_of_another_tool_are_never_trusted(tmp_path):
    folder = make_run(tmp_path / "run", Made(codecs=("none",), streams=(2, 4), repeats=8))
    head = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(head | {"origin": "imported"}))
    data = report.summary(folder)
    assert data["state"] == "provisional"
    assert words(data)[1] == "check"


def test_the_threshold_is_where_both_ways_take_as_long():
    def total(s, encode, decode, ratio):
        return max(1 / (ratio * s), 1 / encode) + max(1 / (ratio * s), 1 / decode)

    for encode, decode, ratio in (
        (1e9, 2e9, 1.5),
        (3e9, 3.1e9, 1.1),
        (0.1e9, 9e9, 4),
        (2e9, 1e9, 2),
    ):
        rate = threshold(encode, decode, ratio)
        assert total(rate, encode, decode, ratio) == pytest.approx(2 / rate)
        assert total(rate * 0.9, encode, decode, ratio) < 2 / (rate * 0.9)
        assert total(rate * 1.1, encode, decode, ratio) > 2 / (rate * 1.1)


def test_a_codec_that_was_held_up_says_itself_how_fast_it_is(tmp_path):
    # The look says more of one core than four of them do beside a save.
    answer, data = answered(tmp_path / "run", Race(factor={("planes", 4): 1.3}))
    pays = answer["codec_pays"]
    assert (pays["codec"], pays["streams"]) == ("planes", 4)
    assert pays["ratio"] == pytest.approx(1.5, rel=0.01)
    assert data["targets"][0]["codec_pays_below_bytes_per_s"] == pays["below_bytes_per_s"]
    # Made with 0.7 and 1.2 GB/s a core, of which four reach 95 %.
    made = threshold(4 * 0.95 * 0.7e9 / 1.3, 4 * 0.95 * 1.2e9 / 1.3, 1.5)
    assert pays["below_bytes_per_s"] == pytest.approx(made, rel=0.05)
    assert "A codec pays below 2." in data["verdict"]
    assert "on generated bf16 weights; --state DIR measures yours" in data["verdict"]


def test_a_screened_trial_says_how_much_of_a_core_s_promise_holds(tmp_path):
    folder = make_race(tmp_path / "run", Race(finalists=(("none", 4),)))
    (told,) = answers(analyse(folder))
    threads = Threads(4, 4)
    promised = codec_pays(told.result, threads, {})
    slow = {codec: Screened(4, 4 / 1e9) for codec in ("planes", "zstd", "lz4")}
    held = codec_pays(told.result, threads, slow)
    # Save and restore of a byte took 4 ns: without a codec storage of 0.5 GB/s takes as long.
    assert held.rate == pytest.approx(0.5e9, rel=0.02)
    assert held.rate < promised.rate


def test_the_next_step_of_several_runs_compares_them(tmp_path):
    from savemark.records.several import read_runs

    folders = [str(make_race(tmp_path / name)) for name in ("one", "two")]
    step = next_step(analyse(read_runs(folders, tmp_path / "both")))
    assert shlex.split(step.command) == ["savemark", "compare", *folders]
