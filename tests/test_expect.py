"""What is expected of a run: the grammar, the verdict, the page, and the exit codes."""

import json
import os
import subprocess
import sys

import pytest

from made_run import Made, make_run
from savemark.advice.expected import Confidence, Outcome, repeats_to_decide
from savemark.errors import SavemarkError
from savemark.records import read_run
from savemark.records.head import Study, StudyPart
from savemark.report.analysis import analyse
from savemark.report.expecting import as_json, expecting, tables
from savemark.stats.spread import spread
from savemark.study import metrics
from savemark.study.expect import least_repeats, levels_of, parse, written

GIB = 2**30
STUDY = """\
name: small
repeats: 3
defaults: {storage: posix, size: 16m}
trial: {workload: checkpoint}
factors: {codec: [none, lz4], streams: [2, 4]}
expect:
"""


def savemark(*words, folder=None):
    return subprocess.run(
        [sys.executable, "-m", "savemark", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=folder,
        env={**os.environ, "COLUMNS": "200"},
    )


def timed(folder, seconds, **made):
    """A run of 1 GiB whose saves take these seconds: by (codec, streams), one for each repeat."""
    codecs = tuple(dict.fromkeys(codec for codec, _ in seconds))
    streams = tuple(dict.fromkeys(count for _, count in seconds))
    repeats = len(next(iter(seconds.values())))
    make_run(folder, Made(codecs=codecs, streams=streams, repeats=repeats, size=GIB, **made))
    file, lines = folder / "records.jsonl", []
    for text in (folder / "records.jsonl").read_text().splitlines():
        line = json.loads(text)
        key = line["factors"].get("codec"), line["factors"].get("streams")
        if line["role"] == "trial" and key in seconds:
            save = line["record"]["phases"][0]
            save["elapsed_ns"] = int(seconds[key][line["repeat"]] * 1e9)
        lines.append(json.dumps(line) + "\n")
    file.write_text("".join(lines))
    return folder


def judged(folder, text):
    (found,) = as_json(analyse(expecting(read_run(folder), [text])))
    return found


@pytest.mark.parametrize(
    ("text", "bound", "confidence", "where", "any_"),
    [
        ("last_done.write.bandwidth >= 80 GiB/s", 80 * GIB, 0.95, {}, False),
        ("read.latency.p99<=5ms", 0.005, 0.95, {}, False),
        ("write.rate >= 30 kIOPS with 99 %", 30e3, 0.99, {}, False),
        ("any create.rate > 2.5e3 op/s where part=metadata easy", 2500, 0.95,
         {"part": ("metadata easy",)}, True),
        ("read.bandwidth > 1.5 GB/s where gpus=0,1,2,3, workers=16|36 with 90%", 1.5e9, 0.9,
         {"gpus": ("0,1,2,3",), "workers": ("16", "36")}, False),
        ("durable.save.elapsed < 250 ms", 0.25, 0.95, {}, False),
    ],
)  # fmt: skip
def test_a_line_is_read(text, bound, confidence, where, any_):
    one = parse(text)
    assert one.bound == pytest.approx(bound)
    assert one.confidence == pytest.approx(confidence)
    assert (dict(one.where), one.any) == (where, any_)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("write.bandwith >= 1 GiB/s", "unknown metric `write.bandwith`", "`write.bandwidth`"),
        ("last_done.wirte.bandwidth >= 1 GB/s", "unknown metric", "`last_done.write.bandwidth`"),
        ("read.latency.p98 <= 5 ms", "unknown metric `read.latency.p98`", "read.latency.p9"),
        ("xyzzy >= 1 GB/s", "unknown metric `xyzzy`", "PHASE.NAME"),
        ("write.bandwidth >= 80 GiB", "`GiB` is no unit of write.bandwidth", "GiB/s"),
        ("write.bandwidth >= 80", "write.bandwidth needs a unit", "GiB/s"),
        ("read.rate >= 5 GB/s", "`GB/s` is no unit of read.rate", "IOPS"),
        ("write.bandwidth = 80 GiB/s", "is not an expectation", "for example"),
        ("write.bandwidth >= 80 GiB/s where workers", "is not NAME=LEVEL", "workers=16"),
        ("write.bandwidth >= 80 GiB/s with 100 %", "below 100", "95 %"),
    ],
)
def test_a_wrong_line_says_what_is_right(text, message, hint):
    with pytest.raises(SavemarkError) as raised:
        parse(text)
    assert message in raised.value.message
    assert hint in raised.value.hint
    assert raised.value.exit_code == 2


def test_a_mapping_says_the_same_as_a_line():
    line = {"that": "read.bandwidth >= 1 GB/s", "where": {"codec": None, "workers": [16, 36]}}
    text = "read.bandwidth >= 1 GB/s where codec=none, workers=16|36 with 99 %"
    for confidence in ("99 %", "99%", 0.99, 99):
        assert written({**line, "confidence": confidence}) == text
    assert parse(written(line)).confidence == 0.95


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("- save.bandwidth >= 1 GB/s\n- save.bandwith >= 1 GB/s\n",
         ["mine.yaml:8: expect[1]", "did you mean `save.bandwidth`?"]),
        ("- {that: save.bandwidth >= 1 GB/s, were: {}}\n",
         ["mine.yaml:7: expect[0]", "unknown key `were`", "did you mean `where`?"]),
        ("- {where: {codec: lz4}}\n", ["mine.yaml:7: expect[0]", "expected `that`"]),
        ("- 7\n", ["mine.yaml:7: expect[0]", "expected text or a mapping"]),
        ("  save.bandwidth: 1 GB/s\n", ["mine.yaml:6: expect", "expected a list"]),
        ("- save.bandwidth >= 1 GB/s where stream=2\n",
         ["nothing here is called `stream`", "did you mean `streams`?"]),
        ("- save.bandwidth >= 1 GB/s where streams=3\n",
         ["streams is never `3`", "its levels: 2, 4"]),
    ],
)  # fmt: skip
def test_a_wrong_expectation_of_a_study_names_its_place(tmp_path, lines, words):
    (tmp_path / "mine.yaml").write_text(STUDY + lines)
    (tmp_path / "place").mkdir()
    done = savemark("run", "mine.yaml", "./place", "--dry-run", folder=tmp_path)
    assert done.returncode == 2
    assert all(word in done.stderr for word in words), done.stderr


def test_a_dry_run_says_what_is_expected_and_how_many_repeats_that_takes(tmp_path):
    (tmp_path / "mine.yaml").write_text(STUDY + "- save.bandwidth >= 1 GB/s with 99 %\n")
    (tmp_path / "place").mkdir()
    words = ("run", "mine.yaml", "./place", "--dry-run", "--expect", "restore.elapsed < 5 s")
    done = savemark(*words, folder=tmp_path)
    assert "expected    save.bandwidth >= 1 GB/s with 99 %" in done.stdout
    assert "expected    restore.elapsed < 5 s" in done.stdout
    assert "3 repeats can show nothing of what is expected; --repeats 8 or more can" in done.stdout
    enough = savemark(*words, "--repeats", "8", folder=tmp_path)
    assert "can show nothing" not in enough.stdout


def test_only_an_interval_on_the_right_side_passes(tmp_path):
    folder = timed(tmp_path / "run", {("none", 4): [1.0, 1.1, 1.2, 1.3, 1.4, 1.5]})
    for bound, outcome in ((1.6, "passed"), (1.5, "passed"), (1.35, "not shown"), (0.9, "failed")):
        found = judged(folder, f"save.elapsed <= {bound} s")
        assert found["outcome"] == outcome, bound
    assert judged(folder, "save.elapsed < 1.5 s")["outcome"] == "not shown"
    (cell,) = judged(folder, "save.bandwidth >= 0.5 GiB/s")["settings"]
    assert cell["median"] == pytest.approx(GIB * (1 / 1.2 + 1 / 1.3) / 2)
    assert (cell["low"], cell["high"]) == (pytest.approx(GIB / 1.5), pytest.approx(GIB))
    sure = judged(folder, "save.elapsed <= 1.6 s with 99 %")
    assert sure["outcome"] == "not shown", "six repeats have no 99 % interval"
    assert sure["to_do"] == "about 2 more repeats would tell: --repeats 8"


def test_the_repeats_it_asks_for_are_enough(tmp_path):
    few = timed(tmp_path / "few", {("none", 4): [1.0, 1.0, 1.0, 1.0, 1.0, 2.0]})
    text = "save.elapsed <= 1.5 s"
    first = judged(few, text)
    assert first["outcome"] == "not shown"
    n = first["settings"][0]["repeats_that_would_tell"]
    assert n > 6
    wrong = round(n / 6)
    more = timed(tmp_path / "more", {("none", 4): [2.0] * wrong + [1.0] * (n - wrong)})
    assert judged(more, text)["outcome"] == "passed"
    even = timed(tmp_path / "even", {("none", 4): [1.0, 2.0] * 4})
    assert "no number of repeats" in judged(even, text)["to_do"]


def test_the_repeats_that_decide_follow_the_interval():
    level = Confidence(0.95, 0.95)
    assert repeats_to_decide([True] * 3, level) == 6
    assert repeats_to_decide([False] * 3, level) == 6
    for wrong in (1, 2, 3):
        n = repeats_to_decide([False] * wrong + [True] * (10 - wrong), level)
        bad = round(n * wrong / 10)
        assert spread([0] * bad + [1] * (n - bad), 0.95).low == 1
    assert repeats_to_decide([True, False] * 5, level) is None


def test_every_setting_has_to_pass_and_after_any_one_of_them(tmp_path):
    seconds = {("none", 2): [2.0] * 8, ("none", 4): [1.0] * 8}
    folder = timed(tmp_path / "run", seconds)
    every = judged(folder, "save.elapsed <= 1.5 s")
    assert every["outcome"] == "failed"
    assert [cell["outcome"] for cell in every["settings"]].count("passed") == 1
    assert judged(folder, "any save.elapsed <= 1.5 s")["outcome"] == "passed"
    assert judged(folder, "any save.elapsed <= 0.5 s")["outcome"] == "failed"
    assert judged(folder, "save.elapsed <= 1.5 s where streams=4")["outcome"] == "passed"
    assert judged(folder, "save.elapsed <= 2.5 s where streams=2|4")["outcome"] == "passed"
    with pytest.raises(SavemarkError, match="streams is never `8`"):
        judged(folder, "save.elapsed <= 1.5 s where streams=8")


def test_the_best_of_several_has_to_be_surer_for_chance_has_several_tries(tmp_path):
    seconds = {("none", n): [1.0] * 6 for n in (0, 2, 4, 8)}
    folder = timed(tmp_path / "run", seconds)
    assert judged(folder, "save.elapsed <= 1.5 s")["outcome"] == "passed"
    best = judged(folder, "any save.elapsed <= 1.5 s")
    assert best["outcome"] == "not shown", "98.75 % need 8 repeats"
    assert "--repeats 8" in best["to_do"]
    assert Confidence.of(parse("any save.elapsed < 1 s"), 4).passed == pytest.approx(0.9875)
    assert Confidence.of(parse("save.elapsed < 1 s"), 4).failed == pytest.approx(0.9875)


def test_a_blocked_number_never_passes_and_is_not_told(tmp_path):
    made = Made(codecs=("none",), streams=(4,), repeats=8, warm=True)
    folder = make_run(tmp_path / "run", made)
    found = judged(folder, "restore.bandwidth >= 1 MB/s")
    assert found["outcome"] == "blocked"
    assert found["to_do"].startswith("HC-05 forbids the number")
    assert found["settings"][0]["median"] is None
    assert judged(folder, "save.bandwidth >= 1 MB/s")["outcome"] == "passed"
    done = savemark("check", folder, "--expect", "restore.bandwidth >= 1 MB/s")
    assert done.returncode == 1
    assert "1 of 1 expectations could not be shown" in done.stderr


def test_what_no_record_holds_is_not_measured(tmp_path):
    folder = timed(tmp_path / "run", {("none", 4): [1.0] * 6})
    text = (folder / "records.jsonl").read_text().replace('"first_done_ns"', '"unknown_ns"')
    (folder / "records.jsonl").write_text(text)
    found = judged(folder, "first_done.save.bandwidth >= 1 MB/s")
    assert found["outcome"] == "not measured"
    assert found["to_do"] == "nothing that finished holds this"


def test_the_unit_of_the_bound_is_that_of_the_table(tmp_path):
    folder = timed(tmp_path / "run", {("none", 4): [1.0] * 6})
    (table,) = tables(analyse(expecting(read_run(folder), ["save.bandwidth >= 512 MiB/s"])))
    (row,) = [[datum.text for datum in line.data] for line in table.lines]
    assert row[0] == "✓ passed"
    assert row[4:7] == ["1024 MiB/s", "[1024 1024] 95 %", "6"]


def test_levels_are_said_as_people_write_them():
    study = Study(trial={"transfer_size": 2 << 20, "direct": True}, parts={"a b": StudyPart()})
    levels = levels_of(study, {"part": "a b", "codec": None}, "disk")
    for where in ("transfer_size=2MiB", "transfer_size=2097152", "direct=true", "codec=none",
                  "part=a b, target=disk"):  # fmt: skip
        assert parse(f"read.bandwidth >= 1 GB/s where {where}").covers(levels), where
    assert not parse("read.bandwidth >= 1 GB/s where transfer_size=2KiB").covers(levels)


def test_check_and_report_answer_by_their_exit_codes(tmp_path):
    folder = timed(tmp_path / "run", {("none", 4): [1.0] * 6})
    good, bad = "save.elapsed <= 1.5 s", "save.elapsed <= 0.5 s"
    done = savemark("check", folder, "--expect", good)
    assert done.returncode == 0, done.stderr
    assert "✓ passed" in done.stdout
    done = savemark("check", folder, "--expect", good, "--expect", bad)
    assert done.returncode == 3
    assert "error: 1 of 2 expectations failed" in done.stderr
    done = savemark("check", folder, "--json", "--expect", bad)
    assert done.returncode == 3
    (answer,) = json.loads(done.stdout)
    assert [each["outcome"] for each in answer["expected"]] == ["failed"]
    done = savemark("report", folder, "--expect", good, "--expect", bad)
    assert done.returncode == 3
    page = (folder / "report.html").read_text()
    assert page.index("What was expected") < page.index("<h2>The picture")
    assert "Of 2 expectations 1 passed, 1 failed." in page
    assert "What was expected" in (folder / "report.md").read_text()
    assert done.stdout.index("What was expected") < done.stdout.index("ceilings")
    wrong = savemark("check", folder, "--expect", "save.elapsd <= 1 s")
    assert wrong.returncode == 2
    assert "did you mean `save.elapsed`?" in wrong.stderr


REAL = """\
name: small
repeats: 6
checks: {HC-13: {block_below: 0}}
defaults: {storage: memory, size: 16m}
trial: {workload: checkpoint}
factors: {codec: [none], streams: [2]}
expect: [save.bandwidth >= 1 kB/s]
"""


def test_a_study_ends_with_its_pass_or_fail(tmp_path):
    (tmp_path / "mine.yaml").write_text(REAL)
    (tmp_path / "place").mkdir()
    words = ("run", "mine.yaml", "./place")
    done = savemark(*words, "--out", "good", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "✓ passed" in done.stdout
    never = ("--expect", "save.bandwidth >= 900 TB/s")
    done = savemark(*words, *never, "--out", "bad", folder=tmp_path)
    assert done.returncode == 3
    assert "1 of 2 expectations failed" in done.stderr
    head = json.loads((tmp_path / "bad" / "run.json").read_text())
    assert head["study"]["expect"] == ["save.bandwidth >= 1 kB/s", "save.bandwidth >= 900 TB/s"]
    again = savemark("run", "--resume", "bad", *never, folder=tmp_path)
    assert again.returncode == 3, "it says the same study"
    other = savemark("run", "--resume", "bad", "--expect", "save.elapsed < 1 s", folder=tmp_path)
    assert other.returncode == 2
    assert "expect" in other.stderr


TINY = {
    "checkpoint": {"size": 65536},
    "sequential": {"size": 65536, "transfer_size": 4096},
    "random": {"size": 65536, "operations": 8},
    "shared_file": {"block_size": 4096, "transfer_size": 4096},
    "file_per_process": {"block_size": 4096, "transfer_size": 4096},
    "metadata": {"items": 4},
    "iterate": {"side": 16, "iterations": 2, "every": 1},
    "codec": {"codec": "lz4", "size": 65536, "storage": "null"},
    "memcpy": {"size": 4 << 20, "storage": "null"},
}
# Which need more than a directory or a moment; metrics.PHASES has their phases, too.
MORE = {"process", "strided", "copy", "io500"}


def test_every_phase_of_the_engine_can_be_named(tmp_path):
    import savemark._engine as engine

    assert set(json.loads(engine.schema())["workloads"]) <= set(TINY) | MORE
    for workload, own in TINY.items():
        place = {"target": str(tmp_path), "storage": "posix", "direct": False}
        trial = {"workload": workload, **place, **own}
        if trial["storage"] == "null":
            del trial["direct"], trial["target"]
        record = json.loads(engine.Engine().run(json.dumps(trial)))
        known = {*metrics.PHASES, "prepare"}
        assert {phase["name"] for phase in record["phases"]} <= known, workload


def test_the_least_repeats_are_those_of_the_surest_line(keys, tmp_path):
    from savemark.study.load import load

    (tmp_path / "mine.yaml").write_text(STUDY + "- save.elapsed < 1 s\n")
    assert least_repeats(load(tmp_path / "mine.yaml", keys)) == 6
    assert Outcome.PASSED == "passed"
