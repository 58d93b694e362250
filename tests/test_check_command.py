"""`savemark check`, `--show-blocked`, and the limits that a study sets."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from made_run import Made, make_run
from savemark import report
from savemark.errors import SavemarkError

SMALL = {"codecs": ("none", "zstd"), "streams": (0, 4), "repeats": 2}
CSV = "compression,streams,checkpoint_time,restore_time,total_time,timestamp,run_number\n"


def savemark(*words):
    command = [sys.executable, "-m", "savemark", *map(str, words)]
    wide = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=wide
    )


@pytest.fixture
def healthy(tmp_path):
    return make_run(tmp_path / "healthy", Made(**SMALL))


@pytest.fixture
def warm(tmp_path):
    return make_run(tmp_path / "warm", Made(**SMALL, warm=True))


def test_check_prints_what_fired_and_counts_the_rest(healthy, warm):
    done = savemark("check", healthy, warm)
    assert done.returncode == 0, done.stderr
    assert "HC-05   BLOCK" in done.stdout
    assert "invalid: HC-05 restores were not cold" in done.stdout
    assert "checks found nothing" in done.stdout
    assert "HC-02" not in done.stdout
    assert "HC-02   ok" in savemark("check", "--all", healthy).stdout


def test_strict_makes_an_invalid_run_an_error(healthy, warm):
    assert savemark("check", "--strict", healthy).returncode == 0
    assert savemark("check", "--strict", healthy, warm).returncode == 1


def test_check_as_json(warm):
    (judged,) = json.loads(savemark("check", "--json", warm).stdout)
    assert judged["valid"] is False
    found = {finding["id"]: finding for finding in judged["findings"]}
    assert found["HC-05"]["verdict"] == "BLOCK"
    assert {"label": "scratch", "setting": "zstd × 4", "phase": "restore"} in found["HC-05"][
        "blocks"
    ]
    assert found["HC-02"]["verdict"] == "ok"


def test_check_reads_result_files_as_import_does(tmp_path):
    file = tmp_path / "5_runs_s3_gpu.csv"
    file.write_text(CSV + "none,0,7.03,28.52,35.55,2026-01-27T15:11:27+00:00,1\n")
    done = savemark("check", file)
    assert done.returncode == 0, done.stderr
    assert "HC-01   FLAG" in done.stdout
    assert "HC-11   FLAG" in done.stdout
    assert "(Also HC-07" in done.stdout
    assert not [path for path in tmp_path.iterdir() if path != file]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no run to check"),
        (["nowhere"], "nowhere: No such file"),
        (["empty"], "empty: there is no file in it"),
        (["empty"], "a run (it has a run.json)"),
        (["other"], "none of 1 files is a result file that savemark knows"),
    ],
)
def test_check_says_what_it_cannot_read(tmp_path, monkeypatch, words, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.md").write_text("# what we did\n")
    monkeypatch.chdir(tmp_path)
    done = savemark("check", *words)
    assert done.returncode == 2
    assert message in done.stderr


DATA = Path(__file__).parent / "data"


def test_a_folder_of_result_files_is_judged_without_a_trace(tmp_path):
    folder = tmp_path / "results"
    (folder / "deep").mkdir(parents=True)
    shutil.copy(DATA / "ior/text.txt", folder / "deep" / "ior.txt")
    shutil.copy(DATA / "io500/result_summary.txt", folder / "result_summary.txt")
    (folder / "notes.md").write_text("# what we did\n")
    before = sorted(tmp_path.rglob("*"))
    done = savemark("check", folder, "--json")
    assert done.returncode == 0, done.stderr
    (judged,) = json.loads(done.stdout)
    assert judged["checked"] == str(folder)
    found = {finding["id"]: finding for finding in judged["findings"]}
    assert found["HC-25"]["verdict"] == "BLOCK"
    assert "[INVALID]" in found["HC-25"]["evidence"]
    assert "1 of 3 files are not judged" in done.stderr
    assert "notes.md" in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_of_runs_is_each_of_them(healthy, warm, tmp_path):
    judged = json.loads(savemark("check", tmp_path, "--json").stdout)
    assert [each["checked"] for each in judged] == [str(healthy), str(warm)]
    assert [each["valid"] for each in judged] == [True, False]


def test_runs_and_folders_of_files_are_judged_apart(healthy, tmp_path):
    (tmp_path / "results").mkdir()
    shutil.copy(DATA / "fio/randread.json", tmp_path / "results" / "a.json")
    done = savemark("check", healthy, tmp_path / "results", DATA / "ior/text.txt", "--json")
    judged = json.loads(done.stdout)
    files = f"{tmp_path / 'results'}, {DATA / 'ior/text.txt'}"
    assert [each["checked"] for each in judged] == [str(healthy), files]


def test_the_catalogue_is_listed():
    listed = json.loads(savemark("check", "--list", "--json").stdout)
    assert {"id", "title", "rule", "verdict", "applies", "limits"} == set(listed[0])
    assert "HC-33" in savemark("check", "--list").stdout


@pytest.mark.parametrize("shown", [False, True])
def test_blocked_numbers_are_nowhere_unless_asked_for(warm, shown):
    report.build(warm, show_blocked=shown)
    summary = report.summary(warm, show_blocked=shown)
    cell = summary["cells"][0]
    assert cell["restore_blocked_by"] == "HC-05"
    assert (cell["restore_s_median"] is not None) == shown
    assert (cell["total_s_median"] is not None) == shown
    assert cell["save_s_median"] is not None
    seconds = report.summary(warm, show_blocked=True)["cells"][0]["restore_user_bytes_per_s"]
    rate = f"{seconds / 1e9:.2f}"
    row = f"| {cell['setting']} |"
    lines = (warm / "report.md").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith(row) and "blocked by HC-05" in line]
    assert (f"| {rate} |" in line) == shown


def test_show_blocked_on_a_terminal(warm):
    assert "forbids" not in savemark("report", warm).stdout
    assert "HC-05 forbids: restore of" in savemark("report", "--show-blocked", warm).stdout


STUDY = "trial: {workload: checkpoint}\nchecks: "


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        ("{HC-99: {seconds: 1}}", "no check with a limit to set"),
        ("{HC-13: {second: 1}}", "unknown key `second`"),
        ("{HC-13: {seconds: long}}", "expected a number"),
        ("{HC-13: {seconds: -1}}", "at least 0"),
        ("{HC-13: 5}", "expected a mapping"),
    ],
)
def test_wrong_limits_name_their_place(tmp_path, checks, message):
    from savemark.study.keys import Keys
    from savemark.study.load import load

    file = Path(tmp_path, "study.yaml")
    file.write_text(STUDY + checks + "\n")
    with pytest.raises(SavemarkError, match=message) as caught:
        load(file, Keys.load())
    assert f"{file}:2" in caught.value.message


def test_limits_reach_the_study_and_come_back(tmp_path):
    from savemark.study.keys import Keys
    from savemark.study.load import load
    from savemark.study.model import Study

    file = Path(tmp_path, "study.yaml")
    file.write_text(STUDY + "{HC-13: {seconds: 300}}\n")
    study = load(file, Keys.load())
    assert study.checks == {"HC-13": {"seconds": 300.0}}
    assert Study.from_json(study.as_json()) == study
    old = study.as_json()
    del old["checks"]
    assert Study.from_json(old).checks == {}
