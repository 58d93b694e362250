"""Ten honest runs, on a quiet machine: not one check may raise a flag, not even about noise.

    python bench/honesty.py DIRECTORY

The test suite runs the same ten and leaves out what a busy neighbour can set off.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from honest import HONEST, study
from live_run import judge, measure
from savemark.checks import Verdict


def main(place: Path) -> int:
    """Returns how many of the runs raised something."""
    bad = 0
    for name, body in HONEST.items():
        with tempfile.TemporaryDirectory(dir=place) as folder:
            file, empty = Path(folder, "study.yaml"), Path(folder, "place")
            file.write_text(study(body))
            empty.mkdir()
            found = judge(measure(file, empty, Path(folder, "out")))
        fired = [f for f in found.values() if f.verdict in (Verdict.FLAG, Verdict.BLOCK)]
        bad += bool(fired)
        print(f"{name:26} {'; '.join(f'{f.id} {f.evidence}' for f in fired) or 'nothing'}")
    print(f"{len(HONEST) - bad} of {len(HONEST)} honest runs raised nothing")
    return bad


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
