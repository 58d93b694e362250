"""Waiting for what another process does: for the event itself, never for a time."""

import json
import time

# Ends what would hang, and is never the reason of a failure: the machine may be busy otherwise.
LIMIT_S = 300


def until(condition, limit_s=LIMIT_S):
    """Wait for something, and return it."""
    end = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < end, f"it did not come within {limit_s} s"
        time.sleep(0.01)
    return found


def records(folder):
    """The finished trials of a run folder, which may be being written: whole lines only."""
    file = folder / "records.jsonl"
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def held(folder, place, ended):
    """Wait until a run of the fake engine stands in the trial that FAKE_HOLD holds."""
    until(lambda: len(records(folder)) == ended and list(place.glob("savemark-*/shard-0")))
