"""What `criu dump --stream` costs before anything is done with it: the floor of every peer.

    python bench/process_floor.py [--size 1GiB] [--rounds 3]

Needs CRIU 4.2 and root. One process of random bytes is dumped and goes on, in turn: by CRIU into
files (`images`); into pipes that are moved to nowhere without a byte being read (`splice`); into
pipes that are read into one buffer (`read`). CPU is that of CRIU, the program and the reader.

Expected before the first run: `splice` a quarter of `images`, and the copy of `read` as much again.
"""

import argparse
import array
import fcntl
import os
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from savemark import _engine

F_SETPIPE_SZ = 1031
PIPE_BYTES = 1 << 20
PROGRAM = """
import os, sys, time
memory = os.urandom(int(sys.argv[1]))
os.mkdir(sys.argv[2])
while True:
    time.sleep(0.1)
"""


class Drain:
    """The peer of `criu dump --stream` that keeps nothing."""

    def __init__(self, folder: Path, copies: bool) -> None:
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(folder / "streamer-capture.sock"))
        self.listener.listen()
        self.copies, self.buffer = copies, memoryview(bytearray(PIPE_BYTES))
        self.nowhere = os.open("/dev/null", os.O_WRONLY)

    def run(self) -> None:
        """Until CRIU has closed the connection and every pipe."""
        line, _ = self.listener.accept()
        poll = select.poll()
        poll.register(line, select.POLLIN)
        waiting = 1
        while waiting:
            for fd, _ in poll.poll():
                if fd == line.fileno() and (pipe := self._image(line)) is not None:
                    poll.register(pipe, select.POLLIN)
                    waiting += 1
                elif fd == line.fileno() or self._move(fd) == 0:
                    poll.unregister(fd)
                    waiting -= 1
                    if fd != line.fileno():
                        os.close(fd)
        line.close()

    def _move(self, pipe: int) -> int:
        if self.copies:
            return os.readv(pipe, [self.buffer])
        return os.splice(pipe, self.nowhere, PIPE_BYTES)

    def _image(self, line: socket.socket) -> int | None:
        header = line.recv(4)
        if not header:
            return None
        line.recv(struct.unpack("<I", header)[0])
        _, ancillary, _, _ = line.recvmsg(1, socket.CMSG_SPACE(4))
        pipe = array.array("i", ancillary[0][2])[0]
        fcntl.fcntl(pipe, F_SETPIPE_SZ, PIPE_BYTES)
        return pipe


def cpu_of(pid: int) -> float:
    """Seconds that the threads of a process have run."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def own_cpu() -> float:
    """Seconds of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def dump(way: str, pid: int, folder: Path) -> tuple[float, float]:
    """Dump the program; return the CPU seconds of CRIU with the program, and of the reader."""
    images = folder / "images"
    images.mkdir()
    drain = None if way == "images" else Drain(images, way == "read")
    before = cpu_of(pid), own_cpu()
    words = ["criu", "dump", "--leave-running", "--tree", str(pid), "--images-dir", str(images)]
    words += ["--log-file", "log"] + ([] if drain is None else ["--stream"])
    criu = subprocess.Popen(words)
    if drain is not None:
        drain.run()
    _, status, used = os.wait4(criu.pid, 0)
    assert status == 0, (images / "log").read_text()[-500:]
    theirs = used.ru_utime + used.ru_stime + cpu_of(pid) - before[0]
    ours = own_cpu() - before[1]
    shutil.rmtree(images)
    return theirs, ours


def main() -> None:
    """Prints CPU seconds per GB of each way."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="1GiB")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    size = _engine.parse_size(options.size)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        program = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", PROGRAM, str(size), str(folder / "ready")],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while not (folder / "ready").exists():
                time.sleep(0.05)
            for _ in range(options.rounds):
                for way in ("images", "splice", "read"):
                    theirs, ours = (each / (size / 1e9) for each in dump(way, program.pid, folder))
                    print(f"{way:<7} {theirs:.3f} + {ours:.3f} = {theirs + ours:.3f} CPU-s/GB")
        finally:
            os.kill(program.pid, signal.SIGKILL)
            program.wait()


if __name__ == "__main__":
    main()
