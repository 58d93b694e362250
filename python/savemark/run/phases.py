"""One phase of another tool: what is dropped before it, and the record of it."""

from __future__ import annotations

import filecmp
import json
import os
from pathlib import Path
from typing import Any

import savemark._engine as engine
from savemark.errors import SavemarkError, refused
from savemark.run.child import Ended
from savemark.tools.job import Job, Step

Json = dict[str, Any]
# What a tool may say of a phase, in our words; anything else it says is its own affair.
REPORTED = (
    *("elapsed_ns", "first_done_ns", "first_done_bytes", "last_done_ns"),
    *("user_bytes", "operations"),
    *("latency", "sync_latency", "reported_bytes_per_s", "reported_ops_per_s"),
)
OF_PROCESS = "the time is that of the process, from its start to its end"


class Phase:
    """One step of a job, before and after it ran."""

    def __init__(self, job: Job, step: Step) -> None:
        self.job = job
        self.step = step
        self.cache: Json | None = None
        self.extents: Json | None = None

    def drop_caches(self) -> None:
        """Drop what is to be read from the page cache, and look what is left of it there."""
        if self.step.cold:
            _drop_names()
            self.cache = {"state": "dropped", "method": "drop_caches 3"}
        if self.step.reads:
            files = list(self.step.reads)
            engine.evict(files)
            self.cache = json.loads(engine.residency(files))
            self.extents = json.loads(engine.extents(files))
        elif self.job.in_bucket and not self.step.durable:
            method = "no page cache on this machine; what the server has in its memory is unseen"
            self.cache = {"state": "none", "method": method}

    def finish(self, ended: Ended, seen: Json, report: Path | None) -> Json:
        """Return the record of the phase."""
        step = self.step
        verified = self._compare() if step.restores else None
        phase = {
            **_BLANK,
            "name": step.phase,
            "elapsed_ns": ended.elapsed_ns,
            "user_bytes": step.user_bytes,
            "operations": step.operations,
            "cpu_user_ns": ended.cpu_user_ns,
            "cpu_system_ns": ended.cpu_system_ns,
            "cache": self.cache,
            "extents": self.extents,
            "payload": self._payload(),
            "durable": step.durable,
            "verified": verified,
            "worker_count": step.workers,
            **_owned(seen, ended),
        }
        reported = self._reported(report) if step.theirs else {}
        if not reported.get("elapsed_ns"):
            # None is told, or less than the tool's clock can tell.
            reported = {name: value for name, value in reported.items() if not name.endswith("_ns")}
            phase["notes"] = [OF_PROCESS]
        phase |= reported
        phase["stored_bytes"] = phase["user_bytes"]
        if not phase["first_done_ns"]:
            phase["first_done_ns"] = phase["elapsed_ns"]
            phase["first_done_bytes"] = phase["user_bytes"]
        phase["last_done_ns"] = phase["last_done_ns"] or phase["elapsed_ns"]
        return phase

    def several(self, report: Path | None, *, in_memory: bool) -> list[Json]:
        """Return all phases of a process that runs them by itself, as its report has them.

        What the machine did meanwhile cannot be shared out among them. `in_memory`: nothing in that
        filesystem is on stable storage.
        """
        from savemark.tools import io500
        from savemark.tools.source import Source

        if report is None:
            raise SavemarkError("failed", f"{self.job.tool} ended well and reported nothing")
        blank = {**_BLANK, "worker_count": self.step.workers, "cache": self.cache}
        phases = []
        for reported in io500.live(Source.of(report)):
            durable = self.step.durable and not in_memory and reported["name"].endswith("-write")
            phase = {**blank, "durable": durable, **reported}
            phase["first_done_ns"] = phase["last_done_ns"] = phase["elapsed_ns"]
            phase["first_done_bytes"] = phase["stored_bytes"] = phase["user_bytes"]
            phases.append(phase)
        return phases

    def _reported(self, report: Path | None) -> Json:
        """Return what the tool says of this phase; a report that says nothing of it is an error."""
        from savemark import tools
        from savemark.tools.source import Source

        name = self.job.tool
        if report is None:
            raise SavemarkError("failed", f"{name} ended well and reported nothing")
        imported = tools.tool(name).parse(Source.of(report))
        for entry in imported.entries:
            record = entry.get("record") or {}
            source = record.get("source") or {}
            if source.get("valid") is False:
                raise SavemarkError("failed", f"{name}: {source.get('message')}", str(report))
            for phase in record.get("phases") or []:
                if phase["name"] in self.step.theirs:
                    return {key: phase[key] for key in REPORTED if phase.get(key) is not None}
        known = [
            p["name"] for e in imported.entries for p in (e.get("record") or {}).get("phases", [])
        ]
        why = f"{name} reported {', '.join(known) or 'no phase'}, and nothing of {self.step.phase}"
        raise SavemarkError("failed", why, f"its report is {report}")

    def _payload(self) -> Json | None:
        """Return what was written looks like: read back, or where it was copied from."""
        files = [path for path in self.step.writes if Path(path).exists()]
        if not files and self.step.sources:
            files = [str(path) for path in Path(self.job.outgoing).rglob("*") if path.is_file()]
        return json.loads(engine.content(files)) if files else None

    def _compare(self) -> str:
        """Compare what came back with what was saved, byte by byte."""
        out, back = Path(self.job.outgoing), Path(self.job.incoming)
        for path in sorted(p for p in out.rglob("*") if p.is_file()):
            name = path.relative_to(out)
            if not (back / name).is_file() or not filecmp.cmp(path, back / name, shallow=False):
                message = f"{self.job.tool} restored {name}, and it is not what was saved"
                raise SavemarkError("corrupt", message, "look at the server's log")
        return "every byte"


def _owned(seen: Json, ended: Ended) -> Json:
    """Count the tool's CPU time as our own: what is left over belongs to others."""
    machine = seen["machine"]
    if machine:
        machine["own_ns"] += ended.cpu_user_ns + ended.cpu_system_ns
    return {"device": seen["device"], "machine": machine}


def _drop_names() -> None:
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")
    except OSError as error:
        why = f"cannot drop inodes and names: /proc/sys/vm/drop_caches: {error.strerror}"
        raise refused(why, "run as root, or use --cache warm") from None


_BLANK: Json = {
    "first_done_ns": 0,
    "first_done_bytes": None,  # of all workers together, when the first had ended
    "last_done_ns": 0,
    "stages": [],
    "thread_time": {},
    "latency": None,
    "sync_latency": None,
    "timeline": {"interval_ns": 0, "bytes": []},
    "workers": [],
    "notes": [],
}
