"""Files that somebody made to do harm: what each command says, in which time and memory.

    python bench/hostile.py SCRATCH                  # every case
    python bench/hostile.py SCRATCH nested bombs     # those whose names have one of these words

Each case is made in a folder of its own, and each of its commands is run on it, in a process that
may live for 30 seconds. Expected: no traceback, no signal, no "bug in savemark", at most 512 MiB
(the process's own VmHWM), and an exit code of those that docs/save-restore.md lists. The exit
status is 1 where something was otherwise.

To add a case: a function that makes it in an empty folder and returns the commands, with `@case`.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

SECONDS = 30
MIB = 1 << 20
MOST = 512 * MIB
# 1: it failed · 2: a wrong argument · 4: not what was saved · 5: refused.
CODES = {0, 1, 2, 4, 5}
# The process tells its own mark; that of wait4 may be its parent's, from which it was forked.
TELL = """
import pathlib, resource, runpy, sys
resource.setrlimit(resource.RLIMIT_DATA, (8 << 30, 8 << 30))
try:
    runpy.run_module("savemark", run_name="__main__", alter_sys=True)
finally:
    status = pathlib.Path("/proc/self/status").read_text()
    print("\\nVmHWM", status.split("VmHWM:")[1].split()[0], file=sys.stderr)
"""

Commands = list[list[str]]
CASES: dict[str, Callable[[Path], Commands]] = {}


def case(make: Callable[[Path], Commands]) -> Callable[[Path], Commands]:
    """Adds a case, by the name of its function."""
    CASES[make.__name__.replace("_", " ")] = make
    return make


@dataclass(frozen=True)
class Outcome:
    """What one command did."""

    code: int | None  # None: it was killed after SECONDS
    seconds: float
    peak: int  # bytes; 0 where the process could not tell
    said: str

    @property
    def faults(self) -> list[str]:
        """What was otherwise than it should."""
        found = []
        if self.code is None:
            found.append("TOO LONG")
        elif self.code not in CODES:
            found.append(f"EXIT {self.code}")
        if self.peak > MOST:
            found.append("TOO LARGE")
        if "Traceback" in self.said or "bug in savemark" in self.said:
            found.append("A BUG")
        return found


def run(words: list[str], folder: Path) -> Outcome:
    """Runs `savemark WORDS` in the folder."""
    start = time.perf_counter()
    environment = {**os.environ, "NO_COLOR": "1", "TMPDIR": str(folder)}
    try:
        done = subprocess.run(
            [sys.executable, "-c", TELL, *words],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Outcome(None, SECONDS, 0, "")
    said, _, mark = done.stderr.rpartition("VmHWM")
    peak = int(mark.split()[0]) * 1024 if said else 0
    words_said = (said or done.stderr).strip() or done.stdout.strip()
    return Outcome(done.returncode, time.perf_counter() - start, peak, words_said)


def line(name: str, words: list[str], outcome: Outcome) -> str:
    """One line of the table."""
    code = "-" if outcome.code is None else outcome.code
    peak = f"{outcome.peak / MIB:5.0f} MiB" if outcome.peak else "        -"
    said = " ".join(ascii(part)[1:-1] for part in outcome.said.split())
    faults = " ".join(outcome.faults)
    head = f"{name:<34} {words[0]:<8} {peak} {outcome.seconds:5.1f} s  {code!s:>3}"
    return f"{head}  {faults + ': ' if faults else ''}{said[:150]}"


def main() -> int:
    """Prints the table."""
    import hostile_checkpoints  # noqa: F401, its cases
    import hostile_results  # noqa: F401, its cases

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scratch", type=Path)
    parser.add_argument("words", nargs="*", help="only cases whose names have one of these")
    said = parser.parse_args()
    failed = 0
    for name, make in CASES.items():
        if said.words and not any(word in name for word in said.words):
            continue
        folder = Path(tempfile.mkdtemp(prefix="hostile-", dir=said.scratch)).resolve()
        try:
            for words in make(folder):
                outcome = run(words, folder)
                failed += bool(outcome.faults)
                print(line(name, words, outcome), flush=True)
        finally:
            # Deeper trees than Python's own way of removing them can follow.
            subprocess.run(["rm", "-rf", folder], check=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.modules["hostile"] = sys.modules["__main__"]
    sys.exit(main())
