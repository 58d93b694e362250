"""`savemark import` of folders: what is in them, what the names say, and what is left out."""

import json
import shutil
from pathlib import Path, PurePath

import polars as pl
import pytest

from savemark.errors import SavemarkError
from savemark.importing.gather import gather
from savemark.importing.patterns import Pattern
from savemark.records import phases, read_run
from savemark.records.assemble import write_folder
from savemark.report import build
from savemark.report.analysis import analyse
from savemark.report.settings import settings, table

DATA = Path(__file__).parent / "data"
HEAD = {"run_id": "r", "savemark_version": "0", "started_at": "", "command": ["savemark"]}


@pytest.fixture
def put(tmp_path):
    """Copies samples to other names below a folder `results`."""

    def put(**files):
        for sample, name in files.values():
            path = tmp_path / "results" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(DATA / sample, path)
        return tmp_path / "results"

    return put


def bring(folder, *arguments, pattern=None, given=None):
    readings, skipped = gather(arguments or [str(folder)], pattern and Pattern(pattern))
    head = {**HEAD, "given": given or {}}
    return read_run(write_folder(readings, folder.parent / "run", head, skipped)), skipped


def test_a_folder_is_searched_and_every_file_accounted_for(put):
    folder = put(a=("fio/randread.json", "deep/er/a.json"), b=("gdsio/lines.txt", "b.log"))
    (folder / "notes.md").write_text("# what we did\n")
    (folder / "empty").touch()
    run, skipped = bring(folder)
    assert {source.file for source in run.sources} == {"originals/a.json", "originals/b.log"}
    assert {each.path.name: each.why for each in skipped} == {
        "empty": "it is empty",
        "notes.md": "not a result file that savemark knows",
    }
    kept = json.loads((run.folder / "run.json").read_text())["skipped"]
    assert [Path(each["file"]).name for each in kept] == ["empty", "notes.md"]
    assert "notes.md: skipped" in (run.folder / "log.txt").read_text()
    assert [target.label for target in run.targets] == ["results"], "the folder names the storage"


def mixed(*paths, pattern=None):
    from savemark.records.mixed import warnings

    return warnings(gather([str(path) for path in paths], pattern)[0])


def test_files_of_different_folders_that_count_as_repeats_are_told(put):
    """Nobody said what lies in the folders: it may be one system measured twice, or two."""
    folder = put(a=("fio/randread.json", "lustre/a.json"))
    assert mixed(folder) == [], "one file is no repeat"
    twin = (folder / "lustre" / "a.json").read_text().replace('"iodepth" : "', '"iodepth" :  "')
    (folder / "nvme").mkdir()
    (folder / "nvme" / "a.json").write_text(twin + "\n")
    (said,) = mixed(folder)
    assert "on `results` lie in different folders (lustre, nvme)" in said
    assert "--factors '{target}/*'" in said
    assert mixed(f"x={folder / 'lustre'}", f"y={folder / 'nvme'}") == [], "told apart"
    assert mixed(f"x={folder}") == [], "said to be one"
    assert mixed(folder, pattern=Pattern("{target}/*")) == []
    run, _ = bring(folder)
    assert said in (run.folder / "log.txt").read_text()


def test_files_that_name_different_places_are_told_in_one_folder(put):
    folder = put(a=("ior/text.txt", "1.txt"))
    content = (folder / "1.txt").read_text()
    (folder / "2.txt").write_text(content.replace(" /data/f", " /lustre/mine/f"))
    (said,) = mixed(folder)
    assert "name different places (/data, /lustre/mine)" in said
    (folder / "2.txt").write_text(content.replace(" /data/f", " /data/g"))
    assert mixed(folder) == [], "another file of the same place"


@pytest.mark.parametrize(
    ("place", "system"),
    [
        ("/mnt/nvme/run-1/x", "/mnt/nvme"),
        ("/data", "/data"),
        ("s3://bucket/a/b", "s3://bucket"),
        ("relative/x", None),
        (None, None),
    ],
)
def test_what_tells_a_file_system(place, system):
    from savemark.records import mixed

    assert mixed._system(place) == system


def test_levels_of_any_kind_have_an_order():
    from savemark.records.assemble import _level

    assert sorted([8, "b", None, 1.5, "a"], key=_level) == [1.5, 8, "b", None, "a"]


def test_a_folder_of_nothing_is_a_usage_error(put, tmp_path):
    (tmp_path / "none").mkdir()
    with pytest.raises(SavemarkError, match="there is no file in it"):
        gather([str(tmp_path / "none")])
    (tmp_path / "none" / "x").write_text("x\n")
    with pytest.raises(SavemarkError, match="none of 1 files"):
        gather([str(tmp_path / "none")])


def test_a_file_that_is_named_must_be_one(put):
    folder = put(a=("fio/randread.json", "a.json"))
    (folder / "x").write_text("x\n")
    with pytest.raises(SavemarkError, match="not a result file"):
        gather([str(folder / "a.json"), str(folder / "x")])


def test_the_same_setting_again_is_a_repeat(put):
    folder = put(
        a=("fio/randread.json", "1.json"),
        b=("fio/two-jobs.json", "other.json"),
    )
    content = (folder / "1.json").read_text()
    for name in ("2.json", "3.json"):
        (folder / name).write_text(content.replace('"runtime" : 27', f'"runtime" : {name[0]}7'))
    run, _ = bring(folder)
    reads = [entry for entry in run.entries if entry.factors.get("operation") == "read"]
    assert [entry.repeat for entry in reads] == [0, 1, 2]
    frame = phases(run).filter(pl.col("operation") == "read")
    assert frame["setting"].n_unique() == 1
    assert len(analyse(run.folder).results[0].cells) == 2


def test_what_one_file_states_and_another_does_not_tells_them_apart(put):
    folder = put(a=("fio/randread.json", "deep.json"), b=("fio/randread.json", "unknown.json"))
    content = (folder / "deep.json").read_text().replace('"iodepth" : "4",', "")
    (folder / "unknown.json").write_text(content)
    run, _ = bring(folder)
    assert [entry.factors.get("queue_depth") for entry in run.entries] == [4, None]
    assert {entry.repeat for entry in run.entries} == {0}


def test_the_same_run_is_counted_once(put):
    folder = put(
        a=("io500/result.txt", "one/result.txt"),
        b=("io500/result_summary.txt", "one/result_summary.txt"),
        c=("elbencho/result.csv", "two/e.csv"),
        d=("elbencho/result.json", "two/e.json"),
        e=("elbencho/write.csv", "three/w.csv"),
        f=("elbencho/write.live.csv", "three/w.live.csv"),
        g=("gdsio/lines.txt", "four/copy.txt"),
        h=("gdsio/lines.txt", "five/copy.txt"),
    )
    _, skipped = bring(folder)
    assert {each.path.name for each in skipped} == {
        *("result_summary.txt", "e.json", "w.live.csv", "copy.txt")
    }
    assert all("tells of the same run" in each.why for each in skipped)


def test_equal_bytes_under_two_names_are_a_question_that_hc_22_asks(put):
    folder = put(a=("gdsio/lines.txt", "nvme.txt"), b=("gdsio/lines.txt", "lustre.txt"))
    run, _ = bring(folder)
    found = {finding.id: finding for finding in analyse(run.folder).findings}
    assert found["HC-22"].verdict.value == "BLOCK"
    assert "lustre.txt, nvme.txt are the same file" in found["HC-22"].evidence


def test_two_tools_are_no_repeats_of_each_other(put):
    run, _ = bring(put(a=("ior/text.txt", "a"), b=("elbencho/write.csv", "b")))
    assert run.study.factors["tool"] == ["ior", "elbencho"]
    assert {entry.factors["tool"] for entry in run.entries} == {"ior", "elbencho"}


# Names


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        (
            "{workload}_S{segments}_{nodes}N",
            "read_S100_4N.txt",
            {"workload": "read", "segments": 100, "nodes": 4},
        ),
        (
            "report-{nodes}N-*-s{stripes}",
            "x/report-4N-2024-02.1-s16.txt",
            {"nodes": 4, "stripes": 16},
        ),
        ("submission-{number}/*", "all/submission-13/result.txt", {"number": 13}),
        (
            "{target}/bs{transfer_size}",
            "lustre/bs64k.json",
            {"target": "lustre", "transfer_size": 65536},
        ),
        ("{a}_{b}", "one_two_three", {"a": "one", "b": "two_three"}),
        ("{a}x{b}", "nothing", None),
    ],
)
def test_what_a_pattern_reads(pattern, path, found):
    assert Pattern(pattern).read(PurePath(path)) == found


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("report-*", "not a pattern"),
        ("{a}{", "not a pattern"),
        ("{a}-{a}", "is there twice"),
        ("", "not a"),
    ],
)
def test_what_is_no_pattern(pattern, said):
    with pytest.raises(SavemarkError, match=said):
        Pattern(pattern)


def test_factors_of_the_names_are_factors_of_the_run(put):
    folder = put(
        a=("fio/randread.json", "lustre/s1.json"),
        b=("fio/randread.json", "nvme/s8.json"),
        c=("fio/randread.json", "nvme/plain.json"),
    )
    (folder / "nvme" / "plain.json").write_text((folder / "nvme" / "s8.json").read_text() + "\n")
    run, _ = bring(folder, pattern="{target}/s{stripes}")
    assert {target.label for target in run.targets} == {"lustre", "nvme", "results"}
    assert {entry.factors.get("stripes") for entry in run.entries} == {1, 8, None}
    assert "plain.json: its name does not fit" in (run.folder / "log.txt").read_text()


def test_a_name_that_the_file_contradicts_blocks_its_phases(put):
    run, _ = bring(put(a=("ior/text.txt", "S100.txt")), pattern="S{segments}")
    assert run.study.trial["segments"] == 2, "the file is right"
    found = {finding.id: finding for finding in analyse(run.folder).findings}
    assert found["HC-22"].verdict.value == "BLOCK"
    assert "the name says segments 100, the file 2" in found["HC-22"].evidence


def test_a_factor_called_like_a_column_gets_a_name_of_its_own(put):
    folder = put(a=("fio/randread.json", "p1.json"), b=("gdsio/lines.txt", "p2.json"))
    run, _ = bring(folder, pattern="p{phase}")
    assert {entry.factors["phase_"] for entry in run.entries} == {1, 2}
    assert "random_read" in phases(run)["phase"].to_list()


# What only the user knows


def test_memory_and_limits_that_are_given_are_evidence(put):
    folder = put(a=("ior/text.txt", "a.txt"))
    given = {"host": {"memory": {"total_bytes": 1 << 30}}}
    given["study"] = {"checks": {"HC-03": {"read_bytes_per_s": 1e9}}}
    run, _ = bring(folder, given=given)
    found = {finding.id: finding for finding in analyse(run.folder).findings}
    assert found["HC-03"].verdict.value == "BLOCK"
    assert {phase for _, _, phase in found["HC-03"].blocks} == {"read"}
    assert found["HC-04"].verdict.value == "FLAG"


def test_what_another_node_wrote_is_in_no_memory(put):
    folder = put(a=("ior/text.txt", "a.txt"))
    text = (folder / "a.txt").read_text()
    (folder / "a.txt").write_text(
        text.replace("nodes               : 1", "nodes               : 2")
    )
    run, _ = bring(folder, given={"host": {"memory": {"total_bytes": 1 << 30}}})
    found = {finding.id: finding for finding in analyse(run.folder).findings}
    assert found["HC-04"].verdict.value == "ok"


def test_the_command_says_what_it_did(savemark, put, tmp_path):
    put(a=("fio/randread.json", "bs1.json"), b=("ior/text.txt", "bs2.txt"))
    (tmp_path / "results" / "README").write_text("hello\n")
    done = savemark("import", "results", "--factors", "bs{n}", "--memory", "64GiB", "--out", "run")
    assert done.returncode == 0, done.stderr
    assert "skipped: results/README: not a result file" in done.stderr
    assert "skipped         1 of 3 files" in done.stdout
    head = json.loads((tmp_path / "run" / "run.json").read_text())
    assert head["host"]["memory"]["total_bytes"] == 64 << 30
    limited = savemark("import", "results", "--max-read", "1GB/s", "--out", "run2")
    assert limited.returncode == 0, limited.stderr
    head = json.loads((tmp_path / "run2" / "run.json").read_text())
    assert head["study"]["checks"] == {"HC-03": {"read_bytes_per_s": 1e9}}
    wrong = savemark("import", "results", "--factors", "bs")
    assert wrong.returncode == 2
    assert "not a pattern" in wrong.stderr


def test_reports_of_rates_without_times_are_made(put, savemark, tmp_path):
    """A file may hold rates alone: nothing is computed from them, and nothing fails."""
    put(
        a=("github_benchmark/data.js", "d.js"),
        b=("nixlbench/table.txt", "n"),
        c=("mdtest/text.txt", "m"),
        d=("mdtest/times.txt", "m2"),
        e=("mdtest/empty.txt", "m0"),
        f=("warp/mixed.json", "w"),
        g=("gdsio/lines.txt", "g"),
        h=("ior/text.txt", "i"),  # its `read` is of bytes, that of mdtest of files
    )
    assert savemark("import", "results", "--out", "run").returncode == 0
    build(tmp_path / "run")
    report = (tmp_path / "run" / "report.md").read_text()
    assert "sequential_read" in report
    for wide in map(table, settings(analyse(tmp_path / "run"))):
        assert {len(line.data) for line in wide.lines} == {len(wide.columns)}
    frame = phases(read_run(tmp_path / "run"))
    assert (
        frame.filter(pl.col("elapsed_ns").is_null())["reported_bytes_per_s"].drop_nulls().len() == 5
    )
