"""Several runs on one page, and their records as one published table."""

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import polars as pl
import pytest

from made_run import Made, make_run
from savemark.errors import SavemarkError
from savemark.records import export, read_runs
from savemark.records.several import read_each

ROOT = Path(__file__).parent.parent
SMALL = {"codecs": ("none", "zstd"), "streams": (0, 4), "repeats": 2}


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    make_run(folder / "a", Made(**SMALL, seed=1))
    make_run(folder / "b", Made(**SMALL, seed=2, targets={"fast": 1.0, "slow": 0.4}))
    return folder


def command(folder, *words):
    return subprocess.run(
        [sys.executable, "-m", "savemark", *map(str, words)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("form", export.FORMATS)
def test_all_formats_hold_the_same_rows(two, tmp_path, form):
    out = tmp_path / f"trials.{form}"
    done = command(two, "export", "before=a", "b", "-o", out)
    assert done.returncode == 0, done.stderr
    rows = export.table(list(read_each([f"before={two / 'a'}", str(two / "b")]).values()))
    if form == "parquet":
        found = pl.read_parquet(out)
        assert found.drop("blocked_by").equals(rows)
        assert found["blocked_by"].null_count() == len(rows)
        return
    text = out.read_text(encoding="utf-8")
    found = json.loads(text) if form == "json" else list(csv.DictReader(io.StringIO(text)))
    assert [int(row["schema"]) for row in found] == [export.VERSION] * len(rows)
    assert [row["run"] for row in found] == rows["run"].to_list()
    assert {row["run"] for row in found} == {"before", "b"}
    told = [str(row.get("elapsed_ns", "")) for row in found]
    assert told == [str(ns) if ns is not None else "" for ns in rows["elapsed_ns"]]
    assert not list(tmp_path.glob("*.part"))


def test_csv_goes_to_stdout_and_parquet_may_be_piped(two):
    done = command(two, "export", "a")
    assert len(done.stdout.splitlines()) == 1 + len(
        export.table([*read_each([str(two / "a")]).values()])
    )
    assert command(two, "export", "a", "--format", "json").stdout.startswith("[\n{")


def test_every_row_is_valid_under_the_published_schema(two, tmp_path):
    done = command(two, "schema", "--table")
    schema = json.loads(done.stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    folder = make_run(tmp_path / "failing", Made(**SMALL, fail=("zstd", 4)))
    rows = export.table([*read_each([str(two / "a"), str(two / "b"), str(folder)]).values()])
    validator = jsonschema.Draft202012Validator(schema)
    for row in rows.to_dicts():
        validator.validate({name: value for name, value in row.items() if value is not None})
    wrong = {name: v for name, v in rows.row(0, named=True).items() if v is not None}
    for name, value in (("schema", 2), ("elapsed_ns", "1 s"), ("run", None)):
        assert not validator.is_valid({**wrong, name: value})
    described = schema["properties"]["elapsed_ns"]["description"]
    assert described.endswith("(nanoseconds)")


def test_an_export_of_nothing_is_an_error(tmp_path):
    done = command(tmp_path, "export", "nowhere")
    assert done.returncode == 2
    assert "not a run folder" in done.stderr
    assert command(tmp_path, "schema", "--table", "--records").returncode == 2


def test_a_page_of_several_runs_names_each(two, tmp_path):
    out = tmp_path / "set"
    done = command(two, "report", "before=a", "after=b", "-o", out)
    assert done.returncode == 0, done.stderr
    assert f"report      {out}/report.html" in done.stdout
    page = (out / "report.html").read_text(encoding="utf-8")
    for label in ("before", "after: fast", "after: slow"):
        assert f"Every setting on {label}" in page
    assert "<td" in page[page.index("<h3>Runs</h3>") :]
    assert {p.name for p in (out / "figures").iterdir()} >= {"times.svg", "times.png"}
    frame = pl.read_csv(out / "tables" / "phases.csv", infer_schema_length=None)
    assert set(frame["run"]) == {"before", "after"}
    assert frame.select("index", "phase").is_duplicated().sum() == 0
    again = command(two, "report", "before=a", "after=b", "-o", out)
    assert again.returncode == 0
    assert (out / "report.html").read_text(encoding="utf-8") == page


def test_several_runs_never_overwrite_a_run_or_anything_else(two, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    for out in (tmp_path / "mine", two / "a"):
        before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
        done = command(two, "report", "a", "b", "-o", out)
        assert done.returncode == 5, done.stderr
        assert "--out" in done.stderr
        assert before == {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    assert command(two, "report", "a", "-o", tmp_path / "x").returncode == 2


def test_runs_of_one_name_must_be_told_apart(two, tmp_path):
    make_run(tmp_path / "a", Made(**SMALL))
    with pytest.raises(SavemarkError, match="two runs are called `a`"):
        read_runs([str(two / "a"), str(tmp_path / "a")], tmp_path)


def test_a_gap_names_the_run_that_can_be_resumed(two, tmp_path):
    make_run(tmp_path / "stopped", Made(**SMALL, stop_after=5))
    run = read_runs([str(two / "a"), str(tmp_path / "stopped")], tmp_path / "out")
    assert run.unfinished == tmp_path / "stopped"
    assert len(run.missing) == len(run.parts["stopped"].missing) > 0


def test_an_ending_that_is_no_format_is_refused(run, tmp_path):
    folder = make_run(tmp_path / "a", Made(**SMALL))
    code, _, err = run("export", folder, "-o", tmp_path / "rows.xyz")
    assert code == 2
    assert "`.xyz` is no format" in err
    assert ".parquet, .csv, .json" in err
    assert not (tmp_path / "rows.xyz").exists()
    for name, more in [("rows.xyz", ["--format", "csv"]), ("rows.CSV", []), ("rows", [])]:
        assert run("export", folder, "-o", tmp_path / name, *more)[0] == 0
        assert (tmp_path / name).read_text().startswith("schema,run,")
