"""Ctrl-C where it is wanted, and nowhere else: what a parent has ignored stays ignored."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from waiting import LIMIT_S, held, records

HERE = Path(__file__).parent
ASKS = "import signal; print(repr(signal.getsignal(signal.{})))"
NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
def ignored():
    """As a parent leaves it that ignores Ctrl-C and the end of its terminal: nohup."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in NUMBERS[::2]}
    yield list(before)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", NUMBERS)
def test_what_a_test_starts_can_be_stopped(number):
    """Also where the parent of this suite ignores the signal."""
    done = subprocess.run(
        [sys.executable, "-c", ASKS.format(number.name)], capture_output=True, text=True, check=True
    )
    assert "SIG_IGN" not in done.stdout


def test_the_suite_passes_where_its_parent_ignores_signals():
    words = [sys.executable, "-m", "pytest", "-q", str(HERE / "test_signals.py"), "-k", "a_test"]
    done = subprocess.run(
        ["sh", "-c", 'trap "" INT TERM HUP; exec "$@"', "sh", *words],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_what_is_ignored_does_not_stop_a_run(ignored):
    from savemark.signals import stop_in_order

    with stop_in_order():
        for number in ignored:
            os.kill(os.getpid(), number)
    assert all(signal.getsignal(number) is signal.SIG_IGN for number in ignored)


def test_what_is_not_ignored_does(ignored):
    from savemark.signals import stop_in_order

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), stop_in_order():
        os.kill(os.getpid(), signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


STUDY = """\
name: small
repeats: 3
defaults: {storage: posix, size: 16m}
trial: {workload: checkpoint}
"""


def test_a_run_below_nohup_outlives_its_terminal(savemark, place, tmp_path, ignored):
    (tmp_path / "small.yaml").write_text(STUDY)
    process = savemark.popen("run", "small.yaml", place, "--out", "out", FAKE_HOLD="1")
    held(tmp_path / "out", place, 1)
    for number in ignored:
        process.send_signal(number)
    # That of SIGINT says nothing: polars, once loaded, catches it to hand it on to whoever had it.
    mask = Path(f"/proc/{process.pid}/status").read_text().split("SigIgn:")[1].split()[0]
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130
    assert int(mask, 16) & 1 << signal.SIGHUP - 1, mask
    assert len(records(tmp_path / "out")) == 1
