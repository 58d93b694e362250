"""Nodes of a cluster on one machine: a network namespace each, joined by a bridge over slow links.

Each has its own address, loopback, host name and a link with a token bucket. What runs in one of
them is started through an agent, as if by ssh, so Open MPI and MPICH take them for machines.
The host's own network is not touched: the bridge has a namespace of its own, too.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import needs
from launchers import LAUNCHERS

AGENT = """#!/bin/sh
# As ssh is called: [options] HOST COMMAND…
while [ "${{1#-}}" != "$1" ]; do shift; done
node=$1; shift
exec ip netns exec {prefix}-"$node" unshare --uts --mount sh -c '
    mount --bind "$1" /etc/hosts && mount -t tmpfs ranks /dev/shm && hostname "$2" || exit 255
    shift 2
    exec sh -c "$*"' sh {hosts} "$node" "$@"
"""


DELAY = Path(__file__).with_name("delay.py")


def ip(*words, check=True):
    return subprocess.run(["ip", *map(str, words)], check=check, capture_output=True, text=True)


class Nodes:
    """Up to 200 nodes `node0`, `node1`, …; `end` removes everything, whatever state it is in."""

    def __init__(self, folder, count=4, rate="1gbit", burst="256kb", delay_s=0.0):
        self.folder, self.count = folder, count
        self.bucket = ("tbf", "rate", rate, "burst", burst, "latency", "50ms")
        self.delay_s, self.switch = delay_s, None
        self.prefix = f"sm{os.getpid()}"
        self.names = [f"node{number}" for number in range(count)]
        self.agent = folder / "agent"
        self.hostfile = folder / "hosts.txt"
        self.started = []

    def namespace(self, node):
        return f"{self.prefix}-{node}"

    def begin(self):
        hosts = self.folder / "etc-hosts"
        lines = ["127.0.0.1 localhost"]
        lines += [f"10.77.0.{place + 1} {name}" for place, name in enumerate(self.names)]
        hosts.write_text("\n".join(lines) + "\n")
        self.agent.write_text(AGENT.format(prefix=self.prefix, hosts=hosts))
        self.agent.chmod(0o755)
        for name in (*self.names, "switch"):
            ip("netns", "add", self.namespace(name))
        if self.delay_s:
            self._join_late()
        else:
            self._join()
        for place, name in enumerate(self.names):
            space = self.namespace(name)
            ip("-n", space, "addr", "add", f"10.77.0.{place + 1}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                ip("-n", space, "link", "set", device, "up")
            self._shape(space, "eth0")
            self._give_up_early(space)

    def _join(self):
        """A bridge in a namespace of its own; both directions of each link have the rate."""
        switch = self.namespace("switch")
        ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", switch, "link", "set", "bridge", "up")
        for place, name in enumerate(self.names):
            peer = ("peer", "name", f"port{place}", "netns", switch)
            ip("link", "add", "eth0", "netns", self.namespace(name), "type", "veth", *peer)
            ip("-n", switch, "link", "set", f"port{place}", "master", "bridge", "up")
            self._shape(switch, f"port{place}")

    def _join_late(self):
        """A program that delays."""
        command = [sys.executable, DELAY, str(self.delay_s), *map(self.namespace, self.names)]
        self.switch = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.switch.stdout.readline() == "ready\n"

    def _shape(self, space, device):
        command = ["tc", "-n", space, "qdisc", "add", "dev", device, "root", *self.bucket]
        subprocess.run(command, check=True, capture_output=True, text=True)

    def _give_up_early(self, space):
        """Let TCP give up in 13 seconds what was under way to a node that is gone.

        Without it that is 15 minutes, and keepalive does not help: it probes idle links only.
        """
        retries = "echo 5 > /proc/sys/net/ipv4/tcp_retries2"
        ip("netns", "exec", space, "sh", "-c", retries)

    def start(self, node, *words, **more):
        """Start a program on a node."""
        command = [str(self.agent), node, subprocess.list2cmdline(list(map(str, words)))]
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self.started.append(subprocess.Popen(command, text=True, **both, **more))
        return self.started[-1]

    def mpi(self, kind, ranks, *words, **more):
        """Start so many ranks over all nodes, from the first of them."""
        launcher, each = LAUNCHERS[kind](), -(-ranks // self.count)
        self.hostfile.write_text("".join(f"{name}{SLOTS[kind]}{each}\n" for name in self.names))
        options = {
            "openmpi": [*OPENMPI, "--mca", "plm_rsh_agent", self.agent, "--hostfile", self.hostfile,
                        "--map-by", f"ppr:{each}:node"],
            "mpich": [*MPICH, "-launcher-exec", self.agent, "-f", self.hostfile],
        }  # fmt: skip
        environment = {**os.environ, **launcher.environment, **ENVIRONMENT[kind]}
        environment |= more.pop("env", {})
        command = (*launcher.words, *options[kind], "-n", ranks, *words)
        return self.start(self.names[0], *command, env=environment, **more)

    def ended(self, job, limit_s=300):
        """What a job has said when it has ended; where it does not, also where each process stands.

        The limit is far above the ten seconds that it takes: the disk may be busy with other work.

        Python prints that when it is aborted, if it was started with `-X faulthandler`.
        """
        try:
            return job.communicate(timeout=limit_s)[0]
        except subprocess.TimeoutExpired:
            for name in self.names:
                for pid in self.processes(name):
                    with contextlib.suppress(OSError):
                        # Not the launcher, which brings what they say.
                        if Path(f"/proc/{pid}/exe").samefile(sys.executable):
                            os.kill(pid, signal.SIGABRT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                raise AssertionError(job.communicate(timeout=10)[0]) from None
            raise

    def processes(self, node):
        found = ip("netns", "pids", self.namespace(node), check=False).stdout.split()
        return [int(pid) for pid in found]

    def kill(self, node):
        """Take a node away: its link goes down, and all its processes die."""
        ip("-n", self.namespace(node), "link", "set", "eth0", "down", check=False)
        for pid in self.processes(node):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def repair(self, node):
        """Bring the link of a node back."""
        ip("-n", self.namespace(node), "link", "set", "eth0", "up")

    def end(self):
        for name in [*self.names, "switch"]:
            until = time.monotonic() + 10
            while self.processes(name) and time.monotonic() < until:
                self.kill(name)
                time.sleep(0.02)
            ip("netns", "del", self.namespace(name), check=False)
        if self.switch is not None:
            self.switch.kill()
            self.switch.communicate()
        for process in self.started:
            process.communicate(timeout=10)


OPENMPI = [
    *("--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "btl", "self,vader,tcp"),
    *("--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0"),
    # A node that is gone says nothing: without these mpirun waits for it for eight minutes.
    *("--mca", "oob_tcp_keepalive_time", "2", "--mca", "oob_tcp_keepalive_intvl", "1"),
    *("--mca", "oob_tcp_keepalive_probes", "3"),
]
MPICH = ["-launcher", "ssh", "-iface", "eth0"]
SLOTS = {"openmpi": " slots=", "mpich": ":"}
# Of ranks that are told nothing else: namespaces do not let one process read another's memory.
ENVIRONMENT = {
    "openmpi": {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"},
    # It would find that all nodes are one machine, and go around the links.
    "mpich": {"FI_PROVIDER": "tcp", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0"},
}


def require(kind):
    """Skip where there is no such MPI, no namespace, or no right to make one."""
    LAUNCHERS[kind]()
    name = f"sm{os.getpid()}-try"
    if shutil.which("ip") is None or ip("netns", "add", name, check=False).returncode:
        needs.missing("netns", "network namespaces cannot be made here")
    ip("netns", "del", name, check=False)


@pytest.fixture
def nodes(tmp_path):
    """Four nodes."""
    require("openmpi")
    made = Nodes(tmp_path)
    try:
        made.begin()
        yield made
    finally:
        made.end()
