"""A switch that delays: joins network namespaces by frames that arrive some time later.

    python delay.py SECONDS NAMESPACE...

Makes a device `eth0` in each namespace, says `ready`, and forwards until it is ended. For kernels
without netem; a frame costs it some 20 µs, so delays below a millisecond are not true.
"""

import contextlib
import fcntl
import heapq
import os
import select
import struct
import sys
import time
from ctypes import CDLL, get_errno
from pathlib import Path

NEW_NETWORK = 0x40000000  # CLONE_NEWNET
TUNSETIFF, TAP, NO_HEAD = 0x400454CA, 0x0002, 0x1000
FRAME = 65536


def device(namespace):
    """A new device in a namespace, as a file whose reads and writes are frames."""
    _enter(Path("/run/netns") / namespace)
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", b"eth0", TAP | NO_HEAD))
    return tap


def _enter(path):
    with path.open() as space:
        if CDLL(None, use_errno=True).setns(space.fileno(), NEW_NETWORK):
            raise OSError(get_errno(), "cannot enter", str(path))


def forward(taps, delay_s):
    """Take frames to where their address was last seen, or everywhere; until the end."""
    waiting, order, ports = [], 0, {}
    while True:
        timeout = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for tap in select.select(taps, [], [], timeout)[0]:
            frame = os.read(tap, FRAME)
            ports[frame[6:12]] = tap
            known = ports.get(frame[:6])
            for port in [known] if known else [other for other in taps if other != tap]:
                order += 1
                heapq.heappush(waiting, (time.monotonic() + delay_s, order, port, frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, port, frame = heapq.heappop(waiting)
            # Where a device is down, or full, a frame is lost, as on a wire.
            with contextlib.suppress(OSError):
                os.write(port, frame)


if __name__ == "__main__":
    devices = [device(namespace) for namespace in sys.argv[2:]]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    forward(devices, float(sys.argv[1]))
