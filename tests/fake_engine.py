"""A stand-in for the compiled engine: its options, small files instead of real measurements.

For the tests of the Python rooms only; tests reach it by `install`, the package never does.
FAKE_SLEEP_S slows every trial down. FAKE_HOLD=N holds the trial after N of them: it goes on until
the process is stopped, so a test that stops it there does so in a trial. FAKE_NOISE is JSON:
codec -> share by which its times vary. FAKE_ERRORS is JSON: codec or workload -> [kind, message,
hint]. FAKE_ERRORS_RUN spares the calibration, which comes before there is a run folder.
"""

import itertools
import json
import os
import sys
import time
import types
from pathlib import Path

import savemark._engine as real


def __getattr__(name):
    """Options, sizes, errors: all that measures nothing is the engine's own."""
    return getattr(real, name)


def failed(kind, message, hint=None):
    error = real.EngineError(message)
    error.kind, error.message, error.hint = kind, message, hint
    return error


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
        trial = json.loads(real.resolve(text))
        errors = json.loads(os.environ.get("FAKE_ERRORS", "{}"))
        if progress:
            errors |= json.loads(os.environ.get("FAKE_ERRORS_RUN", "{}"))
        for word in (trial.get("codec"), trial["workload"]):
            if word in errors:
                kind, message, *hint = errors[word]
                raise failed(kind, message.format(f"/shard-{time.time_ns()}"), *hint)
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
            raise failed("interrupted", "interrupted") from None


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
    module.show = lambda run, console, **_: console.print("the table")
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
