"""No reader crashes, hangs or tells nonsense, whatever the file.

Some examples of each in the suite; `python bench/fuzz.py` runs as long as it is told.
"""

import json
import math
import os
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mutate import mutated
from savemark.errors import SavemarkError
from savemark.importing.formats import studies
from savemark.importing.read import read
from savemark.records import phases, read_run
from savemark.records.assemble import write_folder
from savemark.records.imported import Reading
from savemark.tools import NAMES
from savemark.tools.source import Source
from test_tools import entries_of

DATA = Path(__file__).parent / "data"
HEAD = {"run_id": "r", "savemark_version": "0", "started_at": "", "command": ["savemark"]}
EXAMPLES = int(os.environ.get("SAVEMARK_FUZZ_EXAMPLES", "60"))
# Of processor time, for one file; they take a few milliseconds, the first one loads polars, too.
MOST_S = 60.0
CHECKPOINT = "compression,streams,checkpoint_time,restore_time,total_time,timestamp,run_number\n"
STUDY_FILES = {
    "acceptance": [
        ",op,bandwidth,nodes,tasks,stripes,segments\n0,write,1.5,1,36,4,100\n1,read,2.5,1,36,4,100\n",
        ",operation,bandwidth,bandwidth,nodes,tasks,files\n,,average,std,,,\n0,stat,85.2,2.2,4,144,9\n",
        "metric average std\nfind 173.6 224.4\nior-easy-read 14.1 0.38\n",
    ],
    "checkpoint_exercise": [
        "threads,iterations,wallclock,io_time,fsync_time,io_bytes,iop\n1,10,9.5,1.5,0.5,4096,1\n"
    ],
    "streamer_bench": [CHECKPOINT + "lz4,2,1.25,.75,2.00,2026-01-27T15:11:27+00:00,1\n"],
    "system_info": [
        "=== System Information ===\nKernel: 6.1\nCPU(s): 4\nMem:   30Gi\n"
        "=== Software Environment ===\nCRIU:\nVersion: 4.2\nCedana:\n"
    ],
}


def seeds(name):
    if name in STUDY_FILES:
        return [text.encode() for text in STUDY_FILES[name]]
    return [path.read_bytes() for path in sorted((DATA / name).iterdir())]


def look_at(data):
    """Read a file as `savemark import` does, and look at every number of it."""
    start = time.process_time()
    try:
        with tempfile.TemporaryDirectory(prefix="savemark-fuzz-") as scratch:
            file = Path(scratch, "lustre_cuda_100MB.csv")
            file.write_bytes(data)
            reading = read(Source.of(file))
            folder = Path(scratch, "run")
            run = read_run(write_folder([reading], folder, HEAD))
            sensible(reading)
            frame = phases(run)
            assert len(frame) >= len(run.entries)
            json.loads((folder / "run.json").read_text())
    except SavemarkError as error:
        assert error.kind == "usage", error
        assert error.message
    assert time.process_time() - start < MOST_S


def sensible(reading: Reading):
    for entry in entries_of(reading):
        assert "error" in entry or entry["record"]["phases"], entry
        for phase in (entry.get("record") or {}).get("phases", []):
            for name, value in phase.items():
                if isinstance(value, float):
                    assert math.isfinite(value), (name, value)
                if isinstance(value, int | float):
                    assert value >= 0, (name, value)
            moved = phase.get("user_bytes") or phase.get("operations")
            assert not (moved and phase.get("elapsed_ns") == 0), "something in no time"
            assert isinstance(phase["name"], str)


@pytest.mark.parametrize("name", [*NAMES, *studies()])
def test_no_file_makes_a_reader_crash_hang_or_lie(name):
    samples = seeds(name)

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(mutated(samples))
    def check(data):
        look_at(data)

    check()


@settings(max_examples=4 * EXAMPLES, deadline=None)
@given(st.one_of(st.text(max_size=300).map(str.encode), st.binary(max_size=300)))
def test_no_text_does(data):
    look_at(data)
