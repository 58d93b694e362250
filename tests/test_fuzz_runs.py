"""No run folder and no study makes a command crash or blame savemark, whatever is in it.

Some examples of each in the suite; `python bench/fuzz.py` runs as long as it is told.
"""

import json
import os
import random
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from made_run import Made, make_run
from mutate import mutated
from savemark.errors import SavemarkError
from savemark.records import phases, read_run, stored
from savemark.records.timelines import timelines
from savemark.report.analysis import analyse
from savemark.report.contents import document
from savemark.report.markdown import markdown
from savemark.study.keys import Keys
from savemark.study.load import load
from savemark.study.model import Study
from savemark.study.shipped import SHIPPED

EXAMPLES = int(os.environ.get("SAVEMARK_FUZZ_EXAMPLES", "60"))
MOST_S = 60.0
# What may stand in the place of any value.
ODD = [None, True, False, 0, -1, 1, 7, 0.5, -0.5, 1e300, 2**63, 2**64, 10**30, "", "x", "9" * 30]
ODD += ["²", "\x1b[2J", "é", "\U0001f600", "a" * 5000, [], [[]], [None], [{}], {}, {"a": None}]
ODD += [{"": {}}, {"x y=1": [1]}, ["a", 1], [[1], [2]], float("nan"), float("inf")]
FOLDER = make_run(Path(tempfile.mkdtemp(prefix="savemark-fuzz-")), Made(
    codecs=("none", "zstd"), streams=(0, 4), repeats=2, targets={"a": 1.0, "b": 0.9}
))  # fmt: skip
HEAD = json.loads((FOLDER / "run.json").read_text())
LINES = [json.loads(line) for line in (FOLDER / "records.jsonl").read_text().splitlines()]
FOREIGN = {
    "schema": 1,
    "trial": {"workload": "sequential", "transfer_size": 65536},
    "source": {"origin": "imported", "tool": "fio", "file": "a", "sha256": "0", "valid": True},
    "phases": [
        {"name": "write", "elapsed_ns": 10**9, "user_bytes": 1 << 30, "contract": "end"}
        | {"time_base": "wall", "reported_bytes_per_s": 1.0e9, "statistic": "mean"}
        | {
            "ranks": {"of": 2, "node": [0, 0], "last_done_ns": [1, 2], "user_bytes": [1, 2]}
            | {"operations": [3, 4]}
        }
        | {"read": {"operations": 1, "bytes": 2, "latency": {"count": 1, "p50_ns": 3}}}
        | {"slip": {"due": 1, "started": 1, "late": 0}, "invalid": ["too short"], "notes": []},
    ],
}


def places(value, path=()):
    """Every place in a JSON value, the deep ones too."""
    yield path
    if isinstance(value, dict | list):
        for name, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(each, (*path, name))


def changed(value, chance, times):
    """A copy in which some values are others, are gone, or stand elsewhere."""
    whole = [json.loads(json.dumps(value))]
    for _ in range(times):
        path = chance.choice([each for each in places(whole[0]) if each])
        parent = whole[0]
        for name in path[:-1]:
            parent = parent[name]
        kind = chance.random()
        if kind < 0.2:
            del parent[path[-1]]
        elif kind < 0.3:
            other = whole[0]
            for name in chance.choice(list(places(whole[0]))):
                other = other[name]
            parent[path[-1]] = json.loads(json.dumps(other))
        else:
            parent[path[-1]] = chance.choice(ODD)
    return whole[0]


def look_at(head, lines):
    """Read a folder as the commands do, as far as numbers and words go."""
    start = time.process_time()
    with tempfile.TemporaryDirectory(prefix="savemark-fuzz-") as scratch:
        folder = Path(scratch)
        (folder / "run.json").write_bytes(head)
        (folder / "records.jsonl").write_bytes(lines)
        try:
            run = read_run(folder)
            assert len(phases(run)) >= len(run.entries)
            timelines(run)
            markdown(document(analyse(run), []))
            Study.from_json(stored.read_head(folder).get("study") or {})
        except SavemarkError as error:
            assert error.kind == "usage", error
            assert error.message
    assert time.process_time() - start < MOST_S


def text(lines):
    return "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines).encode()


def of_records(chance):
    item = chance.randrange(len(LINES))
    lines = [*LINES]
    if chance.random() < 0.3:
        lines[item] = {**lines[item], "record": FOREIGN}
    lines[item] = changed(lines[item], chance, chance.randint(1, 3))
    return json.dumps(HEAD).encode(), text(lines)


def of_head(chance):
    return json.dumps(changed(HEAD, chance, chance.randint(1, 4))).encode(), text(LINES)


@pytest.mark.parametrize("make", [of_records, of_head], ids=["records", "head"])
def test_no_value_makes_a_report_crash_hang_or_blame_savemark(make):
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**32))
    @example(223038)  # a record without the restore that its save had
    def check(seed):
        look_at(*make(random.Random(seed)))

    check()


def test_no_bytes_do():
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(mutated([text(LINES[:6])]), mutated([json.dumps(HEAD).encode()]), st.booleans())
    def check(lines, head, which):
        look_at(*((json.dumps(HEAD).encode(), lines) if which else (head, text(LINES[:6]))))

    check()


def test_no_study_does():
    keys = Keys.load()
    samples = [path.read_bytes() for path in sorted(SHIPPED.glob("*/study.yaml"))]
    odd = [
        b"&a ",
        b"*a",
        b"<<: *a",
        b"!!binary ",
        b"!!python/object:x ",
        b"? ",
        b"- ",
        b"'",
        b"|\n",
    ]
    odd += [
        b"2001-01-01",
        b"0x1f",
        b"0o17",
        b".inf",
        b"~",
        b"{",
        b"[",
        b"}",
        b"]",
        b"%YAML 1.1\n---\n",
    ]

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(mutated(samples), st.integers(0, 2**32))
    def check(data, seed):
        chance = random.Random(seed)
        for _ in range(chance.randint(0, 3)):
            at = chance.randrange(len(data) + 1)
            data = data[:at] + chance.choice(odd) + data[at:]
        with tempfile.TemporaryDirectory(prefix="savemark-fuzz-") as scratch:
            file = Path(scratch, "s.yaml")
            file.write_bytes(data)
            try:
                study = load(file, keys)
                assert study == Study.from_json(study.as_json()) or study.places
                study.cells()
            except SavemarkError as error:
                assert error.kind == "usage", error
                assert "s.yaml" in error.message or "combinations" in error.message

    check()
