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
import stuck
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
        """Start a program on a node; what it says is in the file `job.said`."""
        command = [str(self.agent), node, subprocess.list2cmdline(list(map(str, words)))]
        said = self.folder / f"said-{len(self.started)}.txt"
        with said.open("w") as file:
            job = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, **more)
        job.said = said
        self.started.append(job)
        return job

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

    def ended(self, job, limit_s=600):
        """What a job has said when all has ended; where it does not, also where each part stands.

        The limit is far above the ten seconds that it takes: the machine may be busy otherwise.
        That the ranks end is our promise. A launcher that stays without them is only stopped.
        """
        stuck_at = ""
        if not _comes(lambda: not self.ranks() and job.poll() is not None, limit_s):
            ranks = self.ranks()
            everything = [pid for name in self.names for pid in self.processes(name)]
            where = stuck.standing(everything, map(self.namespace, self.names))
            stuck_at = f"after {limit_s} s:\n{where}"
            for pid in ranks:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGABRT)  # with `-X faulthandler` Python says where it is
            _comes(lambda: not self.ranks(), 10)
            assert not ranks, f"{job.said.read_text()}\n{stuck_at}"
        for name in self.names:
            self._end_processes(name)
        job.wait(300)
        return job.said.read_text() + stuck_at

    def ranks(self):
        """The processes that a launcher has started, on all nodes."""
        return [pid for name in self.names for pid in self.processes(name) if _is_python(pid)]

    def processes(self, node):
        found = ip("netns", "pids", self.namespace(node), check=False).stdout.split()
        return [int(pid) for pid in found]

    def kill(self, node):
        """Take a node away: its link goes down, and all its processes die."""
        ip("-n", self.namespace(node), "link", "set", "eth0", "down", check=False)
        assert self._end_processes(node), stuck.standing(self.processes(node))

    def _end_processes(self, node):
        """Kill until there is none: one that is killed may just have started another."""

        def none_left():
            for pid in (left := self.processes(node)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not left

        return _comes(none_left, 60)

    def repair(self, node):
        """Bring the link of a node back."""
        ip("-n", self.namespace(node), "link", "set", "eth0", "up")

    def end(self):
        for name in [*self.names, "switch"]:
            self._end_processes(name)
            ip("netns", "del", self.namespace(name), check=False)
        if self.switch is not None:
            self.switch.kill()
            self.switch.communicate()
        for process in self.started:
            process.wait(300)


def _comes(what, limit_s):
    """Wait until something is so; False where it is not by then."""
    until = time.monotonic() + limit_s
    while not (found := what()) and time.monotonic() < until:
        time.sleep(0.05)
    return found


def _is_python(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/exe").samefile(sys.executable)
    return False


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
