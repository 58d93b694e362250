"""Cuts crash tests into jobs, one per subject, crash and filesystem, and runs some at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import savemark._engine as engine
from savemark.errors import SavemarkError

Json = dict[str, Any]
FILESYSTEMS = ("ext4", "xfs", "btrfs")


@dataclass(frozen=True, slots=True)
class Plan:
    """What to test, and how often."""

    subjects: tuple[str, ...]
    filesystems: tuple[str, ...] = FILESYSTEMS
    points: int = 60  # power losses of each subject, over all filesystems
    kills: int = 20  # of each subject, on the first filesystem
    seed: int = 1
    lag: int = 0  # entries that a lying disk is behind; 0 for an honest one

    def jobs(self) -> list[Json]:
        """One process each; the same seed makes the same choices."""
        kills = [self._job("kill", s, self.filesystems[0], self.kills) for s in self.subjects]
        share = -(-self.points // len(self.filesystems))
        powers = [self._job("power", s, f, share) for s in self.subjects for f in self.filesystems]
        return [job for job in powers + kills if job["points"]]

    def _job(self, crash: str, subject: str, filesystem: str, points: int) -> Json:
        head = {"crash": crash, "subject": subject, "filesystem": filesystem}
        return head | {"points": points, "seed": self.seed, "lag": self.lag}


def contracts() -> list[Json]:
    """What can be tested: {subject, contract, lasts, can_tear}."""
    listed: list[Json] = json.loads(engine.crash_contracts())
    return listed


def run(plan: Plan, done: Callable[[Json], None]) -> list[Json]:
    """Run all jobs; `done` is told of each. Returns a list of {job, report}.

    Raises SavemarkError at the first that fails; those under way are killed.
    """
    results: list[Json] = []
    running: set[subprocess.Popen[str]] = set()
    over = threading.Event()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        try:
            waiting = {pool.submit(_run, job, running, over) for job in plan.jobs()}
            while waiting:
                ended, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in ended:
                    results.append(future.result())
                    done(results[-1])
        except BaseException:
            over.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(running):
                process.kill()
            raise
    return results


def _run(job: Json, running: set[subprocess.Popen[str]], over: threading.Event) -> Json:
    """Run one; it dies with this thread, and the kernel undoes its mounts with it."""
    command = [sys.executable, "-m", "savemark.crash", json.dumps(job)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        running.add(process)
        if over.is_set():
            process.kill()  # it was being started when the others were killed
        try:
            report, wrong = process.communicate()
        finally:
            running.discard(process)
    name = f"{job['crash']} of {job['subject']} on {job['filesystem']}"
    if process.returncode or not report:
        why = wrong.strip().splitlines()[-1:] or [f"its process ended with {process.returncode}"]
        raise SavemarkError("failed", f"{name}: {why[0]}")
    result: Json = json.loads(report)
    if "error" in result:
        error = result["error"]
        raise SavemarkError(error["kind"], f"{name}: {error['message']}", error["hint"])
    return result
