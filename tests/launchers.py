"""Starting `savemark` as several processes, under Open MPI and under MPICH."""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import stuck
from needs import missing

COMMAND = [sys.executable, "-m", "savemark"]


@dataclass
class Launcher:
    """One MPI: how it starts processes."""

    name: str
    words: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    hides_memory: bool = True  # its processes have a /dev/shm of their own, gone with them

    def popen(self, folder, *groups, **environment):
        """Start groups of processes: (how many, words before the command, its arguments)."""
        line = [*(own_memory() if self.hides_memory else []), *self.words]
        for number, (count, before, words) in enumerate(groups):
            line += [":"] if number else []
            line += ["-n", str(count), *map(str, before), *COMMAND, *map(str, words)]
        return subprocess.Popen(
            line,
            cwd=folder,
            env={**os.environ, **self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, folder, *groups, **environment):
        """As `popen`, to its end."""
        return ended(self.popen(folder, *groups, **environment))


def own_memory():
    """The words before a command whose shared memory is to vanish with it.

    MPI keeps files in /dev/shm, which stay there for ever when a rank is killed.
    """
    words = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs ranks /dev/shm && exec "$@"', "sh"]
    works = subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
    return words if works else []


def ended(process, limit_s=600):
    """The end of a process; one that does not come to it is killed with all it has started."""
    try:
        out, err = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        started = stuck.tree(process.pid)
        where = stuck.standing(started)
        for pid in started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"after {limit_s} s: {where}; it said: {out}{err}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def openmpi():
    """Open MPI, wherever it is."""
    _need_mpi4py()
    found = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
    said = subprocess.check_output([found, "--version"], text=True) if found else ""
    if "Open MPI" not in said and "OpenRTE" not in said:
        missing("openmpi", "no mpirun of Open MPI is on PATH")
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    # Bound to one core each, they would compete for it with the other tests.
    return Launcher("openmpi", [found, "--oversubscribe", "--bind-to", "none"], allowed)


def mpich():
    """MPICH with the library that mpi4py's wheels load, as its own wheel has it."""
    _need_mpi4py()
    found = shutil.which("mpiexec.mpich")
    library = Path(found).resolve().parent.parent / "lib" / "libmpi.so.12" if found else None
    if library is None or not library.exists():
        missing("mpich", "no mpiexec.mpich with its ../lib/libmpi.so.12 is on PATH")
    return Launcher("mpich", [str(Path(found).resolve())], {"MPI4PY_LIBMPI": str(library)})


def _need_mpi4py():
    if importlib.util.find_spec("mpi4py") is None:
        missing("mpi4py", "it is not installed")


LAUNCHERS = {"openmpi": openmpi, "mpich": mpich}
