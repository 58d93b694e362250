"""A program to save and restore: it counts, and says whether its memory is what it was."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import needs
from waiting import until

PROGRAM = """
import os, sys, time, zlib
os.closerange(3, 1024)
os.setsid()
memory = os.urandom(int(sys.argv[1]))
first = zlib.crc32(memory)
step = 0
# One file, always of the same size: an older checkpoint finds it as it was, too.
file = os.open("step", os.O_RDWR | os.O_CREAT)
while True:
    step += 1
    os.pwrite(file, f"{step:20} {zlib.crc32(memory) == first!s:5}".encode(), 0)
    time.sleep(0.005)
"""


def needs_criu():
    """Skip the test where CRIU does not work."""
    from savemark import _engine

    found = {f["name"]: f for f in json.loads(_engine.features())}["criu"]
    if not found["available"]:
        needs.missing("criu", found["reason"])


class Program:
    """A process in its own folder, which counts in the file `step`."""

    def __init__(self, folder, size=3_000_001):
        self.folder = folder
        nothing = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        words = [sys.executable, "-I", "-S", "-c", PROGRAM, str(size)]
        self.process = subprocess.Popen(words, cwd=folder, **nothing)
        self.pid = self.process.pid
        self.goes_on()

    @property
    def step(self):
        """How far it has counted."""
        path = self.folder / "step"
        now, right = ((path.read_text() if path.exists() else "") or "0 True").split()
        assert right == "True"
        return int(now)

    def goes_on(self):
        """Wait until it has counted on."""
        before = self.step
        until(lambda: self.step > before)

    def kill(self):
        """End it, and wait until its number is free."""
        os.kill(self.pid, signal.SIGKILL)
        self.is_gone()

    def is_gone(self):
        """Wait until there is no such process; a zombie of ours is one no more."""

        def gone():
            self.process.poll()
            return not Path(f"/proc/{self.pid}").exists()

        until(gone)

    def end(self):
        """Whatever it has become by the end of the test, it is ended."""
        self.process.poll()
        try:
            if str(self.folder) == str(Path(f"/proc/{self.pid}/cwd").readlink()):
                os.kill(self.pid, signal.SIGKILL)
        except OSError:
            pass
        self.process.wait()
