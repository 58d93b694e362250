"""Shared places, watching, stated rates, names in memory: each sick, each healthy."""

import json

import pytest

from made_run import Made, make_run
from savemark.checks import Verdict
from test_checks import judge
from test_checks_imported import imported
from test_checks_live import change

BLOCK, FLAG, NOTE = Verdict.BLOCK, Verdict.FLAG, Verdict.NOTE
OK, UNVERIFIED = Verdict.OK, Verdict.UNVERIFIED
SMALL = {"codecs": ("none", "zstd"), "streams": (0, 4), "repeats": 2}


def of_command(tmp_path, command, edit=None, tool="fio"):
    made = make_run(tmp_path / str(len(list(tmp_path.iterdir()))), Made(**SMALL))
    return judge(imported(made, {"tool": tool, "command": command}, edit))


def with_targets(folder, *places):
    head = json.loads((folder / "run.json").read_text())
    for target, place in zip(head["targets"], places, strict=True):
        target["target"] = place
    (folder / "run.json").write_text(json.dumps(head))
    return folder


@pytest.mark.parametrize(
    ("places", "verdict"),
    [
        (("/mnt/a", "/mnt/b"), OK),
        (("/mnt/a", "/mnt/ab"), OK),
        (("/mnt/a", "/mnt/a/"), BLOCK),
        (("/mnt/a/deep", "/mnt/a"), BLOCK),
        (("s3://bucket/one", "s3://bucket/two"), OK),
        (("s3://bucket", "s3://bucket/two"), BLOCK),
        (("/mnt/${JOB}", "/mnt/b"), BLOCK),
    ],
)
def test_targets_are_apart(tmp_path, places, verdict):
    folder = make_run(tmp_path, Made(**SMALL, targets={"x": 1.0, "y": 1.0}))
    found = judge(with_targets(folder, *places))["HC-23"]
    assert found.verdict is verdict, found.evidence
    assert bool(found.blocks) == (verdict is BLOCK)


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("cedana dump --dir cedana://bhavik-${JOB_NAME}", BLOCK),
        ("fio --filename=/mnt/{{ run }}/x", BLOCK),
        ("fio --filename=/mnt/17/x --bs=4k", OK),
        (None, UNVERIFIED),
    ],
)
def test_variables_of_commands_are_filled_in(tmp_path, command, verdict):
    found = of_command(tmp_path, command)["HC-23"]
    assert found.verdict is verdict, found.evidence


@pytest.mark.parametrize(
    ("command", "watching", "rate"),
    [
        ("fio --bs=4k --write_lat_log=lat", NOTE, OK),
        ("fio --bs=4k --write_lat_log=lat --log_avg_msec=1000", OK, OK),
        ("strace -f dd if=/dev/zero of=/x", NOTE, OK),
        ("elbencho --opslog /tmp/o -w /mnt/x", NOTE, OK),
        ("fio --rate_iops=2000 --bs=4k", OK, FLAG),
        ("fio --rate_iops=2000 --rate_process=poisson --bs=4k", OK, OK),
        ("warp get --rps-limit=100", OK, FLAG),
        (None, UNVERIFIED, UNVERIFIED),
    ],
)
def test_what_a_command_tells_of_watching_and_rates(tmp_path, command, watching, rate):
    found = of_command(tmp_path, command)
    assert found["HC-36"].verdict is watching, found["HC-36"].evidence
    assert found["HC-35"].verdict is rate, found["HC-35"].evidence


def test_a_rate_that_was_not_kept(tmp_path):
    folder = make_run(tmp_path, Made(**SMALL))
    assert judge(folder)["HC-35"].verdict is OK

    def slipped(**slip):
        def edit(entry, phase):
            phase["slip"] = {"due": 1000, "started": 1000, "late": 0, "late_after_ns": 10**6} | slip

        return edit

    for slip, verdict in (({}, OK), ({"late": 30}, FLAG), ({"started": 900}, FLAG)):
        change(folder, slipped(**slip))
        found = judge(folder)["HC-35"]
        assert found.verdict is verdict, found.evidence
    assert "up to 10.0 % of the I/Os that were due" in found.evidence
    assert judge(folder)["HC-36"].verdict is OK


def renamed(**phase_keys):
    def edit(entry, phase):
        phase |= phase_keys
        if entry.get("record"):
            entry["record"].setdefault("trial", {})["workload"] = "metadata"

    return edit


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("mdtest -n 1000 -N 16 -F", OK),
        ("mdtest -n 1000 -F", FLAG),
        (None, UNVERIFIED),
    ],
)
def test_mdtest_asks_another_node(tmp_path, command, verdict):
    found = of_command(tmp_path, command, renamed(name="stat"), tool="mdtest")["HC-38"]
    assert found.verdict is verdict, found.evidence


def test_names_of_ours_are_dropped_or_said_to_be_warm(tmp_path):
    folder = make_run(tmp_path, Made(**SMALL))
    assert judge(folder)["HC-38"].verdict is OK
    change(folder, renamed(name="stat", cache={"state": "warm", "method": "x"}))
    assert judge(folder)["HC-38"].verdict is NOTE
    change(folder, renamed(name="stat", cache={"state": "dropped", "method": "x"}))
    assert judge(folder)["HC-38"].verdict is OK


def test_workers_in_a_small_cpuset(tmp_path):
    folder = make_run(tmp_path, Made(**SMALL))

    def of_host(**facts):
        head = json.loads((folder / "run.json").read_text())
        head["host"]["cpu"] |= facts
        head["host"]["numa_nodes"] = facts.get("nodes", 1)
        (folder / "run.json").write_text(json.dumps(head))
        return judge(folder)["HC-30"].verdict

    change(folder, lambda _, phase: phase.update(workers=[{}] * 8))
    assert of_host(available=8, logical=8) is OK
    assert of_host(available=2, logical=8) is NOTE
    assert of_host(available=2, logical=2) is OK, "all there are: see HC-26"
    assert of_host(available=8, logical=8, nodes=2) is UNVERIFIED


def test_ranks_that_their_launcher_has_bound(tmp_path):
    folder = make_run(tmp_path, Made(**SMALL))
    head = json.loads((folder / "run.json").read_text())
    head["host"]["cpu"] |= {"available": 1, "logical": 8}
    (folder / "run.json").write_text(json.dumps(head))
    change(folder, lambda _, phase: phase.update(workers=[{}] * 8))
    alone = judge(folder)["HC-30"]
    assert "taskset" in alone.fix
    columns = ("node", "first_done_ns", "last_done_ns", "user_bytes", "operations", "started_ns")
    ranks = {"of": 2, **{name: [1, 1] for name in columns}}
    change(folder, lambda _, phase: phase.update(ranks=ranks, worker_count=8))
    found = judge(folder)["HC-30"]
    assert "--bind-to none" in found.fix
    assert "taskset" not in found.fix
