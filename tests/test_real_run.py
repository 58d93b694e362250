"""`savemark run` with the real engine, on whatever filesystem the tests run on."""

import json
import os
import signal
from pathlib import Path

import pytest

from waiting import records, until

SMALL = ["--size", "16m", "--codec", "none,zstd", "--streams", "0,2"]
TRIALS = 4 + 4 + 2  # settings, what the look measures, and what bounds the settings


@pytest.fixture
def savemark(to_its_end):
    return to_its_end


@pytest.fixture
def storage(place):
    """The options with which this filesystem can be measured."""
    from savemark import _engine

    target = json.loads(_engine.host(str(place)))["target"]
    uring = {f["name"]: f["available"] for f in json.loads(_engine.features())}["io_uring"]
    if target["class"] == "memory":
        return ["--storage", "posix", "--no-direct"]
    return [] if uring else ["--storage", "posix"]


def test_shipped_studies_resolve():
    from savemark.study.keys import Keys
    from savemark.study.load import load
    from savemark.study.plan import validate
    from savemark.study.shipped import shipped

    keys = Keys.load()
    for file in shipped().values():
        validate(load(file, keys), keys, [("x", "/somewhere")])


def test_quick_from_end_to_end(savemark, place, storage, tmp_path):
    done = savemark("run", place, "--out", "out", "--repeats", "2", *SMALL, *storage)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    lines = records(out)
    assert len(lines) == 2 * TRIALS
    assert {line["status"] for line in lines} == {"ok"}
    assert (out / "report.html").stat().st_size < 3 << 20
    assert any(f"none × {streams}" in done.stdout for streams in (0, 2)), done.stdout
    assert done.stdout.splitlines()[-1] == "report      out/report.html"
    assert not list(place.iterdir())

    before = (out / "report.md").read_text()
    assert savemark("report", "out").returncode == 0
    assert (out / "report.md").read_text() == before, "rebuilt from the records alone"
    summary = json.loads(savemark("report", "out", "--json").stdout)
    assert summary


def test_kill_9_and_resume(start, savemark, place, storage, tmp_path):
    process = start("run", place, "--out", "out", "--repeats", "3", *SMALL, *storage)
    until(lambda: len(records(tmp_path / "out")) >= 5)
    process.kill()
    process.communicate()
    kept = records(tmp_path / "out")
    assert list(place.iterdir()), "killed in the middle: its folder is still there"
    done = savemark("run", "--resume", "out")
    assert done.returncode == 0, done.stderr
    lines = records(tmp_path / "out")
    assert lines[: len(kept)] == kept
    assert sorted(line["index"] for line in lines) == list(range(3 * TRIALS))
    assert not list(place.iterdir())


def test_ctrl_c_inside_the_engine(start, place, storage, tmp_path):
    words = ["--size", "256m", "--codec", "gzip", "--streams", "0", "--repeats", "9"]
    process = start("run", place, "--out", "out", *words, *storage)
    until(lambda: records(tmp_path / "out"))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "savemark run --resume out" in err
    assert not list(place.iterdir())


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="needs a tmpfs at /dev/shm")
def test_a_tmpfs_is_refused_with_the_fix(savemark, tmp_path):
    place = Path("/dev/shm") / f"savemark-test-{os.getpid()}"
    place.mkdir()
    try:
        done = savemark("run", place)
        assert done.returncode == 5
        assert "refuses O_DIRECT" in done.stderr
        assert "--no-direct" in done.stderr.split("hint: ")[1]
        assert not list(place.iterdir())
        assert not (tmp_path / "savemark-runs").exists()
    finally:
        place.rmdir()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--size", "4kb"], "4KiB"),
        (["--codec", "zsdt"], "did you mean `zstd`?"),
        (["--codec", "zstd", "--level", "99"], "level"),
        (["--storage", "posix", "--fixed-buffers", "on"], "uring"),
        (["--strems", "4"], "--streams"),
    ],
)
def test_misspelt_options_name_the_right_one(savemark, place, words, message):
    done = savemark("run", place, *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_directory_as_the_state(savemark, place, storage, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    (model / "weights.bin").write_bytes(os.urandom(3 << 20))
    (model / "config.json").write_text("{}")
    words = [
        "--state",
        model,
        "--codec",
        "tar",
        "--streams",
        "0",
        "--repeats",
        "1",
        "--size",
        "16m",
    ]
    done = savemark("run", place, "--out", "out", *words, *storage)
    assert done.returncode == 0, done.stderr
    (saved,) = [line["record"] for line in records(tmp_path / "out") if line["role"] == "trial"]
    assert saved["trial"]["state"] == str(model)
    assert saved["phases"][0]["user_bytes"] >= 3 << 20


@pytest.mark.parametrize(
    ("typed", "shown"), [("./place", "{}"), ("{}", "{}"), ("nvme=./place", "nvme={}")]
)
def test_a_header_says_a_label_only_where_it_is_one(place, monkeypatch, typed, shown):
    from savemark.cli._words import _place
    from savemark.run.target import parse

    monkeypatch.chdir(place.parent)
    (target,) = parse((typed.format(place),))[1]
    assert _place(target).startswith(f"{shown.format(place)} (")
