"""Side by side with s5cmd, aws-cli, rclone and warp on MinIO at loopback: interleaved, ratios.

    python bench/object.py SCRATCH [--rounds 4] [--only ceiling]

Needs `minio` on PATH, but for the ceiling; a peer that is not there is left out. Every side is a
process of its own, measured from its start to its end, with the CPU time of all its threads; the
server's is told beside it, for on a small machine the two share the processors.

* One object of 1 GiB: from a file (in the page cache) into the bucket, and from there to nowhere.
  Ours is `savemark save` on one stream and `savemark verify`, which also checks every byte.
* The client's own ceiling: the same against a server that throws away what is put and makes what is
  asked for (`discarding.py`), with one thread of the client, two, and as many as it takes by
  itself; s5cmd beside it. A trial that comes near this rate measures the client and not the store.
* Many objects of 8 MiB, four at a time: warp, against `sequential` (PUT) and `random` (GET) with
  `files`, which move whole objects by one request each. The engine's own time, as warp's is.

Expected before the first run (and why), to be held against what comes out:
* CPU: a third of s5cmd's to put (it hashes everything with SHA-256, we send a CRC-64), half to get.
* Rates: what the CPU time of client and server together allows, for both cores are busy: 1.2 to
  1.5 times s5cmd's.
"""

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sides import Sample, Side, goal, interleave, rate, ratio, say

SIZE = 1 << 30
PART = 8 << 20
AT_ONCE = 4
KEY, SECRET = "key-of-bench", "secret-of-bench"

# Ours: a process that does one thing through the engine, without the rest of the program.
OURS = """
import sys
import savemark._engine as engine
trial, *source = sys.argv[1:]
engine.save_tree(trial, *source) if source else engine.verify(trial)
"""


class Server:
    """A server with an empty bucket called `bench`."""

    def __init__(self, process: subprocess.Popen, port: int) -> None:
        self.process = process
        self.endpoint = f"http://127.0.0.1:{port}"
        self.host = f"127.0.0.1:{port}"

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the server so far."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")

    def environment(self) -> dict[str, str]:
        """What leads a client there; s5cmd has a name of its own for it."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
            "S3_ENDPOINT_URL": self.endpoint,
        }


def free_port() -> int:
    """One that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def discarding() -> Iterator[Server]:
    """Runs the server that keeps nothing."""
    port = free_port()
    command = [sys.executable, Path(__file__).with_name("discarding.py"), str(port)]
    process = subprocess.Popen(command)
    try:
        while socket.socket().connect_ex(("127.0.0.1", port)):
            time.sleep(0.05)
        yield Server(process, port)
    finally:
        process.terminate()
        process.wait()


@contextmanager
def minio(folder: Path) -> Iterator[Server]:
    """Runs MinIO with its data in `folder`."""
    port = free_port()
    (folder / "data" / "bench").mkdir(parents=True)
    keys = {"MINIO_ROOT_USER": KEY, "MINIO_ROOT_PASSWORD": SECRET, "MINIO_BROWSER": "off"}
    process = subprocess.Popen(
        ["minio", "server", "--quiet", "--address", f"127.0.0.1:{port}", folder / "data"],
        env={**os.environ, **keys, "HOME": str(folder)},
        stdout=subprocess.DEVNULL,
    )
    try:
        while socket.socket().connect_ex(("127.0.0.1", port)):
            time.sleep(0.1)
        time.sleep(2)
        yield Server(process, port)
    finally:
        process.terminate()
        process.wait()


def run(server: Server, *words: object, size: int = SIZE) -> Sample:
    """One process from start to end: its wall time, and the CPU time of it and its children."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    busy, start = server.cpu_s, time.perf_counter()
    process = subprocess.Popen(
        [*map(str, words)],
        env={**mine, **server.environment()},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    error = process.stderr.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{words[0]} failed: {error[-500:]}")
    cpu_s = used.ru_utime + used.ru_stime
    # `operations` carries the server's CPU time in milliseconds.
    return Sample(seconds, size, int((server.cpu_s - busy) * 1e3), cpu_s)


def ours(server: Server, *source: Path) -> Sample:
    """Our engine, in a process of its own: saves `source`, or verifies what was saved."""
    trial = {"workload": "checkpoint", "storage": "object", "target": "s3://bench/ours"}
    setting = {"streams": 1, "chunk_size": 8 << 20, "queue_depth": 4}
    return run(server, sys.executable, "-c", OURS, json.dumps({**trial, **setting}), *source)


def one_object(server: Server, file: Path) -> tuple[list[Side], list[Side]]:
    """Who puts, and who gets, one object of 1 GiB. The getters find what the putters put."""
    rclone = f":s3,provider=Minio,env_auth,endpoint='{server.endpoint}':bench/rclone"
    aws = ["aws", "--endpoint-url", server.endpoint, "s3", "cp", "--quiet"]
    put: dict[str, Callable[[], Sample]] = {
        "savemark": lambda: ours(server, file),
        "s5cmd": lambda: run(server, "s5cmd", "cp", file, "s3://bench/s5cmd"),
        "aws": lambda: run(server, *aws, file, "s3://bench/aws"),
        "rclone": lambda: run(server, "rclone", "copyto", "--ignore-times", file, rclone),
    }
    get: dict[str, Callable[[], Sample]] = {
        "savemark": lambda: ours(server),
        "s5cmd": lambda: run(server, "s5cmd", "cat", "s3://bench/s5cmd"),
        "aws": lambda: run(server, *aws, "s3://bench/aws", "-"),
        "rclone": lambda: run(server, "rclone", "cat", rclone),
    }
    here = [name for name in put if name == "savemark" or shutil.which(name)]
    return [Side(name, put[name]) for name in here], [Side(name, get[name]) for name in here]


def moved(server: Server, operation: str, client_threads: int | None = None) -> Sample:
    """Objects of 8 MiB, four at once, each by one request of the engine in this process."""
    from savemark import _engine

    pattern = {
        "write": {"workload": "sequential"},
        "read": {"workload": "random", "duration": "8s"},
    }
    trial = {
        "storage": "object",
        "target": f"s3://bench/{operation}",
        "files": SIZE // PART,
        "size": PART,
        "transfer_size": PART,
        "queue_depth": AT_ONCE,
        "payload": "random",
        "client_threads": client_threads,
        "operation": operation,
    }
    os.environ.update(server.environment())
    busy = server.cpu_s
    record = json.loads(_engine.Engine().run(json.dumps({**trial, **pattern[operation]})))
    phase = record["phases"][-1]
    cpu_s = (phase["cpu_user_ns"] + phase["cpu_system_ns"]) / 1e9
    # Beside the phase the server lays out what is read: its time is told where it does not.
    served = int((server.cpu_s - busy) * 1e3) if operation == "write" else 0
    return Sample(phase["elapsed_ns"] / 1e9, phase["user_bytes"], served, cpu_s)


def ceiling(server: Server, file: Path) -> tuple[list[Side], list[Side]]:
    """What the clients alone put and get, with as many threads as ours is given."""
    kinds = {"1 thread": 1, "2 threads": 2, "savemark": None}
    puts = [
        Side(name, lambda count=count: moved(server, "write", count))  # type: ignore[misc]
        for name, count in kinds.items()
    ]
    gets = [
        Side(name, lambda count=count: moved(server, "read", count))  # type: ignore[misc]
        for name, count in kinds.items()
    ]
    if shutil.which("s5cmd"):
        puts.append(Side("s5cmd", lambda: run(server, "s5cmd", "cp", file, "s3://bench/s5cmd")))
        gets.append(Side("s5cmd", lambda: run(server, "s5cmd", "cat", "s3://bench/s5cmd")))
    return puts, gets


def many_requests(server: Server) -> tuple[list[Side], list[Side]]:
    """Who puts, and who gets, objects of 8 MiB, four at once."""
    puts = [Side("savemark", lambda: moved(server, "write"))]
    gets = [Side("savemark", lambda: moved(server, "read"))]
    if shutil.which("warp"):
        puts.append(Side("warp", lambda: warp(server, "put")))
        gets.append(Side("warp", lambda: warp(server, "get")))
    return puts, gets


def warp(server: Server, operation: str) -> Sample:
    """What warp says of 8 s; its CPU time has that of laying out in it, and is not used."""
    words = ["warp", operation, f"--host={server.host}", f"--access-key={KEY}", "--no-color"]
    words += [f"--secret-key={SECRET}", "--bucket=warp", "--obj.size=8MiB", "--duration=8s"]
    words += [f"--concurrent={AT_ONCE}", *(["--objects=128"] if operation == "get" else [])]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    found = re.findall(r"Average: ([\d.]+) ([KMG]iB)/s", done.stdout)
    if not found:
        raise SystemExit(f"warp {operation} failed: {(done.stdout + done.stderr)[-500:]}")
    amount = float(found[0][0]) * {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[found[0][1]]
    return Sample(8.0, int(amount * 8), 0, 0.0)


def table(title: str, sides: list[Side]) -> None:
    """Medians of all sides."""
    say(f"\n{title}")
    for side in sides:
        cpu, server = (side.median(figure) for figure in (cpu_per_gib, server_cpu_per_gib))
        spent = f"   client {cpu:5.2f}" if cpu else ""
        spent += f"   server {server:5.2f} CPU-s/GiB" if server else ""
        say(f"  {side.name:<10} {side.median(rate):6.3f} GB/s{spent}")


def cpu_per_gib(sample: Sample) -> float:
    """The client's CPU seconds per GiB."""
    return sample.cpu_s / sample.bytes * (1 << 30)


def server_cpu_per_gib(sample: Sample) -> float:
    """The server's."""
    return sample.operations / 1e3 / sample.bytes * (1 << 30)


def compare(title: str, sides: list[Side], peer: str, least: float, rounds: int) -> None:
    """Runs the sides in turns, and holds us against `peer`."""
    interleave(sides, rounds)
    table(title, sides)
    by_name = {side.name: side for side in sides}
    if peer not in by_name:
        say(f"  {peer} is not on PATH: no goal to hold this against")
        return
    mine, theirs = by_name["savemark"], by_name[peer]
    goal(f"rate against {peer}", ratio(mine, theirs, rate), least)
    if all(sample.cpu_s for sample in theirs.samples):
        goal(f"client CPU against {peer}", ratio(mine, theirs, cpu_per_gib), 0.6, most=True)


def main() -> int:
    """Runs all comparisons."""
    parser = argparse.ArgumentParser()
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--only", choices=["ceiling"], help="leave out what needs MinIO")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=words.scratch) as folder:
        file = Path(folder) / "one.bin"
        with file.open("wb") as out:
            for _ in range(SIZE >> 24):
                out.write(os.urandom(1 << 24))
        with discarding() as server:
            for title, sides in zip(("put", "get"), ceiling(server, file), strict=True):
                interleave(sides, words.rounds)
                table(f"the client alone: {title}, against a server that keeps nothing", sides)
        if words.only is None:
            against_minio(Path(folder), file, words.rounds)
    return 0


def against_minio(folder: Path, file: Path, rounds: int) -> None:
    """The comparisons that need a whole server."""
    if shutil.which("minio") is None:
        say("MinIO: skipped, for minio is not on PATH")
        return
    with minio(folder) as server:
        put, get = one_object(server, file)
        compare("put one object of 1 GiB", put, "s5cmd", 1.2, rounds)
        compare("get one object of 1 GiB", get, "s5cmd", 1.2, rounds)
        puts, gets = many_requests(server)
        compare("put objects of 8 MiB, 4 at once", puts, "warp", 1.0, rounds)
        compare("get objects of 8 MiB, 4 at once", gets, "warp", 1.0, rounds)


if __name__ == "__main__":
    sys.exit(main())
