"""`savemark run s3://…` with the real engine against a server on loopback."""

import json
import os
import subprocess
import sys

import pytest

import s3_server

SMALL = ["--size", "16m", "--codec", "none,zstd", "--streams", "2", "--repeats", "1"]
FOREIGN = {"data/keep": b"not ours"}


@pytest.fixture
def server():
    server = s3_server.start()
    server.objects.update(FOREIGN)
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def savemark(server, tmp_path):
    mine = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    endpoint = f"http://127.0.0.1:{server.server_port}"
    keys = {"AWS_ACCESS_KEY_ID": "key-of-tests", "AWS_SECRET_ACCESS_KEY": "secret-of-tests"}

    def savemark(*words, **changes):
        return subprocess.run(
            [sys.executable, "-m", "savemark", *map(str, words)],
            env={**mine, **keys, "AWS_ENDPOINT_URL": endpoint, "HOME": str(tmp_path), **changes},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return savemark


def test_a_study_runs_in_a_bucket_and_leaves_only_what_was_there(savemark, server, tmp_path):
    words = ["--streams", "0,2,4", "--codec", "none,zstd"]
    done = savemark("run", "--full", "s3://bucket/scratch", *SMALL, *words, "--out", "run")
    assert done.returncode == 0, done.stderr
    assert server.objects == FOREIGN
    assert not server.uploads
    head = json.loads((tmp_path / "run" / "run.json").read_text())
    assert head["study"]["buckets"] == ["s3://bucket/scratch"]
    lines = (tmp_path / "run" / "records.jsonl").read_text().splitlines()
    records = [json.loads(line)["record"] for line in lines]
    taken = {record["path"]["storage"] for record in records}
    assert taken <= {"object", "null"}
    assert "object" in taken
    saves = [r for r in records if r["trial"]["workload"] == "checkpoint"]
    assert len(saves) == 6
    assert any("127.0.0.1" in note for note in saves[0]["path"]["notes"])
    # The ceiling is the best of one object and of as many at once as a save writes.
    moved = [r["trial"] for r in records if r["trial"]["workload"] == "sequential"]
    assert {(t["operation"], t["workers"]) for t in moved} == {
        (operation, workers) for operation in ("write", "read") for workers in (1, 2, 4)
    }
    assert saves[0]["trial"]["chunk_size"] == 2 << 20, "16 MiB give each of 4 streams two chunks"
    assert {t["transfer_size"] for t in moved} == {2 << 20}
    everything = "".join(path.read_text() for path in (tmp_path / "run").glob("*.json*"))
    assert "secret-of-tests" not in everything
    assert "key-of-tests" not in everything


def test_a_bucket_and_a_directory_are_measured_in_one_run(savemark, server, tmp_path):
    (tmp_path / "disk").mkdir()
    words = ["run", "disk=./disk", "cloud=s3://bucket/scratch", *SMALL, "--out", "run"]
    done = savemark(*words, "--storage", "posix", "--no-direct", "--part-size", "5m")
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "run" / "records.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    trials = [e for e in entries if e["role"] == "trial"]
    taken = {(e["label"], e["record"]["path"]["storage"]) for e in trials}
    assert taken == {("disk", "posix"), ("cloud", "object")}
    assert server.objects == FOREIGN


def test_what_cannot_be_is_told_before_anything_is_written(savemark, server):
    for words, said, changes in [
        (["s3://bucket/data"], "not empty", {}),
        (["s3://nowhere/x"], "no bucket `nowhere`", {}),
        (["http://bucket/x"], "s3://, gs:// and az://", {}),
        (["s3://me:secret@bucket/x"], "credentials", {}),
        (["s3://bucket/x"], "nothing listens", {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}),
        (
            ["s3://bucket/x"],
            "no credentials",
            {"AWS_ACCESS_KEY_ID": "", "AWS_EC2_METADATA_DISABLED": "true"},
        ),
    ]:
        done = savemark("run", *words, *SMALL, **changes)
        assert done.returncode in (1, 2, 5), (said, done.stderr)
        assert said in done.stderr
        assert "secret@" not in done.stderr
        assert "Traceback" not in done.stderr
    assert server.objects == FOREIGN


def test_a_folder_that_a_killed_run_left_is_removed(savemark, server):
    marker = {"run_id": "old", "pid": 1 << 30, "host": os.uname().nodename}
    server.objects["scratch/savemark-old/.savemark"] = json.dumps(marker).encode()
    server.objects["scratch/savemark-old/shard-x"] = b"left"
    done = savemark("run", "s3://bucket/scratch", *SMALL)
    assert done.returncode == 0, done.stderr
    assert "left by a savemark run that was killed" in done.stderr
    assert server.objects == FOREIGN


def test_the_study_of_storages_runs_on_directories_and_a_bucket_at_once(savemark, server, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    words = ["checkpoint-restore", "one=./a", "two=./b", "s3=s3://bucket/scratch", "--out", "run"]
    few = ["--size", "16m", "--codec", "none,planes", "--streams", "0,2", "--repeats", "1"]
    done = savemark("run", *words, *few, "--storage", "posix", "--no-direct")
    assert done.returncode == 0, done.stderr
    assert server.objects == FOREIGN
    assert not list((tmp_path / "a").iterdir())
    lines = (tmp_path / "run" / "records.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    # In a bucket `write/1` and `write/2` are one ceiling, on one stream and on two.
    tops = {(e["label"], e["name"].split("/")[0]) for e in entries if e["role"] == "ceiling"}
    disks = {(label, name) for label in ("one", "two") for name in ("random_write", "fsync")}
    assert disks < tops
    # Each target has its own, measured with the storage that its trials use.
    assert {(label, name) for label in ("one", "two", "s3") for name in ("write", "read")} < tops
    assert not any(label == "s3" and name in ("random_write", "fsync") for label, name in tops)
    trials = [e for e in entries if e["role"] == "trial"]
    assert len(trials) == 3 * 2 * 2
    assert {e["factors"]["target"] for e in trials} == {"one", "two", "s3"}
    targets = json.loads((tmp_path / "run" / "run.json").read_text())["targets"]
    assert [bool((target.get("facts") or {}).get("filesystem")) for target in targets] == [
        True,
        True,
        False,
    ]
    page = (tmp_path / "run" / "report.md").read_text()
    assert "| target two filesystem |" in page
    for title in ("Network to s3", "Disk speeds of one, legacy", "Disk speeds of two, corrected"):
        assert title in page


def test_the_payload_may_be_a_factor_of_the_study(savemark, tmp_path):
    (tmp_path / "a").mkdir()
    few = ["--size", "16m", "--codec", "zstd", "--streams", "2", "--repeats", "1", "--json"]
    words = ["run", "checkpoint-restore", "./a", *few, "--payload", "zeros,text,bf16"]
    done = savemark(*words, "--out", "run", "--storage", "posix", "--no-direct")
    assert done.returncode == 0, done.stderr
    cells = json.loads(done.stdout)["cells"]
    assert {cell["setting"].split("payload ")[1] for cell in cells} == {"zeros", "text", "bf16"}
