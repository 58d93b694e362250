"""`savemark.save` and `savemark.restore`: states in memory, with the real engine."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import savemark
from savemark.checkpoint import filling, index, nodes

DTYPES = ["?", "i1", "<u2", ">i4", "<i8", "<f2", "<f4", ">f8", "<c16", "S5", "<U3", "<M8[ns]", "V3"]


@pytest.fixture
def there_and_back(tmp_path, options):
    def there_and_back(state, into=None, **more):
        report = savemark.save(state, tmp_path / "ck", **options, **more)
        assert report["durable"] or options
        return savemark.restore(tmp_path / "ck", into, **options)

    return there_and_back


def filled(dtype, shape):
    made = np.empty(shape, dtype)
    raw = (
        os.urandom(made.nbytes) if np.dtype(dtype).kind not in "?U" else b"\x01\0\0\0" * made.nbytes
    )
    made.reshape(-1).view(np.uint8)[:] = np.frombuffer(raw[: made.nbytes], np.uint8)
    return made


@pytest.mark.parametrize("codec", ["none", "zstd", "tar"])
def test_every_dtype_and_shape_comes_back(there_and_back, codec):
    state = {
        f"{dtype} {shape}": filled(dtype, shape)
        for dtype in DTYPES
        for shape in [(), (0,), (3, 0, 2), (7,), (5, 3)]
    }
    back = there_and_back(state, codec=codec)
    assert list(back) == list(state)
    for name, array in state.items():
        assert back[name].dtype == array.dtype, name
        assert back[name].shape == array.shape, name
        assert back[name].tobytes() == array.tobytes(), name


def test_trees_and_small_values_come_back(there_and_back):
    state = {
        "step": 10**30,
        7: [None, True, 1.5, float("inf"), -0.0, "é\u2028", (1, ()), {}],
        "raw": [b"", b"abc", bytearray(b"xyz")],
        "scalar": np.float32(2.5),
    }
    back = there_and_back(state)
    assert repr(back) == repr(state)
    assert type(back["scalar"]) is np.float32


@pytest.mark.parametrize("state", [b"bytes" * 1000, bytearray(b"x"), np.arange(9), [], None])
def test_a_state_need_not_be_a_dict(there_and_back, state):
    back = there_and_back(state)
    assert type(back) is type(state)
    assert np.array_equal(back, state) if isinstance(state, np.ndarray) else back == state


def test_memoryviews_are_bytes(there_and_back):
    assert (
        there_and_back(memoryview(np.arange(3, dtype="i4"))) == np.arange(3, dtype="i4").tobytes()
    )


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_large_arrays_at_any_address(there_and_back, codec):
    memory = np.frombuffer(bytearray(os.urandom(24 << 20)), np.uint8)
    state = {
        f"{start}": memory[start : start + length]
        for start, length in [(0, 5 << 20), (6 << 20 | 64, 3 << 20), (10 << 20 | 7, 9_999_999)]
    }
    back = there_and_back(state, codec=codec)
    assert all(np.array_equal(back[name], array) for name, array in state.items())


def test_arrays_are_laid_where_no_copy_is_needed():
    memory = np.zeros(8 << 20, np.uint8)
    state = {"small": np.zeros(10), "large": memory[64 : 4 << 20], "odd": memory[5 << 20 | 3 :]}
    _, layout = index.write(state)
    for (start, flat), name in zip(layout.lent, state, strict=True):
        lent, own = (np.asarray(x).__array_interface__["data"][0] for x in (flat, state[name]))
        assert lent == own, "the array's own memory"
        assert name == "small" or (own - start) % 4096 == 0


def at(start, length, fill=None):
    """An array of bytes that starts `start` bytes after a page."""
    room = np.zeros(length + 2 * 4096, np.uint8)
    first = (start - room.__array_interface__["data"][0]) % 4096
    made = room[first : first + length]
    if fill is not None:
        made[:] = np.random.default_rng(fill).integers(0, 256, length, np.uint8)
    return made


# Around the page, the chunk, and the length from which an array lies alone.
EDGES = [0, 1, 4095, 4096, 4097, 65535, 65536, 65600, (1 << 20) - 1, 1 << 20, (1 << 20) + 4097]


@pytest.mark.parametrize("more", [{}, {"in_place": True}])
@pytest.mark.parametrize("seed", range(6))
def test_any_layout_of_arrays_comes_back(tmp_path, options, seed, more):
    rng = np.random.default_rng(seed)
    shifts, lengths = rng.choice([0, 16, 64, 512, 4032], 14), rng.choice(EDGES, 14)
    lengths[rng.integers(14, size=3)] = rng.integers(0, 3 << 20, 3)
    state = {
        f"{i}": at(shift, length, i)
        for i, (shift, length) in enumerate(zip(shifts, lengths, strict=True))
    }
    savemark.save(state, tmp_path / "ck", **options, chunk_size=int(rng.choice([1, 16])) << 16)
    # Where the same program puts them, where another one does, and new ones.
    for move in (0, 448, 1):
        into = {name: at(shifts[int(name)] + move, a.nbytes) for name, a in state.items()}
        savemark.restore(tmp_path / "ck", into, **options, **more)
        assert all(np.array_equal(into[name], array) for name, array in state.items()), move
    back = savemark.restore(tmp_path / "ck", **options, **more)
    assert all(np.array_equal(back[name], array) for name, array in state.items())


@pytest.mark.parametrize("more", [{}, {"in_place": True}])
def test_a_damaged_byte_of_an_array_is_refused_by_shard_and_offset(tmp_path, options, more):
    state = {"a": at(64, 3 << 20, 1), "b": at(64, 2 << 20, 2), "c": np.arange(7)}
    savemark.save(state, tmp_path / "ck", **options, streams=1)
    chunks = json.loads((tmp_path / "ck" / "manifest.json").read_text())["chunks"]
    (shard,) = (tmp_path / "ck").glob("shard-*")
    whole = shard.read_bytes()
    for chunk in chunks[1:]:  # the first holds the index
        place, length = chunk[3], chunk[4]
        damaged = bytearray(whole)
        damaged[place + length // 2] ^= 1
        shard.write_bytes(damaged)
        into = {"a": at(64, 3 << 20), "b": at(64, 2 << 20), "c": np.zeros(7, int)}
        with pytest.raises(savemark.SavemarkError) as raised:
            savemark.restore(tmp_path / "ck", into, **options, **more)
        assert raised.value.kind == "corrupt"
        assert f"{shard.name} is damaged at offset {place}:" in raised.value.message
    shard.write_bytes(whole)
    savemark.restore(tmp_path / "ck", into, **options, **more)
    assert all(np.array_equal(into[name], array) for name, array in state.items())


def test_arrays_with_gaps_are_copied(there_and_back):
    base = np.arange(60).reshape(3, 4, 5)
    state = {"t": base.T, "step": base[:, ::2], "back": base[::-1]}
    back = there_and_back(state)
    assert all(np.array_equal(back[name], array) for name, array in state.items())


def test_arrays_that_share_memory_are_stored_once_and_share_it_again(tmp_path, options):
    weights = np.random.default_rng(1).random(1 << 18)
    report = savemark.save({"a": weights, "b": [weights]}, tmp_path / "ck", **options)
    assert report["user_bytes"] < 1.1 * weights.nbytes
    back = savemark.restore(tmp_path / "ck", **options)
    assert back["a"] is back["b"][0]
    into = {"a": np.zeros_like(weights), "b": [np.zeros_like(weights)]}
    savemark.restore(tmp_path / "ck", into, **options)
    assert np.array_equal(into["a"], weights)
    assert np.array_equal(into["b"][0], weights)


@pytest.mark.parametrize("more", [{}, {"in_place": True}])
def test_restore_into_the_callers_own_arrays(tmp_path, options, more):
    state = {"w": np.random.default_rng(1).random(500_000), "t": np.arange(12).reshape(3, 4).T}
    state |= {"step": 5, "raw": b"12345"}
    savemark.save(state, tmp_path / "ck", **options)
    w, t = np.zeros(500_000), np.zeros((4, 3), int, order="F")
    into = {"w": w, "t": t, "step": 0, "raw": bytearray(5)}
    raw = into["raw"]
    assert savemark.restore(tmp_path / "ck", into, **options, **more) is into
    assert into["w"] is w
    assert np.array_equal(w, state["w"])
    assert np.array_equal(t, state["t"])
    assert (into["step"], raw) == (5, b"12345")


@pytest.mark.parametrize(
    ("into", "word"),
    [
        ({"w": np.zeros(4)}, "(4,)"),
        ({"w": np.zeros(3, "f4")}, "<f4"),
        ({"v": np.zeros(3)}, "state['w'] is missing in `into`; state['v'] is not in"),
        ({"w": [1]}, "not a numpy array"),
        ([], "differ"),
    ],
)
def test_another_state_is_not_filled(tmp_path, options, into, word):
    savemark.save({"w": np.ones(3)}, tmp_path / "ck", **options)
    with pytest.raises(savemark.SavemarkError) as raised:
        savemark.restore(tmp_path / "ck", into, **options)
    assert raised.value.kind == "usage"
    assert word in raised.value.message


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ({"f": open}, "state['f'] is a builtin_function_or_method"),
        ({"a": np.array([{}])}, "object"),
        ({(1, 2): 3}, "(1, 2)"),
        ({"a": np.zeros(2, [("x", "i4")])}, "fields"),
    ],
)
def test_what_cannot_be_saved_is_named(tmp_path, options, state, word):
    with pytest.raises(savemark.SavemarkError) as raised:
        savemark.save(state, tmp_path / "ck", **options)
    assert word in f"{raised.value.message} {raised.value.hint}"
    assert not (tmp_path / "ck").exists()


def test_options_are_the_engines(tmp_path, options):
    with pytest.raises(savemark.SavemarkError) as raised:
        savemark.save(b"x", tmp_path / "ck", strems=4, **options)
    assert "`streams`" in raised.value.hint
    assert not (tmp_path / "ck").exists()


def test_keep_and_damage(tmp_path, options):
    for number in range(3):
        report = savemark.save({"n": number, "a": np.arange(9)}, tmp_path / "p", keep=2, **options)
    assert len(list((tmp_path / "p").iterdir())) == 2
    assert len(report["removed"]) == 1
    assert savemark.restore(tmp_path / "p", **options)["n"] == 2
    for shard in (tmp_path / "p").rglob("shard-*"):
        data = bytearray(shard.read_bytes())
        data[:4096] = bytes(len(data[:4096]))
        shard.write_bytes(data)
    with pytest.raises(savemark.SavemarkError) as raised:
        savemark.restore(tmp_path / "p", **options)
    assert raised.value.kind == "corrupt"


def test_an_index_from_elsewhere_is_checked_before_memory_is_made():
    def tree(**node):
        text = json.dumps({"format": "savemark-state", "version": 1, "tree": node}).encode()
        return lambda: filling.Filling(nodes.read(text, 100), None)

    good = {"library": "numpy", "dtype": "<i4", "shape": [2], "offset": 0, "bytes": 8}
    tree(kind="array", **good)()
    for wrong in (
        {"offset": 96},
        {"offset": -8},
        {"shape": [1 << 40]},
        {"shape": [-2]},
        {"dtype": "O"},
        {"dtype": "nonsense"},
        {"library": "os"},
        {"bytes": 9},
        {"shape": "x"},
    ):
        with pytest.raises(savemark.SavemarkError) as raised:
            tree(kind="array", **(good | wrong))()
        assert raised.value.kind == "corrupt", wrong
    for node in ({"kind": "pickle"}, {}, {"kind": "bytes", "offset": 0, "bytes": 101}):
        with pytest.raises(savemark.SavemarkError):
            tree(**node)()


def test_nothing_heavy_is_imported(tmp_path, options):
    script = (
        "import sys, savemark\n"
        f"savemark.save({{'a': b'x' * 9999}}, {str(tmp_path / 'ck')!r}, **{options!r})\n"
        f"back = savemark.restore({str(tmp_path / 'ck')!r}, **{options!r})\n"
        "assert back == {'a': b'x' * 9999}\n"
        "print([n for n in ('numpy', 'torch', 'click', 'rich', 'polars') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_progress_is_told_and_its_error_stops_the_save(tmp_path, options):
    class StopError(Exception):
        pass

    def stop(now):
        assert now["phase"] == "save"
        raise StopError

    state = np.frombuffer(os.urandom(1 << 20) * 200, np.uint8)
    with pytest.raises(StopError):
        savemark.save(state, tmp_path / "ck", progress=stop, codec="gzip", level=9, **options)
    assert not (tmp_path / "ck").exists()


def test_torch_tensors_come_back(there_and_back):
    torch = pytest.importorskip("torch")
    state = {
        "model": {"w": torch.randn(700, 900).bfloat16(), "b": torch.zeros(0)},
        "optimizer": {"state": {0: {"step": torch.tensor(3.0), "m": torch.randn(1 << 20)}}},
        "t": torch.arange(12).reshape(3, 4).T,
        "parameter": torch.nn.Parameter(torch.ones(5)),
    }
    back = there_and_back(state)
    into = there_and_back(state, {**state, "t": torch.zeros(4, 3, dtype=torch.int64)})
    for made in (back, into):
        assert made["model"]["w"].dtype == torch.bfloat16
        assert torch.equal(made["model"]["w"], state["model"]["w"])
        assert torch.equal(made["optimizer"]["state"][0]["m"], state["optimizer"]["state"][0]["m"])
        assert torch.equal(made["t"], state["t"])
        assert torch.equal(made["parameter"], state["parameter"])
