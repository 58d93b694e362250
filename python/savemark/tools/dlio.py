"""DLIO and MLPerf Storage: `summary.json`. Its MB and GB are powers of 1024.

Checkpoints have a size, a mean time and a mean rate; of training only the rate of its reads is
there, whose time nobody wrote down. Data that may have been in memory is HC-04's to judge, from the
size of the data and the memory of the hosts.
"""

from __future__ import annotations

from typing import Any

from savemark.errors import usage
from savemark.records.imported import Imported
from savemark.records.run import Json
from savemark.tools._json import objects, part
from savemark.tools._numbers import GIB, MIB, NS_PER_S, number, times, whole
from savemark.tools.source import Source

NAME = "dlio"
WHAT = "summary.json of DLIO and MLPerf Storage"
CHECKPOINTS = {"save_checkpoint": "save", "load_checkpoint": "restore"}


def recognises(source: Source) -> bool:
    """Whether it is JSON with DLIO's metrics."""
    text = source.text
    return '"metric"' in text and ('"num_accelerators"' in text or "checkpoint_io_mean" in text)


def parse(source: Source) -> Imported:
    """Return one entry: `read` for training or evaluation, `save` and `restore` for checkpoints."""
    result = next((each for each in objects(source) if "metric" in each), None)
    if result is None:
        raise usage(f"{source.path}: DLIO's summary is cut off")
    metric = part(result["metric"])
    phases = [_checkpoint(metric, *pair) for pair in CHECKPOINTS.items()]
    phases += [_read(result, metric, "train"), _read(result, metric, "eval")]
    known = [phase for phase in phases if phase]
    if not known:
        raise usage(f"{source.path}: DLIO's summary has no rate in it")
    factors = {
        "nodes": whole(result.get("num_hosts")),
        "ranks": whole(result.get("num_accelerators")),
    }
    record = {"trial": {}, "source": _about(result, metric), "phases": known}
    entry = {"role": "trial", "name": NAME, "record": record}
    entry["factors"] = {name: level for name, level in factors.items() if level is not None}
    return Imported(entries=[entry], host=_host(result))


def _checkpoint(metric: Json, theirs: str, ours: str) -> Json | None:
    elapsed = times(metric.get(f"{theirs}_duration_mean_seconds"), NS_PER_S)
    rate = times(metric.get(f"{theirs}_io_mean_GB_per_second"), GIB)
    if not elapsed and not rate:
        return None
    size = times(metric.get("checkpoint_size_GB"), GIB)
    phase = {"name": ours, "time_base": "wall", "elapsed_ns": elapsed, "user_bytes": size}
    phase |= {"stored_bytes": size, "reported_bytes_per_s": rate, "statistic": "mean"}
    # MLPerf Storage demands an fsync; DLIO alone does not say whether there was one.
    return phase | ({"contract": "unknown"} if ours == "save" else {})


def _read(found: Json, metric: Json, kind: str) -> Json | None:
    rate = times(metric.get(f"{kind}_io_mean_MB_per_second"), MIB)
    if not rate:
        return None
    size = times(found.get("data_size_per_host_GB"), GIB)
    phase: Json = {"name": "read" if kind == "train" else "read_evaluation", "time_base": "wall"}
    phase |= {"elapsed_ns": None, "reported_bytes_per_s": rate, "dataset_bytes": size}
    phase["reported_ops_per_s"] = None  # samples are no operations of the storage
    return phase | {"statistic": "mean"}


def _about(found: Json, metric: Json) -> Json:
    met = str(metric.get("train_au_meet_expectation", "")).lower()
    memory = [number(each) for each in _list(found.get("host_memory_GB"))]
    least = min((each for each in memory if each), default=None)
    about = {"tool": NAME, "client_memory_bytes": times(least, GIB) if least else None}
    if met in ("fail", "false"):
        use = number(metric.get("train_au_mean_percentage"))
        message = (
            f"DLIO: the accelerators were used {use:g} % only" if use is not None else "DLIO: fail"
        )
        return about | {"valid": False, "message": message}
    return about | {"valid": True if met in ("success", "true") else None}


def _host(found: Json) -> Json:
    cores = [whole(each) for each in _list(found.get("host_cpu_count"))]
    known = [each for each in cores if each]
    return {"cpu": {"logical": min(known)}} if known else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
