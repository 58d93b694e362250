"""Reading the files of IOR, mdtest, elbencho and IO500: the samples of tests/data."""

import re

import pytest

from savemark.importing.read import read
from savemark.records.assemble import write_folder
from savemark.report.analysis import analyse
from savemark.tools.source import Source
from test_tools import (
    DATA,
    GIB,
    KIB,
    MIB,
    about,
    changed,
    entries,
    entries_of,
    phases,
    refused,
    text,
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
    found = entries_of(read(text("a.json", content)))
    assert [len(entry["record"]["phases"]) for entry in found] == [2, 2]


def test_a_time_of_ior_with_too_few_digits_is_that_of_the_bandwidth():
    assert phases("ior/result.json")["read"]["elapsed_ns"] == 61_989
    row = phases("ior/result.csv")["read"]
    assert (row["elapsed_ns"], row["user_bytes"]) == (None, None), "0.0001 s is no time"
    assert row["reported_bytes_per_s"] > 0


def test_a_stonewall_leaves_only_what_was_moved():
    content = changed("ior/text.txt", "-O summaryFormat=default", "-D 1")
    first = entries_of(read(text("a", content)))[0]["record"]["phases"][0]
    assert first["user_bytes"] != 2 * 2 * 256 * KIB
    assert first["user_bytes"] == pytest.approx(MIB, rel=0.01)


def test_an_error_of_ior_makes_its_result_invalid_and_a_file_that_existed_does_not():
    harmless = 'WARNING: The file "x" exists already and will be deleted\n'
    content = (DATA / "ior/text.txt").read_text()
    assert entries_of(read(text("a", harmless + content)))[0]["record"]["source"]["valid"]
    wrong = "WARNING: inconsistent file size by different tasks\n"
    source = entries_of(read(text("a", content + wrong)))[0]["record"]["source"]
    assert (source["valid"], source["message"]) == (False, wrong.strip())


def test_less_than_was_asked_for_is_no_fault_of_a_stonewall():
    content = (DATA / "ior/text.txt").read_text()
    less = "WARNING: Using actual aggregate bytes moved = 350224384\n"
    assert not entries_of(read(text("a", content + less)))[0]["record"]["source"]["valid"]
    why = "WARNING: Maybe caused by deadlineForStonewalling\n"
    assert entries_of(read(text("a", content + less + why)))[0]["record"]["source"]["valid"]


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


RANKS = (
    "rank,items,rate-File creation,time-File creation,rate-File stat,time-File stat,"
    "rate-Tree creation,time-Tree creation"
)
# Two ranks, three repeats of 500 files each; the ranks met 1 % after the last had created.
REPEATS = """\
all,500,9900.9901,0.10101,5000,0.2,50,0.02
0,,5000,0.1,10000,0.05
1,,5555.5556,0.09,10000,0.05
0,,6250,0.08,10000,0.05
1,,4000,0.125,10000,0.05
0,,5000,0.1,10000,0.05
1,,5000,0.1,10000,0.05
"""


def test_each_repeat_of_mdtest_is_read_where_the_ranks_did_not_wait():
    """Stats whose ranks waited three quarters of the time are known of the first repeat alone."""
    found = read(text("ranks.csv", f"{RANKS}\n{REPEATS}"))
    files = [entry for entry in entries_of(found) if entry["factors"]["kind"] == "files"]
    assert [len(entry["record"]["phases"]) for entry in files] == [2, 1, 1]
    created = [entry["record"]["phases"][0] for entry in files]
    assert [phase["name"] for phase in created] == ["create"] * 3
    assert [phase["elapsed_ns"] for phase in created] == [100_000_000, 125_000_000, 100_000_000]
    assert [phase["first_done_ns"] for phase in created] == [90_000_000, 80_000_000, 100_000_000]
    assert [phase["operations"] for phase in created] == [1000] * 3
    assert [phase["reported_ops_per_s"] for phase in created] == [9900.9901, None, None]
    stat = files[0]["record"]["phases"][1]
    assert (stat["name"], stat["elapsed_ns"]) == ("stat", 200_000_000)
    assert "read 1 of 3 repeats of File stat, Tree creation" in found.found.notes[0]
    one = read(text("ranks.csv", "\n".join([RANKS, *REPEATS.splitlines()[:3]])))
    create = entries_of(one)[0]["record"]["phases"][0]
    assert create["elapsed_ns"] == 101_010_000, "one repeat is as mdtest says"
    assert (create["first_done_ns"], create["last_done_ns"]) == (90_000_000, 100_000_000)


VERBOSE = """\
-- started at 11/21/2026 17:15:10 --
mdtest-4.1.0 was launched with 2 total task(s) on 1 node(s)
Command line used: mdtest -E -v -n 500 -i 2 -F -d /data/md
2 tasks, 1000 files
V-1:   File creation     :          0.100 sec,       5000.000 ops/sec
V-1:   File stat         :          0.010 sec,      50000.000 ops/sec
V-1:   File creation     :          0.200 sec,       2500.000 ops/sec
V-1:   File stat         :          0.020 sec,      25000.000 ops/sec
SUMMARY rate (in ops/sec): (of 2 iterations)
   Operation                     Max            Min           Mean        Std Dev
   File creation               10000.000       5000.000       7500.000       3535.534
   File stat                  100000.000      50000.000      75000.000      35355.339
"""


def test_the_repeats_that_mdtest_prints_are_read_and_hold_the_mean():
    found = entries_of(read(text("a", VERBOSE)))
    created = [entry["record"]["phases"][0] for entry in found]
    assert [phase["reported_ops_per_s"] for phase in created] == [10000, 5000]
    assert [phase["elapsed_ns"] for phase in created] == [100_000_000, 200_000_000]
    assert not any(phase.get("statistic") for phase in created)
    assert found[0]["factors"]["items"] == 500, "-E takes no value"
    (mean,) = entries_of(read(text("a", VERBOSE.replace("2500.000 ops", "4500.000 ops"))))
    phase = mean["record"]["phases"][0]
    assert (phase["statistic"], phase["reported_ops_per_s"]) == ("mean", 7500)


def test_mdtest_that_was_stopped():
    cut = (DATA / "mdtest/text.txt").read_text().split("SUMMARY")[0]
    assert "no summary" in entries_of(read(text("a", cut)))[0]["error"]["message"]
    rows = (DATA / "mdtest/ranks.csv").read_text().splitlines()
    assert "no row `all`" in refused("\n".join([rows[0], *rows[2:]]))


# elbencho


ERRORS = (
    "2026-11-21 17:15:10 ERROR: File write failed. Path: /data/f; SysErr: No space left on device"
)


def test_an_error_of_elbencho_makes_its_result_invalid(tmp_path):
    content = (DATA / "elbencho/result.txt").read_text()
    assert entries_of(read(text("a", content)))[0]["record"]["source"]["valid"] is True
    (entry,) = entries_of(read(text("a", f"{content}\n{ERRORS}\n")))
    source = entry["record"]["source"]
    assert source["valid"] is False
    assert source["message"].endswith("No space left on device")
    file = tmp_path / "a.txt"
    file.write_text(f"{content}\n{ERRORS}\n")
    readings = [read(Source.of(file))]
    head = {"run_id": "r", "savemark_version": "0", "started_at": "", "command": ["savemark"]}
    findings = {f.id: f for f in analyse(write_folder(readings, tmp_path / "run", head)).findings}
    assert findings["HC-25"].verdict.value == "BLOCK"
    assert "No space left" in findings["HC-25"].evidence


def test_elbencho_that_has_nothing_but_errors_has_failed():
    table = "OPERATION   RESULT TYPE         FIRST DONE   LAST DONE\n"
    (entry,) = entries_of(read(text("a", f"{table}{ERRORS}\n")))
    assert "no result in it: ERROR: File write failed" in entry["error"]["message"]
    skipped = "Phase: WRITE: Skipping stats print due to unavailable worker results.\n"
    (entry,) = entries_of(read(text("a", skipped)))
    assert "a phase has no result" in entry["error"]["message"]
    assert "no result" in refused(table), "silent: it was stopped"


def test_requests_that_elbencho_was_told_to_ignore_are_no_result():
    content = changed("elbencho/write.csv", "--nolive", "--s3ignoreerrors --nolive")
    source = entries_of(read(text("a", content)))[0]["record"]["source"]
    assert (source["valid"], "--s3ignoreerrors" in source["message"]) == (False, True)


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


def test_the_table_of_an_older_elbencho():
    table = (
        "OPERATION   RESULT TYPE         FIRST DONE   LAST DONE\n"
        "=========== ================    ==========   =========\n"
        "WRITE       Elapsed ms       :       84100      110100\n"
        "            Throughput MiB/s :         940         724\n"
        "            Total MiB        :       79100       79700\n"
    )
    (phase,) = entries_of(read(text("a", table)))[0]["record"]["phases"]
    assert (phase["first_done_ns"], phase["elapsed_ns"]) == (84_100_000_000, 110_100_000_000)
    assert phase["first_done_bytes"] == 79100 * MIB
    assert phase["reported_bytes_per_s"] == 724 * MIB


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
    assert "lacks `operation`" in refused(content.replace(",operation,", ",deed,"))
    assert "without its operation" in refused(content.replace(",WRITE,", ",,"))


@pytest.mark.parametrize(
    ("words", "ms"),
    [("2784", 2784), ("905ms", 905), ("2m3.241s", 123241), ("1h2m3s", 3723000), ("soon", None)],
)
def test_how_elbencho_writes_a_time(words, ms):
    from savemark.tools._elbencho_rows import milliseconds

    assert milliseconds(words) == ms


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
    found = entries_of(read(text("a", content.replace(total, "9.5"))))[0]["record"]["phases"][0]
    assert "the printed score is 9.5" in found["arithmetic"]


def test_io500_that_was_stopped_names_what_it_lacks():
    cut = (DATA / "io500/result.txt").read_text().split("[ior-hard-write]")[0]
    found = entries_of(read(text("result.txt", cut)))
    assert sum("error" in entry for entry in found) == 3
    assert "before ior-hard had a result" in str(found)
    assert found[0]["record"]["source"]["valid"] is False
    assert "no result" in refused(
        changed("io500/result.txt", "t_delta         = 301.2000", "t_delta = x")
    )
