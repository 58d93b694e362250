"""Rows of base units as CSV files."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from savemark import escape, files


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows of base units; the columns are those of the first row."""
    if not rows:
        return
    text, names = io.StringIO(newline=""), list(rows[0])
    writer = csv.writer(text)
    writer.writerow(map(escape.csv, names))
    writer.writerows([escape.csv(row.get(name, "")) for name in names] for row in rows)
    files.write_text(path, text.getvalue())
