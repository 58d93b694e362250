"""`savemark save`, `restore`, `verify`, `list`, `clean`: files, with the real engine."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from saved_trees import shards, slow, tree, wait_for_new_shard


@pytest.fixture
def savemark(real_savemark):
    return real_savemark


@pytest.mark.parametrize("codec", ["none", "tar", "lz4", "zstd"])
@pytest.mark.parametrize("streams", ["0", "3"])
def test_a_tree_comes_back(savemark, model, tmp_path, codec, streams):
    saved = savemark("save", model, "ck", "--codec", codec, "--streams", streams)
    assert saved.returncode == 0, saved.stderr
    assert re.match(r"saved 4\.8 MiB in [\d.]+ m?s · [\d.]+ [kMG]B/s · " + codec, saved.stdout)
    assert saved.stderr == "", "no bar where nobody watches"
    assert "every byte" in savemark("verify", "ck").stdout
    restored = savemark("restore", "ck", "out")
    assert restored.returncode == 0, restored.stderr
    assert tree(tmp_path / "out") == tree(model)
    assert not list(tmp_path.glob("out.partial-*"))


def test_one_file_comes_back_in_a_directory(savemark, model, tmp_path):
    assert savemark("save", model / "config.json", "ck").returncode == 0
    assert savemark("restore", "ck", "out").returncode == 0
    assert tree(tmp_path / "out").keys() == {"config.json"}


def test_reports_are_json(savemark, model):
    saved = json.loads(savemark("save", model, "ck", "--codec", "zstd", "--json").stdout)
    assert saved["codec"] == "zstd"
    assert saved["user_bytes"] == 5_070_013
    assert saved["buffer_bytes"] <= 256 << 20
    (row,) = json.loads(savemark("list", "ck", "--json").stdout)
    assert (row["status"], row["user_bytes"]) == ("complete", 5_070_013)
    assert row["saved_at"].startswith("20")
    failed = savemark("restore", "nowhere", "out", "--json")
    assert failed.returncode == 2
    assert json.loads(failed.stdout)["error"]["kind"] == "usage"


def test_damage_is_found_and_leaves_nothing_behind(savemark, model, tmp_path):
    savemark("save", model, "ck")
    shard = max(shards(tmp_path / "ck"), key=lambda path: path.stat().st_size)
    data = bytearray(shard.read_bytes())
    data[5000] ^= 1
    shard.write_bytes(data)
    for words in (["verify", "ck"], ["restore", "ck", "out"]):
        done = savemark(*words)
        assert done.returncode == 4
        assert shard.name in done.stderr
        assert "offset" in done.stderr
    assert not list(tmp_path.glob("out*"))
    shard.unlink()
    assert "damaged" in savemark("list", "ck").stdout
    (tmp_path / "ck" / "manifest.json").write_text('{"format":"savemark-checkpoint","version":1,')
    assert savemark("verify", "ck").returncode == 4
    assert savemark("save", model, "ck").returncode == 0, "a damaged one may be replaced"
    assert savemark("verify", "ck").returncode == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_stopped_save_leaves_the_previous_checkpoint(
    start, savemark, io, model, tmp_path, number
):
    savemark("save", model, "ck")
    known = set(shards(tmp_path / "ck"))
    process = start("save", slow(tmp_path), "ck", "--codec", "gzip", "--level", "9", *io)
    wait_for_new_shard(tmp_path / "ck", known)
    process.send_signal(number)
    _, err = process.communicate(timeout=300)
    if number == signal.SIGKILL:
        shown = savemark("clean", "ck", "--dry-run").stdout
        assert "would remove  shard-" in shown
        assert "left by an interrupted save" in savemark("list", "ck").stdout
        assert len(shards(tmp_path / "ck")) > len(known)
        assert "removed  shard-" in savemark("clean", "ck").stdout
    else:
        assert process.returncode == 130, err
    assert set(shards(tmp_path / "ck")) == known
    assert savemark("clean", "ck").stdout == "nothing to remove\n"
    assert savemark("restore", "ck", "out").returncode == 0
    assert tree(tmp_path / "out") == tree(model)


def test_foreign_places_are_refused(savemark, model, tmp_path):
    mine = tmp_path / "mine"
    (mine / "sub").mkdir(parents=True)
    (mine / "sub" / "notes").write_text("mine")
    savemark("save", model, "ck")
    savemark("save", model, "place", "--keep", "1")
    (tmp_path / "file").touch()
    before = tree(mine)
    for words, word in [
        (["save", model, mine], "sub"),
        (["save", model, mine / "sub"], "notes"),
        (["save", model, mine, "--keep", "1"], "sub"),
        (["save", model, "ck", "--keep", "1"], "itself a checkpoint"),
        (["save", model, "place"], "--keep"),
        (["save", model, "file"], "not a directory"),
        (["restore", "ck", mine], "not empty"),
    ]:
        done = savemark(*words)
        assert done.returncode == 5, (words, done.stderr)
        assert word in done.stderr
        assert "hint: " in done.stderr
    assert tree(mine) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["save", "{model}", "ck", "--codec", "zsdt"], "did you mean `zstd`?"),
        (["save", "{model}", "ck", "--codec", "zstd", "--level", "99"], "its levels are"),
        (["save", "{model}", "ck", "--chunk-size", "4kb"], "4KiB"),
        (["save", "{model}", "ck", "--storage", "null"], "keeps nothing"),
        (["save", "nowhere", "ck"], "nowhere"),
        (["save", "{model}", "gopher://bucket/ck"], "s3://, gs:// and az://"),
        (["verify", "ck"], "no checkpoint"),
        (["clean", "ck"], "no directory ck"),
    ],
)
def test_wrong_words_are_told_and_make_nothing(start, model, tmp_path, words, message):
    process = start(*(word.format(model=model) for word in words))
    _, err = process.communicate(timeout=300)
    assert process.returncode in (1, 2), err
    assert message in err
    assert not (tmp_path / "ck").exists()


def test_a_link_in_the_state_is_refused(savemark, model, tmp_path):
    (model / "link").symlink_to("/etc/passwd")
    done = savemark("save", model, "ck")
    assert done.returncode == 2
    assert "cp -rL" in done.stderr
    assert not (tmp_path / "ck").exists()


def test_two_saves_do_not_meet(start, savemark, io, model, tmp_path):
    process = start("save", slow(tmp_path), "ck", "--codec", "gzip", "--level", "9", *io)
    (tmp_path / "ck").mkdir(exist_ok=True)
    wait_for_new_shard(tmp_path / "ck", set())
    second = savemark("save", model, "ck")
    assert second.returncode == 5
    assert "under way" in second.stderr
    assert savemark("clean", "ck").returncode == 5
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_memory_does_not_grow_with_the_state(tmp_path, io):
    """2 GiB, sparse, through a few MiB of buffers."""
    big = tmp_path / "big"
    big.mkdir()
    with (big / "file").open("wb") as file:
        file.truncate(2 << 30)
    script = (
        "import sys, savemark.cli\n"
        "try: savemark.cli.main(sys.argv[1:])\n"
        "except SystemExit as stop: assert not stop.code, stop.code\n"
        "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
    )
    peaks = []
    for words in (["save", big, "ck", "--codec", "lz4"], ["restore", "ck", "out"]):
        done = subprocess.run(
            [sys.executable, "-c", script, *map(str, words), *io],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        peaks.append(int(done.stdout.split()[-1]) >> 10)
    assert max(peaks) < 256, f"{peaks} MiB"
    assert (tmp_path / "out" / "file").stat().st_size == 2 << 30


def test_a_place_inside_its_source_is_refused(savemark, model, tmp_path):
    """The checkpoint would be saved with what it is a checkpoint of."""
    before = tree(model)
    (tmp_path / "link").symlink_to(model)
    for words in (
        [model, model / "ck"],
        [model, model],
        [model, "link/deep/ck"],
        [tmp_path / "link", f"file://{model}/ck", "--keep", "2"],
        [tmp_path, tmp_path / "ck"],
    ):
        done = savemark("save", *words)
        assert done.returncode == 2, words
        assert "lies inside" in done.stderr
    assert tree(model) == before
    assert savemark("save", model, "model-ck").returncode == 0
    done = savemark("restore", "model-ck", "model-ck/out")
    assert done.returncode == 2
    assert "lies inside" in done.stderr


def test_a_source_that_is_not_there_is_a_usage_error(savemark, tmp_path):
    done = savemark("save", "nomodel", "ck9")
    assert done.returncode == 2
    assert "there is no file or directory nomodel" in done.stderr
    assert "hint: check the path" in done.stderr
    assert not (tmp_path / "ck9").exists()


def test_a_name_that_is_no_text_is_refused_by_it(tmp_path, model):
    words = [
        sys.executable,
        "-m",
        "savemark",
        "save",
        os.fspath(model),
        os.fsencode("ck") + b"\xff",
    ]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert r"'ck\udcff' is not UTF-8" in done.stderr
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "caf\udce9").mkdir()
    done = subprocess.run(
        [*words[:-1], "full"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 5, done.stderr
    assert "it holds caf" in done.stderr


def test_list_shows_a_checkpoint_whose_time_is_unknown(run, model, tmp_path, monkeypatch, io):
    """Its id, which has the time, is not one of ours."""
    from savemark import _engine

    run("save", model, tmp_path / "ck", *io)
    found = json.loads(_engine.contents(json.dumps({"storage": "posix", "direct": False,
        "workload": "checkpoint", "target": str(tmp_path / "ck")})))  # fmt: skip
    found["checkpoint"]["saved_unix_ns"] = None
    monkeypatch.setattr(_engine, "contents", lambda trial: json.dumps(found))
    code, out, _ = run("list", tmp_path / "ck")
    assert code == 0
    assert re.match(r"ck  complete     -  +4.8 MiB", out)


def test_list_of_a_directory_of_checkpoints_names_them(savemark, model, tmp_path):
    for name in ("b", "a"):
        savemark("save", model, tmp_path / "all" / name)
    savemark("save", model, tmp_path / "all" / "kept", "--keep", "2")
    (tmp_path / "all" / "empty").mkdir()
    (tmp_path / "all" / "notes").mkdir()
    (tmp_path / "all" / "notes" / "mine").touch()
    rows = json.loads(savemark("list", "all", "--json").stdout)
    assert [(row["name"], row["status"]) for row in rows[:2]] == [
        ("a", "complete"),
        ("b", "complete"),
    ]
    assert [row["name"][:14] for row in rows[2:]] == ["kept/00000001-"]
    assert savemark("restore", "all", "out").returncode == 2, "which one, nobody said"
    assert "name one of those" in savemark("verify", "all").stderr


def test_list_of_a_directory_above_checkpoints_says_so(savemark, model, tmp_path):
    savemark("save", model, tmp_path / "runs" / "step-100")
    shown = savemark("list", "runs")
    assert shown.stdout.startswith("step-100  complete")
    assert shown.stderr == "note: runs is no checkpoint; these are one level below it\n"
    assert savemark("list", "runs/step-100").stderr == ""
    assert savemark("list", "runs", "--json").stderr == ""


@pytest.mark.parametrize(
    "words",
    [
        ["save", "nomodel", "ck"],
        ["restore", "nowhere", "out"],
        ["verify", "nowhere"],
        ["list", "nowhere"],
        ["clean", "nowhere"],
        ["report", "nowhere"],
        ["export", "nowhere"],
        ["check", "nowhere"],
        ["compare", "nowhere", "nowhere"],
        ["gate", "nowhere", "--baseline", "nowhere"],
        ["advise", "nowhere"],
        ["import", "nowhere"],
        ["io500", "nowhere"],
        ["doctor", "nowhere"],
        ["run", "./nowhere"],
        ["run", "--resume", "nowhere"],
    ],
    ids=" ".join,
)
def test_a_path_that_is_not_there_exits_with_2_and_makes_nothing(run, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(*words)
    assert code == 2, err
    assert "nowhere" in err or "nomodel" in err
    assert not list(tmp_path.iterdir())
