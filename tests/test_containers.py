"""Containers: saved by their runtime and the engine, never lost."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import s3_server
from live_program import needs_criu
from needs import missing
from waiting import until
from wire import Wire

# Counts, and says whether its memory is what it was.
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static unsigned char memory[3000001];
static unsigned sum(void) {
  unsigned all = 0;
  for (unsigned i = 0; i < sizeof memory; i++) all = all * 31 + memory[i];
  return all;
}
int main(void) {
  for (unsigned i = 0; i < sizeof memory; i++) memory[i] = rand();
  unsigned first = sum();
  for (unsigned step = 1;; step++) {
    FILE *file = fopen("/step.new", "w");
    fprintf(file, "%u %s", step, sum() == first ? "True" : "False");
    fclose(file);
    rename("/step.new", "/step");
    usleep(5000);
  }
}
"""
NAME = f"savemark-test-{os.getpid()}"


def runc(*words):
    nothing = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    return subprocess.run(["runc", *map(str, words)], check=False, **nothing).returncode == 0


def make_root(folder):
    """Make a root filesystem with nothing but the program."""
    root = folder / "rootfs"
    for name in ("proc", "dev", "sys", "tmp"):
        (root / name).mkdir(parents=True)
    (folder / "count.c").write_text(PROGRAM)
    words = ["cc", "-static", "-O1", "-w", "-o", str(root / "count"), str(folder / "count.c")]
    if subprocess.run(words, check=False, capture_output=True).returncode != 0:
        missing("cc", "it cannot make a static program")
    return root


class Counting:
    """A container that counts in the file `step` of its root."""

    @property
    def step(self):
        path = self.root / "step"
        now, right = (path.read_text() if path.exists() else "0 True").split()
        assert right == "True"
        return int(now)

    def goes_on(self):
        before = self.step
        until(lambda: self.step > before)


class OfRunc(Counting):
    """A container of runc; its bundle is below a folder."""

    def __init__(self, folder):
        self.bundle = folder / "bundle"
        self.bundle.mkdir()
        self.root = make_root(self.bundle)
        subprocess.run(["runc", "spec"], cwd=self.bundle, check=True)
        config = json.loads((self.bundle / "config.json").read_text())
        config["process"] |= {"terminal": False, "args": ["/count"]}
        config["root"]["readonly"] = False
        # CRIU stops a network of its own with iptables, which may not be here.
        spaces = config["linux"]["namespaces"]
        config["linux"]["namespaces"] = [each for each in spaces if each["type"] != "network"]
        (self.bundle / "config.json").write_text(json.dumps(config))
        if not runc("run", "--detach", "--bundle", self.bundle, NAME):
            missing("runc", "it cannot start a container here")
        self.goes_on()

    @property
    def status(self):
        done = subprocess.run(["runc", "state", NAME], capture_output=True, text=True, check=False)
        return json.loads(done.stdout)["status"] if done.returncode == 0 else None


@pytest.fixture
def container(tmp_path):
    if shutil.which("runc") is None:
        missing("runc", "runc is not installed")
    if os.geteuid() != 0:
        missing("runc", "it needs root here")
    needs_criu()
    try:
        yield OfRunc(tmp_path)
    finally:
        runc("resume", NAME)
        runc("delete", "--force", NAME)


@pytest.fixture
def savemark(tmp_path):
    (tmp_path / "work").mkdir()

    def savemark(*words, path=None, **environment):
        path = path or os.environ["PATH"]
        done = subprocess.run(
            [sys.executable, "-m", "savemark", *map(str, words)],
            cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(tmp_path / "work"), "PATH": path, **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert list((tmp_path / "work").iterdir()) == [], "something is left"
        return done

    return savemark


PLAIN = ("--storage", "posix", "--no-direct")


def test_a_container_is_saved_killed_and_goes_on(savemark, container, tmp_path):
    kept = savemark(
        "save", "--container", NAME, "kept", "--leave-running", "--codec", "lz4", *PLAIN
    )
    assert kept.returncode == 0, kept.stderr
    assert f"container {NAME} goes on" in kept.stdout
    container.goes_on()
    again = savemark("restore", "kept", "--container", *PLAIN)
    assert again.returncode == 5
    assert f"runc delete {NAME}" in again.stderr
    container.goes_on()
    saved = savemark("save", "--container", f"runc:{NAME}", "ck", *PLAIN)
    assert saved.returncode == 0, saved.stderr
    assert "was killed" in saved.stdout
    assert container.status is None
    step = container.step
    # A wrong byte is found before anything runs.
    shard = max((tmp_path / "ck").glob("shard-*"), key=lambda path: path.stat().st_size)
    good = shard.read_bytes()
    shard.write_bytes(good[:9000] + bytes([good[9000] ^ 1]) + good[9001:])
    assert savemark("restore", "ck", "--container", *PLAIN).returncode == 4
    assert (container.status, container.step) == (None, step)
    shard.write_bytes(good)
    # Nor does one whose files are not there.
    container.bundle.rename(tmp_path / "elsewhere")
    gone = savemark("restore", "ck", "--container", *PLAIN)
    assert gone.returncode == 2
    assert "--bundle" in gone.stderr
    (tmp_path / "elsewhere").rename(container.bundle)
    restored = savemark("restore", "ck", "--container", "--json", *PLAIN)
    assert restored.returncode == 0, restored.stderr
    assert json.loads(restored.stdout)["container"] == f"runc:{NAME}"
    container.goes_on()
    assert container.step > step


def test_a_container_goes_on_whatever_fails(savemark, container, tmp_path):
    server = s3_server.start()
    wire = Wire(server.server_port, "silent", 500_000)
    bucket = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    bucket["AWS_ENDPOINT_URL"] = wire.url
    words = ("save", "--container", NAME, "s3://bucket/ck")
    failed = savemark(*words, "--retries", "0", "--timeout", "300ms", **bucket)
    assert failed.returncode == 1, failed.stderr
    assert wire.cut, "the test does not test"
    container.goes_on()
    wire.close()
    # savemark is killed while the container stands still.
    wire = Wire(server.server_port, "silent", 500_000)
    bucket["AWS_ENDPOINT_URL"] = wire.url
    process = subprocess.Popen(
        [sys.executable, "-m", "savemark", *words],
        cwd=tmp_path,
        env={**os.environ, **bucket, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(lambda: wire.cut)
    assert container.status == "paused"
    process.send_signal(signal.SIGKILL)
    process.wait()
    container.goes_on()
    wire.close()
    server.shutdown()
    server.server_close()
    assert runc("pause", NAME)
    paused = savemark("save", "--container", NAME, "ck", *PLAIN)
    assert paused.returncode == 5, paused.stderr
    assert f"runc resume {NAME}" in paused.stderr
    assert container.status == "paused", "somebody else has paused it"


def test_what_runc_cannot_do_is_said(savemark, container, tmp_path):
    broken = tmp_path / "bin"
    broken.mkdir()
    criu = broken / "criu"
    criu.write_text("#!/bin/sh\nexit 1\n")
    criu.chmod(0o755)
    path = f"{broken}:{os.environ['PATH']}"
    failed = savemark("save", "--container", NAME, "ck", *PLAIN, path=path)
    assert failed.returncode == 1
    assert "runc checkpoint" in failed.stderr
    assert not (tmp_path / "ck").exists()
    container.goes_on()


def test_what_is_no_container_is_said(savemark, tmp_path):
    (tmp_path / "file").write_text("x")
    assert savemark("save", "file", "files", *PLAIN).returncode == 0
    cases = [
        (["restore", "files", "--container", *PLAIN], "not the checkpoint of a container"),
        (["restore", "files", "there", "--container"], "there is no DEST"),
        (["restore", "files", "there", "--bundle", "x"], "add --container"),
        (["save", "--container", "docker:x", "ck"], "`docker` is not known"),
        (["save", "--container", "x", "--pid", "1", "ck"], "leave one out"),
        (["save", "--container", "x", "a", "b"], "there is no SRC"),
        (["save", "a", "b", "--work", "x"], "--container"),
        (["save", "--container", "x", "ck", "--cut-pipes"], "--pid"),
    ]
    for words, said in cases:
        done = savemark(*words)
        assert done.returncode == 2, (words, done.stderr)
        assert said in done.stderr
    nothing = savemark("save", "--container", "x", "ck", path=str(tmp_path))
    assert nothing.returncode == 5
    assert "neither runc nor podman" in nothing.stderr


def podman_says(*words):
    """Return what podman prints; None if it fails."""
    done = subprocess.run(["podman", *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


class OfPodman(Counting):
    """A container of podman, which keeps everything below a folder."""

    def __init__(self, folder):
        root = make_root(folder)
        archive = str(folder / "root.tar")
        subprocess.run(["tar", "-C", str(root), "-cf", archive, "."], check=True)
        words = ("run", "--detach", "--network", "host", "--name", NAME, "savemark-test", "/count")
        if not (podman_says("import", archive, "savemark-test") and podman_says(*words)):
            missing("podman", "it cannot start a container here")
        self.goes_on()

    @property
    def root(self):
        """Where it is mounted: a container that was made again has another."""
        return Path(podman_says("mount", NAME))


@pytest.fixture
def podman_container(tmp_path, monkeypatch):
    if shutil.which("podman") is None:
        missing("podman", "podman is not installed")
    if os.geteuid() != 0:
        missing("podman", "it needs root here")
    needs_criu()
    place = tmp_path / "podman"
    place.mkdir()
    (place / "containers.conf").write_text(
        '[engine]\ncgroup_manager = "cgroupfs"\n'
        '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]\n'
    )
    (place / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{place}/root"\nrunroot = "{place}/run"\n'
    )
    monkeypatch.setenv("CONTAINERS_CONF", str(place / "containers.conf"))
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(place / "storage.conf"))
    try:
        yield OfPodman(place)
    finally:
        podman_says("umount", "--all", "--force")
        podman_says("rm", "--force", "--all")


def test_a_container_of_podman_is_saved_and_goes_on(savemark, podman_container, tmp_path):
    kept = savemark("save", "--container", NAME, "kept", "--leave-running", *PLAIN)
    assert kept.returncode == 0, kept.stderr
    podman_container.goes_on()
    server = s3_server.start()
    wire = Wire(server.server_port, "reset", 500_000)
    bucket = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    words = ("save", "--container", NAME, "s3://bucket/ck", "--retries", "0")
    failed = savemark(*words, AWS_ENDPOINT_URL=wire.url, **bucket)
    assert failed.returncode == 1, failed.stderr
    assert wire.cut, "the test does not test"
    podman_container.goes_on()
    server.shutdown()
    server.server_close()
    step = podman_container.step
    saved = savemark("save", "--container", f"podman:{NAME}", "ck", *PLAIN)
    assert saved.returncode == 0, saved.stderr
    assert podman_says("ps", "--all", "--quiet") == ""
    restored = savemark("restore", "ck", "--container", *PLAIN)
    assert restored.returncode == 0, restored.stderr
    podman_container.goes_on()
    assert podman_container.step > step


PODMAN = """#!/bin/sh
echo "$*" >>"$CALLS"
case "$1 $2 $3" in
*inspect*) cat "$STATUS" ;;
--version*) echo "podman version 5" ;;
*" checkpoint "*) [ -e "$FAIL" ] && { echo "Error: cannot" >&2; exit 125; }
    while [ "$1" != --export ]; do shift; done; echo archive >"$2"; echo exited >"$STATUS" ;;
*" restore --import") cat "$4" >/dev/null ;;
*" restore "*) echo running >"$STATUS" ;;
esac
"""


@pytest.fixture
def podman(tmp_path):
    """A script that behaves as podman's manual says; what it was told is in its list."""
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "podman"
    script.write_text(PODMAN)
    script.chmod(0o755)
    (tmp_path / "status").write_text("running\n")
    names = {name.upper(): str(tmp_path / name) for name in ("calls", "status", "fail")}
    names["path"] = f"{tmp_path / 'bin'}:/usr/bin:/bin"

    def calls():
        lines = (tmp_path / "calls").read_text().splitlines()
        (tmp_path / "calls").write_text("")
        return [line.split()[1] for line in lines if "inspect" not in line and line[0] != "-"]

    return names, calls


def test_podman_is_told_what_its_manual_says(savemark, podman, tmp_path):
    names, calls = podman
    saved = savemark("save", "--container", "podman:web", "ck", *PLAIN, **names)
    assert saved.returncode == 0, saved.stderr
    assert calls() == ["checkpoint", "--force"]
    restored = savemark("restore", "ck", "--container", *PLAIN, **names)
    assert restored.returncode == 0, restored.stderr
    assert "podman:web goes on" in restored.stdout
    assert calls() == ["restore"]
    # It is let run on, and goes on after a failure, from the state that podman has kept.
    (tmp_path / "status").write_text("running\n")
    kept = savemark("save", "--container", "podman:web", "k2", "--leave-running", *PLAIN, **names)
    assert kept.returncode == 0, kept.stderr
    assert calls() == ["checkpoint", "restore"]
    (tmp_path / "fail").touch()
    failed = savemark("save", "--container", "podman:web", "k3", *PLAIN, **names)
    assert failed.returncode == 1
    assert "Error: cannot" in failed.stderr
    assert calls() == ["checkpoint"], "it was never stopped"
