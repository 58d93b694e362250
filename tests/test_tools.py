"""Reading other programs' files: the samples of tests/data, number by number."""

import json
from pathlib import Path

import msgspec
import pytest

from savemark.errors import SavemarkError
from savemark.importing.read import read
from savemark.tools import NAMES, tool
from savemark.tools.source import Source

DATA = Path(__file__).parent / "data"
SAMPLES = sorted(path for path in DATA.glob("*/*") if path.is_file())
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def entries_of(reading):
    """The entries of a file as they are written into a run; what is not there is None."""
    written = msgspec.json.encode(reading.trials)
    return json.loads(written, object_pairs_hook=Known)


class Known(dict):
    """What is not known is None."""

    def __missing__(self, name):
        return None


def entries(name):
    return entries_of(read(Source.of(DATA / name)))


def phases(name, number=0):
    """The phases of one entry of a sample, by name."""
    return {phase["name"]: phase for phase in entries(name)[number]["record"]["phases"]}


def about(name, number=0):
    return entries(name)[number]["record"]["source"]


def text(name, content):
    return Source(Path(name), content if isinstance(content, bytes) else content.encode())


def refused(content, name="x.txt"):
    with pytest.raises(SavemarkError) as caught:
        read(text(name, content))
    assert caught.value.kind == "usage"
    assert name in caught.value.message
    return caught.value.message


def changed(name, old, new):
    """A sample in which one thing is another."""
    content = (DATA / name).read_text()
    assert old in content
    return content.replace(old, new)


@pytest.mark.parametrize("name", NAMES)
def test_every_tool_has_a_sample(name):
    assert list((DATA / name).iterdir())
    assert tool(name).WHAT


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_each_sample_is_its_own_tools_alone_and_says_what_made_it(path):
    source = Source.of(path)
    assert read(source).format == path.parent.name
    assert [name for name in NAMES if tool(name).recognises(source)] == [path.parent.name]
    lines = (DATA / "README.md").read_text()
    assert any(path.parent.name in line and path.name in line for line in lines.splitlines())


# fio


def test_fio_says_bytes_times_and_percentiles():
    phase = phases("fio/randread.json")["random_read"]
    assert (phase["user_bytes"], phase["elapsed_ns"], phase["operations"]) == (MIB, 27_000_000, 16)
    assert phase["latency"]["p50_ns"] == 3_981_312
    assert phase["latency"]["count"] == 16
    entry = entries("fio/randread.json")[0]
    wanted = {"workload": "random", "operation": "read", "transfer_size": 65536, "queue_depth": 4}
    assert entry["factors"].items() >= wanted.items()
    assert entry["record"]["source"]["tool_version"] == "3.33"


def test_clones_of_fio_add_up_and_their_bins_give_the_percentiles():
    found = phases("fio/two-jobs.json")
    assert found["random_read"]["operations"] + found["random_write"]["operations"] == 68
    write = found["random_write"]
    assert (write["transfer_bytes"], found["random_read"]["transfer_bytes"]) == (16384, 4096)
    assert write["contract"] == "each"
    assert write["sync_latency"]["count"] == 64
    assert write["first_done_ns"] < write["last_done_ns"] == write["elapsed_ns"]
    assert write["latency"]["min_ns"] <= write["latency"]["p50_ns"] <= write["latency"]["p99_ns"]
    assert write["reported_bytes_per_s"] is None, "the sum of two rates is the rate of neither"


def test_all_clients_of_fio_are_not_counted_twice():
    assert len(entries("fio/clients.json")) == 1
    phase = phases("fio/clients.json")["write"]
    assert (phase["user_bytes"], phase["worker_count"], phase["contract"]) == (MIB, 2, "end")


def test_a_job_of_fio_that_moved_nothing_has_failed():
    (entry,) = entries("fio/failed.json")
    assert "moved nothing" in entry["error"]["message"]


@pytest.mark.parametrize("unit", ["KiB", "bytes"])
def test_fio_2_writes_kib_or_bytes_into_one_field_and_microseconds(unit):
    amount = 361984 * (1 if unit == "KiB" else KIB)
    side = (
        f'"io_bytes": {amount}, "bw": 68118, "runtime": 5314, "iops": 133, '
        '"lat": {"min": 10, "max": 30, "mean": 20.0, "percentile": {"50.000000": 20, "0.00": 0}}'
    )
    jobs = f'{{"fio version": "fio-2.1.4", "jobs": [{{"jobname": "a", "write": {{{side}}}}}]}}'
    (entry,) = entries_of(read(text("a.json", jobs)))
    (phase,) = entry["record"]["phases"]
    assert phase["user_bytes"] == 361984 * KIB
    assert phase["latency"]["p50_ns"] == 20_000
    assert phase["operations"] is None
    assert phase["contract"] == "unknown"


@pytest.mark.parametrize(
    ("options", "contract"),
    [
        ('"sync": "1"', "each"),
        ('"fsync": "1"', "each"),
        ('"fdatasync": "32"', "group"),
        ('"fsync_on_close": ""', "end"),
        ('"direct": "1"', "none"),
    ],
)
def test_what_fio_promises(options, contract):
    side = '"io_bytes": 4096, "io_kbytes": 4, "runtime": 10, "total_ios": 1'
    job = f'{{"jobname": "a", "job options": {{"rw": "write", {options}}}, "write": {{{side}}}}}'
    found = read(text("a", f'{{"fio version": "fio-3.33", "jobs": [{job}]}}'))
    assert entries_of(found)[0]["record"]["phases"][0]["contract"] == contract


@pytest.mark.parametrize(
    ("size", "bytes_"), [("4k", 4096), ("4ki", 4000), ("1M", MIB), ("10%", None)]
)
def test_fio_counts_its_units_the_other_way_round(size, bytes_):
    from savemark.tools.fio import _size

    assert _size({}, size) == bytes_
    assert _size({"kb_base": "1000"}, "4k") == 4000


def test_an_error_of_fio_makes_its_result_invalid():
    content = changed("fio/randread.json", '"error" : 0', '"error" : 5')
    source = entries_of(read(text("a.json", content)))[0]["record"]["source"]
    assert source["valid"] is False
    assert "error 5" in source["message"]


def test_json_of_fio_that_is_cut_off_is_refused():
    assert "cut off" in refused((DATA / "fio/randread.json").read_text()[:4000])
    assert "no job" in refused('{"fio version": "fio-3.1", "jobs": []}')
    assert "neither reads nor writes" in refused(
        '{"fio version": "3", "jobs": [{"jobname": "a", "read": {"io_bytes": 0}}]}'
    )


# The others


def test_iozones_two_clocks():
    write = phases("iozone/throughput.txt")["write"]
    assert write["outer_elapsed_ns"] == 4 * write["elapsed_ns"]
    assert write["contract"] == "none"


def test_a_gap_in_iozones_matrix_stays_a_gap():
    assert [entry["factors"]["transfer_size"] for entry in entries("iozone/matrix.txt")] == [
        *(4096, 65536, 4096)
    ]
    first = phases("iozone/matrix.txt")
    assert list(first) == ["write", "rewrite", "random_read", "random_write"]
    assert first["random_read"]["reported_bytes_per_s"] == 900000 * KIB
    assert first["write"]["contract"] == "end"
    crowded = changed("iozone/matrix.txt", "105000    ", "10 50 00  ")
    assert "does not fit under its header" in refused(crowded)


def test_iozone_with_several_numbers_of_processes():
    content = (DATA / "iozone/throughput.txt").read_text()
    start = content.index("\tThroughput test")
    again = content[start:].replace("2 processes", "4 processes")
    found = entries_of(read(text("a", content + again)))
    assert [entry["factors"]["workers"] for entry in found] == [2, 4]


def test_warps_requests_are_its_phases():
    found = phases("warp/get.csv.zst")
    assert found["read"]["user_bytes"] == found["read"]["operations"] * 16 * KIB
    assert found["read"]["latency"]["count"] == 200
    assert found["read"]["worker_count"] == 2
    assert set(phases("warp/mixed.json")) == {"read", "write", "stat", "remove"}
    assert phases("warp/series.csv")["read"]["elapsed_ns"] == 2_000_000_000
    assert about("warp/series.csv")["valid"] is True


def test_requests_of_warp_that_failed_make_it_invalid_and_are_not_counted():
    lines = Source.of(DATA / "warp/get.csv.zst").lines
    column = lines[0].split("\t").index("error")
    words = [line for line in lines if line and not line.startswith("#")][-1].split("\t")
    words[column] = "timeout"
    found = entries_of(read(text("a.csv", "\n".join([*lines[:50], "\t".join(words)]))))[0]
    assert found["record"]["source"]["valid"] is False
    assert sum(phase["operations"] for phase in found["record"]["phases"]) == 49
    assert "fields where the header has" in refused("\n".join([*lines[:5], lines[5][:30]]))


def test_what_is_no_zstd_is_refused():
    assert "begins like zstd" in refused(b"\x28\xb5\x2f\xfd" + b"rubbish" * 9, "x.zst")


def test_gdsio_and_nixlbench_and_their_units():
    write = phases("gdsio/lines.txt")["write"]
    assert (write["user_bytes"], write["transfer_bytes"]) == (8 * GIB, MIB)
    assert write["reported_bytes_per_s"] == 6.25 * GIB
    assert phases("gdsio/lines.txt", 1)["random_read"]["transfer_bytes"] is None, (
        "a range is no size"
    )
    table = phases("nixlbench/table.txt")["write"]
    assert table["reported_bytes_per_s"] == pytest.approx(0.105e9)
    assert table["elapsed_ns"] is None, "nobody wrote the time down"
    assert table["latency"]["p99_ns"] == 51_000
    assert "no whole result line" in refused("IoType: READ XferType: GPUD Threads: 8")
    assert "fields, not" in refused(changed("nixlbench/table.txt", "39.0 ", ""))
    damaged = changed("nixlbench/table.txt", "65536               1 ", "65536               x ")
    assert "batch size is `x`" in refused(damaged)


def test_dlios_gb_are_gib_and_what_may_have_been_cached_is_said():
    found = phases("dlio/summary.json")
    assert found["save"]["user_bytes"] == 10 * GIB
    assert found["read"]["reported_bytes_per_s"] == 110 * MIB
    assert found["read"]["dataset_bytes"] == 40 * GIB
    assert about("dlio/summary.json")["client_memory_bytes"] == 64 * GIB
    assert about("dlio/summary.json")["valid"] is True
    failed = changed("dlio/summary.json", '"success"', '"fail"')
    assert entries_of(read(text("a", failed)))[0]["record"]["source"]["valid"] is False


def test_a_history_of_benchmarks_is_in_order_and_in_base_units():
    found = entries("github_benchmark/data.js")
    reads = [e for e in found if e["factors"]["benchmark"] == "sequential_read"]
    assert [e["record"]["source"]["message"] for e in reads] == ["a1", "b2"]
    rates = [e["record"]["phases"][0]["reported_bytes_per_s"] for e in reads]
    assert rates == [2000 * MIB, 2100.5 * MIB]
    by_name = {e["factors"]["benchmark"]: e["record"]["phases"][0] for e in found}
    assert by_name["sequential_write"]["reported_bytes_per_s"] == 1500e6
    assert by_name["time_to_first_byte"]["elapsed_ns"] == 12_500_000
    assert "MiB" in read(Source.of(DATA / "github_benchmark/data.js")).found.notes[0]


def test_hyperfines_runs_and_what_ended_badly():
    found = entries("hyperfine/export.json")
    assert [e["record"]["phases"][0]["elapsed_ns"] for e in found[:3]] == [
        *(100_000_000, 103_000_000, 107_000_000)
    ]
    assert found[3]["record"]["source"]["valid"] is False
    mean = changed("hyperfine/export.json", '"times": [0.1, 0.103, 0.107],', "")
    assert entries_of(read(text("a", mean)))[0]["record"]["phases"][0]["statistic"] == "mean"


def test_copies_have_the_time_of_the_shell():
    upload = phases("s5cmd/upload.json")["write"]
    assert (upload["user_bytes"], upload["elapsed_ns"]) == (4868592, 112_000_000)
    assert phases("s5cmd/download.txt")["read"]["user_bytes"] is None, "plain logs have no sizes"
    assert "NoSuchKey" in entries("s5cmd/failed.json")[0]["error"]["message"]
    aws = phases("aws/upload.txt")["write"]
    assert aws["user_bytes"] == pytest.approx(20_000_000, rel=0.005)
    assert "404" in entries("aws/failed.txt")[0]["error"]["message"]


@pytest.mark.parametrize(
    ("words", "ns"),
    [
        ("real\t1m2.500s", 62_500_000_000),
        ("real 62.5", 62_500_000_000),
        ("\tElapsed (wall clock) time (h:mm:ss or m:ss): 1:02.50", 62_500_000_000),
        ("done\n62.5\n", 62_500_000_000),
        ("nothing", None),
    ],
)
def test_how_time_is_told(words, ns):
    from savemark.tools._shell_time import real_ns

    assert real_ns(words) == ns


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is empty"),
        (b"../2798615/bw.csv", "a symbolic link saved as text"),
        (b"\x00\x05\x16\x07" + b"\0" * 99, "AppleDouble"),
        (b"\x7fELF\0\0\0", "binary"),
        (b"hello\n", "not a result file"),
    ],
)
def test_what_is_no_result_file_is_refused_with_its_reason(content, said):
    assert said in refused(content)


@pytest.mark.parametrize("value", ["-5", "1e999", "NaN", "99999999999999999999999"])
def test_no_number_that_nothing_could_have_measured(value):
    side = (
        f'"io_bytes": 4096, "io_kbytes": 4, "bw_bytes": {value}, "runtime": {value}, "total_ios": 1'
    )
    job = f'{{"jobname": "a", "job options": {{"rw": "read"}}, "read": {{{side}}}}}'
    content = f'{{"fio version": "fio-3.33", "jobs": [{job}]}}'
    if value in ("NaN", "1e999"):  # no number at all: then there is none
        (phase,) = entries_of(read(text("a", content)))[0]["record"]["phases"]
        assert (phase["elapsed_ns"], phase["reported_bytes_per_s"]) == (None, None)
    else:
        assert "would be" in refused(content)
