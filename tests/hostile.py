"""A run whose every word was chosen by somebody who wants into its readers' programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from made_run import Made, make_run

# Out of an attribute, an element, a comment, a code span, a table, a line, a quoted shell word; a
# program for a terminal; a formula; a right-to-left override.
WORDS = (
    '" onmouseover=window.pwned=1 x="',
    "</title></script></style><script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    "<svg onload=window.pwned=1><a href=javascript:window.pwned=1>",
    "`</code></pre>\n```\n<script>window.pwned=1</script>",
    "| [x](javascript:window.pwned=1) ![y](http://127.0.0.1:9/z) |",
    "\x1b]0;owned\x07\x1b[2J\x1b[31m\x9b31m\x08\r\x7f",
    "\u202eevil\u2066\u2028line",
    "-->{{ 7 * 7 }}{% raw %}${alert(1)}",
)
FORMULAS = ('=HYPERLINK("http://x")', "@SUM(1)", "+1+cmd|' /C calc'!A0", "-1+1", "\t=1", "\r=1")
EVERYTHING = "\n".join(WORDS)
LABELS = (f"{FORMULAS[0]}{EVERYTHING}", f"{FORMULAS[1]}{EVERYTHING} 2")
FACTOR = f"x y=1 {WORDS[0]}{WORDS[2]}{WORDS[6]}"
# Kept as they are: times, kinds and names that savemark itself looks at.
OURS = ("schema", "phases", "status", "role", "kind", "order", "origin", "plan", "checks", "name")
OURS += ("storage", "workload", "cache", "state", "codec", "filesystem", "method", "verified")


def hostile_run(folder: Path, made: Made | None = None) -> Path:
    """Write a run of two targets and a foreign factor; a trial of it failed."""
    targets = {"a": 1.0, "b": 0.9}
    made = made or Made(codecs=("none", "zstd"), streams=(0, 2), repeats=3, targets=targets)
    made.fail = ("zstd", 2)
    make_run(folder, made)
    head = json.loads((folder / "run.json").read_text())
    labels = dict(zip(made.targets, LABELS, strict=False))
    plan = [_entry(item, labels) for item in head["plan"]]
    study = _words(head["study"]) | {"name": f"../{EVERYTHING}", "title": EVERYTHING}
    study["factors"] = {**head["study"]["factors"], FACTOR: list(FORMULAS[:2])}
    study["missing"] = [{"rule": {FACTOR: EVERYTHING, "target": LABELS[0]}, "cells": 1}]
    study["missing"][0] |= {"reason": EVERYTHING, "hint": EVERYTHING}
    head |= {"study": study, "plan": plan, "host": _words(head["host"]), "run_id": EVERYTHING}
    head |= {"savemark_version": EVERYTHING, "started_at": EVERYTHING}
    head["command"] = ["savemark", "run", EVERYTHING]
    head["targets"] = [
        {"label": labels[each["label"]], "target": f"/mnt/{EVERYTHING}", "facts": {FACTOR: FACTOR}}
        for each in head["targets"]
    ]
    (folder / "run.json").write_text(json.dumps(head))
    lines = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    told = [json.dumps(_line(line, labels), separators=(",", ":")) for line in lines]
    (folder / "records.jsonl").write_text("".join(f"{line}\n" for line in told))
    return folder


def _entry(item: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    factors = dict(item["factors"])
    if item["role"] == "trial":
        factors |= {"target": labels[item["label"]]}
        factors |= {FACTOR: FORMULAS[0] if factors["streams"] else EVERYTHING}
    return item | {"label": labels[item["label"]], "factors": factors}


def _line(line: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    found = _entry(line, labels)
    if found["error"]:
        found["error"] |= {"message": EVERYTHING, "hint": EVERYTHING}
    if found["record"]:
        record = _words(found["record"])
        record["path"]["notes"] = [EVERYTHING]
        record["tool"] = {"name": EVERYTHING, "version": EVERYTHING}
        found["record"] = record
    return found


def _words(value: Any, name: str = "") -> Any:
    """The same with other words, but those that savemark looks at."""
    if isinstance(value, dict):
        return {key: _words(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [_words(each, name) for each in value]
    return EVERYTHING if isinstance(value, str) and name not in OURS else value
