"""The legacy tables come out as published, to the last character."""

import csv
import re
from pathlib import Path

import pytest

from savemark.studies.checkpoint_restore.legacy import legacy, text

SHARED = Path(__file__).resolve().parents[2] / "shared"
DATA = SHARED / "data" / "streamer-bench"
PUBLISHED = SHARED / "published" / "checkpoint-restore.md"
FILES = ("5_runs_s3_gpu.csv", "5_runs_cedana_gpu.csv", "5_runs_gpu_local_storage_stress.csv")
STREAMS = (
    [(22.366, 23.518), (14.042, 14.804), (10.894, 11.496), (9.860, 10.264)],
    [(18.264, 19.346), (15.772, 17.568), (15.728, 17.590), (16.486, 18.104)],
    [(11.576, 12.118), (9.764, 10.190), (9.066, 9.408), (8.642, 8.962)],
)
needs_data = pytest.mark.skipif(not DATA.exists(), reason=f"{DATA} is not here")


def read(name):
    with (DATA / name).open() as file:
        for row in csv.DictReader(file):
            yield (
                row["compression"],
                int(row["streams"]),
                float(row["checkpoint_time"]),
                float(row["restore_time"]),
            )


@needs_data
@pytest.mark.parametrize(("place", "name"), list(enumerate(FILES)))
def test_text_equals_the_published_block(place, name):
    blocks = re.findall(r"```\n(\n?Total tests.*?)```", PUBLISHED.read_text(), re.DOTALL)
    assert text(legacy(read(name))).strip() == blocks[place].strip()


@needs_data
@pytest.mark.parametrize(("name", "expected"), list(zip(FILES, STREAMS, strict=True)))
def test_stream_table_to_three_decimals(name, expected):
    lines = legacy(read(name)).streams()
    assert [line[0] for line in lines] == [0, 2, 4, 8]
    assert [(round(line[1], 3), round(line[2], 3)) for line in lines] == expected


def test_definitions_on_a_small_example():
    rows = [("a", 0, 1.0, 1.0), ("a", 0, 2.0, 2.0), ("b", 0, 3.0, 3.0), ("b", 0, 3.0, 3.0)]
    rows += [("a", 2, 0.5, 0.5), ("b", 2, 1.0, 1.0)]
    data = legacy(rows)
    assert data.runs == 6
    assert data.streams() == [(0, 4.0, 4.5, 12.5), (2, 1.5, 1.5, 0.0)]
    assert data.speedups() == [(2, 62.5, pytest.approx(66.6667, abs=1e-4))]
    assert data.ranking() == [("a", 1.5, 2.0), ("b", 4.0, 4.0)]
    assert data.best("total", min) == ("a", 2, 1.0)


def test_without_a_base_there_is_no_speedup():
    data = legacy([("a", 2, 1.0, 1.0), ("a", 4, 1.0, 1.0)])
    assert data.speedups() == []
    assert "Speedup" not in text(data)
