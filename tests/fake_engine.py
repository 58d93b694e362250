"""A stand-in for the compiled engine: same interface, small files instead of real measurements.

For the tests of the Python rooms only; tests reach it by `install`, the package never does.
FAKE_SLEEP_S slows every trial down. FAKE_HOLD=N holds the trial after N of them: it goes on until
the process is stopped, so a test that stops it there does so in a trial. FAKE_NOISE is JSON:
codec -> share by which its times vary. FAKE_ERRORS is JSON: codec or workload -> [kind, message,
hint]. FAKE_ERRORS_RUN spares the calibration, which comes before there is a run folder.
"""

import itertools
import json
import os
import re
import sys
import time
import types
from pathlib import Path


class EngineError(Exception):
    def __init__(self, kind, message, hint=None):
        super().__init__(message)
        self.kind, self.message, self.hint = kind, message, hint


def version():
    return "0.1.0"


SIZE = {"type": ["integer", "string"], "format": "size"}
SPAN = {"anyOf": [{"type": ["number", "string"], "format": "span"}, {"type": "null"}]}
CODECS = ["none", "tar", "lz4", "zstd", "gzip", "zlib", "planes"]


def _schema(**properties):
    defs = {"Codec": {"oneOf": [{"const": name, "type": "string"} for name in CODECS]}}
    full = {
        name: {"description": f"The {name}.", "default": default, **part}
        for name, (default, part) in properties.items()
    }
    return {"type": "object", "properties": full, "$defs": defs}


INTEGER, TEXT, SWITCH = {"type": "integer"}, {"type": ["string", "null"]}, {"type": "boolean"}
CODEC = {"$ref": "#/$defs/Codec"}
TRANSFER = {
    "operation": ("write", {"enum": ["read", "write"], "type": "string"}),
    "size": (1 << 28, SIZE),
    "transfer_size": (1 << 20, SIZE),
    "queue_depth": (8, INTEGER),
    "workers": (1, INTEGER),
    "sync": ("end", {"enum": ["none", "each", "end"], "type": "string"}),
    "duration": (None, SPAN),
}
SCHEMA = {
    "common": _schema(target=(None, TEXT), payload=("bf16", TEXT), seed=(0, INTEGER)),
    "workloads": {
        "checkpoint": _schema(
            size=(1 << 28, SIZE),
            state=(None, TEXT),
            codec=("none", CODEC),
            level=(None, {"type": ["integer", "null"]}),
            streams=(4, INTEGER),
            chunk_size=(4 << 20, SIZE),
            queue_depth=(8, INTEGER),
            cache=("cold", {"enum": ["cold", "warm"], "type": "string"}),
        ),
        "sequential": _schema(
            **TRANSFER, checksum=(False, SWITCH), keep=(False, SWITCH), from_state=(False, SWITCH)
        ),
        "random": _schema(**TRANSFER, operations=(None, {"type": ["integer", "null"]})),
        "codec": _schema(
            codec=("lz4", CODEC),
            level=(None, {"type": ["integer", "null"]}),
            size=(1 << 28, SIZE),
            chunk_size=(4 << 20, SIZE),
            workers=(1, INTEGER),
        ),
        "memcpy": _schema(size=(1 << 28, SIZE), workers=(1, INTEGER)),
    },
    "storages": {
        "null": _schema(),
        "memory": _schema(),
        "posix": _schema(direct=(True, SWITCH)),
        "uring": _schema(
            direct=(True, SWITCH),
            fixed_buffers=("auto", {"enum": ["auto", "on", "off"], "type": "string"}),
        ),
    },
    "codecs": CODECS,
    "payloads": ["zeros", "text", "bf16", "fp32", "random"],
}


def schema():
    return json.dumps(SCHEMA)


def resolve(text):
    trial = json.loads(text)
    for tag, group in (("workload", "workloads"), ("storage", "storages")):
        if trial.get(tag) not in SCHEMA[group]:
            raise EngineError("usage", f"{tag}: `{trial.get(tag)}` is not known")
    parts = [
        SCHEMA["common"],
        SCHEMA["workloads"][trial["workload"]],
        SCHEMA["storages"][trial["storage"]],
    ]
    known = {name: prop for part in parts for name, prop in part["properties"].items()}
    for key, value in trial.items():
        if key not in known and key not in ("workload", "storage"):
            raise EngineError("usage", f"`{key}` is not an option of {trial['workload']}")
        if known.get(key, {}).get("type") == "integer" and not isinstance(value, int):
            raise EngineError("usage", f"{key}: invalid type, expected a whole number")
    if trial.get("codec", "none") not in CODECS:
        raise EngineError("usage", f"codec: unknown `{trial['codec']}`")
    return json.dumps({**{name: prop["default"] for name, prop in known.items()}, **trial})


def parse_size(text):
    from savemark.units import BYTES

    found = re.fullmatch(r"([\d.]+)\s*(\w*)", text.strip())
    if not found:
        raise EngineError("usage", f"`{text}` is not a size")
    if found[2] not in BYTES:
        raise EngineError("usage", f"`{text}` has an unknown unit; write 4KiB or 4kB")
    return int(float(found[1]) * BYTES[found[2]])


def parse_span(text):
    for unit, seconds in (("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("", 1.0)):
        if text.endswith(unit):
            try:
                return float(text.removesuffix(unit)) * seconds
            except ValueError:
                break
    raise EngineError("usage", f"`{text}` is not a duration; write 5s, 200ms, 2m or 1h")


def format_size(size_bytes):
    for step, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size_bytes >= step and size_bytes % step == 0:
            return f"{size_bytes // step}{unit}"
    return str(size_bytes)


def host(target):
    facts = {
        "kernel_release": "6.0",
        "cpu": {"model": "fake", "available": 2},
        "memory": {"available_bytes": int(os.environ.get("FAKE_AVAILABLE_BYTES") or 16 << 30)},
        "limits": {"cgroup_memory_bytes": None},
        "target": {"filesystem": "ext4", "disk": {"name": "nvme0n1"}} if target else None,
    }
    return json.dumps(facts)


def features():
    blocked = {"name": "io_uring", "available": False, "reason": "blocked by seccomp"}
    return json.dumps([{"name": "O_DIRECT", "available": True, "reason": ""}, blocked])


PHASES = {
    "checkpoint": ["save", "restore"],
    "sequential": ["read"],
    "random": ["read"],
    "codec": ["encode", "decode"],
    "memcpy": ["copy"],
}


class Engine:
    ran = 0  # trials of a run

    def run(self, text, progress=None):
        trial = json.loads(resolve(text))
        errors = json.loads(os.environ.get("FAKE_ERRORS", "{}"))
        if progress:
            errors |= json.loads(os.environ.get("FAKE_ERRORS_RUN", "{}"))
        for word in (trial.get("codec"), trial["workload"]):
            if word in errors:
                kind, message, *hint = errors[word]
                raise EngineError(kind, message.format(f"/shard-{time.time_ns()}"), *hint)
        if trial["storage"] in ("posix", "uring"):
            shard = Path(trial["target"], "shard-0")
            shard.write_bytes(b"x" * 4096)
        self._sleep(progress, trial)
        if trial["storage"] in ("posix", "uring"):
            shard.unlink()
        return json.dumps({"schema": 1, "trial": trial, "phases": _phases(trial)})

    def _sleep(self, progress, trial):
        seconds = float(os.environ.get("FAKE_SLEEP_S", "0"))
        if progress:
            seconds = HELD_S if str(self.ran) == os.environ.get("FAKE_HOLD") else seconds
            self.ran += 1
        try:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                time.sleep(0.01)
                if progress:
                    progress({"phase": "save", "done_bytes": 1, "total_bytes": trial["size"]})
        except KeyboardInterrupt:
            raise EngineError("interrupted", "interrupted") from None


HELD_S = 600.0
STEPS = itertools.cycle([0.1, 0.9, 0.4, 0.0, 1.0, 0.6, 0.3, 0.8, 0.5, 0.2, 0.7])


def _phases(trial):
    size = trial["size"]
    noise = json.loads(os.environ.get("FAKE_NOISE", "{}")).get(trial.get("codec"), 0.0)
    phase = {
        "elapsed_ns": int(size * (1 + noise * next(STEPS))),  # about 1 GB/s
        "user_bytes": size,
        "stored_bytes": size // 2 if trial["workload"] == "codec" else size,
        "operations": 1000,
        "latency": {"p50_ns": 400_000},
        "sync_latency": {"p50_ns": 400_000},
    }
    return [{"name": name, **phase} for name in PHASES[trial["workload"]]]


def fake_report():
    """A report that needs no real records."""
    module = types.ModuleType("savemark.report")
    module.build = lambda run, **_: run.folder / "report.html"
    module.terminal = lambda run, console, **_: console.print("the table")
    module.summary = lambda run, **_: {"run": str(run.folder), "valid": False}
    return module


def install():
    """Put the fakes in the place of the engine and the report."""
    import savemark

    sys.modules["savemark._engine"] = savemark._engine = sys.modules[__name__]
    sys.modules["savemark.report"] = savemark.report = fake_report()


if __name__ == "__main__":
    install()
    from savemark.cli import main

    main()
