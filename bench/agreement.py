"""Do we and the peers say the same? Settings in turns, as a table in Markdown.

    python bench/agreement.py SCRATCH [--rounds 5]

Two figures agree when the ranges of their repeats overlap. Where we are faster because our loop
costs less (names in memory) they need not; what is limited by a device should. The same setting
means the same memory, too: peers have pages of 4 KiB, so have we here (`huge_pages: false`). The
last lines show what the pages alone do, for us and for fio. Peers that are not on PATH are skipped
by name.
"""

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from block import fio_layout
from metadata import by_mdtest, savemark
from peers import elbencho, fio, here, in_memory, ior
from sides import Sample, iops, ours, rate, say

from savemark import _engine

SIZE = 1 << 30
HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")
Job = dict[str, object]
Run = Callable[..., float]
URING = {"ioengine": "io_uring", "fixedbufs": 1, "registerfiles": 1, "direct": 1, "size": SIZE}
RANDOM = {"norandommap": 1, "randrepeat": 0, "time_based": 1, "runtime": 2}


@dataclass
class Setting:
    """One line: what is measured, its unit, ours and the peer's way to measure it."""

    name: str
    unit: str
    peer: str
    us: Callable[[], float]
    them: Callable[[], float]


class Settings:
    """All of them, in one folder of a disk and one in memory."""

    def __init__(self, folder: Path, memory: Path) -> None:
        self.folder, self.memory = folder, memory
        self.engine = _engine.Engine()

    def ours(self, figure: Callable[[Sample], float], phase: str, **trial: object) -> float:
        """One of our figures on the disk."""
        trial = {"storage": "uring", "huge_pages": False, **trial}
        return figure(ours(self.engine, self.folder, phase, **trial))

    def new(self, figure: Callable[[Sample], float], **job: object) -> float:
        """One of fio's, of a file that it makes."""
        (self.folder / "fio.bin").unlink(missing_ok=True)
        return figure(fio(self.folder, **job))

    def old(self, figure: Callable[[Sample], float], **job: object) -> float:
        """One of fio's, of a file that was written before."""
        fio_layout(self.folder)
        return figure(fio(self.folder, **job))

    def all(self) -> Iterator[Setting]:
        """Those whose peer is here."""
        if here("fio"):
            yield from self.against_fio()
            yield from self.on_huge_pages()
        if here("elbencho"):
            yield from self.against_elbencho()
        if here("ior", "mpirun"):
            yield from self.against_ior()
        if here("mdtest", "mpirun"):
            yield from self.against_mdtest()

    def against_fio(self) -> Iterator[Setting]:
        """4 KiB at random and 1 MiB in order, direct; from memory; and with fsync."""
        for name, rw, trial in (
            ("read", "randread", {"operation": "read"}),
            ("write", "randwrite", {"operation": "write", "sync": "none"}),
            ("mix of 70 % reads", "randrw", {"reads": 70, "sync": "none"}),
        ):
            asked = {
                "workload": "random",
                "size": SIZE,
                "queue_depth": 32,
                "duration": "2s",
                **trial,
            }
            phase = "mix" if "reads" in trial else str(trial["operation"])
            job = {**URING, **RANDOM, "rw": rw, "bs": "4k", "iodepth": 32}
            job |= {"rwmixread": 70} if rw == "randrw" else {}
            figure = reads_of_mix if rw == "randrw" else iops
            yield Setting(
                f"4 KiB random {name}, direct, depth 32",
                "k IOPS",
                "fio",
                lambda a=asked, p=phase, f=figure: self.ours(f, p, **a),
                lambda j=job: self.old(iops, **j),
            )
        for name, run in (("read", self.old), ("write", self.new)):
            asked = {"workload": "sequential", "operation": name, "size": SIZE, "queue_depth": 8}
            job = {**URING, "rw": name, "bs": "1M", "iodepth": 8, "end_fsync": int(name == "write")}
            yield Setting(
                f"1 MiB sequential {name}, direct, depth 8",
                "GB/s",
                "fio",
                lambda a=asked, n=name: self.ours(rate, n, **a),
                lambda r=run, j=job: r(rate, **j),
            )
        asked = {"workload": "sequential", "operation": "write", "storage": "posix"}
        asked |= {"transfer_size": "4KiB", "queue_depth": 1, "sync": "each", "size": "2MiB"}
        job = {
            "rw": "write",
            "bs": "4k",
            "ioengine": "psync",
            "direct": 1,
            "fsync": 1,
            "size": "2m",
        }
        yield Setting(
            "4 KiB writes, direct, fsync each",
            "k IOPS",
            "fio",
            lambda a=asked: self.ours(iops, "write", **a),
            lambda j=job: self.new(iops, **j),
        )

    def on_huge_pages(self) -> Iterator[Setting]:
        """1 MiB in order, once more: ours and fio's on pages of 2 MiB."""
        for name, run in (("read", self.old), ("write", self.new)):
            asked = {"workload": "sequential", "operation": name, "size": SIZE, "queue_depth": 8}
            job = {**URING, "rw": name, "bs": "1M", "iodepth": 8, "end_fsync": int(name == "write")}

            def them(run: Run = run, job: Job = job) -> float:
                with reserved(16):
                    return run(rate, **job, iomem="mmaphuge")

            yield Setting(
                f"1 MiB sequential {name}, direct, depth 8, huge pages",
                "GB/s",
                "fio",
                lambda a=asked, n=name: self.ours(rate, n, **a, huge_pages=True),
                them,
            )

    def against_elbencho(self) -> Iterator[Setting]:
        """4 KiB at random, and files of 64 MiB."""
        asked = {"workload": "random", "operation": "read", "size": SIZE, "queue_depth": 16}
        words = ["-r", "--rand", "--direct", "-b4k", "--iodepth=16", "-t2", "--infloop"]
        words += ["--timelimit=2", f"-s{SIZE}", self.folder / "fio.bin"]

        def them() -> float:
            fio_layout(self.folder)
            return iops(elbencho(*words)["READ"])

        if shutil.which("fio"):
            yield Setting(
                "4 KiB random read, direct, 2 × depth 16",
                "k IOPS",
                "elbencho",
                lambda: self.ours(iops, "read", workers=2, duration="2s", **asked),
                them,
            )
        files = {"workload": "sequential", "operation": "write", "files": 4, "size": "64MiB"}
        files |= {"queue_depth": 8, "workers": 2, "sync": "none"}
        target = self.folder / "elbencho"
        write = [
            "-w",
            "-d",
            "-t2",
            "-n1",
            "-N4",
            "-s64m",
            "-b1m",
            "--direct",
            "--iodepth=8",
            target,
        ]

        def write_files() -> float:
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            found = rate(elbencho(*write)["WRITE"])
            shutil.rmtree(target)
            return found

        yield Setting(
            "1 MiB writes of 8 files of 64 MiB, direct, 2 × depth 8",
            "GB/s",
            "elbencho",
            lambda: self.ours(rate, "write", preallocate=False, **files),
            write_files,
        )

    def against_ior(self) -> Iterator[Setting]:
        """Its two layouts."""
        for workload, more in (("shared_file", []), ("file_per_process", ["-F"])):
            asked = {"workload": workload, "storage": "posix", "block_size": "16MiB"}
            asked |= {"segments": 16, "transfer_size": "2MiB", "workers": 2}
            words = ["-b", "16m", "-s", "16", "-t", "2m", "-e", "-C", "--posix.odirect", *more]

            def them(operation: str, words: list[str] = words) -> float:
                found = rate(ior(2, "-w", "-r", "-o", self.folder / "ior.bin", *words)[operation])
                for left in self.folder.glob("ior.bin*"):
                    left.unlink()
                return found

            for operation in ("write", "read"):
                yield Setting(
                    f"{workload} {operation}, direct, 2 workers, 2 MiB",
                    "GB/s",
                    "IOR",
                    lambda a=asked, o=operation: self.ours(rate, o, **a),
                    lambda o=operation, t=them: t(o),
                )

    def against_mdtest(self) -> Iterator[Setting]:
        """Names in memory."""
        for operation in ("create", "stat"):
            yield Setting(
                f"{operation} 50,000 empty files on tmpfs, 2 workers",
                "k/s",
                "mdtest",
                lambda o=operation: savemark(self.engine, self.memory, 50_000)[o] / 1e3,
                lambda o=operation: by_mdtest(self.memory, 50_000)[o] / 1e3,
            )


@contextmanager
def reserved(count: int) -> Iterator[None]:
    """With so many huge pages set aside, as fio wants to map them."""
    before = HUGE_PAGES.read_text()
    HUGE_PAGES.write_text(str(count))
    try:
        yield
    finally:
        HUGE_PAGES.write_text(before)


def reads_of_mix(sample: Sample) -> float:
    """Of a mix our figure has both; fio's has reads alone, which are 70 %."""
    return iops(sample) * 0.7


def spread(values: list[float]) -> str:
    """Median and range."""
    return f"{statistics.median(values):.2f} [{min(values):.2f} {max(values):.2f}]"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    words = parser.parse_args()
    scratch = tempfile.TemporaryDirectory(dir=words.scratch, prefix="savemark-bench-")
    with scratch as made, in_memory(Path(made)) as memory:
        settings = list(Settings(Path(made), memory).all())
        say("| setting | ours: median [min max] | peer's | ratio | agree? |")
        say("|---|---|---|---|---|")
        for setting in settings:
            us, them = [], []
            for turn in range(words.rounds):
                sides = [(us, setting.us), (them, setting.them)]
                for found, run in sides if turn % 2 else reversed(sides):
                    found.append(run())
            ratio = statistics.median(a / b for a, b in zip(us, them, strict=True))
            agree = min(us) <= max(them) and min(them) <= max(us)
            theirs = f"{setting.peer} {spread(them)}"
            say(
                f"| {setting.name}, {setting.unit} | {spread(us)} | {theirs} | {ratio:.2f} |"
                f" {'yes' if agree else 'no'} |"
            )


if __name__ == "__main__":
    main()
