"""Programs that print without end: they take no memory, and no wait is for ever."""

import subprocess
import sys

import pytest

from savemark import capture
from waiting import LIMIT_S

LOUD = "yes loud | head -c 300000000; yes error | head -c 300000000 >&2; echo why >&2; exit 3"
PEAK = """
import sys
from savemark import capture
done = capture.run(["sh", "-c", sys.argv[1]])
print(done.returncode, len(done.stdout) <= 2 << 20, done.stderr.splitlines()[-1])
# Not ru_maxrss, which counts the process that started this one, too.
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak.split()[1]) >> 10)
"""


def test_who_prints_much_takes_no_memory_and_its_reason_is_known():
    done = subprocess.run(
        [sys.executable, "-c", PEAK, LOUD],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    told, peak_mib = done.stdout.splitlines()
    assert told == "3 True why"
    assert int(peak_mib) < 200, "of the 572 MiB that were printed"


def test_who_prints_for_ever_is_ended():
    with pytest.raises(subprocess.TimeoutExpired):
        capture.run(["yes"], limit_s=0.3)


def test_who_is_silent_for_ever_is_ended():
    with pytest.raises(subprocess.TimeoutExpired):
        capture.run(["sh", "-c", "exec sleep 600"], limit_s=0.3)


def test_what_is_not_there_is_an_error_of_the_system():
    with pytest.raises(FileNotFoundError):
        capture.run(["/no/such/program"])


def test_the_end_of_a_file_is_read_alone(tmp_path):
    (tmp_path / "err").write_text("x" * 1000 + "the reason")
    assert capture.end_of(tmp_path / "err", 10) == "the reason"
    assert capture.end_of(tmp_path / "none") == ""
