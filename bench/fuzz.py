"""Mutates result files, run folders and studies for their readers, as long as it is told.

    python bench/fuzz.py 600                    # every reader, ten minutes each
    python bench/fuzz.py 600 fio ior --jobs 2   # two of them, side by side

A reader must not crash, hang or tell nonsense, whatever the file. The first file that makes one do
so is shown, as small as Hypothesis can make it, and ends that reader's turn; it stays in
`.hypothesis` and is tried first the next time. The exit status is 1 if there was one.
"""

import argparse
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXAMPLES = 1000  # between two looks at the clock
READERS, RUNS = "tests/test_fuzz_readers.py", "tests/test_fuzz_runs.py"
VALUES = f"{RUNS}::test_no_value_makes_a_report_crash_hang_or_blame_savemark"
# What else is read from outside, and its test.
OTHERS = {
    "run-records": f"{VALUES}[records]",
    "run-head": f"{VALUES}[head]",
    "run-bytes": f"{RUNS}::test_no_bytes_do",
    "study": f"{RUNS}::test_no_study_does",
}


@dataclass(frozen=True)
class Turn:
    """What became of one reader."""

    name: str
    files: int
    seconds: float
    failure: str  # what pytest said; "" where nothing was found


def fuzz(name: str, seconds: float) -> Turn:
    """Tries files on one reader until the time is over, or one is too much for it."""
    start, files, failure = time.monotonic(), 0, ""
    while time.monotonic() - start < seconds and not failure:
        failure = tried(name, random.randrange(1 << 32))
        files += EXAMPLES
    return Turn(name, files, time.monotonic() - start, failure)


def tried(name: str, seed: int) -> str:
    """Tries some files in a process of its own; returns what it said if one was too much."""
    test = OTHERS.get(name, f"{READERS}::test_no_file_makes_a_reader_crash_hang_or_lie[{name}]")
    environment = {**os.environ, "SAVEMARK_FUZZ_EXAMPLES": str(EXAMPLES)}
    environment["PYTHONPATH"] = str(ROOT / "python")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", f"--hypothesis-seed={seed}", test],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr if done.returncode else ""


def arguments(readers: list[str]) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seconds", type=float, nargs="?", default=60.0, help="of each reader (60)")
    parser.add_argument("names", nargs="*", metavar="READER", help=f"of: {', '.join(readers)}")
    parser.add_argument("--jobs", type=int, default=1, help="readers at one time (1)")
    said = parser.parse_args()
    for name in said.names:
        if name not in readers:
            parser.error(f"there is no reader `{name}`; there are: {', '.join(readers)}")
    return said


def main() -> int:
    """Prints a line per reader as it ends, and what was found."""
    sys.path.insert(0, str(ROOT / "python"))
    from savemark.importing.formats import studies
    from savemark.tools import NAMES

    readers = [*NAMES, *studies(), *OTHERS]
    said = arguments(readers)
    failed = False
    with ThreadPoolExecutor(said.jobs) as pool:
        turns = [pool.submit(fuzz, name, said.seconds) for name in said.names or readers]
        for each in as_completed(turns):
            turn = each.result()
            result = "FAILED" if turn.failure else "ok"
            print(f"{turn.name:<20} {turn.files:>8} files in {turn.seconds:5.0f} s  {result}")
            print(turn.failure, end="", flush=True)
            failed = failed or bool(turn.failure)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
