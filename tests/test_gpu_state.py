"""`savemark.save` and `savemark.restore` of arrays on GPUs, from Python to the stand-in driver."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import standin
from needs import missing

HAS_GPU = Path("/proc/driver/nvidia/version").exists()

GRID = "--size 1MiB --transfer bounce,gpudirect --gpus 0 --workers 1 --transfer-size 64KiB"

HEAD = """
import os, sys, numpy as np, savemark
from savemark.errors import SavemarkError
from standin import Array, driver
rng = np.random.default_rng(1)
def made(dtype, shape):
    raw = rng.integers(0, 256, int(np.prod(shape)) * np.dtype(dtype).itemsize, np.uint8)
    return raw.view(dtype).reshape(shape)
def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
def error(act):
    try:
        act()
    except SavemarkError as found:
        return f"{found.kind}: {found.message} | {found.hint}"
    raise AssertionError("nothing was refused")
url, options = os.environ["CHECKPOINT"], {"storage": "posix", "direct": False}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    made = standin.make(tmp_path_factory.mktemp("standin"))
    if made is None:
        missing("cc", "no C compiler, or no source of the stand-in")
    return made


@pytest.fixture
def run(library, place):
    def run(code, **environment):
        return standin.python(library, HEAD + code, CHECKPOINT=str(place / "ck"), **environment)

    return run


def test_arrays_on_gpus_and_on_the_host_come_back_into_their_places(run):
    out = run("""
big, odd, host = made("<f4", (700, 1000)), made("<i2", (3, 7)), made("<f8", (200_000,))
state = {
    "weights": Array(big, 0), "layers": [Array(odd, 1), (Array(made("|b1", ()), 1),)],
    "empty": Array(np.empty((0, 4), "<f2"), 0), "host": host, "step": 7,
}
state["again"] = state["weights"]
small = {"codec": "zstd", "chunk_size": 65536, "staging": 65536}
for more in [{}, small, {"codec": "tar", "streams": 0}]:
    report = savemark.save(state, url, **options, **more)
    assert 0 < report["stall_ns"] <= report["elapsed_ns"]
    assert any("state on GPU 1: Fake 101" in note for note in report["path"]["notes"])
    into = {
        "weights": Array(np.zeros_like(big), 1),
        "layers": [Array(np.zeros_like(odd), 0), (Array(np.zeros((), "|b1"), 0),)],
        "empty": Array(np.empty((0, 4), "<f2"), 0), "host": np.zeros_like(host), "step": 0,
    }
    into["again"] = into["weights"]
    back = savemark.restore(url, into, **options)
    assert back is into and same(into["weights"].get(), big)
    assert same(into["layers"][0].get(), odd)
    assert same(into["host"], host) and into["step"] == 7
    plain = savemark.restore(url, **options)
    assert type(plain["weights"]) is np.ndarray and same(plain["weights"], big)
    assert same(plain["layers"][1][0], state["layers"][1][0].get())
    assert plain["empty"].shape == (0, 4)
print("torch" in sys.modules)
""")
    assert out.strip() == "False", "nothing was imported"


def test_the_application_goes_on_when_all_is_copied(run):
    run("""
array, calls = Array(made("<f4", (1 << 20,))), []
def released():
    calls.append(array.get()[0])
    array.set(np.zeros(1 << 20, "<f4"))  # what is saved does not change any more
before = array.get()
savemark.save({"a": array}, url, released=released, **options)
assert len(calls) == 1
assert same(savemark.restore(url, **options)["a"], before)
# Of a state on the host it is called at the end; where the save fails before, never.
savemark.save({"a": np.arange(3)}, url, released=lambda: calls.append(1), **options)
assert len(calls) == 2, calls
error(lambda: savemark.save({"a": object()}, url, released=lambda: calls.append(2)))
error(lambda: savemark.save({"a": b"1"}, f"{url}/manifest.json", released=lambda: calls.append(2)))
driver().standin_fail(0, -1)
error(lambda: savemark.save({"a": array}, url, released=lambda: calls.append(2), **options))
driver().standin_fail(-1, -1)
assert len(calls) == 2, calls
def broken():
    raise KeyError("mine")
try:
    savemark.save({"a": array}, url, released=broken, **options)
except KeyError:
    pass
else:
    raise AssertionError("its error is the caller's")
""")


def test_tensors_of_torch_on_cuda(run):
    run("""
from fake_torch import Tensor, module as torch
big, weights = made("<f4", (300, 1000)), made("<u2", (50, 40))
state = {
    "model": Tensor(big, "cuda:1"),
    "half": Tensor(weights, "cuda:0", torch.bfloat16),
    "turned": Tensor(big, "cuda:0", turned=True),
    "host": Tensor(np.arange(9, dtype="<f4")),
    "none": Tensor(np.empty((0, 3), "<f4"), "cuda:0"),
}
report = savemark.save(state, url, **options)
assert len([note for note in report["path"]["notes"] if "state on GPU" in note]) == 2
into = {
    "model": Tensor(np.zeros_like(big), "cuda:0"),
    "half": Tensor(np.zeros_like(weights), "cuda:1", torch.bfloat16),
    "turned": Tensor(np.zeros_like(big), "cuda:1", turned=True),
    "host": Tensor(np.zeros(9, "<f4")),
    "none": Tensor(np.empty((0, 3), "<f4"), "cuda:1"),
}
savemark.restore(url, into, **options)
for name, tensor in state.items():
    assert same(into[name].values(), tensor.values()), name
plain = savemark.restore(url, **options)
assert {str(tensor.device) for tensor in plain.values()} == {"cpu"}
assert same(plain["turned"].values(), big.T)
assert repr(plain["half"].dtype) == "torch.bfloat16"
# Tensors that shared their memory when they were saved are all filled, where they no longer do.
both = Tensor(big, "cuda:0")
savemark.save({"a": both, "b": both}, url, **options)
into = {"a": Tensor(np.zeros_like(big), "cuda:0"), "b": Tensor(np.zeros_like(big), "cuda:1")}
savemark.restore(url, into, **options)
assert same(into["b"].values(), big)
meta = Tensor(big)
meta.device = type(meta.device)("meta")
found = error(lambda: savemark.save({"x": meta}, url, **options))
assert "state['x'] is a tensor on meta: it has no data | give the model memory first" in found
""")


def test_what_cannot_be_saved_or_restored_is_named(run):
    run("""
good = Array(made("<f4", (4, 6)))
turned = Array(made("<f4", (4, 6)), strides=(4, 16))
found = error(lambda: savemark.save({"x": [turned]}, url, **options))
assert found.startswith("usage: state['x'][0] is not contiguous in the GPU's memory | save"), found
class Freed(Array):
    @property
    def __cuda_array_interface__(self):
        return {**super().__cuda_array_interface__, "data": (12345, False)}
found = error(lambda: savemark.save({"x": Freed(np.zeros(4))}, url, **options))
assert "state['x'] says that it is on a GPU, and the driver does not know" in found, found
class Fields(Array):
    @property
    def __cuda_array_interface__(self):
        return {**super().__cuda_array_interface__, "typestr": "|V8"}
found = error(lambda: savemark.save({"x": Fields(np.zeros(4))}, url, **options))
assert "state['x'] has the type |V8, which is not plain data" in found, found
savemark.save({"x": good}, url, **options)
for into, words in [
    (Array(np.zeros((4, 6), "<f4"), readonly=True), "state['x'] is read-only"),
    (Array(np.zeros((4, 6), "<f8")), "state['x'] is <f8 (4, 6); the checkpoint has <f4 (4, 6)"),
    (Array(np.zeros((4, 6), "<f4"), strides=(4, 16)), "state['x'] is not contiguous"),
]:
    found = error(lambda: savemark.restore(url, {"x": into}, **options))
    assert words in found, found
driver().standin_fail(0, -1)
found = error(lambda: savemark.save({"x": good}, url, **options))
assert "CUDA cannot copy from the GPU" in found, found
driver().standin_fail(-1, -1)
into = {"x": Array(np.zeros((4, 6), "<f4"), 1)}
assert same(savemark.restore(url, into, **options)["x"].get(), good.get())
""")


def test_a_study_of_states_on_gpus(library, place):
    words = ["run", "checkpoint-restore", place, "--state", "gpu:0+1", "--size", "2MiB"]
    words += [
        "--codec",
        "none,zstd",
        "--streams",
        "2",
        "--repeats",
        "2",
        "--storage",
        "posix",
        "--no-direct",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "savemark", *map(str, words), "--json"],
        capture_output=True, text=True, timeout=300, check=False,
        env=standin.environment(library), cwd=place.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (records,) = place.parent.glob("savemark-runs/*/records.jsonl")
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    trials = [line["record"] for line in lines if line["role"] == "trial"]
    assert len(trials) == 4
    for record in trials:
        save, restore = record["phases"][-2:]
        assert 0 < save["stall_ns"] <= save["elapsed_ns"]
        assert "every byte in the GPUs' memory" in restore["verified"]
        assert any("state on GPU 1" in note for note in record["path"]["notes"])
    assert "How long the application stands still" in (records.parent / "report.html").read_text()
    assert "stall s" in (records.parent / "report.md").read_text()


@pytest.mark.skipif(HAS_GPU, reason="a GPU is here")
def test_without_a_driver_each_part_refuses_with_its_reason(place):
    code = """
import savemark, sys
class Array:
    __cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (4096, False)}
savemark.save({"x": Array()}, sys.argv[1])
"""
    for words in (
        ["-c", code, place / "ck"],
        [
            "-m",
            "savemark",
            "run",
            "quick",
            place,
            "--state",
            "gpu",
            "--size",
            "16MiB",
            "--repeats",
            "1",
        ],
        ["-m", "savemark", "run", "gpu-read-grid", place, *GRID.split()],
    ):
        done = subprocess.run(
            [sys.executable, *map(str, words)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            cwd=place.parent,
        )
        assert done.returncode != 0
        assert "CUDA is not available: libcuda.so.1" in done.stderr, done.stderr
    assert not any(place.iterdir())
