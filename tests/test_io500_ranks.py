"""IO500 as one run of several ranks: the deadline, the search and the score are those of all."""

import json
import math
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from launchers import COMMAND, LAUNCHERS
from savemark.records.io500 import PHASES

RANKS = 2
# The files are cut off by the deadline, and so are the small writes: neither ends at a limit.
SHORT = ("--workers", "1", "--phase-deadline", "1s", "--block-size", "64MiB", "--segments", "20000")
SHORT += ("--files-per-worker", "1000000", "--cache", "warm")
GIB = 1 << 30


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """What two ranks of Open MPI printed and recorded, on a tmpfs."""
    openmpi = replace(LAUNCHERS["openmpi"](), hides_memory=False)
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("needs a tmpfs at /dev/shm")
    here = tmp_path_factory.mktemp("io500-ranks")
    place = Path("/dev/shm") / f"savemark-test-ranks-{os.getpid()}"
    place.mkdir()
    try:
        words = ["run", "io500", place, *SHORT, "--out", here / "run"]
        done = openmpi.run(here, (RANKS, [], words))
        assert done.returncode == 0, done.stdout + done.stderr
        assert list(place.iterdir()) == [], "nothing is left"
    finally:
        shutil.rmtree(place)
    return here / "run"


@pytest.fixture(scope="module")
def phases(run):
    line = json.loads((run / "records.jsonl").read_text())
    assert line["record"]["trial"]["ranks"] == RANKS
    assert [phase["name"] for phase in line["record"]["phases"]] == list(PHASES)
    return {phase["name"]: phase for phase in line["record"]["phases"]}


def test_all_ranks_end_with_as_much_as_the_fastest_of_them(phases):
    for name, phase in phases.items():
        assert phase["operations"] == sum(phase["ranks"]["operations"])
        if name != "find":  # whoever is free looks
            assert len(set(phase["ranks"]["operations"])) == 1, name
    for name in ("mdtest-easy-write", "mdtest-hard-write"):
        assert phases[name]["operations"] < RANKS * 1_000_000, "the deadline came first"
        assert phases[name]["elapsed_ns"] > 1e9


def test_each_phase_works_on_what_all_ranks_made(phases):
    easy, hard = (phases[f"mdtest-{kind}-write"]["operations"] for kind in ("easy", "hard"))
    for kind, made, acts in (
        ("easy", easy, ("stat", "delete")),
        ("hard", hard, ("stat", "read", "delete")),
    ):
        assert {phases[f"mdtest-{kind}-{act}"]["operations"] for act in acts} == {made}
    for kind in ("easy", "hard"):
        written, read = (phases[f"ior-{kind}-{act}"] for act in ("write", "read"))
        assert read["user_bytes"] == written["user_bytes"] > 0
        assert read["verified"] == "every block"


def test_the_ranks_share_the_search_out_and_find_exactly_what_was_made(phases):
    find = phases["find"]
    easy, hard = (phases[f"mdtest-{kind}-write"]["operations"] for kind in ("easy", "hard"))
    # A file of each rank and one of both in the parts of IOR.
    assert find["operations"] == RANKS + 1 + easy + hard
    assert all(find["ranks"]["operations"])
    names = (f"file.mdtest.{rank}.{at}" for rank in range(RANKS) for at in range(hard // RANKS))
    assert find["found"] == sum("01" in name for name in names) > 0
    assert find["verified"] == "every file"


def test_the_score_is_that_of_the_merged_record(run, phases):
    line = [*COMMAND, "io500", str(run), "--json"]
    said = json.loads(subprocess.check_output(line, text=True))[0]
    expected = {
        name: phase["user_bytes"] / GIB / (phase["elapsed_ns"] / 1e9)
        if name.startswith("ior")
        else phase["operations"] / 1e3 / (phase["elapsed_ns"] / 1e9)
        for name, phase in phases.items()
    }
    rates = {name: line["rate"] for name, line in said["phases"].items()}
    assert rates == pytest.approx(expected)
    bandwidth = math.prod(v for k, v in rates.items() if k.startswith("ior")) ** (1 / 4)
    rate = math.prod(v for k, v in rates.items() if not k.startswith("ior")) ** (1 / 8)
    assert said["score"] == pytest.approx(math.sqrt(bandwidth * rate))
    assert f"procs           = {RANKS}" in (run / "io500/00000/result.txt").read_text()
