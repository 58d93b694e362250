"""`savemark save --pid`, `savemark restore` of a process, `doctor`, and the workload `process`."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from live_program import needs_criu


@pytest.fixture
def criu():
    needs_criu()


@pytest.fixture
def savemark(start, tmp_path):
    from savemark import _engine

    target = json.loads(_engine.host(str(tmp_path)))["target"]
    memory = target["class"] == "memory"

    def savemark(*words):
        io = ["--storage", "posix", "--no-direct"] if memory and words[0] != "list" else []
        process = start(*words, *io)
        out, err = process.communicate(timeout=300)
        assert "Traceback" not in err, err
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    return savemark


def test_a_process_is_saved_killed_and_goes_on(savemark, program, tmp_path):
    saved = savemark("save", "--pid", program.pid, "ck", "--codec", "lz4")
    assert saved.returncode == 0, saved.stderr
    assert f"process {program.pid} was killed" in saved.stdout
    assert program.process.wait(300) == -signal.SIGKILL
    assert "every byte" in savemark("verify", "ck").stdout
    (row,) = json.loads(savemark("list", "ck", "--json").stdout)
    assert (row["status"], row["codec"]) == ("complete", "lz4")
    restored = savemark("restore", "ck", "--json")
    assert restored.returncode == 0, restored.stderr + restored.stdout
    assert json.loads(restored.stdout)["pid"] == program.pid
    program.goes_on()
    again = savemark("restore", "ck")
    assert again.returncode == 5
    assert str(program.pid) in again.stderr
    images = savemark("restore", "ck", "images")
    assert images.returncode == 0, images.stderr
    names = {path.name for path in (tmp_path / "images").iterdir()}
    assert {"inventory.img", "pages-1.img", "savemark-process.json"} <= names


def test_a_process_may_run_on_and_several_are_kept(savemark, program, tmp_path):
    for _ in range(2):
        saved = savemark("save", "--pid", program.pid, "kept", "--keep", "1", "--leave-running")
        assert saved.returncode == 0, saved.stderr
        assert f"process {program.pid} goes on" in saved.stdout
        program.goes_on()
    assert len(list((tmp_path / "kept").iterdir())) == 1


def test_what_cannot_be_is_said(savemark, tmp_path):
    for words, said in [
        (["save", "--pid", "1", "a", "b"], "there is no SRC"),
        (["save", "a"], "missing"),
        (["save", "a", "b", "--leave-running"], "--pid"),
        (["save", "--pid", "1", "ck", "--criu-options", "--action-script=x"], "--action-script"),
    ]:
        done = savemark(*words)
        assert done.returncode == 2, done.stderr
        assert said in done.stderr
    (tmp_path / "file").write_text("x")
    assert savemark("save", "file", "files").returncode == 0
    done = savemark("restore", "files")
    assert done.returncode == 2
    assert "DEST is missing" in done.stderr
    assert list(tmp_path.glob("ck")) == []


def test_without_criu_the_reason_and_the_way_to_it_are_told(savemark, monkeypatch, tmp_path):
    old = tmp_path / "criu"
    old.write_text("#!/bin/sh\necho 'Version: 3.17.1'\n")
    old.chmod(0o755)
    monkeypatch.setenv("SAVEMARK_CRIU", str(old))
    done = savemark("save", "--pid", os.getppid(), "ck")
    assert done.returncode == 5
    assert "3.17.1 is too old" in done.stderr
    assert "docs/processes.md" in done.stderr
    environment = dict(os.environ, SAVEMARK_CRIU=str(old))
    told = subprocess.run(
        [sys.executable, "-m", "savemark", "doctor"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "too old" in next(line for line in told.splitlines() if line.strip().startswith("criu"))


@pytest.mark.parametrize("mode", ["stream", "tmpfs", "images", "lazy"])
def test_every_mode_of_the_workload_brings_the_program_back(criu, mode, tmp_path):
    from savemark import _engine

    plain = mode in ("images", "lazy")
    trial = {"workload": "process", "storage": "posix", "direct": False, "target": str(tmp_path)}
    trial |= {"size": 5_000_000, "payload": "text", "program": "tree", "mode": mode}
    trial |= {"streams": 0} if plain else {"streams": 2, "codec": "zstd"}
    record = json.loads(_engine.Engine().run(json.dumps(trial)))
    save, restore = record["phases"]
    for phase in (save, restore):
        # All but what lies between two stages, which a busy machine makes longer.
        staged_ns = sum(stage["elapsed_ns"] for stage in phase["stages"])
        assert phase["elapsed_ns"] / 2 < staged_ns <= 1.1 * phase["elapsed_ns"]
        assert (phase["process"]["mode"], phase["process"]["processes"]) == (mode, 4)
        assert phase["process"]["criu_cpu_ns"] > 0
    assert restore["verified"] == "the program's memory"
    assert 0 < restore["process"]["first_answer_ns"] <= restore["process"]["resident_ns"]
    assert save["user_bytes"] > 5_000_000
    assert (save["stored_bytes"] < save["user_bytes"]) == (not plain)
    assert list(tmp_path.iterdir()) == []


def gib(key):
    """Room in GiB, as /proc/meminfo has it."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(key))) / (1 << 20)


@pytest.mark.parametrize(
    ("size", "program", "payload", "codec"),
    [(1 << 30, "tree", "random", "none"), (4 << 30, "memory", "zeros", "lz4")],
)
def test_gibibytes_come_back(criu, tmp_path, size, program, payload, codec):
    from savemark import _engine

    if gib("MemAvailable") * (1 << 30) < size * 1.3 + (1 << 30):
        pytest.skip(f"only {gib('MemAvailable'):.1f} GiB of memory are free")
    if shutil.disk_usage(tmp_path).free < 2 * size:
        pytest.skip("the disk has no room")
    direct = json.loads(_engine.host(str(tmp_path)))["target"]["class"] != "memory"
    trial = {"workload": "process", "storage": "posix", "direct": direct, "target": str(tmp_path)}
    trial |= {"size": size, "payload": payload, "program": program, "codec": codec}
    save, restore = json.loads(_engine.Engine().run(json.dumps(trial)))["phases"]
    # Every page went through the pipes: zeros too, once they were written.
    assert save["process"]["stats"]["pages"] * 4096 >= size
    assert save["user_bytes"] >= size
    assert restore["verified"] == "the program's memory"


def test_what_a_mode_cannot_do_is_refused():
    from savemark import _engine

    trial = {"workload": "process", "storage": "null", "mode": "images", "codec": "zstd"}
    with pytest.raises(_engine.EngineError) as refused:
        _engine.resolve(json.dumps(trial))
    assert "mode" in refused.value.message
