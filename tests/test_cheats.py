"""The table of cheats, each run live on the real engine and caught by the check that is for it.

The ten honest runs at the end raise nothing that a busy neighbour cannot set off.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import pytest

from honest import HONEST, NOISE, study
from live_run import apart, judge, measure
from made_run import Made, make_run
from needs import missing
from savemark.checks import Verdict

# They judge what they measure: whatever else runs would be found, too.
pytestmark = pytest.mark.alone

CHECKPOINT = "trial: {workload: checkpoint, size: 8MiB}"


@pytest.fixture
def write(tmp_path):
    """Writes a study file."""

    def write(body, **options):
        file = tmp_path / "study.yaml"
        file.write_text(study(body, **options))
        return file

    return write


@pytest.fixture
def on_disk(place):
    """A directory to measure; skips where there is no disk below it."""
    from savemark import _engine

    target = json.loads(_engine.host(str(place)))["target"]
    if target["class"] == "memory":
        pytest.skip("the tests' directory lies in memory")
    return place


@pytest.fixture
def device(on_disk):
    """The name of the block device below the directory; skips where none can be seen."""
    from savemark import _engine

    disk = json.loads(_engine.host(str(on_disk)))["target"]["disk"]
    return disk["device"] if disk else pytest.skip("no block device below the tests' directory")


def test_a_read_from_memory_called_cold(write, tmp_path):
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("needs a tmpfs at /dev/shm")
    place = Path("/dev/shm") / f"savemark-test-{os.getpid()}"
    place.mkdir()
    try:
        body = "trial: {workload: checkpoint, size: 8MiB, direct: false, cache: cold}"
        found = judge(measure(write(body, repeats=2), place, tmp_path / "out"))
        assert found["HC-05"].verdict is Verdict.BLOCK
        assert found["HC-05"].blocks
    finally:
        shutil.rmtree(place)


def test_a_write_without_a_flush(write, on_disk, tmp_path):
    body = "trial: {workload: sequential, operation: write, size: 8MiB, sync: none, direct: false}"
    found = judge(measure(write(body, repeats=2), on_disk, tmp_path / "out"))
    assert found["HC-01"].verdict is Verdict.FLAG
    assert "buffered" in found["HC-01"].evidence


def test_zeros_as_payload(write, on_disk, tmp_path):
    body = "trial: {workload: checkpoint, size: 8MiB, payload: zeros, codec: zstd}"
    found = judge(measure(write(body, repeats=2), on_disk, tmp_path / "out"))["HC-09"]
    assert found.verdict is Verdict.FLAG
    assert "100 % of the blocks are zeros" in found.evidence


REPEATING = "workload: sequential, operation: write, size: 64MiB, transfer_size: 4KiB"


def test_blocks_that_repeat(write, on_disk, tmp_path):
    body = f"trial: {{{REPEATING}, dedup: 60}}"
    found = judge(measure(write(body, repeats=2), on_disk, tmp_path / "out"))["HC-09"]
    assert found.verdict is Verdict.FLAG
    assert "% of the blocks are repetitions" in found.evidence


def test_nothing_repeats_that_nobody_asked_to(write, on_disk, tmp_path):
    body = f"trial: {{{REPEATING}}}"
    found = judge(measure(write(body, repeats=2), on_disk, tmp_path / "out"))["HC-09"]
    assert found.verdict is Verdict.OK


def test_a_sparse_state(write, on_disk, tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    os.truncate(os.open(state / "weights", os.O_CREAT | os.O_WRONLY), 8 << 20)
    body = f"trial: {{workload: checkpoint, state: {state}}}"
    found = judge(measure(write(body, repeats=2), on_disk, tmp_path / "out"))["HC-09"]
    assert found.verdict is Verdict.FLAG


SHIM = {
    "no_fsync": """
        int fsync(int fd) { (void)fd; return 0; }
        int fdatasync(int fd) { (void)fd; return 0; }
    """,
    # Takes away again what was written to the file that is read later; a checkpoint would be
    # found damaged. The 3: keep the size, punch a hole.
    "no_data": """
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <fcntl.h>
        #include <stdio.h>
        #include <string.h>
        #include <unistd.h>
        int fsync(int f) {
            char link[64], name[4096] = {0};
            snprintf(link, sizeof link, "/proc/self/fd/%d", f);
            readlink(link, name, sizeof name - 1);
            off_t size = lseek(f, 0, SEEK_END);
            if (strstr(name, "savemark-data")) fallocate(f, 3, 0, size);
            int (*next)(int) = dlsym(RTLD_NEXT, "fsync");
            return next(f);
        }
    """,
}


@pytest.fixture
def shim(tmp_path):
    """Builds a library that takes the place of calls of the C library."""
    compiler = shutil.which("cc")
    if compiler is None:
        missing("cc", "there is no C compiler")

    def build(name):
        source, library = tmp_path / f"{name}.c", tmp_path / f"{name}.so"
        source.write_text(SHIM[name])
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source)]
        subprocess.run(command, check=True, capture_output=True)
        return library

    return build


def test_an_fsync_that_does_nothing(write, on_disk, shim, tmp_path):
    folder = apart(
        write(CHECKPOINT, repeats=2), on_disk, tmp_path / "out", preload=shim("no_fsync")
    )
    found = judge(folder)
    assert found["HC-10"].verdict is Verdict.FLAG
    assert "no_fsync.so" in found["HC-10"].evidence
    assert found["HC-07"].verdict is Verdict.BLOCK


def test_reading_what_was_never_written(write, on_disk, shim, tmp_path):
    body = "trial: {workload: sequential, operation: read, size: 8MiB}"
    folder = apart(write(body, repeats=2), on_disk, tmp_path / "out", preload=shim("no_data"))
    found = judge(folder)["HC-33"]
    if found.verdict is Verdict.UNVERIFIED:
        pytest.skip(found.evidence)
    assert found.verdict is Verdict.BLOCK
    assert "100 % of the files" in found.evidence


@contextlib.contextmanager
def group(controller, settings):
    """A control group with these settings, gone at the end; skips where none can be made."""
    old, new = Path("/sys/fs/cgroup") / controller, Path("/sys/fs/cgroup")
    path = (old if old.is_dir() else new) / f"savemark-test-{os.getpid()}"
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"cannot make a control group: {error.strerror}")
    try:
        for name, value in settings.items():
            if (path / name).exists():
                (path / name).write_text(value)
        if not any((path / name).exists() for name in settings):
            pytest.skip(f"this control group has none of {', '.join(settings)}")
        yield path
    finally:
        path.rmdir()


def test_a_processor_quota(write, on_disk, tmp_path):
    # Less than what a very busy machine would leave us anyway.
    settings = {"cpu.max": "5000 100000", "cpu.cfs_quota_us": "5000"}
    with group("cpu", settings) as path:
        body = "trial: {workload: checkpoint, size: 16MiB, codec: zstd, streams: 2}"
        folder = apart(write(body, repeats=2), on_disk, tmp_path / "out", path)
    found = judge(folder)["HC-31"]
    assert found.verdict is Verdict.FLAG
    assert "quota" in found.evidence


@pytest.fixture
def loop(tmp_path):
    """An ext4 in memory on a loop device, mounted: its (mount point, device number)."""
    if os.geteuid() != 0:
        missing("mount", "mounting needs root")
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    with contextlib.ExitStack() as stack:
        try:
            # In memory: a disk that is busy with other work would be slower than the limit.
            image = stack.enter_context(tempfile.NamedTemporaryFile(dir="/dev/shm"))
            image.truncate(128 << 20)
            subprocess.run(["mkfs.ext4", "-q", "-F", image.name], check=True, capture_output=True)
            attach = ["losetup", "--find", "--show", image.name]
            name = subprocess.run(attach, check=True, capture_output=True, text=True).stdout.strip()
            stack.callback(subprocess.run, ["losetup", "--detach", name], check=True)
            subprocess.run(["mount", name, str(mounted)], check=True, capture_output=True)
            stack.callback(subprocess.run, ["umount", str(mounted)], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            missing("mount", f"cannot mount a loop device: {error}")
        number = Path(name).stat().st_rdev
        place = mounted / "place"
        place.mkdir()
        yield place, f"{os.major(number)}:{os.minor(number)}"


def test_a_throttled_disk(write, loop, tmp_path):
    place, number = loop
    limit = 20 << 20
    settings = {
        "blkio.throttle.write_bps_device": f"{number} {limit}",
        "blkio.throttle.read_bps_device": f"{number} {limit}",
        "io.max": f"{number} rbps={limit} wbps={limit}",
    }
    with group("blkio", settings) as path:
        body = "trial: {workload: sequential, operation: write, size: 24MiB}"
        folder = apart(write(body, repeats=2), place, tmp_path / "out", path)
    lines = (folder / "records.jsonl").read_text().splitlines()
    records = [json.loads(line)["record"] for line in lines]
    # What is in force is looked at once a second: the first may have seen what was before.
    assert records[-1]["conditions"]["limits"]["write_bytes_per_s"] == limit
    writes = [phase for r in records for phase in r["phases"] if phase["name"] == "write"]
    rates = [phase["user_bytes"] / phase["elapsed_ns"] * 1e9 for phase in writes]
    assert max(rates) <= 1.05 * limit, "the limit is in force"
    found = judge(folder)["HC-08"]
    if found.verdict is Verdict.OK:
        assert median(rates) < 0.95 * limit, "other work has kept it from the cap"
        return
    assert found.verdict is Verdict.NOTE
    assert "you measured the cap (0.021 GB/s)" in found.evidence


def test_three_repeats_called_a_winner(write, on_disk, tmp_path):
    body = f"{CHECKPOINT}\nfactors: {{codec: [none, zstd, gzip]}}"
    found = judge(measure(write(body, repeats=3), on_disk, tmp_path / "out"))["HC-17"]
    assert found.verdict is Verdict.NOTE
    assert "3 repeats can prove one of 3 settings to be the best only if" in found.evidence


def test_settings_that_do_the_same_are_tied(write, on_disk, tmp_path):
    """Three tries: at p < 0.05 one run of twenty tells equals apart, and should."""
    body = "trial: {workload: checkpoint, size: 8MiB, streams: 2}\nfactors: {seed: [1, 2]}"
    for attempt in range(3):
        found = judge(measure(write(body), on_disk, tmp_path / f"out{attempt}"))["HC-18"]
        if found.verdict is Verdict.NOTE:
            assert "is tied with" in found.evidence
            return
    pytest.fail(found.evidence)


def test_a_slow_down_in_half_of_the_repeats(write, on_disk, tmp_path):
    body = "trial: {workload: checkpoint, size: 16MiB}\nfactors: {streams: [1, 2]}"
    folder = apart(write(body, repeats=8), on_disk, tmp_path / "out", "slow")
    found = judge(folder)["HC-15"]
    assert found.verdict is Verdict.FLAG
    assert "slower after trial" in found.evidence


@pytest.mark.parametrize("which", ["second half", "every other"])
def test_a_slow_down_in_half_of_the_records(which, tmp_path):
    folder = make_run(tmp_path, Made(codecs=("none", "zstd"), streams=(0, 4), repeats=10))
    entries = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    for entry in entries:
        slow = entry["repeat"] >= 5 if which == "second half" else entry["repeat"] % 2
        for phase in entry["record"]["phases"] if slow else []:
            phase["elapsed_ns"] = int(phase["elapsed_ns"] * 1.4)
    (folder / "records.jsonl").write_text("".join(json.dumps(e) + "\n" for e in entries))
    found = judge(folder)["HC-15"]
    assert found.verdict is Verdict.FLAG
    assert ("two modes" in found.evidence) == (which == "every other")


WRITER = """
import mmap, os, sys
file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
buffer = mmap.mmap(-1, 8 << 20)
print("writing", flush=True)
while True:
    for part in range(8):
        os.pwrite(file, buffer, part * len(buffer))
"""


def test_another_process_on_the_same_disk(write, on_disk, device, tmp_path):
    command = [sys.executable, "-c", WRITER, str(tmp_path / "foreign")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout.readline() == "writing\n"
            # Its I/Os are larger, so it moves more than we do also where processors are scarce.
            body = (
                "trial: {workload: sequential, operation: write, size: 128MiB, "
                "transfer_size: 64KiB, queue_depth: 1}"
            )
            folder = measure(write(body, repeats=3), on_disk, tmp_path / "out")
        finally:
            other.kill()
    found = judge(folder)["HC-31"]
    assert found.verdict is Verdict.FLAG
    assert "the device also moved bytes" in found.evidence
    assert device


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_run_raises_nothing(name, write, on_disk, tmp_path):
    found = judge(measure(write(HONEST[name]), on_disk, tmp_path / "out"))
    bad = (Verdict.FLAG, Verdict.BLOCK)
    fired = {i: f.evidence for i, f in found.items() if f.verdict in bad}
    assert not set(fired) - NOISE, fired
    assert "The study sets seconds = 0.0001" in found["HC-13"].evidence
