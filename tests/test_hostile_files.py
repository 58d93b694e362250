"""What is read from outside costs neither time nor memory, and never blames savemark."""

import json
import os
import socket
import subprocess
import sys
import time

import pytest

from savemark import limits
from savemark.places import Directory
from savemark.places.place import MARKER

ZSTD = b"\x28\xb5\x2f\xfd"
MOST_KIB = 512 << 10
MOST_S = 30
GIB = 1 << 30
# The process tells its own mark; that of wait4 may be its parent's, from which it was forked.
TELL = """
import pathlib, runpy, sys
try:
    runpy.run_module("savemark", run_name="__main__", alter_sys=True)
finally:
    status = pathlib.Path("/proc/self/status").read_text()
    sys.stdout.flush()
    print("VmHWM", status.split("VmHWM:")[1].split()[0], file=sys.stderr)
"""
BLOCK = 128 << 10
SERIES = b"compression,streams,checkpoint_time,restore_time\n"


def bomb(byte, size):
    """A zstd frame of one byte again and again: 4 bytes for each 128 KiB."""
    head = ZSTD + bytes([0x00, 0x38])  # no length, no checksum; a window of 128 KiB
    block = (1 << 1 | BLOCK << 3).to_bytes(3, "little") + byte
    last = (1 | 1 << 1 | 1 << 3).to_bytes(3, "little") + byte
    return head + block * (size // BLOCK) + last


def savemark(folder, *arguments):
    """Run a command; what it said, and what it cost. It must end well, or name what is wrong."""
    start = time.monotonic()
    with (folder / "said.txt").open("w+b") as said:
        child = subprocess.Popen(
            [sys.executable, "-c", TELL, *map(os.fspath, arguments)],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        while (ended := os.wait4(child.pid, os.WNOHANG))[0] == 0:
            if time.monotonic() - start > 2 * MOST_S:
                child.kill()
                os.wait4(child.pid, 0)
                pytest.fail(f"{arguments} hangs")
            time.sleep(0.02)
        child.returncode = os.waitstatus_to_exitcode(ended[1])
        said.seek(0)
        text = said.read().decode()
    assert "a bug in savemark" not in text
    assert "Traceback" not in text, text
    text, _, peak = text.rpartition("VmHWM")
    assert int(peak) < MOST_KIB, f"{int(peak) >> 10} MiB"
    assert ended[2].ru_utime + ended[2].ru_stime < MOST_S
    return child.returncode, text


@pytest.mark.parametrize("byte", [b"\n", b"a", b"{", b",", b"\xf0"])
def test_what_unpacks_to_terabytes_is_refused_as_soon_as_that_is_seen(tmp_path, byte):
    (tmp_path / "bomb.csv.zst").write_bytes(bomb(byte, 100 * GIB))
    code, said = savemark(tmp_path, "import", "bomb.csv.zst")
    assert code == 2
    assert f"at most {limits.LARGEST_TEXT} bytes" in said
    assert not (tmp_path / "savemark-runs").exists()


def test_lines_that_are_read_one_by_one_have_limits_too(tmp_path):
    head = b"idx\tthread\top\tclient_id\tn_objects\tbytes\tendpoint\tfile\terror\tstart\tend\n"
    packed = ZSTD + bytes([0x00, 0x38]) + (1 | len(head) << 3).to_bytes(3, "little") + head
    for byte, what in ((b"\n", "lines"), (b"a", "characters in a line")):
        (tmp_path / "get.csv.zst").write_bytes(packed + bomb(byte, 100 * GIB))
        code, said = savemark(tmp_path, "import", "get.csv.zst")
        assert code == 2
        assert what in said


LARGE = {
    "newlines": lambda: b"\n" * limits.LARGEST_TEXT,
    "braces": lambda: b"{" * limits.LARGEST_TEXT,
    "objects": lambda: b'{"fio version":"fio-3","jobs":[' + b"{}," * 10_000_000,
    "commas": lambda: b"," * limits.LARGEST_TEXT,
    "rows": lambda: SERIES + b"lz4,2,1,1\n" * 3_000_000,
    "wide": lambda: "\U0001f600".encode() * (limits.LARGEST_TEXT // 4),
    "large": lambda: b"a" * (limits.LARGEST_FILE + 1),
}


@pytest.mark.parametrize("content", LARGE)
def test_large_files_are_refused_within_the_limits(tmp_path, content):
    (tmp_path / "file").write_bytes(LARGE[content]())
    code, said = savemark(tmp_path, "import", "file")
    assert code == 2
    assert "file" in said


@pytest.mark.parametrize("command", ["import", "check"])
def test_what_is_no_regular_file_is_not_waited_for(tmp_path, command):
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    for name, kind in (("fifo", "a FIFO"), ("/dev/zero", "a device")):
        code, said = savemark(tmp_path, command, name)
        assert code == 2
        assert f"is no regular file but {kind}" in said
    folder = tmp_path / "results"
    folder.mkdir()
    os.mkfifo(folder / "fifo")
    (folder / "a.csv").write_bytes(SERIES + b"lz4,2,1,1\n")
    code, said = savemark(tmp_path, command, "results")
    assert code == 0
    assert "is no regular file but a FIFO" in said


def test_a_link_to_a_file_is_followed(tmp_path):
    (tmp_path / "real.csv").write_bytes(SERIES + b"lz4,2,1,1\n")
    (tmp_path / "link.csv").symlink_to("real.csv")
    assert savemark(tmp_path, "import", "link.csv", "--out", "run")[0] == 0


def test_a_name_that_is_not_utf_8_is_a_name(tmp_path):
    name = os.fsdecode(b"r\xe9sultat.csv")
    (tmp_path / name).write_bytes(SERIES + b"lz4,2,1,1\n")
    folder = tmp_path / os.fsdecode(b"l\xe9")
    folder.mkdir()
    (folder / "no\nresult").write_bytes(b"x")
    code, said = savemark(tmp_path, "import", name, folder.name, "--out", "run")
    assert code == 0
    assert "skipped: l\\xe9/no\\nresult: not a result file" in said
    head = json.loads((tmp_path / "run/run.json").read_text())
    assert head["sources"][0]["file"] == "originals/r\\xe9sultat.csv"
    assert savemark(tmp_path, "check", "run")[0] == 0


def test_a_refused_import_leaves_nothing_behind(tmp_path, monkeypatch):
    from savemark.errors import SavemarkError
    from savemark.importing.read import read_source
    from savemark.records.assemble import write_folder

    file = tmp_path / "a.csv"
    file.write_bytes(SERIES + b"lz4,2,1,1\n")
    reading = read_source(str(file))
    file.write_bytes(SERIES + b"lz4,2,1,2\n")
    head = {"run_id": "r", "savemark_version": "0", "started_at": "", "command": ["savemark"]}
    with pytest.raises(SavemarkError, match="changed while it was read"):
        write_folder([reading], tmp_path / "run", head)
    assert not (tmp_path / "run").exists()


def test_a_design_of_a_million_trials_is_not_written_out(tmp_path):
    rows = b"".join(b"c%d,%d,1,1,9999\n" % (n, n) for n in range(1000))
    (tmp_path / "a.csv").write_bytes(SERIES.strip() + b",run_number\n" + rows)
    code, _ = savemark(tmp_path, "import", "a.csv", "--out", "run")
    assert code == 0
    assert len(json.loads((tmp_path / "run/run.json").read_text())["plan"]) == 1000
    assert "what is missing is not listed" in (tmp_path / "run/log.txt").read_text()


@pytest.mark.parametrize("name", ['x onmouseover=alert(1) y="1"', "<b>", "a\nb", "", "n" * 100])
def test_a_name_that_can_be_no_factor_is_refused_by_name(tmp_path, name):
    results = [
        {"command": f"sleep {n}", "mean": 1, "median": 1, "user": 1, "parameters": {name: str(n)}}
        for n in range(2)
    ]
    (tmp_path / "h.json").write_text(json.dumps({"results": results}))
    code, said = savemark(tmp_path, "import", "h.json")
    assert code == 2
    assert "h.json: a factor is called `" in said


def test_a_level_that_holds_half_a_number_is_a_text(tmp_path):
    results = [
        {"command": "a", "mean": 1, "median": 1, "user": 1, "parameters": {"my_size": level}}
        for level in ("²", "9" * 4000)
    ]
    (tmp_path / "h.json").write_text(json.dumps({"results": results}))
    assert savemark(tmp_path, "import", "h.json", "--out", "run")[0] == 0
    assert savemark(tmp_path, "check", "run")[0] == 0


def test_a_fifo_that_looks_like_a_marker_is_no_workspace(tmp_path):
    folder = tmp_path / "savemark-1"
    folder.mkdir()
    os.mkfifo(folder / MARKER)
    assert Directory(folder).owner() is None
    assert Directory(tmp_path).stale() == []
