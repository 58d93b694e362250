"""What comes after the planned trials: the next stage of a race, or more repeats of settings."""

from __future__ import annotations

from dataclasses import replace

from savemark.run import race
from savemark.run.folder import RunFolder
from savemark.study.model import Study
from savemark.study.plan import Entry, extra_block, stage


def next_block(study: Study, entries: list[Entry], folder: RunFolder) -> list[Entry]:
    """Put what comes next into the plan; nothing where all is known well enough.

    The plan in `run.json` grows before its trials run, so a run that is killed resumes them.
    """
    block = _following(study, entries, folder)
    if block:
        folder.extend([entry.as_json() for entry in block])
        if study.race is not None:
            names = ", ".join(dict.fromkeys(entry.setting for entry in block))
            folder.log(f"{stage(block)}: {len(block)} trials of {names}")
        else:
            repeat = block[0].repeat + 1
            folder.log(f"repeat {repeat}: {len(block)} settings are not within the limit yet")
    return block


def _following(study: Study, entries: list[Entry], folder: RunFolder) -> list[Entry]:
    if study.race is not None:
        return race.following(study, entries, folder)
    repeat = 1 + max((entry.repeat for entry in entries), default=-1)
    if study.until is None or repeat >= (study.max_repeats or 0):
        return []
    # Both read with polars, which a run without the rule does not need.
    from savemark.records import read_run
    from savemark.stats.stopping import cell_id, open_cells

    wanted = open_cells(read_run(folder.path).entries, study.until)
    labels = list(dict.fromkeys(entry.label for entry in entries))
    block = extra_block(study, labels, folder.head["order_seed"], repeat)
    chosen = [entry for entry in block if cell_id(entry.label, entry.factors) in wanted]
    return [replace(entry, index=len(entries) + at) for at, entry in enumerate(chosen)]
