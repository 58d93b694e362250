"""The last look at what a reader returns: names that can be names, numbers that can be measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from savemark import untrusted
from savemark.errors import usage
from savemark.records.imported import Imported, Json
from savemark.records.record import Trial
from savemark.tools.source import Source

# What a column holds: 64 bits with a sign.
MOST = 2**63 - 1


def checked(source: Source, imported: Imported) -> tuple[Imported, list[Trial]]:
    """Return what a file says, its words without control characters, and its entries as trials.

    A factor that could be none, a text too long for a label or a level, and numbers that nothing
    could have measured are usage errors that name them.
    """
    where = untrusted.shown(source.path)
    _refuse_nonsense(where, imported.entries)
    try:
        trials = untrusted.typed([_named(entry, where) for entry in imported.entries], list[Trial])
    except ValueError as error:
        hint = "the file is damaged, or no result of its tool"
        raise usage(f"{where}: {error}", hint) from None
    cleaned = replace(
        imported,
        label=untrusted.words(imported.label, where),
        entries=[],
        levels={
            untrusted.name(name, where): [untrusted.level(name, each, where) for each in levels]
            for name, levels in imported.levels.items()
        },
        notes=[untrusted.clean(note) for note in imported.notes],
    )
    return cleaned, trials


def _named(entry: Json, where: str) -> Json:
    entry["factors"] = {
        untrusted.name(name, where): untrusted.level(name, each, where)
        for name, each in entry["factors"].items()
    }
    for phase in (entry.get("record") or {}).get("phases") or []:
        phase["name"] = untrusted.words(phase["name"], where)
    return entry


def _refuse_nonsense(where: str, entries: list[Json]) -> None:
    """Refuse times, amounts and rates that are negative, infinite or not numbers, as damage."""
    for entry in entries:
        for phase in (entry.get("record") or {}).get("phases") or []:
            if phase.get("elapsed_ns") == 0 and (
                phase.get("user_bytes") or phase.get("operations")
            ):
                phase["elapsed_ns"] = None  # less than the tool's clock can tell is no time at all
            for name, value in _numbers(phase):
                if not 0 <= value <= MOST:  # which NaN is not either
                    raise usage(
                        f"{where}: {phase.get('name')}: {name} would be {str(value)[:20]}",
                        "the file is damaged, or no result of its tool",
                    )


def _numbers(part: Json) -> Iterator[tuple[str, int | float]]:
    for name, value in part.items():
        if isinstance(value, dict):
            yield from _numbers(value)
        elif isinstance(value, list):
            for each in value:
                yield from _numbers(each if isinstance(each, dict) else {name: each})
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield name, value
