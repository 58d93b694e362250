"""A server that takes connections and never answers: each command ends in the time it was given."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from waiting import LIMIT_S

IMPATIENT = ("--timeout", "200ms", "--retries", "1")


@pytest.fixture
def asked():
    """Set when somebody has asked the server."""
    return threading.Event()


@pytest.fixture
def silent(asked):
    """The environment in which S3 is a socket that is listened at and never read."""
    server = socket.create_server(("127.0.0.1", 0))
    held = []

    def take():
        try:
            while True:
                held.append(server.accept()[0])
                asked.set()
        except OSError:
            return

    thread = threading.Thread(target=take)
    thread.start()
    mine = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    yield {**mine, **keys, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.getsockname()[1]}"}
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()
    for connection in held:
        connection.close()


COMMANDS = {
    "list": ("list", "s3://bucket/place"),
    "clean": ("clean", "s3://bucket/place"),
    "verify": ("verify", "s3://bucket/place"),
    "restore": ("restore", "s3://bucket/place", "restored"),
    "restore a process": ("restore", "s3://bucket/place"),
    "save": ("save", "data", "s3://bucket/place"),
    "save one of several": ("save", "data", "s3://bucket/place", "--keep", "2"),
    "run": ("run", "quick", "s3://bucket/place"),
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_command_waits_as_long_as_it_was_told(silent, tmp_path, words):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_bytes(b"of the user")
    done = subprocess.run(
        [sys.executable, "-m", "savemark", *words, *IMPATIENT],
        env={**silent, "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "s3://bucket/place" in done.stderr, "where"
    server = silent["AWS_ENDPOINT_URL"].removeprefix("http://")
    assert f"{server} did not answer within 0.2 s, asked 2 times" in done.stderr, "what"
    assert "raise --timeout" in done.stderr, "what to do"
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"], "nothing is left"


API = """
import json, sys
import savemark
told = json.loads(sys.argv[1])
for act in (lambda: savemark.restore("s3://bucket/place", **told),
            lambda: savemark.save(b"state", "s3://bucket/place", **told)):
    try:
        act()
    except savemark.SavemarkError as error:
        print(error.kind, error.message)
"""


@pytest.mark.parametrize("timeout", [0.2, "200ms"])
def test_a_call_waits_as_long_as_it_was_told(silent, timeout):
    told = json.dumps({"timeout": timeout, "retries": 0})
    done = subprocess.run(
        [sys.executable, "-c", API, told],
        env=silent,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    assert done.stdout.count("did not answer within 0.2 s") == 2, done.stdout
    assert "asked" not in done.stdout, "it was asked once"


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_ctrl_c_waits_for_no_answer(silent, asked, tmp_path, words):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_bytes(b"of the user")
    process = subprocess.Popen(
        [sys.executable, "-m", "savemark", *words, "--timeout", "10m"],
        env={**silent, "HOME": str(tmp_path)},
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert asked.wait(LIMIT_S)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=LIMIT_S)  # less than it would wait for an answer
    assert (process.returncode, "interrupted" in told) == (130, True), told
    assert "Traceback" not in told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"], "nothing is left"


LOOKS = """
import sys
from pathlib import Path
from savemark.errors import from_exception
from savemark import places
from savemark.run import durable

limits = {"timeout": 0.2, "retries": 0}
try:
    if sys.argv[1] == "place":
        with places.at("s3://bucket/place", limits).scratch():
            pass
    else:
        here = Path(sys.argv[2])
        (here / "file").write_bytes(b"of the mount")
        around = object.__new__(durable.MountedPhases)
        around.folder, around.bucket = here, "s3://bucket/place"
        around.target = type("Target", (), {"limits": limits})
        around._until_stored()
except Exception as error:
    print(from_exception(error))
"""


@pytest.mark.parametrize("what", ["place", "durable"])
def test_who_looks_at_a_bucket_waits_as_long_as_it_was_told(silent, tmp_path, what):
    done = subprocess.run(
        [sys.executable, "-c", LOOKS, what, tmp_path],
        env=silent,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert "did not answer within 0.2 s" in done.stdout, done.stdout + done.stderr
