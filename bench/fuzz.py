"""Mutates result files for the readers, as long as it is told: `python bench/fuzz.py 600 [NAME…]`.

Each reader gets so many seconds. The first file that makes one crash, hang or lie is shown, as
small as Hypothesis can make it; it stays in `.hypothesis` and is tried first the next time.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
EXAMPLES = 500  # between two looks at the clock


def main() -> int:
    sys.path.insert(0, str(ROOT / "python"))
    from savemark.records.importers import STUDIES
    from savemark.tools import NAMES

    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    failed = 0
    for name in sys.argv[2:] or [*NAMES, *STUDIES]:
        end, rounds, code = time.monotonic() + seconds, 0, 0
        while time.monotonic() < end and code == 0:
            code = run(name)
            rounds += 1
        print(f"{name:<20} {rounds * EXAMPLES:>8} files  {'FAILED' if code else 'ok'}", flush=True)
        failed += bool(code)
    return 1 if failed else 0


def run(name: str) -> int:
    test = f"tests/test_fuzz_readers.py::test_no_file_makes_a_reader_crash_hang_or_lie[{name}]"
    environment = {**os.environ, "SAVEMARK_FUZZ_EXAMPLES": str(EXAMPLES)}
    environment["PYTHONPATH"] = str(ROOT / "python")
    command = [sys.executable, "-m", "pytest", test]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
