"""Other tools really run on a bucket: their rate, their evidence, and what they bring back."""

import json
import os
import subprocess
import sys

import pytest

import foreign
import s3_real
from savemark.errors import SavemarkError

MIB = 1 << 20
URL = "s3://bucket/x"
CLIENTS = ["aws", "rclone", "s5cmd"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with s3_real.start("minio", tmp_path_factory.mktemp("server")) as variables:
        yield variables


@pytest.fixture
def bucket(server, monkeypatch):
    """The bucket's URL, in this process's environment; empty before and after."""
    from savemark import _engine

    foreign.enter(monkeypatch, server)
    yield URL
    folders, objects = _engine.Bucket("s3://bucket").list()
    assert (folders, objects) == ([], []), "nothing is left"


@pytest.mark.parametrize("tool", CLIENTS)
def test_a_client_saves_and_restores(bucket, tmp_path, tool):
    foreign.need(tool)
    trial = {"workload": "checkpoint", "tool": tool, "size": 12 * MIB, "streams": 2}
    record = foreign.run({**trial, "part_size": 5 * MIB}, bucket, tmp_path / "tools")
    found = foreign.phases(record)
    assert list(found) == ["save", "restore"]
    assert found["save"]["durable"]
    assert found["restore"]["verified"] == "every byte"
    assert found["restore"]["cache"]["state"] == "none"
    assert {phase["user_bytes"] for phase in found.values()} == {12 * MIB}
    assert all(phase["cpu_user_ns"] > 0 for phase in found.values())
    assert found["save"]["payload"]["sampled_bytes"] > 0
    assert s3_real.SECRET not in str(record)


@pytest.mark.parametrize("tool", CLIENTS)
def test_a_client_reads_what_was_laid_out(bucket, tmp_path, tool):
    foreign.need(tool)
    trial = {"workload": "sequential", "operation": "read", "tool": tool, "size": 8 * MIB}
    record = foreign.run(trial, bucket, tmp_path / "tools")
    assert [phase["name"] for phase in record["phases"]] == ["prepare", "read"]
    assert foreign.phases(record)["read"]["user_bytes"] == 8 * MIB
    assert not record["tool"]["runs"][0].get("bytes", 0) > MIB, "the data is not kept"


def test_warp_reads_ranges(bucket, tmp_path):
    foreign.need("warp")
    trial = {"workload": "random", "tool": "warp", "size": 8 * MIB, "transfer_size": 64 << 10}
    record = foreign.run({**trial, "queue_depth": 2, "duration": "2s"}, bucket, tmp_path / "tools")
    phase = foreign.phases(record)["read"]
    assert phase["operations"] > 0
    assert phase["user_bytes"] == phase["operations"] * (64 << 10)
    assert phase["latency"]["p50_ns"] > 0


def test_a_real_state_is_copied(bucket, tmp_path):
    foreign.need("rclone")
    (tmp_path / "model" / "deep").mkdir(parents=True)
    (tmp_path / "model" / "deep" / "w.bin").write_bytes(os.urandom(100_000))
    trial = {"workload": "checkpoint", "tool": "rclone", "state": str(tmp_path / "model")}
    trial |= {"size": 100_000}
    found = foreign.phases(foreign.run(trial, bucket, tmp_path / "tools"))
    assert found["restore"]["verified"] == "every byte"


LOSES = """
import pathlib, subprocess, sys
done = subprocess.run([{real!r}, *sys.argv[1:]])
back = pathlib.Path(sys.argv[-1])
if back.name == "in":
    file = sorted(back.iterdir())[0]
    data = bytearray(file.read_bytes())
    data[1000] ^= 1
    file.write_bytes(data)
sys.exit(done.returncode)
"""


def test_what_comes_back_changed_is_corrupt(bucket, tmp_path, monkeypatch):
    real = s3_real.tool("rclone")
    program = tmp_path / "bin" / "rclone"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{LOSES.format(real=real)}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    trial = {"workload": "checkpoint", "tool": "rclone", "size": MIB, "streams": 1}
    with pytest.raises(SavemarkError) as error:
        foreign.run(trial, bucket, tmp_path / "tools")
    assert (error.value.kind, "savemark-data.bin" in error.value.message) == ("corrupt", True)


def test_the_users_own_configuration_of_aws_is_kept(bucket, tmp_path, monkeypatch):
    """Part sizes go into a copy of it, in the profile that is in use."""
    foreign.need("aws")
    from savemark.run import memory
    from savemark.tools.job import Job, Step

    own = tmp_path / "config"
    own.write_text("[default]\nregion = here\n[profile work]\nregion = there\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(own))
    monkeypatch.setenv("AWS_PROFILE", "work")
    job = Job({"tool": "aws"}, URL, str(tmp_path), "")
    memory.write_aws_config(job, Step("save", ("aws",), aws={"max_concurrent_requests": 3}))
    said = (tmp_path / "aws-config").read_text()
    assert "region = there" in said
    assert said.index("profile work") < said.index("max_concurrent_requests = 3")
    own.write_text("no section\n")
    with pytest.raises(SavemarkError, match="no section"):
        memory.write_aws_config(job, Step("save", ("aws",), aws={"x": 1}))


def test_a_bucket_is_crosschecked(server, tmp_path):
    foreign.need("aws", "rclone")
    words = ["crosscheck", URL, "--tool", "aws,rclone", "--only", "sequential"]
    words += ["--size", "32m", "--repeats", "1", "--out", "out"]  # a request for each in flight
    done = subprocess.run(
        [sys.executable, "-m", "savemark", *words],
        env=s3_real.environment(server, tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = (tmp_path / "out" / "crosscheck.md").read_text()
    for tool in ("savemark", "aws", "rclone"):
        for phase in ("write", "read"):
            assert f"| {phase} | {tool} |" in said, said


@pytest.mark.parametrize("tool", CLIENTS)
def test_a_client_copies_to_a_disk_and_back(bucket, tmp_path, tool):
    foreign.need(tool)
    disk = tmp_path / "disk"
    disk.mkdir()
    trial = {"workload": "copy", "tool": tool, "items": 3, "file_size": 100_000, "sync": "none"}
    record = foreign.run({**trial, "disk": str(disk)}, bucket, tmp_path / "tools")
    found = foreign.phases(record)
    assert list(found) == ["upload", "download"]
    assert found["download"]["verified"] == "every byte"
    assert {phase["user_bytes"] for phase in found.values()} == {300_000}
    assert found["upload"]["durable"]
    assert not found["download"]["durable"]
    assert list(disk.iterdir()) == []


COPY = """
name: copies
budget: 1m
repeats: 1
trial: {{workload: copy, items: 2, file_size: 70000, sync: none, disk: {disk}}}
factors:
  tool: [savemark, rclone]
"""


def test_the_engine_copies_beside_them(server, tmp_path):
    foreign.need("rclone")
    disk, study = tmp_path / "disk", tmp_path / "copies.yaml"
    disk.mkdir()
    (disk / "mine").touch()
    study.write_text(COPY.format(disk=disk))
    words = [sys.executable, "-m", "savemark", "run", study, URL, "--out", "out"]
    environment = s3_real.environment(server, tmp_path)
    done = subprocess.run(
        words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "out/records.jsonl").read_text().splitlines()]
    assert {line["factors"]["tool"] for line in lines} == {"savemark", "rclone"}
    for line in lines:
        upload, download = line["record"]["phases"]
        assert (upload["name"], upload["user_bytes"]) == ("upload", 140_000)
        assert download["verified"] == "every byte"
    assert list(disk.iterdir()) == [disk / "mine"], "only what is ours is removed"


def test_a_disk_that_is_not_there_is_told(server, tmp_path):
    study = tmp_path / "copies.yaml"
    study.write_text(COPY.format(disk=tmp_path / "nowhere"))
    done = subprocess.run(
        [sys.executable, "-m", "savemark", "run", study, URL, "--tool", "savemark"],
        env=s3_real.environment(server, tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "nowhere: no such directory" in done.stderr) == (2, True)


def test_what_a_killed_run_left_on_a_disk_goes(tmp_path):
    from savemark.places import Directory

    left = tmp_path / "savemark-old"
    left.mkdir()
    (left / ".savemark").write_text('{"run_id": "old", "pid": 99999999, "host": "here"}')
    (tmp_path / "savemark-notes").mkdir()
    assert [folder.path for folder in Directory(tmp_path).stale()] == [left]
