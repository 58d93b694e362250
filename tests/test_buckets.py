"""`savemark save`, `restore`, `verify`, `list`, `clean` and the Python API in a bucket.

The server is the small one of the tests, and where they are installed MinIO and versitygw.
"""

import json
import os
import shutil
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import s3_real
import s3_server
from waiting import until

OLD = "shard-18e9e1188022315b-00001529-0000"


@pytest.fixture(params=["small", "minio", "versitygw"])
def server(request, tmp_path):
    """A server with an empty bucket called `bucket`, and the variables that lead to it."""
    if request.param != "small":
        with s3_real.start(request.param, tmp_path) as variables:
            yield variables
        return
    small = s3_server.start()
    yield s3_real.variables(small.server_port)
    small.shutdown()
    small.server_close()


@pytest.fixture
def start(server, tmp_path):
    """Starts a command with the server in its environment."""
    return lambda *words: s3_real.popen(words, server, tmp_path)


@pytest.fixture
def run(server, tmp_path):
    return lambda *words: s3_real.run(words, server, tmp_path)


@pytest.fixture
def savemark(run):
    return lambda *words: run(sys.executable, "-m", "savemark", *words)


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model"
    (path / "deep").mkdir(parents=True)
    (path / "weights.bin").write_bytes(os.urandom(13 << 20))
    (path / "deep" / "small.txt").write_text("three")
    (path / "empty").touch()
    return path


def tree(path):
    return {str(f.relative_to(path)): f.read_bytes() for f in path.rglob("*") if f.is_file()}


def good(done):
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "options",
    [[], ["--codec", "zstd", "--streams", "1", "--part-size", "5m", "--concurrency", "2"]],
)
def test_files_come_back_from_a_bucket(savemark, model, tmp_path, options):
    url = "s3://bucket/runs/ck"
    assert "durable" in good(savemark("save", model, url, *options))
    assert "every byte is what was saved" in good(savemark("verify", url))
    assert good(savemark("list", url)).startswith("ck  complete")
    good(savemark("restore", url, "again"))
    assert tree(tmp_path / "again") == tree(model)
    assert good(savemark("clean", url, "--older-than", "0s")) == "nothing to remove\n"
    # The next one replaces it, and leaves nothing of it.
    (model / "deep" / "small.txt").write_text("four")
    good(savemark("save", model, url))
    good(savemark("restore", url, "second"))
    assert tree(tmp_path / "second") == tree(model)
    assert good(savemark("clean", url, "--older-than", "0s")) == "nothing to remove\n"


def test_the_newest_complete_ones_stay(savemark, model, tmp_path):
    url = "s3://bucket/kept"
    names = []
    for number in range(3):
        (model / "deep" / "small.txt").write_text(str(number))
        done = json.loads(good(savemark("save", model, url, "--keep", "2", "--json")))
        names.append(done["checkpoint"].rsplit("/", 1)[-1])
    assert done["removed"] == names[:1]
    listed = json.loads(good(savemark("list", url, "--json")))
    assert [row["name"] for row in listed] == names[1:]
    assert {row["status"] for row in listed} == {"complete"}
    assert names[-1] in good(savemark("restore", url, "newest"))
    assert tree(tmp_path / "newest") == tree(model)
    refusal = savemark("save", model, url)
    assert refusal.returncode == 5
    assert "--keep" in refusal.stderr
    refusal = savemark("save", model, f"{url}/{names[-1]}", "--keep", "1")
    assert refusal.returncode == 5
    assert "is itself a checkpoint" in refusal.stderr


def test_a_killed_save_leaves_the_previous_one_and_clean_takes_its_parts(
    start, savemark, model, tmp_path
):
    url = "s3://bucket/ck"
    good(savemark("save", model, url))
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(4 << 30)
    process = start(sys.executable, "-m", "savemark", "save", large, url, "--part-size", "5m")
    until(lambda: "unfinished upload" in savemark("clean", url, "--dry-run").stdout)
    process.kill()
    process.communicate()
    time.sleep(0.5)  # the server ends what it has begun
    told = good(savemark("clean", url))
    assert "removed" not in told
    assert "its save did something" in told
    assert "--older-than 0s" in told
    told = good(savemark("clean", url, "--older-than", "0s", "--dry-run"))
    assert "would remove" in told
    left = json.loads(good(savemark("clean", url, "--older-than", "0s", "--json")))
    assert any(file["upload"] for file in left["removed"])
    assert left["left"] == []
    assert good(savemark("clean", url, "--older-than", "0s")) == "nothing to remove\n"
    good(savemark("restore", url, "again"))
    assert tree(tmp_path / "again") == tree(model)


@pytest.fixture
def sync(run, server):
    """`aws s3 sync`, up to three times: a loaded server's late `100 Continue` makes it give up."""
    aws = s3_real.tool("aws")

    def sync(source, destination):
        words = ["--endpoint-url", server["AWS_ENDPOINT_URL"], "s3", "sync", "--no-progress"]
        for _ in range(3):
            done = run(aws, *words, source, destination)
            if done.returncode == 0:
                return
        good(done)

    return sync


def test_a_checkpoint_can_be_copied_with_aws_in_both_directions(sync, savemark, model, tmp_path):
    good(savemark("save", model, "s3://bucket/up", "--codec", "lz4"))
    sync("s3://bucket/up", "down")
    assert "every byte" in good(savemark("verify", "down"))
    sync("down", "s3://bucket/second")
    good(savemark("restore", "s3://bucket/second", "again"))
    assert tree(tmp_path / "again") == tree(model)


def test_a_checkpoint_can_be_copied_with_rclone(run, savemark, server, model, tmp_path):
    rclone = s3_real.tool("rclone")
    remote = f":s3,provider=Other,env_auth,endpoint='{server['AWS_ENDPOINT_URL']}':bucket"
    good(savemark("save", model, "s3://bucket/up"))
    good(run(rclone, "copy", f"{remote}/up", "down"))
    good(savemark("restore", "down", "again"))
    assert tree(tmp_path / "again") == tree(model)


STATE = """
import json, sys
import numpy as np, savemark
state = {"w": np.arange(3_000_000, dtype=np.float32), "step": 7, "b": b"bytes"}
report = savemark.save(state, "s3://bucket/state", keep=2, codec="zstd", part_size="5m")
again = savemark.restore("s3://bucket/state")
assert (again["w"] == state["w"]).all() and again["step"] == 7 and again["b"] == b"bytes"
into = {"w": np.zeros(3_000_000, dtype=np.float32), "step": 0, "b": b""}
savemark.restore("s3://bucket/state", into=into)
assert (into["w"] == state["w"]).all() and into["step"] == 7
print(report["checkpoint"])
"""


def test_a_state_in_memory_comes_back_from_a_bucket(run):
    assert good(run(sys.executable, "-c", STATE)).startswith("s3://bucket/state/00000001-2")


TWINS = """
import savemark
from savemark import places
from savemark.checkpoint.listing import retain
url, several = "s3://bucket/twins", []
for time in ("20250101T000000.000000Z", "20260101T000000.000000Z"):
    savemark.save({"step": 7}, f"{url}/00000001-{time}-savemark")
    several.append(places.at(f"{url}/00000001-{time}-savemark"))
place = places.at(url)
assert retain(place, several[0], 1) == ([], [])
assert retain(place, several[1], 1) == ([several[0].name], [])
assert savemark.restore(url) == {"step": 7}
"""


class TestSmall:
    """What needs a look into the server, or a lie from it."""

    @pytest.fixture
    def holds(self):
        small = s3_server.start()
        yield small
        small.shutdown()
        small.server_close()

    @pytest.fixture
    def server(self, holds):
        return s3_real.variables(holds.server_port)

    def test_a_directory_and_a_bucket_hold_the_same(self, savemark, holds, model, tmp_path):
        good(savemark("save", model, "s3://bucket/there", "--chunk-size", "1m"))
        for key, data in holds.objects.items():
            copy = tmp_path / "here" / key.removeprefix("there/")
            copy.parent.mkdir(exist_ok=True)
            copy.write_bytes(data)
        assert "every byte" in good(savemark("verify", "here"))
        (tmp_path / "up").mkdir()
        good(savemark("save", model, "up/ck", *io(tmp_path)))
        holds.objects.update({f"up/{n}": data for n, data in tree(tmp_path / "up" / "ck").items()})
        good(savemark("restore", "s3://bucket/up", "again"))
        assert tree(tmp_path / "again") == tree(model)

    def test_what_is_old_goes_and_what_is_young_or_foreign_stays(self, savemark, holds, model):
        good(savemark("save", model, "s3://bucket/k", "--keep", "3"))
        kept = dict(holds.objects)
        name = next(iter(kept)).split("/")[1]
        ago = datetime.now(UTC) - timedelta(hours=30)
        left = [f"k/{OLD}", f"k/{name}/{OLD}"]
        for key in left:
            holds.objects[key] = b"left"
            holds.times[key] = ago.strftime("%Y-%m-%dT%H:%M:%S.000Z")
        holds.objects["k/notes"] = kept["k/notes"] = b"foreign"
        upload = s3_server.Upload
        holds.uploads["old"] = upload(f"k/20200101T000000.000000Z-savemark/{OLD}", {1: b"12"}, ago)
        young = f"k/{name}/shard-18e9e1188022315c-00001529-0000"
        holds.uploads["young"] = upload(young, {1: b"1"})
        holds.uploads["foreign"] = upload("k/film.mp4", {1: b"1"}, ago)
        told = good(savemark("clean", "s3://bucket/k", "--dry-run"))
        assert told.count("would remove") == 3
        assert told.count("left") == 1
        assert len(holds.uploads) == 3
        told = good(savemark("clean", "s3://bucket/k"))
        assert told.count("removed") == 3
        assert holds.objects == kept
        assert sorted(holds.uploads) == ["foreign", "young"]

    def test_a_clock_that_went_back_loses_nothing(self, savemark, holds, model):
        """And of two savers that chose the same number the one with the later time is newer."""
        url, future = "s3://bucket/k", "21060101T000000.000000Z-savemark"
        good(savemark("save", model, url, "--keep", "3"))
        name = next(iter(holds.objects)).split("/")[1]
        first = dict(holds.objects)
        as_named = lambda new: {key.replace(name, new): data for key, data in first.items()}  # noqa: E731
        holds.objects.clear()
        holds.objects.update(as_named(future))
        done = json.loads(good(savemark("save", model, url, "--keep", "1", "--json")))
        made = done["checkpoint"].rsplit("/", 1)[-1]
        assert done["removed"] == [future]
        assert {key.split("/")[1] for key in holds.objects} == {made}
        assert made.startswith("00000001-")
        # Another saver has chosen the same number meanwhile, and has the later time.
        twin = f"00000001-{future}"
        holds.objects.update(as_named(twin))
        listed = json.loads(good(savemark("list", url, "--json")))
        assert [row["name"] for row in listed] == [made, twin]
        assert twin in good(savemark("verify", url))
        done = json.loads(good(savemark("save", model, url, "--keep", "2", "--json")))
        assert done["checkpoint"].rsplit("/", 1)[-1].startswith("00000002-")
        assert done["removed"] == [made]

    def test_savers_of_one_number_leave_the_newer_one(self, run, holds):
        """Each has seen the other's as complete, and keeps one: what both would remove is lost."""
        good(run(sys.executable, "-c", TWINS))
        assert len({key.split("/")[1] for key in holds.objects}) == 1

    def test_leftovers_at_the_root_hide_no_checkpoint(self, savemark, holds, model):
        good(savemark("save", model, "s3://bucket/k", "--keep", "3"))
        holds.objects[f"k/{OLD}"] = b"left"
        assert "every byte" in good(savemark("verify", "s3://bucket/k"))

    def test_what_another_clock_says_is_old_stays(self, savemark, holds):
        """A server takes requests of clocks that are a quarter of an hour off."""
        for minutes, gone in [(20, False), (40, True)]:
            time = datetime.now(UTC) - timedelta(minutes=minutes)
            holds.objects[f"k/{OLD}"] = b"left"
            holds.times[f"k/{OLD}"] = time.strftime("%Y-%m-%dT%H:%M:%S.000Z")
            good(savemark("clean", "s3://bucket/k", "--older-than", "10m"))
            assert (f"k/{OLD}" not in holds.objects) == gone
        holds.objects[f"k/{OLD}"] = b"left"
        holds.times.clear()
        good(savemark("clean", "s3://bucket/k", "--older-than", "0s"))
        assert not holds.objects

    def test_retention_takes_what_is_old_and_leaves_what_may_live(self, savemark, holds, model):
        ago = (datetime.now(UTC) - timedelta(hours=30)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        old, young = (f"k/2020010{n}T000000.000000Z-savemark/{OLD}" for n in (1, 2))
        holds.objects.update({old: b"left", young: b"perhaps of a save under way"})
        holds.times[old] = ago
        done = json.loads(good(savemark("save", model, "s3://bucket/k", "--keep", "1", "--json")))
        assert done["removed"] == [old.split("/")[1]]
        assert young in holds.objects
        assert old not in holds.objects
        assert "interrupted" in good(savemark("list", "s3://bucket/k"))

    def test_damage_is_found_and_the_newest_complete_one_stays(self, savemark, holds, model):
        for _ in range(2):
            good(savemark("save", model, "s3://bucket/k", "--keep", "5"))
        newest = sorted({key.split("/")[1] for key in holds.objects})[-1]
        shard = max((k for k in holds.objects if newest in k), key=lambda k: len(holds.objects[k]))
        data = bytearray(holds.objects[shard])
        data[1000] ^= 1
        holds.objects[shard] = bytes(data)
        done = savemark("verify", f"s3://bucket/k/{newest}")
        assert done.returncode == 4
        assert shard.rsplit("/", 1)[-1] in done.stderr
        del holds.objects[shard]
        assert newest not in good(savemark("verify", "s3://bucket/k"))
        good(savemark("save", model, "s3://bucket/k", "--keep", "1"))
        assert any(newest in key for key in holds.objects), "a damaged one is left to be looked at"
        listed = json.loads(good(savemark("list", "s3://bucket/k", "--json")))
        assert [row["status"] for row in listed] == ["damaged", "complete"]

    @pytest.mark.parametrize(
        ("words", "said", "code"),
        [
            (["save", "model", "s3://nowhere/x"], "no bucket `nowhere`", 1),
            (["save", "model", "s3://bucket/full"], "not a checkpoint", 5),
            (["save", "model", "s3://bucket/full", "--keep", "2"], "not a checkpoint", 5),
            (["save", "model", "s3://"], "names no bucket", 2),
            (["save", "model", "ftp://x/y"], "s3://, gs:// and az://", 2),
            (["save", "model", "s3://bucket/x", "--storage", "uring"], "leave --storage out", 2),
            (["save", "model", "s3://bucket/x", "--direct"], "direct", 2),
            (["save", "model", "here", "--part-size", "8m"], "part_size", 2),
            (["save", "model", "here", "--storage", "object"], "s3://bucket/prefix", 2),
            (["save", "model", "s3://bucket/x", "--part-size", "1m"], "5MiB", 2),
            (["restore", "s3://bucket/none", "out"], "no checkpoint", 2),
            (["restore", "s3://bucket/none", "s3://bucket/out"], "into a directory", 2),
            (["clean", "s3://bucket/none", "--older-than", "soon"], "soon", 2),
        ],
    )
    def test_what_cannot_be_is_told(self, savemark, holds, model, words, said, code):
        holds.objects["full/notes"] = b"foreign"
        done = savemark(*words)
        assert (done.returncode, said in done.stderr) == (code, True), done.stderr
        assert holds.objects == {"full/notes": b"foreign"}
        assert not holds.uploads


def io(path: Path):
    """The options with which the filesystem at `path` can be used."""
    from savemark import _engine

    memory = json.loads(_engine.host(str(path)))["target"]["class"] == "memory"
    return ["--storage", "posix", *(["--no-direct"] if memory else [])]


def test_a_tool_that_is_missing_is_said(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setenv("SAVEMARK_REQUIRE", "fio")
    with pytest.raises(pytest.skip.Exception, match="aws is not on PATH"):
        s3_real.tool("aws")
    monkeypatch.setenv("SAVEMARK_REQUIRE", "fio,aws")
    with pytest.raises(pytest.fail.Exception, match="SAVEMARK_REQUIRE"):
        s3_real.tool("aws")
