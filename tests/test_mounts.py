"""Buckets that are mounted for a run: measured, seen from behind, and always taken down."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import foreign
import needs
import s3_real
from savemark.errors import SavemarkError
from waiting import until

MIB = 1 << 20
URL = "s3://bucket/x"
STUDY = """
name: mounted
budget: 1m
repeats: 1
checks: {{HC-13: {{block_below: 0}}}}
mount: [{mount}]
trial: {{workload: {workload}, storage: posix, direct: false, payload: random, {options}}}
"""
SEQUENTIAL = "size: 2m, queue_depth: 1"


def can_mount():
    if not Path("/dev/fuse").exists() or shutil.which("fusermount3") is None:
        needs.missing("fuse", "there is no /dev/fuse, or no fusermount3")
    if os.geteuid() and not os.access("/dev/fuse", os.W_OK):
        needs.missing("fuse", "this user may not open /dev/fuse")
    s3_real.tool("rclone")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with s3_real.start("minio", tmp_path_factory.mktemp("server")) as variables:
        yield variables


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Where this test's mounts are; all of them gone in the end, whatever happens."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    for point in reversed(mounts_below(folder)):
        subprocess.run(["umount", "-l", point], check=False)


def mounts_below(folder):
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line.split(" ")[4] for line in lines if line.split(" ")[4].startswith(str(folder))]


def processes(*wanted):
    """Command lines of living processes with these words in them, by process id."""
    found = {}
    for each in Path("/proc").glob("[0-9]*"):
        try:
            words = (each / "cmdline").read_bytes().decode().replace("\0", " ")
            state = (each / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if all(word in words for word in wanted) and state != "Z":
            found[int(each.name)] = words
    return found


SAVEMARK = (sys.executable, "-m", "savemark")


@pytest.fixture
def start(server, temporary, tmp_path):
    """Starts savemark with the server in its environment, and its mounts where we look for them."""
    return lambda *words: s3_real.popen((*SAVEMARK, *words), server, tmp_path, TMPDIR=temporary)


@pytest.fixture
def savemark(server, temporary, tmp_path):
    return lambda *words: s3_real.run((*SAVEMARK, *words), server, tmp_path, TMPDIR=temporary)


@pytest.fixture
def study(tmp_path):
    def study(mount="rclone", workload="sequential", options=SEQUENTIAL, more=""):
        file = tmp_path / "mounted.yaml"
        file.write_text(STUDY.format(mount=mount, workload=workload, options=options) + more)
        return file

    return study


def records(folder):
    return [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]


# Writes back at once: the test is not about rclone's own delay of five seconds.
QUICK = (
    "{name: quick, command: 'rclone mount {remote} {mountpoint} --vfs-cache-mode writes "
    "--vfs-write-back 0s --cache-dir {cache}'}"
)


def test_a_bucket_is_mounted_measured_and_taken_down(savemark, study, tmp_path, left_nothing):
    can_mount()
    file = study(QUICK + ", none", more="factors: {operation: [write, read]}\n")
    done = savemark("run", file, URL, "--out", "out")
    assert done.returncode == 0, done.stderr
    head = json.loads((tmp_path / "out" / "run.json").read_text())
    assert [target["label"] for target in head["targets"]] == ["quick", URL]
    mounted = head["targets"][0]
    assert mounted["mount"]["url"] == URL
    assert mounted["facts"]["posix"]["rename a file"] == "works"
    assert set(mounted["facts"]["posix"].values()) != {"works"}, "no mount can do all of it"
    for line in records(tmp_path / "out"):
        assert line["status"] == "ok", line["error"]
        phase = line["record"]["phases"][-1]
        if line["label"] == "quick" and line["factors"]["operation"] == "write":
            assert phase["durable_ns"] > phase["frozen_ns"] == phase["elapsed_ns"]
        if line["label"] == "quick" and line["factors"]["operation"] == "read":
            assert phase["past_mount"], "cold is the default: mounted anew"
    said = (tmp_path / "out" / "report.md").read_text()
    assert "Until it is in the bucket" in said
    assert "| rename a file | works |" in said
    assert s3_real.SECRET not in said + (tmp_path / "out" / "run.json").read_text()
    left_nothing()


@pytest.fixture
def left_nothing(temporary, server, monkeypatch):
    """Asserts that a run has left no mount, no process, no file and no object."""

    def left_nothing():
        _left_nothing(temporary, server, monkeypatch)

    left_nothing.folder = temporary
    return left_nothing


def _left_nothing(temporary, server, monkeypatch):
    from savemark import _engine

    foreign.enter(monkeypatch, server)
    assert mounts_below(temporary) == []
    assert list(temporary.iterdir()) == []
    assert processes(str(temporary)) == {}
    assert _engine.Bucket("s3://bucket").list() == ([], [])


@pytest.mark.parametrize("victim", ["run", "supervisor"])
def test_kill_9_leaves_no_mount_and_no_process(
    start, savemark, study, tmp_path, left_nothing, victim
):
    can_mount()
    temporary = left_nothing.folder
    file = study(QUICK, options="size: 64m, queue_depth: 1", more="factors: {seed: [1, 2, 3]}\n")
    process = start("run", file, URL, "--out", "out")

    def begun():
        assert process.poll() is None, process.stderr.read()
        return (tmp_path / "out" / "records.jsonl").exists()

    until(begun)
    assert mounts_below(temporary)
    if victim == "run":
        process.kill()
        process.communicate()
    else:
        (supervisor,) = processes("savemark.run.supervisor", str(temporary))
        os.kill(supervisor, signal.SIGKILL)
        process.communicate(timeout=300)
        assert process.returncode == 1
    until(lambda: not (mounts_below(temporary) or processes(str(temporary))))
    done = savemark("run", "--resume", "out")
    assert done.returncode == 0, done.stderr
    assert {line["index"] for line in records(tmp_path / "out") if line["status"] == "ok"} == {
        0,
        1,
        2,
    }
    left_nothing()


CHECKPOINT = "size: 8m, chunk_size: 1m, streams: 2, codec: none, seed: 3"


def test_a_checkpoint_on_a_mount_is_saved_when_the_bucket_has_it(
    savemark, study, tmp_path, left_nothing
):
    can_mount()
    more = "factors: {mount_cache: [cold, warm]}\n"
    file = study(QUICK, workload="checkpoint", options=CHECKPOINT, more=more)
    done = savemark("run", file, URL, "--out", "out")
    assert done.returncode == 0, done.stderr
    lines = records(tmp_path / "out")
    assert {line["factors"]["mount_cache"] for line in lines} == {"cold", "warm"}
    for line in lines:
        assert line["status"] == "ok", line["error"]
        phases = {phase["name"]: phase for phase in line["record"]["phases"]}
        save, restore = phases["save"], phases["restore"]
        assert save["durable_ns"] >= save["frozen_ns"] == save["elapsed_ns"]
        assert "in the bucket, by size and SHA-256" in save["notes"]
        assert restore["past_mount"] is (line["factors"]["mount_cache"] == "cold")
        assert restore["verified"], "what came back through the mount was compared"
    said = (tmp_path / "out" / "report.md").read_text()
    assert "| save |" in said.split("Until it is in the bucket")[1]
    left_nothing()


PROGRAMS = {"s3fs": "s3fs", "mountpoint-s3": "mount-s3", "goofys": "goofys"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_mount_that_is_known_works_where_it_is(savemark, study, tmp_path, left_nothing, name):
    can_mount()
    foreign.need(PROGRAMS[name])
    file = study(name, more="factors: {operation: [write, read]}\n")
    done = savemark("run", file, URL, "--out", "out")
    assert done.returncode == 0, done.stderr
    for line in records(tmp_path / "out"):
        assert line["status"] == "ok", line["error"]
        phase = line["record"]["phases"][-1]
        assert phase["past_mount"], "cold is the default: mounted anew"
        if line["factors"]["operation"] == "write":
            assert phase["durable_ns"] >= phase["elapsed_ns"]
    left_nothing()


def test_a_tool_runs_on_a_mount(savemark, study, tmp_path):
    can_mount()
    foreign.need("fio")
    file = study(QUICK)
    done = savemark("run", file, URL, "--tool", "fio", "--out", "out")
    assert done.returncode == 0, done.stderr
    (line,) = records(tmp_path / "out")
    phase = line["record"]["phases"][-1]
    assert line["record"]["tool"]["name"] == "fio"
    assert phase["durable_ns"] > phase["elapsed_ns"]


@pytest.mark.parametrize(
    ("mount", "said"),
    [
        (
            "{name: x, command: 'false {mountpoint}'}",
            "mount x: false ended with 1: it said nothing",
        ),
        ("{name: x, command: 'ls --nonsense {mountpoint}'}", "unrecognized option"),
        ("{name: x, command: 'no-such-mounter {mountpoint}'}", "no-such-mounter is not on PATH"),
    ],
)
def test_a_mount_that_fails_says_why_and_leaves_nothing(savemark, study, temporary, mount, said):
    done = savemark("run", study(mount), URL, "--out", "out")
    assert done.returncode in (1, 2)
    assert said in done.stderr
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("mount", "said"),
    [
        ("rclonee", "`rclone`"),
        ("rclone, rclone", "listed twice"),
        ("{name: x}", "a command with {mountpoint}"),
        ("{name: x, command: mount it}", "a command with {mountpoint}"),
        ("{name: x, comand: 'a {mountpoint}'}", "`command`"),
        ("3", "a name or a mapping"),
    ],
)
def test_a_wrong_mount_is_told_with_its_line(study, mount, said):
    from savemark.study.keys import Keys
    from savemark.study.load import load

    with pytest.raises(SavemarkError) as error:
        load(study(mount), Keys.load())
    assert "mounted.yaml:6: mount:" in error.value.message
    assert said in f"{error.value.message} {error.value.hint}"


def test_mounts_want_a_bucket(savemark, study, place):
    done = savemark("run", study(), place)
    assert (done.returncode, "no target is one" in done.stderr) == (2, True)


def test_commands_have_their_words_filled_in(monkeypatch):
    from savemark.study.mounts import KNOWN, Mount

    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    words = {
        name: Mount(name, text, url="s3://bucket/a/b").words(text, Path("/m"), Path("/c"))
        for name, text in KNOWN.items()
    }
    assert words["rclone"][:2] == ["rclone", "mount"]
    assert words["rclone"][2].endswith(":bucket/a/b")
    assert words["s3fs"][:3] == ["s3fs", "bucket:/a/b", "/m"]
    assert words["s3fs"][-3:] == ["url=http://127.0.0.1:9", "-o", "use_path_request_style"]
    assert "--force-path-style" in words["mountpoint-s3"]
    assert words["goofys"] == [
        "goofys",
        "-f",
        "--endpoint",
        "http://127.0.0.1:9",
        "bucket:a/b",
        "/m",
    ]
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    text = KNOWN["goofys"]
    words = Mount("goofys", text, url="s3://bucket/a").words(text, Path("/m"), Path("/c"))
    assert words == ["goofys", "-f", "bucket:a", "/m"]


class Objects:
    """A bucket that has the file only after some looks, and perhaps with other bytes."""

    def __init__(self, data, looks):
        self.data, self.looks = data, looks

    def size(self, name):
        self.looks -= 1
        return len(self.data) if self.looks <= 0 else None

    def read(self, name, at, count):
        return self.data[at : at + count]


@pytest.fixture
def around(tmp_path, monkeypatch):
    """Stands around a phase that wrote `file`; the bucket is what `holds` makes it."""
    from savemark.run import durable
    from savemark.run.target import Target
    from savemark.study.mounts import Mount

    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "file").write_bytes(b"abc" * 1000)
    (tmp_path / "work" / ".savemark").touch()
    monkeypatch.setattr(durable, "MOST_S", 0.5)

    def around(data, looks=0):
        monkeypatch.setattr(durable.engine, "Bucket", lambda url: Objects(data, looks))
        target = Target("m", tmp_path, mount=Mount("m", "", url="s3://bucket/x"))
        return durable.MountedPhases(None, target, str(tmp_path / "work"), "warm")

    return around


def test_what_arrives_late_is_waited_for(around):
    stands = around(b"abc" * 1000, looks=3)
    stands("after", "write")
    phase = {"name": "write", "elapsed_ns": 5, "notes": []}
    record = stands.complete({"phases": [phase]})["phases"][0]
    assert record["durable_ns"] - record["frozen_ns"] >= 2 * 50_000_000
    assert record["frozen_ns"] == 5


@pytest.mark.parametrize(
    ("data", "looks", "said"),
    [
        (b"abd" * 1000, 0, "holds other bytes"),
        (b"abc" * 999, 0, "has 2997 bytes"),
        (b"", 10**6, "is not there"),
    ],
)
def test_what_never_arrives_is_corrupt(around, data, looks, said):
    with pytest.raises(SavemarkError) as error:
        around(data, looks)("after", "write")
    assert error.value.kind == "corrupt"
    assert said in error.value.message
    assert "s3://bucket/x/work/file" in error.value.message


def test_a_local_directory_can_do_everything(place):
    from savemark.run.posix_probe import WORKS, probe

    assert set(probe(place).values()) == {WORKS}
    assert not list(place.iterdir())


def test_what_a_directory_cannot_do_is_told(place, monkeypatch):
    from savemark.run import posix_probe

    def no_link(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(posix_probe.os, "link", no_link)
    monkeypatch.setattr(posix_probe.os, "truncate", lambda *_: None)
    found = posix_probe.probe(place)
    assert found["hard link"] == "ENOTSUP (Operation not supported)"
    assert found["truncate"] == "wrong result"
