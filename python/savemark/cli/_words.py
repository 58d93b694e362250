"""Figures and facts as a user reads them on the terminal."""

from __future__ import annotations

import json
import os
from typing import Any

import savemark._engine as engine
from savemark.records.naming import setting
from savemark.run.forecast import Forecast
from savemark.run.start import missing_lines, program_lines
from savemark.run.target import Target
from savemark.study.expect import too_few
from savemark.study.model import Study
from savemark.units import rate_text

# So many settings are listed one by one.
NAMED = 40
DECIMAL = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
BINARY = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def _scaled(value: float, units: tuple[tuple[float, str], ...]) -> str:
    step, unit = next(((s, u) for s, u in units if value >= s), (1, "B"))
    shown = value / step
    return f"{shown:.0f} {unit}" if shown >= 10 or step == 1 else f"{shown:.1f} {unit}"


def bytes_text(size_bytes: float) -> str:
    """Return `61 GiB`."""
    return _scaled(size_bytes, BINARY)


def about(seconds: float) -> str:
    """Return `about 2 min`."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    if seconds < 90 * 60:
        return f"about {round(seconds / 60)} min"
    return f"about {seconds / 3600:.1f} h"


def header(found: Forecast) -> str:
    """Return the first line of a run: what, where, how much, how long, and what it writes."""
    study = found.study
    cells = sum(len(study.cells_at(target.label)) for target in found.targets)
    settings = _count(cells, "setting")
    shape = f"{settings} × {_count(study.repeats, 'repeat')}"
    if study.most_trials is not None:
        trials = _count(study.most_trials, "trial")
        shape = f"{trials}, a sample of {settings}: that is what the budget holds"
    elif study.repeats < found.asked_repeats:
        shape += f" (not {found.asked_repeats}: that is what the budget holds)"
    if study.race is not None:
        shape = f"{settings} screened, at most {study.race.finalists} confirmed"
    time = about(found.seconds)
    writes = f"writes {bytes_text(found.written_bytes)}"
    if study.until is not None:
        shape += f", then each until ±{study.until * 100:g} % (at most {study.max_repeats})"
        time += f", at most {about(found.seconds * found.stretch)[6:]}"
        writes += f", at most {bytes_text(found.written_bytes * found.stretch)}"
    if found.over_budget:
        time += f" (more than the budget of {about(study.budget_s)[6:]})"
    size = [f"{bytes_text(found.size_bytes)} each"] if found.size_bytes else []
    places = ", ".join(_place(target) for target in found.targets)
    return " · ".join([study.name, places, shape, *size, time, f"{writes}, leaves nothing"])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _place(target: Target) -> str:
    """Return `/mnt/scratch (ext4 on nvme0n1, 1.2 TB free)`."""
    if target.url:
        shown = target.url if target.label == target.url else f"{target.label}={target.url}"
        return f"{shown} (storage object: a bucket)"
    facts = json.loads(engine.host(target.directory)).get("target") or {}
    disk = (facts.get("disk") or {}).get("name")
    filesystem = facts.get("filesystem") or ""
    if filesystem and disk:
        filesystem += f" on {disk}"
    free = f"{_scaled(target.free_bytes() or 0, DECIMAL)} free"
    name = str(target.path)
    # A path that was typed is no label.
    if target.label != target.path.name and os.path.abspath(target.label) != name:  # noqa: PTH100
        name = f"{target.label}={name}"
    return f"{name} ({', '.join(part for part in (filesystem, free) if part)})"


def preview_lines(found: Forecast) -> list[str]:
    """Return what `--dry-run` adds to the header."""
    study, labels = found.study, [target.label for target in found.targets]
    ceilings = study.useful_ceilings()
    each = sum(len(study.cells_at(target.label)) + len(ceilings) for target in found.targets)
    count = study.most_trials or each * study.repeats
    time = f"{about(found.seconds)} for {count} trials"
    if found.assumed_bytes_per_s is not None:
        time += (
            f", if the storage does {rate_text(found.assumed_bytes_per_s)}"
            " (not measured in a dry run)"
        )
    few = too_few(study)
    return [
        f"settings    {_settings(study, labels)}",
        f"ceilings    {', '.join(ceilings) or 'none'}",
        *(f"expected    {text}" for text in study.expect),
        *(f"note: {text}" for text in program_lines(found.targets)),
        *(f"note: {text}" for text in missing_lines(study)),
        *([f"note: {few}"] if few else []),
        f"writes      {bytes_text(found.written_bytes)} in all, "
        f"at most {bytes_text(found.held_bytes)} at one time",
        f"time        {time}",
        "nothing was written",
    ]


def _settings(study: Study, labels: list[str]) -> str:
    """Every setting by name, or where they are many, what they are made of."""
    cells = study.measured(labels)
    if len(cells) <= NAMED:
        return "; ".join(setting(cell) if cell else study.workload for cell in cells)
    parts = []
    for name, part in zip(study.parts or [""], study.sections(), strict=True):
        factors = " × ".join(
            f"{factor} {{{', '.join(_level(factor, level) for level in levels)}}}"
            for factor, levels in part.factors.items()
        )
        parts.append(f"{name}: {factors}" if name else f"{len(cells)} of {factors}")
    return "; ".join(parts)


def _level(factor: str, level: object) -> str:
    sized = factor.endswith("size") and isinstance(level, int)
    return engine.format_size(level) if sized else str(level)  # type: ignore[arg-type]


def preview_facts(found: Forecast) -> dict[str, Any]:
    """Return what `--dry-run --json` prints."""
    study = found.study
    return {
        "study": study.as_json(),
        "targets": [target.as_json() for target in found.targets],
        "settings": study.measured([target.label for target in found.targets]),
        "ceilings": list(study.useful_ceilings()),
        "repeats": study.repeats,
        "until": study.until,
        "max_repeats": study.max_repeats,
        "size_bytes": found.size_bytes,
        **found.as_json(),
        "assumed_bytes_per_s": found.assumed_bytes_per_s,
    }


def ceilings_line(records: dict[str, dict[str, Any]]) -> str:
    """Return the ceilings of one block, codecs left out: `write 2.05 GB/s · fsync 0.41 ms`."""
    texts = [(name.replace("_", " "), _ceiling(record)) for name, record in records.items()]
    return "ceilings    " + " · ".join(f"{name} {text}" for name, text in texts if text)


def _ceiling(record: dict[str, Any]) -> str | None:
    trial, phase = record["trial"], record["phases"][-1]
    seconds = max(phase["elapsed_ns"], 1) / 1e9
    if trial["workload"] == "codec":
        return None
    if trial.get("sync") == "each":
        latency = phase.get("sync_latency") or phase.get("latency")
        return f"{latency['p50_ns'] / 1e6:.2f} ms" if latency else None
    if trial["workload"] == "random":
        return f"{phase['operations'] / seconds / 1e3:,.0f}k IOPS"
    return rate_text(phase["user_bytes"] / seconds)
