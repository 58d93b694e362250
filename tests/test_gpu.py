"""GPUs: nothing of CUDA is linked, libraries are found in wheels, what is missing is said."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from needs import missing
from savemark import _engine
from savemark.run import wheels

HAS_GPU = Path("/proc/driver/nvidia/version").exists()


def savemark(*words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "savemark", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, **environment},
    )


def test_nothing_of_cuda_is_linked():
    try:
        done = subprocess.run(
            ["readelf", "-d", "-W", _engine.__file__], capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        missing("readelf", "binutils are not installed")
    needed = [line for line in done.stdout.splitlines() if "NEEDED" in line]
    assert needed
    for name in ("cuda", "cufile", "cudart", "nvidia"):
        assert not [line for line in needed if name in line]


@pytest.mark.skipif(HAS_GPU, reason="a GPU is here")
def test_each_part_says_why_it_is_not_there(place):
    facts = {each["name"]: each for each in json.loads(_engine.features())}
    assert not facts["cuda"]["available"]
    assert "libcuda.so.1" in facts["cuda"]["reason"]
    assert "CUDA is not available" in facts["gds"]["reason"]
    host = json.loads(_engine.host(None))
    assert "libnvidia-ml.so.1" in host["gpu_facts_missing"], "one line says why nobody tells"
    for transfer in ("gpudirect", "compat", "bounce"):
        done = savemark("run", place, "--storage", "gds", "--transfer", transfer, "--copy")
        assert done.returncode == 5, done.stderr
        assert "CUDA is not available" in done.stderr
        assert "--transfer cpu" in done.stderr
    assert not any(place.iterdir())


def test_a_library_that_is_none_is_named(tmp_path):
    fake = tmp_path / "libcuda.so.1"
    fake.write_text("no library")
    done = savemark("doctor", "--json", SAVEMARK_LIBCUDA=str(fake))
    text = done.stdout + done.stderr
    assert "SAVEMARK_LIBCUDA names it" in text or HAS_GPU


def test_libraries_are_found_in_wheels(tmp_path, monkeypatch):
    folder = tmp_path / "nvidia" / "cufile" / "lib"
    folder.mkdir(parents=True)
    (folder / "libcufile.so.0").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("SAVEMARK_LIBCUFILE", raising=False)
    wheels.find()
    assert os.environ["SAVEMARK_LIBCUFILE"] == str(folder / "libcufile.so.0")
    monkeypatch.setenv("SAVEMARK_LIBCUFILE", "/my/own.so")
    wheels.find()
    assert os.environ["SAVEMARK_LIBCUFILE"] == "/my/own.so", "what is set stays"
    monkeypatch.delenv("SAVEMARK_LIBCUFILE")
    (folder / "libcufile.so.0").unlink()
    wheels.find()
    assert "SAVEMARK_LIBCUFILE" not in os.environ
