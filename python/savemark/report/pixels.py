"""PNG twins of SVG files, made by a second process while the first draws on.

The renderer keeps the interpreter's lock, so a thread would not help; on two cores this takes a
third of the time off a large report. Run as a script it is that process: one JSON string per line
of its input is the path of an SVG file.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

SCALE = 2  # for slides and dense screens


class Pixels:
    """Converts what it is given; has converted everything when its block ends."""

    def __enter__(self) -> Self:
        """Start the process."""
        # The file itself, not the module: the package would be imported for nothing.
        words = [sys.executable, "-P", __file__]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(words, stdin=pipe, stderr=pipe, text=True)
        return self

    def add(self, svg: Path) -> None:
        """Convert `svg` to a PNG file beside it, some time before the block ends."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(str(svg.absolute())) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended: why is said at the end of the block

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait until all is converted; after an exception, for nothing."""
        if kind is not None:
            self._process.kill()
        _, said = self._process.communicate()
        if kind is None and self._process.returncode:
            last = (said.strip().splitlines() or ["no reason given"])[-1]
            raise OSError(f"the figures could not be drawn as PNG: {last}")


def main() -> None:
    """Convert the files named on standard input."""
    import vl_convert as vlc

    for line in sys.stdin:
        path = Path(json.loads(line))
        pixels = vlc.svg_to_png(path.read_text(encoding="utf-8"), scale=SCALE)
        png = path.with_suffix(".png")
        png.unlink(missing_ok=True)
        with png.open("xb") as file:  # a new file: a link there is not followed
            file.write(pixels)


if __name__ == "__main__":
    main()
