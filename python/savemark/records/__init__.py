"""The run folder: reading it, turning it into a dataframe, exporting it."""

from savemark.records.frame import phases
from savemark.records.head import Target
from savemark.records.host import cores
from savemark.records.run import Entry, Run, read_run
from savemark.records.several import read_runs
from savemark.records.timelines import write_timelines

__all__ = [
    "Entry",
    "Run",
    "Target",
    "cores",
    "phases",
    "read_run",
    "read_runs",
    "write_timelines",
]
