"""The peers of block and metadata I/O as functions: what each says of one run, and the CPU it took.

fio tells its own CPU time of the job; of the others it is that of the process and its children,
from their start to their end.
"""

import csv
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sides import Sample, say


def here(name: str, *needs: str) -> bool:
    """Whether a peer can run; says by name what is skipped."""
    missing = [word for word in (name, *needs) if shutil.which(word) is None]
    if missing:
        say(f"  {name}: skipped, {' and '.join(missing)} not on PATH")
    return not missing


def process(*words: object, folder: Path | None = None) -> tuple[str, float]:
    """What one process printed, and the CPU seconds of it and its children."""
    with tempfile.TemporaryFile("w+") as out:
        started = subprocess.Popen(
            [*map(str, words)], cwd=folder, stdout=out, stderr=subprocess.STDOUT
        )
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read()
    if started.returncode:
        raise SystemExit(f"{words[0]} failed: {text[-1000:]}")
    return text, used.ru_utime + used.ru_stime


def fio(folder: Path, **options: object) -> Sample:
    """One fio job; its own CPU accounting (usr + sys of the job's threads)."""
    words = [f"--{key}={value}" for key, value in options.items()]
    command = ["fio", "--name=bench", f"--directory={folder}", "--group_reporting", *words]
    if "nrfiles" not in options:
        command.append("--filename=fio.bin")
    done = subprocess.run(
        [*command, "--output-format=json"], check=True, capture_output=True, text=True
    )
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    part = job["read"] if job["read"]["total_ios"] else job["write"]
    cpu_s = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1e3
    return Sample(part["runtime"] / 1e3, part["io_bytes"], part["total_ios"], cpu_s)


def elbencho(*words: object) -> dict[str, Sample]:
    """What elbencho says until its last thread had ended, by phase (WRITE, READ, STAT, …)."""
    with tempfile.TemporaryDirectory() as made:
        table = Path(made) / "out.csv"
        _, cpu_s = process("elbencho", "--nolive", f"--csvfile={table}", *words)
        rows = list(csv.DictReader(table.open()))
    samples = {}
    for row in rows:
        seconds = float(row["time ms [last]"]) / 1e3
        moved = float(row["MiB [last]"] or 0) * (1 << 20)
        per_second = row["IOPS [last]"] or row["entries/s [last]"]
        entries = float(row["entries [last]"] or 0)
        count = entries if not moved else float(per_second or 0) * seconds
        samples[row["operation"].upper()] = Sample(seconds, int(moved), round(count), cpu_s)
    return samples


def ior(ranks: int, *words: object) -> dict[str, Sample]:
    """What IOR says of `write` and `read`; opening and closing are not in its wr/rd time."""
    text, cpu_s = process(*mpirun(ranks), "ior", "-a", "POSIX", *words)
    samples = {}
    for line in text.splitlines():
        cells = line.split()
        # access, MiB/s, IOPS, latency, block, transfer, open, wr/rd, close, total, iteration
        if len(cells) == 11 and cells[0] in ("write", "read"):
            seconds, moved = float(cells[7]), float(cells[1]) * (1 << 20) * float(cells[9])
            samples[cells[0]] = Sample(
                seconds, round(moved), round(float(cells[2]) * seconds), cpu_s
            )
    if not samples:
        raise SystemExit(f"ior said nothing that can be read: {text[-1000:]}")
    return samples


def mdtest(ranks: int, *words: object) -> dict[str, float]:
    """Operations per second that mdtest says: creation, stat, read, removal (of files)."""
    text, _ = process(*mpirun(ranks), "mdtest", "-F", *words)
    found = re.findall(r"^ +File (creation|stat|read|rename|removal) +([\d.]+)", text, re.MULTILINE)
    if not found:
        raise SystemExit(f"mdtest said nothing that can be read: {text[-1000:]}")
    return {name: float(rate) for name, rate in found}


def mpirun(ranks: int) -> list[str]:
    """How ranks are started on one machine."""
    words = ["mpirun", "--oversubscribe", "-n", str(ranks)]
    return [*words, "--allow-run-as-root"] if os.geteuid() == 0 else words


@contextmanager
def in_memory(below: Path) -> Iterator[Path]:
    """A folder on tmpfs. Root mounts one, for elbencho refuses what is in /dev."""
    with tempfile.TemporaryDirectory(dir=below, prefix="tmpfs-") as made:
        words = ["mount", "-t", "tmpfs", "tmpfs", made]
        if os.geteuid() == 0 and subprocess.run(words, check=False).returncode == 0:
            try:
                yield Path(made)
            finally:
                unmount(Path(made))
            return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as made:
        yield Path(made)


def unmount(folder: Path) -> None:
    """Takes it down; threads that have ended let go of their files a moment later."""
    for _ in range(50):
        if subprocess.run(["umount", folder], check=False, capture_output=True).returncode == 0:
            return
        time.sleep(0.1)
    subprocess.run(["umount", folder], check=True)


@contextmanager
def on_ext4(below: Path, items: int) -> Iterator[Path | None]:
    """A new ext4 with its default journal, in a file below; None, with the reason, where not."""
    if os.geteuid() != 0 or not here("mke2fs"):
        say("  a new ext4: skipped, only root can mount one")
        yield None
        return
    with tempfile.TemporaryDirectory(dir=below, prefix="ext4-") as made:
        image, folder = Path(made) / "image", Path(made) / "mounted"
        folder.mkdir()
        with image.open("wb") as file:
            file.truncate(4 << 30)
        # Nothing is left to be done in the background while others are measured.
        whole = "lazy_itable_init=0,lazy_journal_init=0,nodiscard"
        process("mke2fs", "-q", "-t", "ext4", "-N", 4 * items, "-E", whole, image)
        process("mount", "-o", "loop", image, folder)
        try:
            yield folder
        finally:
            unmount(folder)
