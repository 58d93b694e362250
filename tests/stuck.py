"""Where processes stand that should have ended, for the message of a test that fails."""

import contextlib
import subprocess
from pathlib import Path


def tree(pid):
    """A process and all that it has started, as far as their parents live."""
    found = [pid]
    for parent in found:
        children = _said("ps", "-o", "pid=", "--ppid", str(parent)).split()
        found += [int(child) for child in children]
    return found


def standing(pids, spaces=()):
    """What processes do, and the connections in network namespaces."""
    said = [each for pid in pids for each in _process(pid)]
    for space in spaces:
        said += [space, _said("ip", "netns", "exec", space, "ss", "-tnop")]
    return "\n".join(said)


def _process(pid):
    """Its name, state, parent and signals, and in which function of the kernel it sleeps."""
    wanted = ("State:", "PPid:", "SigPnd:", "ShdPnd:", "SigBlk:")
    with contextlib.suppress(OSError):
        entry = Path("/proc") / str(pid)
        lines = (entry / "status").read_text().splitlines()
        status = " ".join(line.replace("\t", "") for line in lines if line.startswith(wanted))
        words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        yield f"{pid} {status} in {(entry / 'wchan').read_text()}: {words[:100]}"


def _said(*words):
    return subprocess.run(words, check=False, capture_output=True, text=True).stdout
