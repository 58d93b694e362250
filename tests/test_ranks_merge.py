"""What the records of all ranks become: one, of counts that are merged."""

import json

from savemark import _engine
from savemark.ranks import counted, merge
from savemark.ranks.clocks import Offset
from savemark.ranks.nodes import placement

# Distributions.


def histogram(values):
    counts = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    rising = sorted(counts)
    return {
        "values": rising,
        "counts": [counts[value] for value in rising],
        "sum_ns": sum(values),
        "min_ns": min(values),
        "max_ns": max(values),
    }


def test_merged_distributions_are_those_of_all_samples():
    one, other = list(range(1, 500)), [7, 7, 100_000]
    merged = counted.merge(histogram(one), histogram(other))
    assert merged == histogram(one + other)
    found = counted.summary(merged)
    assert (found["count"], found["min_ns"], found["max_ns"]) == (502, 1, 100_000)
    assert found["p50_ns"] == sorted(one + other)[250]
    assert found["p99_99_ns"] == 100_000
    assert counted.summary({**merged, "counts": [0] * len(merged["counts"])}) is None


def test_quantiles_are_the_engines_own():
    """One rank's distribution, summarised here, is what the engine says of it."""
    trial = {"workload": "memcpy", "storage": "null", "size": "64MiB"}
    trial = {"workload": "sequential", "storage": "memory", "size": "8MiB", "transfer_size": 4096}
    where = json.dumps(placement([(0,)], 0))
    text = _engine.Engine().run(
        json.dumps(trial), None, None, where, lambda _at, numbers, _failure: numbers
    )
    phase = json.loads(text)["phases"][-1]
    assert counted.summary(phase["histograms"]["latency"]) == phase["latency"]


def test_timelines_of_different_steps_add_up():
    one = {"interval_ns": 100, "bytes": [1, 2, 3]}
    other = {"interval_ns": 200, "bytes": [10]}
    whole = {"interval_ns": 200, "bytes": [13, 3]}
    assert counted.timeline(one, other) == counted.timeline(other, one) == whole
    assert [counted.until(one, at) for at in (0, 50, 150, 900)] == [0, 0.5, 2, 6]


# Records.


def record(**phase):
    base = {
        "name": "write",
        "prepare_ns": 5,
        "elapsed_ns": 100,
        "first_done_ns": 90,
        "last_done_ns": 100,
        "first_done_bytes": 50,
        "operations": 4,
        "user_bytes": 60,
        "stored_bytes": 60,
        "cpu_user_ns": 5,
        "cpu_system_ns": 6,
        "thread_time": {"wait_ns": 3},
        "workers": [{}, {}],
        "stages": [{"name": "transfer", "elapsed_ns": 100}],
        "histograms": {
            **dict.fromkeys(("latency", "sync_latency"), histogram([5, 6])),
            **dict.fromkeys(("read", "write", "slip")),
        },
        "timeline": {"interval_ns": 100, "bytes": [60]},
        "machine": {"elapsed_ns": 100, "cpus": 2, "busy_ns": 90, "own_ns": 50, "steal_ns": 1},
        "device": {"name": "sda", "written_bytes": 120},
        "gds_bytes": None,
        "cache": {"state": "cold", "resident_pages": 0, "total_pages": 10, "method": "cachestat"},
        "extents": None,
        "payload": None,
        "durable": True,
        "verified": None,
        "notes": ["a"],
        **phase,
    }
    path = {"storage": "posix", "direct": False, "fixed_buffers": False, "notes": []}
    path |= {"registered_files": False, "filesystem": "ext4"}
    head = {"elapsed_ns": 500, "started_unix_ns": 1, "buffer_bytes": 10, "path": path}
    return {**head, "phases": [base]}


def merged(*records, nodes=None, boots=None, left=None):
    parts = []
    for rank, each in enumerate(records):
        node = nodes[rank] if nodes else 0
        boot = boots[rank] if boots else "same"
        left_ns = {"write": left[rank] if left else 0}
        parts.append(merge.prepare(each, node, boot, left_ns))
    whole = parts[0]
    for part in parts[1:]:
        whole = merge.merge(whole, part)
    count = max(nodes or [0]) + 1
    none = [Offset(0, 0)] * count
    return merge.complete(whole, none, none, [f"n{n}" for n in range(count)])


def test_a_record_of_all_ranks_is_their_sum_with_first_and_last():
    fast = record(elapsed_ns=70, first_done_ns=40, last_done_ns=70, notes=["b"])
    whole = merged(record(), fast, left=[1000, 1007])
    phase = whole["phases"][0]
    assert (phase["operations"], phase["user_bytes"], phase["worker_count"]) == (8, 120, 4)
    assert (phase["elapsed_ns"], phase["first_done_ns"], phase["last_done_ns"]) == (100, 40, 100)
    # The first one's own, and what the other had moved by then.
    assert phase["first_done_bytes"] == 50 + 60 * 40 // 100
    assert phase["latency"]["count"] == 4 and "histograms" not in phase
    assert phase["notes"] == ["a", "b"] and phase["workers"] == []
    assert phase["ranks"]["started_ns"] == [0, 7] and phase["start_skew_ns"] == 7
    assert phase["ranks"]["last_done_ns"] == [100, 70]
    assert whole["buffer_bytes"] == 20


def test_counters_of_one_kernel_count_once_and_of_two_add_up():
    one = merged(record(), record())["phases"][0]
    assert one["machine"]["cpus"] == 2 and one["machine"]["own_ns"] == 100
    assert one["machine"]["busy_ns"] == 100, "no less than what was ours"
    assert one["device"]["written_bytes"] == 120
    short = merged(record(), record(machine=None), record(gds_bytes=7, device=None))["phases"][0]
    assert short["machine"] is None, "the time of one rank would pass for that of others"
    assert short["gds_bytes"] == 7 and short["device"]["written_bytes"] == 120
    two = merged(record(), record(), nodes=[0, 1], boots=["x", "y"])["phases"][0]
    assert two["machine"]["cpus"] == 4 and two["device"]["written_bytes"] == 240
    assert two["nodes"]["user_bytes"] == [60, 60] and two["nodes"]["ranks"] == [1, 1]


def test_caches_and_verdicts_of_all_ranks_count():
    warm = {"state": "warm", "resident_pages": 10, "total_pages": 10, "method": "cachestat"}
    other = record(cache=warm, durable=False, verified="every block")
    phase = merged(record(), other)["phases"][0]
    assert phase["cache"]["state"] == "mixed" and phase["cache"]["total_pages"] == 20
    assert not phase["durable"] and phase["verified"] is None
    odd = record(cache={**warm, "state": "unknown"})
    assert merged(record(), odd)["phases"][0]["cache"]["state"] == "unknown"
    alone = record()
    alone["phases"].insert(0, {**alone["phases"][0], "name": "prepare"})
    names = [phase["name"] for phase in merged(alone, record())["phases"]]
    assert names == ["prepare", "write"]


def test_a_record_of_many_ranks_keeps_the_slowest():
    many = [record(last_done_ns=100 + (r * 37) % 1000) for r in range(300)]
    phase = merged(*many)["phases"][0]
    kept = phase["ranks"]
    assert kept["of"] == 300 and len(kept["rank"]) == len(kept["user_bytes"]) == merge.SLOWEST
    assert max(kept["last_done_ns"]) == phase["last_done_ns"] == 1099
    assert len(json.dumps(phase)) < 10_000
