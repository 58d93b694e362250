"""Real runs without a report: in this process, or in one of its own that can be cheated on.

As a program: `live_run.py STUDY PLACE OUT [slow|GROUP]`. With `slow`, the process is stopped and
continued all the time during the second half of the repeats. With the directory of a control group
it goes there for the trials.
"""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

# Lets a process run a tenth of the time, until it is told to end; never leaves it stopped.
PULSE = """
import os, signal, sys, time
pid, ended = int(sys.argv[1]), []
signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
print("ready", flush=True)
while not ended and os.getppid() == pid:
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.06)
    os.kill(pid, signal.SIGCONT)
    time.sleep(0.006)
"""


class Silent:
    """Watches a run and says nothing."""

    def note(self, text):
        pass

    def measuring(self):
        pass

    def agree(self, forecast):
        pass

    def look(self, race):
        pass

    def more(self, entries):
        pass

    def announce(self, forecast, left):
        pass

    def started(self, entry):
        pass

    def moved(self, progress):
        pass

    def finished(self, entry, line):
        pass


class SlowSecondHalf(Silent):
    """Makes every trial of the second half of the repeats slower, from outside the engine."""

    def announce(self, forecast, left):
        self.half = (max(entry.repeat for entry in left) + 1) // 2

    def started(self, entry):
        self.pulse = None
        if entry.repeat >= self.half:
            command = [sys.executable, "-c", PULSE, str(os.getpid())]
            self.pulse = subprocess.Popen(command, stdout=subprocess.PIPE)
            self.pulse.stdout.readline()

    def finished(self, entry, line):
        if self.pulse is not None:
            self.pulse.terminate()
            self.pulse.communicate()


class InGroup(Silent):
    """Moves this process into a control group when the trials start."""

    def __init__(self, path):
        self.path = path

    def announce(self, forecast, left):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))


def watcher(word):
    """What watches a run, by the last word of the command line."""
    if word == "slow":
        return SlowSecondHalf()
    return InGroup(Path(word)) if word else Silent()


def measure(study, place, out, watched_by=None):
    """Run the study file on the directory; return the run folder."""
    from savemark.run.request import Request
    from savemark.run.start import start
    from savemark.run.target import parse

    name, targets = parse((str(study), str(place)))
    start(Request(study=name, targets=targets, flags={}, seed=7, out=out), watched_by or Silent())
    return out


def apart(study, place, out, *words, preload=None):
    """The same in a process of its own, perhaps with a library before the C library."""
    env = {**os.environ, **({"LD_PRELOAD": str(preload)} if preload else {})}
    command = [sys.executable, str(HERE / "live_run.py"), *map(str, (study, place, out, *words))]
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return out


def judge(folder):
    """The findings of a run folder by id."""
    from savemark.report.analysis import analyse

    return {finding.id: finding for finding in analyse(folder).findings}


if __name__ == "__main__":
    measure(*map(Path, sys.argv[1:4]), watcher("".join(sys.argv[4:])))
