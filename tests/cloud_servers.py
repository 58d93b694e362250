"""Stand-ins of Google's and Azure's object storage on loopback.

Azure's is Azurite, where azurite-blob is on PATH (npm install azurite).
"""

import base64
import hashlib
import hmac
import json
import os
import subprocess
import time
from contextlib import contextmanager
from email.utils import formatdate
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import s3_server
from s3_real import _free_port, tool
from waiting import LIMIT_S

# Azurite's account, which its documentation states; it guards nothing.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@contextmanager
def google(_folder):
    """The variables that lead to a server with the bucket `bucket`.

    The engine speaks Google's XML interface, which is S3's but for its signatures; fake-gcs-server
    does not know its uploads, so the small server of the tests for S3 stands in.
    """
    server = s3_server.start()
    url = f"http://127.0.0.1:{server.server_port}"
    account = {"gcs_base_url": url, "disable_oauth": True, "client_email": ""}
    account |= {"private_key": "", "private_key_id": ""}
    yield {"GOOGLE_BASE_URL": url, "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(account)}
    server.shutdown()
    server.server_close()


@contextmanager
def azure(folder):
    """A server with the container `bucket`; yields the variables that lead to it."""
    port = _free_port()
    url = f"http://127.0.0.1:{port}/{ACCOUNT}"
    words = ["--blobHost", "127.0.0.1", "--blobPort", port, "--location", folder / "azure"]
    words += ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    with _running([tool("azurite-blob"), *words], folder / "azure.log", url):
        _make_container(port, "bucket")
        yield {
            "AZURE_STORAGE_ENDPOINT": url,
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        }


@contextmanager
def _running(words, log, url):
    with log.open("w") as out:
        process = subprocess.Popen(
            list(map(str, words)),
            cwd=log.parent,
            env={**os.environ, "HOME": str(log.parent)},
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait(process, url, log)
        yield
    finally:
        process.terminate()
        process.wait(timeout=300)


def _wait(process, url, log):
    deadline = time.monotonic() + LIMIT_S
    while True:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        try:
            urlopen(url, timeout=5).close()
            return
        except HTTPError:
            return  # it answers
        except (URLError, OSError):
            time.sleep(0.1)


def _make_container(port, name):
    """Signed with the shared key, as Azure's REST reference describes it."""
    path, version = f"/{ACCOUNT}/{name}", "2021-08-06"
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": version}
    signed = "".join(f"{key}:{value}\n" for key, value in sorted(headers.items()))
    # Method, eleven headers of which none is sent, ours, then the resource (the account twice).
    text = "PUT\n" + "\n" * 11 + signed + f"/{ACCOUNT}{path}\nrestype:container"
    mac = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(mac).decode()}"
    headers["Content-Length"] = "0"
    url = f"http://127.0.0.1:{port}{path}?restype=container"
    urlopen(Request(url, method="PUT", headers=headers), timeout=300).close()
