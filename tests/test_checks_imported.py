"""Each check on imported trials: what a file says against itself, and what it does not say."""

import json

import pytest

from made_run import Made, make_run
from savemark.checks import Verdict
from test_checks import judge

BLOCK, FLAG, NOTE = Verdict.BLOCK, Verdict.FLAG, Verdict.NOTE
OK, UNVERIFIED = Verdict.OK, Verdict.UNVERIFIED
SIZED = ("name", "elapsed_ns", "user_bytes", "stored_bytes")
SAYS_NOTHING = {"origin": "imported", "tool": "cedana"}


def imported(folder, source=None, edit=None, keep=("name", "elapsed_ns"), roles=("trial",)):
    """Turn a made run into one that was read from a file which says only what is kept."""
    entries = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    entries = [entry for entry in entries if entry["role"] in roles]
    for entry in entries:
        record = entry["record"]
        phases = [{k: v for k, v in phase.items() if k in keep} for phase in record["phases"]]
        entry["record"] = {"schema": 1, "source": {**SAYS_NOTHING, **(source or {})}}
        entry["record"] |= {"trial": entry["factors"], "phases": phases}
        for phase in phases:
            if edit:
                edit(entry, phase)
    (folder / "records.jsonl").write_text("".join(json.dumps(e) + "\n" for e in entries))
    head = json.loads((folder / "run.json").read_text())
    head |= {"plan": [], "host": {}}
    head["study"] |= {"order": "listed"}
    (folder / "run.json").write_text(json.dumps(head))
    return folder


@pytest.fixture
def made(tmp_path):
    return make_run(tmp_path, Made(codecs=("none", "zstd"), streams=(0, 4), repeats=5))


def test_a_file_of_times_alone(made):
    """The CSVs of the checkpoint study: codec, streams and seconds, nothing else."""
    found = judge(imported(made, {"timer_resolution_ns": 10_000_000}))
    for identifier in ("HC-01", "HC-09", "HC-11", "HC-24"):
        assert found[identifier].verdict is FLAG, identifier
    for identifier in ("HC-02", "HC-05", "HC-07", "HC-10", "HC-25", "HC-26", "HC-33"):
        assert found[identifier].verdict is UNVERIFIED, identifier
    assert found["HC-39"].verdict is NOTE
    assert found["HC-15"].verdict is OK
    assert all(f.fix for f in found.values() if f.verdict.fired)


def test_missing_evidence_is_never_ok(made):
    for finding in judge(imported(made)).values():
        if finding.verdict is OK:
            assert "Not applicable" in finding.evidence or finding.id in {
                # From the times and the factors alone.
                *("HC-15", "HC-17", "HC-18", "HC-19", "HC-20", "HC-27", "HC-34", "HC-40"),
            }, finding


def test_the_flat_form_of_a_source_is_read_too(made):
    imported(made)
    lines = [json.loads(line) for line in (made / "records.jsonl").read_text().splitlines()]
    for entry in lines:
        entry["record"].pop("source")
        entry["record"] |= {"origin": "imported", "tool": {"name": "cedana", "version": None}}
        entry["record"] |= {"source_sha256": "ab", "timer_resolution_ns": 10_000_000}
    (made / "records.jsonl").write_text("".join(json.dumps(e) + "\n" for e in lines))
    found = judge(made)
    assert found["HC-11"].verdict is FLAG
    assert found["HC-22"].verdict is OK
    assert "version of cedana" in found["HC-24"].evidence


def test_workers_that_stop_their_clocks_early(made):
    """iozone's children say 5.3 times the rate of their parent."""

    def edit(_entry, phase):
        if phase["name"] == "save":
            phase |= {"contract": "none", "outer_elapsed_ns": int(phase["elapsed_ns"] * 5.3)}

    found = judge(imported(made, {"tool": "iozone"}, edit))
    assert found["HC-01"].verdict is FLAG
    assert "5.3 times as long" in found["HC-01"].evidence
    for identifier in ("HC-02", "HC-03"):
        assert found[identifier].verdict is BLOCK
        assert {phase for _, _, phase in found[identifier].blocks} == {"save"}
    assert found["HC-37"].verdict is FLAG


@pytest.mark.parametrize(("contract", "verdict"), [("unknown", BLOCK), ("end", UNVERIFIED)])
def test_a_buffered_write_faster_than_its_disk(made, contract, verdict):
    """700 MB in a second where the disk itself writes 120 MB/s."""

    def edit(entry, phase):
        phase["contract"] = contract
        if entry["role"] == "ceiling" and entry["name"] == "write":
            phase["elapsed_ns"] *= 5

    roles = ("trial", "ceiling")
    found = judge(imported(made, edit=edit, keep=SIZED, roles=roles))["HC-02"]
    assert found.verdict is verdict
    assert {phase for _, _, phase in found.blocks} == ({"save"} if verdict is BLOCK else set())


@pytest.mark.parametrize("contract", ["each", "end", "rename"])
def test_a_write_that_is_flushed_inside_its_time(made, contract):
    def edit(_entry, phase):
        phase["contract"] = contract

    assert judge(imported(made, edit=edit))["HC-01"].verdict is OK


def test_promises_that_differ(made):
    """Nothing, each row, each iteration: ranked as if they were one."""

    def edit(entry, phase):
        coded = entry["factors"]["codec"] == "zstd"
        phase |= {"contract": "each" if coded else "none", "atomic": False}

    found = judge(imported(made, edit=edit))["HC-12"]
    assert found.verdict is FLAG
    assert "torn" in found.evidence


def thread_io(share):
    def edit(_entry, phase):
        phase |= {"time_base": "wall", "worker_count": 8}
        phase["thread_io_ns"] = int(phase["elapsed_ns"] * 8 * share)

    return edit


def of_threads(_entry, phase):
    phase["time_base"] = "threads" if phase["name"] == "save" else "wall"


@pytest.mark.parametrize(
    ("edit", "blocks"),
    [(thread_io(0.5), set()), (thread_io(1.5), {"save", "restore"}), (of_threads, {"save"})],
)
def test_thread_seconds_beside_seconds(made, edit, blocks):
    found = judge(imported(made, edit=edit))["HC-16"]
    assert found.verdict is BLOCK
    assert {phase for _, _, phase in found.blocks} == blocks


@pytest.mark.parametrize(
    ("factor", "verdict", "word"),
    [
        (1.0, OK, ""),
        (1.048576, BLOCK, "MB taken for MiB"),
        (1 / 1.024, BLOCK, "MiB / 1000 called GiB"),
        (8.0, BLOCK, "bits"),
        (1.3, BLOCK, "mistyped"),
    ],
)
def test_a_printed_rate_that_is_not_bytes_over_time(made, factor, verdict, word):
    def edit(_entry, phase):
        rate = phase["user_bytes"] / phase["elapsed_ns"] * 1e9
        phase["reported_bytes_per_s"] = rate * factor

    found = judge(imported(made, edit=edit, keep=SIZED))["HC-21"]
    assert found.verdict is verdict
    assert word in found.cause


def test_a_rate_that_is_not_operations_times_size(made):
    def edit(_entry, phase):
        phase |= {
            "reported_bytes_per_s": 642e6,
            "reported_ops_per_s": 8462,
            "transfer_bytes": 65536,
        }

    assert judge(imported(made, edit=edit))["HC-21"].verdict is BLOCK


def test_one_file_under_two_labels(made):
    imported(made, {"sha256": "ab"})
    lines = [json.loads(line) for line in (made / "records.jsonl").read_text().splitlines()]
    twins = [{**e, "label": "other", "index": e["index"] + 100} for e in lines]
    text = "".join(json.dumps(e) + "\n" for e in [*lines, *twins])
    assert judge(made)["HC-22"].verdict is OK
    (made / "records.jsonl").write_text(text)
    assert judge(made)["HC-22"].verdict is BLOCK


def test_a_label_that_the_command_contradicts(made):
    def edit(_entry, phase):
        phase["label_conflict"] = "the name says s=100, the command -s 1"

    found = judge(imported(made, edit=edit))["HC-22"]
    assert found.verdict is BLOCK
    assert "-s 1" in found.evidence


@pytest.mark.parametrize(("said", "verdict"), [(False, BLOCK), (True, OK), (None, UNVERIFIED)])
def test_what_the_tool_says_of_itself(made, said, verdict):
    found = judge(imported(made, {"valid": said, "message": "[INVALID] 3 s of 300"}))["HC-25"]
    assert found.verdict is verdict
    assert ("[INVALID]" in found.evidence) == (said is False)


def test_the_best_of_several_runs(made):
    def edit(_entry, phase):
        phase["statistic"] = "max"

    assert judge(imported(made, edit=edit))["HC-40"].verdict is FLAG


def test_cells_that_are_not_there(made):
    imported(made)
    assert judge(made)["HC-20"].verdict is OK
    lines = (made / "records.jsonl").read_text().splitlines()
    kept = [e for e in map(json.loads, lines) if e["factors"] != {"codec": "none", "streams": 4}]
    (made / "records.jsonl").write_text("".join(json.dumps(e) + "\n" for e in kept))
    found = judge(made)["HC-20"]
    assert found.verdict is FLAG
    assert "3 of 4 combinations" in found.evidence
    (made / "records.jsonl").write_text("".join(f"{line}\n" for line in lines[1:]))


def test_a_second_read_that_is_much_faster(made):
    def edit(entry, phase):
        if phase["name"] == "restore" and entry["repeat"] == 0:
            phase["elapsed_ns"] *= 3

    found = judge(imported(made, edit=edit))["HC-06"]
    assert found.verdict is FLAG
    assert found.fix


def test_a_read_that_fits_into_memory(made):
    def edit(_entry, phase):
        phase["dataset_bytes"] = 2**30

    source = {"client_memory_bytes": 2**33}
    assert judge(imported(made, source, edit))["HC-04"].verdict is FLAG


def test_a_coarse_clock(made):
    assert judge(imported(made, {"timer_resolution_ns": 10**8}))["HC-14"].verdict is FLAG
