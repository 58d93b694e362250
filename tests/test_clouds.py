"""gs:// and az://: saved, listed, verified, restored and measured on servers of each kind."""

import filecmp
import os
import subprocess
import sys

import pytest

import cloud_servers

KINDS = {"gs": cloud_servers.google, "az": cloud_servers.azure}


@pytest.fixture(scope="module", params=sorted(KINDS))
def cloud(request, tmp_path_factory):
    """(scheme, the variables that lead to a server with the bucket `bucket`)."""
    with KINDS[request.param](tmp_path_factory.mktemp(request.param)) as variables:
        yield request.param, variables


@pytest.fixture
def savemark(cloud, tmp_path):
    """The command in its own directory, with those variables and none of the user's own."""
    foreign = ("AWS_", "GOOGLE_", "AZURE_")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}

    def savemark(*words, **more):
        return subprocess.run(
            [sys.executable, "-m", "savemark", *map(str, words)],
            cwd=tmp_path,
            env={**clean, **cloud[1], "HOME": str(tmp_path), **more},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return savemark


@pytest.fixture
def state(tmp_path):
    folder = tmp_path / "state"
    (folder / "deep").mkdir(parents=True)
    (folder / "weights").write_bytes(os.urandom(9_000_000))
    (folder / "deep" / "empty").touch()
    (folder / "deep" / "text").write_text("step 7\n" * 1000)
    return folder


def test_a_state_comes_back_whole(cloud, savemark, state, tmp_path):
    place = f"{cloud[0]}://bucket/run/7"
    done = savemark("save", state, place, "--codec", "zstd", "--streams", "3")
    assert done.returncode == 0, done.stderr
    assert savemark("verify", place).returncode == 0
    assert "zstd" in savemark("list", place).stdout
    done = savemark("restore", place, "back")
    assert done.returncode == 0, done.stderr
    match, mismatch, errors = filecmp.cmpfiles(
        state, tmp_path / "back", ["weights", "deep/empty", "deep/text"], shallow=False
    )
    assert (len(match), mismatch, errors) == (3, [], [])
    # Once more over it: the manifest is replaced, and nothing of the old one stays in the way.
    (state / "deep" / "text").write_text("step 8\n")
    assert savemark("save", state, place).returncode == 0
    assert savemark("restore", place, "again").returncode == 0
    assert (tmp_path / "again" / "deep" / "text").read_text() == "step 8\n"


STUDY = """\
name: tiny
repeats: 1
trial: {workload: checkpoint, storage: object, size: 8MiB, streams: 2}
ceilings:
  write: {workload: sequential, storage: object, operation: write, size: 8MiB, transfer_size: 1MiB}
  read: {workload: sequential, storage: object, operation: read, size: 8MiB, transfer_size: 1MiB}
checks: {HC-13: {block_below: 0}}
"""


def test_a_study_is_measured_and_leaves_nothing(cloud, savemark, tmp_path):
    (tmp_path / "tiny.yaml").write_text(STUDY)
    url = f"{cloud[0]}://bucket/measured"
    done = savemark("run", "tiny.yaml", f"here={url}", "--out", "run", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    text = (tmp_path / "run" / "records.jsonl").read_text()
    assert '"status": "failed"' not in text
    assert "every chunk" in text
    assert cloud_servers.KEY not in text
    assert "no checkpoint" in savemark("list", url).stdout


def test_a_missing_bucket_is_named(cloud, savemark, state):
    done = savemark("save", state, f"{cloud[0]}://nosuchbucket/x")
    assert done.returncode == 1
    assert "there is no bucket `nosuchbucket` at 127.0.0.1" in done.stderr
    assert "AWS" not in done.stderr
    assert "s3" not in done.stderr


def test_nobody_there_is_said_with_the_right_variable(cloud, savemark, state):
    name = {"gs": "GOOGLE_BASE_URL", "az": "AZURE_STORAGE_ENDPOINT"}[cloud[0]]
    words = ("save", state, f"{cloud[0]}://bucket/x", "--retries", "0")
    done = savemark(*words, **{name: "http://127.0.0.1:9/account"})
    assert done.returncode == 1
    assert "nothing listens at 127.0.0.1:9" in done.stderr
    assert name in done.stderr
    done = savemark(*words, **{name: "http://192.0.2.1/account"})
    assert done.returncode == 1
    assert "plain HTTP" in done.stderr
    assert ("GOOGLE_ALLOW_HTTP" if cloud[0] == "gs" else "AZURE_ALLOW_HTTP") in done.stderr


def test_wrong_credentials_are_told_and_not_shown(cloud, savemark, state):
    if cloud[0] == "gs":
        pytest.skip("the stand-in does not look at credentials")
    wrong = "d3JvbmcgYXMgY2FuIGJlLCBidXQgYSBrZXkgaW4gYmFzZTY0"
    done = savemark("save", state, "az://bucket/x", AZURE_STORAGE_ACCOUNT_KEY=wrong)
    assert done.returncode == 1
    assert "denies access (AuthorizationFailure)" in done.stderr
    assert "Storage Blob Data Contributor" in done.stderr
    assert wrong not in done.stderr
    done = savemark("save", state, "az://bucket/x", AZURE_STORAGE_ACCOUNT_KEY="no base 64!")
    assert done.returncode == 2
    assert "AZURE" in done.stderr
    assert "no base 64!" not in done.stderr
