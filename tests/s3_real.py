"""Real S3 servers on loopback, and tools that copy to and from them, where they are installed."""

import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager

import pytest

from waiting import LIMIT_S

KEY, SECRET = "key-of-tests", "secret-of-tests"


def variables(port):
    """The variables that lead a client to the server at `port`."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
    }


def environment(server, home):
    """This process's environment with those variables, and none of the user's own."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return {**mine, **server, "HOME": str(home)}


def popen(words, server, home, **more):
    """Start a command in `home` with a server in its environment; `more` are other variables."""
    return subprocess.Popen(
        [*map(str, words)],
        env={**environment(server, home), **more},
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(words, server, home, **more):
    """The same, to its end; no command may show a traceback."""
    process = popen(words, server, home, **more)
    out, err = process.communicate(timeout=300)
    assert "Traceback" not in err, err
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def tool(name):
    """The path of a program; skips the test without it, or fails it if SAVEMARK_REQUIRE has it."""
    found = shutil.which(name)
    if found is None:
        required = name in os.environ.get("SAVEMARK_REQUIRE", "").split(",")
        (pytest.fail if required else pytest.skip)(
            f"{name} is not on PATH" + (", but SAVEMARK_REQUIRE asks for it" if required else "")
        )
    return found


@contextmanager
def start(name, folder):
    """Run `minio` or `versitygw` with its data in `folder`, and a bucket called `bucket`."""
    program, port = tool(name), _free_port()
    root, address = folder / f"{name}-data", f"127.0.0.1:{port}"
    (root / "bucket").mkdir(parents=True)
    if name == "minio":
        words = ["server", "--quiet", "--address", address, root]
        more = {"MINIO_ROOT_USER": KEY, "MINIO_ROOT_PASSWORD": SECRET, "MINIO_BROWSER": "off"}
    else:
        words = ["--port", address, "posix", root]
        more = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
    log = folder / f"{name}.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [program, *map(str, words)],
            env={**os.environ, **more, "HOME": str(folder)},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait(process, port, log)
        yield variables(port)
    finally:
        process.terminate()
        process.wait(timeout=300)


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait(process, port, log):
    """Until the server answers: a request, as MinIO listens before it can serve."""
    from urllib.error import HTTPError, URLError
    from urllib.request import urlopen

    deadline = time.monotonic() + LIMIT_S
    while True:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        try:
            urlopen(f"http://127.0.0.1:{port}/bucket", timeout=5).close()
            return
        except HTTPError as error:
            if error.code in (403, 404):
                return
        except (URLError, OSError):
            pass
        time.sleep(0.1)
