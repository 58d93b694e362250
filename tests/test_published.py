"""The mistakes in published studies that the checks exist for, found in their own raw files."""

from pathlib import Path

import pytest

from savemark.checks import Verdict

SHARED = Path(__file__).parent.parent.parent / "shared" / "data"
DATA, EXERCISE = SHARED / "streamer-bench", SHARED / "checkpoint-exercise"
pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason=f"{SHARED} is not there")


def fired(*files):
    """The checks that fired on these files, imported as one run."""
    from savemark.cli.check import _judge

    (analysis,) = _judge(tuple(str(DATA / file) for file in files), ()).values()
    return {finding.id: finding for finding in analysis.fired}


GPU = ["5_runs_gpu_local_storage_stress.csv", "5_runs_s3_gpu.csv", "5_runs_cedana_gpu.csv"]


@pytest.mark.parametrize("file", [*GPU, "3_runs_s3.csv"])
def test_times_alone_prove_nothing(file):
    found = fired(file)
    for identifier in ("HC-01", "HC-09", "HC-11"):
        assert found[identifier].verdict is Verdict.FLAG, identifier
    assert "HC-17" in found, "too few repeats to call one of these settings the best"


@pytest.mark.parametrize("file", ["5_runs_s3_gpu.csv", "5_runs_cedana_gpu.csv"])
def test_the_published_best_is_tied(file):
    assert "is tied with" in fired(file)["HC-18"].evidence


def test_the_published_best_on_s3_is_tied_with_the_settings_that_the_exact_test_names():
    evidence = fired("5_runs_s3_gpu.csv")["HC-18"].evidence
    assert evidence.startswith("tar × 8 is tied with")
    for setting in ("lz4 × 8", "lz4 × 4", "none × 8"):
        assert setting in evidence


def test_settings_that_timed_out_are_missed():
    found = fired("3_runs_s3.csv")["HC-20"]
    assert found.verdict is Verdict.FLAG
    assert "24 trials of 60" in found.evidence
    for file in GPU:
        assert "HC-20" not in fired(file)


def test_the_childrens_rate_is_that_of_the_page_cache():
    found = fired("disk_speeds")
    assert found["HC-01"].verdict is Verdict.FLAG
    for identifier in ("HC-02", "HC-03"):
        assert found[identifier].verdict is Verdict.BLOCK
        assert {phase for _, _, phase in found[identifier].blocks} == {
            *("write", "rewrite", "random_write")
        }


def test_three_promises_and_two_time_bases_in_one_figure():
    files = ("checkpoint.csv", "checkpoint_fsync.csv", "checkpoint_optimized.csv")
    found = fired(*(EXERCISE / file for file in files))
    assert found["HC-16"].verdict is Verdict.BLOCK
    assert found["HC-12"].verdict is Verdict.FLAG
    assert "torn" in found["HC-12"].evidence
