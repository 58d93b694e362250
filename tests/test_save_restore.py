"""`savemark save`, `restore`, `verify`, `list`, `clean`: files, with the real engine."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from waiting import until

PARTIAL = "0123456789abcdef-00000001"


@pytest.fixture
def savemark(start, io):
    def savemark(*words):
        options = io if words[0] in ("save", "restore", "verify") else []
        process = start(*words, *options)
        out, err = process.communicate(timeout=300)
        assert "Traceback" not in err, err
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    return savemark


@pytest.fixture
def io(tmp_path):
    """The options with which this filesystem can be used."""
    from savemark import _engine

    target = json.loads(_engine.host(str(tmp_path)))["target"]
    uring = {f["name"]: f["available"] for f in json.loads(_engine.features())}["io_uring"]
    if target["class"] == "memory":
        return ["--storage", "posix", "--no-direct"]
    return [] if uring else ["--storage", "posix"]


@pytest.fixture
def model(tmp_path):
    """A directory of files: large, small, empty, in subdirectories, with modes."""
    path = tmp_path / "model"
    (path / "layers" / "empty").mkdir(parents=True)
    (path / "weights.bin").write_bytes(os.urandom(5_000_001))
    (path / "layers" / "0").write_bytes(b"\0" * 70_000)
    (path / "layers" / "none").touch()
    (path / "config.json").write_text("{}")
    (path / "run.sh").write_text("#!/bin/sh\n")
    (path / "run.sh").chmod(0o750)
    return path


def tree(path):
    """Everything below a directory: names, modes, contents."""
    return {
        str(found.relative_to(path)): (
            found.stat().st_mode,
            found.read_bytes() if found.is_file() else None,
        )
        for found in path.rglob("*")
    }


def shards(path):
    return sorted(path.glob("shard-*"))


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


def slow(tmp_path):
    """A state whose save takes seconds."""
    big = tmp_path / "big"
    big.mkdir()
    with (big / "file").open("wb") as file:
        file.write(os.urandom(1 << 20) * 200)
    return big


def wait_for_new_shard(place, known):
    def begun():
        with suppress(FileNotFoundError):  # a folder is renamed when it is looked at
            return any(s.stat().st_size > 0 for s in set(place.rglob("shard-*")) - known)

    until(begun)


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


def test_keep_removes_old_ones_but_nothing_else(savemark, model, tmp_path):
    place = tmp_path / "place"
    for number in range(4):
        (model / "config.json").write_text(f"{number}")
        done = savemark("save", model, "place", "--keep", "2")
        assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in place.iterdir())
    assert len(names) == 2
    name = r"\d{8}-\d{8}T\d{6}\.\d{6}Z-savemark"
    assert all(re.fullmatch(name, found) for found in names)
    assert [found[:8] for found in names] == ["00000003", "00000004"]
    assert "removed     " in done.stdout
    restored = savemark("restore", "place", "out")
    assert f"from {names[-1]}" in restored.stdout
    assert (tmp_path / "out" / "config.json").read_text() == "3"

    # The newest is damaged: the one before is restored, and stays whatever --keep says.
    shards(place / names[-1])[0].unlink()
    assert names[0] in savemark("restore", "place", "out2").stdout
    listed = savemark("list", "place").stdout
    assert "damaged" in listed
    assert "complete" in listed
    (place / names[0] / "note").write_text("mine")
    savemark("save", model, "place", "--keep", "1")
    assert (place / names[0] / "note").read_text() == "mine"
    assert (place / names[1]).exists(), "a damaged one is left to be looked at"


FUTURE = "21060101T000000.000000Z-savemark"


def test_a_clock_that_went_back_loses_nothing(savemark, model, tmp_path):
    """The checkpoints that are there were saved by a clock far ahead of this one."""
    place = tmp_path / "place"
    savemark("save", model, "place", "--keep", "3")
    (found,) = place.iterdir()
    before = FUTURE
    found.rename(place / before)  # as it was named before names had a number
    for number in range(3):
        (model / "config.json").write_text(f"{number}")
        done = json.loads(savemark("save", model, "place", "--keep", "1", "--json").stdout)
        made = Path(done["checkpoint"])
        assert [path.name for path in place.iterdir()] == [made.name]
        assert done["removed"] == [before]
        assert savemark("restore", "place", f"out{number}").returncode == 0
        assert (tmp_path / f"out{number}" / "config.json").read_text() == f"{number}"
        # The next clock is behind this one by a century.
        before = f"{made.name[:8]}-{FUTURE}"
        (tmp_path / made).rename(place / before)


def test_names_are_ordered_by_their_number_then_by_their_time(savemark, model, tmp_path):
    place = tmp_path / "place"
    early, late = "20250101T000000.000000Z-savemark", FUTURE
    names = [early, late, f"00000007-{late}", f"00000008-{early}", f"00000008-{late}"]
    names.append(f"123456789-{early}")
    for name in names:
        savemark("save", model, place / name)
    listed = json.loads(savemark("list", "place", "--json").stdout)
    assert [row["name"] for row in listed] == names
    assert names[-1] in savemark("verify", "place").stdout
    done = json.loads(savemark("save", model, "place", "--keep", "3", "--json").stdout)
    made = Path(done["checkpoint"]).name
    assert made.startswith("123456790-")
    assert done["removed"] == names[:4]
    assert sorted(path.name for path in place.iterdir()) == sorted([*names[4:], made])


def test_nothing_is_removed_where_the_new_one_is_not_found_complete(
    savemark, model, tmp_path, run, monkeypatch, io
):
    """A storage that loses what it said was durable."""
    from savemark import _engine

    savemark("save", model, "place", "--keep", "1")
    before = tree(tmp_path / "place")
    real = _engine.save_tree

    def lost(trial, *others):
        done = real(trial, *others)
        Path(json.loads(trial)["target"], "manifest.json").unlink()
        return done

    monkeypatch.setattr(_engine, "save_tree", lost)
    code, _, err = run("save", model, tmp_path / "place", "--keep", "1", *io)
    assert code == 1
    assert "nothing older was removed" in err
    assert before.items() <= tree(tmp_path / "place").items()


def test_what_an_unknown_manifest_names_is_no_leftover(savemark, model, tmp_path):
    savemark("save", model, "place", "--keep", "1")
    (found,) = (tmp_path / "place").iterdir()
    manifest = found / "manifest.json"
    manifest.write_bytes(b"\0" + manifest.read_bytes()[1:])
    before = tree(found)
    assert savemark("save", model, "place", "--keep", "1").returncode == 0
    savemark("clean", "place")
    assert tree(found) == before


def test_clean_takes_what_killed_saves_left_in_a_place(start, savemark, io, model, tmp_path):
    savemark("save", model, "place", "--keep", "2")
    place = tmp_path / "place"
    before = tree(place)
    process = start("save", slow(tmp_path), "place", "--keep", "2", "--codec", "gzip", *io)
    wait_for_new_shard(place, set(place.rglob("shard-*")))
    process.kill()
    process.communicate()
    assert "interrupted" in savemark("list", "place").stdout
    (tmp_path / f"place.partial-{PARTIAL}").mkdir()
    done = savemark("clean", "place")
    assert done.returncode == 0, done.stderr
    assert "-savemark/shard-" in done.stdout
    assert tree(place) == before
    assert not list(tmp_path.glob("place.partial-*"))


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
        (["save", "{model}", "ck", "--chunk-size", "4kB"], "4KiB"),
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
