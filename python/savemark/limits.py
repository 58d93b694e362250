"""How large, deep and many what is read from outside may be; every refusal names one of these.

They are far above what was ever seen, and low enough that reading anything takes less than 512 MiB
of memory. Whoever raises one runs `bench/hostile.py`.
"""

from __future__ import annotations

# Bytes.
LARGEST_FILE = 64 << 20  # a result file as it lies there: packed, or read line by line
LARGEST_TEXT = 32 << 20  # a result file that is read as a whole, unpacked
LARGEST_STREAM = 1 << 30  # one that is read line by line, unpacked
LARGEST_STUDY = 256 << 10  # a study: the reader of YAML is slow
LARGEST_HEAD = 64 << 20  # run.json: its plan has some lines per trial
LARGEST_RECORDS = 2 << 30  # records.jsonl
LARGEST_LINE = 16 << 20  # one line: a record with its timelines
LARGEST_WINDOW = 27  # of zstd, as a power of two: what unpacking holds of what came before

# Counts.
MOST_FILES = 100_000  # in the folders of one import
MOST_LINES = 1_000_000  # of a result file that is read as a whole
MOST_STREAMED = 2_000_000  # of one that is read line by line
MOST_KINDS = 100  # of requests in it
MOST_FIELDS = 4_000_000  # of all lines of a table that is held as a whole
MOST_VALUES = 1_000_000  # numbers, words and containers in one JSON text
MOST_PLANNED = 4_000_000  # of them in run.json
MOST_DEPTH = 20  # of a study's YAML; JSON has the limit of its parser
MOST_NODES = 20_000  # of a study's YAML, each alias as often as it stands there
LONGEST_SCALAR = 4096  # characters of one value in it
MOST_CELLS = 10_000  # of a study: combinations of levels
MOST_TRIALS = 100_000  # in a run of ours: `bench/report.py` says what they cost
MOST_IMPORTED = 28_000  # in files of others that are read together
MOST_INTERVALS = 4_000_000  # of all timelines of a run
MOST_ITEMS = 200_000  # in one list of a record

# Characters.
LONGEST_NAME = 64  # of a factor
LONGEST_TEXT = 4096  # of a label, a level, a phase
LONGEST_MESSAGE = 64 << 10  # what a tool said
