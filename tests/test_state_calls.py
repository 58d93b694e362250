"""What every call of the Python API may raise, and who may call it."""

import inspect
import os
import re
import subprocess
import sys
import threading
import typing
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import savemark


@pytest.fixture
def refusal(options):
    def refusal(act, *arguments, **more):
        with pytest.raises(savemark.SavemarkError) as raised:
            act(*arguments, **{**options, **more})
        assert raised.value.hint
        assert raised.value.hint in str(raised.value)
        return raised.value

    return refusal


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"keep": "2"}, "keep: '2' is no number"),
        ({"keep": 0}, "keep: 0 is no number"),
        ({"keep": np.int64(3)}, "keep: "),
        ({"chunk_size": Path("4k")}, "chunk_size: "),
        ({"streams": np.int64(3)}, "streams: "),
        ({"timeout": b"5"}, "timeout: "),
        ({"ranks": "all"}, "ranks: 'all' is not known"),
        ({"url": None}, "url: None is neither text nor a path"),
        ({"url": b"ck"}, "url: b'ck' is neither text nor a path"),
        ({"url": ""}, "empty"),
        ({"url": "ck\0"}, "is not UTF-8 text"),
        ({"url": "ck\udcff"}, "is not UTF-8 text"),
    ],
)
def test_a_wrong_argument_is_an_error_of_ours(refusal, tmp_path, monkeypatch, change, word):
    monkeypatch.chdir(tmp_path)
    url = change.pop("url", "ck")
    error = refusal(savemark.save, {"a": 1}, url, **change)
    assert error.kind == "usage"
    assert word in error.message
    if "keep" not in change and "chunk_size" not in change:
        change = {name: value for name, value in change.items() if name == "ranks"}
        if change or url != "ck":
            assert word in refusal(savemark.restore, url, **change).message
    assert not list(tmp_path.iterdir())


def test_hints_are_in_the_words_of_python(tmp_path, options):
    if not Path("/dev/shm").is_dir():
        pytest.skip("no /dev/shm")
    place = Path("/dev/shm") / f"savemark-test-{os.getpid()}"
    with pytest.raises(savemark.SavemarkError) as raised:
        savemark.save({"a": 1}, place)
    assert 'storage="posix"' in raised.value.hint
    assert "direct=False" in raised.value.hint
    assert "--" not in raised.value.hint
    assert not place.exists()


def test_help_shows_the_functions_and_their_arguments():
    import pydoc

    from savemark.checkpoint.options import RestoreOptions, SaveOptions, names
    from savemark.study.keys import Keys

    shown = pydoc.plain(pydoc.render_doc(savemark))
    assert re.search(r"^    save\(", shown, re.MULTILINE)
    assert re.search(r"^    restore\(", shown, re.MULTILINE)
    for function, options in ((savemark.save, SaveOptions), (savemark.restore, RestoreOptions)):
        known = inspect.signature(function).parameters
        assert set(names(options, of_files=False)) == set(options.__annotations__)
        assert set(options.__annotations__) <= set(known)
        assert "options" not in known
    keys = Keys.load()
    accepted = keys.accepted("checkpoint", None)
    assert set(SaveOptions.__annotations__) | set(RestoreOptions.__annotations__) <= accepted
    kinds = {"integer": "int", "boolean": "bool", "string": "str"}
    kinds |= {"size": "int | str", "span": "float | str"}
    for options in (SaveOptions, RestoreOptions):
        for name, kind in typing.get_type_hints(options).items():
            assert getattr(kind, "__name__", str(kind)) == kinds[keys.key(name).kind] or (
                str(kind) == kinds[keys.key(name).kind]
            ), name


def test_a_hint_is_a_call_that_can_be_typed():
    from savemark.api import in_python

    hint = in_python("use --storage posix --no-direct to measure memory, or choose a directory")
    assert hint == 'use storage="posix", direct=False to measure memory, or choose a directory'
    assert in_python("leave --storage out") == "leave storage out"
    assert in_python("use --codec zstd") == 'use codec="zstd"'
    assert in_python("add --keep N, or name ck/checkpoint") == "add keep=N, or name ck/checkpoint"


def test_an_uncaught_error_shows_its_hint(tmp_path):
    code = "import savemark; savemark.save({'a': open}, 'ck')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    last = done.stderr.strip().splitlines()[-2:]
    assert "state['a'] is a builtin_function_or_method" in last[0]
    assert last[1].startswith("hint: a state holds")


def test_what_a_callback_raises_is_raised_as_it_is(tmp_path, options):
    mine = OSError("mine")

    def act(*_):
        raise mine

    with pytest.raises(OSError, match="mine") as raised:
        savemark.save({"a": 1}, tmp_path / "ck", released=act, **options)
    assert raised.value is mine


def test_released_is_not_called_where_the_save_failed(tmp_path, options):
    free, calls = threading.Event(), []

    def released():
        calls.append(1)
        free.set()

    def save(state, place):
        with ThreadPoolExecutor(1) as pool:
            saving = pool.submit(savemark.save, state, place, released=released, **options)
            saving.add_done_callback(lambda _: free.set())
            assert free.wait(60)
            return saving.result()

    (tmp_path / "file").touch()
    for state, place in [({"a": open}, "ck"), ({"a": 1}, "file"), ({"a": 1}, "file/below")]:
        with pytest.raises(savemark.SavemarkError):
            save(state, tmp_path / place)
    assert calls == []
    assert save({"a": 1}, tmp_path / "ck")["durable"] in (True, False)
    assert calls == [1]


LAUNCHED = [
    {"RANK": "1", "WORLD_SIZE": "2"},
    {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"},
    {"PMI_RANK": "1", "PMI_SIZE": "2"},
    {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NTASKS": "2"},
]


class TestRanks:
    @pytest.mark.parametrize("variables", LAUNCHED, ids=lambda found: next(iter(found)))
    def test_one_of_several_says_that_it_stands_alone(
        self, refusal, tmp_path, options, monkeypatch, variables
    ):
        savemark.save({"step": 1}, tmp_path / "before", **options)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        for error in (
            refusal(savemark.save, {"step": 1}, tmp_path / "ck"),
            refusal(savemark.restore, tmp_path / "before"),
        ):
            assert error.kind == "refused"
            assert "rank 1 of 2" in error.message
            assert 'ranks="independent"' in error.hint
        assert not (tmp_path / "ck").exists()
        alone = {"ranks": "independent", **options}
        savemark.save({"step": 2}, tmp_path / "ck", **alone)
        assert savemark.restore(tmp_path / "ck", **alone) == {"step": 2}

    def test_a_batch_script_and_a_launcher_of_one_are_no_ranks(
        self, tmp_path, options, monkeypatch
    ):
        for name, value in {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "WORLD_SIZE": "1"}.items():
            monkeypatch.setenv(name, value)
        savemark.save({"step": 2}, tmp_path / "ck", **options)
        assert savemark.restore(tmp_path / "ck", **options) == {"step": 2}

    @pytest.mark.parametrize("keep", [None, 3])
    def test_a_rank_does_not_replace_what_another_one_saved(
        self, refusal, tmp_path, options, monkeypatch, keep
    ):
        alone = {"ranks": "independent", "keep": keep, **options}

        def be(rank, world):
            monkeypatch.setenv("RANK", str(rank))
            monkeypatch.setenv("WORLD_SIZE", str(world))

        be(0, 2)
        savemark.save({"rank": 0}, tmp_path / "ck", **alone)
        savemark.save({"rank": 0}, tmp_path / "ck", **alone)
        be(1, 2)
        error = refusal(savemark.save, {"rank": 1}, tmp_path / "ck", **alone)
        assert error.kind == "refused"
        assert "is of rank 0 of 2, and this is rank 1" in error.message
        assert savemark.restore(tmp_path / "ck", ranks="independent", **options) == {"rank": 0}
        be(1, 4)  # another world: its ranks are not those
        savemark.save({"rank": 1}, tmp_path / "ck", **alone)

    def test_the_command_line_asks_the_same(self, to_its_end, tmp_path, monkeypatch):
        (tmp_path / "model").write_text("weights")
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("WORLD_SIZE", "2")
        io = ["--storage", "posix", "--no-direct"]
        for words in (["save", "model", "ck"], ["restore", "ck", "out"]):
            done = to_its_end(*words, *io)
            assert done.returncode == 5, done.stderr
            assert "rank 1 of 2" in done.stderr
            assert "--ranks independent" in done.stderr
            done = to_its_end(*words, "--ranks", "independent", *io)
            assert done.returncode == 0, done.stderr


def test_a_world_of_torch_is_seen(tmp_path):
    pytest.importorskip("torch")
    code = """
import sys, torch.distributed as dist, savemark
rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}/meet", rank=rank, world_size=2)
try:
    savemark.save({"a": 1}, f"{sys.argv[2]}/ck")
except savemark.SavemarkError as error:
    print(error.message)
dist.destroy_process_group()
"""
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(rank), str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    for rank, process in enumerate(ranks):
        assert f"this is rank {rank} of 2" in process.communicate(timeout=120)[0]
