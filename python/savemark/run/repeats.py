"""More repeats of what is not known precisely enough: the blocks after the planned ones."""

from __future__ import annotations

from savemark.run.folder import RunFolder
from savemark.study.model import Study
from savemark.study.plan import Entry, extra_block


def next_block(study: Study, entries: list[Entry], folder: RunFolder) -> list[Entry]:
    """Put one more repeat of every setting that needs it into the plan; nothing where none does.

    The plan in `run.json` grows before its trials run, so a run that is killed resumes them.
    """
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
    found = [
        Entry(**{**entry.as_json(), "index": len(entries) + place})
        for place, entry in enumerate(chosen)
    ]
    if found:
        folder.extend([entry.as_json() for entry in found])
        folder.log(f"repeat {repeat + 1}: {len(found)} settings are not within the limit yet")
    return found
