"""Each check: ok on a healthy run, the right verdict on a sick one, unverified without evidence."""

import json

import pytest

from made_run import Made, make_run
from savemark.checks import Evidence, Verdict, catalogue, run_checks
from savemark.records import phases, read_run
from savemark.stats import results

SMALL = {"codecs": ("none", "zstd"), "streams": (0, 4), "repeats": 2}


def judge(folder):
    run = read_run(folder)
    frame = phases(run)
    findings, _ = run_checks(Evidence(run, frame, results(run, frame)))
    return {finding.id: finding for finding in findings}


def change(folder, edit):
    """Apply `edit(entry, phase)` to every phase of every record."""
    path = folder / "records.jsonl"
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    for entry in entries:
        for phase in entry["record"]["phases"]:
            edit(entry, phase)
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))


@pytest.fixture
def folder(tmp_path):
    return make_run(tmp_path, Made(**SMALL))


def test_catalogue_is_unique_and_titled():
    ids = [entry.id for entry in catalogue()]
    assert ids == sorted(set(ids))
    assert {"HC-02", "HC-03", "HC-05", "HC-11", "HC-13", "HC-17", "HC-18", "HC-20"} <= set(ids)


def test_healthy_run(folder):
    fired = {i for i, finding in judge(folder).items() if finding.verdict is not Verdict.OK}
    assert fired == {"HC-13", "HC-17", "HC-18"}, "too short, and two repeats tell nothing apart"


def test_every_fired_finding_says_what_to_do(folder):
    for finding in judge(folder).values():
        assert finding.evidence
        assert finding.fix or not finding.verdict.fired


def test_above_a_ceiling_with_device_bytes_means_a_low_ceiling(folder):
    def slow(entry, phase):
        if entry["name"] == "write":
            phase["elapsed_ns"] *= 2

    change(folder, slow)
    found = judge(folder)["HC-03"]
    assert found.verdict is Verdict.FLAG
    assert "measured low" in found.cause


def test_above_a_ceiling_without_device_bytes_is_blocked(folder):
    def slow(entry, phase):
        phase["device"] = None
        if entry["name"] == "write":
            phase["elapsed_ns"] *= 2

    change(folder, slow)
    found = judge(folder)["HC-03"]
    assert found.verdict is Verdict.BLOCK
    assert ("scratch", "none × 4", "save") in found.blocks


def test_a_ceiling_that_varies_more_than_10_percent_forbids_nothing(folder):
    def vary(entry, phase):
        phase["device"] = None
        if entry["name"] == "write":
            phase["elapsed_ns"] = int(phase["elapsed_ns"] * (2 + 0.3 * (entry["repeat"] % 2)))

    change(folder, vary)
    found = judge(folder)["HC-03"]
    assert (found.verdict, found.blocks) == (Verdict.FLAG, ())
    assert "known to no better than 14 %" in found.cause


def test_a_ceiling_that_was_measured_once_forbids_nothing(folder):
    def slow(entry, phase):
        phase["device"] = None
        if entry["name"] == "write":
            phase["elapsed_ns"] *= 2
            phase["name"] = "prepare" if entry["repeat"] else phase["name"]

    change(folder, slow)
    found = judge(folder)["HC-03"]
    assert (found.verdict, found.blocks) == (Verdict.FLAG, ())
    assert "measured once" in found.cause


def test_foreign_traffic_is_seen(folder):
    def noise(entry, phase):
        if phase["name"] == "save" and entry["factors"] == {"codec": "none", "streams": 4}:
            phase["device"]["written_bytes"] *= 2

    change(folder, noise)
    found = judge(folder)["HC-31"]
    assert found.verdict is Verdict.FLAG
    assert "none × 4" in found.evidence


@pytest.mark.parametrize(
    ("cache", "verdict"),
    [
        ({"state": "cold", "resident_pages": 5, "total_pages": 1000}, Verdict.OK),
        ({"state": "mixed", "resident_pages": 50, "total_pages": 1000}, Verdict.BLOCK),
        ({"state": "unknown", "resident_pages": 0, "total_pages": 0}, Verdict.UNVERIFIED),
        ({"state": "none", "resident_pages": 0, "total_pages": 0}, Verdict.OK),
        (None, Verdict.UNVERIFIED),
    ],
)
def test_residency(folder, cache, verdict):
    def edit(_entry, phase):
        if phase["name"] == "restore":
            phase["cache"] = cache

    change(folder, edit)
    assert judge(folder)["HC-05"].verdict is verdict


def test_a_warm_restore_that_was_asked_for_is_not_blocked(folder):
    def edit(entry, phase):
        entry["record"]["trial"]["cache"] = "warm"
        phase["cache"] = {"state": "warm", "resident_pages": 10, "total_pages": 10}

    change(folder, edit)
    assert judge(folder)["HC-05"].verdict is Verdict.OK


def test_silent_restores_are_flagged(folder):
    change(folder, lambda _entry, phase: phase.update(verified=None))
    assert judge(folder)["HC-11"].verdict is Verdict.FLAG


def test_a_read_that_was_asked_to_be_warm_may_come_from_memory(folder):
    def from_memory(entry, phase):
        if phase["name"] == "restore":
            phase["device"]["read_bytes"] = 0

    change(folder, from_memory)
    assert judge(folder)["HC-02"].blocks

    def asked(entry, phase):
        entry["record"]["trial"]["cache"] = "warm"

    change(folder, asked)
    assert not judge(folder)["HC-02"].blocks
