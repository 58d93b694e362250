"""Reading other programs' files: the samples of tests/data, number by number."""

import re
from pathlib import Path

import pytest

from savemark.errors import SavemarkError
from savemark.records.imported import read
from savemark.tools import NAMES, tool
from savemark.tools.source import Source

DATA = Path(__file__).parent / "data"
SAMPLES = sorted(path for path in DATA.glob("*/*") if path.is_file())
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def entries(name):
    return read(Source.of(DATA / name)).found.entries


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
    (entry,) = read(text("a.json", jobs)).found.entries
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
    found = read(text("a", f'{{"fio version": "fio-3.33", "jobs": [{job}]}}')).found
    assert found.entries[0]["record"]["phases"][0]["contract"] == contract


@pytest.mark.parametrize(
    ("size", "bytes_"), [("4k", 4096), ("4ki", 4000), ("1M", MIB), ("10%", None)]
)
def test_fio_counts_its_units_the_other_way_round(size, bytes_):
    from savemark.tools.fio import _size

    assert _size({}, size) == bytes_
    assert _size({"kb_base": "1000"}, "4k") == 4000


def test_an_error_of_fio_makes_its_result_invalid():
    content = changed("fio/randread.json", '"error" : 0', '"error" : 5')
    source = read(text("a.json", content)).found.entries[0]["record"]["source"]
    assert source["valid"] is False
    assert "error 5" in source["message"]


def test_json_of_fio_that_is_cut_off_is_refused():
    assert "cut off" in refused((DATA / "fio/randread.json").read_text()[:4000])
    assert "no job" in refused('{"fio version": "fio-3.1", "jobs": []}')
    assert "neither reads nor writes" in refused(
        '{"fio version": "3", "jobs": [{"jobname": "a", "read": {"io_bytes": 0}}]}'
    )


# IOR and mdtest


def test_ior_says_the_same_as_text_and_as_json():
    for name in ("ior/text.txt", "ior/result.json"):
        first, second = entries(name)
        assert first["factors"] == second["factors"]
        wanted = {"layout": "file_per_process", "ranks": 2, "nodes": 1, "segments": 2}
        wanted |= {"block_size": 256 * KIB, "transfer_size": 64 * KIB, "sync": "end"}
        assert first["factors"].items() >= wanted.items()
        write = phases(name)["write"]
        assert write["user_bytes"] == 2 * 2 * 256 * KIB
        assert write["contract"] == "end"
        rate = write["user_bytes"] / write["elapsed_ns"] * 1e9
        assert rate == pytest.approx(write["reported_bytes_per_s"], rel=0.02)
        assert phases(name)["read"]["shifted"] is False, "one node reads what it wrote, -C or not"


def test_iors_brackets_may_be_wrong():
    content = (DATA / "ior/result.json").read_text().replace("]", "").replace('"tests": [', "")
    found = read(text("a.json", content)).found.entries
    assert [len(entry["record"]["phases"]) for entry in found] == [2, 2]


def test_a_time_of_ior_with_too_few_digits_is_that_of_the_bandwidth():
    assert phases("ior/result.json")["read"]["elapsed_ns"] == 61_989
    row = phases("ior/result.csv")["read"]
    assert (row["elapsed_ns"], row["user_bytes"]) == (None, None), "0.0001 s is no time"
    assert row["reported_bytes_per_s"] > 0


def test_a_stonewall_leaves_only_what_was_moved():
    content = changed("ior/text.txt", "-O summaryFormat=default", "-D 1")
    first = read(text("a", content)).found.entries[0]["record"]["phases"][0]
    assert first["user_bytes"] != 2 * 2 * 256 * KIB
    assert first["user_bytes"] == pytest.approx(MIB, rel=0.01)


def test_an_error_of_ior_makes_its_result_invalid_and_a_file_that_existed_does_not():
    harmless = 'WARNING: The file "x" exists already and will be deleted\n'
    content = (DATA / "ior/text.txt").read_text()
    assert read(text("a", harmless + content)).found.entries[0]["record"]["source"]["valid"]
    wrong = "WARNING: inconsistent file size by different tasks\n"
    source = read(text("a", content + wrong)).found.entries[0]["record"]["source"]
    assert (source["valid"], source["message"]) == (False, wrong.strip())


def test_ior_without_a_result_has_failed_with_its_own_reason():
    (entry,) = entries("ior/failed.txt")
    assert 'open64("/proc/none/x"' in entry["error"]["message"]


def test_the_ranks_of_ior_are_one_phase_until_the_last_has_closed():
    write = phases("ior/ranks.csv")["write"]
    assert write["user_bytes"] == 2 * 256 * KIB
    assert write["first_done_ns"] <= write["last_done_ns"] == write["elapsed_ns"]
    broken = changed("ior/ranks.csv", "write,1,", "write,1,x")
    assert "a rank without its time" in refused(broken)


def test_mdtests_rates_and_what_they_are_of():
    for name, factors in (
        ("mdtest/text.txt", {"nodes": 1, "shared": False}),
        ("mdtest/ranks.csv", {}),
    ):
        files = entries(name)[0]
        assert (
            files["factors"].items()
            >= {"kind": "files", "ranks": 2, "items": 50, **factors}.items()
        )
        create = phases(name)["create"]
        assert create["operations"] == 100
        rate = create["operations"] / create["elapsed_ns"] * 1e9
        assert rate == pytest.approx(create["reported_ops_per_s"], rel=1e-4)
    assert phases("mdtest/text.txt")["create"]["statistic"] == "mean"
    assert "read" not in phases("mdtest/ranks.csv", 1), "mdtest has no read of directories"


def test_a_second_summary_of_mdtest_is_of_times_and_no_rate():
    assert phases("mdtest/times.txt")["create"]["reported_ops_per_s"] == 75065.843


def test_zero_files_are_shown_as_nothing_done():
    create = phases("mdtest/empty.txt")["create"]
    assert (create["operations"], create["elapsed_ns"]) == (0, 0)


def test_mdtest_that_was_stopped():
    cut = (DATA / "mdtest/text.txt").read_text().split("SUMMARY")[0]
    assert "no summary" in read(text("a", cut)).found.entries[0]["error"]["message"]
    rows = (DATA / "mdtest/ranks.csv").read_text().splitlines()
    assert "no row `all`" in refused("\n".join([rows[0], *rows[2:]]))


# elbencho


def test_three_outputs_of_elbencho_say_the_same():
    for name in ("elbencho/result.csv", "elbencho/result.json", "elbencho/result.txt"):
        (entry,) = entries(name)
        found = phases(name)
        assert list(found)[:4] == ["create_directories", "write", "stat", "read"]
        write = found["write"]
        assert write["user_bytes"] == 2 * MIB
        assert write["elapsed_ns"] == 2_000_000
        assert write["outer_elapsed_ns"] == 5_000_000, "the flush after it is its own phase"
        assert found["stat"]["operations"] == 4
        if name != "elbencho/result.txt":
            wanted = {"workers": 2, "transfer_size": 64 * KIB, "direct": False}
            assert entry["factors"].items() >= wanted.items()


def test_a_mix_of_elbencho_is_a_run_of_its_own():
    mixed, alone = entries("elbencho/mixed.csv")
    assert mixed["factors"]["operation"] == "mixed"
    names = [phase["name"] for phase in mixed["record"]["phases"]]
    assert names == ["random_write", "random_read"]
    assert [phase["name"] for phase in alone["record"]["phases"]] == ["random_read"]


def test_rates_of_elbencho_that_are_rounded_too_far_are_left_out():
    assert phases("elbencho/write.csv")["write"]["reported_bytes_per_s"] is None


def test_a_line_of_elbencho_that_is_cut_off_is_named():
    content = (DATA / "elbencho/write.csv").read_text().rstrip()
    cut = content[: content.rindex(",WRITE") + 10]
    assert re.search(r"x.txt:\d: \d+ fields where the header has", refused(cut))
    assert "no result" in refused(content.splitlines()[0])


@pytest.mark.parametrize(
    ("words", "ms"),
    [("2784", 2784), ("905ms", 905), ("2m3.241s", 123241), ("1h2m3s", 3723000), ("soon", None)],
)
def test_how_elbencho_writes_a_time(words, ms):
    from savemark.tools.elbencho import _ms

    assert _ms(words) == ms


# IO500


@pytest.mark.parametrize("name", ["result.txt", "result_summary.txt", "result_summary_2018.txt"])
def test_io500_old_and_new(name):
    tests = {entry["factors"]["test"] for entry in entries(f"io500/{name}")}
    assert tests == {"ior-easy", "ior-hard", "mdtest-easy", "mdtest-hard", "find"}
    write = phases(f"io500/{name}")["write"]
    assert write["reported_bytes_per_s"] == 2.5 * GIB
    assert write["elapsed_ns"] == 301_200_000_000
    assert write["arithmetic"] is None
    assert about(f"io500/{name}")["valid"] is False
    assert "[INVALID]" in about(f"io500/{name}")["message"]


def test_a_score_that_is_not_that_of_its_phases():
    content = (DATA / "io500/result_summary.txt").read_text()
    total = re.search(r"TOTAL ([\d.]+)", content)[1]
    found = read(text("a", content.replace(total, "9.5"))).found.entries[0]["record"]["phases"][0]
    assert "the printed score is 9.5" in found["arithmetic"]


def test_io500_that_was_stopped_names_what_it_lacks():
    cut = (DATA / "io500/result.txt").read_text().split("[ior-hard-write]")[0]
    found = read(text("result.txt", cut)).found.entries
    assert sum("error" in entry for entry in found) == 3
    assert "before ior-hard had a result" in str(found)
    assert found[0]["record"]["source"]["valid"] is False
    assert "no result" in refused(
        changed("io500/result.txt", "t_delta         = 301.2000", "t_delta = x")
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
    found = read(text("a", content + again)).found.entries
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
    words = (
        lines[-1].split("\t")
        if lines[-1] and not lines[-1].startswith("#")
        else lines[-2].split("\t")
    )
    words[column] = "timeout"
    found = read(text("a.csv", "\n".join([*lines[:50], "\t".join(words)]))).found.entries[0]
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


def test_dlios_gb_are_gib_and_what_may_have_been_cached_is_said():
    found = phases("dlio/summary.json")
    assert found["save"]["user_bytes"] == 10 * GIB
    assert found["read"]["reported_bytes_per_s"] == 110 * MIB
    assert found["read"]["dataset_bytes"] == 40 * GIB
    assert about("dlio/summary.json")["client_memory_bytes"] == 64 * GIB
    assert about("dlio/summary.json")["valid"] is True
    failed = changed("dlio/summary.json", '"success"', '"fail"')
    assert read(text("a", failed)).found.entries[0]["record"]["source"]["valid"] is False


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
    assert read(text("a", mean)).found.entries[0]["record"]["phases"][0]["statistic"] == "mean"


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
        (phase,) = read(text("a", content)).found.entries[0]["record"]["phases"]
        assert (phase["elapsed_ns"], phase["reported_bytes_per_s"]) == (None, None)
    else:
        assert "would be" in refused(content)
