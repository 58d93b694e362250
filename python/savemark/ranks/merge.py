"""One record of the records of all ranks: sums, first and last, columns of a line per rank.

Merging is done rank by rank up a tree, so it works on what is merged already: `prepare` makes a
rank's record fit, `merge` takes two neighbours, `complete` ends it on the first rank.
"""

from __future__ import annotations

from typing import Any

from savemark.ranks import counted
from savemark.ranks.clocks import Offset, skew

Json = dict[str, Any]

SUMS = ("operations", "user_bytes", "stored_bytes", "cpu_user_ns", "cpu_system_ns", "worker_count")
COLUMNS = ("node", "first_done_ns", "last_done_ns", "user_bytes", "operations", "left_ns")
# Of so many ranks (or nodes) each has a line; of more, those that took longest.
LINES, SLOWEST = 256, 64
LATENCIES = ("latency", "sync_latency")
# Page cache: at most, or at least, such a share of the pages is there.
COLD, WARM = 0.01, 0.99


def prepare(record: Json, node: int, boot: str, left_ns: dict[str, int]) -> Json:
    """Return a rank's record as it is merged; `boot` tells kernels, whose counters it has, apart.

    `left_ns` is when the rank left the start of each phase.
    """
    phases = {phase["name"]: _prepare(phase, node, boot, left_ns) for phase in record["phases"]}
    return {**record, "phases": phases}


def _prepare(phase: Json, node: int, boot: str, left_ns: dict[str, int]) -> Json:
    line = {
        **phase,
        "node": node,
        # Preparing has no start together: nobody asks who was late.
        "left_ns": left_ns.get(phase["name"]),
    }
    return {
        **phase,
        "worker_count": len(phase["workers"]),
        "workers": [],
        "ranks": {name: [line[name]] for name in COLUMNS},
        "machine": {boot: phase["machine"]},
        "device": {boot: phase["device"]},
        "gds_bytes": {boot: phase["gds_bytes"]},
    }


def merge(one: Json, other: Json) -> Json:
    """Merge two prepared records; that of the lower ranks comes first."""
    phases = dict(one["phases"])
    for name, phase in other["phases"].items():
        phases[name] = _phase(phases[name], phase) if name in phases else phase
    # What only some ranks did (laying out a shared file) stays in its place.
    order = sorted(phases, key=lambda name: name != "prepare")
    return {
        **one,
        "elapsed_ns": max(one["elapsed_ns"], other["elapsed_ns"]),
        "started_unix_ns": min(one["started_unix_ns"], other["started_unix_ns"]),
        "buffer_bytes": one["buffer_bytes"] + other["buffer_bytes"],
        "path": _path(one["path"], other["path"]),
        "phases": {name: phases[name] for name in order},
    }


def complete(record: Json, before: list[Offset], after: list[Offset], names: list[str]) -> Json:
    """Return the record of all ranks, in the schema of one; `names` are those of the nodes."""
    phases = [_complete(phase, before, after) for phase in record["phases"].values()]
    return {**record, "phases": phases, "nodes": names}


def _phase(one: Json, other: Json) -> Json:
    long = max(one, other, key=lambda phase: phase["elapsed_ns"])
    early, late = sorted((one, other), key=lambda phase: phase["first_done_ns"])
    share = late["user_bytes"] / max(1, late["stored_bytes"])
    moved = early["first_done_bytes"]
    moved += int(counted.until(late["timeline"], early["first_done_ns"]) * share)
    return {
        **one,
        **{name: one[name] + other[name] for name in SUMS},
        "prepare_ns": max(one["prepare_ns"], other["prepare_ns"]),
        "elapsed_ns": long["elapsed_ns"],
        # On the path that all waited for.
        "stages": long["stages"],
        "first_done_ns": early["first_done_ns"],
        "first_done_bytes": min(moved, one["user_bytes"] + other["user_bytes"]),
        "last_done_ns": max(one["last_done_ns"], other["last_done_ns"]),
        "thread_time": _added(one["thread_time"], other["thread_time"]),
        "histograms": _histograms(one["histograms"], other["histograms"]),
        "timeline": counted.timeline(one["timeline"], other["timeline"]),
        "ranks": {name: one["ranks"][name] + other["ranks"][name] for name in COLUMNS},
        "machine": _by_kernel(one["machine"], other["machine"], _machine),
        "device": _by_kernel(one["device"], other["device"], _most_of),
        "gds_bytes": _by_kernel(one["gds_bytes"], other["gds_bytes"], _max_of),
        "cache": _either(one["cache"], other["cache"], _cache),
        "extents": _either(one["extents"], other["extents"], _extents),
        "payload": _either(one["payload"], other["payload"], _payload),
        "durable": one["durable"] and other["durable"],
        "verified": one["verified"] if one["verified"] == other["verified"] else None,
        "notes": list(dict.fromkeys([*one["notes"], *other["notes"]])),
        **_shares(one, other),
    }


def _complete(phase: Json, before: list[Offset], after: list[Offset]) -> Json:
    columns = phase["ranks"]
    plain = {name: value for name, value in phase.items() if name != "histograms"}
    spread: Json = {}
    if None not in columns["left_ns"]:
        started, error = skew(columns["left_ns"], columns["node"], before, after)
        columns = {**columns, "started_ns": started}
        spread = {"start_skew_ns": max(started), "clock_error_ns": error}
    columns = {name: values for name, values in columns.items() if name != "left_ns"}
    whole = _whole(plain, phase["histograms"])
    return {**plain, **whole, **spread, "ranks": _lines(columns), "nodes": _lines(_nodes(columns))}


def _whole(phase: Json, histograms: Json | None) -> Json:
    """Return what is known when all ranks are in: quantiles, and counters of all kernels."""
    whole: Json = {
        "machine": _over_kernels(phase["machine"]),
        "device": _over_kernels(phase["device"]),
        "gds_bytes": sum(v for v in phase["gds_bytes"].values() if v is not None)
        if any(v is not None for v in phase["gds_bytes"].values())
        else None,
    }
    if histograms is None:
        return whole
    whole |= {name: counted.summary(histograms[name]) for name in LATENCIES}
    for name in ("read", "write"):
        if phase.get(name) and histograms[name]:
            whole[name] = {**phase[name], "latency": counted.summary(histograms[name])}
    slip = counted.summary(histograms["slip"]) if histograms["slip"] else None
    if phase.get("slip") and slip:
        kept = ("mean_ns", "p99_ns", "max_ns")
        whole["slip"] = {**phase["slip"], **{name: slip[name] for name in kept}}
    return whole


def _nodes(columns: Json) -> Json:
    """Return the same of each node: its ranks added up."""
    count = max(columns["node"], default=-1) + 1
    mine: list[list[int]] = [[] for _ in range(count)]
    for rank, node in enumerate(columns["node"]):
        mine[node].append(rank)
    pick = {"first_done_ns": min, "last_done_ns": max, "user_bytes": sum, "operations": sum}
    nodes: Json = {"node": list(range(count)), "ranks": [len(ranks) for ranks in mine]}
    for name, of in pick.items():
        nodes[name] = [of(columns[name][rank] for rank in ranks) for ranks in mine]  # type: ignore[operator]
    return nodes


def _lines(columns: Json) -> Json:
    """Keep the lines of all, or of the slowest: ten thousand ranks would be most of the record."""
    of = len(columns["last_done_ns"])
    if of <= LINES:
        return {"of": of, **columns}
    slow = sorted(range(of), key=lambda line: -columns["last_done_ns"][line])[:SLOWEST]
    kept = sorted(slow)
    return {"of": of, "rank": kept, **{k: [v[line] for line in kept] for k, v in columns.items()}}


def _histograms(one: Json | None, other: Json | None) -> Json | None:
    if one is None or other is None:
        return one or other
    return {name: _either(one[name], other[name], counted.merge) for name in one}


def _shares(one: Json, other: Json) -> Json:
    """Return reads and writes of a mix, and how well a rate was kept; their quantiles come last."""
    merged: Json = {}
    for name in ("read", "write"):
        if one.get(name) and other.get(name):
            merged[name] = {k: one[name][k] + other[name][k] for k in ("operations", "bytes")}
    if one.get("slip") and other.get("slip"):
        added = {k: one["slip"][k] + other["slip"][k] for k in ("due", "started", "late")}
        merged["slip"] = {**one["slip"], **added}
    return merged


def _path(one: Json, other: Json) -> Json:
    """Return the path of the first; another one of another rank is said."""
    notes = list(dict.fromkeys([*one["notes"], *other["notes"]]))
    same = ["storage", "direct", "fixed_buffers", "registered_files", "filesystem"]
    same += ["client_threads"] if "client_threads" in one else []
    for name in same:
        if one[name] != other.get(name):
            notes.append(f"another rank has {name} {other.get(name)}")
    return {**one, "notes": list(dict.fromkeys(notes))}


def _either(one: Any, other: Any, both: Any) -> Any:
    return both(one, other) if one is not None and other is not None else one or other


def _added(one: Json, other: Json) -> Json:
    return {name: value + other.get(name, 0) for name, value in one.items()}


def _by_kernel(one: Json, other: Json, both: Any) -> Json:
    """Merge what ranks of one kernel have seen of it; kernels stay apart."""
    merged = dict(one)
    for boot, value in other.items():
        merged[boot] = both(merged[boot], value) if boot in merged else value
    return merged


def _most_of(one: Json | None, other: Json | None) -> Any:
    return _either(one, other, _most)


def _max_of(one: int | None, other: int | None) -> Any:
    return _either(one, other, max)


def _over_kernels(parts: Json) -> Json | None:
    """Add up the counters of all kernels, the name of the first one's disk beside them."""
    known = [part for part in parts.values() if part is not None]
    if not known:
        return None
    total = dict(known[0])
    for part in known[1:]:
        for name, value in part.items():
            if isinstance(value, int) and name != "elapsed_ns":
                total[name] = (total[name] or 0) + value
    return total


def _most(one: Json, other: Json) -> Json:
    """Return what several ranks have seen of one disk: each saw all of it, in its own time."""
    return {k: v if isinstance(v, str) else max(v, other[k]) for k, v in one.items()}


def _machine(one: Json | None, other: Json | None) -> Json | None:
    """Return what several ranks have seen of one machine; the CPU time of each is ours.

    Where one has seen nothing (too short a phase), its own time is not known and would pass for
    that of others: then nobody has seen anything.
    """
    if one is None or other is None:
        return None
    merged = {k: _either(v, other[k], max) for k, v in one.items()}
    own = one["own_ns"] + other["own_ns"]
    # Their times are a little apart, so the sum can exceed what one of them saw in all.
    return {**merged, "own_ns": own, "busy_ns": max(merged["busy_ns"], own)}


def _cache(one: Json, other: Json) -> Json:
    there = one["resident_pages"] + other["resident_pages"]
    total = one["total_pages"] + other["total_pages"]
    states = {one["state"], other["state"]}
    state = one["state"]
    if len(states) > 1 and states <= {"cold", "warm", "mixed"}:
        share = there / max(1, total)
        state = "cold" if share <= COLD else "warm" if share >= WARM else "mixed"
    elif len(states) > 1:
        state = "unknown"
    method = one["method"] if one["method"] == other["method"] else "several"
    return {**one, "state": state, "resident_pages": there, "total_pages": total, "method": method}


def _extents(one: Json, other: Json) -> Json:
    sums = ("bytes", "hole_bytes", "unwritten_bytes")
    method = one["method"] if one["method"] != "fiemap" else other["method"]
    return {**{name: one[name] + other[name] for name in sums}, "method": method}


def _payload(one: Json, other: Json) -> Json:
    total = one["sampled_bytes"] + other["sampled_bytes"]
    merged: Json = {"sampled_bytes": total}
    for name in ("zero_share", "repeated_share", "entropy_bits"):
        parts = (each[name] * each["sampled_bytes"] for each in (one, other))
        merged[name] = sum(parts) / max(1, total)
    return merged
