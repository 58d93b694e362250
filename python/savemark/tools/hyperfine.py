"""hyperfine: its JSON (`--export-json`), one entry per timed run of each command."""

from __future__ import annotations

from savemark.errors import usage
from savemark.records.imported import Imported
from savemark.records.run import Json
from savemark.tools._json import objects, part, parts
from savemark.tools._numbers import NS_PER_S, times, whole
from savemark.tools.source import Source

NAME = "hyperfine"
WHAT = "JSON of hyperfine"


def recognises(source: Source) -> bool:
    """Whether it is JSON of commands with means and medians."""
    text = source.text
    return '"results"' in text and '"command"' in text and '"median"' in text and '"user"' in text


def parse(source: Source) -> Imported:
    """Return the runs of each command; of a command whose runs are not listed, its mean."""
    results = [result for each in objects(source) for result in parts(each.get("results"))]
    if not results:
        raise usage(f"{source.path}: hyperfine's JSON is cut off")
    several = len({str(result.get("command")) for result in results}) > 1
    entries = source.few(e for result in results for e in _entries(source, result, several))
    return Imported(entries=entries)


def _entries(source: Source, result: Json, several: bool) -> list[Json]:
    command = str(result.get("command", ""))
    factors: Json = {"command": command} if several else {}
    factors |= {str(name): str(level) for name, level in part(result.get("parameters")).items()}
    spans = result.get("times")
    codes = result.get("exit_codes") or []
    if not isinstance(spans, list) or not spans:
        spans, codes = [result.get("mean")], []
    entries = []
    for place, seconds in enumerate(spans):
        elapsed = times(seconds, NS_PER_S)
        if elapsed is None:
            raise usage(f"{source.path}: run {place + 1} of `{command[:60]}` has no time")
        code = whole(codes[place]) if isinstance(codes, list) and place < len(codes) else None
        about: Json = {
            "tool": NAME,
            "command": command,
            "valid": None if code is None else not code,
        }
        about["message"] = f"hyperfine: the command ended with {code}" if code else None
        phase: Json = {"name": "run", "time_base": "wall", "elapsed_ns": elapsed}
        phase["statistic"] = None if result.get("times") else "mean"
        record = {"trial": {}, "source": about, "phases": [phase]}
        entries.append({"role": "trial", "name": NAME, "factors": factors, "record": record})
    return entries
