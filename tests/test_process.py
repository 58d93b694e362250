"""`savemark save --pid`, `savemark restore` of a process, `doctor`, and the workload `process`."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import needs

PROGRAM = """
import os, time
os.setsid()
memory = os.urandom(3_000_001)
first = hash(memory)
step = 0
while True:
    step += 1
    with open("step.new", "w") as file:
        file.write(f"{step} {hash(memory) == first}")
    os.rename("step.new", "step")
    time.sleep(0.005)
"""


@pytest.fixture
def criu():
    from savemark import _engine

    found = {f["name"]: f for f in json.loads(_engine.features())}["criu"]
    if not found["available"]:
        needs.missing("criu", found["reason"])


@pytest.fixture
def savemark(start, tmp_path):
    from savemark import _engine

    target = json.loads(_engine.host(str(tmp_path)))["target"]
    memory = target["class"] == "memory"

    def savemark(*words):
        io = ["--storage", "posix", "--no-direct"] if memory and words[0] != "list" else []
        process = start(*words, *io)
        out, err = process.communicate(timeout=120)
        assert "Traceback" not in err, err
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    return savemark


@pytest.fixture
def program(tmp_path):
    """A process that counts; whatever it has become by the end of the test, it is ended."""
    nothing = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
    }
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", PROGRAM], cwd=tmp_path, **nothing)
    step_after(tmp_path, 0)
    yield process
    process.poll()
    try:
        if str(tmp_path) == str(Path(f"/proc/{process.pid}/cwd").readlink()):
            os.kill(process.pid, signal.SIGKILL)
    except OSError:
        pass
    process.wait()


def step_after(folder, step):
    """Wait until the program has counted beyond `step`; return how far it has."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        text = (folder / "step").read_text() if (folder / "step").exists() else "0 True"
        now, right = text.split()
        assert right == "True"
        if int(now) > step:
            return int(now)
        time.sleep(0.01)
    raise AssertionError(f"it stands at {step}")


def test_a_process_is_saved_killed_and_goes_on(criu, savemark, program, tmp_path):
    saved = savemark("save", "--pid", program.pid, "ck", "--codec", "lz4")
    assert saved.returncode == 0, saved.stderr
    assert f"process {program.pid} was killed" in saved.stdout
    assert program.wait(10) == -signal.SIGKILL
    step = int((tmp_path / "step").read_text().split()[0])
    assert "every byte" in savemark("verify", "ck").stdout
    (row,) = json.loads(savemark("list", "ck", "--json").stdout)
    assert (row["status"], row["codec"]) == ("complete", "lz4")
    restored = savemark("restore", "ck", "--json")
    assert restored.returncode == 0, restored.stderr + restored.stdout
    assert json.loads(restored.stdout)["pid"] == program.pid
    assert step_after(tmp_path, step) > step
    again = savemark("restore", "ck")
    assert again.returncode == 5
    assert str(program.pid) in again.stderr
    images = savemark("restore", "ck", "images")
    assert images.returncode == 0, images.stderr
    names = {path.name for path in (tmp_path / "images").iterdir()}
    assert {"inventory.img", "pages-1.img", "savemark-process.json"} <= names


def test_a_process_may_run_on_and_several_are_kept(criu, savemark, program, tmp_path):
    for _ in range(2):
        saved = savemark("save", "--pid", program.pid, "kept", "--keep", "1", "--leave-running")
        assert saved.returncode == 0, saved.stderr
        assert f"process {program.pid} goes on" in saved.stdout
        step_after(tmp_path, int((tmp_path / "step").read_text().split()[0]))
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
        assert sum(stage["elapsed_ns"] for stage in phase["stages"]) == pytest.approx(
            phase["elapsed_ns"], rel=0.1
        )
        assert (phase["process"]["mode"], phase["process"]["processes"]) == (mode, 4)
        assert phase["process"]["criu_cpu_ns"] > 0
    assert restore["verified"] == "the program's memory"
    assert 0 < restore["process"]["first_answer_ns"] <= restore["process"]["resident_ns"]
    assert save["user_bytes"] > 5_000_000
    assert (save["stored_bytes"] < save["user_bytes"]) == (not plain)
    assert list(tmp_path.iterdir()) == []


def test_what_a_mode_cannot_do_is_refused():
    from savemark import _engine

    trial = {"workload": "process", "storage": "null", "mode": "images", "codec": "zstd"}
    with pytest.raises(_engine.EngineError) as refused:
        _engine.resolve(json.dumps(trial))
    assert "mode" in refused.value.message
