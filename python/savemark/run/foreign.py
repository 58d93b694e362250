"""A trial that another tool runs: prepared, observed and recorded as the engine's own are."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import savemark._engine as engine
from savemark import places, tools
from savemark.capture import end_of
from savemark.run import child, memory
from savemark.run.phases import Phase
from savemark.study.keys import Trial, split_ours
from savemark.tools.job import Job, Step
from savemark.tools.version import process_ns, version

Json = dict[str, Any]
Progress = Callable[[Json], object]
Around = Callable[[str, str], None]
# Filesystems that lose everything with the power.
MEMORY = ("tmpfs", "ramfs")


@dataclass(frozen=True)
class Foreign:
    """Runs trials of other tools; what they print is kept below `folder`."""

    folder: Path
    runner: engine.Engine

    def run(self, trial: Trial, name: str, moved: Progress, around: Around | None = None) -> Json:
        """Run one trial in a place of its own, and remove it; `name` is that of its files.

        `around` is called before and after each phase, outside its time.
        """
        around = around or _nobody
        started_unix_ns, start_ns = time.time_ns(), time.monotonic_ns()
        tool, target = str(trial["tool"]), str(trial["target"])
        with (
            places.at(target, trial).scratch() as here,
            memory.folder(trial.get("disk")) as source,
        ):
            asked = split_ours(trial)[0]
            resolved: Trial = json.loads(engine.resolve(json.dumps({**asked, "target": here})))
            scratch = Path(source) / "scratch"
            scratch.mkdir()
            job = Job({**resolved, "tool": tool}, here, str(scratch), source)
            steps = tools.command(tool).steps(job)
            observer = engine.Witness(None if job.in_bucket else here)
            conditions = json.loads(observer.conditions())
            phases = self._prepare(job, steps)
            files: list[Json] = []
            for number, step in enumerate(steps):
                moved({"phase": step.phase, "done_bytes": 0, "total_bytes": step.user_bytes})
                kept = f"{name}-{number}-{step.phase}"
                around("before", step.phase)
                measured, file = self._step(job, step, kept, observer)
                around("after", step.phase)
                phases += measured
                files.append(file)
            filesystem = observer.filesystem()
            # Some tools say in their results alone which version they are.
            versions = [phase.pop("tool_version", None) for phase in phases]
            version_ = version(tool) or next(filter(None, versions), None)
        return {
            "schema": 1,
            "trial": {**resolved, **split_ours(trial)[1], "target": trial["target"]},
            "started_unix_ns": started_unix_ns,
            "elapsed_ns": time.monotonic_ns() - start_ns,
            "path": _path(job, filesystem),
            "buffer_bytes": None,
            "conditions": conditions,
            "phases": phases,
            "tool": {
                "name": tool,
                "version": version_,
                "process_ns": process_ns(tool),
                "runs": files,
            },
        }

    def _prepare(self, job: Job, steps: list[Step]) -> list[Json]:
        """Lay out what is read, reserve what is written, and make the data that is copied."""
        memory.make_sources(job, steps)
        if job.trial["workload"] not in ("sequential", "random"):
            return []
        prepared = json.loads(self.runner.prepare(json.dumps(split_ours(dict(job.trial))[0])))
        return [prepared] if prepared else []

    def _step(
        self, job: Job, step: Step, kept: str, observer: engine.Witness
    ) -> tuple[list[Json], Json]:
        """Run one process between two looks at the machine; return its phases, mostly one."""
        phase = Phase(job, step)
        phase.drop_caches()
        self.folder.mkdir(exist_ok=True)
        out, err = (self.folder / f"{kept}.{kind}" for kind in ("out", "err"))
        memory.write_aws_config(job, step)
        for name, text in step.inputs.items():
            (Path(job.scratch) / name).write_text(text, encoding="utf-8")
            (self.folder / f"{kept}-{name}").write_text(text, encoding="utf-8")
        observer.begin()
        ended = child.run(step.argv, None if step.discard else out, err, step.environment)
        seen = json.loads(observer.end())
        made = Path(job.scratch) / (step.folder or "")
        if step.folder and made.is_dir():
            shutil.copytree(made, self.folder / kept)
        report = self._keep(job, step, kept, out, err)
        if ended.status:
            last_line = end_of(err) or end_of(out)
            raise child.failure(job.tool, ended, last_line, err if err.exists() else out)
        if step.several:
            in_memory = observer.filesystem() in MEMORY
            measured = phase.several(report, in_memory=in_memory)
        else:
            measured = [phase.finish(ended, seen, report)]
        return measured, _run_of(step, ended, self.folder, report)

    def _keep(self, job: Job, step: Step, kept: str, out: Path, err: Path) -> Path | None:
        """Keep what the tool said, its result beside it; return what its reader has to read."""
        printed = [path for path in (out, err) if path.exists() and not _drop_empty(path)]
        if step.result is None:
            return next(iter(printed), None)
        made = Path(job.scratch) / step.result
        if not made.exists():
            return None
        suffix = "".join(made.suffixes)
        result = self.folder / f"{kept}{suffix}"
        shutil.copyfile(made, result)
        made.unlink()
        return result


def _nobody(_moment: str, _phase: str) -> None:
    pass


def _drop_empty(path: Path) -> bool:
    if path.stat().st_size:
        return False
    path.unlink()
    return True


def _run_of(step: Step, ended: child.Ended, folder: Path, report: Path | None) -> Json:
    """Return what is recorded of a process: enough to run it again, and to know its output."""
    run: Json = {
        "phase": step.phase,
        "command": list(step.argv),
        "exit_status": ended.status,
        "elapsed_ns": ended.elapsed_ns,
    }
    if report is not None:
        run["file"] = f"{folder.name}/{report.name}"
        with report.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        run |= {"bytes": report.stat().st_size, "sha256": digest}
    return run


def _path(job: Job, filesystem: str) -> Json:
    notes = [] if job.in_bucket else ["laid out and dropped from the page cache by savemark"]
    return {
        "storage": job.tool,
        "direct": bool(job.trial.get("direct")),
        "fixed_buffers": False,
        "registered_files": False,
        "alignment_bytes": 0,
        "filesystem": filesystem,
        "notes": notes,
    }
