"""Sizes: one rule, written twice (in the engine and for what never reaches it), and held alike."""

import pytest

from savemark import _engine
from savemark.records.naming import shown
from savemark.units import BYTES, RATES, size_text


@pytest.mark.parametrize("unit", BYTES)
def test_python_reads_a_unit_as_the_engine_does(unit):
    assert _engine.parse_size(f"3{unit}") == 3 * BYTES[unit]


@pytest.mark.parametrize("unit", ["mb", "Mb", "kb", "KBB", "E", "x"])
def test_neither_reads_anything_else(unit):
    assert unit not in BYTES
    with pytest.raises(_engine.EngineError, match="unknown unit"):
        _engine.parse_size(f"3{unit}")


@pytest.mark.parametrize(
    ("text", "size"),
    [("64MB", 64_000_000), ("5.68TB", 5_680_000_000_000), ("64M", 64 << 20), ("1.001kB", 1001)],
)
def test_si_units_are_powers_of_a_thousand(text, size):
    assert _engine.parse_size(text) == size


@pytest.mark.parametrize(
    "size", [0, 1, 999, 1000, 1001, 4096, 64_000_000, 1_024_000, 3 << 30, 5 * 10**12, 2**63 - 1]
)
def test_python_writes_a_size_as_the_engine_does(size):
    assert size_text(size) == _engine.format_size(size)
    assert _engine.parse_size(size_text(size)) == size


def test_a_level_and_a_rate_go_by_the_same_units():
    assert shown("size", 64_000_000) == "64MB"
    assert shown("transfer_size", 65536) == "64KiB"
    assert RATES["MB/s"] == 1e6
    assert "k/s" not in RATES


@pytest.mark.parametrize(
    ("typed", "mean"), [("64MB", 64_000_000), ("64M", 64 << 20), ("1GB", 10**9)]
)
def test_a_run_takes_what_was_typed(run, tmp_path, typed, mean):
    import json

    place = tmp_path / "place"
    place.mkdir()
    words = ("--storage", "posix", "--size", typed, "--dry-run", "--json")
    code, out, err = run("run", place, *words)
    assert code == 0, err
    assert json.loads(out)["size_bytes"] == mean
