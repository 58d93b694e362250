"""A process that is saved or restored while the network is cut or the disk is full: never lost."""

import contextlib
import os
import subprocess
import sys
import time

import pytest

import s3_server
from live_program import Program, needs_criu
from needs import missing
from wire import Wire

KEYS = {"AWS_ACCESS_KEY_ID": "key-of-tests", "AWS_SECRET_ACCESS_KEY": "secret-of-tests"}
# Impatient, so that a silent network is given up soon.
IMPATIENT = ("--retries", "1", "--timeout", "500ms")


@pytest.fixture
def server():
    server = s3_server.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def savemark(server, tmp_path):
    """Runs the command, over a wire if one is given."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}

    def savemark(*words, wire=None):
        url = wire.url if wire else f"http://127.0.0.1:{server.server_port}"
        done = subprocess.run(
            [sys.executable, "-m", "savemark", *map(str, words)],
            env={**mine, **KEYS, "AWS_ENDPOINT_URL": url},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,  # nothing hangs
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    return savemark


@pytest.mark.parametrize(("how", "share"), [("reset", 0.2), ("reset", 0.8), ("silent", 0.5)])
def test_a_cut_network_costs_the_process_nothing(savemark, server, program, how, share):
    words = ("save", "--pid", program.pid, "s3://bucket/ck", "--codec", "none", *IMPATIENT)
    saved = savemark(*words, "--leave-running")
    assert saved.returncode == 0, saved.stderr
    before = dict(server.objects)
    size = sum(map(len, before.values()))
    wire = Wire(server.server_port, how, int(size * share))
    cut = savemark(*words, wire=wire)
    assert wire.cut, "the dump was over before the cut; the test does not test"
    assert cut.returncode == 1, (cut.returncode, cut.stderr, cut.stdout)
    program.goes_on()
    wire.close()
    assert {name: server.objects.get(name) for name in before} == before
    program.kill()
    # Back the same way: nothing of it runs, and nothing is left that would be in the way.
    wire = Wire(server.server_port, how, int(size * share))
    cut = savemark("restore", "s3://bucket/ck", *IMPATIENT, wire=wire)
    assert wire.cut
    assert cut.returncode == 1, (cut.returncode, cut.stderr, cut.stdout)
    wire.close()
    program.is_gone()
    restored = savemark("restore", "s3://bucket/ck", *IMPATIENT)
    assert restored.returncode == 0, restored.stderr
    program.goes_on()


@pytest.fixture(params=["ext4", "tmpfs"])
def small_disk(request, tmp_path):
    """A filesystem of 48 MiB of its own."""
    if os.geteuid() != 0:
        missing("mount", "mounting needs root")
    image, mounted = tmp_path / "image", tmp_path / "mounted"
    mounted.mkdir()
    try:
        if request.param == "ext4":
            with image.open("wb") as file:
                file.truncate(48 << 20)
            subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, capture_output=True)
            words = ["mount", "-o", "loop", str(image), str(mounted)]
        else:
            words = ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(mounted)]
        subprocess.run(words, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        missing("mount", f"cannot mount a {request.param}: {error}")
    yield mounted
    subprocess.run(["umount", "--lazy", str(mounted)], check=True)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_disk_that_is_full_costs_the_process_nothing(savemark, tmp_path, small_disk, codec):
    needs_criu()
    folder = tmp_path / "program"
    folder.mkdir()
    place, storage = small_disk / "ck", ("--storage", "posix", "--no-direct")
    with contextlib.closing(_Ended(folder, 8_000_001)) as program:
        words = ("save", "--pid", program.pid, place, "--codec", codec, *storage)
        saved = savemark(*words, "--leave-running")
        assert saved.returncode == 0, saved.stderr
        _fill(small_disk, leave=3 << 20)
        full = savemark(*words)
        assert full.returncode == 1, (full.returncode, full.stderr, full.stdout)
        # Of the codec none it is known before that it does not fit; of others it turns out.
        said = "no room" if codec == "none" else "No space left"
        assert said in full.stderr
        program.goes_on()
        assert "every byte" in savemark("verify", place, *storage).stdout
        program.kill()
        restored = savemark("restore", place, *storage)
        assert restored.returncode == 0, restored.stderr
        program.goes_on()


class _Ended(Program):
    close = Program.end


def _fill(mounted, leave):
    """Take all room but so much."""
    stat = os.statvfs(mounted)
    with (mounted / "ballast").open("wb") as file:
        left = stat.f_bfree * stat.f_frsize - leave  # root may have the reserve, too
        while left > 0:
            file.write(os.urandom(min(left, 1 << 20)))
            left -= 1 << 20
    os.sync()
    until = time.monotonic() + 10
    while os.statvfs(mounted).f_bfree * stat.f_frsize > leave and time.monotonic() < until:
        time.sleep(0.05)
